package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	acp "github.com/coder/acp-go-sdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
)

// editorDesk is a user with a folder, a model and editors that start "serve --acp".
type editorDesk struct {
	t      *testing.T
	dir    string
	env    []string
	binary string
	hold   chan struct{} // what answers WORK, once each
	server *modeltest.Server
}

// briefRecipe is a workflow of the user: a tool, an agent and a question.
const briefRecipe = `name: brief
inputs:
  topic: {type: string, required: true}
steps:
  - {id: look, tool: ls, args: {path: .}}
  - {id: write, depends_on: [look], subagent: general-purpose, prompt: "Write about {{inputs.topic}}."}
  - {id: who, depends_on: [write], ask: "Who reads it?"}
output: "{{steps.write.output}} For {{steps.who.output}}."
`

func newEditorDesk(t *testing.T) *editorDesk {
	t.Helper()
	short, err := os.MkdirTemp("", "acp") //nolint:usetesting // t.TempDir may be too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	d := &editorDesk{t: t, dir: filepath.Join(short, "proj"), binary: filepath.Join(whole(t), "superstep"), hold: make(chan struct{})}
	recipes := filepath.Join(short, ".config", "superstep", "workflows")
	for _, dir := range []string{d.dir, recipes} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(recipes, "brief.yaml"), []byte(briefRecipe), 0o600); err != nil {
		t.Fatal(err)
	}
	d.server = modeltest.NewServer(t, d.model, nil)
	d.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + short, "XDG_CONFIG_HOME=" + short + "/.config", "SUPERSTEP_DATA_DIR=" + short + "/data", "XDG_RUNTIME_DIR=" + short,
		"OPENAI_API_KEY=sk-0123456789abcdef", "OPENAI_BASE_URL=" + d.server.URL, "SUPERSTEP_MODEL=openai/gpt-test",
	}
	t.Cleanup(func() {
		d.crash() // detached, and of no use to anybody now
		for end := time.Now().Add(5 * time.Second); os.RemoveAll(short) != nil && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond)
		}
	})
	return d
}

// model asks, acts, waits, or says what it was told.
func (d *editorDesk) model(r *modeltest.ParsedRequest) modeltest.Reply {
	last := r.Messages[len(r.Messages)-1]
	for _, p := range last.Parts {
		if p.Kind == model.Result {
			return modeltest.Text("It is " + p.Text + ", then.")
		}
	}
	text := last.Text()
	args := func(name string, v any) modeltest.Reply {
		b, _ := json.Marshal(v)
		return modeltest.Call(name, string(b))
	}
	switch {
	case strings.Contains(text, "ASK"):
		return args("ask_user", map[string]any{"question": "Which region?", "options": []string{"eu", "us"}})
	case strings.Contains(text, "BOOK"):
		return args("mcp__air__book", map[string]any{})
	case strings.Contains(text, "OPEN"):
		return args("ask_user", map[string]any{"question": "Which name?"})
	case strings.Contains(text, "SLOW"):
		if r.Attempt > 1 {
			return modeltest.Text("Slow and done.")
		}
		return modeltest.Reply{Fault: modeltest.Silent}
	case strings.Contains(text, "WORK"):
		<-d.hold
		return args("ls", map[string]string{"path": "."})
	case strings.HasPrefix(text, "WRITE "):
		return args("write_file", map[string]string{"path": strings.TrimPrefix(text, "WRITE "), "content": "one\ntwo\n"})
	case strings.HasPrefix(text, "RUN "):
		return args("bash", map[string]string{"command": strings.TrimPrefix(text, "RUN ")})
	case strings.Contains(text, "FAIL"):
		return modeltest.Reply{Status: 400, Message: "no such thing"}
	}
	return modeltest.Reply{Parts: []model.Part{{Kind: model.Text, Text: "You said "}, {Kind: model.Text, Text: text}}}
}

