// Package eventstest checks events against their schema.
package eventstest

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/superstep-dev/superstep/internal/events"
)

// A Checker checks the streams of events that a command has printed.
type Checker struct{ schema *jsonschema.Schema }

// New returns a checker. It refuses fields that the schema does not describe, which other readers skip.
func New() (*Checker, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(events.Schema()))
	if err != nil {
		return nil, err
	}
	root := doc.(map[string]any)
	strict(root["$defs"])
	root["additionalProperties"] = false
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("events.json", doc); err != nil {
		return nil, err
	}
	schema, err := c.Compile("events.json")
	return &Checker{schema}, err
}

// strict makes objects in a schema refuse undescribed fields.
func strict(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["properties"].(map[string]any); ok && v["type"] == "object" {
			v["additionalProperties"] = false
		}
		for _, in := range v {
			strict(in)
		}
	case []any:
		for _, in := range v {
			strict(in)
		}
	}
}

// One checks an event.
func (c *Checker) One(line []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
	if err != nil {
		return err
	}
	if err := c.schema.Validate(v); err != nil {
		return fmt.Errorf("%s: %w", bytes.TrimSpace(line), err)
	}
	return nil
}

// All checks the streams of events in a text, and returns how many events they have. Other lines are none of its business.
func (c *Checker) All(text []byte) (count int, err error) {
	var n int
	var seq uint64
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte(`{"v":`)) || line[len(line)-1] != '\n' { // the last one may be cut off
			continue
		}
		if err := c.One(line); err != nil {
			return count, err
		}
		var e struct {
			N   int
			Seq uint64
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return count, err
		}
		if e.N == 1 { // of the next stream
			n, seq = 0, 0
		}
		if n++; e.N != n {
			return count, fmt.Errorf("%s: line %d of the stream", bytes.TrimSpace(line), n)
		}
		if e.Seq != 0 && e.Seq <= seq {
			return count, fmt.Errorf("%s: comes after seq %d", bytes.TrimSpace(line), seq)
		}
		seq = max(seq, e.Seq)
		count++
	}
	return count, nil
}
