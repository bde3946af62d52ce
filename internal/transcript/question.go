package transcript

import (
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/runlog"
)

func (r *Run) applyQuestion(rec *runlog.Record) {
	if rec.Kind == runlog.KindAsked {
		d, ok := decode[runlog.Question](rec)
		if !ok {
			return
		}
		d.Path = rec.Path
		t := r.work(rec.Path, -1, rec.Time)
		if r.end(t, Waiting, rec.Time); d.Took > 0 {
			r.took(t, d.Took)
		}
		if d.Kind == runlog.QuestionRun { // nobody is asked: the task is a run of its own
			t.Run = Line(d.Run)
			return
		}
		r.asking++
		var about map[string]string
		for o, text := range d.About {
			if about == nil {
				about = make(map[string]string, len(d.About))
			}
			about[Line(o)] = Line(text)
		}
		q := &Question{
			Path: t.Path, Key: Line(d.Key), Kind: d.Kind, Agent: Line(d.Agent), Call: cleanCall(d.Call), Header: Line(d.Header),
			Question: Clean(d.Text), Options: lines(d.Options), About: about, Text: d.TextOutput, Default: Value(d.Default),
			Asked: d, Since: rec.Time,
		}
		r.Questions = append(r.Questions, q)
		r.changed.questions = noted(r.changed.questions, r.Rev, q)
		r.add(t, "", Part{Kind: Ask, Question: q, Agent: q.Agent})
		return
	}
	d, ok := decode[runlog.Answer](rec)
	if !ok {
		return
	}
	if r.own.spent -= d.Waited; r.timed && r.Status == runlog.Running {
		r.Time = r.own
	}
	path, key := Line(rec.Path), Line(d.Key)
	for _, q := range r.Questions {
		if q.Path == path && q.Key == key && !q.Answered {
			r.asking--
			r.changed.questions = noted(r.changed.questions, r.Rev, q)
			r.changedPart(r.paths[rec.Path], func(p *Part) bool { return p.Question == q })
			q.Answered, q.Denied, q.Answer, q.By, q.Until = true, d.Denied, Value(d.Value), Line(d.By), rec.Time
			if word, why, _ := strings.Cut(q.Answer, ":"); q.Call != nil && (q.Denied || word == "deny") {
				r.Refused = append(r.Refused, Denial{Path: q.Path, Agent: q.Agent, Tool: q.Call.Tool, Subject: q.Call.Subject, Reason: strings.TrimSpace(why), By: q.By})
			}
		}
	}
	if t := r.paths[rec.Path]; r.Status == runlog.Running {
		r.work(rec.Path, -1, rec.Time)
	} else if t != nil && t.State == Waiting && !r.asks(rec.Path) { // it continues when the run is resumed
		r.end(t, Stopped, rec.Time)
	}
}

// asks reports whether a task has an open question.
func (r *Run) asks(path string) bool {
	t := r.paths[path]
	return t != nil && t.State == Waiting && slices.ContainsFunc(r.Questions, func(q *Question) bool { return q.Path == t.Path && !q.Answered })
}

// cleanCall cleans the fields of a call that users read.
func cleanCall(c *runlog.QuestionCall) *runlog.QuestionCall {
	if c == nil {
		return nil
	}
	out := *c
	for _, s := range []*string{&out.Tool, &out.Cwd, &out.Rule, &out.Origin, &out.Always} {
		*s = Line(*s)
	}
	for _, s := range []*string{&out.Subject, &out.Reason, &out.Diff, &out.Fails} {
		*s = Clean(*s)
	}
	out.Parts = slices.Clone(c.Parts)
	for i := range out.Parts {
		p := &out.Parts[i]
		p.Text, p.Rule, p.Origin, p.Reason = Clean(p.Text), Line(p.Rule), Line(p.Origin), Line(p.Reason)
	}
	return &out
}

// changedPart notes that a part of a task has changed.
func (r *Run) changedPart(t *Task, is func(*Part) bool) {
	for i := len(t.all()) - 1; i >= 0; i-- {
		if is(&t.Parts[i]) {
			r.touchPart(t, &t.Parts[i])
			return
		}
	}
}

// all returns the parts of a task, none if t is nil.
func (t *Task) all() []Part {
	if t == nil {
		return nil
	}
	return t.Parts
}
