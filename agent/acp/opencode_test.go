//go:build unix

package acp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent/acp"
	"github.com/superstep-dev/superstep/internal/acptest"
	"github.com/superstep-dev/superstep/runlog"
)

// words is a model server of the chat completions protocol. What it says follows from the last message of the user.
func words(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"words","object":"model"}]}`)
		return
	}
	var in struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
		Tools []struct{ Function struct{ Name string } }
	}
	_ = json.Unmarshal(body, &in)
	results, said := 0, ""
	for _, m := range in.Messages {
		switch m.Role {
		case "user":
			results, said = 0, string(m.Content)
		case "tool":
			results++
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(delta, finish string) {
		_, _ = fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"words","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, finish)
		w.(http.Flusher).Flush()
	}
	call := func(name string, args any) {
		b, _ := json.Marshal(args)
		send(fmt.Sprintf(`{"tool_calls":[{"index":0,"id":"call_%d","type":"function","function":{"name":%q,"arguments":%q}}]}`, results, name, b), "null")
		send(`{}`, `"tool_calls"`)
	}
	say := func(text string) {
		send(fmt.Sprintf(`{"content":%q}`, text), "null")
		send(`{}`, `"stop"`)
	}
	send(`{"role":"assistant","content":""}`, "null")
	has := func(name string) bool {
		return slices.ContainsFunc(in.Tools, func(t struct{ Function struct{ Name string } }) bool { return t.Function.Name == name })
	}
	switch {
	case len(in.Tools) == 0:
		say("A title")
	case has("task"):
		say("There is a tool for sub-agents, whose questions reach nobody.")
	case strings.Contains(said, "endless"):
		for r.Context().Err() == nil {
			send(`{"content":"word "}`, "null")
			time.Sleep(50 * time.Millisecond)
		}
	case strings.Contains(said, "denied this"):
		say("I left it.")
	case strings.Contains(said, "make") && results == 0:
		call("bash", map[string]any{"command": "echo hi > made.txt", "description": "make it"})
	case strings.Contains(said, "edit") && results == 0:
		call("edit", map[string]any{"filePath": "a.txt", "oldString": "two", "newString": "2"})
	case strings.Contains(said, "You were interrupted"):
		say("It goes on.")
	default:
		say(fmt.Sprintf("Ready, after %d results.", results))
	}
	_, _ = io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"words","choices":[],`+
		`"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}}`+"\n\ndata: [DONE]\n\n")
}

// plays are what is done with opencode, by the names of their recordings.
var plays = map[string]struct{ prompt, answer, output, change string }{
	"opencode-make":   {"make it", "once", "Ready, after 1 results.", "echo hi"},
	"opencode-edit":   {"edit it", "once", "Ready, after 1 results.", "+2"},
	"opencode-reject": {"edit it", "deny: leave it", "I left it.", "+2"},
}

