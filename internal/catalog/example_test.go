package catalog_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/superstep-dev/superstep/internal/catalog"
)

func Example() {
	project, err := os.MkdirTemp("", "project")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(project)
	dir := filepath.Join(project, ".claude", "agents")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err)
	}
	text := `---
name: reviewer
description: Reviews changes: bugs first
tools: Read, Grep, Bash(git diff:*)
model: sonnet
---
You review changes.
`
	if err := os.WriteFile(filepath.Join(dir, "reviewer.md"), []byte(text), 0o600); err != nil {
		panic(err)
	}

	c, err := catalog.Open(&catalog.Options{Dir: project})
	if err != nil {
		panic(err)
	}
	d, listed, err := c.Definition("reviewer")
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Name, d.Model, d.Tools, d.Allow)
	fmt.Println(listed.State, "overrides", d.Overrides[0])
	for _, w := range d.Warnings {
		fmt.Printf("%d:%d %s\n", w.Line, w.Col, w.Text)
	}
	_, _, err = c.Definition("reviwer")
	fmt.Println(err)
	// Output:
	// reviewer sonnet [read_file grep bash] [bash(git diff *)]
	// not trusted overrides built in: reviewer.md
	// 3:1 the value of description is not valid YAML and was taken as plain text; put it in quotes
	// there is no agent "reviwer"; did you mean "reviewer"?
}
