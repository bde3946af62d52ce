package ralph

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/external"
	"github.com/superstep-dev/superstep/internal/plan"
)

//go:embed prompts/reviewer.md
var reviewerPrompt string

const (
	mostDiff    = 400 << 10 // bytes that a reviewer sees
	mostTitle   = 200       // bytes of the title of a finding
	cleanRounds = 2         // reviews in a row without a finding that end the run
)

// A finding is what a reviewer found.
type finding struct {
	Title    string `json:"title"`
	Body     string `json:"body,omitempty"`
	Priority int    `json:"priority"` // 0 to 3
	File     string `json:"file,omitempty"`
	Lines    string `json:"lines,omitempty"`
}

func (f finding) String() string {
	place := f.File
	if place != "" && f.Lines != "" {
		place += ":" + f.Lines
	}
	if place != "" {
		place = " (" + place + ")"
	}
	return fmt.Sprintf("[P%d] %s%s", f.Priority, f.Title, place)
}

// A review is the result of a reviewer.
type review struct {
	Reviewer string    `json:"reviewer"`
	Tip      string    `json:"tip,omitempty"` // what was reviewed
	Findings []finding `json:"findings,omitempty"`
	Failed   string    `json:"failed,omitempty"` // why there is none
}

// unreviewed is the result of a reviewer that failed.
func unreviewed(_ state, err error) update {
	return update{Review: &review{Failed: err.Error()}}
}

// review has a reviewer look at the diff.
func (r *runner) review(ctx context.Context, t *graph.Task, s state) (u update, err error) {
	var name string
	if err := t.Arg(&name); err != nil {
		return u, err
	}
	type change struct {
		Tip, Patch string
		Cut        bool
	}
	c, err := git(ctx, t, "diff", "diff", func(ctx context.Context) (c change, err error) {
		tree, err := r.trunk(ctx, &s, s.name(t))
		if err != nil {
			return c, err
		}
		if c.Tip, err = tree.Tip(ctx); err != nil {
			return c, err
		}
		c.Patch, c.Cut, err = tree.Diff(ctx, cmp.Or(r.in.Commit, tree.Base), mostDiff)
		return c, err
	})
	if err != nil {
		return u, err
	}
	out := &review{Reviewer: name, Tip: c.Tip}
	u.Review = out
	crew, err := r.crew(ctx, t, &s, "reviewer")
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, crew.Close()) }()
	a := *crew.Agent
	a.Name, a.Prompt, a.Tools, a.Actions = "reviewer", reviewerPrompt, nil, nil
	if _, own := a.Model.(external.Agent); !own {
		a.Limits.Single = true
	}
	var prompt strings.Builder
	accepted := s.Plan.Acceptance
	if len(accepted) == 0 {
		accepted = []string{r.in.work()}
	}
	prompt.WriteString("Acceptance criteria:\n")
	for _, text := range accepted {
		prompt.WriteString("- " + text + "\n")
	}
	if name != "everything" {
		fmt.Fprintf(&prompt, "\nLook above all for this: %s\n", name)
	}
	if c.Cut {
		fmt.Fprintf(&prompt, "\nThe diff is longer than %d KiB, and its end is left out.\n", mostDiff>>10)
	}
	fmt.Fprintf(&prompt, "\nThe diff:\n\n%s\n", c.Patch)
	said, err := a.Run(ctx, t.Scope(), &agent.Work{Prompt: prompt.String(), Stopped: t.Stopped()})
	if err != nil {
		return u, err
	}
	out.Findings, out.Failed = findings(name, said.Text)
	return u, nil
}

