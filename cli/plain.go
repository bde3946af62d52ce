package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/transcript"
)

// plain is progress as lines that are only ever added to.
type plain struct {
	s       *session
	out     *output
	pal     palette
	verbose bool
	every   time.Duration
	begun   map[string]bool // the steps whose start was said, by number and node
	beat    *time.Timer
	idle    bool // somebody else writes
	end     chan struct{}
	ended   chan struct{}
}

// newPlain makes the view. The goroutine behind it says every now and then that the
// run is still running; it ends with close.
func newPlain(a *app, s *session) *plain {
	v := &plain{
		s: s, out: a.err, pal: palette(a.term.errColor), verbose: a.set.verbose, every: a.opt.heartbeat,
		begun: map[string]bool{}, beat: time.NewTimer(a.opt.heartbeat), end: make(chan struct{}), ended: make(chan struct{}),
	}
	go func() {
		defer close(v.ended)
		for {
			select {
			case <-v.end:
				return
			case <-v.beat.C:
				s.mu.Lock()
				v.still()
				s.mu.Unlock()
			}
		}
	}()
	return v
}

func (v *plain) suspend() { v.idle = true }
func (v *plain) resume()  { v.idle = false }

func (v *plain) close() {
	close(v.end)
	<-v.ended
	v.beat.Stop()
}

func (v *plain) still() {
	v.beat.Reset(v.every)
	active := v.s.run.Active()
	if v.idle || len(active) == 0 {
		return
	}
	var names []string
	for i, t := range active {
		if i == 8 {
			names = append(names, fmt.Sprintf("+%d more", len(active)-i))
			break
		}
		names = append(names, label(t))
	}
	now := v.s.now()
	v.line(now, "still running "+duration(v.s.run.Time.Elapsed(now))+": "+strings.Join(names, ", "))
}

// line writes one line. What is in it is clean.
func (v *plain) line(at time.Time, text string) {
	v.beat.Reset(v.every)
	_, _ = v.out.Write([]byte(at.Local().Format(time.TimeOnly) + " " + text + "\n"))
}

// label is a task as people call it.
func label(t *transcript.Task) string {
	if t.Key == "" {
		return t.Path
	}
	_, visit, _ := strings.Cut(t.Path, "]")
	return t.Node + "/" + t.Key + visit
}

func (v *plain) see(rec *runlog.Record, r *transcript.Run, old bool) {
	if old {
		return
	}
	task := r.Task(rec.Path)
	switch rec.Kind {
	case runlog.KindRunStarted:
		line := "run " + v.s.id + " " + r.Workflow + " started"
		if r.Title != "" {
			line += " " + strconv.Quote(r.Title)
		}
		v.line(rec.Time, line)
	case runlog.KindRunResumed:
		v.line(rec.Time, "run "+v.s.id+" "+r.Workflow+" resumed")
	case runlog.KindTaskDone:
		v.start(rec.Time, r, task)
		v.taskDone(rec.Time, task)
	case runlog.KindTaskFailed:
		v.start(rec.Time, r, task)
		v.taskFailed(rec, task)
	case runlog.KindStepCommitted:
		v.stepDone(rec, r)
	case runlog.KindAsked:
		v.line(rec.Time, "ask "+task.Path+" "+strconv.Quote(lastQuestion(r, task.Path)))
	case runlog.KindAnswered:
		v.answered(rec)
	case runlog.KindRunPaused:
		for _, q := range r.Open() {
			v.line(rec.Time, "ask "+q.Path+" -> waiting for an answer")
		}
	case runlog.KindEvent:
		v.event(rec, r, task)
	case runlog.KindSettled:
		if v.verbose && len(task.Parts) > 0 {
			v.part(rec, task)
		}
	}
}

func lastQuestion(r *transcript.Run, path string) string {
	for i := len(r.Questions) - 1; i >= 0; i-- {
		if r.Questions[i].Path == path {
			return transcript.Line(r.Questions[i].Question)
		}
	}
	return ""
}

// start says that a step of several tasks starts, when the first of them is heard of.
func (v *plain) start(at time.Time, r *transcript.Run, t *transcript.Task) {
	id := strconv.Itoa(t.Step) + " " + t.Node
	if t.Key == "" || v.begun[id] {
		return
	}
	v.begun[id] = true
	line := "step " + t.Node + " start"
	if s := r.Step(t.Step); s != nil && s.Planned[t.Node] > 0 {
		line += fmt.Sprintf(" tasks=%d", s.Planned[t.Node])
	}
	v.line(at, line)
}

