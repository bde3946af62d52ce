// Package openai talks to models over OpenAI's protocols: chat completions, which many other
// servers speak too, such as Ollama, vLLM, llama.cpp, LM Studio and OpenRouter, and the Responses
// API, which OpenAI's newer models need. Only the base URL and the name of the model differ.
package openai

import (
	"context"
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
	Model    string // the server's name for the model
	BaseURL  string // up to and without /chat/completions or /responses; defaults to https://api.openai.com/v1
	APIKey   string `json:"-"` // "" sends none
	KeyFrom  string // where the user keeps the key, for errors; defaults to the provider's usual variable, OPENAI_API_KEY
	Provider string // the first half of the model's name, also used in errors; defaults to "openai"

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

	// Responses selects the Responses API in place of chat completions. The server is told to store
	// nothing; it gets its encrypted reasoning back with each turn.
	Responses bool

	// Effort is sent as reasoning_effort or reasoning.effort unless it is "".
	Effort string
	// ReplayReasoning sends the reasoning of earlier turns back as reasoning_content of chat
	// completions. Some servers need that (DeepSeek, Kimi), some refuse it.
	ReplayReasoning bool

	Price  *model.Price // what the model charges; nil when unknown
	Window int          // the tokens a request and its answer can have together; 0 when unknown
}

// Format prints the options without the key, whatever the verb.
func (o Options) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "openai.Options(%s/%s at %s)", o.Provider, o.Model, o.BaseURL)
}

const (
	defaultBaseURL    = "https://api.openai.com/v1"
	endpoint          = "/chat/completions"
	responsesEndpoint = "/responses"
	protocol          = "openai" // in what is opaque
)

// A Model is one model of one server. It implements [model.Model], [model.Priced] and
// [model.Sized].
type Model struct {
	opts Options // without the key
	*client
	// A bit set of relaxations: what the server refused once is left out of later turns. This only
	// saves attempts.
	refused *atomic.Uint32
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
	opts.fill()
	c, err := wire.New(wire.Config{
		Model: opts.Model, Provider: opts.Provider, BaseURL: opts.BaseURL, Example: defaultBaseURL, KeyFrom: opts.KeyFrom,
		Keys:        []wire.Key{{Header: "Authorization", Prefix: "Bearer ", Value: opts.APIKey}},
		HTTPClient:  opts.HTTPClient,
		IdleTimeout: opts.IdleTimeout, Timeout: opts.Timeout, MaxBytes: opts.MaxBytes,
		Retries: opts.Retries, Backoff: opts.Backoff, MaxWait: opts.MaxWait, Jitter: opts.Jitter, Price: opts.Price, Window: opts.Window,
		Effort: opts.Effort,
	})
	if err != nil {
		return nil, err
	}
	opts.APIKey = ""
	return &Model{opts: opts, client: c, refused: &atomic.Uint32{}}, nil
}

func (o *Options) fill() {
	if o.Provider == "" {
		o.Provider = "openai"
	}
	if o.BaseURL == "" {
		o.BaseURL = defaultBaseURL
	}
	o.BaseURL = strings.TrimSuffix(strings.TrimSuffix(strings.TrimRight(o.BaseURL, "/"), endpoint), responsesEndpoint)
}

// Format prints the model's name, whatever the verb.
func (m *Model) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "openai.Model(%s)", m.Name()) }

// Generate streams one turn, as [model.Model] says. Errors are [*model.Error] values.
//
// An attempt that fails with a temporary error is repeated, provided no part has been yielded; tool
// calls, and of responses everything after the first of them, are only yielded when the whole turn
// has arrived. A usage is yielded only when the server counted.
func (m *Model) Generate(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return m.client.Generate(ctx, req, func() (wire.Turn, error) {
		if m.opts.Responses {
			sent, err := m.encodeResponses(req)
			return &responseTurn{responsesRequest: sent, refused: m.refused}, err
		}
		sent, err := m.encode(req)
		return &turn{request: sent}, err
	})
}