// crash kills the processes that execute runs.
func (d *editorDesk) crash() (n int) {
	for _, pid := range (&desk{binary: d.binary, dir: d.dir}).executing() {
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

func (d *editorDesk) command(args ...string) string {
	d.t.Helper()
	cmd := exec.Command(d.binary, args...)
	cmd.Dir, cmd.Env = d.dir, d.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return string(out)
}

// An editor is a public client of the protocol.
type editor struct {
	t    *testing.T
	cmd  *exec.Cmd
	conn *acp.ClientSideConnection

	leave    func()          // ends it
	problems strings.Builder // what the server writes to standard error

	mu      sync.Mutex
	updates []acp.SessionUpdate
	asked   []acp.RequestPermissionRequest
	decide  func(ctx context.Context, p *acp.RequestPermissionRequest) string // the kind of option to choose, "" to cancel
	fill    func(message string) map[string]any                               // a form, nil to decline, an empty one to close it
	form    string                                                            // the last one, as JSON
	closed  int                                                               // requests that the server closed
}

// open starts an editor. Without forms it has only permission requests.
func (d *editorDesk) open(forms bool, args ...string) *editor {
	d.t.Helper()
	e := &editor{t: d.t}
	e.cmd = exec.Command(d.binary, append([]string{"serve", "--acp"}, args...)...)
	e.cmd.Dir, e.cmd.Env, e.cmd.Stderr = filepath.Dir(d.dir), d.env, &e.problems // of no project
	in, err := e.cmd.StdinPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	e.conn = acp.NewClientSideConnection(e, in, out)
	e.conn.SetLogger(slog.New(slog.DiscardHandler))
	e.leave = sync.OnceFunc(func() {
		_ = in.Close()
		_ = e.cmd.Wait()
		<-e.conn.Done()
	})
	d.t.Cleanup(func() {
		e.leave()
		if e.problems.Len() > 0 {
			d.t.Error(e.problems.String())
		}
	})
	hello := acp.InitializeRequest{ProtocolVersion: 7}
	if forms {
		hello.ClientCapabilities.Elicitation = &acp.ElicitationCapabilities{Form: &acp.ElicitationFormCapabilities{}}
	}
	ctx, stop := context.WithTimeout(d.t.Context(), time.Minute)
	defer stop()
	is, err := e.conn.Initialize(ctx, hello)
	if err != nil || is.ProtocolVersion != 1 || !is.AgentCapabilities.LoadSession {
		d.t.Fatalf("%+v: %v", is, err)
	}
	return e
}

func (e *editor) session(dir string) acp.SessionId {
	e.t.Helper()
	s, err := e.conn.NewSession(e.t.Context(), acp.NewSessionRequest{Cwd: dir, McpServers: []acp.McpServer{}})
	if err != nil {
		e.t.Fatal(err)
	}
	return s.SessionId
}

// send sends a prompt, whose stop reason comes later.
func (e *editor) send(id acp.SessionId, text string) <-chan string {
	done := make(chan string, 1)
	go func() {
		out, err := e.conn.Prompt(context.WithoutCancel(e.t.Context()), acp.PromptRequest{SessionId: id, Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
		if err != nil {
			done <- err.Error()
		} else {
			done <- string(out.StopReason)
		}
	}()
	return done
}

func (e *editor) stops(done <-chan string, want string) {
	e.t.Helper()
	select {
	case got := <-done:
		if got != want {
			e.t.Fatalf("the turn ended with %s, want %s\n%s", got, want, e.shown())
		}
	case <-time.After(time.Minute):
		e.t.Fatalf("the turn never ended\n%s", e.shown())
	}
}

// prompt sends a prompt and returns what came until its end.
func (e *editor) prompt(id acp.SessionId, text string) string {
	e.t.Helper()
	e.forget()
	e.stops(e.send(id, text), "end_turn")
	return e.shown()
}

func (e *editor) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updates = nil
}

// shown returns all updates as lines of text.
func (e *editor) shown() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	last := ""
	for i := range e.updates {
		kind, text := "", ""
		switch u := &e.updates[i]; {
		case u.AgentMessageChunk != nil:
			kind, text = "agent", u.AgentMessageChunk.Content.Text.Text
		case u.AgentThoughtChunk != nil:
			kind, text = "thought", u.AgentThoughtChunk.Content.Text.Text
		case u.UserMessageChunk != nil:
			kind, text = "user", u.UserMessageChunk.Content.Text.Text
		case u.ToolCall != nil:
			kind, text = "call", fmt.Sprintf("%s %s %s", u.ToolCall.Title, u.ToolCall.Status, contents(u.ToolCall.Content))
		case u.ToolCallUpdate != nil:
			kind = "update"
			if u.ToolCallUpdate.Status != nil {
				text = string(*u.ToolCallUpdate.Status)
			}
			if u.ToolCallUpdate.Title != nil {
				text += " " + *u.ToolCallUpdate.Title
			}
			text += " " + contents(u.ToolCallUpdate.Content)
		case u.Plan != nil:
			kind = "plan"
			for _, p := range u.Plan.Entries {
				text += fmt.Sprintf("%s=%s ", p.Content, p.Status)
			}
		case u.UsageUpdate != nil:
			continue
		case u.AvailableCommandsUpdate != nil:
			kind = "commands"
			for _, c := range u.AvailableCommandsUpdate.AvailableCommands {
				text += "/" + c.Name + " "
			}
		case u.CurrentModeUpdate != nil:
			kind, text = "mode", string(u.CurrentModeUpdate.CurrentModeId)
		}
		if kind != last || kind != "agent" {
			b.WriteString("\n" + kind + ": ")
		}
		b.WriteString(text)
		last = kind
	}
	return b.String() + "\n"
}

func contents(list []acp.ToolCallContent) (out string) {
	for _, c := range list {
		if c.Diff != nil {
			old := "<none>"
			if c.Diff.OldText != nil {
				old = *c.Diff.OldText
			}
			out += fmt.Sprintf("[%s: %q → %q]", filepath.Base(c.Diff.Path), old, c.Diff.NewText)
		} else if c.Content != nil {
			out += fmt.Sprintf("[%s]", c.Content.Content.Text.Text)
		}
	}
	return out
}

func (e *editor) until(what string, holds func() bool) {
	e.t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			e.t.Fatalf("%s never came\n%s", what, e.shown())
		}
	}
}

