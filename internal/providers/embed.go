package providers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// EmbeddingsVariable names the model that embeds texts, such as ollama/nomic-embed-text.
const EmbeddingsVariable = "SUPERSTEP_EMBEDDINGS"

const (
	embedTime = 10 * time.Second
	maxVector = 64 << 20 // bytes of an answer
)

// An Embed returns a vector for each text.
type Embed func(ctx context.Context, texts []string) ([][]float32, error)

// Embedder returns what embeds texts with the model that SUPERSTEP_EMBEDDINGS names, or nil if that is not set. The server must
// speak the protocol of OpenAI and be on this machine: the texts are the user's documents. It sends nothing until it is called.
func (p *Providers) Embedder() (Embed, error) {
	name := strings.TrimSpace(p.opt.Env(EmbeddingsVariable))
	if name == "" {
		return nil, nil
	}
	e, rest := p.find(name)
	if e == nil {
		return nil, p.unknown(name)
	}
	c, err := p.connection(e, rest)
	if err != nil {
		return nil, err
	}
	if c.protocol != nameOpenAI && c.protocol != nameResponses || !loopback(c.base) || remote(e, rest) {
		return nil, &Error{Name: name, Hints: p.local(),
			Message: shorten(name) + " is not a server on this machine, and " + EmbeddingsVariable + " may name no other"}
	}
	return c.embed, nil
}

func (c *connection) embed(ctx context.Context, texts []string) ([][]float32, error) {
	ctx, stop := context.WithTimeout(ctx, embedTime)
	defer stop()
	body, err := json.Marshal(map[string]any{"model": c.model, "input": texts})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(c.base, "/")+"/embeddings", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		why := whyNot(err)
		if errors.Is(err, context.DeadlineExceeded) {
			why = "no answer in time"
		}
		return nil, fmt.Errorf("embeddings of %s/%s: %s at %s", c.provider, c.model, why, host(c.base))
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxVector))
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("embeddings of %s/%s: %s answers %s: %s", c.provider, c.model, host(c.base), resp.Status, shorten(string(b)))
	}
	var answer struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	out := make([][]float32, len(texts))
	err = json.Unmarshal(b, &answer)
	for _, d := range answer.Data {
		if d.Index >= 0 && d.Index < len(out) {
			out[d.Index] = d.Embedding
		}
	}
	for _, v := range out {
		if err != nil || len(v) == 0 || len(v) != len(out[0]) {
			return nil, fmt.Errorf("embeddings of %s/%s: the answer of %s is not one vector for each text", c.provider, c.model, host(c.base))
		}
	}
	return out, nil
}
