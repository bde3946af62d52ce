package providers

import (
	"fmt"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/anthropic"
	"github.com/superstep-dev/superstep/model/gemini"
	"github.com/superstep-dev/superstep/model/openai"
)

// open creates the model that a connection is for. It sends nothing.
func (c *connection) open() (client, error) {
	switch c.protocol {
	case nameAnthropic:
		o := &anthropic.Options{
			Model: c.model, BaseURL: c.base, APIKey: c.key, KeyFrom: c.keyFrom, Provider: c.provider,
			MaxWait: c.wait, Timeout: c.turn, IdleTimeout: c.turn / 2, HTTPClient: c.client, Price: c.price, Window: c.window, Effort: c.effort,
		}
		if c.output > 0 && c.output < 16384 { // the default of the package is too much for older models
			o.MaxTokens = c.output
		}
		return anthropic.New(o)
	case nameGemini:
		return gemini.New(&gemini.Options{
			Model: c.model, BaseURL: c.base, APIKey: c.key, KeyFrom: c.keyFrom, Provider: c.provider,
			MaxWait: c.wait, Timeout: c.turn, IdleTimeout: c.turn / 2, HTTPClient: c.client, Price: c.price, Window: c.window, Effort: c.effort,
		})
	default:
		return openai.New(&openai.Options{
			Model: c.model, BaseURL: c.base, APIKey: c.key, KeyFrom: c.keyFrom, Provider: c.provider,
			MaxWait: c.wait, Timeout: c.turn, IdleTimeout: c.turn / 2, HTTPClient: c.client, Price: c.price, Window: c.window, ReplayReasoning: c.replay,
			Responses: c.protocol == nameResponses, Effort: c.effort,
		})
	}
}

// client is a model of a provider.
type client interface {
	model.Model
	model.Priced
	model.Sized
	Effort() string
}

// strained is a model under the name that opens it again with its effort.
type strained struct {
	client
	name string
}

func (s strained) Name() string { return s.name }

// Format prints the model's name, whatever the verb.
func (s strained) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "providers.Model(%s)", s.name) }
