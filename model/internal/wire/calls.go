package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/model"
)

// MaxCalls is how many tool calls one turn may have.
const MaxCalls = 256

// TooManyCalls returns the error of a turn that has more than [MaxCalls].
func TooManyCalls() error {
	return fmt.Errorf("%w: the turn has more than %d tool calls", errTooLarge, MaxCalls)
}

// checkCalls returns the parts with calls that are whole and have ids that nothing else in the
// conversation has, and how many calls there are, even if one of them is not whole.
func (o *Out) checkCalls(held []model.Part) (parts []model.Part, calls int, err error) {
	taken := map[string]bool{}
	for _, msg := range o.request.Messages {
		for _, old := range msg.Calls() {
			taken[old.ID] = true
		}
	}
	for _, p := range held {
		if p.Kind != model.ToolCall {
			parts = append(parts, p)
			continue
		}
		if calls++; calls > MaxCalls && err == nil {
			err = TooManyCalls()
		}
		if err != nil {
			continue
		}
		call := *p.Call
		if call.Name == "" {
			err = BadCall(fmt.Sprintf("tool call %d has no name", calls))
			continue
		}
		call.Args = mend(call.Args)
		if len(call.Args) == 0 || string(call.Args) == "null" {
			call.Args = []byte("{}")
		}
		if bad := checkObject(call.Args); bad != nil {
			err = BadCall(fmt.Sprintf("the arguments of the call to %q are not a JSON object: %v", Clip(call.Name, 60), bad))
			continue
		}
		call.ID = o.unusedID(call.ID, taken, calls-1)
		taken[call.ID] = true
		p.Call = &call
		parts = append(parts, p)
	}
	return parts, calls, err
}

// unusedID returns id, made different from those taken. A missing one is derived from
// the turn, so that the same turn gets the same again.
func (o *Out) unusedID(id string, taken map[string]bool, i int) string {
	if id == "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d", o.request.Key, len(o.request.Messages), i))
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
			return strict.Words(raw, err)
		}
	}
	if raw[0] != '{' {
		return fmt.Errorf("it is %s", Clip(string(raw), 40))
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
				return fmt.Errorf("the name %q occurs twice", Clip(strings.ToValidUTF8(name, "?"), 60))
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
