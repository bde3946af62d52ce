package console

import (
	"cmp"
	"context"
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/draw"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/transcript/recorded"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// What a model says is whole on the page, whatever it looks like, and none of it is HTML there.
func TestMarkdownIsWhole(t *testing.T) {
	t.Parallel()
	tags := regexp.MustCompile(`<[^>]*>`)
	for _, s := range []string{
		"<!doctype html>\n<html><body onload=x()>\n<h1>Hi</h1>\n\n<p>there</p></body></html>",
		"use Promise<void> and <name>, or Map<string, List<int>>",
		"bad <b>request</b>, see <a href=\"javascript:x()\">here</a>",
		"<?xml version=\"1.0\"?>\n<note lang=\"en\"><to>Ada</to></note>",
		"<math><mi>x</mi><mo>&lt;</mo><mn>2</mn></math>",
		"<!-- a comment -->\n\ntext after",
		"<script>\nalert(1)\n\nalert(2)\n</script>\nafter",
		"text <!-- inline --> and <![CDATA[x<y]]> and <?php echo 1 ?>",
		"- <li>one\n- two <br/> three",
		"| a | b |\n|---|---|\n| <x> | <y z=1> |",
	} {
		got := string(markdown(s))
		squash := func(s string) string {
			return strings.Join(strings.Fields(strings.NewReplacer("|", " ", "- ", " ", "---", " ").Replace(s)), "")
		}
		seen := html.UnescapeString(tags.ReplaceAllString(got, ""))
		if want := squash(html.UnescapeString(s)); squash(seen) != want {
			t.Errorf("%s\nis shown as\n%s", want, squash(seen))
		}
		for _, tag := range []string{"<script", "<b>", "<math", "<!--", "<body", "<a "} {
			if strings.Contains(got, tag) {
				t.Errorf("%s: %s is HTML", s, tag)
			}
		}
	}
}

// The past has the clock of its record: what ran then took so long, and takes no longer on the page.
func TestPastStandsStill(t *testing.T) {
	t.Parallel()
	for _, name := range recorded.Names() {
		recs := recorded.Load(name)
		for n := 1; n <= len(recs); n++ {
			p := pageOf(t, recs[:n], "", "trace")
			p.at, p.now = uint64(n), p.r.Last()
			if text := written(p.lists()); strings.Contains(text, "data-since") || p.r.Time.Elapsed(p.now) > recs[n-1].Time.Sub(recs[0].Time)+time.Minute {
				t.Fatalf("%s as of record %d grows: %s", name, n, text)
			}
		}
	}
}

// A run of the interface for programs has itself.
func TestAPIHasTheRun(t *testing.T) {
	t.Parallel()
	_, ts := serve(t, &Options{})
	id, _ := start(t, ts, "rain")
	_, body := send(t, ts, "GET", "/api/v1/runs/"+id, "operator-token", url.Values{})
	var got struct {
		Run struct{ Status, Workflow string }
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || got.Run.Status == "" || got.Run.Workflow != "talk" {
		t.Errorf("%v: %s", err, body)
	}
}

// The graph says of a node what the table says of its task, after each record that an engine has written.
func TestGraphAgrees(t *testing.T) {
	t.Parallel()
	words := map[transcript.State]string{transcript.Running: "running", transcript.Waiting: "waiting", transcript.Done: "done", transcript.Failed: "failed", transcript.Skipped: "skipped"}
	seen := map[string]int{}
	for _, name := range recorded.Names() {
		var run transcript.Run
		var progress draw.Progress
		for i, rec := range recorded.Load(name) {
			run.Apply(rec)
			progress.Apply(&rec)
			if run.Status != runlog.Running {
				continue
			}
			states, visits := progress.Status(), map[string]int{}
			for _, task := range run.Tasks {
				visits[task.Node]++
			}
			for _, task := range run.Tasks {
				if task.Depth > 0 || visits[task.Node] > 1 || len(task.Children) > 0 || task.Queued {
					continue
				}
				want := words[task.State]
				if len(task.Bad) > 0 && task.State == transcript.Done || task.State == transcript.Partly {
					want = "partly"
				}
				seen[want]++
				if got := states[task.Node].State; got != want {
					t.Fatalf("%s, record %d: the graph has %s as %q, the table as %q", name, i+1, task.Path, got, want)
				}
			}
		}
	}
	for _, want := range []string{"running", "waiting", "done"} {
		if seen[want] == 0 {
			t.Errorf("no task was %s: %v", want, seen)
		}
	}
}

// A producer that a step has run again is done when it is, and not when the run ends.
func TestRerunEnds(t *testing.T) {
	t.Parallel()
	type state struct{ Plan, Text string }
	g := graph.New("again", func(s, u state) state { return state{cmp.Or(u.Plan, s.Plan), cmp.Or(u.Text, s.Text)} })
	g.AddNode(graph.Node[state, state]{Name: "plan", Reads: []string{}, Run: func(ctx context.Context, t *graph.Task, _ state) (u state, err error) {
		_, err = journal.Do(ctx, t.Scope(), &journal.Effect{Key: "look", Kind: "tool"}, func(context.Context, string) (int, error) { return 0, nil })
		return state{Plan: map[bool]string{true: "cost", false: "cost, risk"}[len(t.Feedback()) == 0]}, err
	}})
	g.AddNode(graph.Node[state, state]{Name: "write", Reads: []string{"plan"}, Input: &graph.Input[state]{
		Of: func(s state) (any, error) { return strings.Split(s.Plan, ", "), nil }, Schema: &jsonschema.Schema{Type: "array", MinItems: jsonschema.Ptr(2)}, From: "plan",
	}, Run: func(ctx context.Context, t *graph.Task, s state) (state, error) {
		return state{Text: s.Plan}, t.Emit(ctx, "note", map[string]string{"text": "it writes"})
	}})
	g.Edge(graph.Start, "plan")
	g.Edge("plan", "write")
	g.Edge("write", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("again", "Writes.", flow, func(struct{}) (state, error) { return state{}, nil }, func(s state) (string, error) { return s.Text, nil })
	if err != nil {
		t.Fatal(err)
	}
	e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: workflow.Set{w}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	var run transcript.Run
	seen := false
	r, err := e.Start(t.Context(), "again", json.RawMessage(`{}`), &superstep.StartOptions{Observe: func(rec runlog.Record, _ error) {
		run.Apply(rec)
		if rec.Kind == runlog.KindEvent && rec.Path == "write" && rec.Seq > 0 {
			seen = true
			if again := run.Task("write/plan~2"); again == nil || again.State != transcript.Done {
				t.Errorf("while the step works its producer is %+v", again)
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := r.Wait(t.Context()); err != nil || string(out.Output) != `"cost, risk"` || !seen {
		t.Errorf("%s, seen %t: %v", out.Output, seen, err)
	}
}
