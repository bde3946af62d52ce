package ralph_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

// windowed is a model that tells the size of its window.
type windowed struct {
	model.Model
	tokens int
}

func (w windowed) Window() (int, bool) { return w.tokens, true }

// TestWorkerContext has workers whose conversations grow by 10,000 tokens a turn. From 45 % of the window on old results are cut down, from 60 % on a new
// conversation begins with a summary, and each task begins a new one.
func TestWorkerContext(t *testing.T) {
	t.Parallel()
	s := &script{planner: planOf(task("1"), task("2", "1"))}
	w := newWorld(t, s)
	w.model = windowed{w.model, 100_000}
	w.file("README", strings.Repeat("a long line\n", 400))
	w.git("-C", w.dir, "commit", "-qam", "long")
	const summary = "the SUMMARY of it"
	type asked struct{ messages, cut, whole, used int }
	var begun, asks []asked // of the first worker
	summed := 0
	w.other = func(r *modeltest.ParsedRequest) (reply modeltest.Reply, ok bool) {
		if strings.HasPrefix(r.System, "Sum up the conversation") {
			s.mu.Lock()
			defer s.mu.Unlock()
			summed++
			return modeltest.Text(summary), true
		}
		first := r.Messages[0].Text()
		if !strings.Contains(first, "Do this task.") {
			return reply, false
		}
		a := asked{messages: len(r.Messages), used: 5000 * len(r.Messages)}
		after := false // the summary
		for _, m := range r.Messages {
			after = after || strings.Contains(m.Text(), summary)
			for _, p := range m.Parts {
				switch {
				case p.Kind != model.Result:
				case strings.Contains(p.Text, "of this old result were left out"):
					a.cut++
				default:
					a.whole++
				}
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		last := r.Messages[len(r.Messages)-1]
		switch {
		case len(r.Messages) == 1:
			begun = append(begun, a)
			fallthrough
		case title(first) == "t1" && !after:
			reply.Parts = []model.Part{{Kind: model.ToolCall, Call: &model.Call{Name: "read_file", Args: json.RawMessage(`{"path":"README"}`)}}}
		case last.Role == model.Tool && strings.Contains(last.Parts[0].Text, ".txt"):
			reply.Parts = say("done")
		default:
			reply.Parts = write(title(first)+".txt", title(first)+"\n")
		}
		if title(first) == "t1" {
			asks = append(asks, a)
		}
		reply.Parts = append(reply.Parts, model.Part{Kind: model.UsagePart, Usage: &model.Usage{In: a.used, Out: 10}})
		return reply, true
	}
	out := w.must(map[string]any{"prompt": "x", "yes": true})
	if len(out.Unmerged) > 0 || len(begun) != 2 || begun[1].messages != 1 {
		t.Errorf("%+v, begun %+v", out, begun)
	}
	before := 0
	restarted := false
	for _, a := range asks {
		switch {
		case before < 45_000 && !restarted && a.cut > 0, before >= 45_000 && a.cut == 0 && a.whole > 3:
			t.Errorf("at %d of 100,000 tokens: %+v", before, a)
		case before >= 60_000 && a.messages*5000 >= before:
			t.Errorf("at %d of 100,000 tokens no new conversation began: %+v", before, a)
		case before >= 60_000:
			restarted = true
		}
		before = a.used
	}
	if !restarted || summed != 1 {
		t.Errorf("%d summaries: %+v", summed, asks)
	}
	var actions []string
	for rec, err := range runlog.Records(t.Context(), w.store, w.id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, action := range []string{"cleared", "compacted"} {
			if strings.Contains(string(rec.Data), `"action":"`+action+`"`) {
				actions = append(actions, action)
			}
		}
	}
	if !slices.Contains(actions, "cleared") || !slices.Contains(actions, "compacted") {
		t.Errorf("recorded: %q", actions)
	}
}

// TestBudget pauses when its turns are used up. With more it continues, and no turn is taken twice.
func TestBudget(t *testing.T) {
	t.Parallel()
	s := &script{planner: planOf(task("1"), task("2", "1"), task("3", "2")), worker: writes}
	w := newWorld(t, s)
	in := map[string]any{"prompt": "x", "yes": true}
	w.budget = &runlog.Budget{Turns: 4} // the planner, a worker twice, and another one
	_, err := w.start(in)
	paused, ok := errors.AsType[*graph.Paused](err)
	if !ok {
		t.Fatalf("%v", err)
	}
	if n := len(s.prompts("worker")); n != 2 || !strings.Contains(fmt.Sprint(err), "turns") {
		t.Errorf("%d workers were asked; %v, %+v", n, err, paused)
	}
	w.budget = &runlog.Budget{Turns: 100}
	out := w.must(in)
	if n := len(s.prompts("worker")); n != 3 || len(s.prompts("planner")) != 1 || out.Unmerged != nil || len(out.Tasks) != 3 {
		t.Errorf("%d workers were asked: %+v", n, out)
	}
}

// TestUnsupported has submodules and files of LFS. The run says at its start that they are not carried out.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	s := &script{planner: planOf(task("1")), worker: writes}
	w := newWorld(t, s)
	w.file(".gitattributes", "*.psd filter=lfs diff=lfs merge=lfs -text\n")
	w.git("-C", w.dir, "add", ".gitattributes")
	w.git("-C", w.dir, "update-index", "--add", "--cacheinfo", "160000,"+w.git("-C", w.dir, "rev-parse", "HEAD")+",vendor/lib")
	w.git("-C", w.dir, "commit", "-qm", "odd")
	out, err := w.start(map[string]any{"prompt": "x", "yes": true})
	if err != nil || len(out.Unmerged) > 0 {
		t.Fatal(out, err)
	}
	said, asked := 0, false
	for rec, err := range runlog.Records(t.Context(), w.store, w.id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		asked = asked || rec.Path == "planner"
		for _, want := range []string{"Submodules stay empty in worktrees: vendor/lib.", "Filters such as LFS do not run, so their files keep the stored form: .gitattributes."} {
			if rec.Path == "begin" && strings.Contains(string(rec.Data), want) && !asked {
				said++
			}
		}
	}
	if said != 2 {
		t.Errorf("%d of 2 notes before the planner", said)
	}
	if got := w.git("-C", w.dir, "ls-tree", "superstep/run1", "vendor/lib"); !strings.HasPrefix(got, "160000 commit ") {
		t.Errorf("the submodule became %q", got)
	}
}
