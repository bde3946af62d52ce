package distil

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/runlog"
)

// recordedRun is a log of a chat in which one agent found something and another wrote of it.
func recordedRun() *Recording {
	return &Recording{
		started:  runlog.RunStarted{Workflow: "agent", Title: "Leases", Inputs: json.RawMessage(`{"prompt":"Write about \"raft leases\"."}`)},
		finished: runlog.RunFinished{Output: json.RawMessage(`{"text":"A page of leases, as long as it has to be."}`)},
		scopes:   map[string]*scope{},
		units: []*unit{
			{kind: agentUnit, name: "finder", prompt: "Find out about raft leases.", said: "They last thirty seconds.", value: quoted("They last thirty seconds."), path: "work/task[1.1]/finder", asked: 2, ended: 4},
			{kind: toolUnit, name: "glob", args: json.RawMessage(`{"pattern": "*.md", "deep": true}`), said: "a.md\nb.md\n", value: quoted("a.md\nb.md\n"), path: "work/turn-0/call-1", asked: 2, ended: 5},
			{kind: flowUnit, name: "check", args: json.RawMessage(`{"claim":"They last thirty seconds."}`), said: "It holds, says everybody.", value: quoted("It holds, says everybody."), path: "work/turn-1/call-0", asked: 6, ended: 7},
			{kind: agentUnit, name: "writer", prompt: "Write about raft leases: They last thirty seconds. It holds, says everybody. Files:\na.md\nb.md\n", said: "A page of leases, as long as it has to be.", value: quoted("A page of leases, as long as it has to be."), path: "work/task[3.1]/writer", asked: 8, ended: 9},
		},
	}
}

