package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/npm"
	"github.com/superstep-dev/superstep/internal/script"
	"github.com/superstep-dev/superstep/tool"
)

func callOf(args string) *tool.Call { return &tool.Call{Args: json.RawMessage(args)} }

// command makes a project with one tool t that is a shell script.
func command(t *testing.T, manifest, body string) (*project, *tool.Set) {
	t.Helper()
	p := newProject(t, "node")
	p.opts.Environ = append(p.opts.Environ, "ALLOWED=yes", "SECRET=leaked")
	p.write("run.sh", "#!/bin/sh\n"+body+"\n")
	p.write("t.tool.yaml", "description: d\ncommand: [./run.sh, one two, '$HOME; x']\n"+manifest)
	return p, p.load()
}

func TestCommands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, manifest, body, args, want, fails string }{
		{name: "text", body: `printf 'hello\n'`, want: "hello\n"},
		{name: "no shell", body: `printf '%s|' "$@"`, want: "one two|$HOME; x|"},
		{name: "arguments", manifest: "input: {a: string, 'b?': 'integer[]'}\n", body: `cat`, args: `{"a":"x","b":[1]}`, want: `{"a":"x","b":[1]}`},
		{name: "refused", manifest: "input: {a: string, 'b?': 'integer[]'}\n", body: `cat`, args: `{"b":["x"]}`, fails: "/a: missing"},
		{name: "choice", manifest: "input:\n  a: [fast, slow]\n", body: `cat`, args: `{"a":"x"}`, fails: `want one of "fast", "slow"`},
		{name: "no arguments known", body: `cat`, args: `{"a":1}`, fails: "/a: unknown"},
		{name: "JSON Schema", manifest: "input:\n  type: object\n  properties: {a: {$ref: '#/$defs/n'}}\n  $defs: {n: {type: integer}}\n", body: `cat`, args: `{"a":1}`, want: `{"a":1}`},
		{name: "output", body: `printf '{"output": "x\\ny", "title": "t"}'`, want: "x\ny"},
		{name: "output JSON", body: `printf '{"output": {"a": [1]}}'`, want: `{"a": [1]}`},
		{name: "other JSON", body: `printf '{"a": 1}'`, want: `{"a": 1}`},
		{name: "output schema", manifest: "output: {type: object, required: [a]}\n", body: `printf '{"b": 1}'`, fails: "is not what the tool promises:\n- /a: missing"},
		{name: "output is no JSON", manifest: "output: {type: object}\n", body: `echo not JSON`, fails: `the result of t is not what the tool promises: it is not valid JSON: unexpected 'o' at byte 2 of "not JSON`},
		{name: "output schema fits", manifest: "output: {type: object, required: [a]}\n", body: `printf '{"output":{"a": 1}}'`, want: `{"a": 1}`},
		{name: "fails", body: `echo printed; echo "went wrong" >&2; exit 3`, fails: "exit status 3: went wrong"},
		{name: "fails without a word", body: `echo printed; exit 3`, fails: "exit status 3: printed"},
		{name: "killed", body: `kill -9 $$`, fails: "signal: killed"},
		{name: "environment", manifest: "env: [ALLOWED]\n", body: `printf '%s|%s|%s|%s|%s' "$ALLOWED" "$SECRET" "$SUPERSTEP_RUN" "$SUPERSTEP_KEY" "$SUPERSTEP_NODE"`, want: "yes||run-1|key-1|gather/api"},
		{name: "envelope", manifest: "context: true\n", body: `cat`, args: `{}`, want: `{"args":{},"context":{"sessionID":"run-1","messageID":"key-1","agent":"coder","directory":"DIR","worktree":"DIR","nodeId":"gather/api","executionId":"run-1","key":"key-1"},"state":{"topic":"Pregel","deep":{"list":[1]}}}`},
		{name: "folder", body: `pwd`, want: "DIR\n"},
		{name: "other folder", manifest: "cwd: sub\n", body: `pwd`, want: "DIR/sub\n"},
		{name: "no such folder", manifest: "cwd: gone\n", body: `pwd`, fails: "cannot be started in DIR/gone"},
		{name: "does not read", body: `echo x`, want: "x\n"},
		{name: "no terminal", body: `if [ -t 0 ]; then echo terminal; else echo none; fi`, want: "none\n"},
		{name: "too slow", manifest: "timeout: 200ms\n", body: `sleep 60`, fails: "longer than 200ms"},
		{name: "deaf", manifest: "timeout: 200ms\n", body: `trap '' TERM; while :; do sleep 0.1; done`, fails: "longer than 200ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, set := command(t, c.manifest, c.body)
			if err := os.Mkdir(filepath.Join(p.root, "sub"), 0o700); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			got := p.call(t.Context(), set, "t", c.args)
			if c.fails != "" {
				if want := strings.ReplaceAll(c.fails, "DIR", p.root); !got.Error || !strings.Contains(got.Text, want) {
					t.Errorf("got %+v, want a failure with %q", got, want)
				}
			} else if want := strings.ReplaceAll(c.want, "DIR", p.root); got.Error || got.Text != want {
				t.Errorf("got %+v, want %q", got, want)
			}
			if took := time.Since(start); took > faults.Bound(9*time.Second) {
				t.Errorf("took %s", took)
			}
		})
	}
}

