// Package acptest is a scripted agent that speaks the Agent Client Protocol, for tests. It is a real process: a test binary that executes itself.
package acptest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The variables that make a process an agent.
const (
	scriptVariable = "ACPTEST_SCRIPT"
	stateVariable  = "ACPTEST_STATE"
	quick          = "GORACE=atexit_sleep_ms=0" // else the race detector ends an agent a second late
)

// A Script is what an agent does.
type Script struct {
	// Prompt answers a prompt and returns the stop reason.
	Prompt func(a *Agent, text string) (stop string)
	// Usage is the field usage of the answer to a prompt; nil for none.
	Usage any

	Version  int      // of the protocol; defaults to 1
	Forgets  bool     // it cannot load sessions
	NoTools  bool     // it takes no MCP servers on HTTP
	Modes    []string // the first is the current one
	NewError int      // the code of the error of session/new
	Session  string   // the ID of every session; else each has its own
	Stubborn bool     // it ignores the end of its input and SIGTERM
}

// Main runs the agent that the environment names, and returns only in a process that is none. TestMain calls it first.
func Main(scripts map[string]*Script) {
	if file := os.Getenv(recordVariable); file != "" {
		exit(record(file))
	}
	if file := os.Getenv(replayVariable); file != "" {
		exit(replay(file))
	}
	name := os.Getenv(scriptVariable)
	if name == "" {
		return
	}
	s := scripts[name]
	if s == nil {
		fmt.Fprintln(os.Stderr, "there is no script", name)
		os.Exit(1)
	}
	a := &Agent{host: &host{script: s, state: os.Getenv(stateVariable), out: bufio.NewWriter(os.Stdout), answers: map[string]chan json.RawMessage{}, sessions: map[string]*conversation{}}}
	a.Log("start " + fmt.Sprint(os.Getpid()))
	a.left = -1
	if b, err := os.ReadFile(a.dieFile()); err == nil {
		_, _ = fmt.Sscan(string(b), &a.left)
		_ = os.Remove(a.dieFile())
	}
	a.serve()
	if s.Stubborn {
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Hour)
	}
	os.Exit(0)
}

// Env returns the variables that make this test binary an agent. State is a folder that outlives it.
func Env(script, state string) []string {
	return []string{scriptVariable + "=" + script, stateVariable + "=" + state, quick}
}

// Log returns what the agents with a state did: starts with their process IDs, requests, and what scripts logged.
func Log(state string) []string {
	b, _ := os.ReadFile(filepath.Join(state, "log")) // none yet
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// An Agent is the running agent, for its script: in the session that it was prompted in.
type Agent struct {
	*host
	session string
}

// host is what all sessions of the agent have.
type host struct {
	script *Script
	state  string

	mu       sync.Mutex
	out      *bufio.Writer
	next     int
	answers  map[string]chan json.RawMessage
	sessions map[string]*conversation
	left     int // messages until it dies, negative for none
}

type conversation struct {
	mode      string
	server    Server // that was given to it
	cancelled chan struct{}
	once      *sync.Once
}

// Cancelled is closed when the turn is cancelled.
func (a *Agent) Cancelled() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions[a.session].cancelled
}

// Mode is the mode of the session.
func (a *Agent) Mode() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions[a.session].mode
}

