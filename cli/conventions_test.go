package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
)

// The conventions of the command line have a script each, which its number begins. In them superstep is the whole command, and flows
// the one with the workflows of flows_test.go. Every script has a server of a model of its own, see playSteps; who sets OPENAI_API_KEY
// uses it. Besides the commands of other scripts they have:
//
//	in D N cmd...    as code N, and no longer than D, which is ten times the goal
//	asked N          the model was asked N times since that was asked last; + is any number but 0
//
// What needs a terminal, or more of the system, is a test named after the convention, such as TestConvention03Prompts.
func TestConventions(t *testing.T) {
	faults.Unraced(t)
	bin := whole(t)
	cmds := scriptCommands()
	cmds["asked"] = func(ts *testscript.TestScript, _ bool, args []string) {
		s, seen := ts.Value("server").(*modeltest.Server), ts.Value("seen").(*int)
		n := len(s.Requests()) - *seen
		*seen += n
		if args[0] != strconv.Itoa(n) && (args[0] != "+" || n == 0) {
			ts.Fatalf("the model was asked %d times, want %s", n, args[0])
		}
	}
	cmds["in"] = func(ts *testscript.TestScript, _ bool, args []string) {
		limit, err := time.ParseDuration(args[0])
		ts.Check(err)
		want, err := strconv.Atoi(args[1])
		ts.Check(err)
		start := time.Now()
		expect(ts, want, append([]string{"exec"}, args[2:]...))
		if took := time.Since(start); took > faults.Bound(limit) {
			ts.Fatalf("took %s, longer than %s", took, limit)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script/conventions",
		RequireExplicitExec: true,
		Condition:           scriptCondition,
		Cmds:                cmds,
		Setup: func(e *testscript.Env) error {
			if err := callInProcess(e, "testdata/script/conventions", map[string]hosted{"superstep": wholeProgram, "flows": testProgram}); err != nil {
				return err
			}
			server, err := modeltest.Start(playSteps, nil)
			if err != nil {
				return err
			}
			e.Defer(server.Close)
			e.Values["server"], e.Values["seen"] = server, new(int)
			for name, value := range map[string]string{
				"PATH": bin + string(os.PathListSeparator) + e.Getenv("PATH"), "TERM": "xterm-256color",
				"HOME": e.WorkDir + "/home", "XDG_CONFIG_HOME": e.WorkDir + "/home/.config", "SUPERSTEP_DATA_DIR": e.WorkDir + "/data", "OPENAI_BASE_URL": server.URL,
			} {
				e.Setenv(name, value)
			}
			for _, name := range []string{"OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM"} { // others on this machine are not to be found
				e.Setenv(name+"_BASE_URL", "http://127.0.0.1:1/v1")
			}
			return os.MkdirAll(e.WorkDir+"/home", 0o700)
		},
	})
}

