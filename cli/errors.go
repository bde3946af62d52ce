package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/seal"
	"github.com/superstep-dev/superstep/transcript"
	"github.com/superstep-dev/superstep/workflow"
)

// An Error decides what the command says and exits with. The hooks of Options may
// return one, and so may the nodes of a workflow.
type Error struct {
	Exit    int      // one of the Exit constants
	Code    string   // a stable word for programs
	Message string   // what is wrong, where, and what to do about it
	Next    []string // what to do about it, where there is more to say, one thing each
	Err     error    // the cause, nil for none

	shown bool // the user has seen it
}

func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// NoModel is the error of a workflow that needs a model when there is none: exit code
// 4. The remedies are what would help, one thing each.
func NoModel(message string, remedies ...string) *Error {
	return &Error{Exit: ExitNoModel, Code: "no_model", Message: message, Next: remedies}
}

// FailureCode is the word for the log of a run that fails with the error. It leads to
// the same exit code.
func (e *Error) FailureCode() string {
	if e.Code != "" && exitOf(e.Code) == e.Exit {
		return e.Code
	}
	switch e.Exit {
	case ExitUsage:
		return "usage"
	case ExitNoModel:
		return "no_model"
	case ExitLimit:
		return superstep.CodeLimit
	case ExitDenied:
		return superstep.CodeDenied
	}
	return superstep.CodeTask
}

// exitOf is the exit code of a stable word, whoever says it: an error, or the log of a
// run that failed.
func exitOf(code string) int {
	switch code {
	case "usage", "inputs", "unknown_workflow", "unknown_run", "ambiguous_run":
		return ExitUsage
	case "no_model", "not_signed_in":
		return ExitNoModel
	case superstep.CodeLimit, superstep.CodeBudget:
		return ExitLimit
	case superstep.CodeDenied, "untrusted":
		return ExitDenied
	case "interrupted":
		return ExitInterrupted
	}
	return ExitFailed
}

func usage(message string, next ...string) *Error {
	return &Error{Exit: ExitUsage, Code: "usage", Message: message, Next: next}
}

// classify finds the exit code and the stable word of an error.
func classify(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		if e.Message == err.Error() {
			return e
		}
		return &Error{Exit: e.Exit, Code: e.Code, Message: err.Error(), Next: e.Next, Err: err, shown: e.shown}
	}
	code := "failed"
	var (
		inputs    *workflow.InputsError
		unknown   *workflow.UnknownError
		missing   *runlog.NotFoundError
		ambiguous *superstep.AmbiguousError
		ended     *superstep.EndedError
		busy      *runlog.BusyError
		corrupt   *runlog.CorruptError
		changed   *graph.ChangedError
		poison    *runlog.QuarantinedError
		full      *runlog.StorageError
		provider  *model.Error
	)
	switch {
	case errors.As(err, &inputs):
		code = "inputs"
	case errors.As(err, &unknown):
		code = "unknown_workflow"
	case errors.As(err, &missing):
		code = "unknown_run"
	case errors.As(err, &ambiguous):
		code = "ambiguous_run"
	case errors.As(err, &ended):
		code = "ended"
	case errors.As(err, &busy):
		code = "busy"
	case errors.As(err, &corrupt):
		code = "damaged"
	case errors.As(err, &changed):
		code = superstep.CodeChanged
	case errors.As(err, &poison):
		code = "quarantined"
	case errors.As(err, &full):
		code = "waiting_storage"
	case errors.Is(err, runlog.ErrStoreReset):
		code = "store_reset"
	case errors.As(err, &provider) && (provider.Status == http.StatusUnauthorized || provider.Status == http.StatusForbidden):
		code = "not_signed_in"
	case errors.Is(err, context.Canceled):
		code = "interrupted"
	default:
		if c := superstep.FailureCode(err); c != superstep.CodeTask { // that is for the tasks of a run
			code = c
		}
	}
	return &Error{Exit: exitOf(code), Code: code, Message: err.Error(), Err: err}
}

// errorJSON is an error for programs.
type errorJSON struct {
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Next    []string `json:"next,omitempty"`
}

func (e *Error) json() *errorJSON { return &errorJSON{e.Code, e.Message, e.Next} }

// remedies are what to type next about an error of a library, which does not know of commands.
func (a *app) remedies(err error) []string {
	var (
		busy   *runlog.BusyError
		poison *runlog.QuarantinedError
		ended  *superstep.EndedError
		sealed *runlog.SealedError
		plain  *seal.UnauthenticatedError
	)
	var wary *project.UntrustedError
	switch {
	case errors.As(err, &wary):
		return []string{"look at it and decide: " + a.hint("trust")}
	case errors.As(err, &busy):
		next := []string{"watch it: " + a.hint("runs", "watch", busy.ID)}
		if left := time.Until(busy.Until); left > 0 {
			next = append(next, fmt.Sprintf("if that process is dead, its hold ends in %s, and then: %s", duration(left), a.hint("runs", "resume", busy.ID)))
		}
		return append(next, "stop it for good: "+a.hint("runs", "cancel", busy.ID))
	case errors.As(err, &poison):
		return []string{"go on all the same: " + a.hint("runs", "resume", poison.ID, "--quarantined"), "what it had done: " + a.hint("runs", "show", poison.ID)}
	case errors.As(err, &ended):
		return []string{"what it did: " + a.hint("runs", "show", ended.ID)}
	case errors.As(err, &sealed):
		return []string{"name the key with --store-key-file FILE, or put it into SUPERSTEP_STORE_KEY"}
	case errors.As(err, &plain) && plain.Plain:
		return []string{fmt.Sprintf("without the key: %s runs export %s --file run.jsonl --unredacted; then with it: %s runs import run.jsonl --as ANOTHER-ID", a.opt.Name, plain.ID, a.opt.Name)}
	}
	return nil
}

// fail says what is wrong, as people or programs read it, and gives the exit code.
func (a *app) fail(err error) int {
	e := classify(err)
	if next := a.remedies(err); len(e.Next) == 0 && next != nil {
		helpful := *e
		helpful.Next = next
		e = &helpful
	}
	if a.programs() {
		v := struct {
			Error *errorJSON `json:"error"`
		}{e.json()}
		_ = a.err.json(v, false) // cannot fail: it is made of strings
		if a.set.output == "json" && !a.term.outTTY {
			_ = a.out.json(v, false) // a reader of standard output finds JSON there whatever happens
		}
		return e.Exit
	}
	a.complain(e)
	return e.Exit
}

// complain writes an error as one block.
func (a *app) complain(e *Error) {
	p := palette(a.term.errColor)
	msg := strings.TrimRight(transcript.Clean(e.Message), "\n")
	var b strings.Builder
	b.WriteString(p.red("error:") + " " + msg + "\n")
	bullet := "•"
	if a.term.plain {
		bullet = "-"
	}
	for _, n := range e.Next {
		b.WriteString("  " + bullet + " " + transcript.Clean(n) + "\n")
	}
	_, _ = a.err.Write([]byte(b.String()))
}
