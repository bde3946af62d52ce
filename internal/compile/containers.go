package compile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// amount is the recorded result of a part of a step: of a branch, a round, an agent or another
// workflow. All share one type, since the graph code is compiled anew for every type.
type amount struct {
	Output  json.RawMessage `json:"output,omitempty"`
	Skipped []string        `json:"skipped,omitempty"` // see graph.RunOptions
	Holds   bool            `json:"holds,omitempty"`   // of a round: the condition of its loop
}

// parallel runs the steps of a block beside each other.
func (w *work) parallel(ctx context.Context) (g given, err error) {
	p := w.step.Parallel
	around := w.around.within(w, nil)
	final, err := w.whole(ctx, w.play, w.step.ID, &p.Block, around, p.Width)
	if err != nil {
		if w.late(ctx) {
			n := len(p.Steps)
			for _, s := range p.Steps {
				if _, ok := final.State.find(s.ID); !ok {
					n--
					final.State = fold(final.State, update{s.ID, recipe.Result{Status: recipe.Degraded, Output: w.missing(s.ID)}})
				}
			}
			g.ended = fmt.Sprintf("%d of %d steps", n, len(p.Steps))
			g.output, _ = w.together(final.State, around) // without one, it is a text
		}
		return g, w.fails(ctx, err)
	}
	w.remains(&g, final.Skipped)
	g.output, err = w.together(final.State, around)
	return g, err
}

// together returns the output of a parallel step.
func (w *work) together(s results, around *surroundings) (json.RawMessage, error) {
	p := w.step.Parallel
	if p.Output != nil {
		return w.output(&p.Block, s, around)
	}
	all := map[string]json.RawMessage{}
	for _, one := range p.Steps {
		if r, ok := s.find(one.ID); ok {
			all[one.ID] = orNull(r.Output)
		}
	}
	return json.Marshal(all)
}

// late reports whether the time of the step is up, after which a container gives what it has. What ends after that, and is in the log, counts.
func (w *work) late(ctx context.Context) bool {
	return w.step.Timeout > 0 && errors.As(context.Cause(ctx), new(*timeoutError))
}

// missing returns what stands in the place of a part of the step that did not end in time.
func (w *work) missing(part string) json.RawMessage {
	id := w.step.ID
	raw, _ := json.Marshal(fmt.Sprintf("%s/%s is missing: step '%s' did not end within %s.", id, part, id, w.step.Timeout)) // a string encodes
	return raw
}

// fails wraps an error of a block inside a step. If the failed step is set to fail the run, so does
// the error.
func (w *work) fails(ctx context.Context, err error) error {
	var tasks *graph.TasksError
	if errors.As(err, &tasks) && ctx.Err() == nil && !journal.Waits(err) {
		return graph.Halt(err)
	}
	return err
}

// maxItems is the largest number of items of a foreach.
const maxItems = 10_000

// mostBeside is the default number of items processed at once: each takes about 50 kB.
const mostBeside = 1000

// foreach runs a block for each item of a list, independently of the other items.
func (w *work) foreach(ctx context.Context) (g given, err error) {
	f := w.step.Foreach
	items, err := w.items()
	if err != nil {
		return g, about("in", err)
	}
	if len(items) == 0 {
		return given{output: json.RawMessage("[]")}, nil
	}
	if n := agents(w.bundle, &f.Block, 0); n > 0 {
		if err := w.task.Scope().AffordsWithin("fan/agents", runlog.Amount{Agents: int64(n * len(items))}); err != nil {
			return g, err
		}
	}
	branches, ended := make([]graph.Node[results, amount], len(items)), make([]json.RawMessage, len(items))
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	for i, item := range items {
		around := w.around.within(w, map[string]any{f.As: item, "index": i})
		name, _ := w.part("branch", strconv.Itoa(i+1), 1)
		branches[i] = graph.Node[results, amount]{Name: name, Run: w.inside(&f.Block, around, fail, &ended[i])}
	}
	var amounts []amount
	all := node.Parallel(w.step.ID, branches, func(_ results, rs []node.Result[amount]) (amount, error) {
		amounts = node.Values(rs)
		return amount{}, nil
	}, &node.ParallelOptions{Width: cmp.Or(f.Width, mostBeside)})
	if all.Err != nil {
		return g, all.Err
	}
	if _, err = all.Run(ctx, w.task, w.state); err != nil {
		if w.late(ctx) {
			g = w.itemsBy(branches, ended)
		}
		return g, w.fails(ctx, err)
	}
	outputs := make([]json.RawMessage, len(amounts))
	var passed []string
	for i, a := range amounts {
		outputs[i] = orNull(a.Output)
		passed = append(passed, a.Skipped...)
	}
	w.remains(&g, passed)
	g.output, err = json.Marshal(outputs)
	return g, err
}

// itemsBy returns what a foreach has when its time is up: the outputs of the items that have ended, and texts for the others. Those that ended in an
// earlier execution or attempt are in the log alone.
func (w *work) itemsBy(branches []graph.Node[results, amount], ended []json.RawMessage) (g given) {
	n := len(ended)
	for i := range ended {
		var r node.Result[amount]
		if raw, done := w.task.Scope().Done("branch/" + branches[i].Name); done && json.Unmarshal(raw, &r) == nil {
			ended[i] = orNull(r.Value.Output)
		}
		if ended[i] == nil {
			n--
			ended[i] = w.missing(branches[i].Name)
		}
	}
	g.ended = fmt.Sprintf("%d of %d items", n, len(ended))
	g.output, _ = json.Marshal(ended) // JSON encodes
	return g
}

