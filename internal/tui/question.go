package tui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// kindOfQuestion returns the kind of a question, and derives it in older logs that do not record it.
func kindOfQuestion(q *runlog.Question) runlog.QuestionKind {
	switch _, unknown := q.Unknown(); {
	case q.Kind != "":
		return q.Kind
	case agent.Permission(q):
		return runlog.QuestionPermission
	case unknown:
		return runlog.QuestionUnknown
	case (q.Key == "gate" || strings.HasPrefix(q.Key, "gate-") || strings.HasPrefix(q.Key, "gate/")) && gated(q):
		return runlog.QuestionGate
	}
	return runlog.QuestionAsk
}

// A choice is an answer that is offered at the terminal.
type choice struct {
	key    int    // what to type for it; the same for each kind of question, whatever else is offered
	answer string // "" if it cannot be chosen
	name   string
	note   string // what comes of it, or why it cannot be chosen
	why    bool   // a reason is asked for
}

// menu returns the choices of a question. That of refusing is always 4, with a reason 5.
func menu(q *runlog.Question) []choice {
	var out []choice
	switch kindOfQuestion(q) {
	case runlog.QuestionPermission:
		like, kept := "", ""
		if q.Call != nil {
			like, kept = "exactly this call again, by all agents of this run", "not available: "+noAlways(q.Call)
			if rule := transcript.Line(q.Call.Always); rule != "" {
				like = "and every " + rule + " by all agents of this run, without asking"
				kept = "not available: rules are not saved here"
				if slices.Contains(q.Options, agent.AnswerAlways) {
					kept = "and every " + rule + " in this project from now on, without asking; saved"
				}
			}
		}
		out = []choice{
			{key: 1, answer: agent.AnswerOnce, name: "once", note: "only this call"},
			{key: 2, answer: agent.AnswerRun, name: "this run", note: like},
			{key: 3, answer: agent.AnswerAlways, name: "always", note: kept},
			{key: 4, answer: agent.AnswerDeny, name: "deny"},
			{key: 5, answer: agent.AnswerDeny, name: "deny and say why", why: true},
		}
		if !slices.Contains(q.Options, agent.AnswerAlways) {
			out[2].answer = ""
			if q.Call == nil {
				out[2].note = "not available"
			}
		}
	case runlog.QuestionGate:
		edit := choice{key: 2, name: "edit", note: "not available: there is nothing to edit"}
		if slices.Contains(q.Options, "edit: …") {
			edit.answer, edit.note = "edit: …", "go on with another text"
		}
		out = []choice{
			{key: 1, answer: "approve", name: "approve"}, edit, {key: 4, answer: "reject", name: "reject"},
			{key: 5, answer: "reject", name: "reject and say why", why: true},
		}
	default:
		for i, o := range q.Options {
			c := choice{key: i + 1, answer: o, name: transcript.Line(o)}
			c.note = transcript.Line(q.About[o])
			if isDefault(q, o) {
				c.note = strings.TrimLeft(c.note+" (default)", " ")
			}
			out = append(out, c)
		}
	}
	return out
}

// isDefault reports whether an option is the default of a question, or one of several.
func isDefault(q *runlog.Question, option string) bool {
	var all []string
	if q.Several() && json.Unmarshal(q.Default, &all) == nil {
		return slices.Contains(all, option)
	}
	return len(q.Default) > 0 && transcript.Value(q.Default) == transcript.Clean(option)
}

// several returns the list of an answer that chooses several options: by number or in full, with commas between.
func several(q *runlog.Question, answer string) (json.RawMessage, error) {
	var list []string
	parts := strings.Split(answer, ",")
	switch {
	case json.Unmarshal([]byte(answer), &list) == nil:
		parts = nil
	case slices.Contains(q.Options, answer):
		parts = []string{answer}
	}
	for _, part := range parts {
		part = strings.TrimSpace(part)
		n, err := strconv.Atoi(part)
		if err == nil && n >= 1 && n <= len(q.Options) && !slices.Contains(q.Options, part) {
			part = q.Options[n-1]
		}
		list = append(list, part)
	}
	v, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	if q.Fits(v) != nil {
		return nil, fmt.Errorf("want one or more of %s, with commas between, each once; got %s", strings.Join(q.Options, ", "),
			strconv.Quote(transcript.Line(answer)))
	}
	return v, nil
}

// headed returns the text of a question after its header.
func headed(header, question string) string {
	if header == "" {
		return question
	}
	return header + ": " + question
}

// noAlways returns why no rule can allow a call and its like.
func noAlways(c *runlog.QuestionCall) string {
	if len(c.Parts) > 1 {
		return "no one rule allows every part of this"
	}
	return "this is asked about each time"
}

// wants describes the action that needs permission, as the rest of a sentence.
func wants(c *runlog.QuestionCall) string {
	subject := transcript.Line(c.Subject)
	switch {
	case c.Tool == "bash":
		return "wants to run a command"
	case c.Tool == "write_file" && c.New:
		return "wants to make the file " + subject
	case c.Tool == "write_file":
		return "wants to replace the file " + subject
	case c.Tool == "edit_file":
		return "wants to edit " + subject
	case c.Tool == "web_fetch":
		return "wants to fetch " + subject
	}
	return "wants to call " + transcript.Line(c.Tool)
}

