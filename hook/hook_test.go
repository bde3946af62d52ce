package hook_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/superstep-dev/superstep/hook"
	"github.com/superstep-dev/superstep/tool"
)

// A run that is started within another one, as by a tool, has its hooks once.
func TestWithinAnotherRun(t *testing.T) {
	n := 0
	h := hook.Hook{Tool: func(ctx context.Context, _ *hook.At, _ json.RawMessage, next hook.ToolFunc) (tool.Result, error) {
		n++
		return next(ctx)
	}}
	ctx := hook.With(hook.With(t.Context(), h), h)
	if _, err := hook.Tool(ctx, &hook.At{}, nil, func(context.Context) (tool.Result, error) { return tool.Result{}, nil }); err != nil || n != 1 {
		t.Errorf("it was called %d times, %v", n, err)
	}
}
