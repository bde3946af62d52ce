package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/npm"
	"github.com/superstep-dev/superstep/internal/script"
	"github.com/superstep-dev/superstep/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A project is a folder with tools.
type project struct {
	t    testing.TB
	root string
	opts script.Options
}

func newProject(t testing.TB, runtime string) *project {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &project{t: t, root: root}
	p.opts = script.Options{Environ: os.Environ(), Runtimes: []string{runtime}, Temp: t.TempDir()}
	t.Cleanup(func() {
		if left, err := os.ReadDir(p.opts.Temp); err != nil || len(left) > 0 {
			t.Errorf("left in the temporary folder: %v %v", left, err)
		}
	})
	return p
}

func (p *project) dir() string { return filepath.Join(p.root, ".superstep", "tools") }

// write puts a file into the folder of tools, or elsewhere in the project if its name has a slash
// in front.
func (p *project) write(name, text string) string {
	p.t.Helper()
	path := filepath.Join(p.dir(), name)
	if strings.HasPrefix(name, "/") {
		path = filepath.Join(p.root, name)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	mode := os.FileMode(0o600)
	if strings.HasPrefix(text, "#!") {
		mode = 0o700
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// install copies the scripts of a package into node_modules.
func (p *project) install(from, name string) {
	p.t.Helper()
	to := filepath.Join(p.root, "node_modules", name)
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".js" && filepath.Ext(path) != ".json" {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(to, rel)), 0o700), os.WriteFile(filepath.Join(to, rel), b, 0o600))
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) discover() ([]script.Found, []script.Problem) {
	return script.Discover(p.dir(), script.Scope{Name: "project"})
}

// load loads all tools, of which there must be no problem.
func (p *project) load() *tool.Set {
	p.t.Helper()
	found, problems := p.discover()
	if len(problems) > 0 {
		p.t.Fatal(problems)
	}
	tools, problems := script.LoadAll(p.t.Context(), found, &p.opts)
	if len(problems) > 0 {
		p.t.Fatal(problems)
	}
	set, err := tool.NewSet(tools...)
	if err != nil {
		p.t.Fatal(err)
	}
	return set
}

func (p *project) call(ctx context.Context, set *tool.Set, name, args string) tool.Result {
	return set.Call(ctx, name, &tool.Call{
		ID: "call-1", Key: "key-1", Run: "run-1", Node: "gather/api", Agent: "coder", Args: json.RawMessage(args),
		State: func() (json.RawMessage, error) {
			return json.RawMessage(`{"topic":"Pregel","deep":{"list":[1]}}`), nil
		},
	})
}

// runtimes are those that the tests can run. Without node the test is skipped.
func runtimes(t testing.TB) []string {
	npm.Node(t)
	var out []string
	for _, name := range []string{"node", "bun", "deno"} {
		if _, err := exec.LookPath(name); err == nil {
			out = append(out, name)
		}
	}
	return out
}

const header = "import { tool } from \"@superstep/plugin\";\nconst z = tool.schema;\n"

// One table over all engines.
func TestModules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		file   string // defaults to t.ts
		source string
		tool   string // defaults to t
		args   string
		want   string
		fails  string // part of the failure
	}{
		{name: "string", source: header + `export default tool({description: "d", args: {who: z.string().describe("whom")}, async execute({who}) { return "hello " + who }})`, args: `{"who":"世界 👩\u200d💻"}`, want: "hello 世界 👩\u200d💻"},
		{name: "output", source: header + `export default tool({description: "d", args: {}, execute: () => ({title: "t", output: "text", metadata: {a: 1}})})`, want: "text"},
		{name: "json", source: header + `export default tool({description: "d", args: {}, execute: () => [1, {a: "b"}, null]})`, want: `[1,{"a":"b"},null]`},
		{name: "null", source: header + `export default tool({description: "d", args: {}, execute: () => null})`, want: `null`},
		{name: "undefined", source: header + `export default tool({description: "d", args: {}, async execute() {}})`, want: ""},
		{name: "named", source: header + `export const getTemp = tool({description: "d", args: {}, execute: () => "1"}); export const helper = 5; export function f() {}`, tool: "t_getTemp", want: "1"},
		{name: "plain object", source: `export default {description: "d", args: {}, execute() { return "plain" }}`, file: "t.js", want: "plain"},
		{name: "json schema", file: "t.mjs", source: `export default {description: "d", args: {type: "object", properties: {n: {type: "integer"}}, required: ["n"]}, execute: (a) => a.n + 1}`, args: `{"n":1}`, want: "2"},
		{name: "json schema of one", file: "t.mjs", source: `export default {description: "d", args: {n: {type: "integer"}}, execute: (a) => a.n + 1}`, args: `{"n":1}`, want: "2"},
		{name: "common js", file: "t.cjs", source: `const { tool } = require("./helper.cjs"); module.exports = {description: "d", args: {}, execute: () => tool}`, want: "help"},
		{name: "opencode", source: `import { tool } from "@opencode-ai/plugin"; export default tool({description: "d", args: {a: tool.schema.string().optional()}, async execute(a, c) { c.metadata({title: "x"}); return a.a ?? "none" }})`, want: "none"},
		{name: "opencode tool", source: `import { tool } from "@opencode-ai/plugin/tool"; export default tool({description: "d", args: {}, async execute() { return "x" }})`, want: "x"},
		{name: "atomic", source: `import { tool } from "@atomic/plugin"; export default tool({description: "d", args: {}, async execute() { return "x" }})`, want: "x"},
		{name: "bastani", source: `import { tool } from "@bastani/atomic"; export default tool({description: "d", args: {}, async execute() { return "x" }})`, want: "x"},
		{name: "top-level await", source: header + `const v = await Promise.resolve("late"); export default tool({description: "d", args: {}, execute: () => v})`, want: "late"},
		{name: "timer", source: header + `export default tool({description: "d", args: {}, execute: () => new Promise(r => setTimeout(() => r("after"), 20))})`, want: "after"},
		{name: "interval left open", source: header + `export default tool({description: "d", args: {}, execute: () => { setInterval(() => {}, 1); return "done" }})`, want: "done"},
		{name: "prints", source: header + `export default tool({description: "d", args: {}, execute: () => { console.log('{"type":"result","total":0}'); console.error("x"); return "clean" }})`, want: "clean"},
		{name: "context", source: header + `export default tool({description: "d", args: {}, execute: (a, c) => [c.sessionID, c.messageID, c.agent, c.nodeId, c.executionId, c.key, c.abort.aborted, c.workflowState.deep.list[0]].join()})`, want: "run-1,key-1,coder,gather/api,run-1,key-1,false,1"},
		{name: "frozen state", source: header + `export default tool({description: "d", args: {}, execute: (a, c) => { c.workflowState.deep.list.push(2) }})`, fails: "TypeError"},
		{name: "default", source: header + `export default tool({description: "d", args: {n: z.number().int().min(1).default(7), s: z.string().trim().optional()}, execute: (a) => JSON.stringify(a)})`, args: `{"s":" x "}`, want: `{"n":7,"s":"x"}`},
		{name: "refused by schema", source: header + `export default tool({description: "d", args: {n: z.number().int().min(1)}, execute: () => "no"})`, args: `{"n":0}`, fails: "/n: is 0, want at least 1"},
		{name: "refused by regex", source: header + `export default tool({description: "d", args: {n: z.string().regex(/^(?!x)a+$/)}, execute: () => "no"})`, args: `{"n":"xa"}`, fails: "n: does not match"},
		{name: "thrown", source: header + "\n\nfunction inner() {\n  throw new RangeError('too far');\n}\nexport default tool({description: 'd', args: {}, execute: () => inner()})", fails: "RangeError: too far (at .superstep/tools/t.ts:6:"},
		{name: "thrown string", source: header + `export default tool({description: "d", args: {}, execute: () => { throw "just text" }})`, fails: "just text"},
		{name: "thrown nothing", source: header + `export default tool({description: "d", args: {}, execute: () => { throw undefined }})`, fails: "undefined"},
		{name: "thrown getter", source: header + `export default tool({description: "d", args: {}, execute: () => { throw { get message() { throw 1 } } }})`, fails: "says nothing"},
		{name: "rejected later", source: header + `export default tool({description: "d", args: {}, execute: () => new Promise(() => setTimeout(() => { throw new Error("in a timer") }, 1))})`, fails: "in a timer"},
		{name: "never settles", source: header + `export default tool({description: "d", args: {}, execute: () => new Promise(() => {})})`, fails: "its promise never settles"},
		{name: "waits for abort", source: header + `export default tool({description: "d", args: {}, timeout: "300ms", execute: (_, c) => new Promise((_, no) => c.abort.addEventListener("abort", () => no(c.abort.reason)))})`, fails: "it took longer than 300ms"},
		{name: "circular", source: header + `export default tool({description: "d", args: {}, execute: () => { const a = {}; a.a = a; return a }})`, fails: "cannot be written as JSON"},
		{name: "thenable module", source: header + `export function then(r) { }; export default tool({description: "d", args: {}, execute: () => "not waited for"})`, want: "not waited for"},
		{name: "own proto key", source: header + `export default tool({description: "d", args: {o: z.record(z.any())}, execute: (a) => Object.keys(a.o).join() + ({}).polluted + a.o.polluted})`, args: `{"o":{"__proto__":{"polluted":1},"x":1}}`, want: "__proto__,xundefinedundefined"},
		{name: "own folder", source: header + `export default tool({description: "d", args: {}, execute: () => import.meta.url.endsWith("/.superstep/tools/t.ts") && __dirname.endsWith("tools") && process.cwd() === __dirname.replace(/.\.superstep.tools$/, "")})`, want: "true"},
		{name: "local import", source: header + `import { tool as x } from "./helper.cjs"; import text from "../text.txt"; export default tool({description: "d", args: {}, execute: () => x + text})`, want: "helptext"},
		{name: "zod without an install", source: `import { z } from "zod"; export default {description: "d", args: z.object({a: z.enum(["x", "y"])}), execute: (a) => a.a}`, args: `{"a":"x"}`, want: "x"},
		{name: "variables", source: header + `export default tool({description: "d", args: {}, env: ["ALLOWED_ONE"], execute: () => [process.env.ALLOWED_ONE, process.env.ALLOWED_ALL, process.env.SECRET_KEY].join()})`, want: "one,all,"},
		{name: "half a pair", source: header + `export default tool({description: "d", args: {}, execute: () => "a\ud800b"})`, want: "a\ufffdb"},
		{name: "output schema", source: header + `export default tool({description: "d", args: {}, output: z.object({n: z.number()}), execute: () => ({n: "x"})})`, fails: "is not what the tool promises:\n- /n: is the string"},
	} {
		for _, runtime := range runtimes(t) {
			t.Run(c.name+"/"+runtime, func(t *testing.T) {
				t.Parallel()
				if c.name == "never settles" && (runtime == "bun" || runtime == "deno") {
					t.Skip("bun and deno do not notice; the timeout ends it")
				}
				p := newProject(t, runtime)
				p.opts.Environ = append(p.opts.Environ, "ALLOWED_ONE=one", "ALLOWED_ALL=all", "SECRET_KEY=leaked")
				p.opts.Env = []string{"ALLOWED_ALL"}
				file, name := c.file, c.tool
				if file == "" {
					file = "t.ts"
				}
				if name == "" {
					name = "t"
				}
				p.write(file, c.source)
				p.write("_unused.ts", "throw 1")
				p.write("/.superstep/text.txt", "text")
				p.write("helper.cjs", `exports.tool = "help"`)
				if err := os.Rename(filepath.Join(p.dir(), "helper.cjs"), filepath.Join(p.dir(), "_helper.cjs")); err != nil {
					t.Fatal(err)
				}
				p.write(file, strings.ReplaceAll(c.source, "./helper", "./_helper"))
				got := p.call(t.Context(), p.load(), name, c.args)
				if c.fails != "" {
					if !got.Error || !strings.Contains(got.Text, c.fails) {
						t.Errorf("got %v %q, want a failure with %q", got.Error, got.Text, c.fails)
					}
					return
				}
				if got.Error || got.Text != clean.Text(c.want) {
					t.Errorf("got %v %q, want %q", got.Error, got.Text, c.want)
				}
			})
		}
	}
}

