package permit

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const mostForms = 200 // ways to read one command that may start others

// call looks at a simple command. What it starts itself is its own business, which the sandbox bounds; rules that deny
// or ask are also held against what its words may be as a command.
func (a *analysis) call(all []string) {
	if len(all) == 0 {
		return
	}
	a.segment(all, suffixes(all))
	if strings.ContainsAny(all[0], string(within)+string(spread)) || all[0] == "" {
		a.hard("the name of a command in it is computed")
	}
	if all[0] == "cd" || all[0] == "pushd" || all[0] == "popd" {
		a.moved = true
	}
	if a.depth > 1 {
		return
	}
	for _, w := range all[1:min(len(all), mostForms)] {
		if strings.ContainsAny(w, " \t\n;|&") && plain(w) && len(w) < 4096 {
			a.held(w)
		}
	}
}

// held adds the commands in a word that may be a text for another shell, for rules that deny or ask.
func (a *analysis) held(w string) {
	inner := analysis{policy: a.policy, depth: a.depth + 1}
	inner.text(w, syntax.LangBash)
	for _, u := range inner.units {
		if u.words != nil && len(a.units) < 4*mostSegments {
			a.units = append(a.units, unit{words: []string{""}, forms: append(u.forms, u.words), around: true})
		}
	}
}

// suffixes are the commands that something that starts others may start.
func suffixes(all []string) [][]string {
	var out [][]string
	for i := 1; i < len(all) && i <= mostForms; i++ {
		if all[i] == "" || !plain(all[i]) {
			continue // it may be anything, as may every word of every command
		}
		out = append(out, all[i:min(len(all), i+mostForms)])
	}
	return out
}

func plain(s string) bool { return !strings.ContainsAny(s, string(within)+string(spread)) }
