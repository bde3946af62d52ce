package distil

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/compile"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// A ProofError reports that a recipe behaves differently from the recorded run.
type ProofError struct {
	What string // what was asked otherwise: "agent researcher"; "the output"
	Got  string // what the recipe asks or gives
	Want string // what is recorded that is nearest; "" for nothing
	At   int    // where they begin to differ, in bytes
	Why  string // instead of these, what else is wrong
}

func (e *ProofError) Error() string {
	if e.Why != "" {
		return "the recipe does not do what the run did: " + e.Why
	}
	if e.Want == "" {
		return fmt.Sprintf("the recipe does not do what the run did: %s is asked %q, and was asked nothing in the run", e.What, around(e.Got, 0))
	}
	return fmt.Sprintf("the recipe does not do what the run did: %s differs from the recording:\n  recorded: %s\n  now:      %s", e.What,
		around(e.Want, e.At), around(e.Got, e.At))
}

// FailureCode returns the code for programs.
func (e *ProofError) FailureCode() string { return "not_proven" }

// around returns the part of a text that differs, on one line.
func around(s string, at int) string {
	from := max(0, min(at, len(s))-40)
	to := min(len(s), at+80)
	out := fmt.Sprintf("%q", strings.ToValidUTF8(s[from:to], ""))
	if from > 0 {
		out = "…" + out
	}
	if to < len(s) {
		out += "…"
	}
	return out
}

// recorded is a request and its recorded result.
type recorded struct {
	what  string
	asked string   // the prompt, or the arguments as JSON
	has   []string // instead of that: what the prompt has to have in it
	said  string
	value json.RawMessage
	used  bool
}

// proof is a crew that answers only from a recording.
type proof struct {
	inputs json.RawMessage
	want   json.RawMessage

	mu     sync.Mutex
	lines  []*recorded
	failed error // the first thing that differs
}

// newProof creates a proof from the parts of the recording that a plan uses.
func newProof(p *plan) *proof {
	q := &proof{want: p.want}
	values := map[string]any{}
	for _, in := range p.inputs {
		values[in.Name] = in.value
	}
	q.inputs = compact(values)
	for _, s := range p.steps {
		for _, u := range s.units() {
			l := &recorded{what: what(u), asked: u.prompt, said: u.said, value: u.value}
			if u.kind != agentUnit {
				l.asked = canonical(u.args)
			}
			if (s.final || s.why != "") && s.rows == nil && u.kind == agentUnit && p.task != nil {
				l.has = []string{p.asks()}
				for _, src := range s.text.sources() {
					if src.step != nil {
						l.has = append(l.has, src.text)
					}
				}
			}
			q.lines = append(q.lines, l)
		}
	}
	return q
}

// asks returns the user's request in the words of the recipe, with the inputs of the run.
func (p *plan) asks() string {
	var b strings.Builder
	for _, part := range p.task.parts {
		b.WriteString(part.lit)
		for _, in := range p.inputs {
			if part.src != nil && part.src.input == in.Name {
				b.WriteString(textOf(compact(in.value)))
			}
		}
	}
	return b.String()
}

// canonical returns JSON in canonical form.
func canonical(raw json.RawMessage) string {
	if v := decoded(raw); v != nil {
		return string(compact(v))
	}
	return "{}"
}

// ask returns the recorded answer to a request. Each answer is used once.
func (q *proof) ask(what, text string) (*recorded, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	near, at := (*recorded)(nil), -1
	for _, l := range q.lines {
		if l.what != what || l.used {
			continue
		}
		if l.answers(text) {
			l.used = true
			return l, nil
		}
		if n := agree(l.asked, text); n > at {
			near, at = l, n
		}
	}
	err := &ProofError{What: what, Got: text}
	if near != nil {
		err.Want, err.At = near.asked, at
	}
	if q.failed == nil {
		q.failed = err
	}
	return nil, err
}

func (l *recorded) answers(text string) bool {
	if l.has == nil {
		return l.asked == text
	}
	return !slices.ContainsFunc(l.has, func(s string) bool { return !strings.Contains(text, s) })
}