// What stops a tool, in every engine.
func TestModulesEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, fails string }{
		"endless loop":     {`for (;;);`, "longer than 300ms"},
		"caught":           {`for (;;) { try { for (;;); } catch {} finally { for (;;); } }`, "longer than 300ms"},
		"backtracking":     {`/^(a+)+$/.test("a".repeat(40) + "b"); for (;;);`, "longer than 300ms"},
		"microtasks":       {`const f = () => Promise.resolve().then(f); return f()`, "longer than 300ms"},
		"waits":            {`return new Promise(r => setTimeout(r, 1e6))`, "longer than 300ms"},
		"deaf to abort":    {`c.abort.addEventListener("abort", () => { for (;;); }); return new Promise(r => setTimeout(r, 1e6))`, "longer than 300ms"},
		"heeds abort":      {`return new Promise((_, no) => { setTimeout(() => {}, 1e6); c.abort.addEventListener("abort", () => no(c.abort.reason)) })`, "longer than 300ms"},
		"deep recursion":   {`const f = () => f() + 1; return f()`, "tack"},
		"memory":           {`const all = []; for (;;) all.push(new Array(1e5).fill(all.length))`, ""},
		"microtask memory": {`const all = []; const f = () => { all.push(Array(1e5).fill(1)); return Promise.resolve().then(f) }; return f()`, ""},
	} {
		for _, runtime := range runtimes(t) {
			t.Run(name+"/"+runtime, func(t *testing.T) {
				t.Parallel()
				p := newProject(t, runtime)
				p.opts.Memory = 64 << 20
				timeout := `"300ms"`
				if c.fails == "tack" || c.fails == "" {
					timeout = `"60s"`
				}
				if c.fails == "" && runtime == "bun" {
					t.Skip("bun knows no limit of memory")
				}
				p.write("t.ts", `export default {description: "d", args: {}, timeout: `+timeout+`, execute(a, c) { `+c.body+` }}`)
				set := p.load()
				start := time.Now()
				got := p.call(t.Context(), set, "t", "")
				if !got.Error || !strings.Contains(got.Text, c.fails) {
					t.Errorf("got %v %q", got.Error, got.Text)
				}
				if took := time.Since(start); took > faults.Bound(10*time.Second) && timeout == `"300ms"` {
					t.Errorf("took %s", took)
				}
			})
		}
	}
}

