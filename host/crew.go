package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	delegate "github.com/superstep-dev/superstep/internal/builtin/agent"
	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/compile"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/workflow"
)

// projectOf returns the project of a run in a folder, with the rules that it began with. A recipe
// may use models that are refused to agents users talk to.
func (h *Host) projectOf(dir string, rules []string, onAsk string, models func(string) (model.Model, error)) (*project, error) {
	if err := h.serves(dir, rules); err != nil {
		return nil, err
	}
	all, err := h.rules(rules)
	if err != nil {
		return nil, err
	}
	if h.cfg.Fresh {
		h.Refresh()
	}
	return h.projectAt(rootOf(dir, h.Home()), all, h.headless(cmp.Or(h.cfg.OnAsk, onAsk)), models)
}

// rules returns the rules that the run began with and the rules of the user who resumes it.
func (h *Host) rules(began []string) ([]permit.Rule, error) {
	var rules []permit.Rule
	for line := range strings.FieldsFuncSeq(h.cfg.Rules, func(c rune) bool { return c == '\n' }) {
		word, _, _ := strings.Cut(line, " ")
		r, err := parseRule(line, "--"+word)
		if err != nil {
			return nil, fmt.Errorf("the rule %q of the settings: %w", line, err)
		}
		rules = append(rules, r)
	}
	for _, text := range began {
		r, err := parseRule(text, "the run")
		if err != nil {
			return nil, fmt.Errorf("the rule %q with which the run began: %w", text, err)
		}
		if !slices.ContainsFunc(rules, func(have permit.Rule) bool { return have.Decision == r.Decision && have.String() == r.String() }) {
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// parseRule parses a decision followed by a rule, such as "deny read_file(secret/**)".
func parseRule(text, source string) (permit.Rule, error) {
	word, rule, _ := strings.Cut(text, " ")
	d, err := permit.ParseDecision(word)
	switch {
	case err != nil:
		return permit.Rule{}, err
	case d == "":
		return permit.Rule{}, errors.New("begin it with allow, ask or deny")
	}
	return permit.Parse(d, rule, source)
}

// texts are rules as parseRule reads them.
func texts(rules []permit.Rule) []string {
	var out []string
	for _, r := range rules {
		out = append(out, string(r.Decision)+" "+r.String())
	}
	return out
}

// errReplay is returned by every operation that a replay must not perform.
var errReplay = errors.New("a replay does nothing")

// leads returns the options of the workflow "agent" that come from a host.
type leads struct{ *Host }

// project returns the project of a run and its agent, which is prepared but not started.
func (h leads) project(in *delegate.Inputs) (*project, *prepared, error) {
	p, err := h.projectOf(in.Dir, in.Rules, in.OnAsk, h.agentModel)
	if err != nil {
		return nil, nil, err
	}
	found, err := p.prepare(in.Agent, in.Model)
	if errors.As(err, new(*catalog.NotFoundError)) {
		err = &workflow.InputsError{Workflow: delegate.Name, Problems: []string{"agent: " + err.Error()}}
	}
	return p, found, err
}

func (h leads) prepare(in *delegate.Inputs) error {
	if info, err := os.Stat(in.Dir); err != nil || !info.IsDir() {
		return &workflow.InputsError{Workflow: delegate.Name, Problems: []string{"dir: there is no folder " + in.Dir}}
	}
	if len(in.Messages) == 0 && !within(trust.Resolved(h.Dir()), in.Dir) { // a conversation goes on where it was
		return &workflow.InputsError{Workflow: delegate.Name, Problems: []string{fmt.Sprintf("dir: %s is not in the project %s; start the run there", in.Dir, h.Dir())}}
	}
	p, found, err := h.project(in)
	if err != nil {
		return err
	}
	if wary := p.Hidden(in.Agent); wary != nil && in.Agent != delegate.Lead {
		return wary // somebody asked for this one by its name
	}
	in.Rules, in.OnAsk = texts(p.rules), cmp.Or(in.OnAsk, h.cfg.OnAsk)
	in.Dir, in.Model, in.Definition = p.dir, found.model, found.parts
	return nil
}

func (h leads) crew(ctx context.Context, in *delegate.Inputs) (*delegate.Crew, error) {
	if h.cfg.Replay {
		s, err := replaying()
		if err != nil {
			return nil, err
		}
		lead, err := s.Agent(in.Agent, in.Model)
		return &delegate.Crew{Agent: lead, Close: s.Close, SaveDraft: func(context.Context, string, []byte) (string, error) { return "", errReplay }}, err
	}
	p, found, err := h.project(in)
	if err != nil {
		return nil, err
	}
	s, err := p.start(ctx, in.Model, &needs{agents: []string{in.Agent}})
	if err != nil {
		return nil, err
	}
	lead, err := s.Agent(in.Agent, in.Model)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &delegate.Crew{
		Agent: lead, Definition: found.parts, Close: s.Close, Check: p.check,
		SaveDraft: func(_ context.Context, name string, text []byte) (string, error) {
			return p.saveDraft(name, string(text), "agent "+in.Agent)
		},
	}, nil
}

// steps returns recipes the agents and tools of the project that their runs work in.
type steps struct{ *Host }

// options returns the options that recipes are compiled with.
func (h steps) options(lazy bool) *compile.Options {
	setting := compile.Setting{Dir: h.Dir(), OnAsk: h.cfg.OnAsk}
	if h.cfg.Model != h.cfg.UserModel { // which goes before what recipes and agents say only where it is said with the run
		setting.Model = h.cfg.Model
	}
	return &compile.Options{
		Setting: setting, Concurrency: h.cfg.Concurrency, Lazy: lazy, Compiled: &h.all.compiled, Prepare: h.prepare, Open: h.crew,
	}
}

// project returns the project of a run, and the digests of all that the steps work with. Every agent is looked for, with its
// model.
func (h steps) project(n *compile.Needs, s *compile.Setting) (*project, map[string]string, error) {
	p, err := h.projectOf(s.Dir, s.Rules, s.OnAsk, h.stepModel)
	if err != nil {
		return nil, nil, err
	}
	parts := map[string]string{}
	var errs []error
	for _, a := range n.Agents {
		found, err := p.prepare(a.Name, cmp.Or(s.Model, a.Model))
		var none *Error
		switch {
		case errors.As(err, &none): // every agent lacks the model
			return nil, nil, err
		case err != nil:
			errs = append(errs, fmt.Errorf("sub-agent %s: %w", a.Name, err))
		default:
			maps.Copy(parts, found.parts)
		}
	}
	err = p.toolParts(parts, &usage{tools: n.Tools})
	return p, parts, errors.Join(append(errs, err)...)
}

func (h steps) prepare(n *compile.Needs, s *compile.Setting) error {
	p, parts, err := h.project(n, s)
	if err == nil {
		s.Parts, s.Rules = parts, texts(p.rules)
	}
	return err
}

func (h steps) crew(ctx context.Context, n *compile.Needs, s *compile.Setting) (*compile.Crew, error) {
	if h.cfg.Replay {
		replay, err := replaying()
		if err != nil {
			return nil, err
		}
		return &compile.Crew{Agent: replay.Agent, Close: replay.Close}, nil
	}
	p, parts, err := h.project(n, s)
	if err != nil {
		return nil, err
	}
	need := &needs{tools: n.Tools}
	for _, a := range n.Agents {
		need.agents = append(need.agents, a.Name)
	}
	session, err := p.start(ctx, s.Model, need)
	if err != nil {
		return nil, err
	}
	return &compile.Crew{
		Agent: func(name, model string) (*agent.Agent, error) { return session.Agent(name, cmp.Or(s.Model, model)) },
		Tools: session.Tools(), Unknown: session.unknown, Parts: parts, Close: session.Close,
	}, nil
}
