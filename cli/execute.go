package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// A view shows what happens in a run while it happens. Its methods but close are
// called with the session's lock held.
type view interface {
	// see is called for every record once the transcript has it. Old ones were there
	// before this command and are no news.
	see(rec *runlog.Record, t *transcript.Run, old bool)
	notify(text string) bool // shows something that is no record, or reports that it does not
	suspend(on bool)         // somebody else writes to the terminal, or does no longer
	close()                  // ends the goroutines of the view
}

// session is one run as this command follows it.
type session struct {
	id    string
	after uint64        // records up to this one are old
	named chan struct{} // closed once id is set
	now   func() time.Time

	mu    sync.Mutex
	run   transcript.Run
	err   error // why following broke off
	views []view

	closed func()
}

// questions are those that are open, in the order in which they were asked.
func (s *session) questions() []runlog.Question {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []runlog.Question
	for _, q := range s.run.Open() {
		out = append(out, q.Asked)
	}
	return out
}

// name says which run it is. Records wait for it.
func (s *session) name(id string) {
	s.id = id
	close(s.named)
}

// observe takes the next record of the run.
func (s *session) observe(rec runlog.Record, err error) {
	<-s.named
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.err = err
		return
	}
	s.run.Apply(rec)
	old := rec.Seq != 0 && rec.Seq <= s.after
	for _, v := range s.views {
		v.see(&rec, &s.run, old)
	}
}

// live is the view that is redrawn in place, nil if there is none.
func (s *session) live() *live {
	for _, v := range s.views {
		if l, ok := v.(*live); ok {
			return l
		}
	}
	return nil
}

// change changes the live view and draws it.
func (s *session) change(v *live, how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
	v.draw(true)
}

func (s *session) suspend(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.views {
		v.suspend(on)
	}
}

// notify shows something that is no record, in one view, and reports whether there is one for it.
func (s *session) notify(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.views, func(v view) bool { return v.notify(text) })
}

// close ends the views, but not what still has to be said by them.
func (s *session) close() {
	s.closed()
	for _, v := range s.views {
		v.close()
	}
}

// job is a run that is to be executed.
type job struct {
	engine  *superstep.Engine
	flags   *running
	answers answers
	after   uint64 // the last record that is old
	begin   func(context.Context, superstep.Answering, func(runlog.Record, error)) (*superstep.Run, error)
}

var errPipe = errors.New("nobody reads the output any more")

// execute runs a run to its end and says how it ended.
func (a runsCommands) execute(ctx context.Context, j *job) error {
	s := a.session(j.after, j.flags.streamText)
	ctx, done := a.stoppable(ctx, func() {
		if v := s.live(); v != nil {
			s.change(v, v.release) // a second signal ends the process
		}
		if !a.programs() {
			a.notify("stopping at a safe point; once more to stop at once")
		}
	})
	defer done()
	ask := &asker{
		screen: &a.screen, session: s, answers: j.answers, policy: j.flags.onAsk,
		claims: map[string]*claim{}, put: map[string]bool{}, moved: make(chan struct{}),
	}
	ask.give = func(ctx context.Context, path string, given *runlog.Answer) error {
		return j.engine.Answer(ctx, s.id, path, given)
	}
	var enough context.CancelFunc
	ask.until, enough = context.WithCancel(ctx)
	defer enough()
	run, err := j.begin(ctx, ask.answer, func(rec runlog.Record, err error) {
		s.observe(rec, err)
		if err == nil {
			ask.see(ctx, &rec)
		}
	})
	if err != nil {
		s.close()
		return stopped(ctx, err)
	}
	s.name(run.ID())
	out, _ := run.Wait(context.Background()) // a run that is told to stop ends in its own time; a second signal is there for the impatient
	enough()                                 // nobody waits for an answer any more
	ask.ahead.Wait()
	s.close()
	if s.err != nil {
		a.warn(fmt.Sprintf("progress broke off: %v", s.err))
	}
	over := s.run.Seq == 0
	if over { // before this command
		if !a.programs() && !a.set.quiet {
			a.err.line(fmt.Sprintf("run %s is %s already; nothing is done again", run.ID(), out.Status))
		}
		for rec, err := range run.Follow(ctx, 0) {
			s.observe(rec, err)
		}
	}
	if j.answers != nil && out.Status != runlog.Interrupted {
		ask.leftover()
	}
	folders(a).late(run.ID(), out.Folder)
	return a.finish(s, a.ending(ctx, s, &out, ask.refused))
}

// A signalError is the cause of a context that a signal ended.
type signalError struct{ sig os.Signal }

func (e *signalError) Error() string {
	switch e.sig {
	case syscall.SIGTERM:
		return "terminated"
	case syscall.SIGHUP:
		return "hung up"
	}
	return "interrupted"
}

func (e *signalError) exit() int {
	switch e.sig {
	case syscall.SIGTERM:
		return ExitTerminated
	case syscall.SIGHUP:
		return ExitHungUp
	}
	return ExitInterrupted
}

// stopped is err, or what stopped the command if that is why.
func stopped(ctx context.Context, err error) error {
	if sig, ok := errors.AsType[*signalError](context.Cause(ctx)); ok {
		return &Error{Exit: sig.exit(), Code: "interrupted", Message: sig.Error(), Err: err}
	}
	return err
}

