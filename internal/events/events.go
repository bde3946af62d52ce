// Package events translates the records of a run into the events that programs read, as in the output jsonl of the command.
// Schema describes them.
package events

import (
	_ "embed"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// Version is the version of the events. Within it fields and types may be added, none changes.
const Version = 2

//go:embed schema.json
var schema []byte

// Schema is the JSON Schema (draft 2020-12) of an event.
func Schema() []byte { return slices.Clone(schema) }

// An Event is one thing that happened in a run. Those of a task say which task that is.
type Event struct {
	V       int    `json:"v"`
	N       int    `json:"n"`             // from 1 and without gaps in each stream
	Seq     uint64 `json:"seq,omitempty"` // the position in the log, 0 for what is not in it; it only grows
	TS      string `json:"ts"`
	Run     string `json:"run"`
	Type    string `json:"type"`
	Task    string `json:"task,omitempty"`    // the path of the task
	Node    string `json:"node,omitempty"`    // what it executes
	Key     string `json:"key,omitempty"`     // what it was sent for
	Agent   string `json:"agent,omitempty"`   // the name of the agent that this is of
	Parent  string `json:"parent,omitempty"`  // the path of the task that it is in
	Depth   int    `json:"depth,omitempty"`   // how many tasks it is in
	Attempt int    `json:"attempt,omitempty"` // from 1
	Label   string `json:"label,omitempty"`   // the task as people call it
	Data    any    `json:"data,omitempty"`
}

// A Stream numbers the events of a run. Its methods may be called from several goroutines.
type Stream struct {
	Write func(*Event) // called for each, in order, one at a time
	Text  bool         // with what models say while they say it

	mu   sync.Mutex
	n    int
	seq  uint64 // of the last record
	over bool   // nothing comes after run.finished
}

// See writes the events that a record of a run is, if it is any. The transcript has the record.
func (v *Stream) See(id string, rec *runlog.Record, t *transcript.Run) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if rec.Seq != 0 {
		if rec.Seq <= v.seq {
			return
		}
		v.seq = rec.Seq
	}
	for _, e := range v.translate(rec, t) {
		e.Run = id
		if task := taskOf(rec, t); task != nil {
			attribute(e, task)
		}
		v.put(e, rec.Time)
	}
}

// Put writes an event that is no record, such as run.finished, after which there are no others.
func (v *Stream) Put(e *Event, at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.put(e, at)
}

func (v *Stream) put(e *Event, at time.Time) {
	if v.over {
		return
	}
	v.n++
	e.V, e.N, e.TS = Version, v.n, at.UTC().Format(time.RFC3339Nano)
	v.over = e.Type == "run.finished"
	v.Write(e)
}

// attribute adds which task an event is of.
func attribute(e *Event, t *transcript.Task) {
	e.Task, e.Depth, e.Label = t.Path, t.Depth, t.Label()
	e.Node, e.Key = transcript.Names(t.Path)
	if e.Agent == "" {
		e.Agent = t.Agent
	}
	if e.Attempt == 0 {
		e.Attempt = t.Attempt
	}
	if t.Parent != nil {
		e.Parent = t.Parent.Path
	}
}

// data is the readable part of a record's data.
func data[T any](rec *runlog.Record) (d T) {
	_ = json.Unmarshal(rec.Data, &d)
	return d
}
