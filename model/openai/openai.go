// Package openai talks to models over OpenAI's chat completions protocol: OpenAI
// itself and the many servers that speak it too, such as Ollama, vLLM, llama.cpp,
// LM Studio and OpenRouter. Only the base URL and the name of the model differ.
package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	api "github.com/sashabaranov/go-openai"

	"github.com/superstep-dev/superstep/model"
)

// Options say which model to use and where. Only Model is required. Nothing is read
// from the environment, except that a nil HTTPClient heeds the usual proxy variables.
type Options struct {
	Model    string // the server's name for the model
	BaseURL  string // up to and without /chat/completions; defaults to https://api.openai.com/v1
	APIKey   string `json:"-"` // "" sends none
	KeyFrom  string // where the user keeps the key, for errors; defaults to the provider's usual variable, OPENAI_API_KEY
	Provider string // the first half of the model's name, also used in errors; defaults to "openai"

	// HTTPClient is copied; its redirect policy only hears of redirects that stay on
	// the host. Defaults to one with http.DefaultTransport.
	HTTPClient *http.Client `json:"-"`

	IdleTimeout time.Duration // the longest silence of the server; defaults to 2 minutes, negative means none
	Timeout     time.Duration // of a turn from start to close, all attempts together; defaults to 10 minutes, negative means none
	MaxBytes    int64         // the largest stream of one attempt; defaults to 64 MiB

	Retries int            // the most attempts; defaults to 4, negative means one
	Backoff time.Duration  // the wait before the second attempt, doubled for each further one; defaults to 500 ms
	MaxWait time.Duration  // the longest wait between attempts; a longer Retry-After ends the turn with an error that holds it; defaults to 1 minute
	Jitter  func() float64 `json:"-"` // spreads waits, in [0, 1); called from several goroutines; defaults to math/rand/v2.Float64

	// Effort is sent as reasoning_effort unless it is "".
	Effort string
	// ReplayReasoning sends the reasoning of earlier turns back as reasoning_content.
	// Some servers need that (DeepSeek, Kimi), some refuse it.
	ReplayReasoning bool
}

// Format prints the options without the key, whatever the verb.
func (o Options) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "openai.Options(%s/%s at %s)", o.Provider, o.Model, o.BaseURL)
}

const (
	defaultBaseURL = "https://api.openai.com/v1"
	maxLine        = 4 << 20 // of one event of a stream
	maxContent     = 8 << 20 // of what one turn says, about two million tokens
	maxErrorBody   = 64 << 10
	maxBackoff     = 8 * time.Second
)

// A Model is one model of one server. It implements [model.Model].
type Model struct {
	opts   Options       // without the key
	key    func() string // a function, since no printer looks inside one
	client *http.Client
}

var _ model.Model = (*Model)(nil)

// New returns the model the options describe. It sends nothing. It fails when the
// options cannot work: no model name, a base URL that is none, a key no header can hold.
func New(o *Options) (*Model, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.fill()
	if opts.Model == "" {
		return nil, fmt.Errorf("%s: no model name; set Options.Model", opts.Provider)
	}
	if err := checkURL(opts.BaseURL); err != nil {
		return nil, fmt.Errorf("%s/%s: %w", opts.Provider, opts.Model, err)
	}
	if strings.ContainsFunc(opts.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("%s/%s: the API key contains spaces, line breaks or characters that are not ASCII; check %s", opts.Provider, opts.Model, opts.KeyFrom)
	}
	key := opts.APIKey
	opts.APIKey = ""
	m := &Model{opts: opts, key: func() string { return key }, client: &http.Client{}}
	if opts.HTTPClient != nil {
		*m.client = *opts.HTTPClient
	}
	m.client.CheckRedirect = sameHost(m.client.CheckRedirect)
	return m, nil
}

