package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// spend makes an effect happen that may cost one amount and does cost another.
func spend(ctx context.Context, j *journal.Journal, path, key string, may, does runlog.Amount) error {
	_, err := journal.Do(ctx, j.Scope(path), &journal.Effect{
		Key: key, Repeat: journal.RepeatByKey, Cost: may, Spent: func(json.RawMessage) runlog.Amount { return does },
	}, func(context.Context, string) (int, error) { return 1, nil })
	return err
}

// A limit may be used to the last, and no further; what is not limited may be used at will.
func TestBudgetToTheLast(t *testing.T) {
	for what, tc := range map[string]struct {
		limit runlog.Budget
		one   runlog.Amount
		says  string
	}{
		runlog.BudgetTokens: {runlog.Budget{Tokens: 3}, runlog.Amount{Tokens: 1, Calls: 5}, "task: 3 of the run's budget of 3 tokens used, and the next step may take 1 more; resume the run with a larger budget"},
		runlog.BudgetMoney:  {runlog.Budget{Money: 30_000}, runlog.Amount{Money: 10_000}, "task: $0.0300 of the run's budget of $0.0300 used, and the next step may take $0.0100 more; resume the run with a larger budget"},
		runlog.BudgetTurns:  {runlog.Budget{Turns: 3}, runlog.Amount{Turns: 1, Tokens: 9}, "task: 3 of the run's budget of 3 model turns used, and the next step may take 1 more; resume the run with a larger budget"},
		runlog.BudgetCalls:  {runlog.Budget{Calls: 3}, runlog.Amount{Calls: 1}, "task: 3 of the run's budget of 3 tool calls used, and the next step may take 1 more; resume the run with a larger budget"},
		runlog.BudgetAgents: {runlog.Budget{Agents: 3}, runlog.Amount{Agents: 1}, "task: 3 of the run's budget of 3 agents used, and the next step may take 1 more; resume the run with a larger budget"},
	} {
		t.Run(what, func(t *testing.T) {
			store := runlog.NewMemory(nil)
			j := openJournal(t, store, &journal.Options{Create: &runlog.NewRun{}, Budget: &tc.limit})
			for i := range 3 {
				if err := spend(t.Context(), j, "task", fmt.Sprint(i), tc.one, tc.one); err != nil {
					t.Fatal(err)
				}
			}
			err := spend(t.Context(), j, "task", "3", tc.one, tc.one)
			var short *runlog.BudgetError
			if !errors.As(err, &short) || !journal.Waits(err) || short.What != what || err.Error() != tc.says {
				t.Fatal(err)
			}
			if j.Short() != short || !j.Asking()["task"] || j.Asking()["other"] {
				t.Errorf("%v; it lacks something: %v", j.Short(), j.Asking()["task"])
			}
			if err := spend(t.Context(), j, "task", "2", tc.one, tc.one); err != nil {
				t.Errorf("what has happened is given whatever is left: %v", err)
			}
			if err := spend(t.Context(), j, "other", "free", runlog.Amount{}, runlog.Amount{}); err != nil {
				t.Errorf("what costs nothing: %v", err)
			}
			if j.Scope("zz").Affords("zz", tc.one) == nil {
				t.Error("there is something left")
			}
			_ = j.Close(t.Context())
			more := map[string]runlog.Budget{
				runlog.BudgetTokens: {Tokens: 4}, runlog.BudgetMoney: {Money: 40_000}, runlog.BudgetTurns: {Turns: 4}, runlog.BudgetCalls: {Calls: -1}, runlog.BudgetAgents: {Agents: 4},
			}[what]
			j = openJournal(t, store, &journal.Options{Budget: &more})
			if err := spend(t.Context(), j, "task", "3", tc.one, tc.one); err != nil || j.Short() != nil {
				t.Error(err)
			}
			if err := spend(t.Context(), j, "task", "4", tc.one, tc.one); (err == nil) != (what == runlog.BudgetCalls) {
				t.Error(err)
			}
		})
	}
}

// What is set aside for an effect under way is not there for another.
func TestBudgetIsSetAside(t *testing.T) {
	j := openJournal(t, runlog.NewMemory(nil), &journal.Options{Create: &runlog.NewRun{}, Budget: &runlog.Budget{Tokens: 100}})
	var begin func(n int) error
	begin = func(n int) error {
		_, err := journal.Do(t.Context(), j.Scope(fmt.Sprint("task", n)), &journal.Effect{Key: "turn", Repeat: journal.Repeat(n % 2), Cost: runlog.Amount{Tokens: 30}},
			func(context.Context, string) (int, error) {
				if n > 3 {
					return n, nil
				}
				err := begin(n + 1)
				var short *runlog.BudgetError
				if errors.As(err, &short) && n == 2 && short.Used == 90 && short.Path == "task3" {
					err = nil
				}
				return n, err
			})
		return err
	}
	if err := begin(0); err != nil || j.Spent().Tokens != 90 {
		t.Error(err, j.Spent())
	}
}

