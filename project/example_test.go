package project_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/superstep-dev/superstep/catalog/trust"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/offline"
	"github.com/superstep-dev/superstep/project"
)

// A program of your own gets the agents and tools that a folder and its user have. What the folder
// brings along is there once its user agreed to it.
func Example() {
	dir, err := os.MkdirTemp("", "project")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	folder, home := filepath.Join(dir, "folder"), filepath.Join(dir, "home")
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

	p, err := project.Open(&project.Options{
		Dir: folder, Home: home, Environ: os.Environ(),
		Models: func(string) (model.Model, error) { return offline.New(), nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var items []trust.Item
	for _, s := range p.Items() {
		fmt.Println(s.Item, s.State)
		items = append(items, s.Item)
	}
	if err := p.Trust(items); err != nil { // a program that has asked its user
		fmt.Println(err)
		return
	}

	session, err := p.Start(context.Background(), "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = session.Close() }()
	reviewer, err := session.Agent("reviewer", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(reviewer.Name, reviewer.Tools.Names())
	// Output:
	// agent reviewer (.claude/agents/reviewer.md) new
	// reviewer [read_file grep]
}