// Every convention that applies to the command line has a script or a test.
func TestConventionsAreAll(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/script/conventions/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range scripts {
		found = append(found, filepath.Base(file)[:2])
	}
	for _, file := range tests {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func TestConvention(\d\d)`).FindAllSubmatch(text, -1) {
			found = append(found, string(m[1]))
		}
	}
	for n := 1; n <= 42; n++ {
		if name := fmt.Sprintf("%02d", n); (n <= 27 || n >= 38 && n != 41) && !slices.Contains(found, name) {
			t.Errorf("convention %s has no test", name)
		}
	}
}

// playSteps is a model that does what it is told: of a message that begins with STEPS and has a JSON array of tool calls, it makes one
// in each turn. Then, and to everybody else, it says what it was told by tools. Each turn costs 100 tokens in and 10 out.
func playSteps(r *modeltest.ParsedRequest) modeltest.Reply {
	var results []string
	var steps [][2]json.RawMessage
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if p.Kind == model.Result {
				results = append(results, p.Text)
			}
		}
		if _, list, ok := strings.Cut(m.Text(), "STEPS "); ok && m.Role == model.User {
			if err := json.NewDecoder(strings.NewReader(list)).Decode(&steps); err != nil {
				return modeltest.Failure(400, "")
			}
		}
	}
	if r.Messages[len(r.Messages)-1].Text() == "SLOWLY" {
		time.Sleep(time.Second)
	}
	reply := modeltest.Text("it has: " + strings.Join(results, " | "))
	if n := len(results); n < len(steps) {
		name, _ := strconv.Unquote(string(steps[n][0]))
		reply = modeltest.Call(name, string(steps[n][1]))
	}
	reply.Parts = append(reply.Parts, model.Part{Kind: model.UsagePart, Usage: &model.Usage{In: 100, Out: 10}})
	return reply
}

// commanding is the whole command in a folder and a home of their own, without a model.
type commanding struct {
	dir string
	env []string
}

func newCommanding(t *testing.T) *commanding {
	t.Helper()
	home := t.TempDir()
	c := &commanding{dir: t.TempDir(), env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TERM=xterm-256color", "SUPERSTEP_DATA_DIR=" + filepath.Join(home, "data"),
	}}
	for _, name := range []string{"OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM"} {
		c.env = append(c.env, name+"_BASE_URL=http://127.0.0.1:1/v1")
	}
	return c
}

// run returns what the command writes to standard output, and fails the test if it does not end with an exit code.
func (c *commanding) run(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	if code := runHere(t.Context(), wholeProgram, c.dir, c.dir, c.env, &out, &errs, append([]string{"superstep"}, args...)); code != want {
		t.Fatalf("%v: exit code %d, want %d\n%s%s", args, code, want, &out, &errs)
	}
	return out.String()
}

func (c *commanding) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What the parser refuses for its form, the schema that init writes refuses, and the other way round. That of all fixtures and of
// random changes to them is TestSchemaAgrees in package recipe.
func TestConvention14Schema(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	c.run(t, 0, "init")
	f, err := os.Open(filepath.Join(c.dir, ".superstep", "schema", "workflow.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	doc, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	if draft := doc.(map[string]any)["$schema"]; draft != "http://json-schema.org/draft-07/schema#" {
		t.Errorf("the draft is %v", draft)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("workflow.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("workflow.json")
	if err != nil {
		t.Fatal(err)
	}
	hello, err := os.ReadFile(filepath.Join(c.dir, ".superstep", "workflows", "hello.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{"", ""}, {"steps:", "stepz:"}, {"tool: glob", "tool: 7"}, {"subagent: explorer", "subagent: [explorer]"}, {"id: answer", "name: answer"},
		{"output: |", "outputs: |"},
	} {
		text := strings.Replace(string(hello), change[0], change[1], 1)
		c.write(t, "it.yaml", text)
		want := ExitUsage
		if change[0] == "" {
			want = ExitOK
		}
		c.run(t, want, "lint", "it.yaml")
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if v, err = jsonschema.UnmarshalJSON(bytes.NewReader(raw)); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); (err == nil) != (want == ExitOK) {
			t.Errorf("%q: the schema says %v, and lint ended with %d", change, err, want)
		}
	}
}

// Every format has the same edges, and of a run the same states.
func TestConvention17Formats(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	c.write(t, "it.yaml", `name: it
steps:
  - {id: first, tool: glob, args: {pattern: "*"}}
  - {id: gone, tool: read_file, args: {path: gone}}
  - {id: sure, ask: "Sure?", depends_on: [first]}
  - {id: last, tool: glob, args: {pattern: "*"}, depends_on: [sure, gone]}
`)
	c.run(t, ExitPaused, "run", "it.yaml")
	for _, of := range [][]string{{"it.yaml"}, {"code-review", "--closed"}, {"--run", "@last"}} {
		picture := func(format string) string {
			return c.run(t, 0, append([]string{"workflows", "graph", "--format", format}, of...)...)
		}
		text := picture("text")
		if of[0] == "--run" && !strings.Contains(text, "? waiting") {
			t.Errorf("there are no states:\n%s", text)
		}
		var want []string
		from := ""
		for line := range strings.Lines(text) {
			if to, ok := strings.CutPrefix(line, "  → "); ok {
				want = append(want, from+" "+strings.TrimSpace(to))
			} else if name := regexp.MustCompile(`^[a-z-]+`).FindString(line); name != "" {
				from = name
			}
		}
		slices.Sort(want)
		if len(want) < 4 {
			t.Fatalf("%v: %q\n%s", of, want, text)
		}
		for format, edge := range map[string]string{"mermaid": `(?m)^  (\w+) -->(?:\|[^|]*\|)? (\w+)$`, "dot": `(?m)^  "(\w+)" -> "(\w+)"`} {
			var got []string
			for _, m := range regexp.MustCompile(edge).FindAllStringSubmatch(picture(format), -1) {
				got = append(got, strings.ReplaceAll(m[1]+" "+m[2], "__", ""))
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%v: %s has the edges %q, and text %q", of, format, got, want)
			}
		}
		for _, state := range []string{"✓ done", "✗ failed", "? waiting", "◌ pending"} {
			for _, format := range []string{"mermaid", "dot", "svg"} {
				p, shown := strings.ReplaceAll(picture(format), "#63;", "?"), state // as Mermaid wants it
				if format == "svg" {
					shown = ">" + state + "</text>" // besides its title
				}
				if got, want := strings.Count(p, shown), strings.Count(text, state); got != want {
					t.Errorf("%v: %q is in text %d times and in %s %d times", of, state, want, format, got)
				}
			}
		}
	}
}

// Each help has a description, usage, examples and its own flags, in this order, and of the global flags one line.
func TestConvention42Help(t *testing.T) {
	t.Parallel()
	a := newApp(testConfig(os.Getenv), &Options{Version: "1.2.3", Demo: true, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard})
	defer a.opened.Close()
	root := newRoot(a)
	root.InitDefaultHelpCmd()
	global := root.PersistentFlags()
	var all []*cobra.Command
	var add func(*cobra.Command)
	add = func(c *cobra.Command) {
		if c.IsAvailableCommand() || c == root {
			all = append(all, c)
		}
		for _, sub := range c.Commands() {
			add(sub)
		}
	}
	add(root)
	for _, c := range all {
		path := c.CommandPath()
		var b strings.Builder
		c.InitDefaultHelpFlag()
		c.SetOut(&b)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		parts := []string{cmp.Or(c.Long, c.Short), "\nUsage:\n", "\nExamples:\n", "\nFlags:\n", "\nGlobal flags: superstep help flags\n"}
		if c == root {
			parts = slices.Delete(parts, 3, 4) // they are all global
		}
		at := -1
		for _, part := range parts {
			i := strings.Index(text, strings.TrimSpace(part))
			if i <= at {
				t.Errorf("%s: %q is missing, or not in its place:\n%s", path, strings.TrimSpace(part), text)
				break
			}
			at = i
		}
		if c != root && c.Short == "" {
			t.Errorf("%s has no description", path)
		}
		if len(c.Short) > 66 {
			t.Errorf("%s: %q has %d letters; in a list of 80 columns there is room for 66", path, c.Short, len(c.Short))
		}
		global.VisitAll(func(f *pflag.Flag) {
			if own := c.LocalNonPersistentFlags().Lookup(f.Name); c != root && own == nil && strings.Contains(text, "--"+f.Name+" ") && strings.Contains(text, f.Usage) {
				t.Errorf("%s describes the global flag --%s", path, f.Name)
			}
		})
	}
	if len(all) < 60 {
		t.Errorf("there are %d commands only", len(all))
	}
}
