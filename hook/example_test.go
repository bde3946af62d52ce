package hook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/hook"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// logging writes a line for each tool call.
func logging() hook.Hook {
	return hook.Hook{Tool: func(ctx context.Context, at *hook.At, args json.RawMessage, next hook.ToolFunc) (tool.Result, error) {
		res, err := next(ctx)
		fmt.Printf("%s %s: %s\n", at.Name, args, res.Text)
		return res, err
	}}
}

// guardrail refuses calls that mention a word. The agent reads why.
func guardrail(word string) hook.Hook {
	return hook.Hook{Tool: func(ctx context.Context, _ *hook.At, args json.RawMessage, next hook.ToolFunc) (tool.Result, error) {
		if strings.Contains(string(args), word) {
			return tool.Failed("calls do not mention " + word), nil
		}
		return next(ctx)
	}}
}

// spaced lets a turn of a model begin only every so often, in this process.
func spaced(every time.Duration) hook.Hook {
	turns := make(chan struct{}, 1)
	return hook.Hook{Model: func(ctx context.Context, _ *hook.At, req *model.Request, next hook.ModelFunc) (*model.Response, error) {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		time.AfterFunc(every, func() { <-turns })
		return next(ctx, req)
	}}
}

// An engine gets hooks by its options, a host by its configuration. Here they are around a call that the program makes itself.
func Example() {
	ctx := hook.With(context.Background(), logging(), guardrail("payroll"), spaced(time.Second))
	for _, file := range []string{"notes.md", "payroll.md"} {
		args, _ := json.Marshal(map[string]string{"path": file})
		_, _ = hook.Tool(ctx, &hook.At{Name: "read_file"}, args, func(context.Context) (tool.Result, error) {
			return tool.Result{Text: "the text of " + file}, nil
		})
	}
	// Output:
	// read_file {"path":"notes.md"}: the text of notes.md
	// read_file {"path":"payroll.md"}: calls do not mention payroll
}
