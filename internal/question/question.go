// Package question holds what every face needs to know about the questions of runs: which answers they take, and how these are said in words.
package question

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

// Kind returns the kind of a question, and derives it in older logs that do not record it.
func Kind(q *runlog.Question) runlog.QuestionKind {
	switch _, unknown := q.Unknown(); {
	case q.Kind != "":
		return q.Kind
	case agent.Permission(q):
		return runlog.QuestionPermission
	case unknown:
		return runlog.QuestionUnknown
	case (q.Key == "gate" || strings.HasPrefix(q.Key, "gate-") || strings.HasPrefix(q.Key, "gate/")) && Gated(q):
		return runlog.QuestionGate
	}
	return runlog.QuestionAsk
}

// A Choice is an answer that is offered at the terminal.
type Choice struct {
	Key    int    // what to type for it: from 1, in order, also of those that cannot be chosen
	Answer string // "" if it cannot be chosen
	Name   string
	Note   string // what comes of it, or why it cannot be chosen
	Why    bool   // a reason is asked for
}

// Menu returns the choices of a question. What is not available for a call or at a gate keeps its number.
func Menu(q *runlog.Question) []Choice {
	var out []Choice
	switch Kind(q) {
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
		out = []Choice{
			{Key: 1, Answer: agent.AnswerOnce, Name: "once", Note: "only this call"},
			{Key: 2, Answer: agent.AnswerRun, Name: "this run", Note: like},
			{Key: 3, Answer: agent.AnswerAlways, Name: "always", Note: kept},
			{Key: 4, Answer: agent.AnswerDeny, Name: "deny"},
			{Key: 5, Answer: agent.AnswerDeny, Name: "deny and say why", Why: true},
		}
		if !slices.Contains(q.Options, agent.AnswerAlways) {
			out[2].Answer = ""
			if q.Call == nil {
				out[2].Note = "not available"
			}
		}
	case runlog.QuestionGate:
		edit := Choice{Key: 2, Name: "edit", Note: "not available: there is nothing to edit"}
		if slices.Contains(q.Options, "edit: …") {
			edit.Answer, edit.Note = "edit: …", "go on with another text"
		}
		out = []Choice{
			{Key: 1, Answer: "approve", Name: "approve"}, edit, {Key: 3, Answer: "reject", Name: "reject"},
			{Key: 4, Answer: "reject", Name: "reject and say why", Why: true},
		}
	default:
		for i, o := range q.Options {
			c := Choice{Key: i + 1, Answer: o, Name: transcript.Line(o)}
			c.Note = transcript.Line(q.About[o])
			if IsDefault(q, o) {
				c.Note = strings.TrimLeft(c.Note+" (default)", " ")
			}
			out = append(out, c)
		}
	}
	return out
}

// IsDefault reports whether an option is the default of a question, or one of several.
func IsDefault(q *runlog.Question, option string) bool {
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

// Headed returns the text of a question after its header.
func Headed(header, question string) string {
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

// Wants describes the action that needs permission, as the rest of a sentence.
func Wants(c *runlog.QuestionCall) string {
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

// Because returns why a call is asked about, as a sentence.
func Because(rule, origin, reason string) string {
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

// InFull returns the full text of a call: its description if that covers everything, or else all of its arguments.
func InFull(c *runlog.QuestionCall) string {
	switch c.Tool {
	case "bash", "web_fetch", "read_file", "ls", "glob", "grep", "search_docs":
		return c.Subject
	}
	if len(c.Args) == 0 {
		return c.Subject
	}
	return string(c.Args)
}

// AllowedBy says what allowed a call: a rule, or that the tool needs none.
func AllowedBy(p *runlog.QuestionPart) string {
	if p.Rule == "" {
		return "allowed by default"
	}
	return "allowed by the rule " + transcript.Line(p.Rule)
}

// Hidden reports whether a text has characters, other than line ends, that are not sent to the terminal.
func Hidden(s string) bool {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return transcript.Clean(s) != s
}

// Asks returns the first line of a question, with the asking task.
func Asks(path string, q *runlog.Question) string {
	who := transcript.Line(Spelled(path))
	if name := transcript.Line(q.Agent); name != "" && !strings.Contains(who, name) {
		who += " (" + name + ")"
	}
	if q.Call != nil {
		return who + " " + Wants(q.Call)
	}
	return who + " asks:"
}

// Spelled returns a path as it is written without brackets, which shells have other uses for. A key
// that would make it ambiguous keeps them.
func Spelled(path string) string {
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
