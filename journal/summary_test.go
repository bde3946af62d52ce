package journal_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
)

// refusing is a store that refuses an append when it is told to, as a full one does.
type refusing struct {
	runlog.Store
	refuse bool
	given  int // summaries
}

func (s *refusing) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	l, info, err := s.Store.Acquire(ctx, id, opt)
	return &refusingLog{l, s}, info, err
}

type refusingLog struct {
	runlog.Log
	s *refusing
}

func (l *refusingLog) Append(ctx context.Context, b *runlog.Batch) error {
	if l.s.refuse {
		return &runlog.StorageError{Store: "test", Err: errors.New("full")}
	}
	if b.Summary != "" {
		l.s.given++
	}
	return l.Log.Append(ctx, b)
}

func summaryOf(t *testing.T, store runlog.Store) *summary.Summary {
	t.Helper()
	infos, err := store.Runs(t.Context(), &runlog.Filter{ID: "run"})
	if err != nil || len(infos) != 1 {
		t.Fatalf("%d runs, error %v", len(infos), err)
	}
	return summary.Of(&infos[0])
}

// plainSummary reads from a whole log what a summary must say of it.
func plainSummary(t *testing.T, store runlog.Store) *summary.Summary {
	t.Helper()
	out, done := &summary.Summary{}, map[string]bool{}
	var nodes []string
	for r, err := range runlog.Records(t.Context(), store, "run", 0) {
		if err != nil {
			t.Fatal(err)
		}
		out.Head = r.Seq
		keep := out.Questions[:0:0]
		drop := func(gone func(q summary.Question) bool) {
			for _, q := range out.Questions {
				if !gone(q) {
					keep = append(keep, q)
				}
			}
			out.Questions = keep
		}
		var d struct {
			Key, Question string
			Step          int
			Spent         runlog.Amount
			Shape         struct{ Nodes []struct{ Name string } }
		}
		if err := json.Unmarshal(r.Data, &d); err != nil {
			t.Fatal(err)
		}
		switch r.Kind {
		case runlog.KindSnapshot:
			for _, n := range d.Shape.Nodes {
				nodes = append(nodes, n.Name)
			}
		case runlog.KindAsked:
			out.Questions = append(out.Questions, summary.Question{Path: r.Path, Key: d.Key, Text: d.Question, Asked: r.Time.Truncate(time.Second)})
		case runlog.KindAnswered:
			drop(func(q summary.Question) bool { return q.Path == r.Path && q.Key == d.Key })
		case runlog.KindTaskDone:
			node, _, _ := strings.Cut(r.Path, "#")
			done[node] = true
			drop(func(q summary.Question) bool { return q.Path == r.Path })
		case runlog.KindStepCommitted:
			out.Steps = d.Step + 1
		case runlog.KindSettled:
			out.Tokens, out.Cost = out.Tokens+d.Spent.Tokens, out.Cost+d.Spent.Money
		}
	}
	out.Open, out.Of = len(out.Questions), len(nodes)
	for _, n := range nodes {
		if done[n] {
			out.Done++
		}
	}
	return out
}

// Whatever a run does, a summary says what its log says: also after batches that the store refused, and after the journal was opened again at a snapshot.
func TestSummaryIsTheLog(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		store := &refusing{Store: runlog.NewMemory(nil)}
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		clock := func() time.Time { return now }
		j := openJournal(t, store, &journal.Options{Create: &runlog.NewRun{}, Now: clock})
		nodes := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
		var shape []map[string]string
		for _, n := range nodes {
			shape = append(shape, map[string]string{"name": n})
		}
		visit, many := 0, false // so many open questions that the summary has not all of them
		put := func(status runlog.Status, kind runlog.Kind, path string, data any) {
			t.Helper()
			r, err := j.New(kind, path, data)
			if err != nil {
				t.Fatal(err)
			}
			recs := []runlog.Record{r}
			if rnd.IntN(4) == 0 {
				store.refuse = true
				if err := j.Append(t.Context(), status, recs...); err == nil {
					t.Fatal("it was not refused")
				}
				if store.refuse = false; rnd.IntN(2) == 0 {
					return
				}
			}
			if err := j.Append(t.Context(), status, recs...); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Write(t.Context(), "", runlog.KindRunStarted, "", runlog.RunStarted{}); err != nil {
			t.Fatal(err)
		}
		if err := j.Write(t.Context(), "", runlog.KindSnapshot, "", map[string]any{"shape": map[string]any{"nodes": shape}}); err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			now = now.Add(time.Duration(rnd.IntN(1200)) * time.Millisecond)
			many = many || len(j.Open()) > 5
			path := fmt.Sprintf("%s#%d", nodes[rnd.IntN(len(nodes))], visit)
			switch rnd.IntN(8) {
			case 0, 1:
				put("", runlog.KindAsked, path, runlog.Question{Key: fmt.Sprint("q", i), Text: fmt.Sprint("why ", i)})
			case 2:
				if open := j.Open(); len(open) > 0 {
					q := open[rnd.IntN(len(open))]
					put("", runlog.KindAnswered, q.Path, runlog.Answer{Key: q.Key, Value: json.RawMessage(`1`)})
				}
			case 3:
				visit++ // a task that is done writes no more
				put("", runlog.KindTaskDone, path, runlog.TaskDone{Node: path[:1]})
			case 4:
				put("", runlog.KindStepCommitted, "", runlog.StepCommitted{Step: i})
			case 5:
				put("", runlog.KindSettled, path, runlog.Settled{Key: fmt.Sprint("k", i), Kind: "tool", Spent: &runlog.Amount{Tokens: int64(i), Money: 3}})
			case 6:
				put("", runlog.KindSnapshot, "", json.RawMessage("{}"))
			case 7:
				if err := j.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				j = openJournal(t, store, &journal.Options{Now: clock})
			}
		}
		if err := j.Write(t.Context(), runlog.Paused, runlog.KindRunPaused, "", runlog.RunPaused{}); err != nil {
			t.Fatal(err)
		}
		got, want := summaryOf(t, store), plainSummary(t, store)
		if want.Waits = summary.Operator; want.Open > 0 {
			want.Waits = summary.Person
		}
		if want.Questions = want.Questions[:min(len(got.Questions), want.Open)]; want.Open == 0 {
			want.Questions = nil
		}
		if want.Open > 0 && len(got.Questions) != min(5, want.Open) {
			t.Errorf("seed %d: %d questions of %d", seed, len(got.Questions), want.Open)
		}
		byTime := func(a, b summary.Question) int { return cmp.Or(a.Asked.Compare(b.Asked), cmp.Compare(a.Key, b.Key)) }
		slices.SortFunc(got.Questions, byTime)
		slices.SortFunc(want.Questions, byTime)
		if got.Seen = nil; many || want.Open > 5 {
			got.Questions = want.Questions
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: the summary is\n%+v, want\n%+v", seed, got, want)
		}
	}
}