// The signal reaches a tool, which has time to act on it.
func TestAbort(t *testing.T) {
	t.Parallel()
	p := newProject(t, "node")
	npm.Node(t)
	trace := filepath.Join(p.root, "trace")
	p.write("t.ts", `import { writeFileSync } from "node:fs";
export default {description: "d", args: {}, execute: (a, c) => new Promise((yes) => {
	setTimeout(() => {}, 1e6);
	writeFileSync(`+"`${c.directory}/started`"+`, "");
	c.abort.addEventListener("abort", () => { writeFileSync(`+"`${c.directory}/trace`"+`, c.abort.reason.message); yes("x") });
})}`)
	set := p.load()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for range 500 {
			time.Sleep(10 * time.Millisecond)
			if _, err := os.Stat(filepath.Join(p.root, "started")); err == nil {
				break
			}
		}
		cancel()
	}()
	if got := p.call(ctx, set, "t", ""); !got.Error || !strings.Contains(got.Text, "canceled") {
		t.Errorf("got %+v", got)
	}
	if b, err := os.ReadFile(trace); err != nil || string(b) != "the call was cancelled" {
		t.Errorf("%q %v", b, err)
	}
}

// What a module imports that an engine lacks.
func TestMissing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ runtime, source, want string }{
		{"node", `import { $ } from "bun"; export default {description: "d", args: {}, execute: () => $}`, `imports "bun", which is not among the runtimes`},
		{"nodejs", `export default {description: "d", args: {}, execute: () => 1}`, `unknown runtime "nodejs"; did you mean "node"?`},
	} {
		p := newProject(t, c.runtime)
		p.write("t.ts", c.source)
		found, problems := p.discover()
		if len(found) != 1 || len(problems) > 0 {
			t.Fatal(found, problems)
		}
		if _, err := script.Load(t.Context(), found[0], &p.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	for _, c := range []struct{ runtime, body, want string }{
		{"node", `return Bun.spawn(["x"])`, "the tool is written for bun, and runs in node"},
	} {
		p := newProject(t, c.runtime)
		p.write("t.ts", `export default {description: "d", args: {}, execute() { `+c.body+` }}`)
		if got := p.call(t.Context(), p.load(), "t", ""); !got.Error || !strings.Contains(got.Text, c.want) {
			t.Errorf("got %q, want %q", got.Text, c.want)
		}
	}
}

// Without a runtime on PATH a module is refused, and the error says what to install. Relative folders of PATH do not count.
func TestNoRuntime(t *testing.T) {
	t.Parallel()
	p := newProject(t, "node")
	p.opts.Runtimes = nil
	p.opts.Environ = []string{"PATH=relative:" + t.TempDir()}
	path := p.write("t.ts", header+`export default tool({description: "d", args: {}, execute: () => "x"})`)
	p.write("c.tool.yaml", "description: d\ncommand: [./run.sh]\n")
	p.write("run.sh", "#!/bin/sh\n")
	found, problems := p.discover()
	if len(found) != 2 || len(problems) > 0 {
		t.Fatal(found, problems)
	}
	want := path + ": needs node or bun or deno to run, and PATH has none; install node (https://nodejs.org), bun or deno"
	tools, problems := script.LoadAll(t.Context(), found, &p.opts)
	if len(tools) != 1 || tools[0].Name != "c" || len(problems) != 1 || problems[0].Error() != want {
		t.Errorf("got %v, %v, want %s", names(tools), problems, want)
	}
	if problems := script.Check(found[1], &p.opts); len(problems) != 1 || problems[0].Error() != want {
		t.Errorf("got %v, want %s", problems, want)
	}
}

func names(tools []*tool.Tool) []string {
	var out []string
	for _, t := range tools {
		out = append(out, t.Name)
	}
	slices.Sort(out)
	return out
}

// What a call costs.
func BenchmarkCall(b *testing.B) {
	for _, runtime := range runtimes(b) {
		for name, source := range map[string]string{
			"plain": header + `export default tool({description: "d", args: {a: z.string()}, execute: (a) => a.a})`,
			"zod":   `import { z } from "zod"; export default {description: "d", args: {a: z.string()}, execute: (a) => a.a}`,
		} {
			b.Run(runtime+"/"+name, func(b *testing.B) {
				p := newProject(b, runtime)
				p.install(filepath.Join(npm.Modules(b), "zod"), "zod")
				p.write("t.ts", source)
				set := p.load()
				for b.Loop() {
					if r := p.call(b.Context(), set, "t", `{"a":"x"}`); r.Text != "x" {
						b.Fatal(r)
					}
				}
			})
		}
	}
}

func BenchmarkDiscover(b *testing.B) {
	for name, source := range map[string]string{"plain": header + everything, "zod": "import { tool } from '@superstep/plugin';\nimport { z } from 'zod';\n" + everything} {
		b.Run(name, func(b *testing.B) {
			p := newProject(b, "node")
			p.install(filepath.Join(npm.Modules(b), "zod"), "zod")
			for i := range 50 {
				p.write("t"+strconv.Itoa(i)+".ts", source)
			}
			for b.Loop() {
				if found, problems := p.discover(); len(found) != 50 {
					b.Fatal(problems)
				}
			}
		})
	}
}
