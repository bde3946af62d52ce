package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/cli"
)

// call runs the command in this process, with runs in a folder and nothing set up.
func call(t *testing.T, data string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cfg, opt := config(), options()
	opt.Args, opt.Stdin, opt.Stdout, opt.Stderr = append(args, "--data-dir", data), strings.NewReader(""), &out, &errs
	cfg.Env = func(name string) string {
		if name == "XDG_CACHE_HOME" {
			return filepath.Join(data, "cache")
		}
		return ""
	}
	code = cli.Main(cfg, opt)
	return code, out.String(), errs.String()
}

// What cannot be researched makes no run.
func TestBadInputsMakeNoRun(t *testing.T) {
	data, docs := t.TempDir(), t.TempDir()
	file := filepath.Join(docs, "a.md")
	if err := os.WriteFile(file, []byte("The lease lasts thirty seconds.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		code int
		want string
		args []string
	}{
		{"nothing to search", cli.ExitUsage, "there is nothing to search", []string{"q"}},
		{"no such folder", cli.ExitUsage, "give a folder with --docs", []string{"q", "--docs", filepath.Join(docs, "none")}},
		{"a file", cli.ExitUsage, "is a file", []string{"q", "--docs", file}},
		{"too small a budget", cli.ExitUsage, "want at least 2", []string{"q", "--docs", docs, "--max-searches", "1"}},
		{"a blank question", cli.ExitUsage, "question: is empty", []string{"  ", "--docs", docs}},
		{"no such model", cli.ExitNoModel, "there is no model", []string{"q", "--docs", docs, "--model", "none"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, out, errs := call(t, data, append([]string{"run", "research"}, tc.args...)...)
			if code != tc.code || out != "" || !strings.Contains(errs, tc.want) || strings.Contains(errs, "Resume") {
				t.Errorf("exit code %d, stdout %q, stderr:\n%s", code, out, errs)
			}
		})
	}
	if _, out, errs := call(t, data, "runs", "list", "-o", "json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("%s%s", out, errs)
	}
}

// The log has the inputs as they were meant.
func TestInputsAreAbsolute(t *testing.T) {
	data := t.TempDir()
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("docs", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("docs/a.md", []byte("The lease lasts thirty seconds.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := call(t, data, "run", "research", "how long is the lease?", "--docs", "docs", "--report", "brief.md"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	_, out, _ := call(t, data, "runs", "show", "@last", "-o", "json")
	var shown struct{ Inputs map[string]any }
	if err := json.Unmarshal([]byte(out), &shown); err != nil {
		t.Fatal(err)
	}
	in := shown.Inputs
	if in["docs"] != filepath.Join(here, "docs") || in["report"] != filepath.Join(here, "brief.md") || in["model"] != "offline" {
		t.Errorf("%v", in)
	}
}