// onSignal calls do for the first signal that wants the process to end. The second one
// ends it, as if nobody had asked to be told: whatever a run is doing, its log is safe.
// The signal of ^\ is one of them and leaves no dump. What onSignal returns ends that.
func onSignal(do func(why *signalError)) func() {
	c, quit := make(chan os.Signal, 1), make(chan os.Signal, 2)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	signal.Notify(quit, syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(c, syscall.SIGHUP)
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-end:
		case sig := <-c:
			signal.Stop(c)
			if sig == syscall.SIGQUIT {
				<-quit
			}
			do(&signalError{sig})
			select {
			case <-end:
			case <-quit:
				os.Exit(ExitInterrupted)
			}
		}
	}()
	return func() {
		signal.Stop(c)
		signal.Stop(quit)
		close(end)
		<-ended
	}
}

// ending is how a run ended, for people and programs.
type ending struct {
	run      *transcript.Run
	id       string
	status   runlog.Status
	exit     int
	duration time.Duration
	output   []byte // JSON
	err      *Error // nil if nothing is wrong
	open     []*transcript.Question
	shown    bool // the user is looking at the run already
}

// lacks makes it the ending of a run that needs a larger budget, if it does.
func (e *ending) lacks(short *runlog.BudgetError) {
	if short != nil {
		e.exit = ExitLimit
		e.err = &Error{Exit: ExitLimit, Code: short.FailureCode(), Message: transcript.Line(short.Error()), Err: short}
		if flag := raised(short); flag != nil {
			e.err.Message += ": " + strings.Join(flag, " ")
		}
	}
}

// ending returns how a run ended with an outcome. Refused is set if a question was met with --on-ask fail.
func (a runsCommands) ending(ctx context.Context, s *session, out *superstep.Outcome, refused bool) *ending {
	e := &ending{run: &s.run, id: s.id, status: out.Status, output: out.Output, duration: s.run.Time.Elapsed(s.now())}
	s.run.End(runlog.Interrupted)
	switch out.Status {
	case runlog.Completed, runlog.Partial:
		if e.exit = ExitOK; out.Status == runlog.Partial {
			e.exit = ExitPartial
		}
		if err := withoutLeave(&s.run, s.id); err != nil {
			e.exit, e.err = err.Exit, err
		}
	case runlog.Paused:
		e.exit, e.open = ExitPaused, s.run.Open()
		e.lacks(out.Short)
		if refused {
			e.exit = ExitFailed
			e.err = &Error{Exit: ExitFailed, Code: "question", Message: fmt.Sprintf("run %s asks and --on-ask fail is set", s.id)}
		}
	case runlog.WaitingStorage:
		e.exit = ExitPaused
		e.err = &Error{Exit: e.exit, Code: "waiting_storage", Message: out.Err.Error(), Err: out.Err}
	case runlog.Cancelled:
		e.exit = ExitInterrupted
		e.err = &Error{Exit: e.exit, Code: "cancelled", Message: fmt.Sprintf("run %s was cancelled", s.id), Err: out.Err}
	default:
		e.err = a.failure(out, s.id)
		e.exit = e.err.Exit
		if denied := withoutLeave(&s.run, s.id); denied != nil && len(e.err.Next) == 0 && failedDenied(&s.run) {
			e.err.Next = denied.Next
		}
	}
	if out.Err != nil && e.err == nil {
		e.err = classify(out.Err)
		e.exit = max(e.exit, e.err.Exit)
	}
	switch sig, signalled := errors.AsType[*signalError](context.Cause(ctx)); {
	case out.Status.Ended():
	case signalled:
		e.exit = sig.exit()
		e.err = &Error{Exit: e.exit, Code: "interrupted", Message: fmt.Sprintf("run %s was %s; it can be resumed", s.id, sig), Err: out.Err}
	case errors.Is(context.Cause(ctx), errPipe):
		e.exit = ExitPipe
		e.err = &Error{Exit: e.exit, Code: "pipe", Message: errPipe.Error(), shown: true}
	}
	return e
}

// was counts things that something was done to.
func was(n int, what string) string {
	if n == 1 {
		return "1 " + what + " was"
	}
	return plural(n, what) + " were"
}

// unchained is the error of a run without the agent that has the name of its node.
func unchained(message string) string {
	if rest, is := strings.CutPrefix(message, "node "); is {
		if node, why, is := strings.Cut(rest, ": "); is {
			return "node " + node + ": " + strings.TrimPrefix(why, "agent "+node+": ")
		}
	}
	return message
}

// failure is why a run failed or could not go on.
func (a runsCommands) failure(out *superstep.Outcome, id string) *Error {
	if out.Err == nil {
		return &Error{Exit: ExitFailed, Code: "failed", Message: fmt.Sprintf("run %s ended as %s", id, out.Status)}
	}
	e := *classify(out.Err)
	e.Message = unchained(e.Message)
	if e.Exit == ExitInterrupted || e.Exit == ExitOK { // a workflow's own cancellation is its failure
		e.Exit, e.Code = ExitFailed, "failed"
	}
	if out.Status != runlog.Failed || e.Code == "not_signed_in" {
		return &e
	}
	logged := superstep.FailureCode(out.Err) // what `runs watch` goes by
	e.Exit = exitOf(logged)
	if !errors.As(out.Err, new(*Error)) {
		e.Code = logged
	}
	return &e
}
