package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/transcript"
)

// given is an answer from the command line.
type given struct {
	path, value string
	used        bool
}

// answers are those given ahead. Several for one path are for its questions in turn.
type answers []*given

func parseAnswers(flags []string) (answers, error) {
	var out answers
	for _, f := range flags {
		g, err := parseAnswer("--answer", f)
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

func parseAnswer(where, s string) (*given, error) {
	key := 0 // the key of a task is in brackets, and may hold anything but a bracket
	if open := strings.IndexByte(s, '['); open >= 0 && !strings.Contains(s[:open], "=") {
		key = max(0, strings.IndexByte(s, ']'))
	}
	path, value, ok := strings.Cut(s[key:], "=")
	if !ok || s[:key]+path == "" {
		return nil, usage(fmt.Sprintf("%s %s: use PATH=value, where PATH is the task that asks", where, quote(s)))
	}
	return &given{path: s[:key] + path, value: value}, nil
}

// take gives the next answer for a task: by its path, or by the name of its node.
func (a answers) take(path string) *given {
	node, _, _ := strings.Cut(path, "[")
	node, _, _ = strings.Cut(node, "#")
	for _, want := range []string{path, node} {
		for _, g := range a {
			if !g.used && g.path == want {
				return g
			}
		}
	}
	return nil
}

// asker decides about the questions of a run.
type asker struct {
	app     *app
	session *session
	answers answers
	policy  string // --on-ask, "" for the default
	refused bool   // a question was met with --on-ask fail
}

// answer is a superstep.Answering.
func (k *asker) answer(ctx context.Context, q runlog.OpenQuestion) (*runlog.Answered, bool) {
	if ctx.Err() != nil {
		return nil, false
	}
	if g := k.answers.take(q.Path); g != nil {
		v, err := fit(&q.Asked, g.value)
		if err == nil {
			g.used = true
			return &runlog.Answered{Answer: v, By: "flag"}, true
		}
		k.session.suspend()
		k.app.warn(fmt.Sprintf("--answer %s: %v", quote(g.path+"="+g.value), err))
		k.session.resume()
		return nil, false
	}
	a := k.app
	if k.policy == "" && a.asks() {
		return k.prompt(ctx, &q)
	}
	if len(q.Default) > 0 {
		return &runlog.Answered{Answer: q.Default, By: "default"}, true
	}
	switch k.policy {
	case "deny":
		return &runlog.Answered{Denied: true, By: "policy"}, true
	case "fail":
		k.refused = true
	}
	return nil, false
}

// asks reports whether there is somebody to ask.
func (a *app) asks() bool { return a.term.inTTY && a.term.errTTY && !a.set.noInput && !a.programs() }

// leftover says which answers nobody asked for.
func (k *asker) leftover() {
	for _, g := range k.answers {
		if !g.used && k.session.run.Task(g.path) == nil {
			k.app.warn(fmt.Sprintf("--answer %s was not used: no task %s asked", quote(g.path+"="+g.value), g.path))
		}
	}
}

// warn says something that changes nothing.
func (a *app) warn(s string) {
	if !a.programs() {
		a.err.line("warning: " + s)
	}
}

// fit makes the JSON of an answer as people write it.
func fit(q *runlog.Asked, s string) (json.RawMessage, error) {
	if len(q.Options) > 0 && len(q.Schema) == 0 && !slices.Contains(q.Options, s) { // with a schema they are what is usual
		return nil, fmt.Errorf("want one of %s", strings.Join(q.Options, ", "))
	}
	var schema struct{ Type string }
	if len(q.Schema) > 0 && json.Unmarshal(q.Schema, &schema) == nil && schema.Type != "" && schema.Type != "string" {
		if !json.Valid([]byte(s)) {
			return nil, fmt.Errorf("want JSON of type %s", schema.Type)
		}
		return json.RawMessage(s), nil
	}
	return json.Marshal(s)
}

// prompt asks the person at the terminal, until the run stops.
func (k *asker) prompt(ctx context.Context, q *runlog.OpenQuestion) (*runlog.Answered, bool) {
	a := k.app
	p := palette(a.term.errColor)
	k.session.suspend()
	defer k.session.resume()
	say := func(s string) { _, _ = a.err.Write([]byte(s)) }
	say("\n" + p.yellow("?") + " " + p.bold(transcript.Line(q.Path)+" asks:") + " " + transcript.Clean(q.Question) + "\n")
	for i, o := range q.Options {
		mark := ""
		if string(q.Default) != "" && transcript.Value(q.Default) == transcript.Clean(o) {
			mark = " (default)"
		}
		say(fmt.Sprintf("  %d. %s%s\n", i+1, transcript.Line(o), mark))
	}
	label := "Answer"
	if n := len(q.Options); n > 0 {
		label = fmt.Sprintf("Answer 1-%d", n)
	}
	if len(q.Default) > 0 {
		label += ", Enter for " + transcript.Line(transcript.Value(q.Default))
	}
	label += ", Ctrl-D to leave it open: "
	for {
		say(label)
		var line string
		var ok bool
		select {
		case <-ctx.Done():
			say("\n")
			return nil, false
		case line, ok = <-a.in.next():
		}
		if !ok {
			say("\n")
			return nil, false
		}
		line = strings.TrimSpace(line)
		if line == "" {
			if len(q.Default) > 0 {
				return &runlog.Answered{Answer: q.Default, By: "person"}, true
			}
			continue
		}
		if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(q.Options) && !slices.Contains(q.Options, line) {
			line = q.Options[n-1]
		}
		v, err := fit(&q.Asked, line)
		if err == nil {
			return &runlog.Answered{Answer: v, By: "person"}, true
		}
		say("  " + transcript.Clean(err.Error()) + "\n")
	}
}
