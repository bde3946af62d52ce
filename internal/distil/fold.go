package distil

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/recipe"
)

// A fold is the same work on each item of a list, which becomes a foreach.
type fold struct {
	list  []any  // the items
	unit  *unit  // that gave the list, nil for an input
	input string // the input that is the list; "" for one that the user's prompt has in it
	spot  string // of the latter: the part of the prompt that names the items
	rows  [][]*unit
	step  *step
}

// least is the smallest number of items for which a foreach is worthwhile.
const least = 3

// maxPairs bounds the search for a foreach.
const maxPairs = 100_000

// findFolds finds the lists whose items were all processed in the same way.
func findFolds(p *plan) []*fold {
	var out []*fold
	used := map[*unit]bool{}
	try := func(f *fold) {
		if len(f.list) < least || len(f.list)*len(p.steps) > maxPairs {
			return
		}
		for row := f.next(p, used); row != nil; row = f.next(p, used) {
			for i, u := range row {
				f.rows[i] = append(f.rows[i], u)
				used[u] = true
			}
		}
		if len(f.rows[0]) > 0 {
			out = append(out, f)
		}
	}
	for _, s := range p.steps {
		if list, ok := listOf(s.unit.value); ok && s.unit.kind != funcUnit {
			try(&fold{list: list, unit: s.unit, rows: make([][]*unit, len(list))})
		}
	}
	for _, in := range p.inputs {
		if list, ok := in.value.([]any); ok {
			try(&fold{list: list, input: in.Name, rows: make([][]*unit, len(list))})
		}
	}
	if p.prompt != "" {
		for _, f := range p.listed(used) {
			try(f)
		}
	}
	return out
}

// listOf returns an output as a list, even if an agent wrote the list as text.
func listOf(value json.RawMessage) ([]any, bool) {
	v := decoded(value)
	if s, ok := v.(string); ok {
		if v = nil; json.Valid([]byte(s)) {
			v = decoded(json.RawMessage(s))
		}
	}
	list, ok := v.([]any)
	return list, ok
}

// sources returns the forms in which an item occurs in the texts of its steps.
func (f *fold) sources(i int) []*source {
	out := outputs(compact(f.list[i]), 0, func(sub string) *source { return &source{item: "item", sub: sub} })
	for _, s := range out {
		s.loose = false
	}
	if m, ok := f.list[i].(map[string]any); ok { // numbers are fields too
		for _, k := range keysOf(m) {
			if n, is := m[k].(json.Number); is && refName(k) {
				out = append(out, &source{item: "item", sub: "." + k, text: n.String(), exact: true})
			}
		}
	}
	return out
}

// next finds, for each item, a unit after the ones found so far, all of the same agent or tool and
// with the same template. If it finds none, it returns nil.
func (f *fold) next(p *plan, used map[*unit]bool) []*unit {
	type shape struct {
		name string
		kind unitKind
		text string
	}
	rows := map[shape][]*unit{}
	var order []shape
	for i := range f.list {
		srcs := f.sources(i)
		for k, u := range f.rows[i] {
			srcs = append(srcs, outputs(u.value, u.ended, func(sub string) *source { return &source{item: fmt.Sprintf("inner %d", k), sub: sub} })...)
		}
		for _, s := range p.steps {
			u := s.unit
			if u == nil || s.final || used[u] || u.changes || u == f.unit || f.unit != nil && f.unit.ended >= u.asked || len(f.rows[i]) > 0 &&
				f.rows[i][len(f.rows[i])-1].ended >= u.asked {
				continue
			}
			text, args := written(u, srcs)
			whole := &step{text: text, args: args}
			var own bool
			var b strings.Builder
			for _, t := range whole.texts() {
				for _, part := range t.parts {
					if part.src != nil {
						own = true
						b.WriteString("\x00" + part.src.item + part.src.sub + "\x00")
					} else {
						b.WriteString(part.lit)
					}
				}
				b.WriteString("\x01")
			}
			if !own {
				continue
			}
			key := shape{u.name, u.kind, b.String()}
			if rows[key] == nil {
				rows[key] = make([]*unit, len(f.list))
				order = append(order, key)
			}
			if rows[key][i] == nil && !slices.Contains(rows[key], u) {
				rows[key][i] = u
			}
		}
	}
	for _, key := range order {
		if !slices.Contains(rows[key], nil) {
			return rows[key]
		}
	}
	return nil
}

// listed finds lists in the user's prompt. Their items are the parts in which otherwise equal
// prompts of agents differ.
func (p *plan) listed(used map[*unit]bool) []*fold {
	groups := map[string][]*unit{}
	var order []string
	for _, s := range p.steps {
		u := s.unit
		if s.rows != nil || s.final || used[u] || u.kind != agentUnit {
			continue
		}
		key := fmt.Sprint(u.name, " ", u.asked)
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], u)
	}
	var out []*fold
	for _, key := range order {
		g := groups[key]
		if len(g) < least {
			continue
		}
		prompts := make([]string, len(g))
		for i, u := range g {
			prompts[i] = u.prompt
		}
		items := differ(prompts)
		spot, ok := enumerated(p.prompt, items)
		if !ok {
			continue
		}
		f := &fold{spot: spot, rows: make([][]*unit, len(items))}
		for _, item := range items {
			f.list = append(f.list, item)
		}
		out = append(out, f)
	}
	return out
}

