package tui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/question"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// given is an answer that was given in advance.
type given struct {
	path  string // the task that asks, perhaps with : and the key of its question
	value string
	where string // it was given, such as a flag
	text  string // as it was given
	used  bool
}

// String returns the answer as it was given, for errors.
func (g *given) String() string {
	if g.text == "" {
		return g.where
	}
	return g.where + " " + clean.Shell(g.text)
}

// Answers are answers given in advance. Several answers for one path are used for its questions in
// turn.
type Answers []*given

// Flag returns the answer to the questions of a task that a flag without a value stands for.
func Flag(flag, path, value string) Answers {
	return Answers{{path: path, value: value, where: flag}}
}

// ParseAnswers reads answers such as PATH=value and PATH:KEY=value. Errors begin with where they were given, such as a flag.
func ParseAnswers(where string, texts []string) (Answers, error) {
	var out Answers
	for _, text := range texts {
		g, err := parseAnswer(where, text)
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
		return nil, wrong(fmt.Sprintf("%s %s: use PATH=value or PATH:KEY=value, where PATH is the task that asks", where, clean.Shell(s)))
	}
	return &given{path: s[:key] + path, value: value, where: where, text: s}, nil
}

// AnswersTo parses a user's answers to the open questions of a run: VALUE if only one is open, or else PATH=value. Without any, it asks the questions on
// the terminal, if there is one, and returns nil.
func (c *Screen) AnswersTo(info *runlog.Info, open []Question, where string, texts []string) (Answers, error) {
	if len(texts) > 1 || len(texts) == 1 && strings.Contains(texts[0], "=") {
		return ParseAnswers(where, texts)
	}
	switch {
	case len(open) == 0:
		return nil, noneOpen(info)
	case len(texts) == 0 && c.Asks():
		return nil, nil
	case len(texts) == 0:
		return nil, wrong(fmt.Sprintf("run %s has %s, and there is no terminal to ask on; give the answer", info.ID,
			inwords.Plural(len(open), "open question")), headlines(open)...)
	case len(open) > 1:
		return nil, wrong(fmt.Sprintf("run %s has %d open questions; say which one is meant: PATH=%s", info.ID, len(open), texts[0]), headlines(open)...)
	}
	return Answers{{path: open[0].Path + ":" + open[0].Key, value: texts[0], where: where, text: texts[0]}}, nil
}

// wrong returns the error of an answer that cannot be used.
func wrong(message string, next ...string) error {
	return &host.Error{Code: "usage", Message: message, Next: next}
}

func noneOpen(info *runlog.Info) error {
	return wrong(fmt.Sprintf("run %s has no open question; it is %s", info.ID, info.Status))
}

// Check binds each answer to its open question. It returns an error for an answer that fits no question of a run, or more than one. Unless all answers
// must be for open questions, some may be for later ones.
func (a Answers) Check(info *runlog.Info, open []Question, all bool) error {
	if len(a) > 0 && len(open) == 0 && all {
		return noneOpen(info)
	}
	for _, g := range a {
		met, others := a.meant(g, open)
		switch {
		case len(met) == 0 && others == 0 && all:
			return wrong(fmt.Sprintf("run %s has no open question of %q", info.ID, g.path), headlines(open)...)
		case len(met) > a.like(g):
			return wrong(fmt.Sprintf("%s asks %s; say which one is meant, or answer each in this order", g.path,
				inwords.Plural(len(met), "question")), headlines(met)...)
		}
	}
	found := map[*given]string{}
	for _, q := range open {
		g := a.take(q.Path, q.Key)
		if g == nil {
			continue
		}
		if _, err := question.Fit(&q.Asked, g.value); err != nil {
			if question.FormOf(q.Asked.Schema) == nil && !strings.Contains(err.Error(), ", got ") {
				err = fmt.Errorf("%w, got %s", err, strconv.Quote(g.value))
			}
			return wrong(fmt.Sprintf("%s: %v", q.Path, err))
		}
		g.used = true // for now, so that the next question does not get it too
		found[g] = q.Path + ":" + q.Key
	}
	for g, path := range found {
		g.used, g.path = false, path
	}
	return nil
}

// Each calls give for each open question with an answer. Call Check first.
func (a Answers) Each(open []Question, give func(path string, answer *runlog.Answer) error) error {
	for _, q := range open {
		g := a.take(q.Path, q.Key)
		if g == nil {
			continue
		}
		value, err := question.Fit(&q.Asked, g.value)
		if err != nil {
			return err
		}
		g.used = true
		if err := give(q.Path, &runlog.Answer{Key: q.Key, Value: value, By: "flag"}); err != nil {
			return err
		}
	}
	return nil
}

// CheckSteps returns an error if an answer is for a step that the graph of a workflow does not have.
func (a Answers) CheckSteps(workflow string, shape graph.Shape) error {
	var nodes []string
	for _, n := range shape.Nodes {
		nodes = append(nodes, n.Name)
	}
	for _, g := range a {
		if node := transcript.Top(g.path); !slices.Contains(nodes, node) {
			return wrong(fmt.Sprintf("%s: workflow %s has no step %q%s", g, workflow, node, suggest.Hint(node, nodes)))
		}
	}
	return nil
}

