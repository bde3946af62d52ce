package script_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/superstep-dev/superstep/internal/script"
	"github.com/superstep-dev/superstep/tool"
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
	err = errors.Join(os.WriteFile(filepath.Join(dir, "greet.tool.yaml"), []byte(`
description: Greets somebody
input:
  who: {type: string, description: whom to greet}
command: [./greet.sh]
effect: pure
`), 0o600), os.WriteFile(filepath.Join(dir, "greet.sh"), []byte("#!/bin/sh\nsed 's/.*\"who\": *\"\\([^\"]*\\)\".*/Hello \\1!/'\n"), 0o700)) //nolint:gosec // it is run
	if err != nil {
		panic(err)
	}

	found, problems := script.Discover(dir, script.Scope{Name: "project"})
	fmt.Println(found[0].Names, problems) // nothing has run; found[0].Digest is what a user trusts

	tools, problems := script.LoadAll(context.Background(), found, &script.Options{Environ: os.Environ(), Reserved: []string{"bash"}})
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