// agree returns how many bytes two texts have in common from their start.
func agree(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// run runs the text of a recipe, and returns the parsed recipe if it is proven.
func (q *proof) run(ctx context.Context, text []byte) (*recipe.Recipe, error) {
	r, problems := recipe.Parse("recipe", text)
	// Texts and lists written by agents may cause warnings. Settings without effect were not in the
	// run.
	if slices.ContainsFunc(problems, func(p *recipe.Problem) bool { return !p.Warning || p.Code == "unused" }) {
		return nil, problems
	}
	w, err := compile.New(&compile.Bundle{Main: r}, &compile.Options{Open: q.crew})
	if err != nil {
		return nil, err
	}
	inputs, err := w.Settle(q.inputs)
	if err != nil {
		return nil, err
	}
	j, err := journal.Open(ctx, runlog.NewMemory(nil), "proof", &journal.Options{Create: &runlog.NewRun{Workflow: r.Name}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = j.Close(context.WithoutCancel(ctx)) }()
	res, err := w.Run(ctx, &workflow.Exec{Inputs: inputs, Journal: j, Graph: graph.RunOptions{Journal: j, Workflows: q.flow}})
	switch {
	case q.failed != nil:
		return nil, q.failed
	case err != nil:
		return nil, &ProofError{Why: err.Error()}
	case len(res.Skipped) > 0:
		return nil, &ProofError{Why: "these of its steps failed: " + strings.Join(res.Skipped, ", ")}
	}
	for _, l := range q.lines {
		if !l.used {
			return nil, &ProofError{Why: fmt.Sprintf("%s is not asked %q", l.what, around(l.asked, 0))}
		}
	}
	if got, want := canonicalValue(res.Output), canonicalValue(q.want); got != want {
		return nil, &ProofError{What: "the output", Got: textOf(res.Output), Want: textOf(q.want), At: agree(textOf(res.Output), textOf(q.want))}
	}
	return r, nil
}

func canonicalValue(raw json.RawMessage) string { return string(compact(decoded(raw))) }

// crew returns the agents and tools of the proof.
func (q *proof) crew(_ context.Context, needs *compile.Needs, _ *compile.Setting) (*compile.Crew, error) {
	var tools []*tool.Tool
	for _, name := range needs.Tools {
		tools = append(tools, &tool.Tool{
			Name: name, Description: "What is recorded of it.", Input: &jsonschema.Schema{Type: "object"}, Effect: tool.Pure, Whole: true,
			Run: func(_ context.Context, c *tool.Call) (string, error) {
				l, err := q.ask("tool "+name, canonical(c.Args))
				if err != nil {
					return "", err
				}
				return l.said, nil
			},
		})
	}
	set, err := tool.NewSet(tools...)
	return &compile.Crew{
		Agent: func(name, _ string) (*agent.Agent, error) {
			return &agent.Agent{Name: name, Model: &memory{q, "agent " + name}}, nil
		},
		Tools: set,
	}, err
}

// memory is a model that repeats the recorded answers of an agent.
type memory struct {
	proof *proof
	what  string
}

// Name implements model.Model.
func (m *memory) Name() string { return "recording/" + m.what }

// Generate implements model.Model.
func (m *memory) Generate(_ context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		if len(req.Messages) != 1 {
			yield(model.Part{}, errors.New("it is asked for more than is recorded"))
			return
		}
		l, err := m.proof.ask(m.what, req.Messages[0].Text())
		if err != nil {
			yield(model.Part{}, err)
			return
		}
		if l.said != "" && !yield(model.Part{Kind: model.Text, Text: l.said}, nil) {
			return
		}
		yield(model.Part{Kind: model.Stop, Stop: model.StopEnd}, nil)
	}
}

// flow returns a workflow that returns its recorded output.
func (q *proof) flow(name string) (graph.Nested, error) {
	w := &workflow.Workflow{Name: name, Inputs: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}}
	for _, l := range q.lines {
		if l.what != "workflow "+name {
			continue
		}
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(l.asked), &fields); err != nil {
			return nil, err
		}
		for k := range fields {
			w.Inputs.Properties[k] = &jsonschema.Schema{}
		}
	}
	w.Run = func(_ context.Context, e *workflow.Exec) (*workflow.Result, error) {
		l, err := q.ask("workflow "+name, canonical(e.Inputs))
		if err != nil {
			return nil, err
		}
		return &workflow.Result{Output: bytes.Clone(l.value)}, nil
	}
	return w, nil
}
