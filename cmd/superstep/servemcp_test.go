//go:build unix

package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/internal/faults"
)

// Recipes of the user that need no model.
var servedRecipes = map[string]string{
	"notes": `name: notes
description: Asks who reads, and lists the notes
inputs: [{name: topic, required: true}]
steps:
  - {id: files, tool: glob, args: {pattern: "*.md"}}
  - {id: reader, ask: {question: "Who reads about {{inputs.topic}}?", options: [engineers, managers]}, depends_on: [files]}
  - {id: show, tool: glob, args: {pattern: "*.md"}, gate: {message: "Go on?"}, depends_on: [reader]}
output: {text: "{{inputs.topic}} for {{steps.reader.output}}"}
`,
	"writes": `name: writes
steps:
  - {id: first, tool: write_file, args: {path: one.txt, content: "first line"}}
  - {id: second, tool: write_file, args: {path: two.txt, content: "second line"}, depends_on: [first]}
output: {text: done}
`,
	"asky": `name: asky
steps:
  - {id: style, ask: {question: "Which tone?", form: [{name: tone}, {name: pages, type: integer}]}}
  - {id: say, value: "1 + 1", gate: {message: "Say it?"}, depends_on: [style]}
output: {text: "{{steps.style.output.tone}} {{steps.style.output.pages}}"}
`,
	"quick": `name: quick
inputs: [{name: n, type: integer, default: 1}]
steps: [{id: files, tool: glob, args: {pattern: "*.md"}}]
output: {text: "n {{inputs.n}}"}
`,
}

// A mcpServed is the built command, serving workflows of a user.
type mcpServed struct {
	t         *testing.T
	binary    string
	dir, data string
	env       []string

	mu       sync.Mutex
	progress []string
	asked    []string
	action   string // of the client's user
	decision string // of the client's user at gates
}

func newMCPServed(t *testing.T, binary string) *mcpServed {
	t.Helper()
	home := t.TempDir()
	s := &mcpServed{t: t, binary: binary, dir: t.TempDir(), data: filepath.Join(home, "data")}
	s.env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SUPERSTEP_") || strings.HasPrefix(v, "XDG_") }),
		"HOME="+home, "SUPERSTEP_DATA_DIR="+s.data)
	flows := filepath.Join(home, ".config", "superstep", "workflows")
	if err := os.MkdirAll(flows, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range servedRecipes {
		if err := os.WriteFile(filepath.Join(flows, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, "a.md"), []byte("a note\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(s.dir, ".superstep", "workflows"), 0o700); err != nil {
		t.Fatal(err)
	}
	untrusted := strings.Replace(servedRecipes["quick"], "quick", "sneaky", 1)
	if err := os.WriteFile(filepath.Join(s.dir, ".superstep", "workflows", "sneaky.yaml"), []byte(untrusted), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *mcpServed) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.binary, args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	return cmd
}

// run runs the command to its end.
func (s *mcpServed) run(args ...string) string {
	s.t.Helper()
	out, err := s.command(args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return string(out)
}

// connect connects a client whose user does the action, if that is not "".
func (s *mcpServed) connect(version, action string, transport sdk.Transport) *sdk.ClientSession {
	s.t.Helper()
	s.mu.Lock()
	s.action = action
	s.mu.Unlock()
	opt := &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.progress = append(s.progress, r.Params.Message)
	}}
	if action != "" {
		opt.ElicitationHandler = func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.asked = append(s.asked, r.Params.Message)
			content := map[string]any{}
			if strings.Contains(r.Params.Message, "Go on with step") && s.action == "accept" {
				content["decision"] = s.decision
			} else if strings.Contains(r.Params.Message, "Which tone?") && s.action == "accept" {
				content["tone"], content["pages"] = "plain", 3
			}
			action := s.action
			if schema, _ := json.Marshal(r.Params.RequestedSchema); len(content) == 0 && strings.Contains(string(schema), `"required":[`) && action == "accept" {
				action = "cancel" // the user does not know
			}
			return &sdk.ElicitResult{Action: action, Content: content}, nil
		}
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, opt)
	cs, err := client.Connect(s.t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cs.Close() })
	return cs
}

