package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/host"
)

// newAsking is a project with a server that asks the user.
func newAsking(t *testing.T) *workshop {
	t.Helper()
	w := newSite(t)
	s := sdk.NewServer(&sdk.Implementation{Name: "asking", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "book", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		res, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Which \x1b[31mseat?", RequestedSchema: json.RawMessage(
			`{"type":"object","required":["seat"],"properties":{"seat":{"type":"integer","minimum":1},"window":{"type":"boolean"}}}`)})
		if err != nil {
			return nil, err
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint("BOOKED ", res.Action, " ", res.Content["seat"])}}}, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "plan", Description: "Plans", Arguments: []*sdk.PromptArgument{{Name: "trip", Required: true}}}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: r.Params.Arguments["trip"]}}}}, nil
	})
	server := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(server.Close)
	plant(t, w.dir, map[string]string{".mcp.json": fmt.Sprintf(`{"mcpServers":{"asking":{"type":"http","url":%q}}}`, server.URL)})
	if code, _, errs := w.run("trust", "--yes"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	return w
}

// What a server asks during a call is a question of the run: answered ahead, from another process, or declined where nobody is asked. A replay repeats it.
func TestServerAsks(t *testing.T) {
	w := newAsking(t)
	run := []string{"run", "agent", `STEPS [["mcp__asking__book",{}]]`, "--allow", "mcp__asking__*"}
	replays := func() {
		t.Helper()
		if code, out, errs := w.run("runs", "replay", "@last"); code != 0 {
			t.Errorf("replay: exit code %d\n%s%s", code, out, errs)
		}
	}
	done := make(chan string, 1)
	go func() {
		code, out, errs := w.run(append(run, "--on-ask", "wait")...)
		done <- fmt.Sprintf("%d\n%s%s", code, out, errs)
	}()
	var shown, errs string
	for deadline := time.Now().Add(time.Minute); !strings.Contains(shown, "> Which seat?"); time.Sleep(50 * time.Millisecond) {
		if _, shown, errs = w.run("runs", "show", "@last"); time.Now().After(deadline) {
			t.Fatalf("no question: %s%s", shown, errs)
		}
	}
	if want := "MCP server asking asks, while mcp__asking__book runs"; !strings.Contains(shown, want) {
		t.Errorf("the run lacks %q:\n%s", want, shown)
	}
	if code, out, errs := w.run("runs", "answer", "@last", `work/mcp__asking__book[1.1]={"decision":"accept"}`); code == 0 || !strings.Contains(errs, "seat") {
		t.Errorf("an answer that does not fit: exit code %d\n%s%s", code, out, errs)
	}
	if code, out, errs := w.run("runs", "answer", "@last", `work/mcp__asking__book[1.1]={"decision":"accept","seat":9}`); code != 0 {
		t.Errorf("the answer: exit code %d\n%s%s", code, out, errs)
	}
	if got := <-done; !strings.HasPrefix(got, "0\n") || !strings.Contains(got, "BOOKED accept 9") {
		t.Errorf("answered from another process: %s", got)
	}
	replays()

	code, out, errs := w.run(run...)
	if code != 0 || !strings.Contains(out, "BOOKED decline") || !strings.Contains(errs, "nobody can be asked here: Which seat?") {
		t.Errorf("with nobody to ask: exit code %d\n%s%s", code, out, errs)
	}
	replays()
	const ahead = `work/mcp__asking__book[1.1]={"decision":"accept","seat":7}`
	if code, out, errs = w.run(append(run, "--on-ask", "wait", "--answer", ahead)...); code != 0 || !strings.Contains(out, "BOOKED accept 7") {
		t.Errorf("answered ahead: exit code %d\n%s%s", code, out, errs)
	}
	replays()
}

// The prompt of a server is a text to send, which cannot address anybody else.
func TestServerPrompt(t *testing.T) {
	w := newAsking(t)
	h, err := host.Open(t.Context(), &host.Config{Dir: w.dir, Env: func(name string) string { return w.env[name] }})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, arg, want string }{
		{"", "", "/mcp__asking__plan TRIP  Plans"}, {"mcp__asking__plan", "to Rome", "mcp__asking__plan: to Rome"}, {"mcp__asking__plan", "@linter go", "mcp__asking__plan: @linter go"},
		{"mcp__asking__plan", "", "mcp__asking__plan needs trip: mcp__asking__plan TRIP"}, {"mcp__asking__plam", "x", `did you mean "mcp__asking__plan"`}, {"mcp__none__x", "", "no usable MCP server has a prompt"},
	} {
		text, err := h.Prompt(t.Context(), c.name, strings.Split(c.arg, "|")[:min(1, len(c.arg))]...)
		if err != nil {
			text = err.Error()
		}
		if text != c.want && (err == nil || !strings.Contains(text, c.want)) {
			t.Errorf("%s %s gave %q, want %q", c.name, c.arg, text, c.want)
		}
	}
}

// A file of servers that cannot be read is told of on one line where a run begins, and fails nothing.
func TestBrokenServers(t *testing.T) {
	w := newSite(t)
	plant(t, w.dir, map[string]string{".mcp.json": `{"mcpServers": {"a": {"command": }}`, ".vscode/mcp.json": `[]`})
	if code, _, errs := w.run("trust", "--yes"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	const want = "some tools cannot be used: .mcp.json:1:34: not JSON: invalid character '}' looking for beginning of value (and 1 more); superstep tools list shows what is wrong\n"
	if code, out, errs := w.run("run", "agent", "hi"); code != 0 || strings.Count(errs, want) != 1 || strings.Contains(out, "cannot be used") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if code, _, errs := w.run("run", "agent", "hi", "--quiet"); code != 0 || strings.Contains(errs, "cannot be used") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}
