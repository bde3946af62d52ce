package project

import (
	"os"
	"path/filepath"
	"strings"
)

// repositoryOf returns the folder of the repository that a linked working tree of Git belongs to, "" if the folder is
// none. The repository has to know of it: what a project says about itself grants nothing.
func repositoryOf(dir string) string {
	text, err := readFile(filepath.Join(dir, ".git"))
	if err != nil {
		return ""
	}
	own, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
	if !ok || !filepath.IsAbs(own) || filepath.Base(filepath.Dir(own)) != "worktrees" {
		return ""
	}
	back, err := readFile(filepath.Join(own, "gitdir"))
	if err != nil || strings.TrimSpace(string(back)) != filepath.Join(dir, ".git") {
		return ""
	}
	repository := filepath.Dir(filepath.Dir(own))
	if _, err := os.Stat(filepath.Join(repository, "objects")); err != nil {
		return ""
	}
	return repository
}