// differ returns the parts in which texts differ, or nil if they are equal or differ in several
// places.
func differ(texts []string) []string {
	first := texts[0]
	head, tail := len(first), len(first)
	for _, t := range texts[1:] {
		n := 0
		for n < min(head, len(t)) && t[n] == first[n] {
			n++
		}
		head = n
		n = 0
		for n < min(tail, len(t)) && t[len(t)-1-n] == first[len(first)-1-n] {
			n++
		}
		tail = n
	}
	for head > 0 && (wordy(lastRune(first[:head])) || !utf8.RuneStart(first[min(head, len(first)-1)])) {
		head--
	}
	for tail > 0 && (wordy(firstRune(first[len(first)-tail:])) || !utf8.RuneStart(first[len(first)-tail])) {
		tail--
	}
	var out []string
	for _, t := range texts {
		if head+tail >= len(t) || len(t)-head-tail > 200 {
			return nil
		}
		item := strings.TrimSpace(t[head : len(t)-tail])
		// An item that occurs twice in a text makes it differ in several places: the first
		// difference counts as the item.
		if i := strings.IndexAny(item, ".;:\n"); i > 0 && strings.Count(t, item[:i]) > 1 {
			item = item[:i]
		}
		out = append(out, item)
	}
	return out
}

func lastRune(s string) rune  { r, _ := utf8.DecodeLastRuneInString(s); return r }
func firstRune(s string) rune { r, _ := utf8.DecodeRuneInString(s); return r }

// enumerated returns the part of a text that lists the items.
func enumerated(text string, items []string) (string, bool) {
	if len(items) < least || items[0] == "" {
		return "", false
	}
	start := strings.Index(text, items[0])
	if start < 0 {
		return "", false
	}
	at := start
	for i, item := range items {
		n := strings.Index(text[at:], item)
		if item == "" || n < 0 || slices.Contains(items[:i], item) {
			return "", false
		}
		between := strings.ToLower(strings.Trim(text[at:at+n], " \t\n,;&/-*•\"'`"))
		if i > 0 && between != "" && between != "and" && between != "or" {
			return "", false
		}
		at += n + len(item)
	}
	return text[start:at], true
}

// fold replaces units with the foreach that represents them.
func (p *plan) fold(f *fold) {
	s := &step{rows: f.rows, items: len(f.list), unit: f.rows[0][0]}
	for k := range f.rows[0] {
		u := f.rows[0][k]
		s.inner = append(s.inner, &step{unit: u, schema: u.schema})
	}
	f.step = s
	list := &source{input: f.input}
	switch {
	case f.unit != nil:
		for _, o := range p.steps {
			if o.unit == f.unit {
				list = &source{step: o}
			}
		}
	case f.input == "":
		in := p.offer(&input{Input: recipe.Input{Name: "items", Description: "What to do it for, each by itself", Type: "list", Required: true}, value: f.list})
		list.input = in.Name
		p.from = append(p.from, &source{text: f.spot, input: in.Name})
	}
	s.in = &tmpl{[]part{{src: list}}}
	at := slices.IndexFunc(p.steps, func(o *step) bool { return o.asked() > s.asked() })
	if at < 0 {
		at = len(p.steps)
	}
	p.steps = slices.Insert(p.steps, at, s)
}

// unfold writes the steps inside of foreachs.
func (p *plan) unfold(folds []*fold) error {
	for _, f := range folds {
		if err := p.unfoldOne(f); err != nil {
			return err
		}
	}
	return nil
}

// unfoldOne writes the steps inside of a foreach. They must be the same for each item.
func (p *plan) unfoldOne(f *fold) error {
	s := f.step
	for i, row := range f.rows {
		srcs := f.sources(i)
		for k, u := range row {
			text, args := written(u, append(p.known(u.asked, s), srcs...))
			made := &step{text: text, args: args}
			if in := s.inner[k]; i == 0 {
				in.text, in.args = text, args
			} else if !slices.EqualFunc(made.texts(), in.texts(), (*tmpl).same) || shapeOf(made.args) != shapeOf(in.args) {
				return fmt.Errorf("what was done for each item is not the same: %s", what(u))
			}
			inner := s.inner[k]
			srcs = append(srcs, outputs(u.value, u.ended, func(sub string) *source { return &source{step: inner, sub: sub} })...)
		}
	}
	return nil
}

// shapeOf returns a value without the content of its templates.
func shapeOf(v any) string {
	var strip func(v any) any
	strip = func(v any) any {
		switch x := v.(type) {
		case *tmpl:
			return "?"
		case []any:
			out := make([]any, len(x))
			for i := range x {
				out[i] = strip(x[i])
			}
			return out
		case map[string]any:
			out := map[string]any{}
			for k := range x {
				out[k] = strip(x[k])
			}
			return out
		}
		return v
	}
	return string(compact(strip(v)))
}
