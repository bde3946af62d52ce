package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/detach"
	"github.com/superstep-dev/superstep/internal/events"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/signals"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
)

// job is a run to execute.
type job struct {
	engine  *superstep.Engine
	flags   *running
	answers tui.Answers
	after   uint64 // the last record that is old
	begin   func(context.Context, superstep.Answering, func(runlog.Record, error)) (*superstep.Run, error)
}

var errPipe = errors.New("nobody reads the output any more")

// follow shows a run as the flags say. The events are nil if none are wanted.
func (a *app) follow(after uint64, streamText bool) (*tui.Session, *events.Stream) {
	if a.set.output != "jsonl" {
		return a.tty.Follow(after, nil), nil
	}
	stream := &events.Stream{Text: streamText, Write: func(e *events.Event) { _ = a.out.json(e, false) }} // it is made of what JSON has
	return a.tty.Follow(after, stream.See), stream
}

// executeRun executes a run to its end and prints how it ended.
func executeRun(ctx context.Context, a *app, j *job) error {
	s, stream := a.follow(j.after, j.flags.streamText)
	ctx, done := a.stoppable(ctx, func() {
		s.Release() // a second signal ends the process
		if !a.programs() {
			a.tty.Notify("stopping at a safe point; once more to stop at once")
		}
	})
	defer done()
	program := newDriver(a, j, stream)
	s.Ask(ctx, &tui.AskOptions{
		Answers: j.answers, OnAsk: j.flags.onAsk, Program: program.ended(),
		Give: func(ctx context.Context, path string, given *runlog.Answer) error {
			return j.engine.Answer(ctx, s.ID(), path, given)
		},
	})
	run, err := j.begin(ctx, j.flags.answering(s.Answer, a.opt.idle), s.Observe)
	if err != nil {
		s.Close()
		return stopped(ctx, err)
	}
	s.Begin(run.ID())
	a.begun = run.ID()
	if file := j.flags.detached; file != "" {
		if err := detach.Began(file, run.ID()); err != nil {
			a.tty.Warn(err.Error())
		}
	}
	program.start(ctx, run.ID())
	out, _ := run.Wait(context.Background()) // a run that is told to stop ends in its own time; a second signal is there for the impatient
	s.Close()
	program.finish()
	if s.Err() != nil {
		a.tty.Warn(fmt.Sprintf("progress broke off: %v", s.Err()))
	}
	if s.Run().Seq == 0 { // it was over before this command
		if !a.programs() && !a.set.Quiet {
			a.err.line(fmt.Sprintf("run %s is %s already; nothing is done again", run.ID(), out.Status))
		}
		for rec, err := range run.Follow(ctx, 0) {
			s.Observe(rec, err)
		}
	}
	if j.answers != nil && out.Status != runlog.Interrupted {
		s.Leftover()
	}
	warnLate(a, run.ID(), out.Folder)
	return finishRun(a, s, stream, endingOf(ctx, s, &out))
}

// stopped returns err, or the cause that stopped the command if err is a result of it.
func stopped(ctx context.Context, err error) error {
	if sig, ok := errors.AsType[*signals.Error](context.Cause(ctx)); ok {
		return &Error{Exit: sig.Exit(), Code: "interrupted", Message: sig.Error(), Err: err}
	}
	return err
}

// ending describes how a run ended, for users and programs.
type ending struct {
	run      *transcript.Run
	id       string
	status   runlog.Status
	exit     int
	duration time.Duration
	output   []byte // JSON
	err      *Error // nil if nothing is wrong
	open     []tui.Question
	shown    bool // the user is looking at the run already
	awaits   bool // it waits for the next message of a conversation, and for nothing else
}

// lacks adds to the ending that the run needs a larger budget, if it does.
func (e *ending) lacks(short *runlog.BudgetError) {
	if short != nil {
		e.exit = ExitLimit
		e.err = &Error{Exit: ExitLimit, Code: short.FailureCode(), Message: transcript.Line(short.Error()), Err: short}
		if flag := raised(short); flag != nil {
			e.err.Message += ": " + strings.Join(flag, " ")
		}
	}
}

// endingOf returns how a run ended with an outcome.
func endingOf(ctx context.Context, s *tui.Session, out *superstep.Outcome) *ending {
	e := &ending{run: s.Run(), id: s.ID(), status: out.Status, output: out.Output, duration: s.Elapsed()}
	e.run.End(runlog.Interrupted)
	switch out.Status {
	case runlog.Completed, runlog.Partial:
		if e.exit = ExitOK; out.Status == runlog.Partial {
			e.exit = ExitPartial
		}
		if err := withoutLeave(e.run, e.id); err != nil {
			e.exit, e.err = err.Exit, err
		}
	case runlog.Paused:
		if e.run.AwaitsMessage() && out.Short == nil { // nobody has to do anything
			e.awaits = true
			if e.output == nil {
				e.output = lastAnswer(e.run)
			}
			break
		}
		e.exit, e.open = ExitPaused, tui.Questions(e.run.Open())
		e.lacks(out.Short)
		if s.Refused() {
			e.exit = ExitFailed
			e.err = &Error{Exit: ExitFailed, Code: "question", Message: fmt.Sprintf("run %s asks and --on-ask fail is set", e.id)}
		}
	case runlog.WaitingStorage:
		e.exit = ExitPaused
		e.err = &Error{Exit: e.exit, Code: "waiting_storage", Message: out.Err.Error(), Err: out.Err}
	case runlog.Cancelled:
		e.exit = ExitInterrupted
		e.err = &Error{Exit: e.exit, Code: "cancelled", Message: fmt.Sprintf("run %s was cancelled", e.id), Err: out.Err}
	default:
		e.err = failureOf(out, e.id)
		e.exit = e.err.Exit
		if denied := withoutLeave(e.run, e.id); denied != nil && len(e.err.Next) == 0 && failedDenied(e.run) {
			e.err.Next = denied.Next
		}
	}
	if out.Err != nil && e.err == nil {
		e.err = classify(out.Err)
		e.exit = max(e.exit, e.err.Exit)
	}
	switch sig, signalled := errors.AsType[*signals.Error](context.Cause(ctx)); {
	case out.Status.Ended():
	case signalled:
		e.exit = sig.Exit()
		e.err = &Error{Exit: e.exit, Code: "interrupted", Message: fmt.Sprintf("run %s was %s; it can be resumed", e.id, sig), Err: out.Err}
	case errors.Is(context.Cause(ctx), errPipe):
		e.exit = ExitPipe
		e.err = &Error{Exit: e.exit, Code: "pipe", Message: errPipe.Error(), shown: true}
	}
	return e
}

// was returns a count of items with its verb, such as "2 runs were".
func was(n int, what string) string {
	if n == 1 {
		return "1 " + what + " was"
	}
	return inwords.Plural(n, what) + " were"
}

// unchained returns the error of a run without the prefix that names the agent of its node.
func unchained(message string) string {
	if rest, is := strings.CutPrefix(message, "node "); is {
		if node, why, is := strings.Cut(rest, ": "); is {
			return "node " + node + ": " + strings.TrimPrefix(why, "agent "+node+": ")
		}
	}
	return message
}

// failureOf returns why a run failed or could not continue.
func failureOf(out *superstep.Outcome, id string) *Error {
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