func (o *Options) fill() {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&o.IdleTimeout, 2*time.Minute)
	set(&o.Timeout, 10*time.Minute)
	set(&o.Backoff, 500*time.Millisecond)
	set(&o.MaxWait, time.Minute)
	if o.Provider == "" {
		o.Provider = "openai"
	}
	if o.KeyFrom == "" {
		o.KeyFrom = strings.ToUpper(strings.ReplaceAll(o.Provider, "-", "_")) + "_API_KEY"
	}
	if o.BaseURL == "" {
		o.BaseURL = defaultBaseURL
	}
	o.BaseURL = strings.TrimSuffix(strings.TrimRight(o.BaseURL, "/"), "/chat/completions")
	o.APIKey = strings.TrimSpace(o.APIKey)
	if o.MaxBytes <= 0 {
		o.MaxBytes = 64 << 20
	}
	if o.Retries == 0 {
		o.Retries = 4
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
}

func checkURL(base string) error {
	u, err := url.Parse(base)
	if err != nil {
		return errors.New("the base URL cannot be parsed; write it like " + defaultBaseURL)
	}
	switch {
	case u.User != nil:
		return errors.New("the base URL holds a user or password; use the API key instead")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return fmt.Errorf("the base URL %q is not an http or https address; write it like %s", base, defaultBaseURL)
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("the base URL %q must not have a query or fragment", u.Scheme+"://"+u.Host+u.Path)
	}
	return nil
}

// Name returns "provider/model".
func (m *Model) Name() string { return m.opts.Provider + "/" + m.opts.Model }

// Format prints the model's name, whatever the verb.
func (m *Model) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "openai.Model(%s)", m.Name()) }

// Generate streams one turn, as [model.Model] says. Errors are [*model.Error] values.
//
// An attempt that failed in a way that may pass is repeated as long as no part has
// been yielded; tool calls are only yielded when the whole turn has arrived. A usage
// is yielded only when the server counted.
func (m *Model) Generate(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	var ranged atomic.Bool
	return func(yield func(model.Part, error) bool) {
		if ranged.Swap(true) {
			yield(model.Part{}, m.fault(model.CodeRequest, "the stream was ranged over a second time; call Generate again"))
			return
		}
		wire, err := m.encode(req)
		if err != nil {
			yield(model.Part{}, m.fault(model.CodeRequest, err.Error()))
			return
		}
		caller := ctx
		if m.opts.Timeout > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeoutCause(ctx, m.opts.Timeout, errTimeout)
			defer stop()
		}
		t := &turn{request: req, yield: yield}
		for n := 1; ; n++ {
			err := m.attempt(ctx, caller, wire, t)
			if err == nil || errors.Is(err, errStopped) {
				return
			}
			fail := m.classify(err)
			wait, again := time.Duration(0), t.parts == 0
			if again {
				if wait, again = m.nextWait(n, fail); !again && wire.relax(fail) {
					wait, again = 0, n < max(m.opts.Retries, 1)
				}
			}
			if again {
				again = sleep(ctx, wait)
			}
			if !again && caller.Err() != nil {
				fail = m.canceled(caller)
			}
			if !again {
				yield(model.Part{}, fail)
				return
			}
		}
	}
}

// attempt sends the request once and feeds t.
func (m *Model) attempt(ctx, caller context.Context, wire *wireRequest, t *turn) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	post := &post{model: m, wire: wire, key: t.request.Key, watch: newWatchdog(m.opts.IdleTimeout, cancel)}
	defer post.watch.stop()

	config := api.DefaultConfig(m.key())
	config.BaseURL = m.opts.BaseURL
	config.HTTPClient = post
	stream, err := api.NewClientWithConfig(config).CreateChatCompletionStream(ctx, wire.ChatCompletionRequest)
	if err != nil {
		return m.explain(ctx, caller, err, post)
	}
	defer func() { _ = stream.Close() }() // the body's own errors have been seen by then

	t.reset()
	for {
		line, err := stream.RecvRaw()
		if errors.Is(err, io.EOF) {
			return t.finish(post.events.done)
		}
		if err != nil {
			return m.explain(ctx, caller, err, post)
		}
		if err := t.chunk(line); err != nil {
			return err
		}
		if ctx.Err() != nil { // a server that never lets a read block must not outrun it
			return m.explain(ctx, caller, ctx.Err(), post)
		}
	}
}