// http starts a server on a free port, and returns its transport, for a client that says that it is an agent if so.
func (s *mcpServed) http(isAgent bool) sdk.Transport {
	s.t.Helper()
	cmd := s.command("serve", "--mcp", "--workflows", "--http", "127.0.0.1:0", "-o", "json")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	var at struct{ URL, Token string }
	if err != nil || json.Unmarshal([]byte(line), &at) != nil {
		s.t.Fatalf("%v: %s", err, line)
	}
	return &sdk.StreamableClientTransport{Endpoint: at.URL, HTTPClient: &http.Client{Transport: headed{at.Token, isAgent}}}
}

type headed struct {
	token   string
	isAgent bool
}

func (h headed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+h.token)
	if h.isAgent {
		r.Header.Set("Superstep-Agent", "1")
	}
	return http.DefaultTransport.RoundTrip(r)
}

type mcpRun struct {
	Run, Status, Error, Next string
	Output                   struct{ Text string }
	Failed                   []string
	Questions                []struct {
		Question, Kind, Text, Command string
		Options                       []string
	}
}

func (s *mcpServed) call(cs *sdk.ClientSession, name string, args any, meta ...string) (out mcpRun, fault string) {
	s.t.Helper()
	params := &sdk.CallToolParams{Name: name, Arguments: args, Meta: sdk.Meta{"progressToken": "p"}}
	if len(meta) > 0 {
		params.Meta["superstep.dev/idempotency-key"] = meta[0]
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	res, err := cs.CallTool(ctx, params)
	if err != nil {
		return out, err.Error()
	}
	text := ""
	if len(res.Content) > 0 {
		text = res.Content[0].(*sdk.TextContent).Text
	}
	if res.StructuredContent == nil {
		return out, text
	}
	b, _ := json.Marshal(res.StructuredContent)
	if err := json.Unmarshal(b, &out); err != nil || !json.Valid([]byte(text)) {
		s.t.Fatalf("%v: %s", err, text)
	}
	if res.IsError {
		fault = text
	}
	return out, fault
}

// The official client drives the built command.
func TestServeMCP(t *testing.T) {
	binary := faults.Failpoints(t)
	for _, c := range []struct {
		name string
		test func(*testing.T, *mcpServed)
	}{
		{"workflows", serveWorkflows},
		{"permission is not the model's", servePermission},
		{"gates are the user's", serveGates},
		{"files are those of agents", serveFiles},
		{"killed", serveKilled},
		{"agents are refused", serveRefusesAgents},
		{"tools ask the user", serveToolsElicit},
		{"what waits does not count", serveWaiting},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, newMCPServed(t, binary))
		})
	}
}

// Runs that wait for an answer keep no client from starting others.
func serveWaiting(t *testing.T, s *mcpServed) {
	cs := s.connect("", "decline", &sdk.CommandTransport{Command: s.command("serve", "--mcp", "--workflows")})
	for n := range 17 {
		out, fault := s.call(cs, "asky", nil)
		if fault != "" || out.Status != "waiting" {
			t.Fatalf("%d: %+v %s", n+1, out, fault)
		}
		defer func() { _, _ = s.call(cs, "run_cancel", map[string]any{"run": out.Run}) }()
	}
}

func serveWorkflows(t *testing.T, s *mcpServed) {
	stdio := func() sdk.Transport {
		return &sdk.CommandTransport{Command: s.command("serve", "--mcp", "--workflows")}
	}
	for _, c := range []struct {
		name, version string
		transport     func() sdk.Transport
	}{
		{"stdio", "", stdio}, {"stdio of before", "2025-11-25", stdio}, {"http", "", func() sdk.Transport { return s.http(false) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.t = t
			t.Cleanup(func() { _ = os.Remove(filepath.Join(s.dir, "one.txt")); _ = os.Remove(filepath.Join(s.dir, "two.txt")) })
			s.serves(c.version, c.transport())
		})
	}
}

