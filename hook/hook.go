// Package hook puts functions around what runs do: calls of models, calls of tools, and nodes. Hooks observe, wait, refuse, or answer in place of what they
// are around. They are values: an engine has them in its options, and so does a host.
package hook

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// A Hook is called around model calls, tool calls and nodes. A nil function leaves them alone.
//
// Each function calls next, at most once, to continue, and returns what next returned, or something else. If it does not call next, what it returns stands in
// for the call. It is called at several places at once.
//
// The log records what the hooks return. So a resumed run takes what is recorded and calls no hook for it, and a replay calls Node alone. Node must
// therefore depend on nothing but its arguments; whatever else it does is an effect, see [graph.Do].
//
// [graph.Do]: https://pkg.go.dev/github.com/superstep-dev/superstep/graph#Do
type Hook struct {
	// Model is called around a turn of a model, after the checks of budgets and rate limits. It may give next a changed copy of the request. What the
	// model says is shown live; what Model returns counts. It is not called for external agents, which call their models themselves.
	Model func(ctx context.Context, at *At, req *model.Request, next ModelFunc) (*model.Response, error)
	// Tool is called around a tool call that is permitted, by an agent or by a step, once per attempt. Arguments are as the user permitted them, and
	// cannot be changed. A result with Error set is for the agent; an error ends the task. Errors of next are to be passed on.
	Tool func(ctx context.Context, at *At, args json.RawMessage, next ToolFunc) (tool.Result, error)
	// Node is called around each attempt of a node, with the state that the node is given. It returns an update of the graph's own type.
	Node func(ctx context.Context, at *At, state any, next NodeFunc) (update any, err error)
}

// A ModelFunc continues with a turn of a model.
type ModelFunc func(ctx context.Context, req *model.Request) (*model.Response, error)

// A ToolFunc continues with a call of a tool.
type ToolFunc func(ctx context.Context) (tool.Result, error)

// A NodeFunc continues with a node, and returns its update.
type NodeFunc func(ctx context.Context) (update any, err error)

// At is the place of a call in its run.
type At struct {
	Run   string // its ID, "" for a run without a log
	Path  string // of the task, "" in a run without a log
	Name  string // of the model, the tool or the node
	Agent string // that calls the model or the tool; tool.Workflow for a step that calls a tool itself, "" for a node
}

type key struct{}

// With returns a context in which graphs and agents call the hooks, in place of those that ctx has: a run that is started within another
// has its hooks once. The first hook is the outermost. Engines do it for their runs; it is for programs that run a graph or an agent themselves.
func With(ctx context.Context, hooks ...Hook) context.Context {
	if len(hooks) == 0 {
		return ctx
	}
	return context.WithValue(ctx, key{}, hooks)
}

func of(ctx context.Context) []Hook {
	hooks, _ := ctx.Value(key{}).([]Hook)
	return hooks
}

// Model calls next within the hooks of ctx. It is for code that calls a model itself.
func Model(ctx context.Context, at *At, req *model.Request, next ModelFunc) (*model.Response, error) {
	for _, h := range slices.Backward(of(ctx)) {
		if inner := next; h.Model != nil {
			next = func(ctx context.Context, req *model.Request) (*model.Response, error) {
				return h.Model(ctx, at, req, inner)
			}
		}
	}
	return next(ctx, req)
}

// Tool calls next within the hooks of ctx. It is for code that calls a tool itself.
func Tool(ctx context.Context, at *At, args json.RawMessage, next ToolFunc) (tool.Result, error) {
	for _, h := range slices.Backward(of(ctx)) {
		if inner := next; h.Tool != nil {
			next = func(ctx context.Context) (tool.Result, error) { return h.Tool(ctx, at, slices.Clone(args), inner) }
		}
	}
	return next(ctx)
}

// Node calls next within the hooks of ctx. Graphs call it.
func Node(ctx context.Context, at *At, state any, next NodeFunc) (update any, err error) {
	for _, h := range slices.Backward(of(ctx)) {
		if inner := next; h.Node != nil {
			next = func(ctx context.Context) (any, error) { return h.Node(ctx, at, state, inner) }
		}
	}
	return next(ctx)
}

// Around reports whether ctx has a hook for nodes.
func Around(ctx context.Context) bool {
	return slices.ContainsFunc(of(ctx), func(h Hook) bool { return h.Node != nil })
}