// A Server is an MCP server on HTTP, as a session is given it.
type Server struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	URL     string `json:"url"`
	Headers []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"headers"`
}

// Server is the session's MCP server, the zero value for none.
func (a *Agent) Server() Server {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions[a.session].server
}

// RoundTrip implements http.RoundTripper: it adds the headers.
func (s Server) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for _, h := range s.Headers {
		r.Header.Set(h.Name, h.Value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Connect connects to the session's MCP server with the client of the SDK.
func (a *Agent) Connect(opt *mcp.ClientOptions) (*mcp.ClientSession, error) {
	s := a.Server()
	return mcp.NewClient(&mcp.Implementation{Name: "scripted", Version: "1"}, opt).Connect(context.Background(),
		&mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: &http.Client{Transport: s}, DisableStandaloneSSE: true, MaxRetries: -1}, nil)
}

// Tools returns the names of the tools that the session's MCP server offers.
func (a *Agent) Tools() (names []string) {
	s, err := a.Connect(nil)
	if err != nil {
		return []string{err.Error()}
	}
	defer func() { _ = s.Close() }()
	for t, err := range s.Tools(context.Background(), nil) {
		if err != nil {
			return append(names, err.Error())
		}
		names = append(names, t.Name)
	}
	return names
}

// Call calls a tool of the session's MCP server, reports the call as opencode does, and returns its result in words.
func (a *Agent) Call(id, name string, args any) string {
	a.Update(map[string]any{"sessionUpdate": "tool_call", "toolCallId": id, "title": "superstep_" + name, "kind": "other", "status": "pending", "rawInput": map[string]any{}})
	a.Update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": id, "title": "superstep_" + name, "kind": "other", "status": "in_progress", "rawInput": args})
	text, failed := a.call(name, args)
	status := "completed"
	if failed {
		status = "failed"
	}
	a.Update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status, "content": []any{map[string]any{"type": "content", "content": said(text)}}})
	return text
}

func (a *Agent) call(name string, args any) (text string, failed bool) {
	s, err := a.Connect(nil)
	if err != nil {
		return err.Error(), true
	}
	defer func() { _ = s.Close() }()
	res, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return err.Error(), true
	}
	for _, c := range res.Content {
		if t, is := c.(*mcp.TextContent); is {
			text += t.Text
		}
	}
	return text, res.IsError
}

// Log appends a line to the log of the state.
func (a *Agent) Log(line string) {
	f, err := os.OpenFile(filepath.Join(a.state, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = fmt.Fprintln(f, line)
		_ = f.Close()
	}
}

// Logged returns how often a line is in the log.
func (a *Agent) Logged(line string) int {
	return len(slices.DeleteFunc(Log(a.state), func(l string) bool { return l != line }))
}

// Lines returns the lines of the log that begin with a word.
func (a *Agent) Lines(word string) []string {
	return slices.DeleteFunc(Log(a.state), func(l string) bool { return !strings.HasPrefix(l, word+" ") })
}

// DieAt lets the next agent with a state be killed in place of its nth message, from 0.
func DieAt(state string, n int) error {
	return os.WriteFile((&Agent{host: &host{state: state}}).dieFile(), []byte(fmt.Sprint(n)), 0o600)
}

func (a *Agent) dieFile() string { return filepath.Join(a.state, "die") }

// Die kills the agent.
func (a *Agent) Die() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {}
}

// Raw writes a line.
func (a *Agent) Raw(line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left == 0 {
		a.Die()
	}
	a.left--
	_, _ = a.out.WriteString(line + "\n")
	_ = a.out.Flush()
}

func (a *Agent) send(v map[string]any) {
	v["jsonrpc"] = "2.0"
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	a.Raw(string(b))
}

// Update sends an update of the session, and keeps it for session/load.
func (a *Agent) Update(update map[string]any) {
	a.keep(update)
	a.Live(update)
}

// Live sends an update that is not kept.
func (a *Agent) Live(update map[string]any) {
	a.send(map[string]any{"method": "session/update", "params": map[string]any{"sessionId": a.session, "update": update}})
}

// keep stores an update for session/load.
func (a *Agent) keep(update map[string]any) {
	b, err := json.Marshal(update)
	if err != nil {
		panic(err)
	}
	f, err := os.OpenFile(filepath.Join(a.state, a.session), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintln(f, string(b))
	_ = f.Close()
}

func said(s string) map[string]any { return map[string]any{"type": "text", "text": s} }

// Say sends a piece of text.
func (a *Agent) Say(s string) {
	a.Update(map[string]any{"sessionUpdate": "agent_message_chunk", "content": said(s)})
}

// Think sends a piece of reasoning.
func (a *Agent) Think(s string) {
	a.Update(map[string]any{"sessionUpdate": "agent_thought_chunk", "content": said(s)})
}

// Begin begins a call.
func (a *Agent) Begin(id, title, kind string, input any) {
	a.Update(map[string]any{"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind, "status": "in_progress", "rawInput": input})
}

// End ends a call.
func (a *Agent) End(id, output string) {
	a.Update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed",
		"content": []any{map[string]any{"type": "content", "content": said(output)}}})
}

// Request sends a request and returns its whole answer.
func (a *Agent) Request(method string, params any) json.RawMessage {
	a.mu.Lock()
	a.next++
	id := fmt.Sprintf("agent-%d", a.next)
	ch := make(chan json.RawMessage, 1)
	a.answers[id] = ch
	a.mu.Unlock()
	a.send(map[string]any{"id": id, "method": method, "params": params})
	return <-ch
}

// Ask requests permission for a call and returns the option that was chosen, "" for cancelled.
func (a *Agent) Ask(call map[string]any) string {
	raw := a.Request("session/request_permission", map[string]any{"sessionId": a.session, "toolCall": call, "options": []any{
		map[string]any{"optionId": "for-ever", "name": "Always", "kind": "allow_always"},
		map[string]any{"optionId": "yes", "name": "Yes", "kind": "allow_once"},
		map[string]any{"optionId": "no", "name": "No", "kind": "reject_once"},
	}})
	var in struct {
		Result struct {
			Outcome struct {
				OptionID string `json:"optionId"`
			} `json:"outcome"`
		} `json:"result"`
	}
	_ = json.Unmarshal(raw, &in)
	a.Log("answer " + in.Result.Outcome.OptionID)
	return in.Result.Outcome.OptionID
}

// serve answers requests until the input ends.
func (a *Agent) serve() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var msg struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &msg) != nil {
			continue
		}
		if msg.Method == "" {
			var id string
			_ = json.Unmarshal(msg.ID, &id)
			a.mu.Lock()
			ch := a.answers[id]
			delete(a.answers, id)
			a.mu.Unlock()
			if ch != nil {
				ch <- append(json.RawMessage(nil), in.Bytes()...)
			}
			continue
		}
		a.request(msg.ID, msg.Method, append(json.RawMessage(nil), msg.Params...))
	}
}

// request answers one request.
func (a *Agent) request(id json.RawMessage, method string, params json.RawMessage) {
	var in struct {
		SessionID string   `json:"sessionId"`
		ModeID    string   `json:"modeId"`
		Servers   []Server `json:"mcpServers"`
		Prompt    []struct {
			Text string `json:"text"`
		} `json:"prompt"`
		Meta struct {
			Trace string `json:"traceparent"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(params, &in)
	if method != "session/prompt" {
		a.Log(method)
	}
	result := func(v any) { a.send(map[string]any{"id": id, "result": v}) }
	switch method {
	case "initialize":
		version := a.script.Version
		if version == 0 {
			version = 1
		}
		result(map[string]any{"protocolVersion": version, "agentCapabilities": map[string]any{"loadSession": !a.script.Forgets,
			"mcpCapabilities": map[string]any{"http": !a.script.NoTools}}})
	case "session/new":
		if a.script.NewError != 0 {
			a.send(map[string]any{"id": id, "error": map[string]any{"code": a.script.NewError, "message": "Authentication required"}})
			return
		}
		name := cmp.Or(a.script.Session, fmt.Sprintf("ses-%d-%d", os.Getpid(), len(a.sessions)+1))
		a.open(name, in.Servers)
		out := a.modes()
		out["sessionId"] = name
		result(out)
	case "session/load":
		f, err := os.Open(filepath.Join(a.state, in.SessionID))
		if err != nil {
			a.send(map[string]any{"id": id, "error": map[string]any{"code": -32602, "message": "no such session"}})
			return
		}
		a.open(in.SessionID, in.Servers)
		a = &Agent{a.host, in.SessionID}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var update map[string]any
			_ = json.Unmarshal(lines.Bytes(), &update)
			a.Live(update)
		}
		_ = f.Close()
		result(a.modes())
	case "session/set_mode":
		a.sessions[in.SessionID].mode = in.ModeID
		result(map[string]any{})
	case "session/prompt":
		a = &Agent{a.host, in.SessionID}
		a.mu.Lock()
		c := a.sessions[in.SessionID]
		c.cancelled, c.once = make(chan struct{}), &sync.Once{}
		a.mu.Unlock()
		text := ""
		for _, b := range in.Prompt {
			text += b.Text
		}
		first, _, _ := strings.Cut(text, "\n")
		a.Log("prompt " + first)
		if in.Meta.Trace != "" {
			a.Log("trace " + in.Meta.Trace)
		}
		a.keep(map[string]any{"sessionUpdate": "user_message_chunk", "content": said(text)})
		go func() {
			stop := a.script.Prompt(a, text)
			out := map[string]any{"stopReason": stop}
			if a.script.Usage != nil {
				out["usage"] = a.script.Usage
			}
			result(out)
		}()
	case "session/cancel":
		if c := a.sessions[in.SessionID]; c != nil && c.once != nil {
			c.once.Do(func() { close(c.cancelled) })
		}
	default:
		if len(id) > 0 {
			a.send(map[string]any{"id": id, "error": map[string]any{"code": -32601, "message": "no such method"}})
		}
	}
}

func (a *Agent) open(name string, servers []Server) {
	c := &conversation{}
	if len(servers) > 0 {
		c.server = servers[0]
	}
	if len(a.script.Modes) > 0 {
		c.mode = a.script.Modes[0]
	}
	a.mu.Lock()
	a.sessions[name] = c
	a.mu.Unlock()
}

func (a *Agent) modes() map[string]any {
	if len(a.script.Modes) == 0 {
		return map[string]any{}
	}
	var list []any
	for _, m := range a.script.Modes {
		list = append(list, map[string]string{"id": m, "name": m})
	}
	return map[string]any{"modes": map[string]any{"currentModeId": a.script.Modes[0], "availableModes": list}}
}