func (s *mcpServed) serves(version string, transport sdk.Transport) {
	t := s.t
	s.asked = nil
	cs := s.connect(version, "accept", transport)
	list, err := cs.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if schema, _ := json.Marshal(tool.InputSchema); tool.Name == "notes" && (!strings.Contains(string(schema), `"required":["topic"]`) || tool.Description == "") {
			t.Errorf("%s: %s", tool.Description, schema)
		}
	}
	for _, want := range []string{"notes", "writes", "quick", "research", "agent", "answer", "run_status", "run_resume", "run_cancel"} {
		if !slices.Contains(names, want) {
			t.Errorf("no tool %s in %q", want, names)
		}
	}
	if slices.Contains(names, "sneaky") || slices.Contains(names, "read_file") {
		t.Errorf("%q", names)
	}
	if _, fault := s.call(cs, "sneaky", nil); fault == "" {
		t.Error("a recipe that is not trusted runs")
	}
	if _, fault := s.call(cs, "notes", map[string]any{"topc": "x"}); !strings.Contains(fault, "topic is required") || !strings.Contains(fault, "topc") {
		t.Error(fault)
	}

	// A question, an answer that does not fit, the answer, a gate, the end.
	out, fault := s.call(cs, "notes", map[string]any{"topic": "leases"})
	if fault != "" || out.Status != "waiting" || len(out.Questions) != 1 {
		t.Fatalf("%+v %s", out, fault)
	}
	q := out.Questions[0]
	if q.Kind != "ask" || !strings.Contains(q.Text, "Who reads about leases?") || !slices.Equal(q.Options, []string{"engineers", "managers"}) ||
		!strings.Contains(q.Command, "runs answer") || !strings.Contains(q.Command, out.Run) {
		t.Errorf("%+v", q)
	}
	run := out.Run
	if _, fault := s.call(cs, "answer", map[string]any{"run": run, "answer": "cats"}); !strings.Contains(fault, "engineers") {
		t.Error(fault)
	}
	if _, fault := s.call(cs, "answer", map[string]any{"run": run, "question": "nobody", "answer": "cats"}); !strings.Contains(fault, q.Question) {
		t.Error(fault)
	}
	if _, fault := s.call(cs, "run_resume", map[string]any{"run": run}); !strings.Contains(fault, "executes already") {
		t.Error(fault)
	}
	s.mu.Lock()
	s.decision = "approve"
	s.mu.Unlock()
	out, fault = s.call(cs, "answer", map[string]any{"run": run, "question": q.Question, "answer": "managers"})
	if fault != "" || out.Status != "completed" || out.Output.Text != "leases for managers" {
		t.Fatalf("%+v %s", out, fault)
	}
	if _, fault = s.call(cs, "answer", map[string]any{"run": run, "answer": "approve"}); !strings.Contains(fault, "asks nothing") {
		t.Error(fault)
	}
	s.mu.Lock()
	if all := strings.Join(s.progress, "\n"); !strings.Contains(all, "run "+run+": step 2 of 3, reader") {
		t.Errorf("progress: %s", all)
	}
	s.mu.Unlock()

	// Resources.
	resources, err := cs.ListResources(t.Context(), nil)
	if err != nil || len(resources.Resources) == 0 || !slices.ContainsFunc(resources.Resources, func(r *sdk.Resource) bool { return r.URI == "superstep://runs/"+run }) {
		t.Fatalf("%v %+v", err, resources)
	}
	read, err := cs.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "superstep://runs/" + run})
	if err != nil || !strings.Contains(read.Contents[0].Text, `"status":"completed"`) || !strings.Contains(read.Contents[0].Text, `"steps":[`) {
		t.Errorf("%v %+v", err, read)
	}
	s.run("run", "quick") // somebody's own
	var own []struct{ ID string }
	if err := json.Unmarshal([]byte(s.run("runs", "list", "-o", "json", "--limit", "1")), &own); err != nil || len(own) != 1 {
		t.Fatal(err)
	}
	if _, err := cs.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "superstep://runs/" + own[0].ID}); err == nil {
		t.Error("the run of somebody else is read")
	}
	for _, name := range []string{"answer", "run_status", "run_resume", "run_cancel"} {
		if _, fault := s.call(cs, name, map[string]any{"run": own[0].ID}); !strings.Contains(fault, "no run") {
			t.Errorf("%s of the run of somebody else: %s", name, fault)
		}
	}

	// The same call is the same run, and other inputs are another.
	one, _ := s.call(cs, "quick", map[string]any{"n": 7}, "k")
	two, _ := s.call(cs, "quick", map[string]any{"n": 7}, "k")
	three, _ := s.call(cs, "quick", map[string]any{"n": 8}, "k")
	four, _ := s.call(cs, "quick", map[string]any{"n": 7})
	if one.Run != two.Run || one.Run == three.Run || one.Run == four.Run || two.Output.Text != "n 7" {
		t.Errorf("%+v %+v %+v %+v", one, two, three, four)
	}

	// Permission comes from the user of the client, who sees what is written.
	s.mu.Lock()
	s.asked = nil
	s.mu.Unlock()
	if out, fault = s.call(cs, "writes", nil); fault != "" || out.Status != "completed" {
		t.Fatalf("%+v %s", out, fault)
	}
	s.mu.Lock()
	if len(s.asked) != 2 || !strings.Contains(s.asked[0], "one.txt") || !strings.Contains(s.asked[0], "+first line") || !strings.Contains(s.asked[1], "+second line") {
		t.Errorf("asked: %q", s.asked)
	}
	s.asked, s.action = nil, "decline"
	s.mu.Unlock()
	if b, err := os.ReadFile(filepath.Join(s.dir, "two.txt")); string(b) != "second line" {
		t.Errorf("%q %v", b, err)
	}
	_ = os.Remove(filepath.Join(s.dir, "one.txt"))
	if out, fault = s.call(cs, "writes", nil); out.Status != "partial" || !slices.Equal(out.Failed, []string{"first", "second"}) {
		t.Errorf("%+v %s", out, fault)
	}
	s.mu.Lock()
	s.action = "cancel"
	s.mu.Unlock()
	if out, _ = s.call(cs, "writes", nil); out.Status != "waiting" || out.Questions[0].Kind != "permission" {
		t.Errorf("%+v", out)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "one.txt")); err == nil {
		t.Error("what was declined happened")
	}
	if out, fault = s.call(cs, "run_cancel", map[string]any{"run": out.Run}); fault != "" || out.Status != "cancelled" {
		t.Errorf("%+v %s", out, fault)
	}
}

