package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// errIncomplete is the error of [Collect] for a stream that ended without
// an error and without a stop.
var errIncomplete = errors.New("the stream ended before the model was done")

// Collect ranges over a stream and returns the turn it adds up to. Adjacent deltas of text, and of
// reasoning, become one part, which ends where a delta has an Opaque; the order is kept and several
// usages are added up. On an error, or if a stream breaks the contract of [Model], the response is
// nil, whatever had arrived.
//
// If onPart is non-nil, it is called with every part as it arrives, before the next one is
// requested, on the calling goroutine. If Collect fails, discard these parts.
func Collect(seq iter.Seq2[Part, error], onPart func(Part)) (*Response, error) {
	c := collector{response: Response{Message: Message{Role: Assistant}}}
	for part, err := range seq {
		if err != nil {
			return nil, err
		}
		if err := c.add(part); err != nil {
			return nil, err
		}
		if onPart != nil {
			onPart(part)
		}
	}
	if c.response.Stop == "" {
		return nil, errIncomplete
	}
	c.flush()
	return &c.response, nil
}

type collector struct {
	response Response
	kind     PartKind // of the deltas in text
	text     strings.Builder
	opaque   *Opaque // with which the deltas in text end
}

func (c *collector) add(p Part) error {
	if c.response.Stop != "" && p.Kind != UsagePart {
		return fmt.Errorf("the stream went on after its stop, with a part of kind %q", p.Kind)
	}
	switch p.Kind {
	case Text, Reasoning:
		if p.Kind != c.kind {
			c.flush()
			c.kind = p.Kind
		}
		c.text.WriteString(p.Text)
		if p.Opaque != nil {
			c.opaque = p.Opaque
			c.flush()
		}
	case ToolCall:
		if p.Call == nil || p.Call.ID == "" || p.Call.Name == "" {
			return errors.New("the stream has a tool call without an id or a name")
		}
		if !json.Valid(p.Call.Args) {
			return fmt.Errorf("the arguments of the call to %q are not valid JSON", p.Call.Name)
		}
		c.flush()
		c.response.Message.Parts = append(c.response.Message.Parts, p)
	case UsagePart:
		if p.Usage == nil {
			return errors.New("the stream has a usage part without a usage")
		}
		c.response.Usage = c.response.Usage.Add(*p.Usage)
	case Stop:
		if p.Stop == "" {
			return errors.New("the stream has a stop part without a code")
		}
		c.response.Stop = p.Stop
	default:
		return fmt.Errorf("the stream has a part of kind %q, which streams do not have", p.Kind)
	}
	return nil
}

// flush turns the gathered deltas into a part.
func (c *collector) flush() {
	if c.text.Len() > 0 || c.opaque != nil {
		c.response.Message.Parts = append(c.response.Message.Parts, Part{Kind: c.kind, Text: c.text.String(), Opaque: c.opaque})
		c.text.Reset()
	}
	c.kind, c.opaque = "", nil
}
