package compile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// chef draws recipes. JSON is YAML too.
type chef struct {
	t     *rapid.T
	steps int
}

type dish = map[string]any

// block draws the steps of a block, which see the outer ones and the variables.
func (c *chef) block(depth int, outer, vars []string) []dish {
	n := rapid.IntRange(1, 5).Draw(c.t, "steps")
	var out []dish
	var ids []string
	for range n {
		if c.steps > 24 {
			break
		}
		c.steps++
		id := fmt.Sprintf("s%d", c.steps)
		s := dish{"id": id}
		seen := slices.Clone(outer)
		for _, other := range ids {
			if rapid.IntRange(0, 2).Draw(c.t, "depends") == 0 {
				deps, _ := s["depends_on"].([]string)
				s["depends_on"] = append(deps, other)
				seen = append(seen, other)
			}
		}
		c.kind(s, depth, seen, vars)
		c.settings(s, seen)
		out = append(out, s)
		ids = append(ids, id)
	}
	return out
}

func (c *chef) text(seen, vars []string) string {
	parts := []string{rapid.SampledFrom([]string{"work", "look", "fail now", "write"}).Draw(c.t, "word")}
	for _, id := range seen {
		if rapid.Bool().Draw(c.t, "refers") {
			parts = append(parts, "{{steps."+id+"."+rapid.SampledFrom([]string{"output", "status"}).Draw(c.t, "field")+"}}")
		}
	}
	for _, v := range vars {
		parts = append(parts, "{{"+v+"}}")
	}
	return strings.Join(append(parts, "{{inputs.topic}}"), " ")
}

func (c *chef) kind(s dish, depth int, seen, vars []string) {
	kinds := []string{"agent", "agent", "tool", "parallel", "foreach", "loop", "workflow"}
	if depth > 2 {
		kinds = kinds[:3]
	}
	body := func(vars []string) []dish {
		b := c.block(depth+1, seen, vars)
		if b == nil {
			c.steps++
			b = []dish{{"id": fmt.Sprintf("s%d", c.steps), "subagent": "x", "prompt": "fill"}}
		}
		return b
	}
	switch rapid.SampledFrom(kinds).Draw(c.t, "kind") {
	case "agent":
		s["subagent"], s["prompt"] = rapid.SampledFrom([]string{"x", "y"}).Draw(c.t, "agent"), c.text(seen, vars)
	case "tool":
		s["tool"], s["args"] = "echo", dish{"text": c.text(seen, vars)}
	case "workflow":
		s["workflow"], s["inputs"] = "inner", dish{"what": c.text(seen, vars)}
	case "parallel":
		p := dish{"steps": body(vars)}
		if rapid.Bool().Draw(c.t, "narrow") {
			p["width"] = 1
		}
		s["parallel"] = p
	case "foreach":
		item := fmt.Sprintf("item%d", depth)
		f := dish{"in": rapid.SliceOfN(rapid.SampledFrom([]string{"p", "q", "fail now"}), 0, 3).Draw(c.t, "items"), "as": item, "steps": body(append(slices.Clone(vars), item))}
		if rapid.Bool().Draw(c.t, "narrow") {
			f["width"] = rapid.IntRange(1, 2).Draw(c.t, "width")
		}
		s["foreach"] = f
	case "loop":
		inner := body(vars)
		s["loop"] = dish{"max": rapid.IntRange(1, 3).Draw(c.t, "max"), "steps": inner,
			"until": fmt.Sprintf("loop.round >= 2 && steps.%s.status != 'failed'", inner[len(inner)-1]["id"])}
	}
}

func (c *chef) settings(s dish, seen []string) {
	if p := rapid.IntRange(0, 9).Draw(c.t, "on error"); p < 2 {
		s["on_error"] = []string{"skip", "continue"}[p]
	}
	if rapid.IntRange(0, 4).Draw(c.t, "retry") == 0 {
		s["retry"] = 2
	}
	if len(seen) > 0 && rapid.IntRange(0, 4).Draw(c.t, "when") == 0 {
		id := rapid.SampledFrom(seen).Draw(c.t, "of")
		s["when"] = fmt.Sprintf("steps.%s.status == %q", id, rapid.SampledFrom([]string{"done", "failed"}).Draw(c.t, "is"))
	}
}