// What changed since it was found does not run, and runs again once it is as it was.
func TestChanged(t *testing.T) {
	t.Parallel()
	p := newProject(t, "node")
	p.write("run.sh", "#!/bin/sh\necho first\n")
	p.write("t.tool.yaml", "description: d\ncommand: [./run.sh]\n")
	found, _ := p.discover()
	tools, err := script.Load(t.Context(), found[0], &p.opts)
	if err != nil {
		t.Fatal(err)
	}
	p.write("run.sh", "#!/bin/sh\necho swapped\n")
	if got, err := tools[0].Run(t.Context(), callOf(`{}`)); !errors.Is(err, script.ErrChanged) || got != "" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := script.Load(t.Context(), found[0], &p.opts); err == nil || !strings.Contains(err.Error(), "changed since it was trusted") {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(p.dir(), "run.sh")); err != nil {
		t.Fatal(err)
	}
	if _, err := tools[0].Run(t.Context(), callOf(`{}`)); !errors.Is(err, script.ErrChanged) {
		t.Error(err)
	}
	p.write("run.sh", "#!/bin/sh\necho first\n")
	if got, err := tools[0].Run(t.Context(), callOf(`{}`)); err != nil || got != "first\n" {
		t.Errorf("%q %v", got, err)
	}
}

func TestNoInterpreter(t *testing.T) {
	t.Parallel()
	for first, want := range map[string]string{
		"#!/no/such/interpreter":            "there is no interpreter /no/such/interpreter",
		"#!/usr/bin/env no-such-program-22": "there is no interpreter no-such-program-22",
	} {
		p := newProject(t, "node")
		p.write("run.sh", first+"\n")
		p.write("t.tool.yaml", "description: d\ncommand: [./run.sh]\n")
		p.write("u.tool.yaml", "description: d\ncommand: [no-such-program-22, x]\n")
		found, problems := p.discover()
		if len(found) != 2 {
			t.Fatal(problems)
		}
		_, problems = script.LoadAll(t.Context(), found, &p.opts)
		if len(problems) != 2 || !strings.Contains(problems[0].Error(), want) || !strings.Contains(problems[0].Error(), "run.sh cannot be run") ||
			!strings.Contains(problems[1].Error(), `the command ["no-such-program-22","x"] cannot be run: no-such-program-22 is not installed`) {
			t.Error(problems)
		}
	}
}

// alive are the processes whose command line holds a word.
func alive(t *testing.T, word string) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), word) {
			out = append(out, f)
		}
	}
	return out
}

