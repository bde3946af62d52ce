package script_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/npm"
	"github.com/superstep-dev/superstep/internal/script"
)

// What is wrong with a file is told with its place, and costs no other tool.
func TestProblems(t *testing.T) {
	faults.Unraced(t)
	t.Parallel()
	for _, c := range []struct{ file, source, want string }{
		{"t.ts", "const x = 1;\nexport default {", `t.ts:2:17: Expected identifier but found end of file`},
		{"t.ts", "import './gone';", `t.ts:1:8: Could not resolve "./gone"`},
		{"t.ts", "import 'left-pad/x';", `t.ts:1:8: Could not resolve "left-pad/x"; install it where the tool is: npm install left-pad`},
		{"t.ts", "import '@a/b';", `npm install @a/b`},
		{"t.ts", "\nimport '../../../outside';", "outside of"},
		{"t.ts", "import '/etc/passwd';", "passwd"},
		{"t.ts", "import 'https://example.com/x.js';", "t.ts:1:8: imports https://example.com/x.js, which is not in the project"},
		{"t.ts", "import 'npm:left-pad';", "not in the project"},
		{"t.ts", "import('jsr:@a/b');", "not in the project"},
		{"t.ts", "import './deep.js';", "not safe to read"},
		{"t.ts", strings.Repeat("!", 1<<20) + "1", "not safe to read"},
		{"t.ts", "import './big.js';", "larger than 10 MiB"},
		{"bad name.ts", "export default 1", "is no name for a tool"},
		{"t.tool.yaml", "", "is empty"},
		{"t.tool.yaml", "description: d\ncommand: ./run.sh x\n", `t.tool.yaml:2:1: command is a list of words, no line for a shell; write ["./run.sh","x"]`},
		{"t.tool.yaml", "description: d\ncommand: [./run.sh]\ncomand: x\n", `t.tool.yaml:3:1: "comand" is unknown; did you mean "command"?`},
		{"t.tool.yaml", "description: d\ncommand: [./run.sh]\ncommand: [b]\n", "3:1: \"command\" is there twice"},
		{"t.tool.yaml", "description: d\n", "command is missing"},
		{"t.tool.yaml", "command: [./run.sh]\n", "description is missing"},
		{"t.tool.yaml", "description: d\ncommand: [./gone.sh]\n", `the command ["./gone.sh"] cannot be run: there is no file ./gone.sh`},
		{"t.tool.yaml", "description: d\ncommand: [./plain.txt]\n", `the command ["./plain.txt"] cannot be run: it is not executable; chmod +x it`},
		{"t.tool.yaml", "description: d\ncommand: [../x]\n", `2:11: command begins with "../x"`},
		{"t.tool.yaml", "description: d\ncommand: [/bin/sh]\n", `command begins with "/bin/sh"`},
		{"t.tool.yaml", "description: d\ncommand: [./run.sh, ../../../outside.js]\n", "outside of"},
		{"t.tool.yaml", "description: d\ncommand: [./run.sh]\neffect: sometimes\n", `3:9: effect is "sometimes"; use pure, idempotent or once`},
		{"t.tool.yaml", "description: d\ncommand: [./run.sh]\ntimeout: 5\n", `3:10: timeout is "5"; add a unit, such as 5s`},
		{"t.tool.yaml", "description: d\ncommand: [./run.sh]\ncwd: ../..\n", `cwd is "../.."`},
		{"t.tool.yaml", "description: d\ncommand: [./run.sh]\nenv: [A=b]\n", `"A=b" is not the name of a variable`},
		{"t.tool.yaml", "description: d\ncommand: [./run.sh]\ninput:\n  a: strin\n", `4:6: "strin" is no type; did you mean "string"?`},
		{"t.tool.yaml", "description: d\ncommand: [./run.sh]\ninput:\n  type: object\n  properties:\n    a: {type: text}\n", `6:9: the schema: at /properties/a/type: "text" is no type`},
		{"t.tool.yaml", "description: d\ncommand: [./run.sh]\ninput:\n  type: object\n  properties:\n    a:\n      $ref: https://example.com/x\n", `7:7: the schema: at /properties/a/$ref: refers to "https://example.com/x"; remote refs are refused`},
		{"t.tool.yaml", "description: d\ncommand: [./run.sh]\ninput:\n  a: {type: string, pattern: '(?!x)'}\n", "4:21: the schema: at /properties/a/pattern: not a pattern that can be checked here"},
		{"t.tool.yaml", "description: &a d\ncommand: [./run.sh]\n", "aliases are not allowed"},
		{"t.tool.yaml", "description: a\ncommand: [\"./run.sh\", \"\\e[31m\"]\n", "cannot be shown"},
		{"t.tool.yaml", "description: \"a\x1b\"\ncommand: [./run.sh]\n", "t.tool.yaml:1:1: invalid YAML: control characters are not allowed"},
		{"t.tool.yaml", "description: a\n---\ncommand: [./run.sh]\n", "t.tool.yaml:2:1: a second YAML document starts here"},
		{"t.tool.yaml", "- a\n", "t.tool.yaml:1:1: want lines such as"},
		{"t.tool.json", "{\"description\": \"d\",\n \"command\": [\"./run.sh\"], \"x\": 1}", `t.tool.json:2:27: "x" is unknown`},
		{"t.tool.json", "{", "t.tool.json:1:"},
	} {
		p := newProject(t, "node")
		if err := os.WriteFile(filepath.Join(p.root, "..", "outside.js"), []byte("export default 1"), 0o600); err != nil {
			t.Fatal(err)
		}
		p.write(c.file, c.source)
		p.write("good.ts", "export default {}")
		p.write("run.sh", "#!/bin/sh\n")
		p.write("plain.txt", "x")
		p.write("_deep.js", strings.Repeat("a=", 1<<18)+"1")
		p.write("_big.js", "//"+strings.Repeat(" ", 11<<20))
		for _, name := range []string{"deep.js", "big.js"} { // imports whose names are no tools'
			if strings.Contains(c.source, name) {
				p.write(c.file, strings.Replace(c.source, name, "_"+name, 1))
			}
		}
		found, problems := p.discover()
		if len(found) != 1 || found[0].Names[0] != "good" {
			t.Errorf("%s %.80q: found %+v", c.file, c.source, found)
		}
		var all []string
		for _, x := range problems {
			all = append(all, x.Error())
		}
		if !strings.Contains(strings.Join(all, "\n"), c.want) {
			t.Errorf("%s %.80q: got\n%s\nwant %q", c.file, c.source, strings.Join(all, "\n"), c.want)
		}
		for _, text := range all {
			if len(text) > 2000 || strings.ContainsRune(text, 0x1b) {
				t.Errorf("%s: %.100q…", c.file, text)
			}
		}
	}
}

