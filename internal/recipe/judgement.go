package recipe

import (
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// A Judgement is a step that needs a language model, and why.
type Judgement struct {
	Step string `json:"step"` // its ID, "" for the whole recipe
	Why  string `json:"why"`
}

func (j *Judgement) String() string {
	if j.Step == "" {
		return j.Why
	}
	return "step " + j.Step + ": " + j.Why
}

// Quoting describes a model that only searches documents and quotes them.
type Quoting struct {
	// Tools returns the tools of an agent, or nil for all tools. If the agent does not exist, the
	// second result is false.
	Tools func(agent string) ([]string, bool)
	// Fits returns why quotes cannot satisfy a schema, or "" if they can.
	Fits func(*jsonschema.Schema) (why string)
}

// Judgements returns the steps that a model which only quotes cannot do, in the order of the file.
// Such a model can quote what an agent finds with search tools, and combine the quotes of earlier
// steps. It cannot act, create, decide what runs next, or fill schemas other than those of texts.
func (r *Recipe) Judgements(q *Quoting) []Judgement {
	j := &judging{Quoting: q, answers: map[string]bool{}, items: map[string]bool{}}
	r.Walk(func(s *Step, _ int) bool {
		j.answers["steps."+s.ID] = j.answered(s)
		if s.Foreach != nil && slices.ContainsFunc(s.Foreach.In.Refs(), func(ref Ref) bool { return ref.Step() != "" }) {
			j.items[s.Foreach.As] = true
			j.answers[s.Foreach.As] = slices.ContainsFunc(s.Foreach.In.Refs(), j.answer)
		}
		return true
	})
	var out []Judgement
	r.Walk(func(s *Step, _ int) bool {
		if why := j.why(s); why != "" {
			out = append(out, Judgement{s.ID, why})
		}
		return true
	})
	return out
}

type judging struct {
	*Quoting
	answers map[string]bool // what refers to the answers of agents: "steps.ID", or the item of a foreach
	items   map[string]bool // items that steps before have given
}

// answered reports whether the output of a step comes from an agent.
func (j *judging) answered(s *Step) bool {
	if body := s.Body(); body != nil {
		return slices.ContainsFunc(body.Steps, j.answered)
	}
	return s.Agent != nil || s.Value != nil && slices.ContainsFunc(s.Value.Refs(), j.answer)
}

// answer reports whether a reference is to an agent's answer rather than to the status of its step.
func (j *judging) answer(ref Ref) bool {
	path := ref.Path()
	return j.answers[path[0]] || j.answers["steps."+ref.Step()] && (len(path) < 3 || path[2] == "output")
}

// why returns why a step needs a language model, or "" if it does not need one.
func (j *judging) why(s *Step) string {
	for _, c := range []*Condition{s.When, s.until()} {
		if c != nil && slices.ContainsFunc(c.Refs(), j.answer) {
			return "it depends on what agents answer: " + c.String()
		}
	}
	if s.Agent == nil {
		return ""
	}
	return j.agent(s)
}

func (s *Step) until() *Condition {
	if s.Loop == nil {
		return nil
	}
	return s.Loop.Until
}

// agent returns why the agent of a step needs a language model, or "" if the agent only has to
// quote.
func (j *judging) agent(s *Step) string {
	if s.Output != nil {
		if why := j.Fits(s.Output); why != "" {
			return why
		}
	}
	material := slices.ContainsFunc(s.Agent.Prompt.Refs(), func(r Ref) bool { return r.Step() != "" || j.items[r.Path()[0]] })
	if verb := creates(s.Agent.Prompt.String(), material); verb != "" {
		return "it is told to " + verb
	}
	tools, ok := j.Tools(s.Agent.Name)
	switch {
	case !ok:
		return ""
	case tools == nil:
		return "agent " + s.Agent.Name + " may use every tool"
	}
	searches := false
	for _, t := range tools {
		switch t {
		case "search_docs", "grep":
			searches = true
		case "read_file", "ls", "glob", "web_search", "web_fetch", "think", "todo", "write_file":
		default:
			return "agent " + s.Agent.Name + " works with " + t
		}
	}
	if !searches && !material {
		return "agent " + s.Agent.Name + " can search no documents, and has no output of an earlier step"
	}
	return ""
}

var sentenceStart = regexp.MustCompile(`(?:^|[.!?:]\s+|\n\s*\n\s*|\n\s*[-*•] |\n\s*\d+[.)] )([A-Za-z]+)(?:\s+(\w+))?`)

// creates returns the verb of the first instruction that needs more than finding and quoting, or ""
// if there is none. A text may be written from material.
func creates(prompt string, material bool) string {
	const judging = " assess brainstorm calculate change check choose classify code compare compute convert count create criticise criticize " +
		"critique debug decide delete design edit " +
		"estimate evaluate fix generate grade guess implement improve invent judge label mend modify name plan predict prioritise prioritize " +
		"propose prove rank rate recommend refactor " +
		"refute rephrase replace review rewrite run score solve split suggest test translate update validate verify vote weigh "
	const writing = " compose draft make write "
	for _, m := range sentenceStart.FindAllStringSubmatch(prompt, -1) {
		verb, next := strings.ToLower(m[1]), strings.ToLower(m[2])
		if next == "no" || next == "nothing" || next == "none" { // "Change nothing."
			continue
		}
		if strings.Contains(judging, " "+verb+" ") || !material && strings.Contains(writing, " "+verb+" ") {
			return verb
		}
	}
	return ""
}