// play runs one of them and checks what must come of it.
func (s *stage) play(t *testing.T, name string) {
	t.Helper()
	p := plays[name]
	in, err := json.Marshal(inputs{p.prompt})
	if err != nil {
		t.Fatal(err)
	}
	run, err := s.begin(t).Start(t.Context(), "test", in, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := wait(t, run)
	if len(out.Open) != 1 || !strings.Contains(out.Open[0].Call.Diff+out.Open[0].Call.Subject, p.change) {
		t.Fatalf("%s: got %+v", name, out)
	}
	q := out.Open[0]
	if err := s.engine.Answer(t.Context(), run.ID(), q.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(strconv.Quote(p.answer))}); err != nil {
		t.Fatal(err)
	}
	again, err := s.engine.Resume(t.Context(), run.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out = wait(t, again); string(out.Output) != strconv.Quote(p.output) {
		t.Errorf("%s: got %+v, %s; parts %q", name, out, out.Output, parts(s.fold(t, run.ID())))
	}
	s.replayed(t, run.ID())
}

// What a real opencode sent is understood, without it.
func TestRecordings(t *testing.T) {
	t.Parallel()
	for name := range plays {
		file, err := filepath.Abs(filepath.Join("testdata", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, "")
		s.cmd = &acp.Command{Name: "opencode", Argv: []string{os.Args[0]}, Env: acptest.ReplayEnv(file)}
		s.play(t, name)
	}
}

// TestOpencode drives a real opencode, whose path SUPERSTEP_OPENCODE holds, against a model server on this machine:
//
//	npm install --ignore-scripts --prefix /tmp/oc opencode-ai@1.18.33
//	SUPERSTEP_OPENCODE=/tmp/oc/node_modules/opencode-linux-x64/bin/opencode go test ./agent/acp -run TestOpencode -v
//
// With SUPERSTEP_ACP_RECORD=1 it writes the recordings of TestRecordings anew.
func TestOpencode(t *testing.T) {
	t.Parallel()
	set := opencode(t)
	path := os.Getenv("SUPERSTEP_OPENCODE")
	for name := range plays {
		t.Run(name, func(t *testing.T) {
			s := set(t)
			if os.Getenv("SUPERSTEP_ACP_RECORD") != "" {
				file, err := filepath.Abs(filepath.Join("testdata", name+".txt"))
				if err != nil {
					t.Fatal(err)
				}
				_ = os.MkdirAll("testdata", 0o700)
				_ = os.Remove(file) // there may be none
				s.cmd.Argv = append([]string{os.Args[0]}, s.cmd.Argv...)
				s.cmd.Env = append(acptest.RecordEnv(file), s.cmd.Env...)
			}
			s.play(t, name)
		})
	}
	t.Run("stop and resume", func(t *testing.T) {
		s := set(t)
		run := s.endless(t)
		s.engine.Close()
		s.pool.Close()
		s.resumes(t, run)
	})
	t.Run("kill and resume", func(t *testing.T) {
		s := set(t)
		s.cmd.Argv = []string{"/bin/sh", "-c", `echo $$ > ` + s.state + `/pid; exec "$0" "$@"`, path, "acp"}
		run := s.endless(t)
		b, err := os.ReadFile(filepath.Join(s.state, "pid"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.state, "log"), append([]byte("start "), b...), 0o600); err != nil {
			t.Fatal(err)
		}
		s.killed()
		if out := wait(t, run); string(out.Output) != `"It goes on."` {
			t.Errorf("got %+v", out)
		}
		s.replayed(t, run.ID())
	})
}

// opencode returns a function that makes stages for a real opencode, whose model is on this machine.
func opencode(t *testing.T) func(t *testing.T) *stage {
	t.Helper()
	path := os.Getenv("SUPERSTEP_OPENCODE")
	if path == "" {
		t.Skip("SUPERSTEP_OPENCODE names no opencode")
	}
	server := httptest.NewServer(http.HandlerFunc(words))
	t.Cleanup(server.Close)
	known := acp.Known()
	cmd := known[slices.IndexFunc(known, func(c acp.Command) bool { return c.Name == "opencode" })]
	config := fmt.Sprintf(`{"model":"local/words","small_model":"local/words","enabled_providers":["local"],"provider":{"local":{"npm":"@ai-sdk/openai-compatible",`+
		`"name":"local","options":{"baseURL":%q,"apiKey":"none"},"models":{"words":{"name":"words"}}}}}`, server.URL+"/v1")
	return func(t *testing.T) *stage {
		s := open(t, "")
		if err := os.WriteFile(filepath.Join(s.dir, "a.txt"), []byte("one\ntwo\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		home := t.TempDir()
		s.opt.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "OPENCODE_CONFIG_CONTENT=" + config, "OPENCODE_DISABLE_MODELS_FETCH=1",
			"OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "OPENCODE_DISABLE_SHARE=1"}
		c := cmd
		c.Argv = append([]string{path}, c.Argv[1:]...)
		s.cmd = &c
		return s
	}
}

// endless starts a run that is in the middle of a text.
func (s *stage) endless(t *testing.T) *superstep.Run {
	t.Helper()
	run, err := s.begin(t).Start(t.Context(), "test", json.RawMessage(`{"prompt":"endless"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for rec, err := range run.Follow(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(rec.Data), "word ") {
			return run
		}
	}
	t.Fatal("it said nothing")
	return nil
}

func (s *stage) resumes(t *testing.T, run *superstep.Run) {
	t.Helper()
	again, err := s.begin(t).Resume(t.Context(), run.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out := wait(t, again); string(out.Output) != `"It goes on."` {
		t.Errorf("got %+v", out)
	}
	s.replayed(t, run.ID())
}
