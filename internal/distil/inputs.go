package distil

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	delegate "github.com/superstep-dev/superstep/internal/builtin/agent"
	"github.com/superstep-dev/superstep/internal/recipe"
)

// given collects the inputs of the run and the messages of users in it.
func (p *plan) given() error {
	if p.rec.started.Workflow == delegate.Name {
		var in delegate.Inputs
		if err := json.Unmarshal(orNull(p.rec.started.Inputs), &in); err != nil {
			return fmt.Errorf("the inputs of the run: %w", err)
		}
		p.prompt = in.Prompt
		p.offer(&input{Input: recipe.Input{Name: "task", Description: "What to do", Type: "string", Required: true}, value: in.Prompt})
		p.task = build(p.prompt, p.from)
	} else if err := p.declared(); err != nil {
		return err
	}
	for _, a := range p.rec.answers {
		p.offer(&input{
			Input: recipe.Input{Name: "answer", Description: "The answer to: " + line(a.question, 300), Type: "string", Required: true},
			value: a.text, given: "a person",
		})
	}
	return nil
}

// declared collects the inputs of a graph, with their declarations if there is a recipe.
func (p *plan) declared() error {
	values, _ := decoded(p.rec.started.Inputs).(map[string]any)
	if files := p.rec.files(); len(files) > 0 {
		for _, in := range files[0].Inputs {
			v, ok := values[in.Name]
			if !ok && in.Default != nil {
				v, ok = decoded(in.Default), true
			}
			if ok {
				p.offer(&input{Input: in, value: v})
			}
		}
		return nil
	}
	for _, name := range keysOf(values) {
		in := recipe.Input{Name: name, Type: "string", Required: true}
		if !refName(name) {
			continue
		}
		switch v := values[name].(type) {
		case bool: // an option
			in.Type, in.Required, in.Default = "boolean", false, compact(v)
		case json.Number:
			in.Type, in.Required, in.Default = "number", false, compact(v)
			if !strings.ContainsAny(v.String(), ".eE") {
				in.Type = "integer"
			}
		case []any:
			in.Type = "list"
		case map[string]any:
			in.Type = "object"
		case nil:
			continue
		}
		p.offer(&input{Input: in, value: values[name]})
	}
	return nil
}

// offer creates an input that steps may refer to, under an unused name.
func (p *plan) offer(in *input) *input {
	base := in.Name
	for n := 2; slices.ContainsFunc(p.inputs, func(o *input) bool { return o.Name == in.Name }); n++ {
		in.Name = fmt.Sprintf("%s_%d", base, n)
	}
	p.inputs = append(p.inputs, in)
	switch v := in.value.(type) {
	case string:
		if strings.TrimSpace(v) != "" {
			p.from = append(p.from, &source{text: v, input: in.Name, loose: utf8.RuneCountInString(v) < 3 || in.given != "" && utf8.RuneCountInString(v) < short})
		}
	case bool:
	case map[string]any:
		p.from = append(p.from, outputs(compact(v), 0, func(sub string) *source { return &source{input: in.Name, sub: sub} })...)
	default:
		p.from = append(p.from, &source{text: string(compact(v)), input: in.Name, exact: true})
	}
	return in
}

// slots turns parts of the user's prompt that recur in later prompts into inputs.
func (p *plan) slots() {
	var texts []string
	for _, s := range p.steps {
		var b strings.Builder
		for _, t := range s.texts() {
			b.WriteString(t.literal() + "\n")
		}
		texts = append(texts, b.String())
	}
	var own []*source // what only inputs of a fold and slots are put into: the task itself is no part of itself
	for _, src := range p.from {
		if src.input != "task" {
			own = append(own, src)
		}
	}
	for _, s := range useful(findSlots(p.prompt, texts), texts) {
		if slices.ContainsFunc(p.inputs, func(in *input) bool { return in.value == any(s.text) }) {
			continue
		}
		in := p.offer(&input{Input: recipe.Input{Name: s.name, Type: "string", Required: true, Description: described[s.name]}, value: s.text})
		own = append(own, &source{text: s.text, input: in.Name})
	}
	if len(own) > 0 {
		if t := build(p.prompt, own); len(t.sources()) > 0 {
			p.task = t
		}
	}
}

// useful returns the slots that occur in the texts once all are filled in, and drops those that
// occur only inside others.
func useful(found []slot, texts []string) []slot {
	var all []*source
	for _, s := range found {
		all = append(all, &source{text: s.text, input: s.text})
	}
	used := map[string]bool{}
	for _, t := range texts {
		for _, src := range build(t, all).sources() {
			used[src.input] = true
		}
	}
	return slices.DeleteFunc(found, func(s slot) bool { return !used[s.text] })
}

// described maps usual input names to descriptions.
var described = map[string]string{"topic": "What it is about", "path": "A path", "url": "An address"}

// example adds the value of the run to the description of an input.
func (in *input) example() string {
	text := string(compact(in.value))
	if s, ok := in.value.(string); ok {
		text = s
	}
	text = line(text, 120)
	if in.Default != nil || text == "" || strings.Contains(in.Description, text) || in.given != "" && in.Description == "" {
		return in.Description
	}
	if in.Description == "" {
		return "Such as: " + text
	}
	return strings.TrimRight(in.Description, ".") + ". Such as: " + text
}
