package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/transcript"
)

// given is an answer from the command line.
type given struct {
	path  string // the task that asks, perhaps with : and the key of its question
	value string
	text  string // as it was given
	used  bool
}

// meets says how well an answer is addressed to a question, 0 if it is not: by its key, by the
// end of that, by the path of the task that asks, or by the name of its node.
func (g *given) meets(path, key string) int {
	node, _, _ := strings.Cut(path, "[")
	node, _, _ = strings.Cut(node, "#")
	switch part, keyed := strings.CutPrefix(g.path, path+":"); {
	case keyed && part == key:
		return 4
	case keyed && part != "" && strings.HasSuffix(key, "/"+part):
		return 3
	case g.path == path:
		return 2
	case g.path == node:
		return 1
	}
	return 0
}

// address is how an answer names a question, when so many are open.
func address(path, key string, alone bool) string {
	if alone {
		return path
	}
	return path + ":" + shortKey(key)
}

func shortKey(key string) string {
	if agent.Permission(&runlog.Asked{Key: key}) {
		_, key, _ = strings.Cut(key, "/")
	}
	return key
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
		return nil, usage(fmt.Sprintf("%s %s: use PATH=value or PATH:KEY=value, where PATH is the task that asks", where, quote(s)))
	}
	return &given{path: s[:key] + path, value: value, text: s}, nil
}

// take gives the next answer for a question, of those that are addressed best.
func (a answers) take(path, key string) (found *given) {
	best := 0
	for _, g := range a {
		if n := g.meets(path, key); n > best && !g.used {
			found, best = g, n
		}
	}
	return found
}

// byPolicy is who answers for --on-ask deny.
const byPolicy = "policy"

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
	if g := k.answers.take(q.Path, q.Key); g != nil {
		v, err := fit(&q.Asked, g.value)
		if err == nil {
			g.used = true
			return &runlog.Answered{Answer: v, By: "flag"}, true
		}
		k.session.suspend()
		k.app.warn(fmt.Sprintf("--answer %s: %v", quote(g.text), err))
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
		return &runlog.Answered{Denied: true, By: byPolicy}, true
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
			k.app.warn(fmt.Sprintf("--answer %s was not used: no task %s asked", quote(g.text), g.path))
		}
	}
}

// warn says something that changes nothing.
func (a *app) warn(s string) {
	if !a.programs() {
		a.err.line("warning: " + s)
	}
}

// fit makes the JSON of an answer as people write it, or says what is wanted.
func fit(q *runlog.Asked, s string) (json.RawMessage, error) {
	if agent.Permission(q) {
		s = decision(s)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var schema struct{ Type string }
	_ = json.Unmarshal(q.Schema, &schema) // a type may be a list, too
	typed := schema.Type != "" && schema.Type != "string"
	if !typed {
		if err = q.Fits(text); err == nil {
			return text, nil
		}
	}
	if len(q.Schema) > 0 && json.Valid([]byte(s)) {
		if err = q.Fits(json.RawMessage(s)); err == nil {
			return json.RawMessage(s), nil
		}
	}
	switch {
	case agent.Permission(q):
		return nil, fmt.Errorf("want one of %s, or deny: why", strings.Join(q.Options, ", "))
	case len(q.Options) > 0 && len(q.Schema) == 0:
		return nil, fmt.Errorf("want one of %s", strings.Join(q.Options, ", "))
	case len(q.Options) > 0:
		return nil, fmt.Errorf("want one of %s, or another answer that fits", strings.Join(q.Options, ", "))
	case typed && !json.Valid([]byte(s)):
		return nil, fmt.Errorf("want JSON of type %s", schema.Type)
	}
	return nil, fmt.Errorf("the answer %w", err)
}

// decision is an answer about a call as people write it: in any case, and with yes and no.
func decision(s string) string {
	word, why, denies := strings.Cut(s, ":")
	switch word = strings.ToLower(strings.TrimSpace(word)); {
	case denies && (word == agent.AnswerDeny || word == "n" || word == "no"):
		return agent.AnswerDeny + ":" + why
	case denies:
		return s
	case word == "y" || word == "yes":
		return agent.AnswerOnce
	case word == "n" || word == "no":
		return agent.AnswerDeny
	}
	return word
}

// prompt asks the person at the terminal, until the run stops.
func (k *asker) prompt(ctx context.Context, q *runlog.OpenQuestion) (*runlog.Answered, bool) {
	a := k.app
	p := palette(a.term.errColor)
	k.session.suspend()
	defer k.session.resume()
	say := func(s string) { _, _ = a.err.Write([]byte(s)) }
	who, question := p.yellow("?")+" "+p.bold(transcript.Line(q.Path)+" asks:")+" ", transcript.Clean(q.Question)
	say("\n" + who + question + "\n")
	for i, o := range q.Options {
		mark := ""
		if string(q.Default) != "" && transcript.Value(q.Default) == transcript.Clean(o) {
			mark = " (default)"
		}
		say(fmt.Sprintf("  %d. %s%s\n", i+1, transcript.Line(o), mark))
	}
	wanted := ""
	if n := len(q.Options); n > 0 {
		wanted = fmt.Sprintf(" 1-%d", n)
	}
	if agent.Permission(&q.Asked) {
		wanted += `, or "deny: why"`
	}
	label := "Answer" + wanted
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
		again, _, _ := strings.Cut(question, "\n") // which one it still is
		if wanted != "" && len(q.Schema) > 0 {
			err = errors.New("answer" + wanted + "; " + err.Error())
		}
		say("  " + transcript.Clean(err.Error()) + "\n" + who + again + "\n")
	}
}
