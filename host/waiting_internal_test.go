package host

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// A run that no worker takes says so, and which command helps; one that a worker takes, or that waits for a date, does not.
func TestUnserved(t *testing.T) {
	t.Parallel()
	h := &Host{cfg: Config{Name: "superstep", Dir: t.TempDir(), Env: func(string) string { return "" }}}
	queued := func(q *runlog.Queue) *runlog.Info {
		b, err := json.Marshal(map[string]any{"queue": q})
		if err != nil {
			t.Fatal(err)
		}
		return &runlog.Info{ID: "r", Workflow: "brief", Status: runlog.Queued, Summary: string(b)}
	}
	gpu, plain, picky := unlisted.Worker{Place: []string{"gpu"}}, unlisted.Worker{}, unlisted.Worker{Place: []string{"acp"}, Skips: map[string]string{"brief": "it is unknown"}}
	needs := func(place ...string) *runlog.Info { return queued(&runlog.Queue{Place: place}) }
	child := needs()
	child.Parent, child.Summary = "p", `{"child":true}`
	for _, tc := range []struct {
		name      string
		info      *runlog.Info
		workers   []unlisted.Worker
		why, next string
	}{
		{"nobody is there", needs(), nil, "no worker is running", "worker"},
		{"somebody is there", needs(), []unlisted.Worker{plain}, "", ""},
		{"nobody has the label", needs("gpu"), []unlisted.Worker{plain, picky}, "no worker has gpu", "worker --place gpu"},
		{"somebody has the label", needs("gpu"), []unlisted.Worker{plain, gpu}, "", ""},
		{"nobody has both", needs("gpu", "acp"), []unlisted.Worker{gpu, picky}, "no worker has gpu, acp", "worker --place gpu,acp"},
		{"one is missing", needs("gpu", "eu"), []unlisted.Worker{gpu}, "no worker has eu", "worker --place gpu,eu"},
		{"nobody has the workflow", needs("acp"), []unlisted.Worker{plain, picky}, "no worker has workflow brief as this run needs it (it is unknown)", "worker"},
		{"another has the workflow", needs(), []unlisted.Worker{picky, plain}, "", ""},
		{"of this folder", needs(h.FolderLabel()), []unlisted.Worker{plain}, "no worker is running in this folder", "worker"},
		{"a date", queued(&runlog.Queue{NotBefore: time.Unix(200, 0)}), nil, "", ""},
		{"its date is over", queued(&runlog.Queue{NotBefore: time.Unix(50, 0)}), nil, "no worker is running", "worker"},
		{"stopped", &runlog.Info{Status: runlog.Interrupted}, nil, "", ""},
		{"paused", &runlog.Info{Status: runlog.Paused}, nil, "", ""},
		{"a child", child, nil, "", ""},
	} {
		var why, next string
		if u := h.unservedBy(tc.workers, tc.info, time.Unix(100, 0)); u != nil {
			why, next = u.why, u.next
		}
		if why != tc.why || next != tc.next {
			t.Errorf("%s: %q, %q", tc.name, why, next)
		}
	}
}

// The inbox has one item for each reason for which no worker takes runs, and names the run that has waited longest.
func TestInboxOfUnserved(t *testing.T) {
	t.Parallel()
	l := newListing(t)
	for _, id := range []string{"old", "new", "other"} {
		j := l.run(id)
		q := &runlog.Queue{Place: []string{"gpu"}}
		if id == "other" {
			q = nil
		}
		l.put(j, runlog.Queued, runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "brief", Queue: q})
		if err := j.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.now = l.now.Add(time.Second)
	}
	items, err := (&Host{cfg: Config{Name: "superstep", Dir: t.TempDir(), Env: func(string) string { return "" }}}).inbox(t.Context(), l.store)
	if err != nil || len(items) != 2 {
		t.Fatalf("%+v, %v", items, err)
	}
	var got []string
	for _, i := range items {
		got = append(got, i.Run+" "+i.Text+" ("+i.Next+")")
	}
	if want := "old no worker has gpu: 2 runs wait; start one: superstep worker --place gpu (worker --place gpu)\nother no worker is running; start one: superstep worker (worker)"; strings.Join(got, "\n") != want {
		t.Errorf("the inbox is\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}
