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
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/seal"
	"github.com/superstep-dev/superstep/workflow"
)

// An Error sets the message and the exit code of the command. The hooks of Options may return one, and so may the nodes of a workflow.
type Error struct {
	Exit    int      // one of the Exit constants
	Code    string   // a stable word for programs
	Message string   // what is wrong, where, and what to do about it
	Next    []string // what to do about it, where there is more to say, one thing each
	Err     error    // the cause, nil for none

	shown bool // the user has seen it
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// FailureCode returns the code that is logged if a run fails with the error. It maps to the same
// exit code.
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

// exitOf returns the exit code for a failure code, whether it comes from an error or from the log
// of a failed run.
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
	case "interrupted", "cancelled":
		return ExitInterrupted
	}
	return ExitFailed
}

func usage(message string, next ...string) *Error {
	return &Error{Exit: ExitUsage, Code: "usage", Message: message, Next: next}
}

// classify returns the exit code and the failure code of an error.
func classify(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		if e.Message == err.Error() {
			return e
		}
		return &Error{Exit: e.Exit, Code: e.Code, Message: err.Error(), Next: e.Next, Err: err, shown: e.shown}
	}
	var of *host.Error
	if errors.As(err, &of) {
		return &Error{Exit: exitOf(of.Code), Code: of.Code, Message: err.Error(), Next: of.Next, Err: err}
	}
	var bad *host.RecipeError
	if errors.As(err, &bad) {
		return invalid(bad)
	}
	code := "failed"
	if c := superstep.FailureCode(err); c != superstep.CodeTask { // that is for the tasks of a run
		code = c
	}
	var sealed *runlog.SealedError
	var provider *model.Error
	for _, known := range []struct {
		code string
		is   bool
	}{
		{"inputs", errors.As(err, new(*workflow.InputsError))},
		{"unknown_workflow", errors.As(err, new(*workflow.UnknownError))},
		{"unknown_run", errors.As(err, new(*runlog.NotFoundError))},
		{"ambiguous_run", errors.As(err, new(*superstep.AmbiguousError))},
		{"ended", errors.As(err, new(*runlog.EndedError))},
		{"busy", errors.As(err, new(*runlog.BusyError))},
		{"damaged", errors.As(err, new(*runlog.CorruptError))},
		{superstep.CodeChanged, errors.As(err, new(*graph.ChangedError))},
		{"quarantined", errors.As(err, new(*runlog.QuarantinedError))},
		{"waiting_storage", errors.As(err, new(*runlog.StorageError))},
		{"encrypted", errors.As(err, &sealed)},
		{"store_reset", errors.Is(err, runlog.ErrStoreReset)},
		{"not_signed_in", errors.As(err, &provider) && (provider.Status == http.StatusUnauthorized || provider.Status == http.StatusForbidden)},
		{"interrupted", errors.Is(err, context.Canceled)},
	} {
		if known.is {
			code = known.code
			break
		}
	}
	if code == "encrypted" && sealed.ID == "" {
		return &Error{Exit: ExitUsage, Code: code, Message: err.Error(), Err: err}
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

// remedies returns the commands to type next after an error of a library, which knows nothing of
// commands.
func remedies(a *app, err error) []string {
	var (
		busy   *runlog.BusyError
		poison *runlog.QuarantinedError
		ended  *runlog.EndedError
		sealed *runlog.SealedError
		plain  *seal.UnauthenticatedError
	)
	var imported *superstep.UntrustedError
	var draft *host.DraftError
	switch {
	case classify(err).Code == "no_model":
		return modelWays(a)
	case errors.As(err, &imported):
		return untrustedRun(a, imported.ID).Next
	case errors.As(err, &draft):
		return []string{"look at it: " + a.hint("workflows", "show", draft.Name, "-v"), "use it: " + a.hint("workflows", "approve", draft.Name)}
	case classify(err).Code == "untrusted":
		return []string{"look at it and decide: " + a.hint("trust")}
	case errors.As(err, &busy):
		next := []string{"watch it: " + a.hint("runs", "watch", busy.ID)}
		if left := time.Until(busy.Until); left > 0 {
			next = append(next, fmt.Sprintf("if that process is dead, its hold ends in %s, and then: %s", inwords.Duration(left), a.hint("runs", "resume", busy.ID)))
		}
		return append(next, "stop it for good: "+a.hint("runs", "cancel", busy.ID))
	case errors.As(err, &poison):
		return []string{"go on all the same: " + a.hint("runs", "resume", poison.ID, "--quarantined"), "what it had done: " + a.hint("runs", "show", poison.ID)}
	case errors.As(err, &ended):
		return []string{"what it did: " + a.hint("runs", "show", ended.ID)}
	case errors.As(err, &sealed):
		return []string{"name the key with --store-key-file FILE, or put it into SUPERSTEP_STORE_KEY"}
	case errors.As(err, &plain) && plain.Plain:
		return []string{fmt.Sprintf("without the key: %s runs export %s --file run.jsonl --unredacted; then with it: %s runs import run.jsonl --as ANOTHER-ID",
			a.cfg.Name, plain.ID, a.cfg.Name)}
	}
	return nil
}

// fail prints the error for users or programs, and returns the exit code.
func (a *app) fail(err error) int {
	e := classify(err)
	if next := remedies(a, err); len(e.Next) == 0 && next != nil {
		helpful := *e
		helpful.Next = next
		e = &helpful
	}
	if a.programs() {
		v := struct {
			Error *errorJSON `json:"error"`
		}{e.json()}
		_ = a.err.json(v, false) // cannot fail: it is made of strings
		if a.set.output == "json" && !a.tty.OutTTY && !a.out.used {
			_ = a.out.json(v, false) // a reader of standard output finds JSON there whatever happens
		}
		return e.Exit
	}
	complain(a, e)
	return e.Exit
}

// complain writes an error as one block.
func complain(a *app, e *Error) {
	p := a.tty.Err
	msg := strings.TrimRight(transcript.Clean(e.Message), "\n")
	msg = p.Red("error:") + " " + msg
	var b strings.Builder
	b.WriteString(a.tty.Wrap(msg) + "\n")
	bullet := "•"
	if a.tty.Plain {
		bullet = "-"
	}
	for _, n := range e.Next {
		b.WriteString("  " + bullet + " " + transcript.Clean(n) + "\n")
	}
	_, _ = a.err.Write([]byte(b.String()))
}
