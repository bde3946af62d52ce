// Package wire is the common part of model providers over HTTP. One turn is one POST that is
// answered by a stream of events, within limits, and is retried as long as no part was yielded. A
// provider implements a [Turn], which defines what to send and what the events mean.
//
// It keeps these promises of [model.Model] for all of them: every error is a
// [*model.Error] without the key, whatever the server does ends in bounded time and
// memory, tool calls are yielded only when the turn is whole, and a stream that ends
// without an error has had a stop.
package wire

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/model"
)

const (
	maxLine      = 4 << 20 // of one event of a stream
	maxContent   = 2 << 20 // of what one turn says, about half a million tokens
	maxEmpty     = 50_000  // events on end that add nothing; a model that thinks and shows nothing of it may send one for each token
	mostOdd      = 10      // events on end that are no objects
	maxErrorBody = 64 << 10
	maxBackoff   = 8 * time.Second
)

// A Config describes the model to call and the limits. Model, Provider and BaseURL are required;
// the zero values of the others mean what is written with them.
type Config struct {
	Model    string // the server's name for the model
	Provider string // the first half of the model's name
	BaseURL  string // without a trailing slash
	Example  string // a base URL as it should be, for errors
	KeyFrom  string // where the user keeps the key; defaults to the provider's usual variable, OPENAI_API_KEY
	Keys     []Key  // sent with every request; kept where no printer looks

	HTTPClient *http.Client // copied; defaults to one with http.DefaultTransport

	IdleTimeout time.Duration // the longest time without progress of the answer; defaults to 5 minutes, negative means none
	Timeout     time.Duration // of a turn, all attempts together; defaults to 10 minutes, negative means none
	MaxBytes    int64         // the largest stream of one attempt; defaults to 64 MiB

	Retries int            // the most attempts; defaults to 4, negative means one
	Backoff time.Duration  // before the second attempt, doubled for each further one; defaults to 500 ms
	MaxWait time.Duration  // the longest wait between attempts; defaults to 1 minute
	Jitter  func() float64 // in [0, 1); defaults to math/rand/v2.Float64

	Price  *model.Price // what the model charges; nil when unknown
	Window int          // the tokens a request and its answer can have together; 0 when unknown
	Effort string       // how much the model puts into its answers, in the words of the provider; "" for the default

	// Refine, if non-nil, is called with every error from an unsuccessful status and its (bounded)
	// body. It may add a code or a RetryAfter from the body. The text of the error is clean already
	// and stays so only if Refine adds none of the server's.
	Refine func(e *model.Error, body []byte)
}

// A Key is a secret that goes into a header of every request. One without a value is left out.
type Key struct {
	Header string // such as "Authorization"
	Prefix string // such as "Bearer "
	Value  string
}

// Format prints the header, whatever the verb.
func (k Key) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "wire.Key(%s)", k.Header) }

// A Client asks one model of one server.
type Client struct {
	config Config       // without the keys
	keys   func() []Key // a function, since no printer looks inside one
	http   *http.Client
}

// New returns a client. It sends nothing. It fails when the configuration cannot work:
// no model name, a base URL that is none, a key no header can hold.
func New(c Config) (*Client, error) {
	c.fill()
	if c.Model == "" {
		return nil, fmt.Errorf("%s: no model name; set Options.Model", c.Provider)
	}
	name := c.Provider + "/" + c.Model
	if err := c.checkURL(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var keys []Key
	for _, k := range c.Keys {
		k.Value = strings.TrimSpace(k.Value)
		if strings.ContainsFunc(k.Value, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, fmt.Errorf("%s: the API key contains spaces, line breaks or characters that are not ASCII; check %s", name, c.KeyFrom)
		}
		if k.Value != "" {
			keys = append(keys, k)
		}
	}
	c.Keys = nil
	if c.Price != nil {
		price := *c.Price
		c.Price = &price
	}
	client := &Client{keys: func() []Key { return keys }, http: &http.Client{}}
	if c.HTTPClient != nil {
		*client.http = *c.HTTPClient
	}
	client.http.CheckRedirect = sameHost(client.http.CheckRedirect)
	client.config = c
	return client, nil
}

func (c *Config) fill() {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.IdleTimeout, 5*time.Minute)
	set(&c.Timeout, 10*time.Minute)
	set(&c.Backoff, 500*time.Millisecond)
	set(&c.MaxWait, time.Minute)
	if c.KeyFrom == "" {
		c.KeyFrom = strings.ToUpper(strings.ReplaceAll(c.Provider, "-", "_")) + "_API_KEY"
	}
	if c.Example == "" {
		c.Example = "https://api.example.com/v1"
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = 64 << 20
	}
	if c.Retries == 0 {
		c.Retries = 4
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
}

func (c *Config) checkURL() error {
	u, err := url.Parse(c.BaseURL)
	if err != nil {
		return errors.New("the base URL cannot be parsed; write it like " + c.Example)
	}
	switch {
	case u.User != nil:
		return errors.New("the base URL holds a user or password; use the API key instead")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return fmt.Errorf("the base URL %q is not an http or https address; write it like %s", c.BaseURL, c.Example)
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("the base URL %q must not have a query or fragment", u.Scheme+"://"+u.Host+u.Path)
	}
	return nil
}

// Name returns "provider/model".
func (c *Client) Name() string { return c.config.Provider + "/" + c.config.Model }

// Price implements [model.Priced].
func (c *Client) Price() (p model.Price, known bool) {
	if c.config.Price == nil {
		return model.Price{}, false
	}
	return *c.config.Price, true
}

// Window implements [model.Sized].
func (c *Client) Window() (tokens int, known bool) { return c.config.Window, c.config.Window > 0 }

// Effort returns how much the model puts into its answers, "" for the default. Runs record it.
func (c *Client) Effort() string { return c.config.Effort }

// Format prints the model's name, whatever the verb.
func (c *Client) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "wire.Client(%s)", c.Name()) }
