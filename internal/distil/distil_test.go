package distil_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/distil"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

func distilled(t testing.TB, store runlog.Store, id string, opt *distil.Options) (*distil.Made, error) {
	t.Helper()
	rec, err := distil.Read(runlog.Records(t.Context(), store, id, 0))
	if err != nil {
		return nil, err
	}
	o := distil.Options{}
	if opt != nil {
		o = *opt
	}
	o.Run = id
	return distil.Distil(t.Context(), rec, &o)
}

func must(t testing.TB, store runlog.Store, id string) *distil.Made {
	t.Helper()
	made, err := distilled(t, store, id, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, dump(t, store, id))
	}
	return made
}

func has(t testing.TB, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("it lacks %q:\n%s", w, text)
		}
	}
}

func last(heard []string) string { return heard[len(heard)-1] }

// turns are those of a lead.
type turns = []func([]string) model.Response

func TestChatSequence(t *testing.T) {
	s := &stage{
		say: map[string]func(string) (string, error){
			"researcher": func(string) (string, error) { return "The lease lasts thirty seconds and is renewed every ten.", nil },
			"writer":     func(p string) (string, error) { return "# Brief\n\nAll about it: " + strings.ToUpper(p), nil },
		},
		lead: turns{
			func([]string) model.Response {
				return calls("task", m{"agent": "researcher", "prompt": "Find facts about lease renewal in etcd.", "description": "gather facts"})
			},
			func(h []string) model.Response {
				return calls("task", task("writer", "Write a brief about lease renewal in etcd from these facts:\n\n"+last(h)+"\n\nKeep it short."))
			},
			func(h []string) model.Response { return says(last(h)) },
		},
	}
	store, id := s.chat(t, "Write me a brief about lease renewal in etcd, please.")
	made := must(t, store, id)
	want := `# yaml-language-server: $schema=../schema/workflow.json
# distilled from run 0a1b2c3d: 2 steps, 0 cut
name: a-test
description: "A test"

inputs:
  - name: topic
    description: "What it is about. Such as: lease renewal in etcd"
    required: true

steps:
  - id: gather-facts
    subagent: researcher
    prompt: "Find facts about {{inputs.topic}}."

  - id: writer
    subagent: writer
    depends_on: [gather-facts]
    prompt: |-
      Write a brief about {{inputs.topic}} from these facts:

      {{steps.gather-facts.output}}

      Keep it short.

output: "{{steps.writer.output}}"
`
	if string(made.Text) != want {
		t.Errorf("made\n%s", made.Text)
	}
	// With another input the agents are asked of that.
	s.prompts = nil
	s.recipe(t, string(made.Text), `{"topic":"raft"}`)
	has(t, strings.Join(s.prompts, "\n"), "researcher: Find facts about raft.", "writer: Write a brief about raft from these facts:\n\nThe lease")
}

func TestChatFan(t *testing.T) {
	s := &stage{
		say: map[string]func(string) (string, error){
			"go":   func(string) (string, error) { return "Go has goroutines, which are cheap.", nil },
			"rust": func(string) (string, error) { return "Rust has ownership, which is strict.", nil },
		},
		lead: turns{
			func([]string) model.Response {
				return calls("task_batch", batch(task("go", "What is good about it?"), task("rust", "What is bad about it?")))
			},
			func(h []string) model.Response {
				return calls("task", task("writer", "Compare.\nA: Go has goroutines, which are cheap.\nB: Rust has ownership, which is strict."))
			},
			func(h []string) model.Response { return says("Here you are:\n\n" + last(h)) },
		},
	}
	store, id := s.chat(t, "Compare two languages.")
	made := must(t, store, id)
	has(t, string(made.Text), "depends_on: [go, rust]", "A: {{steps.go.output}}\n      B: {{steps.rust.output}}", "output: |-\n  Here you are:\n\n  {{steps.writer.output}}\n")
	if strings.Count(string(made.Text), "depends_on") != 1 || made.Steps != 3 {
		t.Errorf("made\n%s", made.Text)
	}
}

