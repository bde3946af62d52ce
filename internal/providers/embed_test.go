package providers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/providers"
)

// embeddings is a server that answers with a vector for each text, in another order than that of the texts.
func embeddings(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Model string
			Input []string
		}
		if r.URL.Path != "/v1/embeddings" || json.NewDecoder(r.Body).Decode(&in) != nil || in.Model != "nomic-embed-text" {
			http.Error(w, `{"error":"model not found, try pulling it first"}`, http.StatusNotFound)
			return
		}
		var data []string
		for i, text := range in.Input {
			if text != "lost" {
				data = append(data, fmt.Sprintf(`{"index":%d,"embedding":[%d,1]}`, i, len(text)))
			}
		}
		slices.Reverse(data)
		fmt.Fprintf(w, `{"object":"list","data":[%s]}`, strings.Join(data, ","))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

func TestEmbed(t *testing.T) {
	t.Parallel()
	at := embeddings(t)
	for _, c := range []struct {
		name, model, base, text, want string
	}{
		{"vectors", "ollama/nomic-embed-text", at, "abc", ""},
		{"another model", "ollama/llama", at, "abc", "try pulling it first"},
		{"a text without a vector", "ollama/nomic-embed-text", at, "lost", "is not one vector for each text"},
		{"no server", "ollama/nomic-embed-text", "http://127.0.0.1:1/v1", "abc", "ollama/nomic-embed-text: not running at 127.0.0.1:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			embed, err := providers.New(&providers.Options{Offline: true, Env: env{"SUPERSTEP_EMBEDDINGS": c.model, "OLLAMA_BASE_URL": c.base}.get}).Embedder()
			if err != nil {
				t.Fatal(err)
			}
			got, err := embed(context.Background(), []string{"a", c.text})
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("error %v, want %q in it", err, c.want)
				}
				return
			}
			if want := [][]float32{{1, 1}, {3, 1}}; err != nil || !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("vectors %v, error %v; want %v", got, err, want)
			}
		})
	}
}

func TestEmbedLate(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that the client has gone
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	embed, err := providers.New(&providers.Options{Offline: true, Env: env{"SUPERSTEP_EMBEDDINGS": "ollama/m", "OLLAMA_BASE_URL": s.URL}.get}).Embedder()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := embed(ctx, []string{"a"}); err == nil || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("error %v, want that there was no answer in time", err)
	}
}

// TestEmbedHere holds that documents are sent to no other machine.
func TestEmbedHere(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]string{
		"openai/text-embedding-3-small": "is not a server on this machine",
		"ollama/nomic-embed-text:cloud": "is not a server on this machine",
		"olama/nomic-embed-text":        "did you mean",
	} {
		_, err := providers.New(&providers.Options{Env: env{"SUPERSTEP_EMBEDDINGS": model, "OPENAI_API_KEY": "k"}.get}).Embedder()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", model, err, want)
		}
	}
	if embed, err := providers.New(&providers.Options{Env: env{}.get}).Embedder(); embed != nil || err != nil {
		t.Errorf("without the variable: %v", err)
	}
}
