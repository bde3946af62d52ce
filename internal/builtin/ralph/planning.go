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
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/plan"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

//go:embed prompts/planner.md
var plannerPrompt string

const mostTasks = 1000

// temporary reports whether a model failure may be temporary.
func temporary(err error) bool {
	m, ok := errors.AsType[*model.Error](err)
	return ok && m.Temporary
}

// note is the event "note", for users.
type note struct {
	Text string `json:"text"`
}

// git performs a change of the repository. Each is idempotent, so after a crash it is repeated.
func git[T any](ctx context.Context, t *graph.Task, key, name string, do func(ctx context.Context) (T, error)) (T, error) {
	e := &journal.Effect{Key: key, Kind: "git", Name: "git " + name, Repeat: journal.RepeatByKey}
	return journal.Do(ctx, t.Scope(), e, func(ctx context.Context, _ string) (T, error) { return do(ctx) })
}

// name returns the name that the branches of a run have. T is a task of the outer graph. If that runs within another workflow, its place there is a part
// of the name, for that workflow may run it several times.
func (s *state) name(t *graph.Task) string {
	run := cmp.Or(t.Scope().Run(), s.Run)
	if i := strings.LastIndexByte(t.Scope().Path(), '/'); i >= 0 {
		run += "-" + hash(t.Scope().Path()[:i], "")[:6]
	}
	return run
}

// command runs a command of the user as an effect, and returns what it printed and whether it failed.
func (r *runner) command(ctx context.Context, t *graph.Task, crew *Crew, key, name, command string) (tool.Result, error) {
	e := &journal.Effect{Key: key, Kind: "tool", Name: name, Repeat: journal.RepeatByKey, Input: map[string]string{"command": command}}
	return journal.Do(ctx, t.Scope(), e, func(ctx context.Context, _ string) (tool.Result, error) {
		out, failed, err := crew.Run(ctx, command, time.Duration(r.in.Minutes*float64(time.Minute)))
		return tool.Result{Text: out, Error: failed}, err
	})
}

// begin creates the branch and the worktree of the run, and runs setup and check once there, so that what is wrong with them is told before any model is
// asked.
func (r *runner) begin(ctx context.Context, t *graph.Task, s state) (u update, err error) {
	for _, text := range r.in.Notes {
		if err := t.Emit(ctx, "note", note{text}); err != nil {
			return u, err
		}
	}
	run := s.name(t)
	u.Run = &run
	path, err := git(ctx, t, "worktree", "worktree", func(ctx context.Context) (string, error) {
		if r.in.Dirty {
			repo, err := r.repository(ctx)
			if err != nil {
				return "", err
			}
			if err := repo.IncludeUncommitted(ctx, run, "Uncommitted changes", []string{"Superstep-Run: " + run}); err != nil {
				return "", err
			}
		}
		tree, err := r.trunk(ctx, &s, run)
		if err != nil {
			return "", err
		}
		return tree.Path, nil
	})
	if err != nil || r.in.Setup == "" && r.in.Check == "" {
		return u, err
	}
	crew, err := r.opt.Open(ctx, r.in, "planner", path)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, crew.Close()) }()
	if r.in.Setup != "" {
		res, err := r.command(ctx, t, crew, "setup", "setup", r.in.Setup)
		if err != nil {
			return u, err
		}
		if res.Error {
			return u, fmt.Errorf("the setup %q failed, so nothing was begun; let it reach a host with --allow 'net(HOST)', or mend it:\n%s", r.in.Setup, res.Text)
		}
	}
	if r.in.Check == "" || r.in.PlanOnly {
		return u, nil
	}
	res, err := r.command(ctx, t, crew, "check", "check", r.in.Check)
	if err == nil && res.Error {
		u.Red = &res.Text
		err = t.Emit(ctx, "note", note{"the check fails before any work: " + lastLine(res.Text)})
	}
	return u, err
}

// planner makes the plan, or adds to it what the user has said since.
func (r *runner) planner(ctx context.Context, t *graph.Task, s state) (u update, err error) {
	var prompt strings.Builder
	switch {
	case s.Approved:
		said, _, err := t.Scope().Steered(ctx, "said", "planner", "", "turn-0", "")
		if err != nil || len(said) == 0 {
			return u, err
		}
		fmt.Fprintf(&prompt, "%s\n\nThe work:\n\n%s\n\nThese tasks are there already, and their results are in the folder:\n\n%s\nNow the user says, for which you add tasks:\n\n%s\n",
			plannerPrompt, r.in.work(), (&plan.Plan{Tasks: s.Tasks}).Table(), strings.Join(said, "\n\n"))
	case r.in.Plan != "" && s.Again == "":
		p, err := plan.Read(r.in.Plan)
		if err != nil {
			return u, err
		}
		return r.planned(&s, p), nil
	default:
		fmt.Fprintf(&prompt, "Plan: %s\n\n%s\n\nThe work:\n\n%s\n", firstLine(r.in.work()), plannerPrompt, r.in.work())
		if s.Again != "" {
			fmt.Fprintf(&prompt, "\nYour last plan:\n\n%s\nThe user wants another: %s\n", s.Plan.YAML(), s.Again)
		}
	}
	if r.in.Check != "" {
		fmt.Fprintf(&prompt, "\nThe check: %s\n", r.in.Check)
	}
	if s.Red != "" {
		fmt.Fprintf(&prompt, "It fails at present:\n%s\n", tail(s.Red, 4000))
	}
	p, err := r.plan(ctx, t, &s, prompt.String())
	if err != nil {
		return u, err
	}
	return r.planned(&s, p), nil
}

