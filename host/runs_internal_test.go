package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// counted is a store that counts the records that are read.
type counted struct {
	runlog.Store
	read int
}

func (c *counted) Read(ctx context.Context, id string, from uint64, limit int) ([]runlog.Record, error) {
	recs, err := c.Store.Read(ctx, id, from, limit)
	c.read += len(recs)
	return recs, err
}

// listing is a store with a clock, and what listings show of it.
type listing struct {
	*testing.T
	store *counted
	now   time.Time
}

func newListing(t *testing.T) *listing {
	return &listing{t, &counted{Store: runlog.NewMemory(nil)}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func (l *listing) run(id string) *journal.Journal {
	l.Helper()
	j, err := journal.Open(l.Context(), l.store, id, &journal.Options{
		Create: &runlog.NewRun{Workflow: "w", Title: "the " + id + " one"}, Now: func() time.Time { return l.now },
	})
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = j.Close(context.Background()) })
	l.put(j, "", runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "w"})
	return j
}

func (l *listing) put(j *journal.Journal, status runlog.Status, kind runlog.Kind, path string, data any) {
	l.Helper()
	l.now = l.now.Add(time.Second)
	if err := j.Write(l.Context(), status, kind, path, data); err != nil {
		l.Fatal(err)
	}
}

func (l *listing) ask(j *journal.Journal, path string, q runlog.Question) {
	l.Helper()
	l.now = l.now.Add(time.Second)
	if _, err := j.Scope(path).Ask(l.Context(), &q); !errors.As(err, new(*journal.WaitError)) {
		l.Fatal(err)
	}
}

// items lists the runs, the newest first. It reads no records.
func (l *listing) items(want int) []RunItem {
	l.Helper()
	infos, err := l.store.Runs(l.Context(), nil)
	if err != nil {
		l.Fatal(err)
	}
	l.store.read = 0
	items, problems := (&Host{}).runItems(l.Context(), l.store, infos)
	if len(items) != want || len(problems) > 0 || l.store.read > 0 {
		l.Fatalf("%d items, problems %v, %d records read", len(items), problems, l.store.read)
	}
	return items
}

// A listing tells from summaries alone what a run does, waits for and costs.
func TestListReadsNoLogs(t *testing.T) {
	t.Parallel()
	l := newListing(t)
	j := l.run("r1")
	l.put(j, "", runlog.KindSnapshot, "", json.RawMessage(`{"shape":{"nodes":[{"name":"work"},{"name":"write"}]}}`))
	for range 300 {
		l.put(j, "", runlog.KindEvent, "work", runlog.Event{Name: "note"})
	}
	if got := l.items(1)[0]; got.Status != runlog.Running || got.Nodes != 2 || got.Done != 0 || got.Cost != nil {
		t.Errorf("it works: %+v", got)
	}
	l.put(j, "", runlog.KindSettled, "work", runlog.Settled{Key: "turn-1", Kind: "model", Spent: &runlog.Amount{Tokens: 70, Money: 3000}})
	l.put(j, "", runlog.KindTaskDone, "work", runlog.TaskDone{Node: "work"})
	l.put(j, "", runlog.KindStepCommitted, "", runlog.StepCommitted{})
	l.ask(j, "write", runlog.Question{Key: "q", Text: "Sure?"})
	if got := l.items(1)[0]; got.Status != Waiting || got.Open != 1 || got.Waits != "person" || got.Done != 1 || got.Step != 1 || got.Tokens != 70 ||
		*got.Cost != (transcript.Cost{Micros: 3000}) {
		t.Errorf("it waits: %+v", got)
	}
	short := &runlog.BudgetError{What: runlog.BudgetTokens, Limit: 1}
	l.put(j, runlog.Paused, runlog.KindRunPaused, "", runlog.RunPaused{Short: short, Reason: short.Error()})
	if got := l.items(1)[0]; got.Status != runlog.Paused || got.Reason != "budget" || got.Waits != "budget" {
		t.Errorf("it is paused: %+v", got)
	}
	l.put(j, runlog.Failed, runlog.KindRunFailed, "", runlog.RunFailed{Tasks: []string{"write"}})
	if got := l.items(1)[0]; got.Status != runlog.Failed || got.Failed != "write" || got.Open != 0 {
		t.Errorf("it failed: %+v", got)
	}
}

