package research

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/docindex"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
)

//go:embed prompts/planner.md
var plannerPrompt string

//go:embed prompts/explorer.md
var explorerPrompt string

//go:embed prompts/researcher.md
var researcherPrompt string

//go:embed prompts/synthesizer.md
var synthesizerPrompt string

// The largest numbers of directions of a question, and of searches of an explorer and of a
// researcher.
const (
	mostDirections = 4
	broadSearches  = 2
	narrowSearches = 2
)

func (r *researcher) flow() (*graph.Flow[state, update], error) {
	g := graph.New("research", reduce)
	retry := &graph.Retry{Attempts: 3, If: temporary}
	for _, n := range []graph.Node[state, update]{
		{Name: "planner", Run: r.plan, Retry: retry, Version: "2"},
		{Name: "explorer", Run: r.explore, Retry: retry, Version: "2"},
		{Name: "researcher", Run: r.research, Retry: retry, Version: "2"},
		{Name: "coverage", Run: coverage, Version: "2"},
		{Name: "synthesizer", Run: r.synthesize, Retry: retry, Version: "2"},
	} {
		g.AddNode(n)
	}
	g.Edge(graph.Start, "planner")
	g.Edge("planner", "explorer")
	g.Fan("explorer", assign, "researcher", "synthesizer")
	g.Edge("researcher", "coverage")
	g.Fan("coverage", assign, "researcher", "synthesizer")
	g.Edge("synthesizer", graph.End)
	return g.Compile()
}

// temporary reports whether a model failure may be temporary.
func temporary(err error) bool {
	m, ok := errors.AsType[*model.Error](err)
	return ok && m.Temporary
}

// An assignment is the message that a researcher is sent.
type assignment struct {
	Direction direction `json:"direction"`
	Searches  int       `json:"searches"`
}

// assign divides the search budget among the directions that need more, or hands over to the
// synthesizer. A direction gets one search, or two if that leaves as much for another round or no
// other round follows.
func assign(s state) []graph.Send {
	left := s.Max - s.Searches
	open := s.open()
	if s.Enough || left <= 0 || len(open) == 0 {
		return []graph.Send{{To: "synthesizer"}}
	}
	open = open[:min(len(open), left)]
	most := 1
	if left >= 3*len(open) || s.Rounds+1 >= mostRounds {
		most = narrowSearches
	}
	var out []graph.Send
	for i, d := range open {
		share := (left + len(open) - i - 1) / (len(open) - i) // the first ones get what does not divide
		share = min(share, most)
		left -= share
		out = append(out, graph.Send{To: "researcher", Key: d.Key, Arg: assignment{d, share}})
	}
	return out
}

// open returns the directions that need more searching, those with the fewest sources first.
func (s *state) open() []direction {
	var out []direction
	for _, d := range s.Directions {
		if !s.covered(d.Key) {
			out = append(out, d)
		}
	}
	slices.SortStableFunc(out, func(a, b direction) int { return len(s.sources(a.Key)) - len(s.sources(b.Key)) })
	return out
}

// work runs an agent for a node until it hands in a result with its tool Finish, which has the
// given description and accepts what check accepts. If the agent ends without a result, work notes
// that and returns an outcome without Args: the agent's findings are lost, but the run continues.
func work[T any](ctx context.Context, t *graph.Task, a *agent.Agent, tools []*tool.Tool, finish string, check func(T) error, prompt string) (v T,
	out *agent.Outcome, err error) {
	last, err := tool.New(a.Finish, finish, func(_ context.Context, in T) (string, error) { return "taken", check(in) }, &tool.Options{Effect: tool.Pure})
	if err == nil {
		a.Tools, err = tool.NewSet(append(tools, last)...)
	}
	if err != nil {
		return v, nil, err
	}
	out, err = a.Run(ctx, t.Scope(), &agent.Work{Prompt: prompt})
	if errors.As(err, new(*agent.LimitError)) {
		err = t.Scope().Emit(ctx, "note", note{err.Error() + "; the run goes on without it"})
	}
	if err == nil && out.Args != nil {
		err = json.Unmarshal(out.Args, &v)
	}
	return v, out, err
}

type plan struct {
	Queries []string `json:"queries" jsonschema:"one or two broad search queries, each a few plain words"`
}

