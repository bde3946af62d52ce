package graph

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// An Event is something that a run does. Its Kind is one of these, and says which fields it has:
//
//   - started: a task starts; Path. It is live-only.
//   - text and reasoning: a piece of what a model says; Path, Agent, Text. They are live-only.
//   - emitted: a task has emitted an event, see [Task.Emit]; Path, Name, Data.
//   - asks: a task waits for an answer; Path, Text.
//   - failed: an attempt has failed; Path, Node, Step, Error.
//   - done: a task has ended; Path, Node, Step, Update, and Fixed and Fix if it amends another's update.
//     Error is why it was skipped or caught, and Update is then nil unless something takes its place.
//   - step: a superstep is committed, or the graph has begun; Step, State. Only [Flow.Stream] has it.
//   - ended: what Run returns; State. Only [Flow.Stream] has it, as the last one.
type Event[S any] struct {
	Kind string
	Seq  uint64 // of the record; 0 if there is none: the event is live-only, or ended
	Path string // of the task
	Node string
	Step int // of the task; in a step, how many supersteps are committed

	Agent, Text string
	Name        string
	Data        json.RawMessage
	Update      json.RawMessage
	Fixed       string          // the node whose work the update amends, "" for none
	Fix         json.RawMessage // that amendment, folded in before Update
	Error       string
	State       S
}

// startedEvent is the name of the live-only event of a task that starts.
const startedEvent = "task.started"

// Events returns the events among the records of a run, in the order of the records; within one superstep that order is arbitrary. The records may come
// from a running run or from a store, which has none of the live-only ones. For the states after supersteps see [Flow.History].
func Events(records iter.Seq2[runlog.Record, error]) iter.Seq2[Event[struct{}], error] {
	return func(yield func(Event[struct{}], error) bool) {
		for r, err := range records {
			e, ok := Event[struct{}]{}, false
			if err == nil {
				e, ok, err = eventOf[struct{}](&r)
			}
			if (ok || err != nil) && !yield(e, err) {
				return
			}
		}
	}
}

// eventOf returns the event of a record, and whether it has one.
func eventOf[S any](r *runlog.Record) (e Event[S], ok bool, err error) {
	e = Event[S]{Seq: r.Seq, Path: r.Path}
	switch r.Kind {
	case runlog.KindTaskDone:
		var d runlog.TaskDone
		err = d.Parse(r.Data)
		e.Kind, e.Node, e.Step, e.Update, e.Fixed, e.Fix, e.Error = "done", d.Node, d.Step, d.Update, d.Fixed, d.Fix, d.Error
	case runlog.KindTaskFailed:
		var d runlog.TaskFailed
		err = json.Unmarshal(r.Data, &d)
		e.Kind, e.Node, e.Step, e.Error = "failed", d.Node, d.Step, d.Error
	case runlog.KindAsked:
		var d runlog.Question
		err = json.Unmarshal(r.Data, &d)
		e.Kind, e.Text = "asks", d.Text
	case runlog.KindEvent:
		var d runlog.Event
		err = json.Unmarshal(r.Data, &d)
		switch {
		case r.Seq != 0:
			e.Kind, e.Name, e.Data = "emitted", d.Name, d.Data
		case d.Name == startedEvent:
			e.Kind = "started"
		case d.Name == "text" || d.Name == "reasoning": // see model.PartKind
			e.Kind = d.Name
			err = json.Unmarshal(d.Data, &struct{ Agent, Text *string }{&e.Agent, &e.Text})
		}
	}
	return e, e.Kind != "", err
}

// Stream is Run, and yields what the run does while it does it, from this call on. The last event is what Run returns: a state, and with it the error.
// Whoever stops before that cancels the run and waits until its tasks have returned; with a Store it can be resumed. A consumer that is slow misses
// live-only events, and never slows the run. States must not be changed; they share memory.
//
// Without a Store the run leaves nothing behind, and its records are kept in memory while it runs, so its state and updates must encode as JSON. The
// options have no Journal: whoever opened one follows it, see journal.Follow and [Events].
func (f *Flow[S, U]) Stream(ctx context.Context, state S, opt *RunOptions) iter.Seq2[Event[S], error] {
	return func(yield func(Event[S], error) bool) {
		var o RunOptions
		if opt != nil {
			o = *opt
		}
		if o.Journal != nil {
			yield(Event[S]{Kind: "ended", State: state}, errors.New("RunOptions of a Stream have no Journal: follow it, and pass its records to graph.Events"))
			return
		}
		if o.alone = o.Store == nil && o.ID == ""; o.alone {
			o.Store, o.ID = runlog.NewMemory(nil), "stream"
		}
		ctx, cancel := context.WithCancel(ctx)
		opened, followed, done := make(chan *journal.Journal), make(chan struct{}), make(chan struct{})
		o.opened = func(j *journal.Journal) { opened <- j; <-followed }
		last, err := Event[S]{Kind: "ended"}, error(nil)
		go func() {
			defer close(done)
			last.State, err = f.Run(ctx, state, &o)
		}()
		defer func() { cancel(); <-done }()
		select {
		case j := <-opened:
			before := j.Head()
			for e, err := range f.events(j.Following(context.WithoutCancel(ctx), 0, sync.OnceFunc(func() { close(followed) }))) {
				if err != nil {
					break // which is that of the run, too
				}
				if (e.Seq == 0 || e.Seq > before) && !yield(e, nil) {
					return
				}
			}
		case <-done:
		}
		<-done
		yield(last, err)
	}
}

// events returns the events of a run of the graph among its records, from the first on, and its states.
func (f *Flow[S, U]) events(records iter.Seq2[runlog.Record, error]) iter.Seq2[Event[S], error] {
	return func(yield func(Event[S], error) bool) {
		stopped := false
		seen := func(next func(runlog.Record, error) bool) {
			for r, err := range records {
				e, ok := Event[S]{}, false
				if err == nil {
					e, ok, err = eventOf[S](&r)
				}
				if stopped = ok && !yield(e, err); stopped || !next(r, err) {
					return
				}
			}
		}
		for c, err := range f.History(seen) {
			if stopped || !yield(Event[S]{Kind: "step", Seq: c.Seq, Step: c.Step, State: c.State}, err) {
				return
			}
		}
	}
}
