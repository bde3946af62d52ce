package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/superstep-dev/superstep/model"
)

var (
	errIdle     = errors.New("idle")
	errTimeout  = errors.New("timeout")
	errTooLarge = errors.New("too large")
)

// Errors of a [Turn]. Anything else is taken for an error of the connection.

// Malformed is an error about an answer that violates the protocol. It is temporary.
type Malformed string

func (e Malformed) Error() string { return string(e) }

// ErrUnfinished is wrapped by the error of a turn whose stream ended without saying why the
// model stopped.
var ErrUnfinished = errors.New("the stream ended before the model was done")

// BadCall is an error about a mistake of the model, not of the server. The request is not repeated:
// the caller must tell the model.
type BadCall string

func (e BadCall) Error() string { return string(e) }

// A cutCallError reports that a turn ended among its tool calls.
type cutCallError string

func (e cutCallError) Error() string { return string(e) }

func (c *Client) newError(p *Problem) *model.Error {
	return &model.Error{
		Provider: c.config.Provider, Model: c.config.Model, URL: c.config.BaseURL, KeyFrom: c.config.KeyFrom,
		Code: c.clean(p.Code), RetryAfter: p.RetryAfter, Err: errors.New(c.clean(p.Text)),
	}
}

// fault returns an error that the server did not cause.
func (c *Client) fault(code, text string) *model.Error {
	return c.newError(&Problem{Code: code, Text: text})
}

// explain returns why an attempt failed: by its contexts if they ended, or by err.
func (c *Client) explain(ctx, caller context.Context, err error, x *exchange) *model.Error {
	var known *model.Error
	switch {
	case errors.As(err, &known):
		return known
	case caller.Err() != nil:
		return c.canceled(caller)
	case errors.Is(context.Cause(ctx), errIdle):
		e := c.fault(model.CodeIdle, fmt.Sprintf("the answer made no progress for %s (bytes that add nothing to it do not count)", c.config.IdleTimeout))
		e.Temporary = true
		return e
	case errors.Is(context.Cause(ctx), errTimeout):
		e := c.fault(model.CodeTimeout, fmt.Sprintf("the turn was not done after %s, the limit of a turn; raise it (--turn-timeout) or ask for less",
			c.config.Timeout))
		e.Temporary = true
		return e
	case errors.Is(err, errTooLarge):
		return c.tooLarge(err)
	case !x.sent:
		return c.fault(model.CodeRequest, err.Error())
	case x.events == nil:
		return c.unreachable(err)
	}
	return c.classify(err)
}

func (c *Client) canceled(caller context.Context) *model.Error {
	e := c.fault(model.CodeCanceled, "")
	e.Err = caller.Err()
	if cause := context.Cause(caller); !errors.Is(e.Err, cause) {
		e.Err = fmt.Errorf("%w: %w", e.Err, cause)
	}
	return e
}

func (c *Client) tooLarge(err error) *model.Error {
	return c.fault(model.CodeTooLarge, strings.TrimPrefix(err.Error(), errTooLarge.Error()+": "))
}

// classify turns the errors of a turn into errors of the model. Unknown errors are attributed to
// the connection.
func (c *Client) classify(err error) *model.Error {
	var known *model.Error
	var malformed Malformed
	var cut cutCallError
	var bad BadCall
	var event *Problem
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &cut):
		return c.fault(model.CodeCutCall, cut.Error())
	case errors.As(err, &bad):
		return c.fault(model.CodeBadCall, bad.Error())
	case errors.As(err, &event):
		return c.eventError(event)
	case errors.As(err, &malformed):
		e := c.fault(model.CodeMalformed, malformed.Error())
		e.Temporary = true
		return e
	case errors.Is(err, errTooLarge):
		return c.tooLarge(err)
	}
	e := c.fault(model.CodeTruncated, "")
	e.Temporary = true
	e.Err = fmt.Errorf("the stream broke off: %w", err)
	if errors.Is(err, ErrUnfinished) {
		e.Err = err
	}
	return e
}

// unreachable describes a failure to get any response.
func (c *Client) unreachable(err error) *model.Error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	e := c.fault(model.CodeConnect, "")
	e.Err = err
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	e.Temporary = !(errors.As(err, &dns) && dns.IsNotFound) && !errors.As(err, &cert) && !errors.As(err, &plain)
	return e
}

// statusError describes a response that is not a success.
func (c *Client) statusError(resp *http.Response, body []byte) *model.Error {
	e := c.newError(ReadProblem(body))
	e.Status = resp.StatusCode
	if e.RetryAfter = retryAfter(resp.Header, time.Now()); e.RetryAfter == 0 && e.Status == http.StatusTooManyRequests {
		e.RetryAfter = limitReset(resp.Header, time.Now())
	}
	e.Temporary = temporaryStatus(e.Status) && e.Code != "insufficient_quota"
	if to := resp.Header.Get("Location"); to != "" && e.Status >= 300 && e.Status < 400 {
		if u, err := resp.Request.URL.Parse(to); err == nil {
			e.Err = fmt.Errorf("a redirect to %s, which is not followed because the key would go along; correct the base URL", c.clean(u.Scheme+"://"+u.Host+u.Path))
		}
	}
	overflow(e)
	if c.config.Refine != nil {
		c.config.Refine(e, body)
	}
	return e
}

func (c *Client) eventError(p *Problem) *model.Error {
	e := c.newError(p)
	e.Status = p.Status
	defer overflow(e)
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

// clean makes text of a server fit for an error: one line, short, and without the keys.
func (c *Client) clean(s string) string {
	for _, k := range c.keys() {
		if len(k.Value) >= 4 { // shorter ones are placeholders
			s = strings.ReplaceAll(s, k.Value, "[API key]")
		}
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
	return Clip(strings.Join(strings.Fields(s), " "), 500)
}

// Clip shortens s to about n bytes, for errors.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