// Effects side by side never have more set aside than there is, and what one gives back
// is there for the next.
func TestBudgetSideBySide(t *testing.T) {
	j := openJournal(t, runlog.NewMemory(nil), &journal.Options{Create: &runlog.NewRun{}, Budget: &runlog.Budget{Tokens: 100}})
	var now, most, begun atomic.Int64
	var work sync.WaitGroup
	for i := range 64 {
		work.Go(func() {
			_, err := journal.Do(t.Context(), j.Scope(fmt.Sprint("task", i)), &journal.Effect{
				Key: "turn", Repeat: journal.RepeatByKey, Cost: runlog.Amount{Tokens: 30}, Spent: func(json.RawMessage) runlog.Amount { return runlog.Amount{Tokens: 10} },
			}, func(context.Context, string) (int, error) {
				begun.Add(1)
				n := now.Add(30)
				for {
					if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
						break
					}
				}
				now.Add(-30)
				return 0, nil
			})
			var short *runlog.BudgetError
			if err != nil && !errors.As(err, &short) {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if most.Load() > 100 {
		t.Errorf("%d of 100 were set aside at once", most.Load())
	}
	if got := j.Spent().Tokens; got != 10*begun.Load() || got > 100 || begun.Load() < 3 {
		t.Errorf("%d tokens for %d effects", got, begun.Load())
	}
	for i := 0; j.Scope("zz").Affords("zz", runlog.Amount{Tokens: 30}) == nil; i++ {
		if err := spend(t.Context(), j, "again", fmt.Sprint(i), runlog.Amount{Tokens: 30}, runlog.Amount{Tokens: 10}); err != nil {
			t.Fatal(err)
		}
	}
	if got := j.Spent().Tokens; got != 80 {
		t.Errorf("%d tokens are used; from 71 on 30 more do not fit", got)
	}
}

// What a failed effect is counted for, and what is given back by one that was stopped or
// whose intent cannot be stored.
func TestBudgetOfWhatFails(t *testing.T) {
	j := openJournal(t, runlog.NewMemory(nil), &journal.Options{Create: &runlog.NewRun{}, Budget: &runlog.Budget{Tokens: 100, Turns: 3}})
	do := func(ctx context.Context, key string, repeat journal.Repeat, err error) {
		t.Helper()
		_, got := journal.Do(ctx, j.Scope("task"), &journal.Effect{Key: key, Repeat: repeat, Cost: runlog.Amount{Tokens: 60, Turns: 1}},
			func(context.Context, string) (int, error) { return 0, err })
		if got == nil {
			t.Fatal("it did not fail")
		}
	}
	do(t.Context(), "a", journal.RepeatByKey, errors.New("overloaded"))
	if got := j.Spent(); got != (runlog.Amount{Turns: 1}) {
		t.Errorf("failed: %+v", got)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	do(stopped, "b", journal.RepeatByKey, nil)               // its intent is not stored
	do(stopped, "c", journal.RepeatFreely, context.Canceled) // it changes nothing
	if err := j.Scope("zz").Affords("zz", runlog.Amount{Tokens: 100}); err != nil {
		t.Error(err)
	}
	ctx, cut := context.WithCancel(t.Context())
	_, _ = journal.Do(ctx, j.Scope("task"), &journal.Effect{Key: "d", Repeat: journal.RepeatByKey, Cost: runlog.Amount{Tokens: 60}},
		func(context.Context, string) (int, error) { cut(); return 0, ctx.Err() })
	if err := j.Scope("zz").Affords("zz", runlog.Amount{Tokens: 41}); err == nil {
		t.Error("an effect that may have happened has given back what was set aside for it")
	}
	if err := spend(t.Context(), j, "task", "d", runlog.Amount{Tokens: 90}, runlog.Amount{Tokens: 20}); err != nil {
		t.Errorf("it is not counted twice: %v", err)
	}
	if err := j.Scope("zz").Affords("zz", runlog.Amount{Tokens: 80}); err != nil {
		t.Error(err)
	}
	// What a task has set aside goes with it.
	_, _ = journal.Do(ctx, j.Scope("gone"), &journal.Effect{Key: "x"}, func(context.Context, string) (int, error) { return 0, nil })
	if err := j.Write(t.Context(), "", runlog.KindIntended, "gone", runlog.Intended{Key: "e", Cost: &runlog.Amount{Tokens: 80}}); err != nil {
		t.Fatal(err)
	}
	if j.Scope("zz").Affords("zz", runlog.Amount{Tokens: 1}) == nil {
		t.Fatal("nothing was set aside")
	}
	commit(t, j, "gone", false)
	if err := j.Scope("zz").Affords("zz", runlog.Amount{Tokens: 80}); err != nil {
		t.Error(err)
	}
}

// commit ends the superstep of a task, with a snapshot or without.
func commit(t interface {
	Fatal(...any)
	Context() context.Context
}, j *journal.Journal, task string, snapshot bool,
) {
	done, err := j.New(runlog.KindTaskDone, task, runlog.TaskDone{Node: task})
	if err != nil {
		t.Fatal(err)
	}
	step, err := j.New(runlog.KindStepCommitted, "", runlog.StepCommitted{})
	if err != nil {
		t.Fatal(err)
	}
	recs := []runlog.Record{done, step}
	if snapshot {
		r, _ := j.New(runlog.KindSnapshot, "", struct{}{})
		recs = append(recs, r)
		if c := j.Carry(task); c != nil {
			if r, err = j.New(carry.Kind, "", c); err != nil {
				t.Fatal(err)
			}
			recs = append(recs, r)
		}
	}
	if err := j.Append(t.Context(), "", recs...); err != nil {
		t.Fatal(err)
	}
}

// Whatever happens in whatever order, the journal's total is the sum of the log's
// records, before and after a crash, and past any snapshot.
func TestBudgetIsTheSumOfTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1, 0)
		store := runlog.NewMemory(&runlog.MemoryOptions{Now: func() time.Time { return now }})
		limit := &runlog.Budget{Tokens: rapid.Int64Range(0, 300).Draw(t, "limit"), Wall: time.Duration(rapid.IntRange(0, 1).Draw(t, "wall")) * time.Hour}
		open := func(create *runlog.NewRun, budget *runlog.Budget) *journal.Journal {
			j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: create, Budget: budget, Now: func() time.Time { return now }})
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		j := open(&runlog.NewRun{}, limit)
		if err := j.Write(t.Context(), "", runlog.KindRunStarted, "", runlog.RunStarted{Budget: limit}); err != nil {
			t.Fatal(err)
		}
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "pause")) * time.Millisecond)
			task := rapid.SampledFrom([]string{"a", "b", "b/c"}).Draw(t, "task")
			cost := runlog.Amount{Tokens: rapid.Int64Range(0, 50).Draw(t, "tokens"), Turns: 1}
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1:
				_ = spend(t.Context(), j, task, fmt.Sprint(i), cost, runlog.Amount{Tokens: cost.Tokens / 2, Turns: 1})
			case 2: // the process dies in it
				ctx, cut := context.WithCancel(t.Context())
				_, _ = journal.Do(ctx, j.Scope(task), &journal.Effect{Key: "cut", Repeat: journal.RepeatByKey, Cost: cost},
					func(context.Context, string) (int, error) { cut(); return 0, ctx.Err() })
			case 3:
				commit(t, j, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "done"), rapid.Bool().Draw(t, "snapshot"))
			case 4:
				wall, _ := j.Wall()
				room := rest(j)
				if err := j.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				j = open(nil, nil)
				if got := rest(j); got != room || j.Budget() != *limit {
					t.Fatalf("reopened: room for %d of %+v, it was %d of %+v", got, j.Budget(), room, *limit)
				}
				if again, _ := j.Wall(); limit.Wall > 0 && again < wall {
					t.Fatalf("reopened: %s left, it was %s", again, wall)
				}
			}
			var sum runlog.Amount
			var worked time.Duration
			var last runlog.Record
			for r, err := range runlog.Records(t.Context(), store, "run", 0) {
				if err != nil {
					t.Fatal(err)
				}
				var d runlog.Settled
				if r.Kind == runlog.KindSettled {
					if err := json.Unmarshal(r.Data, &d); err != nil {
						t.Fatal(err)
					}
					if d.Spent != nil {
						sum = sum.Add(*d.Spent)
					}
				}
				if r.Epoch == last.Epoch {
					worked += r.Time.Sub(last.Time)
				}
				last = r
			}
			if got := j.Spent(); got != sum {
				t.Fatalf("the journal has %+v, the log %+v", got, sum)
			}
			if last.Epoch == epoch(t, store) {
				worked += now.Sub(last.Time)
			}
			if left, limited := j.Wall(); limited && left != limit.Wall-worked {
				t.Fatalf("%s left, the log says %s", left, limit.Wall-worked)
			}
		}
	})
}