// A model does not permit anything; a person elsewhere does.
func servePermission(t *testing.T, s *mcpServed) {
	cs := s.connect("", "", &sdk.CommandTransport{Command: s.command("serve", "--mcp", "--workflows")})
	out, _ := s.call(cs, "writes", nil)
	if out.Status != "waiting" || len(out.Questions) != 1 || out.Questions[0].Kind != "permission" || !strings.Contains(out.Next, "the user has to answer, not a model") {
		t.Fatalf("%+v", out)
	}
	s.outlive(out.Run)
	for _, value := range []any{"once", "always", map[string]any{"decision": "once"}} {
		if _, fault := s.call(cs, "answer", map[string]any{"run": out.Run, "question": out.Questions[0].Question, "answer": value}); !strings.Contains(fault, "not a model") {
			t.Errorf("%v: %s", value, fault)
		}
	}
	s.run("runs", "answer", out.Run, "once")
	again, _ := s.call(cs, "run_status", map[string]any{"run": out.Run, "wait": true})
	if again.Status != "waiting" || again.Questions[0].Question == out.Questions[0].Question {
		t.Errorf("%+v", again)
	}
	s.run("runs", "answer", out.Run, "once")
	if again, _ = s.call(cs, "run_status", map[string]any{"run": out.Run, "wait": true}); again.Status != "completed" {
		t.Errorf("%+v", again)
	}
}