// CheckStep returns an error if an answer for a step does not fit the step's question.
func (a Answers) CheckStep(step string, q *runlog.Question) error {
	for _, g := range a {
		if g.path != step {
			continue
		}
		if _, err := question.Fit(q, g.value); err != nil {
			return wrong(fmt.Sprintf("%s: %v", g, err))
		}
	}
	return nil
}

// take returns the next answer for a question, from the answers with the best matching address.
func (a Answers) take(path, key string) (found *given) {
	best := 0
	for _, g := range a {
		if n := g.meets(path, key); n > best && !g.used {
			found, best = g, n
		}
	}
	return found
}

// meant returns the open questions that an answer may belong to, except questions that another answer
// matches better.
func (a Answers) meant(g *given, open []Question) (met []Question, others int) {
	best := 1
	for _, q := range open {
		best = max(best, g.meets(q.Path, q.Key))
	}
	for _, q := range open {
		switch {
		case g.meets(q.Path, q.Key) != best:
		case slices.ContainsFunc(a, func(other *given) bool { return other.meets(q.Path, q.Key) > best }):
			others++
		default:
			met = append(met, q)
		}
	}
	return met, others
}

// like counts the answers with the same address as a given one.
func (a Answers) like(g *given) int {
	n := 0
	for _, other := range a {
		if other.path == g.path {
			n++
		}
	}
	return n
}

// meets returns how well an answer is addressed to a question, 0 if it is not: by its key, by the
// end of that, by the path of the task that asks, with brackets or without, or by the name of its node.
func (g *given) meets(path, key string) int {
	if best := g.addresses(path, key); best > 0 || question.Spelled(path) == path {
		return best
	}
	return g.addresses(question.Spelled(path), key)
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

// A Question is an open question of a run in the form in which users read and answer it.
type Question struct {
	*transcript.Question
	Address string // how an answer names it
}

// Questions returns the open questions of a run, in the order in which they were asked.
func Questions(open []*transcript.Question) []Question {
	paths := map[string]int{}
	for _, q := range open {
		paths[q.Path]++
	}
	var out []Question
	for _, q := range open {
		address := question.Spelled(q.Path)
		if paths[q.Path] > 1 {
			key := q.Key
			if agent.Permission(&runlog.Question{Key: key}) {
				_, key, _ = strings.Cut(key, "/")
			}
			address += ":" + key
		}
		out = append(out, Question{q, address})
	}
	return out
}

// options returns the options that the question offers after its text.
func (q *Question) options() string {
	if len(q.Options) == 0 {
		return ""
	}
	return " [" + strings.Join(q.Options, ", ") + "]"
}

// Headline returns one line with the asking task, the question and its options.
func (q *Question) Headline() string {
	return transcript.Line(q.Address + " asks: " + question.Headed(q.Header, q.Question.Question) + q.options())
}

func headlines(open []Question) []string {
	var out []string
	for i := range open {
		out = append(out, open[i].Headline())
	}
	return out
}

// Lines returns the full question; for a permission request, including the whole action.
func (q *Question) Lines(pal Palette) []string {
	if q.Call == nil {
		text, offered := question.Headed(q.Header, transcript.Clean(q.Question.Question)), q.options()
		if offered != "" && strings.Contains(text, "\n") {
			offered = "\n" + strings.TrimPrefix(offered, " ")
		}
		return strings.Split(q.Address+" asks: "+text+offered, "\n")
	}
	who := transcript.Line(q.Agent)
	if who == "" || strings.Contains(q.Address, who) {
		who = "it"
	}
	lines, _ := card(q.Call, pal, 0)
	return append([]string{q.Address + ": " + who + " " + question.Wants(q.Call) + q.options()}, lines...)
}

// Fields returns a line for each field of a question with a form, and nil for other questions.
func (q *Question) Fields() []string {
	return question.FormOf(q.Asked.Schema).With(q.Asked.Default).Lines()
}

// Example returns an answer to the form that the question is, "" if it is none.
func (q *Question) Example() string {
	if f := question.FormOf(q.Asked.Schema); f != nil {
		return f.With(q.Asked.Default).Example()
	}
	return ""
}

// Answers returns the possible answers: one example, or all of them if a text may follow a word.
func (q *Question) Answers() []string {
	asked := &q.Asked
	if len(asked.Options) == 0 {
		if form := q.Example(); form != "" {
			return []string{form}
		}
		if kind := question.TypeOf(asked.Schema); kind != "" && kind != "string" {
			return []string{string((&question.Field{Type: kind, Default: asked.Default}).Example())}
		}
	}
	switch {
	case len(q.Options) == 0, agent.Permission(asked): // nobody is to allow a call by copying a line
		return []string{"VALUE"}
	case asked.Kind == runlog.QuestionUnknown: // nor to do a thing twice
		return q.Options
	case !question.Gated(asked):
		return q.Options[:1]
	}
	var out []string
	for i, o := range asked.Options {
		all := question.Spellings(asked, o)
		out = append(out, all[min(i, len(all)-1)]) // the first without a reason, the others with one
	}
	return out
}
