package script_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/script"
)

// What a command loads besides the files that it names counts too: it is refused once that changed,
// and not because it ran.
func TestChangedBehindACommand(t *testing.T) {
	t.Parallel()
	const python = "#!/usr/bin/env python3\nimport helper\nprint(helper.say())\n"
	for _, c := range []struct {
		name, needs, manifest string
		files                 map[string]string
		change, to            string
		same                  bool // it is no change
	}{
		{name: "import of an executable", needs: "python3", manifest: "command: [./count.py]", files: map[string]string{"count.py": python, "helper.py": "def say(): return 'one'"}, change: "helper.py", to: "def say(): return 'two'"},
		{name: "import of a script", needs: "python3", manifest: "command: [python3, count.py]", files: map[string]string{"count.py": python, "helper.py": "def say(): return 'one'"}, change: "helper.py", to: "def say(): return 'two'"},
		{name: "new module", needs: "python3", manifest: "command: [python3, count.py]", files: map[string]string{"count.py": "import json; print('one')"}, change: "json.py", to: "print('two')"},
		{name: "package", needs: "python3", manifest: "command: [python3, count.py]", files: map[string]string{"count.py": "import a.b; print('one')", "a/b.py": ""}, change: "a/b.py", to: "print('two')"},
		{name: "python -m", needs: "python3", manifest: "command: [python3, -m, helper]\ncwd: sub", files: map[string]string{"/sub/helper.py": "print('one')"}, change: "/sub/helper.py", to: "print('two')"},
		{name: "python -um", needs: "python3", manifest: "command: [python3, -um, helper]", files: map[string]string{"/helper.py": "import pkg.x; print('one')", "/pkg/x.py": ""}, change: "/pkg/x.py", to: "print('two')"},
		{name: "python -c", needs: "python3", manifest: "command: [python3, -c, 'import helper']\ncwd: sub", files: map[string]string{"/sub/helper.py": "print('one')"}, change: "/sub/helper.py", to: "print('two')"},
		{name: "python -W -m", needs: "python3", manifest: "command: [python3, -W, ignore, -m, helper]\ncwd: sub", files: map[string]string{"/sub/helper.py": "print('one')"}, change: "/sub/helper.py", to: "print('two')"},
		{name: "python that heeds no variables", needs: "python3", manifest: "command: [python3, -BE, count.py]", files: map[string]string{"count.py": "import helper; print('one')", "helper.py": "", "__pycache__/x": ""}, change: "__pycache__/helper.pyc", to: "x"},
		{name: "python caches", needs: "python3", manifest: "command: [python3, count.py]", files: map[string]string{"count.py": "import helper; print('one')", "helper.py": ""}, change: "__pycache__/helper.pyc", to: "x", same: true},
		{name: "python folder", needs: "python3", manifest: "command: [python3, app]", files: map[string]string{"/app/__main__.py": "print('one')"}, change: "/app/__main__.py", to: "print('two')"},
		{name: "npm run", needs: "npm", manifest: "command: [npm, run, --silent, hi]", files: map[string]string{"/package.json": `{"scripts":{"hi":"echo one"}}`}, change: "/package.json", to: `{"scripts":{"hi":"echo two"}}`},
		{name: "npm run below", needs: "npm", manifest: "command: [npm, run, --silent, hi]\ncwd: sub", files: map[string]string{"/package.json": `{"scripts":{"hi":"echo one"}}`, "/sub/x.txt": ""}, change: "/package.json", to: `{"scripts":{"hi":"echo two"}}`},
		{name: "npm run of a script", needs: "npm", manifest: "command: [npm, run, --silent, hi]", files: map[string]string{"/package.json": `{"scripts":{"hi":"node lib/a.js"}}`, "/lib/a.js": "console.log('one')"}, change: "/lib/a.js", to: "console.log('two')"},
		{name: "env npm", needs: "npm", manifest: "command: [env, A=b, npm, run, --silent, hi]", files: map[string]string{"/package.json": `{"scripts":{"hi":"echo one"}}`}, change: "/package.json", to: `{"scripts":{"hi":"echo two"}}`},
		{name: "sh -c npm", needs: "npm", manifest: "command: [sh, -c, 'npm run --silent hi && true']", files: map[string]string{"/package.json": `{"scripts":{"hi":"echo one"}}`}, change: "/package.json", to: `{"scripts":{"hi":"echo two"}}`},
		{name: "sh -c file", needs: "sh", manifest: "command: [sh, -c, 'sh ./lib/a.sh']", files: map[string]string{"/lib/a.sh": ". ./lib/b.sh", "/lib/b.sh": "echo one"}, change: "/lib/b.sh", to: "echo two"},
		{name: "make", needs: "make", manifest: "command: [make, -s, hi]", files: map[string]string{"/Makefile": "hi:\n\techo one\n"}, change: "/Makefile", to: "hi:\n\techo two\n"},
		{name: "make -C", needs: "make", manifest: "command: [make, -s, -C, sub, hi]", files: map[string]string{"/sub/Makefile": "include more.mk\n", "/sub/more.mk": "hi:\n\techo one\n"}, change: "/sub/more.mk", to: "hi:\n\techo two\n"},
		{name: "node without ending", needs: "node", manifest: "command: [node, lib/a]", files: map[string]string{"/lib/a.js": "require('./b')", "/lib/b.js": "console.log('one')"}, change: "/lib/b.js", to: "console.log('two')"},
		{name: "node folder", needs: "node", manifest: "command: [node, ./lib]", files: map[string]string{"/lib/index.js": "console.log('one')"}, change: "/lib/index.js", to: "console.log('two')"},
		{name: "root", needs: "node", manifest: "command: [node, a.js]", files: map[string]string{"/a.js": "require('./src/deep/b')", "/src/deep/b.js": "console.log('one')"}, change: "/src/deep/b.js", to: "console.log('two')"},
		{name: "no code", needs: "node", manifest: "command: [node, a.js]", files: map[string]string{"/a.js": "console.log('one')", "/src/b.md": ""}, change: "/src/b.md", to: "two", same: true},
		{name: "data folder", needs: "sh", manifest: "command: [./run.sh, ./data]", files: map[string]string{"run.sh": "#!/bin/sh\necho one\n", "/data/x.js": ""}, change: "/data/x.js", to: "two", same: true},
		{name: "git", needs: "sh", manifest: "command: [./run.sh]", files: map[string]string{"run.sh": "#!/bin/sh\necho one\n", ".git/x": ""}, change: ".git/x", to: "two", same: true},
		{name: "mode", needs: "sh", manifest: "command: [./run.sh]", files: map[string]string{"run.sh": "#!/bin/sh\necho one\n", "other": "#!x"}, change: "other", to: "chmod"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.needs); err != nil || runtime.GOOS == "windows" {
				t.Skip("no " + c.needs)
			}
			p := newProject(t, "node")
			for name, text := range c.files {
				p.write(name, text)
			}
			p.write("t.tool.yaml", "description: d\n"+c.manifest+"\n")
			found, problems := p.discover()
			if len(found) != 1 || len(problems) > 0 {
				t.Fatal(found, problems)
			}
			tools, err := script.Load(t.Context(), found[0], &p.opts)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got, err := tools[0].Run(t.Context(), callOf(`{}`)); err != nil || strings.TrimSpace(got) != "one" {
					t.Fatalf("%q %v", got, err)
				}
			}
			if c.to == "chmod" {
				err = os.Chmod(filepath.Join(p.dir(), c.change), 0o600)
			} else {
				p.write(c.change, c.to)
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := tools[0].Run(t.Context(), callOf(`{}`))
			if !c.same && (!errors.Is(err, script.ErrChanged) || got != "") || c.same && err != nil {
				t.Errorf("%q %v", got, err)
			}
			again, _ := p.discover()
			if len(again) != 1 || (again[0].Digest == found[0].Digest) != c.same {
				t.Errorf("digest: %v", again)
			}
		})
	}
}