func (e *editor) shows(text string) {
	e.t.Helper()
	e.until(text, func() bool { return strings.Contains(e.shown(), text) })
}

func (e *editor) has(picture string, texts ...string) {
	e.t.Helper()
	for _, text := range texts {
		if !strings.Contains(picture, text) {
			e.t.Errorf("%q is not in:%s", text, picture)
		}
	}
}

// SessionUpdate implements acp.Client.
func (e *editor) SessionUpdate(_ context.Context, n acp.SessionNotification) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updates = append(e.updates, n.Update)
	return nil
}

// RequestPermission implements acp.Client.
func (e *editor) RequestPermission(ctx context.Context, p acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	e.mu.Lock()
	e.asked = append(e.asked, p)
	decide := e.decide
	e.mu.Unlock()
	out := acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeCancelled()}
	if decide == nil {
		<-ctx.Done()
		e.mu.Lock()
		e.closed++
		e.mu.Unlock()
		return out, nil
	}
	want := decide(ctx, &p)
	for _, o := range p.Options {
		if string(o.Kind) == want || o.Name == want {
			out.Outcome = acp.NewRequestPermissionOutcomeSelected(o.OptionId)
			break
		}
	}
	return out, nil
}

// UnstableCreateElicitation implements a method that clients with forms have.
func (e *editor) UnstableCreateElicitation(_ context.Context, p acp.UnstableCreateElicitationRequest) (acp.UnstableCreateElicitationResponse, error) {
	form, err := json.Marshal(p.Form.RequestedSchema)
	if err != nil {
		return acp.UnstableCreateElicitationResponse{}, err
	}
	e.mu.Lock()
	e.form = string(form)
	e.mu.Unlock()
	switch values := e.fill(p.Form.Message); {
	case values != nil && len(values) == 0:
		return acp.NewUnstableCreateElicitationResponseCancel(), nil
	case values != nil:
		return acp.UnstableCreateElicitationResponse{Accept: &acp.UnstableCreateElicitationAccept{Action: "accept", Content: values}}, nil
	}
	return acp.NewUnstableCreateElicitationResponseDecline(), nil
}

var errUnused = errors.New("this editor said that it cannot do that")

func (e *editor) ReadTextFile(context.Context, acp.ReadTextFileRequest) (out acp.ReadTextFileResponse, _ error) {
	return out, errUnused
}

func (e *editor) WriteTextFile(context.Context, acp.WriteTextFileRequest) (out acp.WriteTextFileResponse, _ error) {
	return out, errUnused
}

func (e *editor) CreateTerminal(context.Context, acp.CreateTerminalRequest) (out acp.CreateTerminalResponse, _ error) {
	return out, errUnused
}

func (e *editor) KillTerminal(context.Context, acp.KillTerminalRequest) (out acp.KillTerminalResponse, _ error) {
	return out, errUnused
}

func (e *editor) TerminalOutput(context.Context, acp.TerminalOutputRequest) (out acp.TerminalOutputResponse, _ error) {
	return out, errUnused
}

func (e *editor) ReleaseTerminal(context.Context, acp.ReleaseTerminalRequest) (out acp.ReleaseTerminalResponse, _ error) {
	return out, errUnused
}

