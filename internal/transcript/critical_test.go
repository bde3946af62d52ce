package transcript_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/transcript/recorded"
	"github.com/superstep-dev/superstep/runlog"
)

var noon = time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)

// folded is a fold of records, each with its kind, path, data and second.
func folded(t *testing.T, recs ...[4]any) *transcript.Run {
	t.Helper()
	var r transcript.Run
	for i, rec := range recs {
		r.Apply(runlog.Record{Seq: uint64(i + 1), Kind: rec[0].(runlog.Kind), Path: rec[1].(string), Data: json.RawMessage(rec[2].(string)),
			Time: noon.Add(seconds(rec[3].(int)))})
	}
	return &r
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func legs(list []transcript.Leg) string {
	var out []string
	for _, l := range list {
		s := l.Node
		if l.Task != nil {
			s = l.Task.Label()
		}
		out = append(out, s)
	}
	return strings.Join(out, " → ")
}

// diamond is a run of a graph plan → (gather, quick) → brief, with an edge back from brief to plan.
func diamond(more ...[4]any) [][4]any {
	return append([][4]any{
		{runlog.KindRunStarted, "", `{"workflow":"w"}`, 0},
		{runlog.KindSnapshot, "", `{"shape":{"nodes":[{"name":"plan"},{"name":"quick"},{"name":"gather","most":5},{"name":"brief","join":"all"}],"edges":[
			{"from":"@start","to":"plan"},{"from":"plan","to":"quick"},{"from":"plan","to":"gather","kind":"send"},{"from":"quick","to":"brief"},
			{"from":"gather","to":"brief"},{"from":"brief","to":"plan"},{"from":"brief","to":"@end"}]}}`, 0},
	}, more...)
}

func TestCritical(t *testing.T) {
	t.Parallel()
	done := func(path string, step, at int) [4]any {
		node, key, _ := strings.Cut(strings.TrimSuffix(path, "]"), "[")
		d, _ := json.Marshal(map[string]any{"node": node, "key": key, "step": step, "update": 1})
		return [4]any{runlog.KindTaskDone, path, string(d), at}
	}
	sent := [4]any{runlog.KindTaskDone, "plan", `{"node":"plan","step":0,"update":1,"sends":[{"to":"gather","key":"a"},{"to":"gather","key":"b"}]}`, 2}
	committed := func(step, at int) [4]any {
		return [4]any{runlog.KindStepCommitted, "", `{"step":` + string(rune('0'+step)) + `}`, at}
	}
	for _, c := range []struct {
		name string
		recs [][4]any
		at   int
		want string
	}{
		{"nothing has begun", diamond(), 0, "plan → quick → brief"},
		{"the slowest of several tasks", diamond(sent, committed(0, 2), done("quick", 1, 4), done("gather[a]", 1, 5), done("gather[b]", 1, 9)), 9, "plan → gather/b → brief"},
		{"one that runs is longer than one that ended", diamond(sent, committed(0, 2), done("gather[a]", 1, 3), done("quick", 1, 8)), 8, "plan → quick → brief"},
		{"what never ran is not on the path of a run that is over",
			diamond(sent, committed(0, 2), done("gather[a]", 1, 3), [4]any{runlog.KindRunFinished, "", `{}`, 4}), 4, "plan → gather/a"},
		{"nor does it begin there", diamond(done("quick", 1, 4), [4]any{runlog.KindRunFinished, "", `{}`, 4}), 4, "quick"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := folded(t, c.recs...)
			if got := legs(r.Critical(noon.Add(seconds(c.at)))); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	if r := (&transcript.Run{}); r.Critical(noon) != nil {
		t.Error("a run without a graph has a critical path")
	}
}

// A container owes its time to what is in it.
func TestCriticalOfRecorded(t *testing.T) {
	t.Parallel()
	var r transcript.Run
	recs := recorded.Load("agents")
	for _, rec := range recs {
		r.Apply(rec)
	}
	path := r.Critical(recs[len(recs)-1].Time)
	if len(path) != 3 || path[1].Node != "gather" || path[1].Task == nil || path[1].Task.Depth == 0 {
		t.Fatalf("%s", legs(path))
	}
	for _, other := range path[1].Task.Parent.Children {
		if other.Time.Elapsed(noon) > path[1].Task.Time.Elapsed(noon) {
			t.Errorf("%s took longer than %s", other.Path, path[1].Task.Path)
		}
	}
}

// Every leg leads to the next, none is there twice, and no graph stops it.
func TestCriticalOfAnyGraph(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "nodes")
		r := &transcript.Run{}
		for i := range n {
			node := transcript.Node{Name: string(rune('a' + i))}
			for j := range n {
				if rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
					node.To = append(node.To, string(rune('a'+j)))
				}
			}
			r.Graph = append(r.Graph, node)
		}
		path := r.Critical(noon)
		if len(path) == 0 {
			t.Fatal("no path")
		}
		seen := map[string]bool{}
		for i, l := range path {
			if seen[l.Node] {
				t.Fatalf("%s twice", l.Node)
			}
			seen[l.Node] = true
			if i > 0 {
				ok := false
				for _, to := range r.Graph[path[i-1].Node[0]-'a'].To {
					ok = ok || to == l.Node
				}
				if !ok {
					t.Fatalf("no edge from %s to %s", path[i-1].Node, l.Node)
				}
			}
		}
	})
}

// A task whose first record is of what is in it has begun with that: starts are not in the log.
func TestHolderHasBegun(t *testing.T) {
	t.Parallel()
	r := folded(t, diamond([4]any{runlog.KindSettled, "gather[a]/read", `{"key":"agent","kind":"agent","name":"reader","input":{"prompt":"Read."}}`, 3})...)
	top := r.Task("gather[a]")
	if top == nil || top.State != transcript.Running || top.Node != "gather" || len(top.Children) != 1 || top.Children[0].Depth != 1 {
		t.Fatalf("%+v", top)
	}
}
