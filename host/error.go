package host

import (
	"errors"

	"github.com/superstep-dev/superstep/internal/providers"
)

// An Error describes a mistake in the user's configuration or request. The command line, for
// example, derives its exit code from Code.
type Error struct {
	Code    string   // a stable word for programs: usage, no_model, store, data_dir or invalid
	Message string   // what is wrong, where, and what to do about it
	Next    []string // what to do about it, where there is more to say, one thing each
	Err     error    // the cause, nil for none
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// FailureCode returns the word for the log of a run that fails with the error.
func (e *Error) FailureCode() string { return e.Code }

// NoModel returns the error of a workflow that needs a model when no model is configured. Each
// remedy is one way to provide a model. Without remedies, the program suggests the usual ones.
func NoModel(message string, remedies ...string) *Error {
	return &Error{Code: "no_model", Message: message, Next: remedies}
}

// mistake returns an error that the user has to correct.
func mistake(message string) *Error {
	return &Error{Code: "usage", Message: message}
}

// mistaken is mistake with a cause.
func mistaken(err error, next ...string) *Error {
	return &Error{Code: "usage", Message: err.Error(), Next: next, Err: err}
}

// explain converts an error of package providers to an Error.
func explain(err error) error {
	var e *providers.Error
	if !errors.As(err, &e) {
		return err
	}
	out := NoModel(e.Message, e.Hints...)
	if out.Err = err; e.Usage {
		out.Code = "usage"
	}
	return out
}