func (e *editor) WaitForTerminalExit(context.Context, acp.WaitForTerminalExitRequest) (out acp.WaitForTerminalExitResponse, _ error) {
	return out, errUnused
}

// kinds returns the kinds of the options of the last request.
func (e *editor) kinds() (out []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range e.asked[len(e.asked)-1].Options {
		out = append(out, string(o.Kind))
	}
	return out
}

func always(kind string) func(context.Context, *acp.RequestPermissionRequest) string {
	return func(context.Context, *acp.RequestPermissionRequest) string { return kind }
}

// A session is a chat: what was said before is known, text streams, and permission is asked for with the change and remembered by our rules.
func TestACPChat(t *testing.T) {
	t.Parallel()
	d := newEditorDesk(t)
	e := d.open(false)
	if _, err := e.conn.NewSession(t.Context(), acp.NewSessionRequest{Cwd: d.dir + "/none", McpServers: []acp.McpServer{}}); err == nil {
		t.Error("a session in a folder that is not there")
	}
	id := e.session(d.dir)
	e.shows("/brief ")
	e.has(e.prompt(id, "hello"), "agent: You said hello")
	if got := e.prompt(id, "again"); strings.Contains(got, "user:") || strings.Count(got, "You said again") != 1 {
		t.Errorf("%s", got)
	}
	e.decide = always("allow_once")
	e.has(e.prompt(id, "WRITE a.txt"), `call: write_file a.txt pending [a.txt: "" → "one\ntwo\n"]`, "update: completed", "It is ")
	if _, err := os.Stat(filepath.Join(d.dir, "a.txt")); err != nil || !slices.Equal(e.kinds(), []string{"allow_once", "allow_always", "reject_once"}) {
		t.Errorf("%v %v", e.kinds(), err)
	}
	e.decide = always("reject_once")
	e.has(e.prompt(id, "WRITE b.txt"), "update: failed")
	if _, err := os.Stat(filepath.Join(d.dir, "b.txt")); err == nil {
		t.Error("a rejected file was written")
	}
	e.decide = always("allow_always")
	e.prompt(id, "WRITE c.txt")
	asked := len(e.asked)
	e.has(e.prompt(id, "WRITE c.txt"), "update: completed")
	if len(e.asked) != asked {
		t.Error("asked again in spite of the rule")
	}
	if _, err := e.conn.SetSessionMode(t.Context(), acp.SetSessionModeRequest{SessionId: id, ModeId: "plan"}); err != nil {
		t.Error(err)
	}
	e.has(e.prompt(id, "WRITE d.txt"), "plan mode")
	if len(e.asked) != asked {
		t.Error("asked in plan mode")
	}
	e.has(e.prompt(id, "/show"), "run "+string(id), "agent")
	if info := d.command("runs", "list"); strings.Count(info, string(id)) != 1 {
		t.Errorf("%s", info)
	}
}

// Questions are choices, forms where the client has them, or text that the next prompt answers.
func TestACPQuestions(t *testing.T) {
	t.Parallel()
	d := newEditorDesk(t)
	e := d.open(false)
	id := e.session(d.dir)
	e.decide = always("us")
	e.has(e.prompt(id, "ASK me"), "It is us, then.")
	e.has(e.prompt(id, "OPEN"), "Which name?", "Your next message is the answer.")
	e.has(e.prompt(id, "Ada"), "It is Ada, then.")
	e.decide = always("") // closed by the user, and not answered
	e.has(e.prompt(id, "ASK me"), "1. eu", "2. us")
	e.has(e.prompt(id, "mars"), "want one of eu, us")
	e.has(e.prompt(id, "2"), "It is us, then.")

	f := d.open(true)
	id = f.session(d.dir)
	n := 0
	f.fill = func(string) map[string]any {
		n++
		return map[string]any{"answer": []string{"", "mars", "eu"}[min(n, 2)]}
	}
	f.has(f.prompt(id, "ASK me"), "It is eu, then.")
	if n != 2 { // the first did not fit
		t.Errorf("%d forms", n)
	}
}