func planned(t testing.TB) *plan {
	t.Helper()
	p, err := draft(recordedRun(), &Options{Name: "test", Run: "0a1b2c3d"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A recipe that differs in one thing from what the run did is not proven.
func TestTamperedRecipesAreNotProven(t *testing.T) {
	p := planned(t)
	text := p.yaml()
	if _, err := newProof(p).run(t.Context(), []byte(text)); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"a prompt":          {"Find out about", "Find about", `recorded: "Find out about raft leases."`},
		"an agent":          {"subagent: finder", "subagent: writer", "agent writer differs"},
		"an argument":       {"deep: true", "deep: false", "tool glob differs"},
		"a tool":            {"tool: glob", "tool: grep", "tool grep is asked"},
		"a workflow":        {"workflow: check", "workflow: chuck", "chuck"},
		"an input":          {`claim: "{{steps.finder.output}}"`, `claim: "{{inputs.topic}}"`, "workflow check differs"},
		"a reference":       {"{{steps.glob.output}}", "{{steps.check.output}}", "agent writer differs"},
		"the output":        {`output: "{{steps.writer.output}}"`, `output: "{{steps.writer.output}}!"`, "the output differs"},
		"another output":    {`output: "{{steps.writer.output}}"`, `output: "{{steps.finder.output}}"`, "the output differs"},
		"one more":          {"\noutput:", "\n  - id: more\n    subagent: finder\n    prompt: more\n\noutput:", "agent finder"},
		"a missing step":    {"\n  - id: glob\n    tool: glob\n    args:\n      deep: true\n      pattern: \"*.md\"\n", "", "glob"},
		"invalid":           {"steps:", "stops:", "stops"},
		"a step that fails": {"{{steps.finder.output}}", "{{steps.finder.output.none}}", "failed"},
		"a warning":         {"subagent: finder", "output_retries: 3\n    subagent: finder", "output_retries"},
	} {
		t.Run(name, func(t *testing.T) {
			tampered := strings.Replace(text, c.from, c.to, 1)
			if tampered == text {
				t.Fatalf("there is no %q in\n%s", c.from, text)
			}
			_, err := newProof(p).run(t.Context(), []byte(tampered))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\n%s", err, tampered)
			}
			var proof *ProofError
			var problems recipe.Problems
			if !errors.As(err, &proof) && !errors.As(err, &problems) {
				t.Errorf("got %T", err)
			}
		})
	}
}

// A proof that is stopped proves nothing.
func TestProofStops(t *testing.T) {
	p := planned(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newProof(p).run(ctx, []byte(p.yaml())); err == nil {
		t.Error("it is proven")
	}
}

func TestBuild(t *testing.T) {
	one, two := &source{text: "the whole output", input: "one"}, &source{text: "whole", input: "two"}
	few := &source{text: "yes", input: "few", loose: true}
	for text, want := range map[string]string{
		"":                            "",
		"the whole output":            "{{inputs.one}}",
		"a whole b the whole output.": "a {{inputs.two}} b {{inputs.one}}.",
		"wholesome":                   "wholesome",
		"say yes now":                 "say yes now",
		`say "yes" now`:               `say "{{inputs.few}}" now`,
		"yes":                         "{{inputs.few}}",
		"{{x}} whole {{{":             `\{{x}} {{inputs.two}} \{{{`,
		"{whole}":                     "{whole}",
		"{{whole}}":                   `\{{{{inputs.two}}}}`,
		`\whole`:                      `\whole`,
		`\{{whole`:                    `\\{{{{inputs.two}}`,
	} {
		if got := build(text, []*source{one, two, few}).text(); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// Whatever a text is, as a template with references it gives the text again.
func FuzzBuild(f *testing.F) {
	for _, s := range []string{"a b", "{{a}}", `\{{a`, "{a}", "{{{a}}}", "a\n b\n", "  a\t", "a: b # c", "\"a\"", "\x00a\u0085", "{{{{a"} {
		f.Add(s, "a")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		if len(text) > 1000 || len(value) > 100 || value == "" {
			return
		}
		text, value = strings.ToValidUTF8(text, "?"), strings.ToValidUTF8(value, "?")
		made := build(text, []*source{{text: value, input: "x"}})
		w := &writer{}
		w.WriteString("name: test\ninputs: [x]\nsteps:\n  - id: a\n    subagent: a\n    prompt:")
		w.text(made.text()+"{{inputs.x}}", "    ")
		if strings.HasSuffix(text, `\`) || !expressible(text[strings.LastIndexByte(text, '}')+1:]) {
			return // what is added here cannot follow
		}
		r, problems := recipe.Parse("x", []byte(w.String()))
		if err := problems.Err(); err != nil {
			t.Fatalf("%v\n%s", err, w.String())
		}
		got, err := r.Steps[0].Agent.Prompt.Render(&recipe.Scope{Inputs: map[string]any{"x": value}})
		if err != nil || got != text+value {
			t.Errorf("got %q, %v, want %q\n%s", got, err, text+value, w.String())
		}
	})
}

// A log may be anything; reading it fails or gives something that is or is not a recipe.
func FuzzRead(f *testing.F) {
	f.Add(`{"workflow":"agent","inputs":{"prompt":"p"}}`, `{"key":"turn-0/call-0","kind":"tool","name":"task","input":{"agent":"a","prompt":"b"},"output":{"text":"c"}}`, `{"output":{"text":"c"}}`)
	f.Add(`{"workflow":"x","inputs":{"a":[1,{"b":null}]}}`, `{"key":"agent","kind":"agent","input":{"agent":"a","prompt":"b"}}`, `{"output":["c"]}`)
	f.Add(`{"workflow":"x","pinned":{"files":[{"name":"x","text":"name: x"}]}}`, `{"key":"turn-0/call-0","kind":"tool","name":"t","input":3,"output":{"text":"c"}}`, `{"output":"c"}`)
	f.Fuzz(func(t *testing.T, start, effect, finish string) {
		recs := []runlog.Record{
			{Seq: 1, Kind: runlog.KindRunStarted, Data: json.RawMessage(start)},
			{Seq: 2, Kind: runlog.KindSettled, Path: lead, Data: json.RawMessage(`{"key":"turn-0","kind":"model","output":{"message":{"role":"assistant","parts":[{"kind":"text","text":"c"}]}}}`)},
			{Seq: 3, Kind: runlog.KindSettled, Path: lead, Data: json.RawMessage(effect)},
			{Seq: 4, Kind: runlog.KindRunFinished, Data: json.RawMessage(finish)},
		}
		rec, err := Read(func(yield func(runlog.Record, error) bool) {
			for _, r := range recs {
				if !yield(r, nil) {
					return
				}
			}
		})
		if err != nil {
			return
		}
		made, err := Distil(t.Context(), rec, nil)
		if err == nil && (made.Recipe == nil || mark.Match(made.Text)) {
			t.Errorf("made %s", made.Text)
		}
	})
}
