package builtin

import (
	"context"
	"strings"

	"github.com/superstep-dev/superstep/tool"
)

// Think returns the tool "think", which records a reflection and changes nothing.
func Think() *tool.Tool {
	type args struct {
		Reflection string `json:"reflection" jsonschema:"your current thinking: what you know, what is missing, what to do next"`
	}
	return made(tool.New("think", "Stop and reflect before a decision. It looks nothing up and changes nothing; the reflection is recorded.",
		func(_ context.Context, in args) (string, error) {
			return "Reflection recorded. Continue on its basis:\n\n> " + strings.ReplaceAll(in.Reflection, "\n", "\n> "), nil
		}, &tool.Options{Effect: tool.Pure}))
}
