//go:build unix

package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// linked reports whether a file has other names (hard links), unless it is in a folder where package managers and build
// tools link files.
func linked(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Nlink < 2 {
		return false
	}
	return !slices.ContainsFunc(strings.Split(filepath.ToSlash(path), "/"), func(name string) bool {
		switch name {
		case "node_modules", ".pnpm-store", ".venv", "venv", "site-packages", "target", ".git":
			return true
		}
		return false
	})
}