// planned returns the update of a plan, or of one that adds tasks.
func (r *runner) planned(s *state, p *plan.Plan) (u update) {
	again := ""
	u.Again = &again
	if s.Approved {
		if u.Tasks = plan.Tidy(p.Tasks, s.ids()); len(u.Tasks) > 0 { // there is more to do than when the reviews ended
			clean := 0
			u.Stop, u.Clean = new(string), &clean
		}
		return u
	}
	p.Tasks = plan.Tidy(p.Tasks, nil)
	p.Check = cmp.Or(r.in.Check, p.Check)
	u.Plan = p
	return u
}

// plan asks the planner until its plan can be used.
func (r *runner) plan(ctx context.Context, t *graph.Task, s *state, prompt string) (p *plan.Plan, err error) {
	crew, err := r.crew(ctx, t, s, "planner")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, crew.Close()) }()
	work := &agent.Work{Prompt: prompt, Stopped: t.Stopped()}
	const tries = 3
	for i := 1; ; i++ {
		out, err := crew.Agent.Run(ctx, t.Scope(), work)
		if err != nil {
			return nil, err
		}
		p, err := plan.Read(out.Text)
		if err == nil {
			err = usable(p, s.ids())
		}
		if err == nil {
			return p, nil
		}
		if i == tries {
			return nil, fmt.Errorf("the planner's plan cannot be used: %w; use a stronger model, or write the plan yourself and name its file", err)
		}
		work = &agent.Work{Key: fmt.Sprintf("again-%d", i), Messages: out.Messages, Seen: out.Seen, Stopped: t.Stopped(),
			Prompt: fmt.Sprintf("Your plan cannot be used: %v\nGive the whole plan again, as JSON.", err)}
	}
}

// usable returns what is wrong with a plan that may wait for other tasks.
func usable(p *plan.Plan, others []string) error {
	if len(p.Tasks) > mostTasks {
		return fmt.Errorf("it has %d tasks, and may have %d", len(p.Tasks), mostTasks)
	}
	tasks := plan.Tidy(p.Tasks, others)
	for _, id := range others {
		tasks = append(tasks, plan.Task{ID: id, Title: id})
	}
	if problems := plan.Problems(tasks); problems != nil {
		return errors.New(strings.Join(problems, "; "))
	}
	return nil
}

