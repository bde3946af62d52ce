package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/external"
	"github.com/superstep-dev/superstep/model"
)

// Limits of what one agent may send. What is longer is left out or cut, and an agent that sends more is ended.
const (
	mostSent  = 64 << 20 // bytes of updates between two steps, and in a session that is loaded
	mostSaid  = 2 << 20  // bytes of text between two steps, as of a turn of a model
	mostCall  = 1 << 20  // bytes of an update about a call whose arguments are used
	mostCalls = 10_000   // in a turn
	mostAsks  = 32       // permission requests at once
	mostPlan  = 64 << 10 // bytes
	mostTitle = 4 << 10  // bytes of a call's title, and of other names
	mostKinds = 20       // unknown kinds of updates that are told
	mostCost  = 1e6      // US dollars at once
	mostCount = 1e9      // tokens at once
)

// update hands an update to its session. It is decoded here and not by the SDK, which takes kinds that it does not know for others: what a compaction
// says would be a message of the user.
func (p *process) update(params json.RawMessage) {
	var in struct {
		SessionID string          `json:"sessionId"`
		Update    json.RawMessage `json:"update"`
	}
	var u struct {
		Kind    string          `json:"sessionUpdate"`
		Content content         `json:"content"`
		Entries json.RawMessage `json:"entries"`
		Meta    struct {
			Usage usage `json:"usage"` // of one call of the model, by Qwen Code
		} `json:"_meta"`
		Cost *struct {
			Amount   float64 `json:"amount"`
			Currency string  `json:"currency"`
		} `json:"cost"`
	}
	if json.Unmarshal(params, &in) != nil {
		return
	}
	s := p.session(in.SessionID)
	if s == nil {
		return
	}
	_ = json.Unmarshal(in.Update, &u) // the content of calls is a list; what does not fit is as if it were not there
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent += len(params); s.sent > mostSent {
		s.flooded()
		return
	}
	switch u.Kind {
	case "tool_call", "tool_call_update":
		s.seen(in.Update, false)
	case "available_commands_update", "current_mode_update", "config_option_update", "session_info_update":
	case "agent_message_chunk", "agent_thought_chunk":
		kind, text := eventText, u.Content.text()
		if u.Kind == "agent_thought_chunk" {
			kind = eventThought
		}
		if s.said += len(text); s.said > mostSaid && !s.loads {
			s.flooded()
		} else if text != "" {
			s.add(event{kind: kind, text: text})
		}
		if !s.loads {
			s.used = s.used.Add(model.Usage(u.Meta.Usage))
		}
	case "user_message_chunk":
		if s.loads {
			s.add(event{kind: eventUser, text: u.Content.text()})
		}
	case "plan":
		if len(u.Entries) <= mostPlan {
			s.add(event{kind: eventPlan, plan: u.Entries})
		}
	case "usage_update":
		if u.Cost == nil || u.Cost.Currency != "" && u.Cost.Currency != "USD" {
			return
		}
		delta := min(u.Cost.Amount-s.cost, mostCost)
		if s.based && delta > 0 && !s.loads { // it falls to zero after a cancellation
			s.add(event{kind: eventCost, cost: delta})
		}
		if u.Cost.Amount > s.cost || !s.based {
			s.cost, s.based = u.Cost.Amount, true
		}
	default:
		if kind := cut(u.Kind, 60); !s.told[kind] && len(s.told) < mostKinds {
			s.told[kind] = true
			s.add(event{kind: eventNote, text: fmt.Sprintf("%s sent an update of the unknown kind %q, which is not shown", p.cmd.Name, kind)})
		}
	}
}

// content is a block of content, or a part of a call's output.
type content struct {
	Type    string   `json:"type"`
	Text    string   `json:"text"`
	Content *content `json:"content"`
	Path    string   `json:"path"`
	Old     *string  `json:"oldText"`
	New     string   `json:"newText"`
	URI     string   `json:"uri"`
}

func (c *content) text() string {
	switch {
	case c == nil:
		return ""
	case c.Content != nil:
		return c.Content.text()
	case c.Type == "resource_link":
		return c.URI
	}
	return c.Text
}

// A call is a call of one of the agent's tools, as it is known so far.
type call struct {
	id      string
	ours    string // the tool of ours that it calls
	title   string
	kind    string
	status  string
	input   json.RawMessage
	output  json.RawMessage
	content []content
	printed strings.Builder // by a command, so far as it came in pieces
	paths   []string
	began   time.Time
	took    time.Duration
	shown   bool // as begun
	told    bool // to the loop
	ended   bool
}

