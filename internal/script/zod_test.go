package script_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/npm"
)

const everything = `
export default tool({
	description: "everything",
	args: {
		path: z.string().min(1).max(10).describe("where"),
		mode: z.enum(["fast", "slow"]),
		count: z.number().int().min(1).max(5).default(2),
		ratio: z.number().gt(0).optional(),
		tags: z.array(z.string()).max(3).optional(),
		kind: z.literal("x").optional(),
		meta: z.record(z.string(), z.number()).optional(),
		either: z.union([z.string(), z.number()]).optional(),
		nothing: z.boolean().nullable().optional(),
		inner: z.object({deep: z.string().email().optional()}).optional(),
		free: z.any().optional(),
		word: z.string().regex(/^(?!x)[a-z]+$/).optional(),
		upper: z.string().transform(s => s.toUpperCase()).optional(),
	},
	execute: async (args) => JSON.stringify(args),
});`

// The same definition gives the same schema and the same results with our builder, with zod 4 and
// with zod 3, as they are published.
func TestZod(t *testing.T) {
	t.Parallel()
	modules := npm.Modules(t)
	for _, c := range []struct{ name, header string }{
		{"ours", header},
		{"zod 4", "import { tool } from '@superstep/plugin';\nimport { z } from 'zod';\n"},
		{"zod 4 namespace", "import { tool } from '@superstep/plugin';\nimport * as z from 'zod/v4';\n"},
		{"zod 3", "import { tool } from '@superstep/plugin';\nimport { z } from 'zod/v3';\n"},
	} {
		for _, runtime := range runtimes(t) {
			t.Run(c.name+"/"+runtime, func(t *testing.T) {
				t.Parallel()
				p := newProject(t, runtime)
				p.install(filepath.Join(modules, "zod"), "zod")
				p.write("t.ts", c.header+everything)
				p.write("whole.ts", c.header+`export default tool({description: "d", args: z.object({a: z.string(), b: z.number().default(1)}), execute: (a) => a})`)
				found, problems := p.discover()
				if len(problems) > 0 {
					t.Fatal(problems)
				}
				if bundled := strings.Contains(strings.Join(found[0].Files, " "), "node_modules/zod"); bundled != strings.HasPrefix(c.name, "zod") {
					t.Error(found[0].Files)
				}
				set := p.load()
				tl, _ := set.Get("t")
				got := tl.Input
				for _, name := range []string{"path", "mode", "count", "ratio", "tags", "kind", "meta", "either", "nothing", "inner", "free", "word", "upper"} {
					if got.Properties[name] == nil {
						t.Errorf("no %s", name)
					}
				}
				if want := []string{"path", "mode"}; len(got.Required) != 2 || got.Required[0] != want[0] || got.Required[1] != want[1] {
					t.Errorf("required %v", got.Required)
				}
				b, _ := json.Marshal(got.Properties["path"])
				if string(b) != `{"type":"string","description":"where","minLength":1,"maxLength":10}` {
					t.Errorf("path is %s", b)
				}
				if p := got.Properties["count"]; p.Type != "integer" || *p.Minimum != 1 || *p.Maximum != 5 || string(p.Default) != "2" {
					b, _ := json.Marshal(p)
					t.Errorf("count is %s", b)
				}
				for args, want := range map[string]string{
					`{"path":"a","mode":"fast"}`:                            `{"path":"a","mode":"fast","count":2}`,
					`{"path":"a","mode":"slow","upper":"x","nothing":null}`: `{"path":"a","mode":"slow","count":2,"nothing":null,"upper":"X"}`,
					`{"path":"a","mode":"slow","meta":{"a":1},"tags":[]}`:   `{"path":"a","mode":"slow","count":2,"tags":[],"meta":{"a":1}}`,
					`{"path":"","mode":"fast"}`:                             "! /path: is 0 characters",
					`{"path":"a","mode":"fast","word":"xa"}`:                "! word: ",
					`{"path":"a","mode":"fast","inner":{"deep":"no"}}`:      "! inner",
					`{"path":"a","mode":"other"}`:                           "! /mode: ",
					`{"path":"a","mode":"fast","either":true}`:              "! ",
					`{"path":"a","mode":"fast","unknown":1}`:                "! /unknown: unknown",
				} {
					r := p.call(t.Context(), set, "t", args)
					if fails, ok := strings.CutPrefix(want, "! "); ok {
						if !r.Error || !strings.Contains(r.Text, fails) {
							t.Errorf("%s: got %+v", args, r)
						}
					} else if r.Error || !sameJSON(t, r.Text, want) {
						t.Errorf("%s: got %+v, want %s", args, r, want)
					}
				}
				if r := p.call(t.Context(), set, "whole", `{"a":"x"}`); !sameJSON(t, r.Text, `{"a":"x","b":1}`) {
					t.Errorf("got %+v", r)
				}
			})
		}
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

// Walking zod's own definitions, as is done with versions that cannot tell JSON Schema, agrees
// with what zod itself tells.
func TestZodWalk(t *testing.T) {
	t.Parallel()
	p := newProject(t, "node")
	p.install(filepath.Join(npm.Modules(t), "zod"), "zod")
	hide := `const hide = (s) => {
	if (Array.isArray(s)) s.forEach(hide);
	if (s === null || typeof s !== "object" || !s._zod) return;
	Object.defineProperty(s, "~standard", {value: {}});
	const d = s._zod.def;
	for (const x of [d.innerType, d.element, d.valueType, d.options, d.items, ...Object.values(d.shape ?? {})]) hide(x);
};
`
	p.write("t.ts", "import { z } from 'zod';\nimport { tool } from '@superstep/plugin';\n"+hide+
		`const args = {
	path: z.string().min(1).max(10).describe("where"), mode: z.enum(["fast", "slow"]), count: z.number().int().min(1).max(5).default(2),
	tags: z.array(z.string()).max(3).optional(), either: z.union([z.string(), z.number()]).optional(), pair: z.tuple([z.string(), z.number()]).optional(),
	meta: z.record(z.string(), z.number()).optional(), inner: z.object({a: z.literal("x"), b: z.string().nullable()}).optional(),
};
for (const k of Object.keys(args)) hide(args[k]);
export default tool({description: "d", args, execute: () => ""});`)
	set := p.load()
	tl, _ := set.Get("t")
	b, err := json.Marshal(tl.Input)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"object","properties":{"path":{"type":"string","description":"where","minLength":1,"maxLength":10},"mode":{"type":"string","enum":["fast","slow"]},
"count":{"type":"integer","minimum":1,"maximum":5,"default":2},"tags":{"type":"array","items":{"type":"string"},"maxItems":3},"either":{"anyOf":[{"type":"string"},{"type":"number"}]},
"pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}],"minItems":2,"maxItems":2},"meta":{"type":"object","additionalProperties":{"type":"number"}},
"inner":{"type":"object","properties":{"a":{"type":"string","const":"x"},"b":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a","b"]}},"required":["path","mode"],"additionalProperties":false}`
	if !sameJSON(t, string(b), want) {
		t.Errorf("got %s", b)
	}
}

// A folder in node_modules that is a link out of the project is not followed.
func TestLinkedModules(t *testing.T) {
	t.Parallel()
	p := newProject(t, "node")
	p.write("t.ts", "import { z } from 'zod';\nexport default {description: 'd', args: {a: z.string()}, execute: () => ''}")
	if err := os.Mkdir(filepath.Join(p.root, "node_modules"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(npm.Modules(t), "zod"), filepath.Join(p.root, "node_modules", "zod")); err != nil {
		t.Fatal(err)
	}
	found, problems := p.discover()
	if len(found) != 0 || len(problems) != 1 || !strings.Contains(problems[0].Error(), "outside of") || problems[0].Line != 1 {
		t.Errorf("%v %v", found, problems)
	}
}

// The plugin package of opencode exports nothing that tools use and ours lacks, and an example of
// its own runs.
func TestOpencodePlugin(t *testing.T) {
	t.Parallel()
	pkg := npm.Package(t, "@opencode-ai/plugin@1.18.33", "sha512-fmhqCBJvNt+Vfbx6ckKP19S3xwMBhUXLCBQaK92R4wnv3wsWTZYkJQwYf2egiWfJNOl47jhs3vP7uQkl0mvHQw==")
	p := newProject(t, "node")
	p.install(pkg, "@opencode-ai/plugin")
	p.install(filepath.Join(npm.Modules(t), "zod"), "zod")
	example, err := os.ReadFile(filepath.Join(pkg, "dist", "example.js"))
	if err != nil {
		t.Fatal(err)
	}
	p.write("mine.ts", strings.Replace(string(example), `"./tool.js"`, `"@opencode-ai/plugin/tool"`, 1)+
		"\nexport const hello = (await ExamplePlugin({})).tool.mytool;\n")
	// The real one, reached by its path, makes definitions that are understood as well.
	p.write("theirs.ts", strings.Replace(string(example), `"./tool.js"`, `"../../node_modules/@opencode-ai/plugin/dist/tool.js"`, 1)+
		"\nexport const hello = (await ExamplePlugin({})).tool.mytool;\n")
	p.write("has.js", `export default {description: "d", args: {names: {type: "array"}}, execute: (a, context) => a.names.filter((n) => !(n in context))}`)
	set := p.load()
	for _, name := range []string{"mine_hello", "theirs_hello"} {
		if r := p.call(t.Context(), set, name, `{"foo":"you"}`); r.Error || r.Text != "Hello you!" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	types, err := os.ReadFile(filepath.Join(pkg, "dist", "tool.d.ts"))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"sessionID", "messageID", "agent", "directory", "worktree", "abort", "metadata", "ask"} {
		if !strings.Contains(string(types), field) {
			t.Errorf("their context has no %s", field)
		}
		if r := p.call(t.Context(), set, "has", `{"names": ["`+field+`"]}`); r.Error || r.Text != "[]" {
			t.Errorf("our context has no %s: %+v", field, r)
		}
	}
}
