package acpserve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"hash/fnv"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

const (
	mostResult = 16 << 10    // bytes of the result of a tool that the client gets
	started    = "(started)" // stands for the message that began a workflow, see expect
)

// A painter turns the changes of a run into updates for the client. The text of the lead of a chat streams; of other tasks the client sees the tools, and
// their last text when it is complete. The session's mutex guards it.
type painter struct {
	session  *session
	id       string
	feed     transcript.Feed
	mute     bool              // the client knows what is told
	replay   bool              // old records are told
	expected map[string]int    // messages of the client, which are not told to it
	calls    map[string]uint64 // those that the client knows, and a hash of what it was told last
	streamed string            // of the lead's turn, as far as its parts have not come
	thought  string            // the same of its reasoning
	spoke    bool              // the last update was text of the lead
	plan     []byte            // as it was sent last
	usage    sdk.SessionUsageUpdate
	begun    bool
	closed   string // what was said about its end
	told     bool   // the chat is told of its outcome
}

func newPainter(x *session, id string) *painter {
	return &painter{session: x, id: id, expected: map[string]int{}, calls: map[string]uint64{}}
}

// expect keeps a message of the client from being told to it when it is in the log. The caller holds mu.
func (p *painter) expect(text string) {
	if text != "" {
		p.expected[transcript.Clean(text)]++
	}
}

func (v *view) expects(text string) {
	v.painter.session.mu.Lock()
	defer v.painter.session.mu.Unlock()
	v.expect(text)
}

func (p *painter) send(update any) {
	if !p.mute {
		p.session.send(update)
	}
	p.spoke = false
}

// user tells what a user said, unless it is from this client.
func (p *painter) user(text, shown string) {
	if text = transcript.Clean(text); p.expected[text] > 0 {
		p.expected[text]--
		return
	}
	p.send(sdk.UpdateUserMessageText(shown))
}

// speak tells text of the lead.
func (p *painter) speak(text string, fresh bool) {
	if text == "" {
		return
	}
	if fresh && p.spoke {
		text = "\n\n" + text
	}
	p.send(sdk.UpdateAgentMessageText(text))
	p.spoke = true
}

// paint tells what has changed. Rec is the record that did it, nil for none.
func (p *painter) paint(r *transcript.Run, rec *runlog.Record) {
	chat := r.Workflow == chatWorkflow
	if !p.begun && r.Status != "" {
		p.begun = true
		p.start(r, chat)
	}
	if rec != nil && rec.Seq == 0 && chat && rec.Kind == runlog.KindEvent && lead(rec.Path) {
		p.think(rec)
	}
	for _, c := range p.feed.Next(r) {
		switch {
		case c.Type == "tail":
			if chat && lead(c.Path) && (c.Text != "" || c.At == 0) {
				p.tail(c.At == 0, c.Text)
			}
		case c.Part != nil:
			p.part(c.Part, chat && lead(c.Part.Task))
		case c.Task != nil && !chat && c.Task.Depth == 0:
			p.task(c.Task)
		case c.Question != nil && c.Question.Answered:
			p.answered(c.Question)
		}
	}
	p.entries(r, chat)
	p.spent(r)
}

// lead reports whether a task of a chat is that of its lead.
func lead(path string) bool { return transcript.Top(path) == "work" && !strings.Contains(path, "/") }

// start tells how the run began.
func (p *painter) start(r *transcript.Run, chat bool) {
	var in struct{ Prompt string }
	if chat && json.Unmarshal(r.Inputs, &in) == nil {
		p.user(in.Prompt, transcript.Clean(in.Prompt))
	} else {
		p.user(started, strings.TrimSpace("/"+r.Workflow+" "+r.Title))
	}
}

// think tells reasoning while it is heard.
func (p *painter) think(rec *runlog.Record) {
	var e runlog.Event
	var delta struct{ Text string }
	if json.Unmarshal(rec.Data, &e) == nil && e.Name == "reasoning" && json.Unmarshal(e.Data, &delta) == nil && delta.Text != "" {
		p.thought += transcript.Clean(delta.Text)
		p.send(sdk.UpdateAgentThoughtText(transcript.Clean(delta.Text)))
	}
}

// tail tells text while it is heard.
func (p *painter) tail(fresh bool, text string) {
	if fresh {
		p.streamed = ""
	}
	p.speak(text, fresh)
	p.streamed += text
}

// whole tells what is new of a complete text of which some may have been told.
func whole(told *string, text string) string {
	switch {
	case strings.HasPrefix(*told, text):
		*told = (*told)[len(text):]
		return ""
	case strings.HasPrefix(text, *told):
		text = text[len(*told):]
	}
	*told = ""
	return text
}

// callID returns the ID of a tool call, or with key "" of a task.
func (p *painter) callID(path, key string) string { return p.id + ":" + path + ":" + key }