func (r *researcher) plan(ctx context.Context, t *graph.Task, s state) (update, error) {
	if m, err := r.opt.Model(""); r.opt.Note != nil && err == nil && m.Name() == s.Model { // and not on a run that was begun with another
		if text := r.opt.Note(); text != "" {
			t.Scope().Live("note", note{text}) // of this process, not of the run
		}
	}
	m, err := r.modelFor(t, &s)
	if err != nil {
		return update{}, err
	}
	if m == nil {
		return update{Queries: queries(s.Question)}, nil
	}
	a := &agent.Agent{Name: "planner", Model: m, Prompt: plannerPrompt, Finish: "plan", Limits: agent.Limits{Turns: 3}}
	p, _, err := work(ctx, t, a, []*tool.Tool{builtin.Think()}, "Hand in the plan.", func(p plan) error {
		if len(p.clean()) == 0 {
			return errors.New("queries: want one or two")
		}
		return nil
	}, "Question: "+oneLine(s.Question))
	if err != nil {
		return update{}, err
	}
	if queries := p.clean(); len(queries) > 0 {
		return update{Queries: queries}, nil
	}
	return update{Queries: []string{s.Question}}, nil
}

// clean returns a limited number of queries, one per line of a prompt, without empty ones.
func (p plan) clean() []string {
	var out []string
	for _, q := range p.Queries {
		if q = oneLine(q); q != "" && len(out) < broadSearches && !slices.ContainsFunc(out, func(o string) bool { return normal(o) == normal(q) }) {
			out = append(out, q)
		}
	}
	return out
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

type directions struct {
	Directions []struct {
		Topic     string `json:"topic" jsonschema:"what to look into, in the words of the sources"`
		Rationale string `json:"rationale,omitempty" jsonschema:"why the answer needs it"`
		Priority  string `json:"priority,omitempty" jsonschema:"high, medium or low"`
	} `json:"directions" jsonschema:"two to four directions, the most important one first"`
}

func (r *researcher) explore(ctx context.Context, t *graph.Task, s state) (update, error) {
	m, err := r.modelFor(t, &s)
	if err != nil {
		return update{}, err
	}
	if m == nil {
		return r.scout(ctx, t, &s)
	}
	tools, err := r.tools(ctx, t, &s)
	if err != nil {
		return update{}, err
	}
	broad := min(broadSearches, s.Max-1)
	a := &agent.Agent{Name: "explorer", Model: m, Prompt: explorerPrompt, Finish: "directions", Limits: agent.Limits{Turns: 6, Calls: searchQuota(broad)}}
	var prompt strings.Builder
	fmt.Fprintf(&prompt, "Question: %s\n", oneLine(s.Question))
	for _, q := range s.Queries {
		fmt.Fprintf(&prompt, "Query: %s\n", q)
	}
	fmt.Fprintf(&prompt, "You may search %s.\n", inwords.Plural(broad, "time"))
	d, out, err := work(ctx, t, a, tools, "Hand in the directions.", func(d directions) error {
		if len(d.Directions) == 0 {
			return errors.New("directions: want two to four")
		}
		for i, x := range d.Directions {
			if strings.TrimSpace(x.Topic) == "" {
				return fmt.Errorf("directions/%d/topic: is empty", i)
			}
		}
		return nil
	}, prompt.String())
	if err != nil {
		return update{}, err
	}
	sent := searches(out.Messages)
	u := update{Queries: sent, Searches: min(len(sent), broad)}
	u.Checked = u.Searches
	for _, x := range d.Directions {
		topic := oneLine(x.Topic)
		known := slices.ContainsFunc(u.Directions, func(o direction) bool { return strings.EqualFold(o.Topic, topic) })
		if known || len(u.Directions) == mostDirections {
			continue
		}
		u.Directions = append(u.Directions, direction{Key: key(len(u.Directions), topic), Topic: topic, Rationale: oneLine(x.Rationale), Priority: x.Priority})
	}
	if len(u.Directions) == 0 {
		u.Directions = []direction{{Key: key(0, s.Question), Topic: oneLine(s.Question)}}
	}
	return u, nil
}

// key names a direction by its number and, for users, by its words.
func key(i int, topic string) string {
	words := strings.FieldsFunc(strings.ToLower(topic), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return strings.Join(append([]string{fmt.Sprint(i + 1)}, words[:min(len(words), 3)]...), "-")
}

// searchTools share the search budget.
func searchTools() []string { return []string{"search_docs", "web_search"} }

func searchQuota(n int) []agent.Quota { return []agent.Quota{{Tools: searchTools(), Calls: n}} }

// searches returns the queries of a conversation, except those that were denied.
func searches(messages []model.Message) []string {
	failed := map[string]bool{}
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Kind == model.Result && p.Error {
				failed[p.Call.ID] = true
			}
		}
	}
	var out []string
	for _, m := range messages {
		for _, c := range m.Calls() {
			if !slices.Contains(searchTools(), c.Name) || failed[c.ID] {
				continue
			}
			var args struct {
				Query string `json:"query"`
			}
			if json.Unmarshal(c.Args, &args) == nil {
				out = append(out, args.Query)
			}
		}
	}
	return out
}

