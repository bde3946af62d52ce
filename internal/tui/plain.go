package tui

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// plain is progress as lines that are only ever added to.
type plain struct {
	teller
	out   io.Writer
	every time.Duration
	begun map[string]bool // the steps whose start was said, by number and node
	beat  *time.Timer
	told  time.Time // how far something is
	idle  bool      // somebody else writes
	held  []string  // lines for when nobody does
	end   chan struct{}
	ended chan struct{}
}

// newPlain creates the view. The goroutine behind it says every now and then that the
// run is still running; it ends with close.
func newPlain(a *Screen, s *Session) *plain {
	v := plainLines(s, a.err, a.set.Heartbeat)
	v.pal, v.verbose = a.Err, a.set.Verbose
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

// plainLines returns the view without the goroutine.
func plainLines(s *Session, out io.Writer, every time.Duration) *plain {
	v := &plain{out: out, every: every, begun: map[string]bool{}, beat: time.NewTimer(every), end: make(chan struct{}), ended: make(chan struct{})}
	v.s, v.say = s, func(at time.Time, n *news) { v.line(at, n.kind+" "+n.text) }
	return v
}

func (v *plain) suspend(on bool) {
	if v.idle = on; on {
		return
	}
	for _, line := range v.held {
		_, _ = v.out.Write([]byte(line))
	}
	v.held = nil
}

func (v *plain) notify(text string) { v.write(transcript.Clean(text) + "\n") }

func (v *plain) close() {
	close(v.end)
	<-v.ended
	v.beat.Stop()
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	v.last()
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
		names = append(names, t.Label())
	}
	now := v.s.now()
	v.line(now, "still running "+inwords.Duration(v.s.run.Time.Elapsed(now))+": "+strings.Join(names, ", "))
}

// line writes one line. Its text is cleaned.
func (v *plain) line(at time.Time, text string) {
	v.beat.Reset(v.every)
	v.write(at.Local().Format(time.TimeOnly) + " " + text + "\n")
}

// write writes lines, or holds them back while another writer uses the terminal.
func (v *plain) write(line string) {
	if v.idle {
		v.held = append(v.held, line)
		return
	}
	_, _ = v.out.Write([]byte(line))
}

func (v *plain) see(rec *runlog.Record, r *transcript.Run) {
	task := r.Task(rec.Path)
	v.due(rec, task)
	switch rec.Kind {
	case runlog.KindRunStarted:
		line := "run " + v.s.id + " " + r.Workflow + " started"
		if r.Title != "" {
			line += " " + strconv.Quote(r.Title)
		}
		line += confined(r)
		v.line(rec.Time, line)
	case runlog.KindRunResumed:
		v.line(rec.Time, "run "+v.s.id+" "+r.Workflow+" resumed"+confined(r))
	case runlog.KindTaskDone:
		v.start(rec.Time, r, task)
		v.taskDone(rec.Time, task)
	case runlog.KindTaskFailed:
		v.start(rec.Time, r, task)
	case runlog.KindStepCommitted:
		v.stepDone(rec, r)
	case runlog.KindAsked:
		if r.AwaitsMessage() {
			break
		}
		if data[runlog.Question](rec).Kind == runlog.QuestionRun {
			v.line(rec.Time, "step "+task.Path+" is run "+task.Run)
			break
		}
		v.line(rec.Time, "ask "+task.Path+" "+strconv.Quote(lastQuestion(r, task.Path)))
	case runlog.KindRunPaused:
		if r.AwaitsMessage() {
			break
		}
		for _, q := range r.Open() {
			v.line(rec.Time, "ask "+q.Path+" -> waiting for an answer")
		}
	case runlog.KindEvent:
		v.event(rec, r, task)
	}
	v.tell(rec, r, task)
}

// Long reports whether a question has so many lines that it is unreadable on one.
func Long(text string) bool { return strings.Count(strings.TrimSpace(text), "\n") > 3 }

func lastQuestion(r *transcript.Run, path string) string {
	for i := len(r.Questions) - 1; i >= 0; i-- {
		if r.Questions[i].Path == path {
			text := strings.TrimSpace(r.Questions[i].Question)
			if Long(text) { // it is shown whole where the run pauses
				text, _, _ = strings.Cut(text, "\n")
				text += " …"
			}
			return transcript.Line(text)
		}
	}
	return ""
}

// start records that a step starts, when it or the first of its tasks is heard of.
func (v *plain) start(at time.Time, r *transcript.Run, t *transcript.Task) {
	id := strconv.Itoa(t.Step) + " " + t.Node
	if strings.Contains(t.Path, "/") || v.begun[id] {
		return
	}
	v.begun[id] = true
	name := t.Node
	if t.Key == "" {
		name = t.Path
	}
	line := "step " + name + " start"
	if s := r.Step(t.Step); s != nil && s.Planned[t.Node] > 0 {
		line += fmt.Sprintf(" tasks=%d", s.Planned[t.Node])
	}
	v.line(at, line)
}

func what(t *transcript.Task) string {
	_, key := transcript.Names(t.Path)
	switch {
	case key == "":
		return "step " + t.Label()
	case len(t.Agents) > 0:
		return "agent " + t.Label()
	}
	return "task " + t.Label()
}

func (v *plain) taskDone(at time.Time, t *transcript.Task) {
	line := what(t) + " "
	switch t.State {
	case transcript.Failed: // that was said
		return
	case transcript.Skipped:
		v.line(at, line+v.pal.Dim("skipped")+": "+transcript.Line(t.Why))
		return
	case transcript.Done:
		line += v.pal.Green("ok")
	default:
		line += v.pal.Yellow(string(t.State))
	}
	line += " " + inwords.Brief(t.Time.Elapsed(at))
	if t.Tools > 0 {
		line += fmt.Sprintf(" tools=%d", t.Tools)
	}
	more := transcript.Line(remarks(t))
	if strings.HasPrefix(more, "(") {
		more = " " + more
	}
	v.line(at, line+more)
}

// remarks returns what there is to say of a task besides its state.
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

// stepDone records that steps of several tasks are done; those of one said so already.
func (v *plain) stepDone(rec *runlog.Record, r *transcript.Run) {
	d := data[runlog.StepCommitted](rec)
	s := r.Step(d.Step)
	if s == nil || rec.Path != "" {
		return
	}
	tasks := map[string]int{}
	for _, t := range s.Own() {
		if t.Key != "" {
			tasks[t.Node]++
		}
	}
	for _, t := range s.Own() { // in order, once each
		if n := tasks[t.Node]; n > 0 {
			delete(tasks, t.Node)
			v.line(rec.Time, fmt.Sprintf("step %s %s %s tasks=%d", t.Node, v.pal.Green("ok"), inwords.Brief(s.Time.Elapsed(rec.Time)), n))
		}
	}
}

func (v *plain) event(rec *runlog.Record, r *transcript.Run, t *transcript.Task) {
	switch d := data[runlog.Event](rec); {
	case t == nil:
	case d.Name == "task.started":
		v.start(rec.Time, r, t)
	case d.Name == "progress" && t.Progress != nil && rec.Time.Sub(v.told) >= progressEvery:
		v.told = rec.Time
		v.line(rec.Time, "wait "+t.Label()+" "+t.Progress.Text)
	}
}

const progressEvery = 3 * time.Second