// seen notes what an update or a permission request says about a call. The caller holds mu.
func (s *session) seen(raw json.RawMessage, asked bool) {
	var u struct {
		ID        string          `json:"toolCallId"`
		Title     *string         `json:"title"`
		Kind      *string         `json:"kind"`
		Status    *string         `json:"status"`
		Input     json.RawMessage `json:"rawInput"`
		Output    json.RawMessage `json:"rawOutput"`
		Content   *[]content      `json:"content"`
		Locations *[]struct {
			Path string `json:"path"`
		} `json:"locations"`
		Meta struct { // what Codex's commands print, as editors show it
			Printed struct {
				Data string `json:"data"`
			} `json:"terminal_output_delta"`
		} `json:"_meta"`
	}
	if json.Unmarshal(raw, &u) != nil || u.ID == "" || len(u.ID) > mostTitle {
		return
	}
	c := s.calls[u.ID]
	if c == nil {
		if len(s.calls) >= mostCalls && !s.loads {
			s.flooded()
			return
		}
		c = &call{id: u.ID, began: time.Now()}
		s.calls[u.ID] = c
	}
	if c.ended {
		return
	}
	set := func(to, from *string) {
		if from != nil && *from != "" {
			*to = cut(*from, mostTitle)
		}
	}
	if c.title == "" || c.kind == "other" || !c.shown {
		set(&c.title, u.Title)
	}
	set(&c.kind, u.Kind)
	set(&c.status, u.Status)
	if len(raw) > mostCall { // only its result is used
		u.Input, u.Locations = nil, nil
		if u.Content != nil {
			*u.Content = slices.DeleteFunc(*u.Content, func(d content) bool { return d.Type == "diff" })
		}
	}
	if len(bytes.TrimSpace(u.Input)) > 2 && !bytes.Equal(u.Input, []byte("null")) { // not {}
		c.input = u.Input
	}
	if len(u.Output) > 0 && !bytes.Equal(u.Output, []byte("null")) {
		c.output = u.Output
	}
	if c.printed.Len() < mostCall {
		c.printed.WriteString(u.Meta.Printed.Data)
	}
	over := c.status == "completed" || c.status == "failed"
	if u.Content != nil && (over || len(*u.Content) > 0) {
		c.content = *u.Content
	}
	if u.Locations != nil {
		c.paths = nil
		for _, l := range *u.Locations {
			c.paths = append(c.paths, l.Path)
		}
	}
	if c.ours == "" && !c.shown {
		c.ours = s.ours(c)
	}
	if c.kind != "" && c.kind != "other" || len(c.diffs()) > 0 {
		c.ours = "" // none of ours is a command or a change of a file to the agent, whatever its title
	}
	if c.ours != "" && !s.loads {
		if c.ended = over; !over || s.heard[c.ours] > 0 { // it is shown by the run, which performs it
			if over {
				s.heard[c.ours]--
			}
			return
		}
	}
	if !c.shown && (asked || over || c.status == "in_progress") { // what is pending may be half of it
		c.shown = true
		s.add(event{kind: eventCall, call: c})
	}
	if over {
		c.ended, c.took = true, time.Since(c.began)
		s.add(event{kind: eventResult, call: c})
	}
}

