package host

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2/maybe"

	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/definition"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
)

// gate returns what decides on the calls of an agent.
func (s *Session) gate(d *definition.Definition) (tool.Gate, error) {
	rules, err := agentRules(d)
	if err != nil {
		return nil, err
	}
	policy, err := s.policy.With(permit.Agent, rules...)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", d.Name, err)
	}
	gate := tainted(policy)
	if len(d.Only) == 0 {
		return gate, nil
	}
	return s.p.bounded(d, gate)
}

// tainted returns a gate that also asks before data is sent by whoever has read what strangers wrote.
func tainted(inner tool.Gate) tool.Reader {
	return permit.Taint(inner, func(c *tool.Call) []string { return c.Seen })
}

// agentRules returns the rules in the definition of an agent. The item is usable, so its permission
// requests count.
func agentRules(d *definition.Definition) ([]permit.Rule, error) {
	deny, err := parseRules(tool.Deny, d.Source.String(), d.Deny...)
	ask, err2 := parseRules(tool.Ask, d.Source.String(), d.Ask...)
	allow, err3 := parseRules(tool.Allow, d.Source.String(), d.Allow...)
	if err = cmp.Or(err, err2, err3); err != nil {
		return nil, fmt.Errorf("agent %s: %w", d.Name, err)
	}
	return slices.Concat(deny, ask, allow), nil
}

// parseRules reads rules of one decision and source.
func parseRules(decision tool.Decision, source string, texts ...string) ([]permit.Rule, error) {
	var rules []permit.Rule
	for _, text := range texts {
		r, err := permit.Parse(decision, text, source)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// only is a gate that denies the calls of some tools that no rule is about.
type only struct {
	inner tool.Reader
	rules *permit.Policy
	tools map[string]bool
	list  string
}

func (p *project) bounded(d *definition.Definition, inner tool.Reader) (tool.Gate, error) {
	o := &only{inner: inner, tools: map[string]bool{}, list: strings.Join(d.Only, ", ")}
	rules, err := parseRules(tool.Allow, d.Source.String(), d.Only...)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", d.Name, err)
	}
	for _, r := range rules {
		o.tools[r.Tool] = true
	}
	if !o.tools["read_file"] { // other tools read what they are bound to
		rules = append(rules, permit.Rule{Decision: tool.Allow, Tool: "read_file"})
	}
	o.rules, err = permit.New(&permit.Options{
		Rules: map[permit.Layer][]permit.Rule{permit.Agent: rules}, NoDefaults: true, Root: p.dir, Home: p.h.Home(), Resolve: trust.Resolved,
	})
	return o, err
}

// Check implements tool.Gate.
func (o *only) Check(t *tool.Tool, c *tool.Call) tool.Verdict {
	v := o.inner.Check(t, c)
	if !o.tools[t.Name] || v.Decision == tool.Deny {
		return v
	}
	if within := o.rules.Check(t, c); within.Decision != tool.Allow {
		return o.denied(v.Subject)
	}
	return v
}

// Grants implements tool.Granter.
func (o *only) Grants(rule string, t *tool.Tool, c *tool.Call) bool {
	g, ok := o.inner.(tool.Granter)
	return ok && g.Grants(rule, t, c) && (!o.tools[t.Name] || o.rules.Check(t, c).Decision == tool.Allow)
}

// Reads implements tool.Reader. A tool that shows text and has no limits of its own has the limits of
// read_file.
func (o *only) Reads(name, from string, answers []string) func(string) tool.Verdict {
	inner := o.inner.Reads(name, from, answers)
	bound := name
	if !o.tools[name] && name != "ls" && name != "glob" {
		bound = "read_file"
	}
	if !o.tools[bound] {
		return inner
	}
	within := o.rules.Reads(bound, "", nil)
	return func(file string) tool.Verdict {
		v := inner(file)
		if v.Decision != tool.Deny && within(file).Decision != tool.Allow {
			return o.denied("")
		}
		return v
	}
}

func (o *only) denied(subject string) tool.Verdict {
	return tool.Verdict{Decision: tool.Deny, Rule: o.list, Origin: string(permit.Agent), Subject: subject, Reason: "this agent may only use it for " + o.list}
}

// A grant is a rule that a person has always allowed in a project.
type grant struct {
	Project string `json:"project"`
	Rule    string `json:"rule"`
}

func (p *project) grantsFile() string { return filepath.Join(p.h.ConfigDir(), "granted.json") }

func (p *project) readGrants() ([]grant, error) {
	b, err := readFile(p.grantsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []grant
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("what is always allowed cannot be read from %s: %w; mend the file or remove it", p.grantsFile(), err)
	}
	return list, nil
}

// granted returns the rules of this project.
func (p *project) granted() ([]permit.Rule, error) {
	list, err := p.readGrants()
	if err != nil {
		return nil, err
	}
	var own []string
	for _, g := range list {
		if g.Project == p.origin() {
			own = append(own, g.Rule)
		}
	}
	rules, err := parseRules(tool.Allow, p.grantsFile(), own...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.grantsFile(), err)
	}
	return rules, nil
}

// remember stores a rule that the user chose to always allow in this project.
func (p *project) remember(rule string) error {
	return p.changeGrants(func(list []grant) []grant {
		g := grant{p.origin(), rule}
		if slices.Contains(list, g) {
			return list
		}
		return append(list, g)
	})
}

// forgetRule removes an always-allowed rule of this project, and reports whether the rule existed.
func (p *project) forgetRule(rule string) (bool, error) {
	found := false
	return found, p.changeGrants(func(list []grant) []grant {
		left := slices.DeleteFunc(list, func(g grant) bool { return g == grant{p.origin(), rule} })
		found = len(left) < len(list)
		return left
	})
}

func (p *project) changeGrants(change func([]grant) []grant) error {
	if err := os.MkdirAll(p.h.ConfigDir(), 0o700); err != nil {
		return err
	}
	lock := flock.New(p.grantsFile() + ".lock")
	if err := lock.Lock(); err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // nothing was written to it
	list, err := p.readGrants()
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(change(list), "", "  ")
	if err != nil {
		return err
	}
	return maybe.WriteFile(p.grantsFile(), append(b, '\n'), 0o600)
}

// Rules returns the rules in effect in the folder of the host, in the order of their layers.
func (h *Host) Rules() ([]permit.Rule, error) {
	p, err := h.project()
	if err != nil {
		return nil, err
	}
	policy, err := p.policy()
	if err != nil {
		return nil, err
	}
	return policy.List(), nil
}

// Forget removes an always-allowed rule of the host's folder.
func (h *Host) Forget(rule string) error {
	p, err := h.project()
	if err != nil {
		return err
	}
	found, err := p.forgetRule(rule)
	if err == nil && !found {
		err = mistake(fmt.Sprintf("%q was not always allowed in %s", rule, p.dir))
	}
	return err
}
