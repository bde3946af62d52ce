// Package gemini talks to Google's models over the Gemini API: one POST to
// models/NAME:streamGenerateContent, answered by a stream of events.
//
// The thought signature of a part is kept in the part's Opaque and sent back with the same part in
// later turns. Without it, newer models refuse the calls of an unfinished turn.
package gemini

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/wire"
)

// Options say which model to use and where. Only Model is required. Nothing is read
// from the environment, except that a nil HTTPClient heeds the usual proxy variables.
type Options struct {
	Model    string // the service's name for the model, such as "gemini-2.5-flash"
	BaseURL  string // up to and without /models; defaults to https://generativelanguage.googleapis.com/v1beta
	APIKey   string `json:"-"` // sent in the header x-goog-api-key, never in the address; "" sends none
	KeyFrom  string // where the user keeps the key, for errors; defaults to the provider's usual variable, GEMINI_API_KEY
	Provider string // the first half of the model's name, also used in errors; defaults to "gemini"

	// HTTPClient is copied; its redirect policy only hears of redirects that stay on
	// the host. Defaults to one with http.DefaultTransport.
	HTTPClient *http.Client `json:"-"`

	// the longest time without progress: text, reasoning, a piece of a call, a count of tokens that grows; defaults to 5 minutes, negative means none
	IdleTimeout time.Duration
	Timeout     time.Duration // of a turn from start to close, all attempts together; defaults to 10 minutes, negative means none
	MaxBytes    int64         // the largest stream of one attempt; defaults to 64 MiB

	Retries int           // the most attempts; defaults to 4, negative means one
	Backoff time.Duration // the wait before the second attempt, doubled for each further one; defaults to 500 ms
	// the longest wait between attempts; a longer wait that the server asks for ends the turn with an error that holds it; defaults to 1 minute
	MaxWait time.Duration
	Jitter  func() float64 `json:"-"` // spreads waits, in [0, 1); called from several goroutines; defaults to math/rand/v2.Float64

	// Thinking is how many tokens the model may think: 0 leaves it to the model, negative turns
	// it off where the model allows that.
	Thinking int
	// Effort is the thinking level of newer models, in the service's words, such as "low" or
	// "high". If it is not "", it is sent and Thinking must be 0.
	Effort string

	Price  *model.Price // what the model charges; nil when it is not known
	Window int          // the tokens of a request and its answer together; 0 when it is not known
}

// Format prints the options without the key, whatever the verb.
func (o Options) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "gemini.Options(%s/%s at %s)", o.Provider, o.Model, o.BaseURL)
}

const (
	defaultBaseURL = "https://generativelanguage.googleapis.com/v1beta"
	protocol       = "gemini" // in what is opaque
)

// A Model is one model of the service. It implements [model.Model].
type Model struct {
	opts Options // without the key
	*client
	// A bit set of relaxations: what the server refused once is left out of later turns. This only
	// saves attempts.
	refused atomic.Uint32
}

// A client has the methods of a model that all protocols share.
type client = wire.Client

var (
	_ model.Model  = (*Model)(nil)
	_ model.Priced = (*Model)(nil)
	_ model.Sized  = (*Model)(nil)
)

// New returns the model the options describe. It sends nothing. It fails when the
// options cannot work: no model name, a base URL that is none, a key no header can hold.
func New(o *Options) (*Model, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Provider == "" {
		opts.Provider = "gemini"
	}
	if opts.BaseURL == "" {
		opts.BaseURL = defaultBaseURL
	}
	opts.BaseURL = strings.TrimSuffix(strings.TrimRight(opts.BaseURL, "/"), "/models")
	opts.Model = strings.TrimPrefix(opts.Model, "models/")
	if strings.ContainsAny(opts.Model, "?#:%\\ ") || strings.Contains(opts.Model, "..") {
		return nil, fmt.Errorf("%s: the model name %q cannot be part of an address; it is a name such as gemini-2.5-flash", opts.Provider, wire.Clip(opts.Model, 80))
	}
	if opts.Thinking != 0 && opts.Effort != "" {
		return nil, fmt.Errorf("%s/%s: Thinking and Effort exclude each other; set one of them", opts.Provider, opts.Model)
	}
	c, err := wire.New(wire.Config{
		Model: opts.Model, Provider: opts.Provider, BaseURL: opts.BaseURL, Example: defaultBaseURL, KeyFrom: opts.KeyFrom,
		Keys: []wire.Key{{Header: "x-goog-api-key", Value: opts.APIKey}}, HTTPClient: opts.HTTPClient,
		IdleTimeout: opts.IdleTimeout, Timeout: opts.Timeout, MaxBytes: opts.MaxBytes,
		Retries: opts.Retries, Backoff: opts.Backoff, MaxWait: opts.MaxWait, Jitter: opts.Jitter, Price: opts.Price, Window: opts.Window,
		Effort: opts.Effort,
		Refine: refine,
	})
	if err != nil {
		return nil, err
	}
	opts.APIKey = ""
	return &Model{opts: opts, client: c}, nil
}

// Format prints the model's name, whatever the verb.
func (m *Model) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "gemini.Model(%s)", m.Name()) }

// Generate streams one turn, as [model.Model] says. Errors are [*model.Error] values.
//
// An attempt that fails with a temporary error is repeated, provided no part has been yielded; tool
// calls, and everything after the first of them, are only yielded when the whole turn has arrived.
func (m *Model) Generate(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return m.client.Generate(ctx, req, func() (wire.Turn, error) {
		t := &turn{model: m, request: req, without: relaxation(m.refused.Load())}
		if err := t.check(); err != nil {
			return nil, err
		}
		return t, nil
	})
}

// check writes the request down, or finds out why it cannot be expressed.
func (t *turn) check() (err error) {
	if len(t.request.Messages) == 0 {
		return errors.New("the request has no messages")
	}
	t.body, err = t.encode()
	return err
}
