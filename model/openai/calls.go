package openai

import (
	"encoding/json"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/wire"
)

type callDelta struct {
	Index    *wire.Count `json:"index"`
	ID       wire.Word   `json:"id"`
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

// calls assembles tool calls from their deltas. The protocol tells deltas of different calls apart
// by their index. Servers also leave it out or say 0 for all (Ollama), leave ids out or use one
// twice, and repeat id and name in every delta. Mixing up two calls is always detected: two
// argument objects joined together are never one valid object.
type calls struct {
	list []*call
	tick int // of the chunk being read
}

type call struct {
	index    *wire.Count
	id, name string
	args     []byte
	balance  wire.Balance // of args
	tick     int          // of the last chunk with a delta of the call
}

// add adds a delta. first is set for the first delta of its chunk.
func (c *calls) add(d *callDelta, first bool) error {
	if first {
		c.tick++
	}
	target := c.find(d)
	if target == nil || c.startsAnother(target, d) {
		if len(c.list) == wire.MaxCalls {
			return wire.TooManyCalls()
		}
		target = &call{index: d.Index}
		c.list = append(c.list, target)
	}
	target.tick = c.tick
	if target.id != "" && target.id == string(d.ID) && target.balance.Closed() && string(target.args) == string(d.Function.Arguments) {
		return nil // some servers repeat the whole call at its end
	}
	if target.id == "" {
		target.id = string(d.ID)
	}
	if d.Function.Name != target.name && (len(target.args) == 0 || target.name == "") {
		target.name += d.Function.Name
	}
	target.args = append(target.args, d.Function.Arguments...)
	target.balance.Feed([]byte(d.Function.Arguments))
	return nil
}

// find returns the call that a delta seems to continue: the latest one that fits.
func (c *calls) find(d *callDelta) *call {
	for i := len(c.list) - 1; i >= 0; i-- {
		got := c.list[i]
		switch {
		case d.Index != nil:
			if got.index != nil && *got.index == *d.Index {
				return got
			}
		case d.ID != "":
			if got.id == string(d.ID) {
				return got
			}
		default:
			return got
		}
	}
	if n := len(c.list); n > 0 && d.ID == "" && d.Function.Name == "" { // a piece with the index of no call
		return c.list[n-1]
	}
	return nil
}

// startsAnother reports whether a delta that seems to continue a call begins a new one. Only a
// delta with a name can.
func (c *calls) startsAnother(got *call, d *callDelta) bool {
	switch {
	case d.Function.Name == "":
		return false
	case d.ID != "" && got.id != "" && string(d.ID) != got.id:
		return true
	case got.tick == c.tick: // two of one chunk
		return true
	case !got.balance.Closed() || d.Function.Arguments == "":
		return false
	default: // a whole call and one more, and nothing else to tell them by
		return d.Index == nil || d.ID == ""
	}
}

// parts returns the calls as they came, for [wire.Out.Finish] to check.
func (c *calls) parts() []model.Part {
	var parts []model.Part
	for _, got := range c.list {
		parts = append(parts, model.Part{Kind: model.ToolCall, Call: &model.Call{ID: got.id, Name: got.name, Args: got.args}})
	}
	return parts
}