type findings struct {
	Findings []struct {
		Claim string `json:"claim" jsonschema:"what the quote means for the question, in one sentence"`
		Quote string `json:"quote" jsonschema:"the exact words of the source, from a single line"`
		Path  string `json:"path" jsonschema:"the file as the search results name it, or the address of the page"`
		Line  int    `json:"line" jsonschema:"the number of the line with the quote; 0 for a page"`
	} `json:"findings" jsonschema:"what the sources say; empty if they say nothing"`
}

func (r *researcher) research(ctx context.Context, t *graph.Task, s state) (update, error) {
	var job assignment
	if err := t.Arg(&job); err != nil {
		return update{}, err
	}
	m, err := r.modelFor(t, &s)
	if err != nil {
		return update{}, err
	}
	if m == nil {
		return r.lookInto(ctx, t, &s, &job)
	}
	tools, err := r.tools(ctx, t, &s)
	if err != nil {
		return update{}, err
	}
	a := &agent.Agent{Name: "researcher", Model: m, Prompt: researcherPrompt, Finish: "findings", Limits: agent.Limits{Turns: 8, Calls: searchQuota(job.Searches)}}
	got, out, err := work(ctx, t, a, tools, "Hand in what was found.", func(findings) error { return nil }, s.mission(&job))
	if err != nil {
		return update{}, err
	}
	var found []finding
	for _, f := range got.Findings {
		found = append(found, finding{Direction: job.Direction.Key, Claim: f.Claim, Passage: Passage{Path: f.Path, Start: f.Line, Text: f.Quote}})
	}
	queries := searches(out.Messages)
	u := update{Searches: min(len(queries), job.Searches), Directions: []direction{{Key: job.Direction.Key, Searched: queries}}}
	// The content of the sources is recorded, so a replay does not need them.
	e := &journal.Effect{Key: "verify", Kind: "save", Name: "verify", Repeat: journal.RepeatFreely}
	kept, err := journal.Do(ctx, t.Scope(), e, func(ctx context.Context, _ string) (checked, error) {
		var root *builtin.Root
		if s.Docs != "" {
			if _, root, err = r.open(ctx, t, &s); err != nil {
				return checked{}, err
			}
		}
		good, dropped := verify(root, out.Messages, found)
		return checked{good, dropped}, nil
	})
	u.Findings, u.Dropped = kept.Findings, kept.Dropped
	return u, err
}

// checked is the result of verify.
type checked struct {
	Findings []finding `json:"findings,omitempty"`
	Dropped  int       `json:"dropped,omitempty"`
}

// mission returns the prompt for a researcher.
func (s *state) mission(job *assignment) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Question: %s\nDirection: %s\n", oneLine(s.Question), job.Direction.Topic)
	if job.Direction.Rationale != "" {
		fmt.Fprintf(&b, "Why it matters: %s\n", job.Direction.Rationale)
	}
	for _, o := range s.Directions {
		if o.Key != job.Direction.Key {
			fmt.Fprintf(&b, "Looked into by others: %s\n", o.Topic)
		}
	}
	for _, q := range slices.Concat(s.Queries, job.Direction.Searched) {
		fmt.Fprintf(&b, "Searched before: %s\n", oneLine(q))
	}
	for _, f := range s.Findings {
		if s.Rounds > 0 && f.supports(job.Direction.Key) {
			fmt.Fprintf(&b, "Found before: %s %s\n", f.place(), oneLine(f.Claim))
		}
	}
	fmt.Fprintf(&b, "You may search %s.\n", inwords.Plural(job.Searches, "time"))
	return b.String()
}

