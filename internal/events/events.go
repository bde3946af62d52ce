// Package events translates the records of a run into the events that programs read, as in the output jsonl of the command.
package events

import (
	"encoding/json"
	"time"

	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

// An Event is one thing that happened in a run. Its fields are a promise: some may be added, none changes.
type Event struct {
	V     int    `json:"v"`
	Seq   int    `json:"seq"` // from 1 and without gaps in each stream
	TS    string `json:"ts"`
	Run   string `json:"run"`
	Type  string `json:"type"`
	Step  string `json:"step,omitempty"`  // the node
	Agent string `json:"agent,omitempty"` // the key of the task, else the agent that executes in it
	Task  string `json:"task,omitempty"`  // the identity of the task
	Data  any    `json:"data,omitempty"`
}

// A Stream numbers the events of a run.
type Stream struct {
	Write func(*Event) // called for each, in order
	Text  bool         // with what models say while they say it

	seq int
}

// data is that of a record, as far as it can be read.
func data[T any](rec *runlog.Record) (d T) {
	_ = json.Unmarshal(rec.Data, &d)
	return d
}

type fields map[string]any

// See writes the event that a record of a run is, if it is one. The transcript has the record.
func (v *Stream) See(id string, rec *runlog.Record, t *transcript.Run) {
	kind, data := v.translate(rec, t)
	if kind == "" {
		return
	}
	e := Event{Run: id, Type: kind, Data: data}
	if task := t.Task(rec.Path); task != nil {
		e.Step, e.Agent, e.Task = task.Node, task.Key, task.Path
		if e.Agent == "" {
			e.Agent = task.Agent
		}
	}
	v.Put(&e, rec.Time)
}

// Put writes an event that is no record, such as the end of the stream.
func (v *Stream) Put(e *Event, at time.Time) {
	v.seq++
	e.V, e.Seq, e.TS = 1, v.seq, at.UTC().Format(time.RFC3339Nano)
	v.Write(e)
}

// translate returns the type and the data of the event that a record is, "" if it is none.
func (v *Stream) translate(rec *runlog.Record, t *transcript.Run) (string, any) {
	task := t.Task(rec.Path)
	switch rec.Kind {
	case runlog.KindRunStarted:
		return "run.started", fields{"workflow": t.Workflow, "title": t.Title, "inputs": t.Inputs, "sandbox": t.Sandbox}
	case runlog.KindRunResumed:
		return "run.resumed", fields{"workflow": t.Workflow, "sandbox": t.Sandbox}
	case runlog.KindTaskDone:
		d := fields{"state": task.State, "superstep": task.Step, "attempt": task.Attempt, "duration_ms": task.Time.Elapsed(rec.Time).Milliseconds(),
			"tools": task.Tools}
		if task.Error != "" {
			d["error"] = task.Error
		}
		if task.Why != "" {
			d["why"] = task.Why
		}
		if len(task.Bad) > 0 {
			d["on_error_input"] = task.Bad
		}
		return "task.done", d
	case runlog.KindTaskFailed:
		d := data[runlog.TaskFailed](rec)
		return "task.failed", fields{"attempt": d.Attempt, "error": d.Error, "final": d.Final}
	case runlog.KindStepCommitted:
		if rec.Path != "" { // of a graph within a task
			return "", nil
		}
		d := data[runlog.StepCommitted](rec)
		s := t.Step(d.Step)
		if s == nil {
			return "", nil
		}
		paths := []string{}
		for _, task := range s.Own() {
			paths = append(paths, task.Path)
		}
		return "step.done", fields{"superstep": d.Step, "tasks": paths, "duration_ms": s.Time.Elapsed(rec.Time).Milliseconds()}
	case runlog.KindAsked:
		return "question.asked", data[runlog.Question](rec)
	case runlog.KindAnswered:
		return "question.answered", data[runlog.Answer](rec)
	case runlog.KindIntended:
		d := data[runlog.Intended](rec)
		return started(&d)
	case runlog.KindSettled:
		d := data[runlog.Settled](rec)
		return settled(&d)
	case runlog.KindEvent:
		return v.translateEvent(rec, task)
	}
	return "", nil // run.finished stands for the other ends of a run
}

func (v *Stream) translateEvent(rec *runlog.Record, task *transcript.Task) (string, any) {
	d := data[runlog.Event](rec)
	switch {
	case d.Name == "task.started" && rec.Seq == 0:
		return "task.started", fields{"superstep": task.Step}
	case rec.Seq == 0 && (d.Name == "text" || d.Name == "reasoning"):
		if !v.Text || task.Summing {
			return "", nil
		}
		return d.Name + ".delta", d.Data
	}
	return "event", fields{"name": d.Name, "data": d.Data}
}

// turn is what a call of a model is: a turn of an agent, or a summary of its conversation.
func turn(key string) string {
	if transcript.Summary(key) {
		return "summary"
	}
	return "turn"
}

func started(d *runlog.Intended) (string, any) {
	switch d.Kind {
	case "agent":
		return "", nil // said when it is settled, which is at once
	case "model":
		return turn(d.Key) + ".started", fields{"model": d.Name, "key": d.Key}
	case "tool":
		return "tool.started", fields{"tool": d.Name, "key": d.Key, "args": d.Input}
	}
	return "effect.started", fields{"kind": d.Kind, "name": d.Name, "key": d.Key}
}

func settled(d *runlog.Settled) (string, any) {
	f := fields{"key": d.Key}
	if d.Error != "" {
		f["error"] = d.Error
	}
	switch d.Kind {
	case "agent":
		var in struct{ Agent, Model, Prompt string }
		_ = json.Unmarshal(d.Input, &in)
		f["agent"], f["model"], f["prompt"] = d.Name, in.Model, in.Prompt
		return "agent.started", f
	case "model":
		f["model"] = d.Name
		var r model.Response
		if d.Error == "" && json.Unmarshal(d.Output, &r) == nil {
			f["message"], f["usage"], f["stop"] = r.Message, r.Usage, r.Stop
		}
		return turn(d.Key) + ".done", f
	case "tool":
		f["tool"], f["result"] = d.Name, d.Output
		if d.Input != nil {
			f["args"] = d.Input
		}
		return "tool.done", f
	}
	f["kind"], f["name"] = d.Kind, d.Name
	if said := mail.SteeringOf(d); said != nil {
		f["messages"] = said
	}
	var job struct {
		Success *bool
		Error   string
	}
	if d.Kind == "job" && d.Error == "" && json.Unmarshal(d.Output, &job) == nil && job.Success != nil && !*job.Success {
		f["error"] = job.Error
	}
	return "effect.done", f
}
