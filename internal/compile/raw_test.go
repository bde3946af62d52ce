package compile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
)

// A tool step gives data: what is made for models to read (numbers of lines, remarks, sentences about nothing found)
// stays with agents.
func TestToolStepsPassData(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("0123456789", 6000) + "\nend without a newline"
	files := map[string]string{
		"a.txt": "one\r\n\ttwo\u202e\x1b[1m\n", "empty.txt": "", "long.txt": long, "bytes.bin": "a\xffb",
		"many.txt": strings.Repeat("hit\n", 150), "sub/z.md": "needle: 1\nneedle: 2\n",
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := builtin.OpenRoot(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	tools, err := builtin.Tools(&builtin.Options{Root: root, Write: true})
	if err != nil {
		t.Fatal(err)
	}
	k := &kitchen{tools: tools}
	for _, name := range []string{"a.txt", "empty.txt", "long.txt"} {
		r := k.run(t, `
name: test
steps:
  - {id: get, tool: read_file, args: {path: `+name+`}}
  - {id: put, tool: write_file, depends_on: [get], args: {path: copy, content: "{{steps.get.output}}"}}
`, "")
		r.status(t, runlog.Completed)
		if got, err := os.ReadFile(filepath.Join(dir, "copy")); err != nil || string(got) != files[name] {
			t.Errorf("%s: copied as %.80q (%v)", name, got, err)
		}
	}
	for _, c := range []struct{ step, want string }{
		{`tool: read_file, args: {path: sub/z.md, offset: 2, limit: 1}`, "needle: 2\n"},
		{`tool: grep, args: {pattern: needle}, output: {type: string}`, "sub/z.md:1:needle: 1\nsub/z.md:2:needle: 2\n"},
		{`tool: grep, args: {pattern: needle}, output: {type: array, items: {type: string}}`, `["sub/z.md:1:needle: 1","sub/z.md:2:needle: 2"]`},
		{`tool: grep, args: {pattern: nowhere}`, ""},
		{`tool: grep, args: {pattern: nowhere}, output: {type: array}`, "[]"},
		{`tool: grep, args: {pattern: hit, max: 2}, output: {type: array}`, `["many.txt:1:hit","many.txt:2:hit"]`},
		{`tool: glob, args: {pattern: "**/*.md"}, output: {type: array}`, `["sub/z.md"]`},
		{`tool: glob, args: {pattern: "*.none"}`, ""},
		{`tool: ls, args: {path: sub}, output: {type: array}`, `["z.md\t20"]`},
	} {
		r := k.run(t, "name: test\nsteps: [{id: x, "+c.step+"}]", "")
		r.status(t, runlog.Completed)
		if r.text != c.want {
			t.Errorf("%s gives %q, want %q", c.step, r.text, c.want)
		}
	}
	for step, want := range map[string]string{
		`tool: read_file, args: {path: bytes.bin}`: "is not UTF-8",
		`tool: grep, args: {pattern: hit}`:         "over 100 matches; set max",
	} {
		r := k.run(t, "name: test\nsteps: [{id: x, "+step+"}]", "")
		r.status(t, runlog.Partial)
		if !strings.Contains(r.text, want) {
			t.Errorf("%s gives %q, want something about %q", step, r.text, want)
		}
	}
}

// A prompt is sent as it was written and as its inputs are, also beside tool steps; what those gave is cleaned of
// hidden characters, as an agent's own tools are, and keeps its emoji.
func TestPromptsAreSentAsWritten(t *testing.T) {
	const flag, coder, mark = "\U0001F3F4\U000E0067\U000E0062\U000E007F", "\U0001F469\u200D\U0001F4BB", "\u200F"
	k := &kitchen{}
	k.tools = []*tool.Tool{k.echo("look", tool.Pure, func(string) (string, error) { return coder + "a\u202eb\U000E0041" + mark, nil })}
	r := k.run(t, `
name: test
inputs: [who]
steps:
  - {id: look, tool: look}
  - {id: say, subagent: r, depends_on: [look], prompt: "`+flag+coder+mark+` {{inputs.who}} {{steps.look.output}}"}
`, `{"who":"`+flag+coder+mark+`"}`)
	r.status(t, runlog.Completed)
	if want := "r: " + flag + coder + mark + " " + flag + coder + mark + " " + coder + "ab"; k.asked(want) != 1 {
		t.Errorf("asked %q, want %q", k.prompts, want)
	}
}
