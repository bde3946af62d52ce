package tool

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/strict"
)

// Options of New. Nil means the defaults.
type Options struct {
	// Effect of the tool. Defaults to "", which counts as Once.
	Effect Effect
	// Adjust, if set, may add to the inferred schema what struct tags cannot express: an enum, a
	// minimum, a default for the model to see.
	Adjust func(*jsonschema.Schema)
}

// New creates a tool from a function. The schema of its arguments is inferred from In, a
// struct: fields are named by their json tags, described by their jsonschema tags, and
// optional if marked omitempty or omitzero. Arguments are never coerced: one that is
// missing, unknown, given twice, spelled in another case or of another type is an error
// that names every such place, and run is not called.
//
// A result of type string is the tool's output as it is, any other is given as JSON. For
// a tool that needs the call itself, such as its key, use NewRaw.
func New[In, Out any](name, description string, run func(ctx context.Context, in In) (Out, error), opts *Options) (*Tool, error) {
	if run == nil {
		return nil, fmt.Errorf("tool %q: has no function", name)
	}
	return NewRaw(name, description, func(ctx context.Context, _ *Call, in In) (Out, error) { return run(ctx, in) }, opts)
}

// NewRaw is New for a function that also receives the call.
func NewRaw[In, Out any](name, description string, run func(ctx context.Context, c *Call, in In) (Out, error), opts *Options) (*Tool, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if run == nil {
		return nil, fmt.Errorf("tool %q: has no function", name)
	}
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		return nil, fmt.Errorf("tool %q: no schema can be inferred for its arguments: %w", name, err)
	}
	if o.Adjust != nil {
		o.Adjust(schema)
	}
	var check checker
	t := &Tool{Name: name, Description: description, Input: schema, Effect: o.Effect}
	t.Run = func(ctx context.Context, c *Call) (string, error) {
		var in In
		args, err := check.check(c.Args)
		if err != nil {
			return "", err
		}
		if err := into(args, &in); err != nil {
			return "", fmt.Errorf("arguments do not fit the tool: %w", err)
		}
		out, err := run(ctx, c, in)
		if err != nil {
			return "", err
		}
		if s, ok := any(out).(string); ok {
			return s, nil
		}
		b, err := json.Marshal(out)
		if err != nil {
			return "", fmt.Errorf("encode the result of %s: %w", name, err)
		}
		return string(b), nil
	}
	if check, err = t.validate(); err != nil {
		return nil, fmt.Errorf("tool %q: %w", name, err)
	}
	return t, nil
}

// into fills a struct from checked arguments. All keys match fields exactly, since others were
// refused as unknown.
func into(args map[string]any, in any) error {
	b, err := json.Marshal(args)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, in); err != nil {
		return fmt.Errorf("arguments: %w", strict.Words(b, err))
	}
	return nil
}