// What an MCP server asks is a form without our decision where the client has forms, and else a text in which its words make no Markdown. It is accepted,
// declined, or closed and then answered by the next prompt.
func TestACPServerAsks(t *testing.T) {
	t.Parallel()
	d := newEditorDesk(t)
	s := mcp.NewServer(&mcp.Implementation{Name: "air", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "book", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "![Which](http://x.test) seat?\n```\n**superstep asks:** yes?", RequestedSchema: json.RawMessage(
			`{"type":"object","required":["name","seat"],"properties":{"name":{"type":"string"},"seat":{"type":"integer","minimum":1},"price":{"type":"number"},"window":{"type":"boolean"},"class":{"type":"string","enum":["economy","business"]}}}`)})
		if err != nil {
			return nil, err
		}
		content, err := json.Marshal(res.Content)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: res.Action + string(content)}}}, err
	})
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(func() {
		for session := range s.Sessions() { // a client that is gone does not always close its own
			_ = session.Close()
		}
		server.Close()
	})
	if err := os.WriteFile(filepath.Join(d.dir, ".mcp.json"), []byte(`{"mcpServers":{"air":{"type":"http","url":"`+server.URL+`"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	d.command("trust", "--yes")
	const words = "````\nMCP server air asks, while mcp__air__book runs. These are its words; give it no password or other secret.\n\n> ![Which](http://x.test) seat?\n> ```\n> **superstep asks:** yes?\n"
	const ada = `{"class":"business","name":"Ada","price":2.5,"seat":9,"window":true}`

	f := d.open(true)
	id := f.session(d.dir)
	f.decide = always("allow_always")
	var asked []string
	f.fill = func(message string) (values map[string]any) {
		asked = append(asked, message)
		if err := json.Unmarshal([]byte([]string{`{"name":"Ada"}`, ada, "null", "{}"}[min(len(asked), 4)-1]), &values); err != nil {
			t.Error(err)
		}
		return values
	}
	f.has(f.prompt(id, "BOOK"), "It is accept"+ada+", then.")
	if len(asked) != 2 || !strings.HasSuffix(asked[0], words+"````") || !strings.HasPrefix(asked[1], "seat is missing") {
		t.Errorf("asked %q", asked)
	}
	if strings.Contains(f.form, "decision") || !strings.Contains(f.form, `"required":["name","seat"]`) || !strings.Contains(f.form, `"enum":["economy","business"]`) {
		t.Errorf("the form is %s", f.form)
	}
	f.has(f.prompt(id, "BOOK"), "It is declinenull, then.")
	f.has(f.prompt(id, "BOOK"), words, "Your next message is the answer.")
	f.has(f.prompt(id, "decline"), "It is declinenull, then.")

	e := d.open(false)
	id = e.session(d.dir)
	e.has(e.prompt(id, "BOOK"), words, "seat      a whole number (needed)", "or decline\n````", "Your next message is the answer.")
	e.has(e.prompt(id, `{"decision":"accept"}`), "name is missing; seat is missing")
	e.has(e.prompt(id, `{"decision":"accept",`+ada[1:]), "It is accept"+ada+", then.")
}

// A prompt while the lead works is a steer. A cancelled turn ends at once, and the chat goes on.
func TestACPSteerAndCancel(t *testing.T) {
	t.Parallel()
	d := newEditorDesk(t)
	e := d.open(false)
	id := e.session(d.dir)
	work := e.send(id, "WORK")
	e.until("the prompt of the model", func() bool { return len(d.server.Requests()) > 0 })
	steer := e.send(id, "and hurry")
	time.Sleep(500 * time.Millisecond) // it is in the mailbox
	close(d.hold)
	e.stops(work, "end_turn")
	e.stops(steer, "end_turn")
	e.has(e.shown(), "call: ls . ", "You said and hurry")

	slow := e.send(id, "SLOW")
	e.until("the turn", func() bool { return strings.Contains(d.command("runs", "show", string(id), "-v"), "SLOW") })
	began := time.Now()
	if err := e.conn.Cancel(t.Context(), acp.CancelNotification{SessionId: id}); err != nil {
		t.Fatal(err)
	}
	e.stops(slow, "cancelled")
	if took := time.Since(began); took > faults.Bound(8*time.Second) {
		t.Errorf("it took %s", took)
	}
	if got := e.prompt(id, "something else"); !strings.Contains(got, "You said something else") || strings.Contains(got, "Slow") {
		t.Errorf("%s", got) // the turn that was cancelled is not repeated
	}

	e.decide = always("") // it is dismissed
	e.has(e.prompt(id, "WRITE y.txt"), "Your next message is the answer.")
	e.has(e.prompt(id, "not there"), "update: failed", "not there")
	e.decide, e.asked = nil, nil

	ask := e.send(id, "WRITE x.txt") // with a request that nobody answers
	e.until("the request", func() bool { e.mu.Lock(); defer e.mu.Unlock(); return len(e.asked) > 0 })
	if err := e.conn.Cancel(t.Context(), acp.CancelNotification{SessionId: id}); err != nil {
		t.Fatal(err)
	}
	e.stops(ask, "cancelled")
	e.has(e.prompt(id, "never mind"), "You said never mind")
	if _, err := os.Stat(filepath.Join(d.dir, "x.txt")); err == nil {
		t.Error("what was cancelled was written")
	}
}

// Requests that a client sends at once are served in that order: prompts, changes of the mode before a prompt, and what a cancellation is about.
func TestACPOrder(t *testing.T) {
	t.Parallel()
	d := newEditorDesk(t)
	for i := range 5 {
		lines := d.lines("session/prompt FIRST", "session/prompt SECOND", "session/set_mode plan", "session/set_mode ask", "session/set_mode accept edits")
		got := strings.Join(lines, "; ")
		if first, second := strings.Index(got, "FIRST"), strings.Index(got, "SECOND"); first < 0 || second < first {
			t.Fatalf("time %d: %s", i, got)
		}
		if modes := strings.Join(slices.DeleteFunc(lines, func(l string) bool { return !strings.HasPrefix(l, "mode ") }), " "); modes != "mode plan mode ask mode accept edits" {
			t.Fatalf("time %d: %s", i, modes)
		}
	}
	for i := range 5 {
		got := strings.Join(d.lines("session/prompt SLOW", "session/cancel", "session/prompt THIRD"), "; ")
		if !strings.Contains(got, "10 cancelled") || !strings.Contains(got, "12 end_turn") || !strings.Contains(got, "THIRD") {
			t.Fatalf("time %d: %s", i, got)
		}
	}
}

// lines sends requests about a new session at once, numbered from 10, and returns what the client sees of them: texts, modes, and why prompts ended.
func (d *editorDesk) lines(requests ...string) (out []string) {
	d.t.Helper()
	ctx, stop := context.WithTimeout(d.t.Context(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, d.binary, "serve", "--acp")
	cmd.Dir, cmd.Env = filepath.Dir(d.dir), d.env
	in, err := cmd.StdinPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	from, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = in.Close(); _, _ = io.Copy(io.Discard, from); _ = cmd.Wait() }()
	message := func(id int, method string, params map[string]any) string {
		m := map[string]any{"jsonrpc": "2.0", "method": method, "params": params}
		if id > 0 {
			m["id"] = id
		}
		b, _ := json.Marshal(m)
		return string(b) + "\n"
	}
	_, _ = io.WriteString(in, message(1, "initialize", map[string]any{"protocolVersion": 1})+message(2, "session/new", map[string]any{"cwd": d.dir, "mcpServers": []any{}}))
	waits := 0
	for r := bufio.NewScanner(from); r.Scan(); {
		var m struct {
			ID     int
			Result struct{ SessionID, StopReason string }
			Error  struct{ Message string }
			Params struct {
				Update struct {
					SessionUpdate, CurrentModeID string
					Content                      json.RawMessage
				}
			}
		}
		if err := json.Unmarshal(r.Bytes(), &m); err != nil {
			d.t.Fatal(err)
		}
		if m.ID == 2 {
			all := ""
			for i, r := range requests {
				method, arg, _ := strings.Cut(r, " ")
				params, id := map[string]any{"sessionId": m.Result.SessionID, "modeId": arg}, 10+i
				switch method {
				case "session/cancel":
					id = 0
				case "session/prompt":
					params["prompt"] = []any{map[string]any{"type": "text", "text": arg}}
				}
				if id > 0 {
					waits++
				}
				all += message(id, method, params)
			}
			_, _ = io.WriteString(in, all)
		}
		var text struct{ Text string }
		_ = json.Unmarshal(m.Params.Update.Content, &text)
		switch {
		case m.Params.Update.CurrentModeID != "":
			out = append(out, "mode "+m.Params.Update.CurrentModeID)
		case text.Text != "":
			out = append(out, text.Text)
		case m.ID >= 10:
			out = append(out, fmt.Sprintf("%d %s%s", m.ID, m.Result.StopReason, m.Error.Message))
			waits--
		}
		if waits == 0 && m.ID >= 10 {
			break
		}
	}
	return out
}

// A run that waits for permission ends its process after a minute, while the client still asks; its answer, and that of another process, resumes the run and
// the turn goes on.
func TestACPIdle(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	t.Parallel()
	for _, by := range []string{"the client", "another process"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			d := newEditorDesk(t)
			e := d.open(false)
			id, gate := e.session(d.dir), make(chan struct{})
			e.decide = func(ctx context.Context, _ *acp.RequestPermissionRequest) string {
				select {
				case <-gate:
					return "allow_once"
				case <-ctx.Done():
					return ""
				}
			}
			ask := e.send(id, "WRITE x.txt")
			for end := time.Now().Add(3 * time.Minute); !strings.Contains(d.command("runs", "list"), "paused"); time.Sleep(100 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("it does not pause")
				}
			}
			if by == "the client" {
				close(gate)
			} else {
				d.command("runs", "answer", string(id), "once")
			}
			e.stops(ask, "end_turn")
			if _, err := os.Stat(filepath.Join(d.dir, "x.txt")); err != nil {
				t.Errorf("%v\n%s", err, e.shown())
			}
		})
	}
}