// inside runs a block as a part of a task. It notes the output also if all of its steps have ended when the time of the step is up.
func (w *work) inside(b *recipe.Block, around *surroundings, fail func(error), ended *json.RawMessage) graph.TaskFunc[results, amount] {
	return func(ctx context.Context, t *graph.Task, _ results) (amount, error) {
		output, final, err := w.block(ctx, w.step.ID, b, around, w.nested(t, 0))
		if err == nil {
			*ended = output
		} else if w.late(ctx) && final.State.has(b) {
			*ended, _ = w.output(b, final.State, around)
		}
		if err != nil && w.recipe.FailFast && !agent.OfRun(err) {
			fail(err) // the items beside it
		}
		return amount{Output: output, Skipped: final.Skipped}, err
	}
}

// items returns the items of a foreach.
func (w *work) items() ([]any, error) {
	v, err := w.step.Foreach.In.Resolve(w.scope)
	if err != nil {
		return nil, err
	}
	if s, ok := v.(string); ok { // what an agent wrote may be a list all the same
		if list, err := recipe.Decode(json.RawMessage(s)); err == nil {
			v = list
		}
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []any:
		if len(v) > maxItems {
			return nil, fmt.Errorf("there are %d items; at most %d are taken", len(v), maxItems)
		}
		return v, nil
	case string:
		short := clean.Text(v)
		if r := []rune(short); len(r) > 120 {
			short = string(r[:120]) + "…"
		}
		return nil, fmt.Errorf("want a list, got the text %q; give the step it comes from an `output` schema of type array", short)
	}
	kind := "a number"
	switch v.(type) {
	case map[string]any:
		kind = "a map"
	case bool:
		kind = "true or false"
	}
	return nil, fmt.Errorf("want a list, got %s", kind)
}

// loop runs a block until its condition holds.
func (w *work) loop(ctx context.Context) (g given, err error) {
	l := w.step.Loop
	var last any
	var passed []string
	attempt := 1 // that the rounds are of: one that is done again has all after it done again
	for round := 1; round <= l.Max; round++ {
		around := w.around.within(w, map[string]any{"loop": map[string]any{"round": round, "output": last}})
		if scope := w.task.Scope(); round > 1 { // its steps may read what the round before gave
			before, _ := w.part("round", strconv.Itoa(round-1), 1)
			within := agent.Within(agent.Saw(scope.Marks, scope.Path()+"/"+before))
			if _, err := scope.Mark(ctx, fmt.Sprintf("rounds/%d", round), within); err != nil {
				return g, err
			}
		}
		a, holds, err := w.round(ctx, round, &attempt, around)
		if err != nil {
			if w.late(ctx) && round > 1 {
				g.ended = fmt.Sprintf("%d of at most %d rounds", round-1, l.Max)
			}
			return g, w.fails(ctx, fmt.Errorf("round %d: %w", round, err))
		}
		g.output = orNull(a.Output)
		passed = append(passed, a.Skipped...)
		if holds {
			w.remains(&g, passed)
			return g, nil
		}
		if last, err = recipe.Decode(g.output); err != nil {
			return g, err
		}
	}
	w.remains(&g, passed)
	if l.Until != nil {
		w.task.PassOver("")
		g.degraded = fmt.Sprintf("after %d rounds its condition does not hold yet: %s", l.Max, l.Until)
	}
	return g, nil
}

// round runs a round of a loop, and reports whether the condition holds after it.
func (w *work) round(ctx context.Context, n int, attempt *int, around *surroundings) (amount, bool, error) {
	l := w.step.Loop
	var part graph.Node[results, amount]
	part.Name, *attempt = w.part("round", strconv.Itoa(n), *attempt)
	part.Run = func(ctx context.Context, t *graph.Task, _ results) (amount, error) {
		var out amount
		final, err := w.execute(ctx, w.step.ID, &l.Block, around, w.nested(t, 0))
		if err != nil {
			return out, err
		}
		out.Skipped = final.Skipped
		if out.Output, err = w.output(&l.Block, final.State, around); err != nil || l.Until == nil {
			return out, err
		}
		out.Holds, err = l.Until.Holds(w.sees(final.State, around))
		return out, about("until", err)
	}
	effect := &journal.Effect{Key: "round/" + part.Name, Kind: "branch", Name: part.Name, Inside: true}
	r, err := journal.Do(ctx, w.task.Scope(), effect, func(ctx context.Context, _ string) (amount, error) {
		return graph.Part(ctx, w.task, &part, w.state)
	})
	return r, r.Holds, err
}

// agents returns the smallest number of agents that a block runs if none of its steps fails or is
// skipped.
func agents(b *Bundle, block *recipe.Block, depth int) int {
	n := 0
	if depth > maxNesting {
		return n
	}
	for _, s := range block.Steps {
		switch {
		case s.When != nil || s.Foreach != nil:
		case s.Agent != nil:
			n++
		case s.Body() != nil:
			n += agents(b, s.Body(), depth+1)
		case s.Workflow != nil:
			if r := b.find(s.Workflow.Name); r != nil {
				n += agents(b, &r.Block, depth+1)
			}
		}
	}
	return n
}
