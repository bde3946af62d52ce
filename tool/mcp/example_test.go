package mcp_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/superstep-dev/superstep/tool/mcp"
)

// What a project's folder names is shown before anybody is asked to trust it, and is not started.
func ExampleFind() {
	project, err := os.MkdirTemp("", "project")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(project) }()
	config := `{"mcpServers": {"tickets": {"command": "node", "args": ["tickets.js", "--team=${TEAM:-core}"], "env": {"TOKEN": "${TICKETS_TOKEN}"}}}}`
	if err := os.WriteFile(filepath.Join(project, ".mcp.json"), []byte(config), 0o600); err != nil {
		panic(err)
	}
	o := &mcp.Options{Project: project}
	for _, s := range mcp.Find(o).Servers {
		fmt.Println(s.Name, "would run:", s.CommandLine())
		fmt.Println("with the variables", s.Variables())
		_, err := mcp.Connect(context.Background(), s, o)
		fmt.Println(err != nil)
	}
	// Output:
	// tickets would run: node tickets.js --team=${TEAM:-core}
	// with the variables [TEAM TICKETS_TOKEN]
	// true
}