// named are characters that the name of a tool may have.
var named = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// external returns the call for the loop: under the name and with the arguments of our tool that does the same, so that the user's rules about it hold.
func (c *call) external(p *process) external.Call {
	out := external.Call{ID: c.id, Dir: p.dir}
	var in map[string]json.RawMessage
	_ = json.Unmarshal(c.input, &in) // what is no object has nothing that we know
	text := func(names ...string) string {
		for _, name := range names {
			var s string
			if json.Unmarshal(in[name], &s) == nil && s != "" {
				return s
			}
		}
		return ""
	}
	encode := func(v any) json.RawMessage {
		b, err := json.Marshal(v)
		if err != nil {
			return json.RawMessage("{}")
		}
		return b
	}
	diffs := c.diffs()
	paths := c.paths
	switch name := text("filePath", "file_path", "path", "filepath", "absolute_path"); {
	case len(diffs) == 1:
		paths = []string{diffs[0].Path}
	case name != "" && len(diffs) == 0 && len(paths) == 0:
		paths = []string{name}
	}
	one := ""
	if len(paths) == 1 && len(diffs) <= 1 {
		one = relative(p.dir, paths[0])
	}
	command := text("command", "cmd")
	if command == "" {
		var words []string
		if json.Unmarshal(in["command"], &words) == nil {
			command = strings.Join(words, " ")
			if len(words) == 3 && strings.HasSuffix(words[1], "c") && strings.HasPrefix(words[1], "-") { // bash -lc "…"
				command = words[2]
			}
		}
	}
	if c.kind == "execute" && c.input == nil && len(c.content) == 1 && strings.HasPrefix(c.content[0].text(), "[current working directory "+p.dir+"]") {
		command = c.title // of Gemini CLI, which shows the whole command so, and sends no input
	}
	switch {
	case c.kind == "execute" && command != "":
		out.Name, out.Args = "bash", encode(map[string]any{"command": command, "unsandboxed": true})
		if dir := text("workdir", "cwd", "directory"); dir != "" && relative(p.dir, dir) != "." {
			out.Name, out.Args = c.own(p), c.input // a rule about a command is about one in this folder
		}
	case c.kind == "edit" && one != "" && (text("oldString", "old_string") != "" || len(diffs) == 1 && diffs[0].Old != nil):
		old, now := text("oldString", "old_string"), text("newString", "new_string")
		if len(diffs) == 1 && diffs[0].Old != nil {
			old, now = changed(*diffs[0].Old, diffs[0].New)
		}
		out.Name, out.Args = "edit_file", encode(map[string]any{"path": one, "edits": []any{map[string]string{"old_string": old, "new_string": now}}})
	case c.kind == "edit" && one != "" && len(diffs) == 1:
		out.Name, out.Args = "write_file", encode(map[string]string{"path": one, "content": diffs[0].New})
	case c.kind == "edit" && one != "" && text("content") != "":
		out.Name, out.Args = "write_file", encode(map[string]string{"path": one, "content": text("content")})
	case c.kind == "read" && one != "":
		out.Name, out.Args = "read_file", encode(map[string]string{"path": one})
	case c.kind == "fetch" && text("url") != "":
		out.Name, out.Args = "web_fetch", encode(map[string]string{"url": text("url")})
	case len(in["todos"]) > 0 && todos(in["todos"]) != nil: // opencode and Qwen Code send no plan
		out.Name, out.Args = "todo", todos(in["todos"])
	default:
		out.Name, out.Args = c.own(p), c.input
	}
	if len(out.Args) == 0 || out.Args[0] != '{' {
		out.Args = encode(map[string]any{"title": c.title, "input": c.input, "paths": c.paths})
	}
	for _, d := range diffs {
		old := ""
		if d.Old != nil {
			old = *d.Old
		}
		out.New = out.New || d.Old == nil
		out.Diff += unified(relative(p.dir, d.Path), old, d.New)
	}
	return out
}

// own returns the name of a tool that is none of ours: the agent's, and what it calls the tool.
func (c *call) own(p *process) string {
	word, _, _ := strings.Cut(strings.TrimSpace(c.title), " ")
	if c.kind != "" && c.kind != "other" {
		word = c.kind
	}
	name := named.ReplaceAllString(p.cmd.Name+"_"+word, "-")
	return strings.TrimRight(name[:min(len(name), 64)], "-_")
}

func (c *call) diffs() []content {
	var out []content
	for _, d := range c.content {
		if d.Type == "diff" {
			out = append(out, d)
		}
	}
	return out
}

// result returns the end of a call for the loop.
func (c *call) result(dir string) external.Result {
	var texts []string
	for i := range c.content {
		d := &c.content[i]
		switch {
		case d.Type == "diff":
			old := ""
			if d.Old != nil {
				old = *d.Old
			}
			texts = append(texts, unified(relative(dir, d.Path), old, d.New))
		case d.text() != "":
			texts = append(texts, d.text())
		}
	}
	if c.printed.Len() > 0 {
		texts = append(texts, c.printed.String())
	}
	if len(texts) == 0 && len(c.output) > 0 {
		var out struct{ Output, Error, Stdout string }
		var text string
		switch {
		case json.Unmarshal(c.output, &text) == nil:
		case json.Unmarshal(c.output, &out) == nil && out.Output+out.Error+out.Stdout != "":
			text = out.Output + out.Stdout + out.Error
		default:
			text = string(c.output)
		}
		texts = append(texts, text)
	}
	text, _ := clean.Truncate(clean.Text(strings.Join(texts, "\n")))
	return external.Result{Call: c.id, Text: text, Error: c.status == "failed", Took: c.took.Milliseconds()}
}

// relative returns a path as our tools name it, relative to the folder where it is within.
func relative(dir, path string) string {
	if !filepath.IsAbs(path) {
		return filepath.ToSlash(filepath.Clean(path))
	}
	rel, err := filepath.Rel(dir, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return path
	}
	return filepath.ToSlash(rel)
}
