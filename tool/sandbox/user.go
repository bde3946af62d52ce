package sandbox

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/procgroup"
)

// toolchainVariables say where toolchains are; commands see them as the user does.
func toolchainVariables() []string {
	return []string{"GOROOT", "GOPATH", "GOMODCACHE", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR", "PNPM_HOME", "VOLTA_HOME", "JAVA_HOME", "DENO_DIR",
		"BUN_INSTALL", "PYENV_ROOT"}
}

// userVariables returns the variables of the user's environment and configuration that commands see
// besides those they are given: where toolchains are, and by which name Git commits.
func (s *Sandbox) userVariables() []string {
	var out []string
	for _, v := range s.opt.Environ {
		if name, value, _ := strings.Cut(v, "="); slices.Contains(toolchainVariables(), name) && filepath.IsAbs(value) {
			out = append(out, v)
		}
	}
	if s.opt.Home == "" {
		return out
	}
	for _, file := range []string{".gitconfig", ".config/git/config"} {
		b, err := os.ReadFile(filepath.Join(s.opt.Home, file))
		if err != nil {
			continue
		}
		name, email := identity(b)
		if name != "" && email != "" {
			return append(out, "GIT_AUTHOR_NAME="+name, "GIT_COMMITTER_NAME="+name, "GIT_AUTHOR_EMAIL="+email, "GIT_COMMITTER_EMAIL="+email)
		}
	}
	return out
}

// identity returns user.name and user.email of a configuration of Git, "" for what it does not say in a simple way.
func identity(config []byte) (name, email string) {
	user := false
	for lines := bufio.NewScanner(bytes.NewReader(config)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			user = strings.EqualFold(line, "[user]")
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if value = strings.Trim(strings.TrimSpace(value), `"`); !user || !ok || strings.ContainsAny(value, "\"\\#;\x00") {
			continue
		}
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "name":
			name = value
		case "email":
			email = value
		}
	}
	return name, email
}

const tempPrefix = "superstep-sandbox-"

// sweep removes what processes left that were killed: their temporary folders.
func sweep(dir string) {
	all, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
	if err != nil {
		return
	}
	for _, name := range all {
		text, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(name), tempPrefix), "-")
		pid, err := strconv.Atoi(text)
		info, serr := os.Lstat(name)
		if errors.Join(err, serr) != nil || !info.IsDir() || !ours(info) || time.Since(info.ModTime()) < time.Hour || procgroup.Alive(pid) {
			continue
		}
		_ = removeAll(name) // or the next start does
	}
}