// What Load refuses of a module that could be read.
func TestLoadProblems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ source, want string }{
		{`throw new Error("at the top")`, "cannot be loaded: at the top (at .superstep/tools/t.ts:1:"},
		{`export const a = 1`, "exports no tool; export default tool({description, args, execute}); it exports a"},
		{`export default {execute() {}}`, `tool "t": has no description`},
		{`export default {description: 5, execute() {}}`, `tool "t": has no description`},
		{`export default {description: "d", args: 5, execute() {}}`, "args is neither"},
		{`export default {description: "d", args: {a: 5}, execute() {}}`, "args.a is neither a schema nor JSON Schema"},
		{`export default {description: "d", args: {a: {type: "text"}}, execute() {}}`, "the schema of its arguments at /properties/a/type: \"text\" is no type"},
		{`export default {description: "d", args: {type: "object", properties: {a: {$ref: "file:///etc/passwd"}}}, execute() {}}`, "at /properties/a/$ref: refers to"},
		{`export default {description: "d", args: {type: "object", properties: {"a\u001b[31m": {}}}, execute() {}}`, "cannot be shown"},
		{`const p = {}; for (let i = 0; i < 1e5; i++) p["k" + i] = {type: "string"}; export default {description: "d", args: {type: "object", properties: p}, execute() {}}`, "tells more than 1024 KiB"},
		{`const p = {}; for (let i = 0; i < 2e4; i++) p["k" + i] = {type: "string"}; export default {description: "d", args: {type: "object", properties: p}, execute() {}}`, "KiB large, more than 256"},
		{`let s = {}; for (let i = 0; i < 200; i++) s = {type: "array", items: s}; export default {description: "d", args: {type: "object", properties: {s}}, execute() {}}`, "nested more than 64 deep"},
		{`export default {description: "d", effect: "never", execute() {}}`, "use pure, idempotent or once"},
		{`export default {description: "d", timeout: -1, execute() {}}`, "timeout is -1"},
		{`export default {description: "d", env: ["A B"], execute() {}}`, "not the name of a variable"},
		{`export default {get description() { throw new Error("mine") }, execute() {}}`, `tool "t": mine`},
		{`export default new Proxy({}, {get() { throw new Error("trap") }})`, "trap"},
		{`Object.prototype.toJSON = () => "owned"; export default {description: "d", execute() {}}`, ""},
		{`for (;;);`, "it took longer than 400ms to tell what it holds"},
		{`const { 世界: x } = {}; export { x as 世界 }; export const ok = {description: "d", execute() {}}; export const $bad = ok`, `"t_$bad" is no name for a tool`},
		{`process.exit(3)`, ""},
	} {
		for _, runtime := range runtimes(t) {
			t.Run(runtime, func(t *testing.T) {
				t.Parallel()
				npm.Node(t)
				p := newProject(t, runtime)
				p.opts.LoadTimeout = 20 * time.Second
				if strings.Contains(c.want, "400ms") {
					p.opts.LoadTimeout = 400 * time.Millisecond
				}
				p.write("t.ts", c.source)
				found, problems := p.discover()
				if len(found) != 1 {
					t.Fatal(problems)
				}
				_, problems = script.LoadAll(t.Context(), found, &p.opts)
				if len(problems) != 1 || !strings.Contains(problems[0].Error(), c.want) {
					t.Errorf("%s: got %v, want %q", c.source, problems, c.want)
				}
			})
		}
	}
}

