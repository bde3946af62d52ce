package project

import (
	"os"
	"path/filepath"
)

// Root is the project that a folder belongs to: the next one above it, or itself, that has a
// folder or file of agents, tools or version control, or else the folder. The user's home is
// no project of what lies below it.
func Root(dir, home string) string {
	marks := []string{".superstep", ".claude", ".opencode", ".github", ".mcp.json", ".git"}
	for at := dir; at != home; {
		for _, m := range marks {
			if _, err := os.Lstat(filepath.Join(at, m)); err == nil {
				return at
			}
		}
		up := filepath.Dir(at)
		if up == at {
			break
		}
		at = up
	}
	return dir
}
