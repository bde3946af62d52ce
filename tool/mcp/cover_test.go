package mcp_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/tool/mcp"
)

// What a server loads besides the files that it names counts too.
func TestDigestCoversWhatIsLoaded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		server mcp.Server
		files  []string
		change string
		same   bool
		covers string
	}{
		{"module", mcp.Server{Command: "node", Args: []string{"./srv/srv.mjs"}}, []string{"srv/srv.mjs", "srv/lib.mjs"}, "srv/lib.mjs", false, "covers ./srv (2 files); not what node loads from elsewhere"},
		{"new file", mcp.Server{Command: "node", Args: []string{"./srv/srv.mjs"}}, []string{"srv/srv.mjs"}, "srv/package.json", false, "covers ./srv (1 file)"},
		{"file URL", mcp.Server{Command: "node", Args: []string{"file://${workspaceFolder}/srv/srv.mjs"}}, []string{"srv/srv.mjs", "srv/lib.mjs"}, "srv/lib.mjs", false, "covers ./srv (2 files)"},
		{"dir", mcp.Server{Command: "python3", Args: []string{"-m", "helper"}, Dir: "py"}, []string{"py/helper.py", "py/pkg/x.py"}, "py/pkg/x.py", false, "covers ./py (2 files)"},
		{"npx", mcp.Server{Command: "npx", Args: []string{"-y", "server"}}, []string{"node_modules/server/index.js", "package.json"}, "node_modules/server/index.js", false, "covers ./node_modules/server (2 files)"},
		{"npm run", mcp.Server{Command: "npm", Args: []string{"run", "serve"}}, []string{"package.json"}, "package.json", false, "covers ./ (1 file)"},
		{"python path", mcp.Server{Command: "python3", Args: []string{"-V"}, Env: mcp.Values{"PYTHONPATH": "./lib"}}, []string{"lib/x.py"}, "lib/x.py", false, "covers ./lib (1 file)"},
		{"hook", mcp.Server{Command: "node", Env: mcp.Values{"NODE_OPTIONS": "--require ./lib/hook.js"}}, []string{"lib/hook.js", "lib/else.js"}, "lib/else.js", false, "covers ./lib (2 files)"},
		{"elsewhere", mcp.Server{Command: "node", Args: []string{"./srv/srv.mjs"}}, []string{"srv/srv.mjs", "lib.mjs"}, "lib.mjs", true, "covers ./srv (1 file); not what node loads from elsewhere"},
		{"served folder", mcp.Server{Command: "server-filesystem", Args: []string{"."}}, []string{"a.js", "b/c.js"}, "a.js", true, "covers the command alone, no files"},
		{"data", mcp.Server{Command: "server-x", Args: []string{"./data"}}, []string{"data/c.js"}, "data/c.js", true, "covers the command alone, no files"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			project := t.TempDir()
			for _, f := range c.files {
				write(t, filepath.Join(project, f), "one")
			}
			s := c.server
			s.Name, s.Transport, s.Source = "a", mcp.Stdio, mcp.Source{Scope: "project", Path: filepath.Join(project, ".vscode", "mcp.json")}
			o := &mcp.Options{Project: project}
			before, err := s.Digest(o)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Review(); !strings.Contains(got, c.covers) || !strings.Contains(got, s.Covers(o)) {
				t.Errorf("%s, want %s", got, c.covers)
			}
			write(t, filepath.Join(project, c.change), "two")
			if after, err := s.Digest(o); err != nil || (after == before) != c.same {
				t.Errorf("same is %v, %v", after == before, err)
			}
		})
	}
}

// A server of a project that would run more than can be covered is none that can be trusted. The
// user's own is started all the same.
func TestDigestIsBounded(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	for i := range 5002 {
		write(t, filepath.Join(project, "node_modules", "x", fmt.Sprintf("%d.js", i)), "")
	}
	o := &mcp.Options{Project: project}
	s := mcp.Server{Name: "a", Transport: mcp.Stdio, Command: "npm", Args: []string{"run", "x"}, Source: mcp.Source{Scope: "project", Path: filepath.Join(project, ".mcp.json")}}
	if d, err := s.Digest(o); err == nil || d != "" || !strings.Contains(err.Error(), "more than trust can cover") {
		t.Errorf("%q %v", d, err)
	}
	if !strings.Contains(s.Review(), "not covered, so it cannot be used: would run from the folder ./") {
		t.Error(s.Review())
	}
	write(t, filepath.Join(project, "srv", "package.json"), "{}")
	s.Dir = "srv" // as it is told to do
	if _, err := s.Digest(o); err != nil {
		t.Error(err)
	}
	s.Dir, s.Source.Scope = "", "user"
	if _, err := s.Digest(o); err != nil {
		t.Error(err)
	}
	_ = os.RemoveAll(project)
}

func TestReviewMasks(t *testing.T) {
	t.Parallel()
	const literal = "… (a literal value)"
	s := &mcp.Server{Name: "a", Transport: mcp.Stdio, Command: "x", Source: mcp.Source{Scope: "project"}}
	for _, c := range []struct{ kind, name, value, want string }{
		{"env", "API_KEY", "canary", literal},
		{"env", "db_password", "canary", literal},
		{"env", "X", "sk-canary-0123456789abcdef", literal},
		{"env", "X", "ghp_canarycanarycanarycanary", literal},
		{"env", "X", "4f9ac8d2e1b07736a5cd9921ff0canary"[:32], literal},
		{"env", "X", "postgres://me:canary@host/db", literal},
		{"env", "API_KEY", "${API_KEY:-canary}", literal},
		{"env", "API_KEY", "canary${API_KEY}", literal},
		{"env", "API_KEY", "${API_KEY}", "${API_KEY}"},
		{"env", "NODE_OPTIONS", "--require ./lib/hook.js", `"--require ./lib/hook.js"`},
		{"env", "DEBUG", "true", "true"},
		{"env", "HOST", "https://example.org/a/b", "https://example.org/a/b"},
		{"env", "PYTHONPATH", "./lib/python3.12/site-packages-0123", "./lib/python3.12/site-packages-0123"},
		{"header", "X-Anything", "canary", literal},
		{"header", "Authorization", "Bearer canary", literal},
		{"header", "Authorization", "Bearer ${TOKEN}", "Bearer ${TOKEN}"},
		{"header", "X-Key", "${env:TOKEN}", "${env:TOKEN}"},
	} {
		at := "="
		s.Env, s.Headers = mcp.Values{c.name: c.value}, nil
		if c.kind == "header" {
			s.Env, s.Headers, at = nil, mcp.Values{c.name: c.value}, ": "
		}
		got := s.Review()
		if !strings.Contains(got, "  "+c.kind+" "+c.name+at+c.want+"\n") || strings.Contains(got, "canary") {
			t.Errorf("%s %s: %s", c.name, c.value, got)
		}
		before, _ := s.Digest(nil)
		if c.kind == "env" {
			s.Env[c.name] += "x"
		} else {
			s.Headers[c.name] += "x"
		}
		if after, _ := s.Digest(nil); after == before {
			t.Errorf("the value of %s does not count", c.name)
		}
	}
}
