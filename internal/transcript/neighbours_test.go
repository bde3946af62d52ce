package transcript_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/transcript/recorded"
	"github.com/superstep-dev/superstep/runlog"
)

// What engines have written is folded record by record, and beside each the events that come live, or that only say something: none of them changes a task
// that asks, and none ends a wait.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	live := []string{"task.started", "task.queued", "task.works", "agent.queued", "agent.works", "text", "reasoning", "model.retry"}
	tells := []string{"note", "denied", "context", "error_input", "not_run", "degraded"}
	data := json.RawMessage(`{"text":"x","agent":"a","tool":"t","action":"compacted","steps":["s"],"why":"w","until":"2026-01-02T03:04:05Z"}`)
	asked, waited := 0, 0
	for _, name := range recorded.Names() {
		recs := recorded.Load(name)
		for n := 1; n <= len(recs); n++ {
			fold := func() *transcript.Run {
				r := &transcript.Run{}
				for _, rec := range recs[:n] {
					r.Apply(rec)
				}
				return r
			}
			r := fold()
			if r.Status != runlog.Running {
				continue
			}
			for _, q := range r.Open() {
				task := r.Task(q.Path)
				if task == nil || task.State != transcript.Waiting {
					continue
				}
				asked++
				for _, event := range live {
					again := fold()
					again.Apply(eventOf(event, q.Path, 0, recs[n-1].Time.Add(time.Second), data))
					if got := again.Task(q.Path); got.State != transcript.Waiting || got.Queued || got.Time.Elapsed(recs[n-1].Time.Add(time.Hour)) != task.Time.Elapsed(recs[n-1].Time) {
						t.Fatalf("%s, record %d: %s beside a question of %s makes it %s", name, n, event, q.Path, got.State)
					}
				}
			}
			for _, task := range r.Active() {
				if task.RetryAt.IsZero() {
					continue
				}
				waited++
				for _, event := range tells {
					again := fold()
					again.Apply(eventOf(event, task.Path, r.Seq+1, recs[n-1].Time, data))
					if got := again.Task(task.Path); !got.RetryAt.Equal(task.RetryAt) || got.Limit != task.Limit {
						t.Fatalf("%s, record %d: %s ends the wait of %s", name, n, event, task.Path)
					}
				}
			}
		}
	}
	if asked == 0 || waited == 0 {
		t.Errorf("%d questions, %d waits", asked, waited)
	}
}

// A run that is cancelled while it waits in a queue, pauses or executes is cancelled, and nothing of it runs or waits any more.
func TestCancelledWhileItWaits(t *testing.T) {
	t.Parallel()
	began := map[runlog.Status]int{}
	for _, name := range recorded.Names() {
		recs := recorded.Load(name)
		r := &transcript.Run{}
		for n, rec := range recs {
			if r.Apply(rec); r.Status.Ended() || n+1 < len(recs) && recs[n+1].Seq == 0 {
				continue
			}
			began[r.Status]++
			again := &transcript.Run{}
			for _, rec := range recs[:n+1] {
				again.Apply(rec)
			}
			again.Apply(runlog.Record{Seq: again.Seq + 1, Time: rec.Time.Add(time.Second), Kind: runlog.KindRunCancelled})
			if again.Status != runlog.Cancelled || len(again.Active()) > 0 {
				t.Fatalf("%s, record %d: %s, then %s with %d tasks", name, n+1, r.Status, again.Status, len(again.Active()))
			}
		}
	}
	if began[runlog.Running] == 0 || began[runlog.Paused] == 0 {
		t.Errorf("cancelled were %v", began)
	}
}

func eventOf(name, path string, seq uint64, at time.Time, data json.RawMessage) runlog.Record {
	b, _ := json.Marshal(runlog.Event{Name: name, Data: data})
	return runlog.Record{Seq: seq, Time: at, Kind: runlog.KindEvent, Path: path, Data: b}
}
