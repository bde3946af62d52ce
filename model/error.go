package model

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// Codes of errors that did not come from the provider as such.
const (
	CodeRequest   = "request"   // the request cannot be expressed or breaks the contract; nothing was sent
	CodeConnect   = "connect"   // the server could not be reached
	CodeCanceled  = "canceled"  // the caller's context ended
	CodeTimeout   = "timeout"   // the turn took too long from start to close
	CodeIdle      = "idle"      // the server was silent for too long
	CodeTruncated = "truncated" // the stream broke off, or ended without saying why the model stopped
	CodeMalformed = "malformed" // the answer is not what the protocol promises
	CodeTooLarge  = "too_large" // the answer is larger than the limits allow
	CodeCutCall   = "cut_call"  // the token limit or a filter ended the turn among its tool calls
	CodeBadCall   = "bad_call"  // the model made a tool call that cannot be read; asked in the same way, it may do so again
)

// An Error explains why a model did not answer. Every error of a provider's stream is one, or wraps
// one. It never holds the API key.
type Error struct {
	Provider string // as in the model's name
	Model    string // the provider's name for the model
	URL      string // where the request was sent, without query
	KeyFrom  string // where the user keeps the API key, such as "OPENAI_API_KEY"; "" when unknown
	Status   int    // the HTTP status, or the one an error event gave; 0 for none
	Code     string // the provider's code, or one of the Code constants
	// RetryAfter is how long the provider asked to wait, counted from when the error
	// was made; 0 when it did not say.
	RetryAfter time.Duration
	// Temporary is set if the same request may succeed later.
	Temporary bool
	Err       error // the cause; never nil in errors a provider makes
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Error names the model, says what happened and what to do about it.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Provider + "/" + e.Model + ": ")
	if e.Status != 0 {
		fmt.Fprintf(&b, "%s (%d)", statusText(e.Status), e.Status)
		if e.URL != "" {
			b.WriteString(" from " + e.URL)
		}
		if e.Err != nil {
			b.WriteString(": ")
		}
	} else if e.Code == CodeConnect {
		b.WriteString("cannot reach " + e.URL + ": ")
	}
	if e.Err != nil {
		b.WriteString(e.Err.Error())
	}
	if r := e.remedy(); r != "" {
		b.WriteString("; " + r)
	}
	return b.String()
}

func statusText(status int) string {
	switch {
	case status == 529:
		return "overloaded"
	case http.StatusText(status) != "":
		return strings.ToLower(http.StatusText(status))
	default:
		return "unexpected status"
	}
}

func (e *Error) remedy() string {
	switch e.Code {
	case "insufficient_quota":
		return "check the plan and the billing of the account"
	case "context_length_exceeded":
		return "shorten the conversation or choose a model with a larger context"
	case CodeConnect:
		return e.connectRemedy()
	case CodeIdle, CodeTruncated:
		return "try again"
	}
	switch {
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		if e.KeyFrom != "" {
			return "check the API key in " + e.KeyFrom + " and what it may access"
		}
		return "check the API key and what it may access"
	case e.Status == http.StatusPaymentRequired:
		return "check the plan and the billing of the account"
	case e.Status == http.StatusNotFound:
		return fmt.Sprintf("check the model name %q and the base URL", e.Model)
	case e.Status == http.StatusTooManyRequests && e.RetryAfter > 0:
		return "retry after " + e.RetryAfter.Round(time.Second/10).String()
	case e.Status == http.StatusTooManyRequests:
		return "retry later or ask for a higher rate limit"
	case e.Status == http.StatusRequestEntityTooLarge:
		return "shorten the conversation"
	case e.Status >= 500 && e.Temporary:
		return "the server has a problem, try again later"
	}
	return ""
}

func (e *Error) connectRemedy() string {
	var dns *net.DNSError
	switch {
	case errors.Is(e.Err, syscall.ECONNREFUSED):
		return "is the server running?"
	case errors.As(e.Err, &dns):
		return "check the host in the base URL and the network"
	case errors.Is(e.Err, context.DeadlineExceeded):
		return "check the network, or raise the timeout"
	default:
		return "check the base URL and the network"
	}
}

// FailureCode returns the stable word under which a run that fails with the error is logged,
// "" for no special one.
func (e *Error) FailureCode() string {
	if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
		return "not_signed_in"
	}
	return ""
}
