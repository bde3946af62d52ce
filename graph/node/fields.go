package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/graph"
)

// Fields returns a function that makes one type from another, by the names of their fields in JSON: for the way into a graph.Sub or a graph.Call and out of
// it. Each name of paths is a field of To, and gets what its path finds in From, as in [Args]. A field whose path is missing keeps its zero value. A field
// that To does not have, or a value that does not fit its type, is an error of the function.
func Fields[From, To any](paths map[string]string) func(From) (To, error) {
	return func(from From) (to To, err error) {
		v, err := decoded(from)
		if err != nil {
			return to, err
		}
		fields, missing := map[string]any{}, map[string]any{}
		for name, path := range paths {
			if found, ok := at(v, path); ok {
				fields[name] = found
			} else {
				missing[name] = nil
			}
		}
		var unused To
		if err = fill(&to, fields); err == nil {
			err = fill(&unused, missing)
		}
		if err != nil {
			err = fmt.Errorf("the fields of a %T: %w", to, err)
		}
		return to, err
	}
}

// fill sets fields of a value, all of which it has to have.
func fill(into any, fields map[string]any) error {
	b, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// Sent returns a node whose tasks see what they were sent, see graph.Send, as a part of the state: put returns the state with it. Such an agent has the
// argument in its prompt, such a tool in its arguments, and such a sub-graph on its way in. A task that was sent nothing fails.
func Sent[S, U, A any](n graph.Node[S, U], put func(S, A) (S, error)) graph.Node[S, U] {
	if put == nil {
		n.Err = missing("function for what is sent", true)
		return n
	}
	run := n.Run
	n.Run = func(ctx context.Context, t *graph.Task, s S) (u U, err error) {
		var sent A
		if err := t.Arg(&sent); err != nil {
			return u, err
		}
		if s, err = put(s, sent); err != nil {
			return u, err
		}
		return run(ctx, t, s)
	}
	return n
}
