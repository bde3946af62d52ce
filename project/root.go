package project

import (
	"os"
	"path/filepath"

	"github.com/superstep-dev/superstep/catalog"
)

// Root is the project that a folder belongs to: the next one above it, or itself, that has a
// folder or file of agents, tools or version control, or else the folder. The user's home, the root of the
// file system and folders that everybody may write to, such as /tmp, are no project of what lies below them.
func Root(dir, home string) string {
	marks := catalog.RootMarks()
	for at := dir; at != home; {
		for _, m := range marks {
			if _, err := os.Lstat(filepath.Join(at, m)); err == nil && (at == dir || !common(at)) {
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

// common reports whether a folder belongs to nobody's project.
func common(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.Mode()&os.ModeSticky != 0 || filepath.Dir(dir) == dir
}
