package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/strict"
)

// A wireError reports a refused message. It ends the connection.
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

// maxOpen is how many requests of a server may wait for our answers at once.
const maxOpen = 64

// An open counts the requests of a server that were read and not answered.
type open struct{ n atomic.Int32 }

// read counts a message that was read, and refuses a request too many.
func (o *open) read(msg jsonrpc.Message) *wireError {
	if r, ok := msg.(*jsonrpc.Request); ok && r.IsCall() && o.n.Add(1) > maxOpen {
		return &wireError{what: fmt.Sprintf("has more than %d requests open at once", maxOpen), fix: "report it to whoever maintains the server"}
	}
	return nil
}

// decodeMessage reads one message of JSON-RPC. It is stricter than the SDK, which uses the last of
// two equal keys: an ambiguous message is refused.
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
	start := bytes.TrimLeft(data, " \t\r\n")
	switch {
	case bytes.HasPrefix(start, []byte("[")):
		return badMessage("it is a batch, which the protocol no longer has")
	case !bytes.HasPrefix(start, []byte("{")) && utf8.Valid(data):
		return &wireError{
			what: fmt.Sprintf("wrote something other than a message: %s", clean.Quote(oneLine(string(data[:min(len(data), 400)]), 80))),
			fix:  "a server writes messages to its standard output and all else to its standard error",
		}
	}
	v, err := strict.Decode(data)
	if err != nil {
		return badMessage("%s", oneLine(err.Error(), 200))
	}
	m, _ := v.(map[string]any)
	for key := range m {
		for _, known := range []string{"jsonrpc", "id", "method", "params", "result", "error"} {
			if key != known && strings.EqualFold(key, known) {
				return badMessage("the key %s is spelled in another case", clean.Quote(key))
			}
		}
	}
	if m["jsonrpc"] != "2.0" {
		return badMessage("jsonrpc is not 2.0")
	}
	switch id := m["id"].(type) {
	case nil, string:
	case json.Number:
		if _, err := id.Int64(); err != nil {
			return badMessage("the id is not a whole number")
		}
	default:
		return badMessage("the id is neither text nor a number")
	}
	called, method := m["method"]
	if _, ok := called.(string); method && !ok {
		return badMessage("the method is not text")
	}
	_, result := m["result"]
	fault := m["error"] != nil
	if method && (result || fault) || !method && m["params"] != nil || result && fault {
		return badMessage("it is a request and a response at once")
	}
	return nil
}