// crew opens what works in the folder of the run.
func (r *runner) crew(ctx context.Context, t *graph.Task, s *state, role string) (*Crew, error) {
	run := s.name(t)
	path, err := git(ctx, t, "worktree", "worktree", func(ctx context.Context) (string, error) {
		tree, err := r.trunk(ctx, s, run)
		if err != nil {
			return "", err
		}
		return tree.Path, nil
	})
	if err == nil {
		err = t.Scope().Afresh(func() error { // somebody may have removed it since
			_, err := r.trunk(ctx, s, run)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	return r.opt.Open(ctx, r.in, role, path)
}

// The answers at the gate.
const (
	approve = "approve"
	edit    = "edit"
	reject  = "reject"
)

// approve has the user decide on the plan.
func (r *runner) approve(ctx context.Context, t *graph.Task, s state) (u update, err error) {
	p, yes := s.Plan, true
	if len(p.Tasks) > 0 && !r.in.PlanOnly && !r.in.Yes {
		schema, err := json.Marshal(map[string]any{"anyOf": []any{
			map[string]any{"enum": []string{approve, reject}},
			map[string]any{"type": "string", "pattern": "^" + reject + ":"},
			map[string]any{"type": "string", "pattern": "^" + edit + `:\s*([^\s…]|…\s*\S)`},
		}})
		if err != nil {
			return u, err
		}
		q := graph.Question{Key: "gate", Kind: runlog.QuestionGate, Text: r.gate(&s), Options: []string{approve, edit + ": …", reject}, Schema: schema}
		answer, err := graph.Ask(ctx, q, func(answer string) error {
			word, text, _ := strings.Cut(answer, ":")
			if word != edit {
				return nil
			}
			_, err := edited(text)
			return err
		})
		if err != nil {
			return u, err
		}
		word, text, _ := strings.Cut(answer, ":")
		switch text = strings.TrimSpace(text); {
		case word == reject && text != "":
			return update{Again: &text}, nil
		case word == reject:
			return u, graph.Halt(errors.New("the plan was rejected"))
		case word == edit:
			changed, err := edited(text)
			if err != nil {
				return u, err
			}
			changed.Check = cmp.Or(changed.Check, p.Check)
			p = *changed
		}
	}
	u.Approved, u.Plan, u.Tasks = &yes, &p, p.Tasks
	if n := unchecked(&p, p.Tasks); n > 0 && !r.in.PlanOnly {
		err = t.Emit(ctx, "note", note{fmt.Sprintf("%s without a check: any change passes; give one with --check", inwords.Plural(n, "task"))})
	}
	return u, err
}

// unchecked returns how many of the tasks no command checks.
func unchecked(p *plan.Plan, tasks []plan.Task) (n int) {
	for _, t := range tasks {
		if strings.TrimSpace(p.Check+t.Check) == "" {
			n++
		}
	}
	return n
}

func edited(text string) (*plan.Plan, error) {
	p, err := plan.Read(text)
	if err == nil {
		err = usable(p, nil)
	}
	if err != nil {
		return nil, err
	}
	p.Tasks = plan.Tidy(p.Tasks, nil)
	return p, nil
}

// gate returns the question about a plan.
func (r *runner) gate(s *state) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Work on this plan? A reason after %s: makes a new plan, YAML after %s: is taken as it is.\n\n%s", reject, edit, s.Plan.Table())
	for i, a := range s.Plan.Acceptance {
		if i == 0 {
			b.WriteString("\nAccepted if:\n")
		}
		b.WriteString("- " + a + "\n")
	}
	check := s.Plan.Check
	switch {
	case check == "":
		check = "none: any change passes"
	case r.in.Check == "":
		check += " (the planner's choice)"
	case s.Red != "":
		check += " (it fails at present)"
	}
	fmt.Fprintf(&b, "\nCheck: %s\n", check)
	base := "an empty repository"
	if r.in.Commit != "" {
		base = fmt.Sprintf("%s (%.10s)", cmp.Or(r.in.Branch, "a detached HEAD"), r.in.Commit)
	}
	fmt.Fprintf(&b, "Base: %s\n", base)
	for _, n := range r.in.Notes {
		b.WriteString("Note: " + n + "\n")
	}
	return b.String()
}

// finish removes the worktrees and says what the run has come to.
func (r *runner) finish(ctx context.Context, t *graph.Task, s state) (u update, err error) {
	run := s.name(t)
	out := r.summary(&s, run)
	if r.in.PlanOnly {
		out = Output{Text: s.Plan.YAML()}
	}
	if s.Partial || len(plan.Ready(s.Tasks))+len(plan.Deadlock(s.Tasks)) > 0 && !r.in.PlanOnly {
		t.PassOver("")
	}
	if r.in.PR && s.Tip != "" && r.opt.Publish != nil {
		if out.PR, err = r.publish(ctx, &out); err != nil {
			return u, err
		}
		out.Text += "\n" + out.PR + "\n"
	}
	_, err = git(ctx, t, "remove", "worktree remove", func(ctx context.Context) (bool, error) {
		repo, err := r.repository(ctx)
		if err != nil {
			return false, err
		}
		into := ""
		if s.Tip == "" && out.Unmerged == nil && r.in.Commit != "" && !r.in.Dirty {
			into = r.in.Commit // a branch without work
		}
		return true, repo.Remove(ctx, run, "", into)
	})
	u.Output = &out
	return u, err
}

// publish opens a pull request once, if the user allows it.
func (r *runner) publish(ctx context.Context, out *Output) (string, error) {
	const open, leave = "open it", "leave it"
	p := &PullRequest{Branch: out.Branch, Base: r.in.Branch, Title: clean.Clip(strings.TrimLeft(firstLine(r.in.Prompt), "# "), 70), Body: out.Text}
	what := fmt.Sprintf("Push %s to origin and open a pull request? This runs git push and gh pr create with your rights, outside of the sandbox.", p.Branch)
	answer, err := graph.Ask[string](ctx, graph.Question{Key: "pr", Text: what, Options: []string{open, leave}})
	if err != nil || answer == leave {
		return "no pull request was opened", err
	}
	return graph.Once(ctx, "pull request", func(ctx context.Context, _ string) (string, error) { return r.opt.Publish(ctx, r.in.Dir, p) })
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	lines := slices.DeleteFunc(strings.Split(s, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" || strings.HasPrefix(l, "[exit status") })
	if len(lines) == 0 {
		return s
	}
	return clean.Clip(strings.TrimSpace(lines[len(lines)-1]), 300)
}

// tail returns the end of a text.
func tail(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return "…" + strings.ToValidUTF8(s[len(s)-most:], "")
}

// trailers identify a commit of a task.
func trailers(run, task, attempt string) []string {
	return []string{"Superstep-Run: " + run, "Superstep-Task: " + task, "Superstep-Attempt: " + attempt}
}
