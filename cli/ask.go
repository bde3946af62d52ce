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
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// given is an answer from the command line.
type given struct {
	path  string // the task that asks, perhaps with : and the key of its question
	value string
	text  string // as it was given
	used  bool
}

// meets says how well an answer is addressed to a question, 0 if it is not: by its key, by the
// end of that, by the path of the task that asks, with brackets or without, or by the name of its node.
func (g *given) meets(path, key string) int {
	if best := g.addresses(path, key); best > 0 || spelled(path) == path {
		return best
	}
	return g.addresses(spelled(path), key)
}

func (g *given) addresses(path, key string) int {
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
		return spelled(path)
	}
	return spelled(path) + ":" + shortKey(key)
}

func shortKey(key string) string {
	if agent.Permission(&runlog.Question{Key: key}) {
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
	screen  *screen
	session *session
	answers answers
	policy  string // --on-ask, "" for the default
	refused bool   // a question was met with --on-ask fail
	// give answers a question of the run while it executes.
	give func(ctx context.Context, path string, a *runlog.Answer) error

	until  context.Context // questions are put to the person at the terminal until it ends
	ahead  sync.WaitGroup  // answers on their way, and who puts questions
	putter sync.Once

	mu     sync.Mutex
	claims map[string]*claim // by the identity of the question, as are the next
	put    map[string]bool   // those that are answered, and those that were left open at the terminal
	nth    int               // which of the questions it is that have come since there was none
	now    string            // the question that is on the screen, "" for none
	drop   func()            // takes it off
	moved  chan struct{}     // closed and made anew with every change
}

// identity of a question within its run.
func identity(path, key string) string { return path + "\x00" + key }

// claim is an answer given ahead that belongs to a question.
type claim struct {
	given  *given
	answer json.RawMessage
	err    error         // it does not fit
	done   chan struct{} // closed once it was given, or turned down
}

// claim finds the answer that was given ahead for a question, nil for none. First is true once for each:
// who gets it is to give the answer, and to close done. A question that is asked again has its answer.
func (k *asker) claim(q *runlog.Question) (c *claim, first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := identity(q.Path, q.Key)
	if c := k.claims[id]; c != nil {
		return c, false
	}
	g := k.answers.take(q.Path, q.Key)
	if g == nil {
		return nil, false
	}
	c = &claim{given: g, done: make(chan struct{})}
	if c.answer, c.err = fit(q, g.value); c.err == nil {
		g.used = true
	}
	k.claims[id] = c
	return c, true
}

func (c *claim) answered() *runlog.Answer { return &runlog.Answer{Value: c.answer, By: "flag"} }

// see gives the answers that were given ahead the moment they are asked for, and has the other questions put to the
// person at the terminal. It is called with every record, after the session has it.
func (k *asker) see(ctx context.Context, rec *runlog.Record) {
	fresh := rec.Seq > k.session.after
	switch {
	case rec.Kind == runlog.KindAnswered:
		k.answeredElsewhere(rec)
		return
	case !fresh || rec.Kind != runlog.KindAsked && rec.Kind != runlog.KindRunResumed:
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
	if k.interactive() {
		k.demoAnswer(rec)
		k.putter.Do(func() { k.ahead.Go(k.putAll) })
		k.move(func() {})
		k.recount()
	}
}

// interactive reports whether questions are put to a person at the terminal.
func (k *asker) interactive() bool { return k.policy == "" && k.screen.asks() }

// move changes what mu protects, and tells who waits for a change.
func (k *asker) move(how func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	how()
	close(k.moved)
	k.moved = make(chan struct{})
}

// answeredElsewhere takes a question off the screen that has its answer.
func (k *asker) answeredElsewhere(rec *runlog.Record) {
	var d runlog.Answer
	if json.Unmarshal(rec.Data, &d) != nil {
		return
	}
	id := identity(rec.Path, d.Key)
	k.move(func() {
		if k.put[id] = true; k.now == id {
			k.drop()
		}
	})
}

// pending are the open questions that are to be put, in the order in which they were asked. What changes closes moved.
func (k *asker) pending() (open []runlog.Question, moved <-chan struct{}) {
	all := k.session.questions()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, q := range all {
		id := identity(q.Path, q.Key)
		if c := k.claims[id]; !k.put[id] && (c == nil || c.err != nil) {
			open = append(open, q)
		}
	}
	return open, k.moved
}

// putAll puts one question after the other while the run goes on.
func (k *asker) putAll() {
	for {
		open, moved := k.pending()
		if len(open) == 0 {
			k.move(func() { k.nth = 0 })
			select {
			case <-k.until.Done():
				return
			case <-moved:
			}
			continue
		}
		if k.until.Err() != nil {
			return
		}
		k.putOne(&open[0])
	}
}

// count says which question it is that is put now of those that have come together, "" for a single one.
func (k *asker) count() string {
	open, _ := k.pending()
	k.mu.Lock()
	defer k.mu.Unlock()
	if of := k.nth - 1 + max(1, len(open)); of > 1 {
		return fmt.Sprintf("%d of %d · ", k.nth, of)
	}
	return ""
}

// recount shows the count anew where that is possible.
func (k *asker) recount() {
	if v := k.session.live(); v != nil {
		n := k.count()
		k.session.change(v, func() { v.count = n })
	}
}

// putOne puts a question until it is answered, here or elsewhere, or left open.
func (k *asker) putOne(q *runlog.Question) {
	ctx, drop := context.WithCancel(k.until)
	defer drop()
	id := identity(q.Path, q.Key)
	k.move(func() { k.now, k.drop, k.nth = id, drop, k.nth+1 })
	k.recount()
	if slices.ContainsFunc(k.session.questions(), func(o runlog.Question) bool { return identity(o.Path, o.Key) == id }) { // still
		if a, ok := k.prompt(ctx, q); ok {
			a.Key = q.Key
			err := k.give(k.until, q.Path, a)
			if err != nil && !errors.As(err, new(*journal.AnsweredError)) && k.until.Err() == nil {
				k.screen.warn(fmt.Sprintf("the question of %s stays open: %v", transcript.Line(q.Path), err))
			}
		}
	}
	k.move(func() { k.put[id], k.now = true, "" })
}

// settled waits until a question was answered or left open at the terminal.
func (k *asker) settled(ctx context.Context, q *runlog.Question) {
	id := identity(q.Path, q.Key)
	for {
		_, moved := k.pending()
		k.mu.Lock()
		done := k.put[id]
		k.mu.Unlock()
		if done {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-k.until.Done():
			return
		case <-moved:
		}
	}
}

// unfit says that an answer given ahead leaves its question open.
func (k *asker) unfit(c *claim) {
	k.screen.warn(fmt.Sprintf("--answer %s: %v", quote(c.given.text), c.err))
}

// answer is a superstep.Answering.
func (k *asker) answer(ctx context.Context, q runlog.Question) (*runlog.Answer, bool) {
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
		if c.err == nil || !k.interactive() {
			return c.answered(), c.err == nil
		}
	}
	if k.interactive() { // it is on the screen, or will be: what is answered there reaches the run by itself
		k.settled(ctx, &q)
		return nil, false
	}
	if len(q.Default) > 0 {
		return &runlog.Answer{Value: q.Default, By: "default"}, true
	}
	switch k.policy {
	case "deny":
		return &runlog.Answer{Denied: true, By: byPolicy}, true
	case "fail":
		k.refused = true
	}
	return nil, false
}

// leftover says which answers nobody asked for.
func (k *asker) leftover() {
	for _, g := range k.answers {
		if !g.used && k.session.run.Task(g.path) == nil {
			k.screen.warn(fmt.Sprintf("--answer %s was not used: no task %s asked", quote(g.text), g.path))
		}
	}
}

// fit makes the JSON of an answer as people write it, or says what is wanted.
func fit(q *runlog.Question, s string) (json.RawMessage, error) {
	s = decision(q, s)
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if slices.Contains(q.Options, s) {
		if word, open := opening(q, s); open {
			return nil, fmt.Errorf("want the text in place of the dots: %s: NEW TEXT", word)
		}
	}
	if q.Several() {
		return several(q, s)
	}
	kind := typeOf(q.Schema)
	typed := kind != "" && kind != "string"
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
	case typed && !(&formField{Type: kind}).takes(json.RawMessage(s)):
		return nil, fmt.Errorf("want %s, got %s", kindOf(kind), got(text))
	}
	return nil, fmt.Errorf("%s does not fit what the question wants", got(text))
}