// An update of a tool call. Fields that are not set are not changed.
type call struct {
	SessionUpdate string                 `json:"sessionUpdate,omitempty"`
	ID            string                 `json:"toolCallId"`
	Title         string                 `json:"title,omitempty"`
	Kind          sdk.ToolKind           `json:"kind,omitempty"`
	Status        sdk.ToolCallStatus     `json:"status,omitempty"`
	Content       []sdk.ToolCallContent  `json:"content,omitempty"`
	Locations     []sdk.ToolCallLocation `json:"locations,omitempty"`
	RawInput      json.RawMessage        `json:"rawInput,omitempty"`
	Meta          map[string]any         `json:"_meta,omitempty"`
}

// tell sends a tool call, or its update if the client knows it, unless that says nothing new.
func (p *painter) tell(c *call) {
	c.Meta = meta(p.id)
	h := fnv.New64a()
	_ = json.NewEncoder(h).Encode(c) // it is made of what JSON has
	was, known := p.calls[c.ID]
	if p.calls[c.ID] = h.Sum64(); known && was == h.Sum64() {
		return
	}
	if c.SessionUpdate = "tool_call"; known {
		c.SessionUpdate = "tool_call_update"
	}
	p.send(c)
}

// knows reports whether the client knows a call.
func (p *painter) knows(id string) bool {
	_, known := p.calls[id]
	return known
}

// task tells the state of a step of a workflow.
func (p *painter) task(t *transcript.TaskView) {
	c := &call{ID: p.callID(t.Path, ""), Title: t.Label, Kind: sdk.ToolKindOther, Status: status(t.State)}
	if n := len(t.Agents); n > 0 {
		c.Title = strings.TrimSpace(t.Label + " (" + t.Agents[n-1].Name + ") " + t.Agents[n-1].Title)
	}
	if t.Queued {
		c.Status = sdk.ToolCallStatusPending
	}
	if why := cmp.Or(t.Error, t.Why); why != "" {
		c.Content = []sdk.ToolCallContent{sdk.ToolContent(sdk.TextBlock(why))}
	}
	p.tell(c)
}

func status(s transcript.State) sdk.ToolCallStatus {
	switch s {
	case transcript.Running, transcript.Waiting:
		return sdk.ToolCallStatusInProgress
	case transcript.Failed, transcript.Stopped:
		return sdk.ToolCallStatusFailed
	}
	return sdk.ToolCallStatusCompleted
}

// part tells a part of a task.
func (p *painter) part(v *transcript.PartView, lead bool) {
	switch v.Kind {
	case transcript.Text:
		if lead {
			p.speak(whole(&p.streamed, v.Text), true)
		} else if id := p.callID(v.Task, ""); p.knows(id) {
			p.tell(&call{ID: id, Content: []sdk.ToolCallContent{sdk.ToolContent(sdk.TextBlock(v.Text))}})
		}
	case transcript.Reasoning:
		if text := whole(&p.thought, v.Text); lead && text != "" {
			p.send(sdk.UpdateAgentThoughtText(text))
		}
	case transcript.ToolUse:
		if v.Tool != "todo" {
			p.tool(v, lead)
		}
	case transcript.Note:
		if text, is := strings.CutPrefix(v.Text, "a user says: "); is {
			p.user(text, text)
			return
		}
		p.send(sdk.UpdateAgentThoughtText(v.Text + "\n"))
	case transcript.Retry, transcript.Failure, transcript.Compacted:
		p.send(sdk.UpdateAgentThoughtText(strings.TrimPrefix((&transcript.Task{Path: v.Task}).Label()+": ", "work: ") + v.Text + "\n"))
	}
}

// tool tells a tool call.
func (p *painter) tool(v *transcript.PartView, lead bool) {
	c := p.about(v.Tool, v.Arg, v.Input, p.session.dir)
	if !lead {
		c.Title = (&transcript.Task{Path: v.Task}).Label() + ": " + c.Title
	}
	c.ID, c.Status = p.callID(v.Task, v.Key), status(v.State)
	if result := strings.TrimSpace(v.Result); result != "" && (c.Content == nil || v.State == transcript.Failed) {
		if len(result) > mostResult {
			result = strings.ToValidUTF8(result[:mostResult], "") + "\n…"
		}
		c.Content = []sdk.ToolCallContent{sdk.ToolContent(sdk.TextBlock(fenced(result)))}
	}
	p.tell(c)
}

// fenced returns a text as a block of code.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + text + "\n" + fence
}

