package acptest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
)

// words is the handler of a model server for agents of other programs. What it says follows from the last message of the user, so that a conversation
// can begin anywhere in it.
func words(req *modeltest.ParsedRequest) modeltest.Reply {
	last := len(req.Messages) - 1
	for last > 0 && req.Messages[last].Role != model.User {
		last--
	}
	said, results := "", 0
	if last >= 0 {
		said = req.Messages[last].Text()
		results = len(req.Messages) - 1 - last
	}
	has := func(name string) bool {
		return slices.ContainsFunc(req.Tools, func(t model.ToolSpec) bool { return t.Name == name })
	}
	call := func(name string, args map[string]any) modeltest.Reply {
		b, _ := json.Marshal(args) // of strings and numbers, never fails
		r := modeltest.Call(name, string(b))
		r.Parts[0].Call.ID = fmt.Sprintf("call_%d_%d", last, results)
		return r
	}
	shell := func(command string, outside bool) modeltest.Reply {
		switch {
		case has("bash"): // opencode
			return call("bash", map[string]any{"command": command, "description": "make it"})
		case has("run_shell_command"): // Qwen Code, Gemini CLI
			return call("run_shell_command", map[string]any{"command": command, "description": "make it", "is_background": false})
		case outside: // of the sandbox of Codex
			return call("exec_command", map[string]any{"cmd": command, "sandbox_permissions": "require_escalated", "justification": "May I make it?"})
		}
		return call("exec_command", map[string]any{"cmd": command})
	}
	ours := func(name string) string { // as the vendor names a tool of Superstep's MCP server, "" for none
		i := slices.IndexFunc(req.Tools, func(t model.ToolSpec) bool {
			return strings.Contains(t.Name, "superstep") && strings.HasSuffix(t.Name, "_"+name)
		})
		if i < 0 {
			return ""
		}
		return req.Tools[i].Name
	}
	_, path, _ := strings.Cut(said, "edit ")
	path, _, _ = strings.Cut(path, "\n")
	reply := modeltest.Text(fmt.Sprintf("Ready, after %d results.", results))
	switch {
	case len(req.Tools) == 0:
		reply = modeltest.Text("A title")
	case strings.Contains(said, "denied this"): // some send what was said before, too
		reply = modeltest.Text("I left it.")
	case strings.Contains(said, "make it again: bash") && results == 0: // what was allowed when nobody could hear it
		reply = shell("echo hi > made.txt", true)
	case strings.Contains(said, "You were interrupted"), strings.Contains(said, "attempt at this was interrupted"): // in a new session
		reply = modeltest.Text("It goes on.")
	case strings.Contains(said, "endless"):
		return modeltest.Reply{Parts: []model.Part{{Kind: model.Text, Text: "word "}}, Fault: modeltest.Infinite, At: 1, Pause: 300 * time.Millisecond} // Gemini CLI ends what it takes for a loop
	case strings.Contains(said, "which tools"):
		var names []string
		for _, t := range req.Tools {
			names = append(names, t.Name)
		}
		slices.Sort(names)
		reply = modeltest.Text(strings.Join(names, " "))
	case strings.Contains(said, "use both") && results == 0:
		reply = call(ours("look"), map[string]any{"at": "x"})
		two := call(ours("make"), map[string]any{"at": "x"})
		two.Parts[0].Call.ID += "_2"
		reply.Parts = append(reply.Parts, two.Parts...)
	case results == 1 && strings.Contains(said, "edit ") && has("ask_user_question"): // Qwen Code has read the file
		reply = call("edit", map[string]any{"file_path": path, "old_string": "two", "new_string": "2"})
	case results > 0:
	case strings.Contains(said, "make it"), strings.Contains(said, "run: "):
		command := "echo hi > made.txt"
		if _, named, is := strings.Cut(said, "run: "); is {
			command, _, _ = strings.Cut(named, "\n")
		}
		reply = shell(command, strings.Contains(said, "make it"))
	case strings.Contains(said, "plan it"):
		todo := map[string]any{"status": "in_progress"}
		switch {
		case has("todowrite"): // opencode
			todo["content"], todo["priority"] = "look", "high"
			reply = call("todowrite", map[string]any{"todos": []any{todo}})
		case has("write_todos"): // Gemini CLI
			todo["description"] = "look"
			reply = call("write_todos", map[string]any{"todos": []any{todo}})
		}
	case strings.Contains(said, "delegate"):
		switch args := map[string]any{"description": "a task", "prompt": "make it"}; {
		case has("task"): // opencode
			args["subagent_type"] = "general"
			reply = call("task", args)
		case has("agent"): // Qwen Code
			args["subagent_type"] = "general-purpose"
			reply = call("agent", args)
		case has("invoke_agent"): // Gemini CLI
			reply = call("invoke_agent", map[string]any{"agent_name": "generalist", "prompt": "make it"})
		default:
			reply = modeltest.Text("There is no tool for sub-agents.")
		}
	case strings.Contains(said, "edit "):
		switch {
		case has("exec_command"): // Codex
			reply = call("exec_command", map[string]any{"cmd": "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: " + path + "\n@@\n one\n-two\n+2\n*** End Patch\nEOF"})
		case has("replace"): // Gemini CLI
			reply = call("replace", map[string]any{"file_path": path, "old_string": "two", "new_string": "2", "instruction": "edit it"})
		case has("ask_user_question"): // Qwen Code
			reply = call("read_file", map[string]any{"file_path": path})
		case has("edit"): // opencode
			reply = call("edit", map[string]any{"filePath": path, "oldString": "two", "newString": "2"})
		}
	}
	if results == 0 && len(req.Tools) > 0 {
		reply.Parts = append([]model.Part{{Kind: model.Reasoning, Text: "I look first."}}, reply.Parts...)
	}
	reply.Parts = append(reply.Parts, model.Part{Kind: model.UsagePart, Usage: &model.Usage{In: 100, Out: 20}})
	return reply
}

