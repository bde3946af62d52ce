package openai

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/superstep-dev/superstep/model"
)

var (
	errStopped  = errors.New("the reader broke off")
	errIdle     = errors.New("idle")
	errTimeout  = errors.New("timeout")
	errTooLarge = errors.New("too large")
)

// A malformedError says what in an answer is not the protocol.
type malformedError string

func (e malformedError) Error() string { return string(e) }

func (m *Model) newError(p problem) *model.Error {
	return &model.Error{
		Provider: m.opts.Provider, Model: m.opts.Model, URL: m.opts.BaseURL, KeyFrom: m.opts.KeyFrom,
		Code: p.code, Err: errors.New(m.clean(p.text)),
	}
}

// fault is an error that is not the server's.
func (m *Model) fault(code, text string) *model.Error {
	return m.newError(problem{code: code, text: text})
}

func (m *Model) malformed(text string) *model.Error { return m.fault(model.CodeMalformed, text) }

// explain says why an attempt failed: by its contexts if they ended, or by err.
func (m *Model) explain(ctx, caller context.Context, err error, p *post) *model.Error {
	var known *model.Error
	switch {
	case errors.As(err, &known):
		return known
	case caller.Err() != nil:
		return m.canceled(caller)
	case errors.Is(context.Cause(ctx), errIdle):
		e := m.fault(model.CodeIdle, fmt.Sprintf("the server sent nothing for %s", m.opts.IdleTimeout))
		e.Temporary = true
		return e
	case errors.Is(context.Cause(ctx), errTimeout):
		e := m.fault(model.CodeTimeout, fmt.Sprintf("the turn was not done after %s; raise the timeout or ask for less", m.opts.Timeout))
		e.Temporary = true
		return e
	case errors.Is(err, errTooLarge):
		return m.fault(model.CodeTooLarge, strings.TrimPrefix(err.Error(), errTooLarge.Error()+": "))
	case !p.sent:
		return m.fault(model.CodeRequest, err.Error())
	case p.events == nil:
		return m.unreachable(err)
	}
	return m.classify(err)
}

func (m *Model) canceled(caller context.Context) *model.Error {
	e := m.fault(model.CodeCanceled, "")
	e.Err = caller.Err()
	if cause := context.Cause(caller); !errors.Is(e.Err, cause) {
		e.Err = fmt.Errorf("%w: %w", e.Err, cause)
	}
	return e
}

// classify turns the errors of a turn into errors of the model. What it does not know
// is the connection's.
func (m *Model) classify(err error) *model.Error {
	var known *model.Error
	var malformed malformedError
	var cut cutCallError
	var event eventError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &cut):
		return m.fault(model.CodeCutCall, cut.Error())
	case errors.As(err, &event):
		return m.eventError(event)
	case errors.As(err, &malformed):
		e := m.malformed(malformed.Error())
		e.Temporary = true
		return e
	case errors.Is(err, errTooLarge):
		return m.fault(model.CodeTooLarge, strings.TrimPrefix(err.Error(), errTooLarge.Error()+": "))
	}
	e := m.fault(model.CodeTruncated, "")
	e.Temporary = true
	e.Err = fmt.Errorf("the stream broke off: %w", err)
	if errors.Is(err, errNoFinish) {
		e.Err = err
	}
	return e
}

// unreachable describes a failure to get any response.
func (m *Model) unreachable(err error) *model.Error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	e := m.fault(model.CodeConnect, "")
	e.Err = err
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	e.Temporary = !(errors.As(err, &dns) && dns.IsNotFound) && !errors.As(err, &cert) && !errors.As(err, &plain)
	return e
}

// An eventError is an error the server sent in place of the rest of the stream.
type eventError problem

func (e eventError) Error() string { return e.text }

func (m *Model) eventError(event eventError) *model.Error {
	e := m.newError(problem(event))
	e.Status = event.status
	if e.Status != 0 {
		e.Temporary = temporaryStatus(e.Status) && e.Code != "insufficient_quota"
		return e
	}
	e.Temporary = true
	for _, lasting := range []string{"invalid", "quota", "context_length", "not_found", "auth", "permission", "unsupported"} {
		if strings.Contains(strings.ToLower(e.Code), lasting) {
			e.Temporary = false
		}
	}
	return e
}

func temporaryStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return status >= 500
}

// retryAfter reads how long to wait, in any of the three forms in use. It is 0 when the
// server does not say, or says something that is none of them.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return bounded(ms / 1000)
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(value, 64); err == nil && s > 0 {
		return bounded(s)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(bounded(at.Sub(now).Seconds()), 0)
	}
	return 0
}

// bounded keeps nonsense from overflowing: nobody is asked to wait longer than a year.
func bounded(seconds float64) time.Duration {
	const year = 365 * 24 * 3600
	return time.Duration(min(seconds, year) * float64(time.Second))
}

// A problem is what a server says about a failure.
type problem struct {
	code, text string
	status     int
}

// readProblem reads the body of an error. Servers agree on little: an object with an
// error that is an object or a string, a message or a detail, a list of such objects,
// or plain text.
func readProblem(body []byte) problem {
	p := problem{}
	p.read(body, 0)
	if p.text == "" {
		p.text = strings.TrimSpace(string(body))
	}
	if p.text == "" {
		p.text = "the server gave no reason"
	}
	return p
}

func (p *problem) read(raw json.RawMessage, depth int) {
	var text string
	var list []json.RawMessage
	fields := map[string]json.RawMessage{}
	switch {
	case depth > 4 || len(raw) == 0:
		return
	case json.Unmarshal(raw, &text) == nil:
		p.text = text
		return
	case json.Unmarshal(raw, &list) == nil:
		if len(list) > 0 {
			p.read(list[0], depth+1)
		}
		return
	case json.Unmarshal(raw, &fields) != nil:
		return
	}
	for _, name := range []string{"type", "status", "code"} { // the last one that is there wins
		var number int
		if json.Unmarshal(fields[name], &text) == nil && text != "" {
			p.code = text
		} else if json.Unmarshal(fields[name], &number) == nil && number >= 400 && number < 600 {
			p.status = number
		}
	}
	for _, name := range []string{"detail", "message", "error"} {
		if fields[name] != nil && string(fields[name]) != "null" {
			p.read(fields[name], depth+1)
		}
	}
}

// clean makes text of a server fit for an error: one line, short, and without the key.
func (m *Model) clean(s string) string {
	if key := m.key(); len(key) >= 4 { // shorter ones are placeholders
		s = strings.ReplaceAll(s, key, "[API key]")
	}
	s = strings.ToValidUTF8(s, "?")
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	return clip(strings.Join(strings.Fields(s), " "), 500)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