// Batches have a summary when the status changes or a question is asked or answered, and else once a second.
func TestSummaryIsRare(t *testing.T) {
	t.Parallel()
	store := &refusing{Store: runlog.NewMemory(nil)}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	j := openJournal(t, store, &journal.Options{Create: &runlog.NewRun{}, Now: func() time.Time { return now }})
	given := func(want int, when string) {
		t.Helper()
		if store.given != want {
			t.Fatalf("%s: %d summaries were given, want %d", when, store.given, want)
		}
		store.given = 0
	}
	for range 1000 {
		write(t, j, "event")
		now = now.Add(10 * time.Millisecond)
	}
	given(10, "a thousand batches in ten seconds")
	q := &runlog.Question{Key: "q", Text: "why?"}
	if _, err := j.Scope("task").Ask(t.Context(), q); err == nil {
		t.Fatal("it is answered")
	}
	given(1, "a question")
	if got := summaryOf(t, store); got.Waits != summary.Person || got.Open != 1 || got.Questions[0].Text != "why?" {
		t.Errorf("with a question the summary is %+v", got)
	}
	for range 50 {
		if err := j.Scope("other").Emit(t.Context(), "event", 1); err != nil {
			t.Fatal(err)
		}
	}
	given(1, "another task begins, and is no longer waited for")
	if got := summaryOf(t, store); got.Waits != "" || got.Open != 1 {
		t.Errorf("with another task the summary is %+v", got)
	}
	if err := j.Write(t.Context(), "", runlog.KindTaskDone, "other", runlog.TaskDone{Node: "other"}); err != nil {
		t.Fatal(err)
	}
	given(1, "the other task is done: only the answer is waited for")
	if err := j.Answer(t.Context(), "task", &runlog.Answer{Key: "q", Value: json.RawMessage(`"so"`)}); err != nil {
		t.Fatal(err)
	}
	given(1, "an answer")
	if got := summaryOf(t, store); got.Waits != "" || got.Open != 0 {
		t.Errorf("after the answer the summary is %+v", got)
	}
	if err := j.Write(t.Context(), "", runlog.KindTaskFailed, "task", runlog.TaskFailed{Node: "task", Attempt: 1, Next: 5000}); err != nil {
		t.Fatal(err)
	}
	if got := summaryOf(t, store); got.Waits != summary.Retry || got.Until == nil || !got.Until.Equal(now.Add(5*time.Second)) {
		t.Errorf("until the next attempt the summary is %+v", got)
	}
	if err := j.Write(t.Context(), runlog.Failed, runlog.KindRunFailed, "", runlog.RunFailed{Error: "no", Tasks: []string{"task"}}); err != nil {
		t.Fatal(err)
	}
	if got := summaryOf(t, store); got.Waits != "" || got.Failed != "task" {
		t.Errorf("failed, the summary is %+v", got)
	}
}

// A secret in a question that is cut in the middle of it is no half secret in the summary, and the longest of questions fit.
func TestSummaryFits(t *testing.T) {
	t.Parallel()
	memory := runlog.NewMemory(nil)
	const secret = "sk-very-secret-0123456789-0123456789-0123456789"
	store := redact.Store(memory, redact.New(redact.Secret{Name: "KEY", Value: secret}))
	j := openJournal(t, store, nil)
	for i := range 12 {
		path := fmt.Sprint("task-", i, strings.Repeat("x", i*i*20))
		q := &runlog.Question{Key: "q", Agent: strings.Repeat("é", 99), Text: strings.Repeat("a", 60) + secret + "\nsecond line"}
		if _, err := j.Scope(path).Ask(t.Context(), q); err == nil {
			t.Fatal("it is answered")
		}
		infos, err := memory.Runs(t.Context(), nil)
		if err != nil || len(infos[0].Summary) > runlog.MaxSummary-64 {
			t.Fatalf("the summary has %d bytes, error %v", len(infos[0].Summary), err)
		}
		if got := summary.Of(&infos[0]); got.Open != i+1 || len(got.Questions) == 0 || !strings.Contains(got.Questions[0].Text, "[redacted:KEY") {
			t.Errorf("after %d questions the summary is %+v", i+1, got)
		}
		if strings.Contains(infos[0].Summary, "sk-very") || strings.Contains(infos[0].Summary, "second") {
			t.Errorf("the summary is %s", infos[0].Summary)
		}
	}
}
