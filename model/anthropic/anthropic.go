// Package anthropic talks to Claude models over Anthropic's Messages API, and to the
// servers and gateways that speak it too. Only the base URL and the name of the model differ.
//
// The model's reasoning is kept with its signature in [model.Part.Opaque] and sent back in later
// turns. The tools, the system prompt and the last two turns of the user are marked for the
// provider's cache.
package anthropic

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/wire"
)

// Adaptive is the value of [Options.Thinking] that lets the model decide how much it thinks.
const Adaptive = -1

// Options say which model to use and where. Only Model is required. Nothing is read
// from the environment, except that a nil HTTPClient heeds the usual proxy variables.
type Options struct {
	Model     string // the server's name for the model
	BaseURL   string // up to and without /v1/messages; defaults to https://api.anthropic.com
	APIKey    string `json:"-"` // sent as x-api-key; "" sends none
	AuthToken string `json:"-"` // sent as a bearer token, as gateways want it; "" sends none
	KeyFrom   string // where the user keeps the key, for errors; defaults to the provider's usual variable, ANTHROPIC_API_KEY
	Provider  string // the first half of the model's name, also used in errors; defaults to "anthropic"

	// HTTPClient is copied; its redirect policy only hears of redirects that stay on
	// the host. Defaults to one with http.DefaultTransport.
	HTTPClient *http.Client `json:"-"`

	// the longest time without progress: text, reasoning, a piece of a call, a count of tokens that grows; defaults to 5 minutes, negative means none
	IdleTimeout time.Duration
	Timeout     time.Duration // of a turn from start to close, all attempts together; defaults to 10 minutes, negative means none
	MaxBytes    int64         // the largest stream of one attempt; defaults to 64 MiB

	Retries int            // the most attempts; defaults to 4, negative means one
	Backoff time.Duration  // the wait before the second attempt, doubled for each further one; defaults to 500 ms
	MaxWait time.Duration  // the longest wait between attempts; a longer Retry-After ends the turn with an error that holds it; defaults to 1 minute
	Jitter  func() float64 `json:"-"` // spreads waits, in [0, 1); called from several goroutines; defaults to math/rand/v2.Float64

	// MaxTokens limits the output of requests that set no limit; the protocol requires one.
	// Defaults to 32000, and a Thinking budget is added to it; a model that has less says so, and
	// is asked for that.
	MaxTokens int
	// If the model rejects Thinking or Effort, the turn is sent again without them. That costs a
	// request in every turn, so set only what the model supports.
	//
	// Thinking is how many tokens the model may think before it answers, at least 1024, for
	// models up to Claude 4.6. Later ones decide that themselves: [Adaptive]. 0 asks for
	// nothing. A turn that thinks has no temperature, and a turn that must call a tool does not
	// think: the protocol has neither.
	Thinking int
	// Effort is how much the model puts into its answer: "low", "medium", "high" and what
	// else the model knows. "" asks for nothing.
	Effort string
	// Beta names features that are sent as anthropic-beta.
	Beta []string
	// NoCache sends no marks for the provider's cache. Writing to it costs a quarter more than
	// reading what is not in it, and reading from it a tenth.
	NoCache bool

	Price  *model.Price // what the model charges; nil when unknown
	Window int          // the tokens a request and its answer can have together; 0 when unknown
}

// Format prints the options without the keys, whatever the verb.
func (o Options) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "anthropic.Options(%s/%s at %s)", o.Provider, o.Model, o.BaseURL)
}

const (
	defaultBaseURL   = "https://api.anthropic.com"
	defaultMaxTokens = 32000
	minThinking      = 1024 // the protocol's
	endpoint         = "/v1/messages"
	version          = "2023-06-01"
)

// A Model is one model of one server. It implements [model.Model], [model.Priced] and
// [model.Sized].
type Model struct {
	opts Options // without the keys
	*client
}

// A client has the methods of a model that all protocols share.
type client = wire.Client

var (
	_ model.Model  = (*Model)(nil)
	_ model.Priced = (*Model)(nil)
	_ model.Sized  = (*Model)(nil)
)

// New returns the model the options describe. It sends nothing. It fails when the
// options cannot work: no model name, a base URL that is none, a key no header can hold, a
// budget that is too small.
func New(o *Options) (*Model, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.fill()
	c, err := wire.New(wire.Config{
		Model: opts.Model, Provider: opts.Provider, BaseURL: opts.BaseURL, Example: defaultBaseURL, KeyFrom: opts.KeyFrom,
		Keys: []wire.Key{
			{Header: "X-Api-Key", Value: opts.APIKey},
			{Header: "Authorization", Prefix: "Bearer ", Value: opts.AuthToken},
		},
		HTTPClient:  opts.HTTPClient,
		IdleTimeout: opts.IdleTimeout, Timeout: opts.Timeout, MaxBytes: opts.MaxBytes,
		Retries: opts.Retries, Backoff: opts.Backoff, MaxWait: opts.MaxWait, Jitter: opts.Jitter, Price: opts.Price, Window: opts.Window,
		Effort: opts.Effort,
		Refine: refine,
	})
	if err != nil {
		return nil, err
	}
	if opts.Thinking != Adaptive && opts.Thinking != 0 && opts.Thinking < minThinking {
		return nil, fmt.Errorf("%s: a thinking budget of %d tokens; set at least %d, or Adaptive to leave it to the model", c.Name(), opts.Thinking, minThinking)
	}
	opts.APIKey, opts.AuthToken = "", ""
	return &Model{opts: opts, client: c}, nil
}

func (o *Options) fill() {
	if o.Provider == "" {
		o.Provider = "anthropic"
	}
	if o.BaseURL == "" {
		o.BaseURL = defaultBaseURL
	}
	o.BaseURL = strings.TrimRight(o.BaseURL, "/")
	o.BaseURL = strings.TrimSuffix(o.BaseURL, "/messages")
	o.BaseURL = strings.TrimRight(strings.TrimSuffix(o.BaseURL, "/v1"), "/")
	if o.MaxTokens <= 0 {
		o.MaxTokens = defaultMaxTokens
	}
	o.Beta = append([]string(nil), o.Beta...)
}

// Format prints the model's name, whatever the verb.
func (m *Model) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "anthropic.Model(%s)", m.Name()) }

// Generate streams one turn, as [model.Model] says. Errors are [*model.Error] values.
//
// An attempt that fails with a temporary error is repeated, provided no part has been yielded; tool
// calls are only yielded when the whole turn has arrived. A usage is yielded only when the server
// counted.
func (m *Model) Generate(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return m.client.Generate(ctx, req, func() (wire.Turn, error) {
		sent, err := m.encode(req)
		return &turn{request: sent}, err
	})
}

// refine gives a code to an error that the server tells apart by its text only.
func refine(e *model.Error, _ []byte) {
	if e.Status != http.StatusBadRequest {
		return
	}
	if strings.Contains(e.Err.Error(), "credit balance is too low") {
		e.Code = "insufficient_quota"
	}
}