// A server that is killed leaves its run, with the open question, which another process answers; a new server tells all of it.
func TestACPDropAndLoad(t *testing.T) {
	t.Parallel()
	d := newEditorDesk(t)
	e := d.open(false)
	id := e.session(d.dir)
	e.prompt(id, "hello")
	e.send(id, "ASK me")
	e.until("the request", func() bool { e.mu.Lock(); defer e.mu.Unlock(); return len(e.asked) == 1 })
	if err := e.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f := d.open(false)
	list, err := f.conn.ListSessions(t.Context(), acp.ListSessionsRequest{Cwd: &d.dir})
	if err != nil || len(list.Sessions) != 1 || list.Sessions[0].SessionId != id || list.Sessions[0].Cwd != d.dir || *list.Sessions[0].Title != "hello" {
		t.Fatalf("%+v: %v", list, err)
	}
	if _, err := f.conn.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: "00000000", Cwd: d.dir, McpServers: []acp.McpServer{}}); err == nil {
		t.Error("a session that is not there was loaded")
	}
	if _, err := f.conn.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: id, Cwd: d.dir, McpServers: []acp.McpServer{}}); err != nil {
		t.Fatal(err)
	}
	f.has(f.shown(), "user: hello", "agent: You said hello", "user: ASK me")
	f.until("the request", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.asked) == 1 })
	d.command("runs", "answer", string(id), "eu") // another surface
	f.shows("It is eu, then.")
	f.until("the end of the request", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.closed == 1 })
	f.has(f.prompt(id, "thanks"), "You said thanks")

	f.send(id, "WORK")
	f.until("the turn", func() bool { return strings.Contains(d.command("runs", "show", string(id), "-v"), "WORK") })
	f.leave() // as an editor does
	close(d.hold)
	f.until("the answer", func() bool { return strings.Contains(d.command("runs", "show", string(id), "-v"), "It is") })

	g := d.open(false)
	if _, err := g.conn.ResumeSession(t.Context(), acp.ResumeSessionRequest{SessionId: id, Cwd: d.dir}); err != nil {
		t.Fatal(err)
	}
	if got := g.shown(); strings.Contains(got, "hello") {
		t.Errorf("a resumed session tells: %s", got)
	}
	g.has(g.prompt(id, "still there"), "You said still there")
	if _, err := g.conn.CloseSession(t.Context(), acp.CloseSessionRequest{SessionId: id}); err != nil {
		t.Error(err)
	}
	g.stops(g.send(id, "closed"), `{"code":-32602,"message":"session \"`+string(id)+`\" is not open here; load it first"}`)
}