// findings reads what a reviewer says. Text that cannot be read counts as a finding, no text as none.
func findings(reviewer, said string) (out []finding, failed string) {
	if said = strings.TrimSpace(said); said == "" {
		return nil, ""
	}
	list := func(v any) ([]any, bool) {
		if m, is := v.(map[string]any); is {
			for _, k := range []string{"findings", "issues", "comments"} {
				if l, ok := m[k].([]any); ok {
					return l, true
				}
			}
			_, ok := m["reviewer_error"].(string)
			return nil, ok
		}
		l, ok := v.([]any)
		return l, ok && (len(l) == 0 || priorityOf(l[0]) >= 0)
	}
	v, ok := plan.Find(said, func(v any) bool { _, ok := list(v); return ok })
	if !ok {
		return []finding{{Title: "what the reviewer " + reviewer + " said", Body: clean.Text(said), Priority: 1}}, ""
	}
	if m, is := v.(map[string]any); is {
		if text, _ := m["reviewer_error"].(string); text != "" {
			return nil, clean.Text(text)
		}
	}
	items, _ := list(v)
	for _, item := range items {
		m, is := item.(map[string]any)
		if !is {
			m = map[string]any{"title": fmt.Sprint(item)}
		}
		text := func(names ...string) string {
			for _, n := range names {
				switch v := m[n].(type) {
				case string:
					return strings.TrimSpace(clean.Text(v))
				case json.Number:
					return v.String()
				case []any:
					return strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", "-"), "[]")
				}
			}
			return ""
		}
		f := finding{Title: firstLine(text("title", "summary", "message")), Body: text("body", "description", "details", "suggestion"),
			Priority: priorityOf(m), File: text("file", "path"), Lines: text("lines", "line")}
		if f.Title == "" {
			f.Title = firstLine(f.Body)
		} else if len(f.Title) > mostTitle {
			f.Body = strings.TrimSpace(f.Title + "\n\n" + f.Body)
		}
		f.Title = clean.Clip(f.Title, mostTitle)
		if f.Priority < 0 {
			f.Priority = 2
		}
		out = append(out, f)
	}
	return out, ""
}

// priorityOf returns the priority of a finding, -1 if it has none that is known.
func priorityOf(v any) int {
	m, _ := v.(map[string]any)
	p := m["priority"]
	if p == nil {
		p = m["severity"]
	}
	switch s := strings.ToLower(strings.TrimSpace(fmt.Sprint(p))); s {
	case "0", "p0", "critical", "blocker":
		return 0
	case "1", "p1", "high", "major", "error":
		return 1
	case "2", "p2", "medium", "moderate", "warning":
		return 2
	case "3", "p3", "low", "minor", "nit", "info":
		return 3
	}
	return -1
}

// judge decides what follows from the reviews of a round: tasks, another round, or the end.
func (r *runner) judge(_ context.Context, _ *graph.Task, s state) (u update, err error) {
	round, quiet, yes := s.Round+1, 0, true
	u.Round, u.Clean, u.Judged = &round, &quiet, true
	stop := func(text string, partial bool) {
		u.Stop = &text
		if partial {
			u.Partial = &yes
		}
	}
	var serious, minor []finding
	tip := ""
	for _, v := range s.Reviews {
		if v.Failed != "" {
			stop("review incomplete: "+firstLine(v.Failed), true)
			return u, nil
		}
		tip = v.Tip
		for _, f := range v.Findings {
			if f.Priority < 3 {
				if !slices.Contains(serious, f) {
					serious = append(serious, f)
				}
			} else if !slices.Contains(s.Open, f) && !slices.Contains(minor, f) {
				minor = append(minor, f)
			}
		}
	}
	u.Open = minor
	switch {
	case len(serious) == 0:
		if quiet = s.Clean + 1; quiet >= cleanRounds {
			stop(fmt.Sprintf("%d reviews in a row found nothing", cleanRounds), false)
		} else if round >= r.in.MaxLoops {
			stop(fmt.Sprintf("the last of %d reviews found nothing", r.in.MaxLoops), false)
		}
		return u, nil
	case round >= r.in.MaxLoops:
		u.Open = append(u.Open, serious...)
		stop(fmt.Sprintf("it was reviewed %d times, which is the limit", r.in.MaxLoops), true)
		return u, nil
	case s.Reviewed == tip:
		u.Open = append(u.Open, serious...)
		stop("nothing has changed since the last review", true)
		return u, nil
	}
	u.Reviewed = &tip
	var tasks []plan.Task
	for i, f := range serious {
		t := plan.Task{ID: fmt.Sprintf("review-%d-%d", round, i+1), Title: f.Title, Prompt: strings.TrimSpace(f.String() + "\n\n" + f.Body)}
		if f.File != "" {
			t.Files = []string{f.File}
		}
		tasks = append(tasks, t)
	}
	u.Tasks = plan.Tidy(tasks, s.ids())
	return u, nil
}