// mostRounds bounds how often researchers are sent out. Usually the search budget is used up
// earlier.
const mostRounds = 8

// coverage decides whether enough is known, after every round of researchers.
func coverage(_ context.Context, _ *graph.Task, s state) (update, error) {
	enough := s.Searches >= s.Max || len(s.open()) == 0 || s.Searches == s.Checked || s.Rounds+1 >= mostRounds
	return update{Rounds: 1, Checked: s.Searches, Enough: enough}, nil
}

type content struct {
	Content  string `json:"content" jsonschema:"the whole report in Markdown, without the list of sources"`
	Answered *bool  `json:"answered,omitempty" jsonschema:"false if the sources do not answer the question"`
}

func (r *researcher) synthesize(ctx context.Context, t *graph.Task, s state) (update, error) {
	m, err := r.modelFor(t, &s)
	if err != nil {
		return update{}, err
	}
	u := update{}
	if m == nil {
		u.Brief, u.Quoted = s.extract()
	} else if u, err = r.write(ctx, t, &s, m); err != nil || s.Report == "" {
		return u, err
	}
	if s.Report == "" {
		return u, nil
	}
	// Writing is a separate effect: if it fails, the text is in the log, and resuming the run tries
	// again.
	u.Report = s.file(t.Scope().Run())
	err = imported(t.Scope().Imported(), u.Report)
	if err == nil {
		err = r.mayWrite(s.Guest || r.opt.Guest, u.Report)
	}
	if err != nil {
		return update{}, err
	}
	_, err = graph.Do(ctx, "report", func(context.Context, string) (string, error) {
		return u.Report, save(u.Report, u.Brief+"\n"+docindex.BriefMark+"\n")
	})
	return u, err
}

// write has a language model write the brief.
func (r *researcher) write(ctx context.Context, t *graph.Task, s *state, m model.Model) (update, error) {
	sources := s.numbered()
	a := &agent.Agent{Name: "synthesizer", Model: m, Prompt: synthesizerPrompt, Finish: "write_file", Limits: agent.Limits{Turns: 5}}
	c, out, err := work(ctx, t, a, []*tool.Tool{builtin.Think()}, "Write the report to its file. The list of sources is added to it.",
		func(in content) error { return checkCitations(in.Content, len(sources)) }, s.brief(sources))
	if err != nil {
		return update{}, err
	}
	switch {
	case out.Args == nil && len(sources) == 0:
		return update{}, fmt.Errorf("model %s found nothing and wrote nothing; it may not be able to call tools: use another one with --model", s.Model)
	case out.Args == nil:
		c.Content = s.listing(sources)
	}
	u := update{Answered: len(sources) > 0}
	if c.Answered != nil {
		u.Answered = u.Answered && *c.Answered
	}
	u.Brief, u.Quoted = s.render(c.Content, sources, u.Answered)
	return u, nil
}

// brief returns the prompt of the synthesizer.
func (s *state) brief(sources []finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Question: %s\n\nSources:\n", oneLine(s.Question))
	if len(sources) == 0 {
		b.WriteString("(none: nothing was found)\n")
	}
	for i, f := range sources {
		fmt.Fprintf(&b, "[%d] %s %q\n", i+1, f.place(), f.Text)
		if f.Claim != "" && f.Claim != f.Text {
			fmt.Fprintf(&b, "    taken for: %s\n", oneLine(f.Claim))
		}
		if len(f.Copies) > 0 {
			fmt.Fprintf(&b, "    copies, which are no further source: %s\n", strings.Join(f.Copies, ", "))
		}
	}
	b.WriteString("\nDirections:\n")
	for _, d := range s.Directions {
		fmt.Fprintf(&b, "- %s: %s\n", d.Topic, inwords.Plural(len(s.sources(d.Key)), "independent source"))
	}
	return b.String()
}
