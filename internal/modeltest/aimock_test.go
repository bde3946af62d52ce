package modeltest_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/npm"
	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/anthropic"
	"github.com/superstep-dev/superstep/model/gemini"
	"github.com/superstep-dev/superstep/model/openai"
)

const aimockKey = "test-key-1234567890"

// fixtures are what aimock says, in its own words.
const fixtures = `{"fixtures":[
	{"match":{"userMessage":"say hello"},"chunkSize":4,"response":{"content":"Hello — from a server of others: \"☃\"\n{}","usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}},
	{"match":{"userMessage":"think first"},"chunkSize":5,"response":{"reasoning":"Let me think about that.","content":"Done."}},
	{"match":{"userMessage":"two cities","hasToolResult":true},"response":{"content":"It snows in both."}},
	{"match":{"userMessage":"two cities"},"chunkSize":3,"response":{"content":"Let me look.","toolCalls":[
		{"id":"call_a","name":"weather","arguments":{"city":"Kaliningrad","days":[1,2]}},
		{"id":"call_b","name":"weather","arguments":{"city":"Sovetsk"}}]}},
	{"match":{"userMessage":"too many"},"response":{"error":{"message":"slow down please","type":"rate_limit_error"},"status":429,"retryAfter":90}},
	{"match":{"userMessage":"broken"},"response":{"error":{"message":"something broke","type":"server_error"},"status":500}},
	{"match":{"userMessage":"cut me off"},"chunkSize":2,"latency":20,"truncateAfterChunks":3,"response":{"content":"This will never be whole."}},
	{"match":{"userMessage":"cut the calls"},"chunkSize":2,"latency":20,"truncateAfterChunks":2,"response":{"content":"So: ","toolCalls":[{"id":"call_c","name":"weather","arguments":{"city":"Kaliningrad"}}]}}
]}`

