package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/superstep-dev/superstep/host"
)

// A program of your own gets the agents, tools and recipes that a folder and its user have. What the folder has is there once its
// user trusts it.
func Example() {
	dir, err := os.MkdirTemp("", "host")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	folder := filepath.Join(dir, "folder")
	agents := filepath.Join(folder, ".claude", "agents")
	if err := os.MkdirAll(agents, 0o700); err != nil {
		fmt.Println(err)
		return
	}
	text := "---\nname: reviewer\ndescription: Reviews code\ntools: Read, Grep\n---\nYou review code.\n"
	if err := os.WriteFile(filepath.Join(agents, "reviewer.md"), []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	h, err := host.Open(ctx, &host.Config{Dir: folder, Env: func(name string) string { // a user of their own, for the example
		return map[string]string{"HOME": dir, "XDG_CONFIG_HOME": filepath.Join(dir, "config")}[name]
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = h.Close() }() // nothing was written
	list, err := h.Decisions()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range list {
		fmt.Println(d.Kind, d.Name, d.Path, d.State)
	}
	if err := h.Trust(list); err != nil { // a program that has asked its user
		fmt.Println(err)
		return
	}
	reviewer, err := h.Show(host.Agents, "reviewer")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(reviewer.Name, reviewer.State, reviewer.Tools)
	// Output:
	// agent reviewer .claude/agents/reviewer.md not trusted
	// reviewer usable [read_file grep]
}
