package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A wireError is a message that is refused, which ends the connection it came by.
type wireError struct {
	what, fix string
	status    int // of an answer by HTTP, if it is that
}

func (e *wireError) Error() string { return e.what }

func badMessage(format string, args ...any) *wireError {
	return &wireError{what: "sent a message that is refused: " + fmt.Sprintf(format, args...), fix: "report it to whoever maintains the server"}
}

var errTooLarge = &wireError{
	what: fmt.Sprintf("sent a message of more than %d MiB", maxMessage>>20),
	fix:  "ask it for less at a time",
}

// decodeMessage reads one message of JSON-RPC. It is stricter than the SDK, which takes the last of
// two keys of one name: a message that two readers could understand differently is refused.
func decodeMessage(data []byte) (jsonrpc.Message, *wireError) {
	if len(data) > maxMessage {
		return nil, errTooLarge
	}
	if err := checkMessage(data); err != nil {
		return nil, err
	}
	msg, err := jsonrpc.DecodeMessage(data)
	if err != nil {
		return nil, badMessage("%s", oneLine(err.Error(), 200))
	}
	return msg, nil
}

// checkMessage refuses what is not one JSON object of JSON-RPC 2.0 with each key once.
func checkMessage(data []byte) *wireError {
	if !utf8.Valid(data) {
		return badMessage("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		if t == json.Delim('[') {
			return badMessage("it is a batch, which the protocol no longer has")
		}
		return &wireError{
			what: fmt.Sprintf("wrote something other than a message: %s", quoted(oneLine(string(data[:min(len(data), 400)]), 80))),
			fix:  "a server writes messages to its standard output and all else to its standard error",
		}
	}
	var method, params, result, fault bool
	err := eachKey(d, "", 0, func(key string, value json.Token) error {
		switch key {
		case "jsonrpc":
			if value != "2.0" {
				return errors.New("jsonrpc is not 2.0")
			}
		case "id":
			if n, ok := value.(json.Number); ok {
				if _, err := n.Int64(); err != nil {
					return errors.New("the id is not a whole number")
				}
			} else if _, ok := value.(string); !ok && value != nil {
				return errors.New("the id is neither text nor a number")
			}
		case "method":
			if _, ok := value.(string); !ok {
				return errors.New("the method is not text")
			}
			method = true
		case "params":
			params = value != nil
		case "result":
			result = true
		case "error":
			fault = value != nil
		default:
			for _, known := range []string{"jsonrpc", "id", "method", "params", "result", "error"} {
				if strings.EqualFold(key, known) {
					return fmt.Errorf("the key %s is spelled in another case", quoted(key))
				}
			}
		}
		return nil
	})
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("there is more after it")
		}
	}
	switch {
	case err != nil:
		return badMessage("%s", oneLine(err.Error(), 200))
	case method && (result || fault), !method && params, result && fault:
		return badMessage("it is a request and a response at once")
	}
	return nil
}

// eachKey reads the rest of an object, or of an array, whose keys are not told.
func eachKey(d *json.Decoder, at string, depth int, tell func(key string, value json.Token) error) error {
	if depth > maxDepth {
		return fmt.Errorf("nested more than %d deep", maxDepth)
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return errors.New("it is not JSON")
		}
		key, ok := t.(string)
		if !ok {
			return errors.New("it is not JSON")
		}
		if seen[key] {
			return fmt.Errorf("the key %s is given twice", quoted(at+"/"+key))
		}
		seen[key] = true
		value, err := d.Token()
		if err != nil {
			return errors.New("it is not JSON")
		}
		if tell != nil {
			if err := tell(key, value); err != nil {
				return err
			}
		}
		if err := inner(d, value, at+"/"+key, depth); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return notJSON(err)
}

func inner(d *json.Decoder, t json.Token, at string, depth int) error {
	switch t {
	case json.Delim('{'):
		return eachKey(d, at, depth+1, nil)
	case json.Delim('['):
		if depth >= maxDepth {
			return fmt.Errorf("nested more than %d deep", maxDepth)
		}
		for d.More() {
			t, err := d.Token()
			if err != nil {
				return notJSON(err)
			}
			if err := inner(d, t, at, depth+1); err != nil {
				return err
			}
		}
		_, err := d.Token()
		return notJSON(err)
	}
	return nil
}

func notJSON(err error) error {
	if err != nil {
		return errors.New("it is not JSON")
	}
	return nil
}
