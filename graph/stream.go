package graph

import (
	"encoding/json"
	"iter"

	"github.com/superstep-dev/superstep/runlog"
)

// An Update is the update of one finished task.
type Update struct {
	Path   string // of the task
	Node   string
	Step   int
	Update json.RawMessage // nil for one that failed and was skipped or caught, unless something takes its place
	Fixed  string          // the node whose work it amends, "" for none
	Fix    json.RawMessage // that amendment, folded in before Update
	Error  string          // of such a one
}

// startedEvent is the name of the live-only event of a task that starts.
const startedEvent = "task.started"

// Updates returns the updates among the records of a run, in the order of the records; within one
// superstep that order is arbitrary. The records may come from a running run or from a store.
func Updates(records iter.Seq2[runlog.Record, error]) iter.Seq2[Update, error] {
	return readings(records, func(r *runlog.Record) (Update, bool, error) {
		if r.Kind != runlog.KindTaskDone {
			return Update{}, false, nil
		}
		var d runlog.TaskDone
		err := d.Parse(r.Data)
		return Update{Path: r.Path, Node: d.Node, Step: d.Step, Update: d.Update, Fixed: d.Fixed, Fix: d.Fix, Error: d.Error}, true, err
	})
}

// A TaskEvent is a step in the life of a task.
type TaskEvent struct {
	Path  string
	Phase string // started (live-only), failed (an attempt has), asks or done
	Error string // of an attempt that failed, or a task that was skipped
}

// Tasks yields the changes of the states of tasks, such as their start and end, among the records of a run.
func Tasks(records iter.Seq2[runlog.Record, error]) iter.Seq2[TaskEvent, error] {
	return readings(records, func(r *runlog.Record) (TaskEvent, bool, error) {
		e := TaskEvent{Path: r.Path}
		var d struct {
			Error string `json:"error"`
		}
		switch r.Kind {
		case runlog.KindEvent:
			var d runlog.Event
			if r.Seq != 0 {
				return e, false, nil
			}
			err := json.Unmarshal(r.Data, &d)
			e.Phase = "started"
			return e, err != nil || d.Name == startedEvent, err
		case runlog.KindAsked:
			e.Phase = "asks"
			return e, true, nil
		case runlog.KindTaskFailed:
			e.Phase = "failed"
		case runlog.KindTaskDone:
			e.Phase = "done"
		default:
			return e, false, nil
		}
		err := json.Unmarshal(r.Data, &d)
		e.Error = d.Error
		return e, true, err
	})
}

// A CustomEvent is an event that a task has emitted.
type CustomEvent struct {
	Path string
	Name string
	Data json.RawMessage
}

// Events returns the events that tasks have emitted, among the records of a run.
func Events(records iter.Seq2[runlog.Record, error]) iter.Seq2[CustomEvent, error] {
	return readings(records, func(r *runlog.Record) (CustomEvent, bool, error) {
		if r.Kind != runlog.KindEvent || r.Seq == 0 {
			return CustomEvent{}, false, nil
		}
		var d runlog.Event
		err := json.Unmarshal(r.Data, &d)
		return CustomEvent{Path: r.Path, Name: d.Name, Data: d.Data}, true, err
	})
}

// readings yields the results of read for the records that it accepts.
func readings[T any](records iter.Seq2[runlog.Record, error], read func(*runlog.Record) (T, bool, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for r, err := range records {
			v, taken := *new(T), false
			if err == nil {
				v, taken, err = read(&r)
			}
			if (taken || err != nil) && !yield(v, err) {
				return
			}
		}
	}
}