func TestRecipeRoundTrip(t *testing.T) {
	const text = `name: look-at
description: Looks at things.
inputs:
  - name: topic
    description: What
    required: true
  - name: count
    type: integer
    default: 3
steps:
  - id: list
    subagent: lister
    prompt: List {{inputs.count}} parts of {{inputs.topic}}
    output: {type: array, items: {type: string}}
  - id: each
    depends_on: list
    foreach:
      in: "{{steps.list.output}}"
      steps:
        - id: look
          subagent: looker
          prompt: Look at {{item}} of {{inputs.topic}}
        - id: check
          subagent: checker
          depends_on: look
          prompt: Is this right of {{item}}? {{steps.look.output}}
  - id: other
    subagent: critic
    prompt: What speaks against {{inputs.topic}}?
  - id: sum
    depends_on: [each, other]
    subagent: writer
    prompt: |
      Sum it up. \{{literally}}

      {{steps.each.output}}
      {{steps.other.output}}
output:
  text: "{{steps.sum.output}}"
  against: "{{steps.other.output}}"
`
	s := &stage{say: map[string]func(string) (string, error){
		"lister": func(p string) (string, error) {
			if strings.Contains(p, "dogs") {
				return `{"result":["tails","paws"]}`, nil
			}
			return `{"result":["whiskers","fur","claws"]}`, nil
		},
	}}
	store, id := s.recipe(t, text, `{"topic":"cats"}`)
	made := must(t, store, id)
	has(t, string(made.Text), "foreach:", "{{item}}", "type: integer", "default: 3", `\{{literally}}`)
	s.prompts = nil
	s.recipe(t, text, `{"topic":"dogs","count":2}`)
	want := sorted(s.prompts)
	s.prompts = nil
	s.recipe(t, string(made.Text), `{"topic":"dogs","count":2}`)
	if got := sorted(s.prompts); got != want {
		t.Errorf("asked\n%s\nwant\n%s", got, want)
	}
}

func TestNoise(t *testing.T) {
	tries := 0
	s := &stage{
		say: map[string]func(string) (string, error){
			"researcher": func(p string) (string, error) {
				if tries++; tries == 1 {
					return "", errors.New("the provider is down")
				}
				return "Facts of the matter, found at last.", nil
			},
			"joker": func(string) (string, error) { return "Knock knock, who is there?", nil },
		},
		lead: turns{
			func([]string) model.Response { return calls("task", task("researcher", "Find it")) },
			func([]string) model.Response {
				return calls("task", task("researcher", "Find it"), "task", task("joker", "Be funny"))
			},
			func([]string) model.Response { return calls("task", task("researcher", "Find it")) },
			func(h []string) model.Response { return calls("task", task("writer", "Tell: "+last(h))) },
			func(h []string) model.Response { return says(last(h)) },
		},
	}
	store, id := s.chat(t, "Do it.")
	made := must(t, store, id)
	if made.Steps != 2 || len(made.Cut) != 3 {
		t.Errorf("%d steps, cut %v\n%s", made.Steps, made.Cut, made.Text)
	}
	why := ""
	for _, c := range made.Cut {
		why += c.What + ": " + c.Why + "\n"
	}
	has(t, why, "agent researcher: it failed, and was done again: ", "provider is down", "agent researcher: it was asked the same again", "agent joker: its output went nowhere")
	has(t, string(made.Text), "2 steps, 3 cut")
}

func paraphrasing() *stage {
	return &stage{
		say: map[string]func(string) (string, error){
			"researcher": func(string) (string, error) {
				return "The lease lasts thirty seconds and renewal happens every ten.", nil
			},
			"writer": func(string) (string, error) { return "A fine page.", nil },
		},
		lead: turns{
			func([]string) model.Response { return calls("task", task("researcher", "Find it")) },
			func([]string) model.Response {
				return calls("task", m{"agent": "writer", "prompt": "Tell people that leases last thirty seconds and are renewed often", "description": "write the page"})
			},
			func(h []string) model.Response { return says(last(h)) },
		},
	}
}