// Links are neither followed out of the project nor around in it.
func TestCoverOfLinks(t *testing.T) {
	t.Parallel()
	p := newProject(t, "node")
	outside := t.TempDir()
	p.write("run.sh", "#!/bin/sh\n")
	p.write("/shared/lib.sh", "one")
	p.write("t.tool.yaml", "description: d\ncommand: [./run.sh]\n")
	for name, target := range map[string]string{"up": p.root, "out": outside, "self": "self", "gone": "nowhere", "lib": filepath.Join(p.root, "shared")} {
		if err := os.Symlink(target, filepath.Join(p.dir(), name)); err != nil {
			t.Skip(err)
		}
	}
	digest := func() string {
		found, problems := p.discover()
		if len(found) != 1 || len(problems) > 0 {
			t.Fatal(found, problems)
		}
		return found[0].Digest
	}
	first := digest()
	if err := os.WriteFile(filepath.Join(outside, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if digest() != first {
		t.Error("a link was followed out of the project")
	}
	p.write("/shared/lib.sh", "two")
	if digest() == first {
		t.Error("what a link in the project leads to does not count")
	}
}

// More than can be covered makes a command unusable, and says what to do.
func TestCoverIsBounded(t *testing.T) {
	t.Parallel()
	p := newProject(t, "node")
	p.write("/many/run.js", "")
	for i := range 5001 {
		if err := os.WriteFile(filepath.Join(p.root, "many", fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.write("/large/run.js", "")
	p.write("/large/x.bin", "")
	if err := os.Truncate(filepath.Join(p.root, "large", "x.bin"), 64<<20+1); err != nil {
		t.Fatal(err)
	}
	p.write("/fine/big.js", "//")
	if err := os.Truncate(filepath.Join(p.root, "fine", "big.js"), 64<<20+1); err != nil {
		t.Fatal(err)
	}
	p.write("many.tool.yaml", "description: d\ncommand: [node, many/run.js]\n")
	p.write("large.tool.yaml", "description: d\ncommand: [node, large/run.js]\n")
	p.write("fine.tool.yaml", "description: d\ncommand: [node, fine/big.js]\n")
	found, problems := p.discover()
	if len(found) != 1 || !slices.Equal(found[0].Names, []string{"fine"}) || len(problems) != 2 {
		t.Fatal(found, problems)
	}
	for i, want := range []string{"./large, which holds more than trust can cover (5000 files or 64 MiB): put what runs into a small folder", "./many, which"} {
		if problems[i].Warning || !strings.Contains(problems[i].Text, want) {
			t.Error(problems[i])
		}
	}
}

// A file whose time was set back is still another.
func TestTimesAreNotBelieved(t *testing.T) {
	t.Parallel()
	p := newProject(t, "node")
	p.write("run.sh", "#!/bin/sh\necho one\n")
	old := time.Now().Add(-time.Hour)
	helper := p.write("helper.sh", "one")
	p.write("t.tool.yaml", "description: d\ncommand: [./run.sh]\n")
	if err := os.Chtimes(helper, old, old); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2100 * time.Millisecond) // until it counts as at rest
	found, _ := p.discover()
	tools, err := script.Load(t.Context(), found[0], &p.opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(helper, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(helper, old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := tools[0].Run(t.Context(), callOf(`{}`)); !errors.Is(err, script.ErrChanged) {
		t.Error(err)
	}
}

// What a module loads by computed names is told.
func TestOpen(t *testing.T) {
	t.Parallel()
	const rest = "\nexport default {description: 'd', execute: () => 1}\n"
	for _, c := range []struct{ name, source, want string }{
		{"import", "export const x = (n) => import(n)" + rest, "t.ts:1: import() of a computed name"},
		{"require", "const x = (n) => require(n); x" + rest + "export const y = x", "t.ts:1: require() of a computed name"},
		{"createRequire", "import { createRequire } from 'node:module'\nconst r = createRequire(import.meta.url)\nexport const y = r('./lib.cjs')" + rest, "t.ts:1: createRequire is used"},
		{"renamed", "import { createRequire as c } from 'node:module'\nexport const y = c(import.meta.url)('./lib.cjs')" + rest, "t.ts:1: createRequire is used"},
		{"handed on", "const r = require; export const y = () => r('./lib.cjs')" + rest, "t.ts:1: require is handed on"},
		{"global", "export const y = () => globalThis.require('./lib.cjs')" + rest, "t.ts:1: globalThis.require is used"},
		{"in a part", "import './_part'" + rest, "_part.ts:2: import() of a computed name"},
		{"by name", "const p = import('./_part2'); export const y = p\n// createRequire" + rest, ""},
		{"installed", "import 'dep'" + rest, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, "node")
			p.write("t.ts", c.source)
			p.write("_part.ts", "//\nexport const f = (n) => import(n); f('x').catch(() => 0)")
			p.write("_part2.ts", "export const f = 1")
			p.write("/node_modules/dep/package.json", `{"main":"a.js"}`)
			p.write("/node_modules/dep/a.js", "globalThis.f = (n) => require(n)")
			found, problems := p.discover()
			if len(found) != 1 {
				t.Fatal(problems)
			}
			if c.want == "" {
				if len(found[0].Open)+len(problems) > 0 {
					t.Error(found[0].Open, problems)
				}
				return
			}
			if open := found[0].Open; len(open) == 0 || !strings.HasSuffix(open[0], c.want) {
				t.Errorf("%q", open)
			}
			if len(problems) == 0 || !problems[0].Warning || !strings.Contains(problems[0].Text, "not covered by trust") {
				t.Error(problems)
			}
		})
	}
}

// BenchmarkChecked is a call's check of a folder of 200 files of 8 KiB, by way of a program that is not there.
func BenchmarkChecked(b *testing.B) {
	for _, rest := range []bool{false, true} {
		b.Run(map[bool]string{false: "read", true: "at rest"}[rest], func(b *testing.B) {
			p := newProject(b, "node")
			for i := range 200 {
				p.write(fmt.Sprintf("lib/%d.py", i), strings.Repeat("x = 1\n", 1365))
			}
			p.write("run.py", "")
			p.write("t.tool.yaml", "description: d\ncommand: [no-such-program, ./run.py]\n")
			if rest {
				time.Sleep(2100 * time.Millisecond)
			}
			found, _ := p.discover()
			for b.Loop() {
				if _, err := script.Load(b.Context(), found[0], &p.opts); err == nil || errors.Is(err, script.ErrChanged) {
					b.Fatal(err)
				}
			}
		})
	}
}