func drawRecipe(t *rapid.T) string {
	c := &chef{t: t}
	r := dish{"name": "test", "inputs": []dish{{"name": "topic", "default": "go"}}, "max_concurrency": rapid.IntRange(1, 6).Draw(t, "concurrency"), "steps": c.block(0, nil, nil)}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// deterministic agents and tools: what they say follows from what they are told, and so does whether they fail.
func steady(delay func(string) time.Duration) *kitchen {
	fail := func(p string) (string, error) {
		h := fnv.New32()
		_, _ = h.Write([]byte(p))
		if strings.HasPrefix(p, "fail") || h.Sum32()%11 == 0 {
			return "", errors.New("no luck")
		}
		if len(p) > 200 {
			p = p[:200]
		}
		return fmt.Sprintf("<%x %s>", h.Sum32(), p), nil
	}
	k := &kitchen{delay: delay, say: map[string]func(string) (string, error){"x": fail, "y": fail, "i": fail}}
	k.tools = []*tool.Tool{k.echo("echo", tool.Pure, func(args string) (string, error) {
		if delay != nil {
			time.Sleep(delay(args))
		}
		return fail(args)
	})}
	return k
}

// cooked is what there is of a run in the end.
type cooked struct {
	Output  string
	Skipped []string
	ByPath  map[string][]string // the records of each task, and of each effect of it, in their order
	Folds   []string            // the order in which the top steps are folded
}

func cookOnce(t *rapid.T, text string, delay func(string) time.Duration, barrier bool) cooked {
	k := steady(delay)
	inner, problems := recipe.Parse("inner.yaml", []byte(`{"name":"inner","inputs":[{"name":"what","required":true}],"steps":[{"id":"in1","subagent":"i","prompt":"{{inputs.what}}"},{"id":"in2","subagent":"i","prompt":"{{steps.in1.output}}","depends_on":["in1"]}]}`))
	if problems.Err() != nil {
		t.Fatal(problems.Err())
	}
	k.also = []*recipe.Recipe{inner}
	r, problems := recipe.Parse("test.yaml", []byte(text))
	if problems.Err() != nil {
		t.Fatalf("%v\n%s", problems.Err(), text)
	}
	w, err := newWorkflow(k, r)
	if err != nil {
		t.Fatal(err)
	}
	store := runlog.NewMemory(nil)
	j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{Workflow: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := w.Run(t.Context(), &workflow.Exec{Inputs: json.RawMessage("{}"), Journal: j, Graph: graph.RunOptions{Journal: j, Barrier: barrier}})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := cooked{Output: string(res.Output), Skipped: slices.Sorted(slices.Values(res.Skipped)), ByPath: map[string][]string{}}
	for rec, err := range runlog.Records(t.Context(), store, "run", 0) {
		if err != nil {
			t.Fatal(err)
		}
		switch rec.Kind {
		case runlog.KindIntended, runlog.KindSettled: // the branches of one task end in any order
			var d struct{ Key string }
			if err := json.Unmarshal(rec.Data, &d); err != nil {
				t.Fatal(err)
			}
			rec.Path += " " + d.Key
			fallthrough
		case runlog.KindTaskDone, runlog.KindTaskFailed, runlog.KindEvent:
			out.ByPath[rec.Path] = append(out.ByPath[rec.Path], string(rec.Kind)+" "+lengths.ReplaceAllString(string(rec.Data), ""))
		}
	}
	flow, err := w.Flow(nil)
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range flow.Checkpoints(runlog.Records(t.Context(), store, "run", 0)) {
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range c.Tasks {
			out.Folds = append(out.Folds, task.Path+" "+task.Error+" "+string(task.Update))
		}
	}
	return out
}

// Any recipe gives the same whatever is fast and whatever is slow, also where every step waits
// for its superstep: the same output, the same failures, the same records of each task.
func TestAnyDelaysGiveOneResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawRecipe(t)
		seed := rapid.Uint32().Draw(t, "seed")
		slow := func(n uint32) func(string) time.Duration {
			return func(p string) time.Duration {
				h := fnv.New32()
				_, _ = h.Write([]byte(p))
				return time.Duration((h.Sum32()^n)%7) * 300 * time.Microsecond
			}
		}
		want := cookOnce(t, text, nil, false)
		for name, got := range map[string]cooked{
			"slow":         cookOnce(t, text, slow(seed), false),
			"slow, barred": cookOnce(t, text, slow(seed*31+7), true),
		} {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s: %s\n%s", name, diff, text)
			}
		}
	})
}

// lengths are what no execution repeats: how long things took.
var lengths = regexp.MustCompile(`,"(took|queued|next|first)_ms":\d+`)
