package tool_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/tool"
)

func Example() {
	type sum struct {
		A int `json:"a" jsonschema:"the first number"`
		B int `json:"b" jsonschema:"the second number"`
	}
	add, err := tool.New("add", "Add two numbers.", func(_ context.Context, in sum) (string, error) {
		return fmt.Sprint(in.A + in.B), nil
	}, &tool.Options{Effect: tool.Pure})
	if err != nil {
		panic(err)
	}
	set, err := tool.NewSet(add)
	if err != nil {
		panic(err)
	}
	for _, args := range []string{`{"a":1,"b":2}`, `{"a":"1","c":2}`} {
		r := set.Call(context.Background(), "add", &tool.Call{Args: json.RawMessage(args)})
		fmt.Println(r.Text)
	}
	// Output:
	// 3
	// arguments do not fit the tool's schema; correct them and call again:
	// - /b: missing; it is required
	// - /a: is the string "1", want integer
	// - /c: unknown; known are: a, b
}