// typeOf returns the type that a schema wants, "" if it wants none or one of several.
func typeOf(schema json.RawMessage) string {
	var s struct{ Type string }
	_ = json.Unmarshal(schema, &s)
	return s.Type
}

// offered are the answers that a question names, as they are to be written.
func offered(q *runlog.Question) []string {
	var out []string
	for _, o := range q.Options {
		out = append(out, spellings(q, o)...)
	}
	var schema struct{ Enum []any }
	_ = json.Unmarshal(q.Schema, &schema)
	if len(q.Schema) > 0 && len(schema.Enum) == 0 && !gated(q) {
		out = append(out, "or another answer that fits")
	}
	return out
}

// spellings are how an option is answered: with the text that has to follow it, or without a reason and with one.
func spellings(q *runlog.Question, option string) []string {
	word, open := opening(q, option)
	switch {
	case open:
		return []string{word + ": NEW TEXT"}
	case reasoned(q, option):
		return []string{option, option + ": WHY"}
	}
	return []string{option}
}

// gated reports whether an answer to the question may have a text after it.
func gated(q *runlog.Question) bool {
	return slices.ContainsFunc(q.Options, func(o string) bool {
		_, open := opening(q, o)
		return open || reasoned(q, o)
	})
}

// opening is the word of an option that a text has to follow, such as "edit: …".
func opening(q *runlog.Question, option string) (word string, open bool) {
	word, open = strings.CutSuffix(option, ": …")
	return word, open && (accepts(q, word+": x") || accepts(q, word+": {}"))
}

// reasoned reports whether a reason may follow an option, but not just any text may be answered.
func reasoned(q *runlog.Question, option string) bool {
	return len(q.Schema) > 0 && !agent.Permission(q) && accepts(q, option+": x") && !accepts(q, "x")
}

func accepts(q *runlog.Question, s string) bool {
	text, err := json.Marshal(s)
	return err == nil && q.Fits(text) == nil
}

// decision is an answer about a call or at a gate as people write it: in any case, and with yes and no.
func decision(q *runlog.Question, s string) string {
	yes, no, all := agent.AnswerOnce, agent.AnswerDeny, false
	switch kindOfQuestion(q) {
	case runlog.QuestionPermission:
		all = true
	case runlog.QuestionGate:
		yes, no = "approve", "reject"
	default:
		return s
	}
	word, why, more := strings.Cut(s, ":")
	switch word = strings.ToLower(strings.TrimSpace(word)); {
	case more && (word == no || word == "n" || word == "no"):
		return no + ":" + why
	case more:
		return s
	case word == "y" || word == "yes":
		return yes
	case word == "n" || word == "no":
		return no
	case all || word == yes || word == no:
		return word
	}
	return s
}