// because returns why a call is asked about, as a sentence.
func because(rule, origin, reason string) string {
	if rule == "" {
		return transcript.Line(reason)
	}
	from := map[string]string{
		"user": "your configuration", "project": "the configuration of the project", "agent": "the definition of the agent",
		"run": "the flags or answers of this run",
	}[origin]
	s := "the rule " + transcript.Line(rule)
	if from != "" {
		s += " (from " + from + ")"
	}
	if reason = transcript.Line(reason); reason == "" || strings.HasPrefix(reason, "ask by the rule ") {
		return s + " asks about it"
	}
	return s + ": " + reason
}

// card describes a permission request: the full action, the folder, and the reason for asking. It shows fold lines of a long change, or all if fold is
// 0; folded is the number of hidden lines.
func card(c *runlog.QuestionCall, pal Palette, fold int) (lines []string, folded int) {
	body, notes := content(c, pal)
	style := styleOf(c, pal)
	for i, line := range body {
		if fold > 0 && i >= fold && len(body)-i > 1 {
			folded = len(body) - i
			lines = append(lines, pal.Dim(fmt.Sprintf("    … %d more lines", folded)))
			break
		}
		lines = append(lines, "    "+style(line)(line))
	}
	for _, line := range notes {
		lines = append(lines, "    "+line)
	}
	if c.Cwd != "" {
		lines = append(lines, "  in "+transcript.Line(c.Cwd))
	}
	if len(c.Parts) > 0 {
		lines = append(lines, "  its parts:")
		for _, line := range parts(c, pal) {
			lines = append(lines, "    "+line)
		}
	}
	if why := because(c.Rule, c.Origin, c.Reason); why != "" {
		lines = append(lines, "  asked because: "+why)
	}
	return lines, folded
}

// content returns the full action of a call, without style, and what has to be said about it.
func content(c *runlog.QuestionCall, pal Palette) (body, notes []string) {
	full := func(text string) {
		text = strings.ReplaceAll(transcript.Clean(text), "\t", "    ")
		body = strings.Split(strings.TrimRight(text, "\n"), "\n")
	}
	note := func(s string) { notes = append(notes, pal.Yellow(s)) }
	switch {
	case c.Fails != "":
		notes = append(notes, pal.Yellow("as things are it will fail: ")+transcript.Line(c.Fails))
	case c.Diff != "":
		full(c.Diff)
		if c.Larger > 0 {
			note(fmt.Sprintf("and %d more lines, which are too long to be kept here", c.Larger))
		}
		if hidden(c.Diff) {
			note("it has characters that are not shown")
		}
	case c.Tool == "write_file" || c.Tool == "edit_file":
		full(string(c.Args))
	default:
		text := inFull(c)
		full(text)
		if c.Tool != "bash" && hidden(text) { // of a command the reason says so
			note("it has characters that are not shown")
		}
	}
	return body, notes
}

// styleOf returns the style of each line of the content of a call.
func styleOf(c *runlog.QuestionCall, pal Palette) func(line string) func(string) string {
	plain := func(s string) string { return s }
	return func(line string) func(string) string {
		switch {
		case c.Diff == "" || c.Fails != "":
		case strings.HasPrefix(line, "+"):
			return pal.Green
		case strings.HasPrefix(line, "-"):
			return pal.Red
		}
		return plain
	}
}

// parts describes the parts of a command: which are allowed, and why the others are asked about.
func parts(c *runlog.QuestionCall, pal Palette) []string {
	var out []string
	for _, p := range c.Parts {
		if p.Allowed {
			out = append(out, pal.Green("✓")+" "+transcript.Line(p.Text)+pal.Dim("  "+allowedBy(&p)))
		} else {
			out = append(out, pal.Yellow("?")+" "+transcript.Line(p.Text)+pal.Dim("  "+because(p.Rule, p.Origin, p.Reason)))
		}
	}
	return out
}

// inFull returns the full text of a call: its description if that covers everything, or else all of its arguments.
func inFull(c *runlog.QuestionCall) string {
	switch c.Tool {
	case "bash", "web_fetch", "read_file", "ls", "glob", "grep", "search_docs":
		return c.Subject
	}
	if len(c.Args) == 0 {
		return c.Subject
	}
	return string(c.Args)
}

func allowedBy(p *runlog.QuestionPart) string {
	if p.Rule == "" {
		return "allowed by default"
	}
	return "allowed by the rule " + transcript.Line(p.Rule)
}

// hidden reports whether a text has characters, other than line ends, that are not sent to the terminal.
func hidden(s string) bool {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return transcript.Clean(s) != s
}

// asks returns the first line of a question, with the asking task.
func asks(path string, q *runlog.Question) string {
	who := transcript.Line(spelled(path))
	if name := transcript.Line(q.Agent); name != "" && !strings.Contains(who, name) {
		who += " (" + name + ")"
	}
	if q.Call != nil {
		return who + " " + wants(q.Call)
	}
	return who + " asks:"
}

// spelled returns a path as it is written without brackets, which shells have other uses for. A key
// that would make it ambiguous keeps them.
func spelled(path string) string {
	var b strings.Builder
	for path != "" {
		open := strings.IndexByte(path, '[')
		if open < 0 {
			break
		}
		end := strings.IndexByte(path[open:], ']')
		if end < 0 {
			break
		}
		key := path[open+1 : open+end]
		if key == "" || strings.ContainsAny(key, "/:=#[") {
			b.WriteString(path[:open+end+1])
		} else {
			b.WriteString(path[:open] + "/" + key)
		}
		path = path[open+end+1:]
	}
	return b.String() + path
}