// about describes a call of a tool: what it is, where, and what it changes.
func (p *painter) about(name, arg string, input json.RawMessage, dir string) *call {
	kinds := map[string]sdk.ToolKind{
		"bash": sdk.ToolKindExecute, "read_file": sdk.ToolKindRead, "edit_file": sdk.ToolKindEdit, "write_file": sdk.ToolKindEdit, "ls": sdk.ToolKindSearch,
		"glob": sdk.ToolKindSearch, "grep": sdk.ToolKindSearch, "search_docs": sdk.ToolKindSearch, "web_search": sdk.ToolKindSearch,
		"web_fetch": sdk.ToolKindFetch, "think": sdk.ToolKindThink,
	}
	c := &call{Title: strings.TrimSpace(name + " " + arg), Kind: cmp.Or(kinds[name], sdk.ToolKindOther), RawInput: input}
	if name == "bash" {
		c.Title = arg
	}
	var in struct {
		Path    string
		Content *string
		Edits   []struct {
			Old string `json:"old_string"`
			New string `json:"new_string"`
		}
	}
	if json.Unmarshal(input, &in) != nil || in.Path == "" || kinds[name] == "" {
		return c
	}
	path := in.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	c.Locations = []sdk.ToolCallLocation{{Path: path}}
	for _, e := range in.Edits {
		c.Content = append(c.Content, sdk.ToolDiffContent(path, e.New, e.Old))
	}
	if name == "write_file" && in.Content != nil {
		c.Content = []sdk.ToolCallContent{sdk.ToolDiffContent(path, *in.Content)}
	}
	return c
}

// answered tells what became of a question.
func (p *painter) answered(q *transcript.Question) {
	switch {
	case q.Kind == runlog.QuestionMessage:
		p.user(q.Answer, q.Answer)
	case q.Call != nil && (q.Denied || strings.HasPrefix(q.Answer, "deny")):
		if id := p.asks(q); p.knows(id) {
			p.tell(&call{ID: id, Status: sdk.ToolCallStatusFailed})
		}
	}
}

// asks returns the ID of the call that a permission request is about.
func (p *painter) asks(q *transcript.Question) string {
	return p.callID(q.Path, strings.TrimPrefix(q.Key, "permit/"))
}

// entries tells the plan: the tasks of the agents, or else the steps of a workflow.
func (p *painter) entries(r *transcript.Run, chat bool) {
	entries := []sdk.PlanEntry{}
	add := func(text string, s sdk.PlanEntryStatus) {
		entries = append(entries, sdk.PlanEntry{Content: text, Status: s, Priority: sdk.PlanEntryPriorityMedium})
	}
	for _, t := range r.Tasks {
		for _, d := range t.Todos {
			s := sdk.PlanEntryStatusPending
			switch d.Status {
			case "completed", "error":
				s = sdk.PlanEntryStatusCompleted
			case "in_progress":
				s = sdk.PlanEntryStatusInProgress
			}
			add(d.Content, s)
		}
	}
	if len(entries) == 0 && !chat && len(r.Nodes) > 1 {
		for _, n := range r.Nodes {
			s := sdk.PlanEntryStatusPending
			for _, t := range r.Tasks {
				if t.Parent == nil && t.Node == n && s != sdk.PlanEntryStatusInProgress {
					if s = sdk.PlanEntryStatusCompleted; !t.Ended() {
						s = sdk.PlanEntryStatusInProgress
					}
				}
			}
			add(n, s)
		}
	}
	plan, err := json.Marshal(entries)
	if err != nil || bytes.Equal(plan, p.plan) || len(entries) == 0 && p.plan == nil {
		return
	}
	p.plan = plan
	p.send(sdk.UpdatePlan(entries...))
}

// spent tells what the run has used, and how full the window of its last agent is.
func (p *painter) spent(r *transcript.Run) {
	var u sdk.SessionUsageUpdate
	for _, a := range slices.Backward(r.Agents) {
		if u.Used, u.Size = a.Used, max(a.Window, a.Used); u.Used > 0 {
			break
		}
	}
	if c := r.Cost(); c != nil && r.Spent.Tokens > 0 {
		u.Cost = &sdk.Cost{Amount: float64(c.Micros) / 1e6, Currency: "USD"}
	}
	if u.Used == 0 || u.Used == p.usage.Used && u.Size == p.usage.Size && (u.Cost == nil || p.usage.Cost != nil && *u.Cost == *p.usage.Cost) {
		return
	}
	p.usage = u
	spoke := p.spoke
	p.send(sdk.SessionUpdate{UsageUpdate: &u})
	p.spoke = spoke
}

var hunk = regexp.MustCompile(`^@@ .* @@`)

// diffs returns the hunks of a unified diff, each as the text before and after.
func diffs(path, unified string) (out []sdk.ToolCallContent) {
	var before, after strings.Builder
	flush := func() {
		if before.Len()+after.Len() > 0 {
			out = append(out, sdk.ToolDiffContent(path, after.String(), before.String()))
		}
		before.Reset()
		after.Reset()
	}
	inside := false
	for line := range strings.Lines(unified) {
		switch {
		case hunk.MatchString(line):
			flush()
			inside = true
		case !inside:
		case line[0] == '+':
			after.WriteString(line[1:])
		case line[0] == '-':
			before.WriteString(line[1:])
		case line[0] == ' ':
			before.WriteString(line[1:])
			after.WriteString(line[1:])
		}
	}
	flush()
	return out
}