func TestParaphraseIsRefused(t *testing.T) {
	store, id := paraphrasing().chat(t, "Do it.")
	_, err := distilled(t, store, id, nil)
	var rewritten *distil.RewrittenError
	if !errors.As(err, &rewritten) || len(rewritten.Steps) != 1 || rewritten.Steps[0].Step != "write-the-page" {
		t.Fatalf("got %v", err)
	}
	has(t, err.Error(), "thirty", "agent researcher")
	made, err := distilled(t, store, id, &distil.Options{Loose: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(made.Loose) != 1 {
		t.Errorf("loose: %v", made.Loose)
	}
	has(t, string(made.Text), "# not proven word for word: step write-the-page; ", "{{inputs.task}}", "{{steps.researcher.output}}", "Your part of the task: write the page", "depends_on: [researcher]")
}

func TestForeachFromAList(t *testing.T) {
	s := &stage{
		say: map[string]func(string) (string, error){
			"lister": func(string) (string, error) { return `["a.go","b.go","c.go"]`, nil },
			"reviewer": func(p string) (string, error) {
				return "Nothing is wrong with " + strings.Fields(p)[1] + " as far as I can see", nil
			},
		},
		lead: turns{
			func([]string) model.Response { return calls("task", task("lister", "List the files")) },
			func([]string) model.Response {
				return calls("task_batch", batch(task("reviewer", "Review a.go in depth. Say a.go first."), task("reviewer", "Review b.go in depth. Say b.go first."), task("reviewer", "Review c.go in depth. Say c.go first.")))
			},
			func(h []string) model.Response {
				return says("Three files, a.go, b.go and c.go, and nothing is wrong with any of them as far as can be told by anybody who looked, which were three reviewers.")
			},
		},
	}
	store, id := s.chat(t, "Review all.")
	made := must(t, store, id)
	has(t, string(made.Text), "foreach:", `in: "{{steps.lister.output}}"`, `prompt: "Review {{item}} in depth. Say {{item}} first."`, "subagent: synthesizer", "{{steps.each.output}}")
	// Where each result is put into a prompt by itself, there is no foreach to give them.
	s.lead[2] = func(h []string) model.Response {
		return calls("task", task("writer", strings.ReplaceAll(last(h), "/3 reviewer", "")))
	}
	s.lead = append(s.lead, func(h []string) model.Response { return says(last(h)) })
	store, id = s.chat(t, "Review all.")
	if _, err := distilled(t, store, id, nil); err == nil || !strings.Contains(err.Error(), "a.go") {
		t.Errorf("got %v", err)
	}
}

func TestForeachFromThePrompt(t *testing.T) {
	s := &stage{lead: turns{
		func([]string) model.Response {
			return calls("task_batch", batch(task("researcher", "What is Go good for?"), task("researcher", "What is Rust good for?"), task("researcher", "What is Zig good for?")))
		},
		func(h []string) model.Response {
			return says("All three are good for something else, as it turns out: " + strings.Repeat("really ", 20))
		},
	}}
	store, id := s.chat(t, "Compare Go, Rust and Zig for servers.")
	made := must(t, store, id)
	has(t, string(made.Text), "name: items", "type: list", `in: "{{inputs.items}}"`, "What is {{item}} good for?", "Compare {{inputs.items}} for servers.")
}

func TestRedactionMarks(t *testing.T) {
	s := &stage{lead: turns{
		func([]string) model.Response {
			return calls("task", task("researcher", "Log in with [redacted:TOKEN] and look"))
		},
		func(h []string) model.Response { return says(last(h)) },
	}}
	store, id := s.chat(t, "Do it.")
	_, err := distilled(t, store, id, nil)
	var redacted *distil.RedactedError
	if !errors.As(err, &redacted) || redacted.Line == 0 {
		t.Errorf("got %v", err)
	}
}

// Whatever texts have in them, they come out as they went in.
func TestHostileTexts(t *testing.T) {
	for name, out := range map[string]string{
		"template":  "{{steps.x.output}} {{ inputs.topic }} \\{{ }} {{{ }}}",
		"yaml":      "--- \n&a *a !!tag # not a comment: \"'|>%@`\n- x: [1, {a: b}]\n...\n",
		"control":   "a\x00b\x1b[31mred\u202etfel\u0085\u2028\x7f\ufeffend",
		"space":     "  leading\n\ttab \n\n\n trailing  \n\n",
		"crlf":      "one\r\ntwo\rthree and so on",
		"boolean":   "true or not, no, null, ~, 012, 1e3",
		"emoji":     "👩‍💻 世界 \U000e0041 done here",
		"long":      strings.Repeat("0123456789 abcdef {{x}} ", 8000),
		"backslash": `C:\dir\{{x}}\ and "quotes" \n \t`,
	} {
		t.Run(name, func(t *testing.T) {
			s := &stage{say: map[string]func(string) (string, error){
				"first":  func(string) (string, error) { return out, nil },
				"second": func(p string) (string, error) { return "It said: " + p, nil },
			}}
			quoted, err := json.Marshal("Take this: " + strings.ReplaceAll(out, "{{", `\{{`) + "\nand that: ")
			if err != nil {
				t.Fatal(err)
			}
			text := "name: test\nsteps:\n  - id: first\n    subagent: first\n    prompt: go on\n  - id: second\n    subagent: second\n    depends_on: first\n    prompt: \"{{steps.first.output}}\"\n" +
				"  - id: third\n    subagent: third\n    depends_on: second\n    prompt: " + strings.NewReplacer("\\u007f", `\x7f`, "\x7f", `\x7f`, "\u0085", `\N`, "\ufeff", `\uFEFF`, "\u202e", `\u202e`).Replace(string(quoted[:len(quoted)-1])) + "{{steps.second.output}}\"\n"
			store, id := s.recipe(t, text, `{}`)
			made := must(t, store, id)
			if bytes.ContainsAny(made.Text, "\x00\x1b\u202e\x7f\ufeff") {
				t.Errorf("it has control characters:\n%q", made.Text)
			}
			want := sorted(s.prompts)
			s.prompts = nil
			s.recipe(t, string(made.Text), `{}`)
			if got := sorted(s.prompts); got != want {
				t.Errorf("asked\n%q\nwant\n%q\nby\n%s", got, want, made.Text)
			}
		})
	}
}

func TestUnfitRuns(t *testing.T) {
	s := &stage{lead: turns{func([]string) model.Response { return says("I know.") }}}
	store, id := s.chat(t, "Do it.")
	if _, err := distilled(t, store, id, nil); err == nil || !strings.Contains(err.Error(), "alone") {
		t.Errorf("got %v", err)
	}
	s.say = map[string]func(string) (string, error){"a": func(string) (string, error) { return "", errors.New("no") }}
	store, id = s.recipe(t, "name: test\nsteps:\n  - id: a\n    subagent: a\n    prompt: go\n  - id: b\n    subagent: b\n    prompt: go\n", `{}`)
	if _, err := distilled(t, store, id, nil); err == nil || !strings.Contains(err.Error(), "partial, these failed in it: a") {
		t.Errorf("got %v", err)
	}
	if _, err := distil.Read(func(yield func(runlog.Record, error) bool) {
		_ = yield(runlog.Record{Seq: 1, Kind: runlog.KindRunStarted, Data: json.RawMessage(`{"workflow":"test","parent":"7f3a9c21","at":12}`)}, nil) &&
			yield(runlog.Record{Seq: 2, Kind: runlog.KindRunFinished, Data: json.RawMessage(`{}`)}, nil)
	}); err == nil || !strings.Contains(err.Error(), "fork of run 7f3a9c21") {
		t.Errorf("got %v", err)
	}
	if _, err := distil.Read(func(func(runlog.Record, error) bool) {}); err == nil {
		t.Error("no records")
	}
	if _, err := distil.Read(runlog.Records(context.Background(), runlog.NewMemory(nil), "none", 0)); err == nil {
		t.Error("no run")
	}
}

func TestSlug(t *testing.T) {
	for in, want := range map[string]string{"Write me a Brief!": "write-me-a-brief", " -- ": "", "Ünï 12": "n-12", "abcdefgh": "abcde", "abcd efgh": "abcd"} {
		most := 40
		if len(in) < 10 && in[0] == 'a' {
			most = 5
		}
		if got := distil.Slug(in, most); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}