// lenient is the wire of a model server that takes what the vendors' own programs send, as far as words needs it.
type lenient struct{ modeltest.Wire }

// Parse implements [modeltest.Wire].
func (lenient) Parse(r *http.Request, body []byte) (*modeltest.ParsedRequest, error) {
	var in struct {
		Model           string
		Messages, Input []spoken
		Contents        []spoken
		Tools           []struct {
			Name      string
			Function  struct{ Name string }
			Functions []struct{ Name string } `json:"functionDeclarations"`
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL, err)
	}
	req := &modeltest.ParsedRequest{Model: in.Model}
	for _, t := range in.Tools {
		names := append(t.Functions, struct{ Name string }{t.Name}, struct{ Name string }{t.Function.Name})
		for _, n := range names {
			if n.Name != "" {
				req.Tools = append(req.Tools, model.ToolSpec{Name: n.Name})
			}
		}
	}
	for _, m := range slices.Concat(in.Messages, in.Input, in.Contents) {
		switch text, result := m.text(); {
		case result || m.Role == "tool" || strings.HasSuffix(m.Type, "_output"):
			req.Messages = append(req.Messages, model.ToolResult(model.Call{ID: "c", Name: "t"}, text, false))
		case m.Role == "user":
			req.Messages = append(req.Messages, model.UserText(text))
		}
	}
	return req, nil
}

// spoken is a message, an item or a content.
type spoken struct {
	Role, Type string
	Content    json.RawMessage
	Parts      json.RawMessage
}

func (s *spoken) text() (text string, result bool) {
	if json.Unmarshal(s.Content, &text) == nil {
		return text, false
	}
	var parts []struct {
		Text     string
		Response json.RawMessage `json:"functionResponse"`
	}
	_ = json.Unmarshal(append(s.Content, s.Parts...), &parts) // one of them is there
	for _, p := range parts {
		text += p.Text
		result = result || p.Response != nil
	}
	return text, result
}

// NewWords starts a model server for agents of other programs, which speaks a protocol and says words, and is closed when the test ends.
func NewWords(t testing.TB, wire modeltest.Wire) *modeltest.Server {
	return modeltest.NewServer(t, words, &modeltest.Options{Wire: lenient{wire}})
}