// startAimock runs the server of @copilotkit/aimock until the test ends, and returns its address.
func startAimock(t *testing.T) string {
	t.Helper()
	node, modules := npm.Node(t), npm.Modules(t)
	dir := t.TempDir()
	config, err := json.Marshal(map[string]any{
		"host": "127.0.0.1", "strict": true, "auth": map[string]any{"apiKeys": []string{aimockKey}},
		"llm": map[string]any{"fixtures": filepath.Join(dir, "fixtures.json"), "logLevel": "silent"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"config.json": string(config), "fixtures.json": fixtures} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := procgroup.Command(t.Context(), procgroup.Base(os.Environ()), node,
		filepath.Join(modules, "@copilotkit", "aimock", "dist", "aimock-cli.js"), "--config", filepath.Join(dir, "config.json"), "--port", "0")
	cmd.Dir = dir
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		r := bufio.NewReader(out)
		for {
			line, err := r.ReadString('\n')
			if _, address, ok := strings.Cut(line, "listening on "); ok {
				lines <- strings.TrimSpace(address)
				break
			}
			if err != nil {
				close(lines)
				return
			}
		}
		_, _ = io.Copy(io.Discard, r) // until it ends
	}()
	t.Cleanup(func() {
		procgroup.Sweep(cmd.Process, cmd.Env)
		<-drained
		_ = cmd.Wait() // it was killed
	})
	select {
	case address, ok := <-lines:
		if !ok {
			t.Fatalf("aimock does not start: %s", &problems)
		}
		return address
	case <-time.After(time.Minute):
		t.Fatal("aimock takes longer than 30 s to start")
	}
	return ""
}

// TestAimock asks a server that others have written, in the protocol of each provider.
func TestAimock(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a server of node")
	}
	base := startAimock(t)
	rt := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(rt.CloseIdleConnections)
	client := &http.Client{Transport: rt}
	for name, open := range map[string]func(key string) (model.Model, error){
		"openai": func(key string) (model.Model, error) {
			return openai.New(&openai.Options{Model: "o4-mini", BaseURL: base + "/v1", APIKey: key, HTTPClient: client, Retries: -1})
		},
		"responses": func(key string) (model.Model, error) {
			return openai.New(&openai.Options{Model: "o4-mini", Responses: true, BaseURL: base + "/v1", APIKey: key, HTTPClient: client, Retries: -1})
		},
		"anthropic": func(key string) (model.Model, error) {
			return anthropic.New(&anthropic.Options{Model: "claude-sonnet-4-5", BaseURL: base, APIKey: key, HTTPClient: client, Retries: -1})
		},
		"gemini": func(key string) (model.Model, error) {
			return gemini.New(&gemini.Options{Model: "gemini-2.5-pro", BaseURL: base + "/v1beta", APIKey: key, HTTPClient: client, Retries: -1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := open(aimockKey)
			if err != nil {
				t.Fatal(err)
			}
			stranger, err := open("wrong-key-1234567890")
			if err != nil {
				t.Fatal(err)
			}
			aimock{m, stranger}.test(t)
		})
	}
}

type aimock struct{ m, stranger model.Model }

func (a aimock) ask(text string) *model.Request {
	return &model.Request{
		System: "Be brief.", MaxTokens: 500, Messages: []model.Message{model.UserText("Please " + text)},
		Tools: []model.ToolSpec{{Name: "weather", Description: "Tells the weather.", Input: &jsonschema.Schema{
			Type: "object", Properties: map[string]*jsonschema.Schema{"city": {Type: "string"}}, Required: []string{"city"},
		}}},
	}
}

func (a aimock) test(t *testing.T) {
	t.Run("text and usage", func(t *testing.T) {
		deltas := 0
		got, err := model.Collect(a.m.Generate(t.Context(), a.ask("say hello")), func(p model.Part) {
			if p.Kind == model.Text {
				deltas++
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if text := got.Message.Text(); text != "Hello — from a server of others: \"☃\"\n{}" || got.Stop != model.StopEnd || deltas < 5 {
			t.Errorf("got %q in %d deltas, stop %q", text, deltas, got.Stop)
		}
		if got.Usage.In != 11 || got.Usage.Out != 7 {
			t.Errorf("the usage is %+v", got.Usage)
		}
	})
	t.Run("reasoning", func(t *testing.T) {
		got, err := model.Collect(a.m.Generate(t.Context(), a.ask("think first")), nil)
		if err != nil {
			t.Fatal(err)
		}
		if p := got.Message.Parts; len(p) != 2 || p[0].Kind != model.Reasoning || p[0].Text != "Let me think about that." || p[1].Text != "Done." {
			t.Errorf("got %+v", p)
		}
	})
	t.Run("parallel calls and their results", func(t *testing.T) {
		req := a.ask("look at two cities")
		got, err := model.Collect(a.m.Generate(t.Context(), req), nil)
		if err != nil {
			t.Fatal(err)
		}
		calls := got.Message.Calls()
		if len(calls) != 2 || got.Stop != model.StopCalls || got.Message.Text() != "Let me look." ||
			calls[0].Name != "weather" || string(calls[0].Args) != `{"city":"Kaliningrad","days":[1,2]}` || string(calls[1].Args) != `{"city":"Sovetsk"}` || calls[0].ID == calls[1].ID {
			t.Fatalf("got %+v, stop %q", got.Message, got.Stop)
		}
		req.Messages = append(req.Messages, got.Message, model.ToolResult(calls[0], "snow", false), model.ToolResult(calls[1], "no data", true))
		if got, err = model.Collect(a.m.Generate(t.Context(), req), nil); err != nil || got.Message.Text() != "It snows in both." {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	for _, c := range []struct {
		name, text string
		m          model.Model
		check      func(e *model.Error) bool
		says       string
	}{
		{"rate limit", "ask for too many", a.m, func(e *model.Error) bool {
			return e.Status == 429 && e.RetryAfter == 90*time.Second && e.Temporary
		}, "slow down please"},
		{"server error", "be broken", a.m, func(e *model.Error) bool { return e.Status == 500 && e.Temporary }, "something broke"},
		{"nothing to say", "surprise me", a.m, func(e *model.Error) bool { return e.Status == 503 || e.Status == 404 }, ""},
		{"wrong key", "say hello", a.stranger, func(e *model.Error) bool {
			return e.Status == 401 && e.FailureCode() == "not_signed_in" && !e.Temporary
		}, "_API_KEY"},
		{"cut text", "cut me off", a.m, func(e *model.Error) bool { return e.Code == model.CodeTruncated && e.Temporary }, ""},
		{"cut calls", "cut the calls", a.m, func(e *model.Error) bool { return e.Code == model.CodeTruncated && e.Temporary }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			got, err := model.Collect(c.m.Generate(t.Context(), a.ask(c.text)), func(p model.Part) {
				if p.Kind == model.ToolCall {
					calls++
				}
			})
			var e *model.Error
			if !errors.As(err, &e) || !c.check(e) || !strings.Contains(err.Error(), c.says) || calls > 0 {
				t.Errorf("got %+v and %d calls, %#v\n%v", got, calls, e, err)
			}
			if err != nil && strings.Contains(err.Error(), "key-1234567890") {
				t.Errorf("the key is in %v", err)
			}
		})
	}
}
