package script_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/script"
)

func Example() {
	root, err := os.MkdirTemp("", "project")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	dir := filepath.Join(root, ".superstep", "tools")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err)
	}
	err = os.WriteFile(filepath.Join(dir, "greet.ts"), []byte(`
import { tool } from "@superstep/plugin";

export default tool({
  description: "Greets somebody",
  args: { who: tool.schema.string().describe("whom to greet") },
  effect: "pure",
  async execute(args) {
    return "Hello " + args.who + "!";
  },
});
`), 0o600)
	if err != nil {
		panic(err)
	}

	found, problems := script.Discover(dir, script.Scope{Name: "project"})
	fmt.Println(found[0].Names, problems) // nothing has run; found[0].Digest is what a user trusts

	// With Environ: os.Environ() it would run in node, bun or deno.
	tools, problems := script.LoadAll(context.Background(), found, &script.Options{Reserved: []string{"bash"}})
	fmt.Println(len(tools), problems)
	set, err := tool.NewSet(tools...)
	if err != nil {
		panic(err)
	}
	fmt.Println(set.Call(context.Background(), "greet", &tool.Call{Args: []byte(`{"who": "world"}`)}).Text)
	// Output:
	// [greet] []
	// 1 []
	// Hello world!
}