// What a model names in the inputs of research is read and written as far as agents may do so; what the user names is.
func serveFiles(t *testing.T, s *mcpServed) {
	outside := t.TempDir()
	for _, dir := range []string{filepath.Join(s.dir, "docs"), outside} {
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "a.md"), []byte("# Canary\n\nThe canary lives in the mine.\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	hook := filepath.Join(s.dir, ".git", "hooks", "pre-commit")
	if err := os.MkdirAll(filepath.Dir(hook), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(s.dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, rule, docs, report, want string // want is of the fault, "" for none
	}{
		{"documents of the project", "", "docs", "", ""},
		{"documents outside", "", outside, "", "lies outside"},
		{"documents through a link", "", "link", "", "lies outside"},
		{"a report", "", "docs", "brief.md", "nobody has allowed"},
		{"a report that a rule allows", "write_file(*.md)", "docs", "brief.md", ""},
		{"a hook", "write_file(**)", "docs", hook, "nobody has allowed"},
		{"a report outside", "write_file(**)", "docs", filepath.Join(outside, "brief.md"), "nobody has allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := []string{"serve", "--mcp", "--workflows"}
			if c.rule != "" {
				args = append(args, "--allow="+c.rule)
			}
			cs := s.connect("", "", &sdk.CommandTransport{Command: s.command(args...)})
			out, fault := s.call(cs, "research", map[string]any{"question": "Where does the canary live?", "docs": c.docs, "report": c.report, "model": "offline"})
			if c.want == "" && (fault != "" || !strings.Contains(out.Output.Text, "The canary lives in the mine.")) || !strings.Contains(fault+out.Error, c.want) {
				t.Errorf("%+v %s", out, fault)
			}
			file := c.report
			if !filepath.IsAbs(file) {
				file = filepath.Join(s.dir, file)
			}
			if _, err := os.Stat(file); c.report != "" && (c.want == "") != (err == nil) {
				t.Errorf("the report is there: %v", err)
			}
			if _, fault := s.call(cs, "research", map[string]any{"question": "Where?", "docs": outside, "model": "offline", "guest": false}); !strings.Contains(fault, "guest") {
				t.Error(fault)
			}
		})
	}
	s.t = t
	s.run("run", "research", "Where does the canary live?", "--docs", outside, "--report", filepath.Join(outside, "mine.md"), "--model", "offline")
	if _, err := os.Stat(filepath.Join(outside, "mine.md")); err != nil {
		t.Error(err)
	}
	const step = "name: r\nsteps:\n  - {id: a, workflow: research, inputs: {question: \"Where does the canary live?\", docs: DOCS, model: offline}}\n"
	for docs, want := range map[string]string{"docs": "The canary lives in the mine.", outside: "lies outside"} {
		if err := os.WriteFile(filepath.Join(s.dir, "r.yaml"), []byte(strings.Replace(step, "DOCS", docs, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, _ := s.command("run", "r.yaml", "--trust-project").CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("as a step, of %s: %s", docs, out)
		}
	}
}

// A run survives its client and its server. A run whose process was killed is resumed.
func serveKilled(t *testing.T, s *mcpServed) {
	server := s.command("serve", "--mcp", "--workflows")
	cs := s.connect("", "", &sdk.CommandTransport{Command: server})
	out, fault := s.call(cs, "notes", map[string]any{"topic": "leases"})
	if fault != "" {
		t.Fatal(fault)
	}
	s.outlive(out.Run)
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cs.Wait()

	cs = s.connect("", "", &sdk.CommandTransport{Command: s.command("serve", "--mcp", "--workflows")})
	after, fault := s.call(cs, "run_status", map[string]any{"run": out.Run})
	if fault != "" || after.Status != "waiting" || len(after.Questions) != 1 {
		t.Fatalf("%+v %s", after, fault)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(s.processes(out.Run)))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for { // until the hold of the dead process has ended
		after, fault = s.call(cs, "run_resume", map[string]any{"run": out.Run})
		if !strings.Contains(fault, "executes already") || time.Now().After(deadline) {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	if fault != "" || after.Status != "waiting" || len(after.Questions) != 1 {
		t.Fatalf("%+v %s", after, fault)
	}
	if after, fault = s.call(cs, "answer", map[string]any{"run": out.Run, "answer": "engineers"}); fault != "" || after.Questions[0].Kind != "gate" {
		t.Fatalf("%+v %s", after, fault)
	}
	s.run("runs", "answer", out.Run, "approve")
	if after, fault = s.call(cs, "run_status", map[string]any{"run": out.Run, "wait": true}); fault != "" || after.Output.Text != "leases for engineers" {
		t.Fatalf("%+v %s", after, fault)
	}
}

// A gate is for the user of the client, or for another person, and no model passes it.
func serveGates(t *testing.T, s *mcpServed) {
	for _, version := range []string{"", "2025-11-25"} {
		for _, c := range []struct{ action, decision, status, text string }{
			{"accept", "approve", "completed", "plain 3"}, {"accept", "reject", "failed", ""}, {"decline", "", "waiting", ""}, {"cancel", "", "waiting", ""},
		} {
			cs := s.connect(version, c.action, &sdk.CommandTransport{Command: s.command("serve", "--mcp", "--workflows")})
			s.mu.Lock()
			s.asked, s.decision = nil, c.decision
			s.mu.Unlock()
			out, fault := s.call(cs, "asky", nil)
			s.outlive(out.Run)
			if out.Status != c.status || out.Output.Text != c.text {
				t.Errorf("%q %+v: %+v %s", version, c, out, fault)
			}
			s.mu.Lock()
			asked := strings.Join(s.asked, "\n")
			s.mu.Unlock()
			if !strings.Contains(asked, "Which tone?") || strings.Contains(asked, "Say it?") != (c.action == "accept") {
				t.Errorf("%q %+v: asked %q", version, c, asked)
			}
			if c.action == "decline" { // a declined form is a question that is still open; a declined gate is rejected
				if out, fault = s.call(cs, "answer", map[string]any{"run": out.Run, "answer": map[string]any{"tone": "plain", "pages": 3}}); out.Status != "failed" {
					t.Errorf("%q: the declined gate: %+v %s", version, out, fault)
				}
			} else if c.status == "waiting" {
				_, _ = s.call(cs, "run_cancel", map[string]any{"run": out.Run})
			}
			_ = cs.Close()
		}
	}
	cs := s.connect("", "", &sdk.CommandTransport{Command: s.command("serve", "--mcp", "--workflows")})
	out, _ := s.call(cs, "asky", nil)
	s.outlive(out.Run)
	out, fault := s.call(cs, "answer", map[string]any{"run": out.Run, "answer": map[string]any{"tone": "plain", "pages": 3}})
	if out.Status != "waiting" || out.Questions[0].Kind != "gate" || !strings.Contains(out.Next, "not a model") {
		t.Fatalf("%+v %s", out, fault)
	}
	for _, value := range []any{"approve", "y", "edit: x", map[string]any{"decision": "approve"}} {
		if _, fault := s.call(cs, "answer", map[string]any{"run": out.Run, "question": out.Questions[0].Question, "answer": value}); !strings.Contains(fault, "not a model") {
			t.Errorf("%v: %s", value, fault)
		}
	}
	for _, args := range [][]string{{"runs", "answer", out.Run, "approve"}, {"runs", "resume", out.Run, "--answer", "say=approve"}} {
		nested := s.command(args...)
		nested.Env = append(nested.Env, "SUPERSTEP_GROUP=XYZ")
		if said, err := nested.CombinedOutput(); nested.ProcessState.ExitCode() != 6 || !strings.Contains(string(said), "answers no questions") {
			t.Errorf("an agent: %q: %v: %s", args, err, said)
		}
	}
	s.run("runs", "answer", out.Run, "approve")
	if out, fault = s.call(cs, "run_status", map[string]any{"run": out.Run, "wait": true}); out.Status != "completed" {
		t.Errorf("%+v %s", out, fault)
	}
}

// processes returns the IDs of processes that execute a run.
func (s *mcpServed) processes(run string) string {
	out, _ := exec.Command("pgrep", "-f", "^"+s.binary+" run [a-z]+ .*--run-id="+run).Output()
	return string(out)
}

// outlive has the test end after the process of a run, which writes to its folder to the last.
func (s *mcpServed) outlive(run string) {
	s.t.Cleanup(func() {
		for until := time.Now().Add(time.Minute); s.processes(run) != "" && time.Now().Before(until); {
			time.Sleep(20 * time.Millisecond)
		}
	})
}

// An agent that works in a run gets no workflow: not by a server that it starts, and not by one that listens.
func serveRefusesAgents(t *testing.T, s *mcpServed) {
	cmd := s.command("serve", "--mcp", "--workflows")
	cmd.Env = append(cmd.Env, "SUPERSTEP_GROUP=XYZ") // as commands, tools, servers and external agents have it
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 6 || !strings.Contains(string(out), "delegation is one level deep") {
		t.Errorf("%v: %s", err, out)
	}
	b, err := os.ReadFile(s.binary)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "superstep"), b, 0o700)
	}
	const inside = "name: inside\nsteps: [{id: serve, tool: bash, args: {command: \"./superstep serve --mcp --workflows < /dev/null 2>&1 || true\"}}]\n"
	if err = errors.Join(err, os.WriteFile(filepath.Join(s.dir, "inside.yaml"), []byte(inside), 0o600)); err != nil {
		t.Fatal(err)
	}
	if out := s.run("run", "inside.yaml", "--allow", "bash"); !strings.Contains(out, "delegation is one level deep") {
		t.Errorf("within a run: %s", out)
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	if cs, err := client.Connect(t.Context(), s.http(true), nil); err == nil {
		_, err = cs.CallTool(t.Context(), &sdk.CallToolParams{Name: "quick"})
		if err == nil || !strings.Contains(err.Error(), "delegation is one level deep") {
			t.Errorf("%v", err)
		}
	}
}

// Plain tools that a rule asks about are decided on by the user of the client.
func serveToolsElicit(t *testing.T, s *mcpServed) {
	for _, version := range []string{"", "2025-11-25"} {
		for action, happens := range map[string]bool{"accept": true, "decline": false, "cancel": false, "": false} {
			cs := s.connect(version, action, &sdk.CommandTransport{Command: s.command("serve", "--mcp", "--deny", "write_file(secret.txt)")})
			s.asked = nil
			res, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: "write_file", Arguments: map[string]any{"path": "made.txt", "content": "by hand"}})
			if err != nil || res.IsError == happens {
				t.Errorf("%s %q: %v %+v", version, action, err, res.Content[0])
			}
			if len(s.asked) > 0 != (action != "") || action != "" && !strings.Contains(s.asked[0], "+by hand") {
				t.Errorf("%s %q: asked %q", version, action, s.asked)
			}
			if err := os.Remove(filepath.Join(s.dir, "made.txt")); err == nil != happens {
				t.Errorf("%s %q: %v", version, action, err)
			}
			s.asked = nil
			res, err = cs.CallTool(t.Context(), &sdk.CallToolParams{Name: "write_file", Arguments: map[string]any{"path": "secret.txt", "content": "x"}})
			if err != nil || !res.IsError || s.asked != nil {
				t.Errorf("what is denied: %v %+v %q", err, res, s.asked)
			}
			_ = cs.Close()
		}
	}
}