func epoch(t *rapid.T, store runlog.Store) uint64 {
	infos, err := store.Runs(t.Context(), nil)
	if err != nil || len(infos) != 1 {
		t.Fatal(infos, err)
	}
	return infos[0].Epoch
}

// rest is how many tokens there are neither used nor set aside, at most 400.
func rest(j *journal.Journal) int64 {
	for n := range int64(400) {
		if j.Scope("zz").Affords("zz", runlog.Amount{Tokens: n + 1}) != nil {
			return n
		}
	}
	return 400
}

// What is settled between the moment a snapshot is made and the moment it is written is
// found past it.
func TestNothingSlipsPastASnapshot(t *testing.T) {
	store := runlog.NewMemory(nil)
	j := openJournal(t, store, nil)
	snapshot, _ := j.New(runlog.KindSnapshot, "", struct{}{})
	recs := []runlog.Record{snapshot}
	if c := j.Carry(); c != nil {
		t.Fatalf("there is nothing to carry yet: %+v", c)
	}
	if err := spend(t.Context(), j, "beside", "pay", runlog.Amount{Calls: 1}, runlog.Amount{Calls: 1}); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(t.Context(), "", recs...); err != nil {
		t.Fatal(err)
	}
	_ = j.Close(t.Context())
	j = openJournal(t, store, &journal.Options{})
	_, err := journal.Do(t.Context(), j.Scope("beside"), &journal.Effect{Key: "pay"}, func(context.Context, string) (int, error) {
		return 0, errors.New("it is done twice")
	})
	if err != nil || j.Spent().Calls != 1 {
		t.Error(err, j.Spent())
	}
}