func what(t *transcript.Task) string {
	switch {
	case t.Key == "":
		return "step " + label(t)
	case t.Agents > 0:
		return "agent " + label(t)
	}
	return "task " + label(t)
}

func (v *plain) taskDone(at time.Time, t *transcript.Task) {
	line := what(t) + " "
	switch t.State {
	case transcript.Failed: // that was said
		return
	case transcript.NotRun:
		v.line(at, line+v.pal.dim("not run")+": "+transcript.Line(t.Why))
		return
	case transcript.Done:
		line += v.pal.green("ok")
	default:
		line += v.pal.yellow(string(t.State))
	}
	line += " " + brief(t.Time.Elapsed(at))
	if t.Tools > 0 {
		line += fmt.Sprintf(" tools=%d", t.Tools)
	}
	more := transcript.Line(remarks(t))
	if strings.HasPrefix(more, "(") {
		more = " " + more
	}
	v.line(at, line+more)
}

// remarks are what there is to say of a task besides its state.
func remarks(t *transcript.Task) string {
	text := ""
	if len(t.Bad) > 0 {
		text = " (ran on error input: " + strings.Join(t.Bad, ", ") + ")"
	}
	switch {
	case t.Why != "":
		text += ": " + t.Why
	case t.Error != "":
		text += ": " + t.Error
	}
	return text
}

func (v *plain) taskFailed(rec *runlog.Record, t *transcript.Task) {
	var d runlog.TaskFailed
	_ = json.Unmarshal(rec.Data, &d)
	line := fmt.Sprintf("%s %s %s attempt=%d", what(t), v.pal.red("failed"), brief(t.Time.Elapsed(rec.Time)), d.Attempt)
	if !d.Final {
		line += " trying again"
	}
	v.line(rec.Time, line+": "+transcript.Line(t.Error))
}

// stepDone says that steps of several tasks are done; those of one said so already.
func (v *plain) stepDone(rec *runlog.Record, r *transcript.Run) {
	var d runlog.StepCommitted
	_ = json.Unmarshal(rec.Data, &d)
	s := r.Step(d.Step)
	if s == nil || rec.Path != "" {
		return
	}
	tasks := map[string]int{}
	for _, t := range s.Tasks {
		if t.Key != "" {
			tasks[t.Node]++
		}
	}
	for _, t := range s.Tasks { // in order, once each
		if n := tasks[t.Node]; n > 0 {
			delete(tasks, t.Node)
			v.line(rec.Time, fmt.Sprintf("step %s %s %s tasks=%d", t.Node, v.pal.green("ok"), brief(s.Time.Elapsed(rec.Time)), n))
		}
	}
}

func (v *plain) answered(rec *runlog.Record) {
	var d runlog.Answered
	_ = json.Unmarshal(rec.Data, &d)
	value := "denied"
	if !d.Denied {
		value = strconv.Quote(transcript.Line(transcript.Value(d.Answer)))
	}
	if by := transcript.Line(d.By); by != "" {
		value += " (" + by + ")"
	}
	v.line(rec.Time, "ask "+transcript.Line(rec.Path)+" -> "+value)
}

func (v *plain) event(rec *runlog.Record, r *transcript.Run, t *transcript.Task) {
	var d runlog.Event
	if json.Unmarshal(rec.Data, &d) != nil || t == nil {
		return
	}
	switch d.Name {
	case "task.started":
		v.start(rec.Time, r, t)
	case "note", "denied":
		if n := len(t.Parts); n > 0 && t.Parts[n-1].Kind == transcript.Note {
			v.line(rec.Time, "note "+label(t)+" "+transcript.Line(t.Parts[n-1].Text))
		}
	}
}

// part says what a task did or said last.
func (v *plain) part(rec *runlog.Record, t *transcript.Task) {
	var d runlog.Settled
	if json.Unmarshal(rec.Data, &d) != nil {
		return
	}
	switch p := t.Parts[len(t.Parts)-1]; {
	case d.Kind == "model":
		v.line(rec.Time, "turn "+label(t)+" tokens="+count(t.Usage.In+t.Usage.Out))
	case p.Tool != nil && d.Kind != "agent":
		line := p.Tool.Kind + " " + label(t) + " " + p.Tool.Name
		if p.Tool.Arg != "" {
			line += " " + strconv.Quote(p.Tool.Arg)
		}
		if p.Tool.State == transcript.Failed {
			line += " failed"
		} else {
			line += " ok"
		}
		v.line(rec.Time, line+" "+brief(p.Tool.Time.Elapsed(rec.Time)))
	}
}