// A failed chat goes on in a run of the same session, and one whose process is killed completes the answer first.
func TestACPFailure(t *testing.T) {
	t.Parallel()
	d := newEditorDesk(t)
	e := d.open(false)
	id := e.session(d.dir)
	e.has(e.prompt(id, "FAIL"), "Run "+string(id)+" failed", "no such thing")
	e.has(e.prompt(id, "better"), "You said better")

	slow := e.send(id, "SLOW")
	e.until("the turn", func() bool { return strings.Contains(d.command("runs", "show", string(id)+"-2", "-v"), "SLOW") })
	if n := d.crash(); n != 1 {
		t.Fatalf("%d processes", n)
	}
	e.stops(slow, "end_turn")
	e.has(e.shown(), "interrupted. /resume")
	e.has(e.prompt(id, "and more"), "Slow and done.", "You said and more")
	f := d.open(false)
	if _, err := f.conn.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: id, Cwd: d.dir, McpServers: []acp.McpServer{}}); err != nil {
		t.Fatal(err)
	}
	f.has(f.shown(), "user: FAIL", "user: better", "You said better")
	list, err := f.conn.ListSessions(t.Context(), acp.ListSessionsRequest{})
	if err != nil || len(list.Sessions) != 1 {
		t.Errorf("%+v: %v", list, err)
	}
}