// The execution time adds up over executions, and what a budget says is found in the log.
func TestBudgetOfTime(t *testing.T) {
	now := time.Unix(1, 0)
	clock := func() time.Time { return now }
	store := runlog.NewMemory(&runlog.MemoryOptions{Now: clock})
	limit := runlog.Budget{Wall: time.Minute}
	j := openJournal(t, store, &journal.Options{Create: &runlog.NewRun{}, Budget: &limit, Now: clock})
	if err := j.Write(t.Context(), "", runlog.KindRunStarted, "", runlog.RunStarted{Budget: &limit}); err != nil {
		t.Fatal(err)
	}
	one := runlog.Amount{Calls: 1}
	now = now.Add(40 * time.Second)
	if err := spend(t.Context(), j, "task", "a", one, one); err != nil {
		t.Fatal(err)
	}
	if low := j.Scope("task").Low(); low != "" {
		t.Error(low)
	}
	commit(t, j, "task", true)
	_ = j.Close(t.Context())
	now = now.Add(time.Hour) // nobody runs it
	j = openJournal(t, store, &journal.Options{Now: clock})
	write(t, j, "resumed")
	now = now.Add(10 * time.Second)
	if low := j.Scope("task").Low(); low != "50s of 1m0s" {
		t.Error(low)
	}
	if err := spend(t.Context(), j, "task", "b", one, one); err != nil {
		t.Fatal(err)
	}
	now = now.Add(10 * time.Second)
	err := spend(t.Context(), j, "task", "c", one, one)
	if err == nil || !strings.Contains(err.Error(), "task: 1m0s of the run's budget of 1m0s used; resume") {
		t.Error(err)
	}
	if left, limited := j.Wall(); left != 0 || !limited || j.Late().Enough() != int64(2*time.Minute) {
		t.Error(left, limited)
	}
}

// Agents are told of what is nearly used up, except of the limit on themselves.
func TestLow(t *testing.T) {
	for _, tc := range []struct {
		limit runlog.Budget
		used  runlog.Amount
		want  string
	}{
		{runlog.Budget{Tokens: 100}, runlog.Amount{Tokens: 79}, ""},
		{runlog.Budget{Tokens: 100}, runlog.Amount{Tokens: 80}, "80 of 100 tokens"},
		{runlog.Budget{Tokens: 100, Soft: 0.5}, runlog.Amount{Tokens: 50}, "50 of 100 tokens"},
		{runlog.Budget{Tokens: 100, Soft: 1}, runlog.Amount{Tokens: 100}, ""},
		{runlog.Budget{Agents: 1}, runlog.Amount{Agents: 1}, ""},
		{runlog.Budget{Turns: 10, Tokens: 1000}, runlog.Amount{Turns: 9, Tokens: 1}, "9 of 10 model turns"},
		{runlog.Budget{}, runlog.Amount{Tokens: 1 << 40}, ""},
	} {
		j := openJournal(t, runlog.NewMemory(nil), &journal.Options{Create: &runlog.NewRun{}, Budget: &tc.limit})
		if err := spend(t.Context(), j, "task", "a", tc.used, tc.used); err != nil {
			t.Fatal(err)
		}
		if got := j.Scope("task").Low(); got != tc.want {
			t.Errorf("%+v of %+v: %q, want %q", tc.used, tc.limit, got, tc.want)
		}
	}
	var none *journal.Scope
	if none.Low() != "" || none.CountsMoney() {
		t.Error("a run without a log has no budget")
	}
}
