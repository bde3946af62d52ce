package openai

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/superstep-dev/superstep/model"
)

const maxCalls = 256 // in one turn

type callDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
}

// arguments are JSON in a string. Some servers forget the string.
type arguments string

// UnmarshalJSON implements json.Unmarshaler.
func (a *arguments) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '{' {
		*a = arguments(raw)
		return nil
	}
	return json.Unmarshal(raw, (*string)(a))
}

// calls assembles tool calls from their deltas. The protocol tells deltas of different
// calls apart by their index. Servers also leave it out or say 0 for all (Ollama),
// leave ids out or use one twice, and repeat id and name in every delta. A mistake in
// telling them apart cannot go unnoticed: what two objects of arguments make together
// is never an object.
type calls struct {
	list []*call
	tick int // of the chunk being read
}

type call struct {
	index    *int
	id, name string
	args     []byte
	balance  balance // of args
	tick     int     // of the last chunk with a delta of the call
}

// add takes a delta. first says that it is the first one of its chunk.
func (c *calls) add(d *callDelta, first bool) error {
	if first {
		c.tick++
	}
	target := c.find(d)
	if target == nil || c.startsAnother(target, d) {
		if len(c.list) == maxCalls {
			return fmt.Errorf("%w: the turn has more than %d tool calls", errTooLarge, maxCalls)
		}
		target = &call{index: d.Index}
		c.list = append(c.list, target)
	}
	target.tick = c.tick
	if target.id == "" {
		target.id = d.ID
	}
	if d.Function.Name != target.name && len(target.args) == 0 {
		target.name += d.Function.Name
	}
	target.args = append(target.args, d.Function.Arguments...)
	target.balance.feed([]byte(d.Function.Arguments))
	return nil
}

// find returns the call a delta seems to go on with, the latest one that fits.
func (c *calls) find(d *callDelta) *call {
	for i := len(c.list) - 1; i >= 0; i-- {
		got := c.list[i]
		switch {
		case d.Index != nil:
			if got.index != nil && *got.index == *d.Index {
				return got
			}
		case d.ID != "":
			if got.id == d.ID {
				return got
			}
		default:
			return got
		}
	}
	return nil
}

// startsAnother says whether a delta that seems to go on with a call begins a new one.
// Only a delta with a name can.
func (c *calls) startsAnother(got *call, d *callDelta) bool {
	switch {
	case d.Function.Name == "":
		return false
	case d.ID != "" && got.id != "" && d.ID != got.id:
		return true
	case got.tick == c.tick: // two of one chunk
		return true
	case !got.balance.closed() || d.Function.Arguments == "":
		return false
	default: // a whole call and one more, and nothing else to tell them by
		return d.Index == nil || d.ID == ""
	}
}

// finish returns the calls as parts, or an error if one of them is not whole.
func (c *calls) finish(req *model.Request) ([]model.Part, error) {
	taken := map[string]bool{}
	for _, msg := range req.Messages {
		for _, old := range msg.Calls() {
			taken[old.ID] = true
		}
	}
	var parts []model.Part
	for i, got := range c.list {
		if got.name == "" {
			return nil, malformedError(fmt.Sprintf("tool call %d has no name", i+1))
		}
		args := bytes.TrimSpace(got.args)
		if len(args) == 0 || string(args) == "null" {
			args = []byte("{}")
		}
		if err := checkObject(args); err != nil {
			return nil, malformedError(fmt.Sprintf("the arguments of the call to %q are not a JSON object: %v", clip(got.name, 60), err))
		}
		id := unusedID(got.id, taken, req, i)
		taken[id] = true
		parts = append(parts, model.Part{Kind: model.ToolCall, Call: &model.Call{ID: id, Name: got.name, Args: args}})
	}
	return parts, nil
}

// unusedID returns id, made different from those taken. A missing one is derived from
// the turn, so that the same turn gets the same again.
func unusedID(id string, taken map[string]bool, req *model.Request, i int) string {
	if id == "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d", req.Key, len(req.Messages), i))
		id = "call_" + hex.EncodeToString(sum[:12])
	}
	for n, base := 2, id; taken[id]; n++ {
		id = fmt.Sprintf("%s_%d", base, n)
	}
	return id
}

// checkObject accepts a JSON object that means one thing only: names that occur twice
// in an object would let two readers see different arguments.
func checkObject(raw []byte) error {
	if !json.Valid(raw) {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			return err
		}
	}
	if raw[0] != '{' {
		return fmt.Errorf("it is %s", clip(string(raw), 40))
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	type level struct {
		names map[string]bool // nil in arrays
		value bool            // a name was read, its value comes next
	}
	var stack []*level
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var top *level
		if len(stack) > 0 {
			top = stack[len(stack)-1]
		}
		if name, ok := token.(string); ok && top != nil && top.names != nil && !top.value {
			if top.names[name] {
				return fmt.Errorf("the name %q occurs twice", clip(strings.ToValidUTF8(name, "?"), 60))
			}
			top.names[name], top.value = true, true
			continue
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, &level{names: map[string]bool{}})
		case json.Delim('['):
			stack = append(stack, &level{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
			if len(stack) > 0 {
				stack[len(stack)-1].value = false
			}
		default:
			top.value = false
		}
	}
}