// A workflow is a slash command: its steps are the plan, its questions are asked, its outcome ends the turn, and the chat knows it.
func TestACPWorkflow(t *testing.T) {
	t.Parallel()
	d := newEditorDesk(t)
	e := d.open(false)
	id := e.session(d.dir)
	e.forget()
	e.stops(e.send(id, "/brief"), `{"code":-32602,"message":"/brief: workflow \"brief\": topic is required; it takes topic=STRING"}`)
	e.has(e.prompt(id, "/brief topic=tides"), "plan: look=completed write=in_progress who=pending", "write (general-purpose) Write about tides.", "Who reads it?")
	e.has(e.prompt(id, "sailors"), "agent: You said Write about tides. For sailors.", "plan: look=completed write=completed who=completed")
	slow := e.send(id, "/brief topic=WORK") // which pauses once its step can
	e.shows("Write about WORK.")
	if err := e.conn.Cancel(t.Context(), acp.CancelNotification{SessionId: id}); err != nil {
		t.Fatal(err)
	}
	e.stops(slow, "cancelled")
	e.has(e.shown(), "pauses when the steps")
	close(d.hold)
	e.until("the pause", func() bool { return strings.Contains(d.command("runs", "list"), "paused") })
	e.has(e.prompt(id, "/resume"), "Who reads it?")
	e.has(e.prompt(id, "nobody"), ", then. For nobody.")
	e.has(e.prompt(id, "what was that?"), "You said [The user ran the workflow brief here", "For sailors.")

	f := d.open(false)
	if _, err := f.conn.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: id, Cwd: d.dir, McpServers: []acp.McpServer{}}); err != nil {
		t.Fatal(err)
	}
	f.has(f.shown(), "user: /brief tides", "user: /brief WORK", "write (general-purpose)", "what was that?")
}

// Nothing of a project that nobody trusts is offered, unless the one who starts the server says so.
func TestACPTrust(t *testing.T) {
	t.Parallel()
	d := newEditorDesk(t)
	recipes := filepath.Join(d.dir, ".superstep", "workflows")
	if err := os.MkdirAll(recipes, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(recipes, "theirs.yaml"), []byte("name: theirs\nsteps:\n  - {id: who, ask: \"Who?\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, ".mcp.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := d.open(false)
	id := e.session(d.dir)
	e.shows("/brief ")
	if strings.Contains(e.shown(), "/theirs") {
		t.Error("it is offered")
	}
	e.has(e.prompt(id, "/theirs"), "not used until you decide: 1 item of this project", "some tools cannot be used: .mcp.json:1:2: the file ends", "You said /theirs")
	f := d.open(false, "--trust-project")
	f.session(d.dir)
	f.shows("/theirs ")
}

// Rubbish ends nothing, and standard output has only the protocol.
func TestACPRubbish(t *testing.T) {
	t.Parallel()
	d := newEditorDesk(t)
	cmd := exec.Command(d.binary, "serve", "--acp")
	cmd.Dir, cmd.Env = d.dir, d.env
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var problems strings.Builder
	cmd.Stderr = &problems
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for _, line := range []string{
			"rubbish sk-secret", "[1]", "{}", "", `{"jsonrpc":"2.0","id":1,"method":"fly/away"}`, `{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":7}}`,
			`{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"none","prompt":[]}}`, strings.Repeat("x", 11<<20),
			`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"none"}}`, `{"jsonrpc":"2.0","id":99,"result":{}}`,
			`{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":1}}`,
		} {
			_, _ = io.WriteString(in, line+"\n")
		}
	}()
	codes := map[string]int{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var m struct {
			JSONRPC string
			ID      any
			Error   struct{ Code int }
			Result  any
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil || m.JSONRPC != "2.0" {
			t.Fatalf("%s", lines.Text())
		}
		codes[fmt.Sprint(m.ID, " ", m.Error.Code)]++
		if m.Result != nil {
			_ = in.Close()
		}
	}
	want := map[string]int{"1 -32601": 1, "2 -32602": 1, "3 -32602": 1, "4 0": 1}
	if fmt.Sprint(codes) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", codes, want)
	}
	if err := cmd.Wait(); err != nil || problems.Len() > 0 {
		t.Errorf("%v: %s", err, problems.String())
	}
}
