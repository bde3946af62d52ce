package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/transcript"
)

// checkAnswers refuses answers that fit no open question or could be meant for several, before
// anything runs, and binds the others to the question that each is for. Unless all of them are
// to be for questions that are open, some may be for later ones.
func (a *app) checkAnswers(ctx context.Context, info runlog.Info, ans answers, all bool) error {
	if len(ans) == 0 {
		return nil
	}
	open, err := a.openQuestions(ctx, info.ID)
	if err != nil {
		return err
	}
	if len(open) == 0 && all {
		return usage(fmt.Sprintf("run %s has no open question; it is %s", info.ID, info.Status))
	}
	for _, g := range ans {
		met, others := ans.meant(g, open)
		switch {
		case len(met) == 0 && others == 0 && all:
			return usage(fmt.Sprintf("run %s has no open question of %q", info.ID, g.path), asked(open)...)
		case len(met) > ans.like(g):
			return usage(fmt.Sprintf("%s asks %s; say which one is meant, or answer each in this order", g.path, plural(len(met), "question")), asked(met)...)
		}
	}
	type bound struct {
		*given
		path string
	}
	var found []bound
	defer func() {
		for _, b := range found {
			b.used, b.given.path = false, b.path
		}
	}()
	for _, q := range open {
		g := ans.take(q.Path, q.Key)
		if g == nil {
			continue
		}
		if _, err := fit(&q.Asked, g.value); err != nil {
			if formOf(q.Schema) == nil && !strings.Contains(err.Error(), ", got ") {
				err = fmt.Errorf("%w, got %s", err, strconv.Quote(g.value))
			}
			return usage(fmt.Sprintf("%s: %v", q.Path, err))
		}
		g.used = true
		found = append(found, bound{g, q.Path + ":" + q.Key})
	}
	return nil
}

// meant are the questions that an answer can be for, without the others that it would be for if
// none were addressed to them better.
func (a answers) meant(g *given, open []runlog.OpenQuestion) (met []runlog.OpenQuestion, others int) {
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

// like counts the answers that are addressed as one is.
func (a answers) like(g *given) int {
	n := 0
	for _, other := range a {
		if other.path == g.path {
			n++
		}
	}
	return n
}

// openQuestions are those of a run, in the order in which they were asked.
func (a *app) openQuestions(ctx context.Context, id string) ([]runlog.OpenQuestion, error) {
	var open []runlog.OpenQuestion
	for rec, err := range runlog.Records(ctx, a.store, id, 0) {
		if err != nil {
			return nil, err
		}
		open = stillOpen(open, &rec)
	}
	return open, nil
}

// stillOpen are the open questions after another record.
func stillOpen(open []runlog.OpenQuestion, rec *runlog.Record) []runlog.OpenQuestion {
	switch rec.Kind {
	case runlog.KindAsked:
		var q runlog.Asked
		if json.Unmarshal(rec.Data, &q) == nil {
			open = append(open, runlog.OpenQuestion{Path: rec.Path, Asked: q})
		}
	case runlog.KindAnswered:
		var d runlog.Answered
		if json.Unmarshal(rec.Data, &d) == nil {
			open = slices.DeleteFunc(open, func(q runlog.OpenQuestion) bool { return q.Path == rec.Path && q.Key == d.Key })
		}
	}
	return open
}

// asked says what questions ask, and how an answer names them.
func asked(open []runlog.OpenQuestion) []string {
	at := map[string]int{}
	for _, q := range open {
		at[q.Path]++
	}
	var out []string
	for _, q := range open {
		out = append(out, transcript.Line(fmt.Sprintf("%s asks: %s%s", address(q.Path, q.Key, at[q.Path] == 1), q.Question, choices(&transcript.Question{Options: q.Options}))))
	}
	return out
}

// addressed is how an answer names one of the open questions.
func addressed(open []*transcript.Question, q *transcript.Question) string {
	n := 0
	for _, other := range open {
		if other.Path == q.Path {
			n++
		}
	}
	return address(q.Path, q.Key, n == 1)
}