// A description that could drive a terminal is cleaned, with a warning.
func TestEscapes(t *testing.T) {
	t.Parallel()
	npm.Node(t)
	p := newProject(t, "node")
	p.write("t.ts", `export default {description: "a\u001b]0;title\u0007b\u202e", args: {a: {type: "string", description: "x\u001b[31my"}}, execute: () => "out\u001b[2J"}`)
	p.write("c.tool.yaml", "description: \"a\\e[31mb\"\ncommand: [./run.sh]\n")
	p.write("run.sh", "#!/bin/sh\n")
	found, warnings := p.discover()
	tools, more := script.LoadAll(t.Context(), found, &p.opts)
	warnings = append(warnings, more...)
	if len(tools) != 2 || len(warnings) != 3 {
		t.Fatal(tools, warnings)
	}
	for _, w := range warnings {
		if !w.Warning {
			t.Error(w)
		}
	}
	if tools[0].Description != "ab" || tools[1].Description != "ab" || tools[1].Input.Properties["a"].Description != "xy" {
		t.Errorf("%+v %+v", tools[0], tools[1])
	}
}

// Names: those of built-in tools are refused, a project's hide a user's, and two of a kind are told.
func TestNames(t *testing.T) {
	t.Parallel()
	npm.Node(t)
	p, user := newProject(t, "node"), newProject(t, "node")
	p.opts.Reserved = []string{"bash"}
	one := `export default {description: "DESC", execute: () => ""}`
	p.write("bash.ts", one)
	p.write("lint.ts", strings.Replace(one, "DESC", "of the project", 1))
	p.write("lint.tool.yaml", "description: of a manifest\ncommand: [./run.sh]\n")
	p.write("m.tool.yaml", "name: mcp__x__y\ndescription: d\ncommand: [./run.sh]\n")
	p.write("run.sh", "#!/bin/sh\n")
	for _, name := range []string{"helper.d.ts", "lint.test.ts", "notes.md", ".hidden.ts", "_part.ts"} {
		p.write(name, "not a tool (")
	}
	user.write("lint.ts", one)
	user.write("mine.ts", one)
	found, early := p.discover()
	if len(early) != 1 {
		t.Fatal(early)
	}
	of, problems := script.Discover(user.dir(), script.Scope{Name: "user"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	tools, problems := script.LoadAll(t.Context(), append(found, of...), &p.opts)
	if got := fmt.Sprint(names(tools)); got != "[lint mine]" || tools[0].Description != "of a manifest" {
		t.Errorf("got %s %+v", got, tools[0])
	}
	var got []string
	for _, x := range append(early, problems...) {
		got = append(got, fmt.Sprintf("%v %s", x.Warning, x.Error()))
	}
	for _, want := range []string{
		`the name "bash" is reserved for a built-in tool; use a name with a prefix of yours, such as my_bash`,
		`reserved for tools of MCP servers`,
		`false ` + filepath.Join(p.dir(), "lint.ts") + `: its tool "lint" has the name of the one of`,
		`true ` + filepath.Join(user.dir(), "lint.ts") + `: its tool "lint" is hidden by the one of`,
	} {
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("got %s, want %q", strings.Join(got, "\n"), want)
		}
	}
}

// Discover runs nothing, even of files that do their worst when they are run.
func TestDiscoverRunsNothing(t *testing.T) {
	t.Parallel()
	p := newProject(t, "node")
	canary := filepath.Join(p.root, "canary")
	p.write("evil.ts", `import { execSync } from "node:child_process"; execSync("touch `+canary+`"); export default {description: "d", execute() {}}`)
	p.write("evil.sh", "#!/bin/sh\ntouch "+canary+"\n")
	p.write("cmd.tool.yaml", "description: d\ncommand: [./evil.sh]\n")
	p.write("/tsconfig.json", `{"extends": "/dev/zero"}`)
	p.write("/package.json", `{"scripts": {"preinstall": "touch `+canary+`"}, "imports": {"#x": "./evil.sh"}}`)
	found, problems := p.discover()
	if len(found) != 2 || len(problems) > 0 {
		t.Fatal(found, problems)
	}
	if _, err := os.Stat(canary); err == nil {
		t.Fatal("something ran")
	}
	// The canary sings: loading is what runs it.
	if _, err := script.Load(t.Context(), found[1], &p.opts); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(canary); err != nil {
		t.Error("the canary is dumb")
	}
}

// A digest says all that would run, and nothing else.
func TestDigest(t *testing.T) {
	t.Parallel()
	p := newProject(t, "node")
	p.write("t.ts", `import { x } from "./_part"; export default {description: "d", execute: () => x}`)
	p.write("_part.ts", `export const x = 1`)
	p.write("c.tool.yaml", "description: d\ncommand: [sh, -c, ./inner.sh, --config=conf.json, run.txt]\n")
	p.write("/conf.json", "{}")
	p.write("run.txt", "1")
	digests := func() [2]string {
		t.Helper()
		found, problems := p.discover()
		if len(found) != 2 || len(problems) > 0 {
			t.Fatal(found, problems)
		}
		return [2]string{found[0].Digest, found[1].Digest}
	}
	first := digests()
	for _, c := range []struct {
		file, text string
		changed    [2]bool
	}{
		{"/docs/unrelated.md", "x", [2]bool{}},
		{"beside.txt", "x", [2]bool{true, false}},
		{"_part.ts", `export const x = 2`, [2]bool{true, true}},
		{"run.txt", "2", [2]bool{true, false}},
		{"/conf.json", "[]", [2]bool{true, false}},
		{"inner.sh", "#!/bin/sh\n", [2]bool{true, false}},
		{"c.tool.yaml", "description: e\ncommand: [sh, -c, ./inner.sh, --config=conf.json, run.txt]\n", [2]bool{true, false}},
	} {
		p.write(c.file, c.text)
		now := digests()
		for i := range now {
			if (now[i] != first[i]) != c.changed[i] {
				t.Errorf("%s: digest %d changed is %v", c.file, i, now[i] != first[i])
			}
		}
		first = now
	}
	found, _ := p.discover()
	if got := fmt.Sprint(found[0].Files, found[1].Files); got != "[.superstep/tools/_part.ts .superstep/tools/beside.txt .superstep/tools/c.tool.yaml .superstep/tools/inner.sh .superstep/tools/run.txt .superstep/tools/t.ts conf.json] [.superstep/tools/_part.ts .superstep/tools/t.ts]" {
		t.Error(got)
	}
	// What was found is what runs, whatever became of the file.
	tools, err := script.Load(t.Context(), found[1], &p.opts)
	if err != nil {
		t.Fatal(err)
	}
	p.write("_part.ts", `export const x = "swapped"`)
	if got, err := tools[0].Run(t.Context(), callOf(`{}`)); err != nil || got != "2" {
		t.Errorf("%q %v", got, err)
	}
}

// Fifty tools are listed in less than two seconds.
func TestDiscoverIsFast(t *testing.T) { // not beside other tests
	p := newProject(t, "node")
	p.install(filepath.Join(npm.Modules(t), "zod"), "zod")
	for i := range 50 {
		p.write(fmt.Sprintf("t%d.ts", i), header+everything)
		if i < 5 {
			p.write(fmt.Sprintf("z%d.ts", i), "import { tool } from '@superstep/plugin';\nimport { z } from 'zod';\n"+everything)
		}
	}
	start := time.Now()
	found, problems := p.discover()
	if len(found) != 55 || len(problems) > 0 {
		t.Fatal(len(found), problems)
	}
	t.Logf("55 tools, 5 with zod: %s", time.Since(start))
	if took := time.Since(start); took > faults.Bound(20*time.Second) { // ten times the goal
		t.Errorf("took %s", took)
	}
}
