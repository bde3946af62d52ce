package pregeltest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/superstep-dev/superstep/internal/pregel"
)

// audit is the recorder of the suite: it checks at every call what a recorder is promised.
type audit struct {
	f     *fixture
	next  pregel.Recorder[State, string, int]
	at    atomic.Bool
	step  int
	known map[string]pregel.Outcome // by path
	open  []string                  // the tasks of the superstep
	lines []string                  // what was recorded, a line for each call
}

func newAudit(f *fixture, m *Machine, next pregel.Recorder[State, string, int]) *audit {
	a := &audit{f: f, next: next, step: m.Step(), known: map[string]pregel.Outcome{}}
	a.enter(m)
	return a
}

func (a *audit) enter(m *Machine) {
	a.open = a.open[:0]
	for _, t := range m.Tasks() {
		path := m.Path(&t)
		a.open = append(a.open, path)
		if o := m.Outcome(t.Index); o != 0 && a.known[path] == 0 {
			a.known[path] = o // from before this run
		}
	}
}

func (a *audit) Record(ctx context.Context, m *Machine, batch []ended, commit bool) error {
	if a.at.Swap(true) {
		a.f.Errorf("Record is called while it is running")
	}
	defer a.at.Store(false)
	if ctx.Err() != nil {
		a.f.Errorf("Record is called with a context that has ended")
	}
	var line []string
	for i := range batch {
		a.take(m, batch, i, commit)
		line = append(line, fmt.Sprint(m.Path(&batch[i].Task)))
	}
	if !commit && m.Step() != a.step {
		a.f.Errorf("superstep %d was closed, and the record does not say so", a.step)
	}
	if commit {
		a.close(m)
		line = append(line, "commit")
	}
	a.lines = append(a.lines, strings.Join(line, " "))
	if a.next != nil {
		if err := a.next.Record(ctx, m, batch, commit); err != nil {
			return err
		}
	}
	a.f.barrier.Store(int64(a.step))
	return nil
}

func (a *audit) take(m *Machine, batch []ended, i int, commit bool) {
	e := &batch[i]
	path := m.Path(&e.Task)
	switch old := a.known[path]; {
	case e.Result.Outcome == pregel.Aborted || e.Result.Outcome == 0:
		a.f.Errorf("%s is recorded, and has not ended", path)
	case old != 0 && old != pregel.Waiting:
		a.f.Errorf("%s is recorded twice", path)
	}
	a.known[path] = e.Result.Outcome
	if i > 0 && e.Task.Index >= 0 && batch[i-1].Task.Index > e.Task.Index {
		a.f.Errorf("%s is recorded after %s: that is not path order", path, m.Path(&batch[i-1].Task))
	}
	if !commit && e.Task.Index >= 0 && (e.Task.Index >= len(m.Tasks()) || m.Outcome(e.Task.Index) != e.Result.Outcome) {
		a.f.Errorf("%s is recorded before the machine was told", path)
	}
}

func (a *audit) close(m *Machine) {
	if a.step++; m.Step() != a.step {
		a.f.Errorf("the record closes superstep %d, and the machine is in %d", a.step-1, m.Step())
	}
	for _, path := range a.open {
		if o := a.known[path]; !slices.Contains([]pregel.Outcome{pregel.Done, pregel.Skipped, pregel.Caught}, o) {
			a.f.Errorf("the record closes superstep %d with nothing of %s on record", a.step-1, path)
		}
	}
	a.enter(m)
}
