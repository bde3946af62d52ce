package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

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
	// give answers a question of the run while it executes.
	give func(ctx context.Context, path string, a *runlog.Answered) error

	mu     sync.Mutex
	claims map[string]*claim // by path and key of the question
	talk   sync.Mutex        // held by who writes to the terminal or reads from it
	ahead  sync.WaitGroup    // answers on their way
}

// claim is an answer given ahead that belongs to a question.
type claim struct {
	given  *given
	answer json.RawMessage
	err    error         // it does not fit
	done   chan struct{} // closed once it was given, or turned down
}

// claim finds the answer that was given ahead for a question, nil for none. First is true once for each:
// who gets it is to give the answer, and to close done. A question that is asked again has its answer.
func (k *asker) claim(q *runlog.OpenQuestion) (c *claim, first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := q.Path + "\x00" + q.Key
	if c := k.claims[id]; c != nil {
		return c, false
	}
	g := k.answers.take(q.Path, q.Key)
	if g == nil {
		return nil, false
	}
	c = &claim{given: g, done: make(chan struct{})}
	if c.answer, c.err = fit(&q.Asked, g.value); c.err == nil {
		g.used = true
	}
	if k.claims == nil {
		k.claims = map[string]*claim{}
	}
	k.claims[id] = c
	return c, true
}

func (c *claim) answered() *runlog.Answered { return &runlog.Answered{Answer: c.answer, By: "flag"} }

// see gives the answers that were given ahead the moment they are asked for. It is called with every
// record, after the session has it.
func (k *asker) see(ctx context.Context, rec *runlog.Record) {
	if k.give == nil || rec.Seq <= k.session.after || rec.Kind != runlog.KindAsked && rec.Kind != runlog.KindRunResumed {
		return
	}
	if rec.Kind == runlog.KindAsked {
		k.later(rec.Path)
	}
	if len(k.answers) == 0 {
		return
	}
	for _, q := range k.session.questions() {
		c, first := k.claim(&q)
		if c == nil || !first {
			continue
		}
		k.ahead.Go(func() {
			defer close(c.done)
			if c.err != nil {
				k.unfit(c)
				return
			}
			a := c.answered()
			a.Key = q.Key
			_ = k.give(ctx, q.Path, a) // if it cannot be given now, it is given when the run waits for it
		})
	}
}

// later says at a terminal that a question is put once nothing else of the run can go on.
func (k *asker) later(path string) {
	if k.policy != "" || !k.app.asks() || k.app.set.quiet || !k.session.busy() || k.ready(path) {
		return
	}
	k.ahead.Go(func() {
		k.talk.Lock()
		defer k.talk.Unlock()
		k.session.suspend()
		defer k.session.resume()
		k.app.err.line(transcript.Line(path) + " has a question for you, for when nothing else can go on")
	})
}

// ready reports whether an answer was given ahead for what a task asks.
func (k *asker) ready(path string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, q := range k.session.questions() {
		if q.Path == path && k.answers.take(q.Path, q.Key) != nil {
			return true
		}
	}
	return false
}

// unfit says that an answer given ahead leaves its question open.
func (k *asker) unfit(c *claim) {
	k.talk.Lock()
	defer k.talk.Unlock()
	k.session.suspend()
	defer k.session.resume()
	k.app.warn(fmt.Sprintf("--answer %s: %v", quote(c.given.text), c.err))
}

// answer is a superstep.Answering.
func (k *asker) answer(ctx context.Context, q runlog.OpenQuestion) (*runlog.Answered, bool) {
	if ctx.Err() != nil {
		return nil, false
	}
	if c, first := k.claim(&q); c != nil {
		if first {
			close(c.done)
			if c.err != nil {
				k.unfit(c)
			}
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			return nil, false
		}
		return c.answered(), c.err == nil
	}
	a := k.app
	if k.policy == "" && a.asks() {
		k.talk.Lock()
		defer k.talk.Unlock()
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
	if slices.Contains(q.Options, s) {
		if word, open := opening(q, s); open {
			return nil, fmt.Errorf("want the text in place of the dots: %s: NEW TEXT", word)
		}
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
	switch f := formOf(q.Schema); {
	case agent.Permission(q):
		return nil, fmt.Errorf("want one of %s, or deny: why", strings.Join(q.Options, ", "))
	case len(q.Options) > 0:
		return nil, fmt.Errorf("want one of %s", strings.Join(offered(q), ", "))
	case f != nil:
		if why := f.wrong(s); why != "" {
			return nil, errors.New(why)
		}
	case typed && !ofType(schema.Type, json.RawMessage(s)):
		return nil, fmt.Errorf("want %s, got %s", kindOf(schema.Type), got(text))
	}
	return nil, fmt.Errorf("%s does not fit what the question wants", got(text))
}

// offered are the answers that a question names, as they are to be written.
func offered(q *runlog.Asked) []string {
	var out []string
	for _, o := range q.Options {
		word, open := opening(q, o)
		switch {
		case open:
			out = append(out, word+": NEW TEXT")
		case reasoned(q, o):
			out = append(out, o, o+": WHY")
		default:
			out = append(out, o)
		}
	}
	var schema struct{ Enum []any }
	_ = json.Unmarshal(q.Schema, &schema)
	if len(q.Schema) > 0 && len(schema.Enum) == 0 && !gated(q) {
		out = append(out, "or another answer that fits")
	}
	return out
}

// gated reports whether an answer to the question may have a text after it.
func gated(q *runlog.Asked) bool {
	return slices.ContainsFunc(q.Options, func(o string) bool {
		_, open := opening(q, o)
		return open || reasoned(q, o)
	})
}

// opening is the word of an option that a text has to follow, such as "edit: …".
func opening(q *runlog.Asked, option string) (word string, open bool) {
	word, open = strings.CutSuffix(option, ": …")
	return word, open && (accepts(q, word+": x") || accepts(q, word+": {}"))
}

// reasoned reports whether a reason may follow an option, but not just any text may be answered.
func reasoned(q *runlog.Asked, option string) bool {
	return len(q.Schema) > 0 && !agent.Permission(q) && accepts(q, option+": x") && !accepts(q, "x")
}

func accepts(q *runlog.Asked, s string) bool {
	text, err := json.Marshal(s)
	return err == nil && q.Fits(text) == nil
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
