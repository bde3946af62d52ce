package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// answering checks the answers that are given ahead.
type answering struct{ *app }

// checkAnswers refuses answers that fit no open question or could be meant for several, before
// anything runs, and binds the others to the question that each is for. Unless all of them are
// to be for questions that are open, some may be for later ones.
func (a answering) checkAnswers(ctx context.Context, info runlog.Info, ans answers, all bool) error {
	if len(ans) == 0 {
		return nil
	}
	open, err := a.openQuestions(ctx, info)
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
	found := map[*given]string{}
	for _, q := range open {
		g := ans.take(q.Path, q.Key)
		if g == nil {
			continue
		}
		if _, err := fit(&q.Asked, g.value); err != nil {
			if formOf(q.Asked.Schema) == nil && !strings.Contains(err.Error(), ", got ") {
				err = fmt.Errorf("%w, got %s", err, strconv.Quote(g.value))
			}
			return usage(fmt.Sprintf("%s: %v", q.Path, err))
		}
		g.used = true // for now, so that the next question does not get it too
		found[g] = q.Path + ":" + q.Key
	}
	for g, path := range found {
		g.used, g.path = false, path
	}
	return nil
}

// addressed reads the answers of a command. One without a path is for the only question that is open; without any the
// questions are put on the terminal, if there is one.
func (a answering) addressed(ctx context.Context, info runlog.Info, args []string) (answers, error) {
	var out answers
	if len(args) > 1 || len(args) == 1 && strings.Contains(args[0], "=") {
		for _, s := range args {
			g, err := parseAnswer("runs answer:", s)
			if err != nil {
				return nil, err
			}
			out = append(out, g)
		}
		return out, nil
	}
	open, err := a.openQuestions(ctx, info)
	switch {
	case err != nil:
		return nil, err
	case len(open) == 0:
		return nil, usage(fmt.Sprintf("run %s has no open question; it is %s", info.ID, info.Status))
	case len(args) == 0 && a.asks():
		return nil, nil
	case len(args) == 0:
		return nil, usage(fmt.Sprintf("run %s has %s, and there is no terminal to ask on; give the answer", info.ID, plural(len(open), "open question")),
			asked(open)...)
	case len(open) > 1:
		return nil, usage(fmt.Sprintf("run %s has %d open questions; say which one is meant: PATH=%s", info.ID, len(open), args[0]), asked(open)...)
	}
	return answers{{path: open[0].Path + ":" + open[0].Key, value: args[0], text: args[0]}}, nil
}

// meant are the questions that an answer can be for, without the others that it would be for if
// none were addressed to them better.
func (a answers) meant(g *given, open []*transcript.Question) (met []*transcript.Question, others int) {
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
func (a answering) openQuestions(ctx context.Context, info runlog.Info) ([]*transcript.Question, error) {
	run, err := a.read(ctx, info)
	return run.Open(), err
}

// asked says what questions ask, and how an answer names them.
func asked(open []*transcript.Question) []string {
	var out []string
	for _, q := range open {
		out = append(out, transcript.Line(fmt.Sprintf("%s asks: %s%s", addressed(open, q), headed(q.Header, q.Question), choices(q))))
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