// A run without a summary is listed by its last record, as it was before there were any.
func TestListWithoutSummaries(t *testing.T) {
	t.Parallel()
	store := &counted{Store: runlog.NewMemory(nil)}
	log, _, err := store.Acquire(t.Context(), "old", &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	b := &runlog.Batch{Status: runlog.Paused}
	for range 300 {
		b.Records = append(b.Records, runlog.Record{Kind: runlog.KindEvent, Time: time.Now(), Data: json.RawMessage(`{"name":"note"}`)})
	}
	b.Records = append(b.Records, runlog.Record{Kind: runlog.KindRunPaused, Time: time.Now(), Data: json.RawMessage(`{"waiting":null,"message":true}`)})
	if err := log.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	infos, err := store.Runs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	items, problems := (&Host{}).runItems(t.Context(), store, infos)
	if len(problems) > 0 || items[0].Reason != ReasonMessage || items[0].Cost != nil || items[0].Waits != "" || store.read > 2 {
		t.Errorf("listed %+v, problems %v, %d records read", items, problems, store.read)
	}
}

// The inbox has the open questions of all runs that have not ended, the newest last, and reads no logs.
func TestInbox(t *testing.T) {
	t.Parallel()
	l := newListing(t)
	first, second, chat, over := l.run("first"), l.run("second"), l.run("chat"), l.run("over")
	l.ask(second, "gather[api]/check", runlog.Question{Key: "q", Kind: runlog.QuestionGate, Header: "Publish", Text: "Shall it be published?"})
	l.ask(first, "work", runlog.Question{Key: "p", Kind: runlog.QuestionPermission, Agent: "coder", Text: "run go test\nin this folder?"})
	l.ask(chat, "next", runlog.Question{Key: "m", Kind: runlog.QuestionMessage, Text: "Your message"})
	l.ask(over, "work", runlog.Question{Key: "q", Text: "Which?"})
	l.put(over, runlog.Failed, runlog.KindRunFailed, "", runlog.RunFailed{})
	l.ask(second, "write", runlog.Question{Key: "q", Text: "Answered?"})
	l.now = l.now.Add(time.Second)
	if err := second.Answer(t.Context(), "write", &runlog.Answer{Key: "q", Value: json.RawMessage(`"yes"`)}); err != nil {
		t.Fatal(err)
	}
	list := func() (got []string) {
		t.Helper()
		l.store.read = 0
		items, err := (&Host{}).inbox(t.Context(), l.store)
		if err != nil || l.store.read > 0 {
			t.Fatalf("error %v, %d records read", err, l.store.read)
		}
		for _, i := range items {
			got = append(got, fmt.Sprintf("%s %s %s|%s|%s|%s|%s|%s|%d", i.Run, i.Path, i.Key, i.Title, i.Task, i.Agent, i.Kind, i.Text, i.More))
		}
		return got
	}
	want := []string{
		"second gather[api]/check q|the second one|gather/api/check||gate|Publish|0",
		"first work p|the first one|work|coder|permission|run go test|0",
	}
	if got := list(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the inbox is\n%q, want\n%q", got, want)
	}
	for i := range 9 {
		l.ask(first, fmt.Sprint("more-", i), runlog.Question{Key: "q", Text: "More?"})
	}
	if err := first.Close(t.Context()); err != nil { // nobody executes it: its questions stay
		t.Fatal(err)
	}
	if got := list(); len(got) != 6 || got[5] != "first more-3 q|the first one|more-3|||More?|5" {
		t.Errorf("with ten questions of one run the inbox is %q", got)
	}
	visible := unlisted.Visible(l.store, nil)
	if err := unlisted.Hide(t.Context(), visible, &runlog.Info{ID: "first"}, l.now); err != nil {
		t.Fatal(err)
	}
	items, err := (&Host{}).inbox(t.Context(), visible)
	if err != nil || len(items) != 1 || items[0].Run != "second" {
		t.Errorf("with a hidden run the inbox is %+v, %v", items, err)
	}
}
