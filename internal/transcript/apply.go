package transcript

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// maxGap is how many supersteps a fold may skip: it ignores a superstep number that is further ahead.
const maxGap = 1024

// Apply applies the next record, stored or live-only. Stored records must come in order. Apply skips records that it has applied before or does not
// understand.
func (r *Run) Apply(rec runlog.Record) {
	if rec.Seq != 0 {
		if rec.Seq <= r.Seq {
			return
		}
		r.Seq = rec.Seq
	}
	r.Rev++
	r.heard = false
	if r.Status == "" && rec.Kind != runlog.KindRunStarted { // a graph that is run without an engine has no record of that
		r.Started = rec.Time
		r.proceed(rec.Time)
	}
	if rec.Kind != runlog.KindRunResumed { // before that, no process has executed it
		r.rested = r.Waited(rec.Time)
	}
	switch rec.Kind {
	case runlog.KindRunStarted, runlog.KindRunResumed, runlog.KindRunPaused,
		runlog.KindRunFailed, runlog.KindRunCancelled, runlog.KindRunFinished:
		r.applyRun(&rec)
	case runlog.KindTaskDone, runlog.KindTaskFailed, runlog.KindStepCommitted:
		r.applyTask(&rec)
	case runlog.KindIntended, runlog.KindSettled:
		r.applyEffect(&rec)
	case runlog.KindAsked, runlog.KindAnswered:
		r.applyQuestion(&rec)
	case runlog.KindEvent:
		r.applyEvent(&rec)
	case runlog.KindSnapshot:
		r.applyShape(&rec)
	}
	if rec.Time.After(r.last) {
		r.last = rec.Time
	}
	t := r.paths[rec.Path]
	if t != nil {
		r.count(t)
	}
	if r.asking > 0 || r.held > 0 || r.waited {
		r.clocks(t, rec.Time)
	}
	r.touch(t)
	r.trim()
}

// settleStep sets the time of the uncommitted superstep from the execution time of the run so far.
func (r *Run) settleStep(own time.Duration) {
	if s := r.Step(r.step); s != nil && r.timed {
		s.Time = Span{spent: max(0, own-r.before)}
		r.touchStep(s)
	}
}

// applyShape reads the nodes of the run's graph from the first snapshot.
func (r *Run) applyShape(rec *runlog.Record) {
	if rec.Path != "" || r.Nodes != nil {
		return
	}
	d, _ := decode[struct {
		Shape struct {
			Nodes []struct {
				Name, Join string
				Most       int
			}
			Edges []struct{ From, To string }
		}
	}](rec)
	at := map[string]int{}
	for i, n := range d.Shape.Nodes {
		at[n.Name] = i
		r.Nodes = append(r.Nodes, Line(n.Name))
		r.Graph = append(r.Graph, Node{Name: Line(n.Name), Join: Line(n.Join), Most: n.Most})
	}
	for _, e := range d.Shape.Edges {
		from, a := at[e.From]
		to, b := at[e.To]
		if a && b && !slices.Contains(r.Graph[from].To, r.Nodes[to]) { // the start and the end are no nodes
			r.Graph[from].To = append(r.Graph[from].To, r.Nodes[to])
		}
	}
	r.changed.nodes = r.Rev
}

func decode[T any](rec *runlog.Record) (T, bool) {
	var d T
	return d, json.Unmarshal(rec.Data, &d) == nil
}

func (r *Run) applyRun(rec *runlog.Record) {
	switch rec.Kind {
	case runlog.KindRunStarted:
		d, _ := decode[runlog.RunStarted](rec)
		r.Workflow, r.Title, r.Inputs = Line(d.Workflow), Line(d.Title), d.Inputs
		r.Started, r.Sandbox, r.Parent, r.At = rec.Time, Line(d.Sandbox), Line(d.Parent), d.At
		r.Imported = d.Imported != nil
		r.timed = d.Timed
		if d.Budget != nil {
			r.Budget = *d.Budget
		}
		if d.Queue != nil {
			r.Status, r.needs = runlog.Queued, lines(d.Queue.Place)
			break
		}
		r.proceed(rec.Time)
	case runlog.KindRunResumed:
		r.halt(runlog.Interrupted, r.last) // if its log does not say how it ended
		d, _ := decode[runlog.RunResumed](rec)
		r.Failed, r.Degraded, r.By = nil, nil, ""
		r.Reused = runlog.Amount{}
		for _, spent := range r.turns {
			r.Reused = r.Reused.Add(runlog.Amount{Tokens: spent.Tokens, Money: spent.Money, Turns: 1})
		}
		r.timed = d.Timed
		if d.Budget != nil {
			r.Budget = *d.Budget
		}
		r.Error, r.Code, r.Reason, r.Short, r.Sandbox = "", "", "", nil, Line(d.Sandbox)
		r.proceed(rec.Time)
	case runlog.KindRunPaused:
		d, _ := decode[runlog.RunPaused](rec)
		r.Reason, r.Short, r.By = Clean(d.Reason), d.Short, Line(d.By)
		r.own.spent -= d.Waited
		r.halt(runlog.Paused, rec.Time)
	case runlog.KindRunCancelled:
		r.halt(runlog.Cancelled, rec.Time)
	case runlog.KindRunFailed:
		d, _ := decode[runlog.RunFailed](rec)
		r.Error, r.Code, r.Failed = Clean(d.Error), Line(d.Code), lines(d.Tasks)
		r.halt(runlog.Failed, rec.Time)
	case runlog.KindRunFinished:
		d, _ := decode[runlog.RunFinished](rec)
		r.Output = d.Output
		for _, path := range lines(d.Skipped) {
			if t := r.paths[path]; t != nil && t.State == Partly {
				r.Degraded = append(r.Degraded, path)
			} else {
				r.Failed = append(r.Failed, path)
			}
		}
		status := runlog.Completed
		if len(d.Skipped) > 0 {
			status = runlog.Partial
		}
		r.halt(status, rec.Time)
	}
}

// proceed starts the clocks of a run.
func (r *Run) proceed(at time.Time) {
	r.Status, r.Ended, r.began = runlog.Running, time.Time{}, at
	r.Time.start(at)
	r.own.start(at)
	if s := r.Step(r.step); s != nil && !s.Done {
		s.Time.start(at)
		r.touchStep(s)
	}
}

// halt stops the clocks of a run. One that waits can be cancelled, too.
func (r *Run) halt(status runlog.Status, at time.Time) {
	if r.Status == runlog.Running || status == runlog.Cancelled {
		r.Status, r.Ended = status, at
	}
	r.Time.stop(at)
	r.aside, r.reserved = nil, runlog.Amount{}
	for _, s := range r.Steps {
		if !s.Time.since.IsZero() {
			s.Time.stop(at)
			r.touchStep(s)
		}
	}
	if r.own.stop(at); r.timed {
		r.Time = r.own
		r.settleStep(r.own.spent)
	}
	for _, t := range r.Tasks {
		if t.State == Running || t.State == Waiting && r.Status.Ended() {
			r.end(t, Stopped, at)
			r.count(t)
			r.touch(t)
		}
	}
}