// Whatever a tool leaves behind is dead when the call returns, and none of it keeps the call.
func TestNoOrphans(t *testing.T) {
	t.Parallel()
	npm.Node(t)
	for name, c := range map[string]struct {
		body  string
		fails bool
	}{
		"background":     {`sleep WORD & echo done`, false},
		"setsid":         {`setsid sleep WORD & echo done`, false},
		"double fork":    {`(setsid sh -c 'sleep WORD & sleep WORD & wait' &) ; echo done`, false},
		"holds pipes":    {`setsid sh -c 'while :; do sleep WORD; done' & echo done`, false},
		"many":           {`for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do setsid sh -c '(sleep WORD &) ; setsid sleep WORD' & done; echo done`, false},
		"deaf to TERM":   {`trap '' TERM; setsid sh -c 'trap "" TERM; sleep WORD' & sleep WORD`, true},
		"fails and runs": {`setsid sleep WORD & exit 1`, true},
		"endless output": {`setsid yes WORD & yes WORD`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			word := fmt.Sprintf("98765%d", time.Now().UnixNano()%1e9)
			limit := "timeout: 5s\n" // a busy machine takes its time to start so many
			if c.fails {
				limit = "timeout: 500ms\n"
			}
			p, set := command(t, limit, strings.ReplaceAll(c.body, "WORD", word))
			start := time.Now()
			got := p.call(t.Context(), set, "t", "")
			if got.Error != c.fails || !c.fails && got.Text != "done\n" {
				t.Errorf("got %.200v", got)
			}
			if took := time.Since(start); took > faults.Bound(9*time.Second) {
				t.Errorf("took %s", took)
			}
			if left := alive(t, word); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
	t.Run("of a module", func(t *testing.T) {
		t.Parallel()
		word := fmt.Sprintf("98765%d", time.Now().UnixNano()%1e9)
		p := newProject(t, "node")
		p.write("t.ts", `import { spawn } from "node:child_process";
export default {description: "d", execute() { spawn("sleep", ["`+word+`"], {detached: true, stdio: "inherit"}).unref(); return "done" }}`)
		if got := p.call(t.Context(), p.load(), "t", ""); got.Error || got.Text != "done" {
			t.Errorf("got %+v", got)
		}
		if left := alive(t, word); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		word := fmt.Sprintf("98765%d", time.Now().UnixNano()%1e9)
		p, set := command(t, "", "setsid sleep "+word+" & sleep "+word)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if got := p.call(ctx, set, "t", ""); !got.Error {
			t.Errorf("got %+v", got)
		}
		if left := alive(t, word); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// A gigabyte of output takes the memory of a megabyte. Not parallel, since it measures.
func TestGigabyte(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a gigabyte")
	}
	p, _ := command(t, "timeout: 120s\n", `head -c 1073741824 /dev/zero | tr '\0' 'x'; head -c 100000000 /dev/zero >&2`)
	found, _ := p.discover()
	tools, err := script.Load(t.Context(), found[0], &p.opts)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	got, err := tools[0].Run(t.Context(), callOf(`{}`))
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("x", script.MaxOutput) + fmt.Sprintf("\n[%d more bytes of output were not kept]", 1<<30-script.MaxOutput)
	if got != want {
		t.Errorf("got %d bytes that end %q", len(got), got[max(0, len(got)-80):])
	}
	grown := int64(after.TotalAlloc - before.TotalAlloc)
	t.Logf("1 GiB in %s, %d MiB allocated in all", time.Since(start).Round(time.Millisecond), grown>>20)
	if grown > 64<<20 {
		t.Errorf("allocated %d MiB", grown>>20)
	}
}

// A module's long result is cut, and told how much of it is missing.
func TestLongResult(t *testing.T) {
	t.Parallel()
	for _, runtime := range runtimes(t) {
		p := newProject(t, runtime)
		p.write("t.ts", `export default {description: "d", execute: () => "ü😀".repeat(1e6)}`)
		found, _ := p.discover()
		tools, err := script.Load(t.Context(), found[0], &p.opts)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tools[0].Run(t.Context(), callOf(``))
		if err != nil || len(got) < script.MaxOutput-8 || len(got) > script.MaxOutput+100 {
			t.Fatalf("%s: %d bytes %v", runtime, len(got), err)
		}
		kept, notice, _ := strings.Cut(got, "\n")
		if want := fmt.Sprintf("[%d more bytes of output were not kept]", 6_000_000-len(kept)); notice != want || strings.ToValidUTF8(kept, "") != kept {
			t.Errorf("%s: got %q, want %q", runtime, notice, want)
		}
	}
}
