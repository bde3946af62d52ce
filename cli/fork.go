package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
)

// forking holds the flags of `runs fork`.
type forking struct {
	from   string
	sets   arguments.List
	recipe string
	noRun  bool
}

func runsFork(a *app) *cobra.Command {
	var r running
	var f forking
	cmd := &cobra.Command{
		Use: "fork ID --from POINT", Short: "Create a run from a checkpoint of another, and run it", Args: oneRun, ValidArgsFunction: a.ids,
		Long: "Make a new run that shares everything with another up to a point, and run it from there. The other run is not changed.\n" +
			"A point is " + atHelp + ".\n" +
			"Computed anew is the step, and what depends on it; nothing else is done again.\n" +
			"In a run of a recipe --set STEP=value is the output of a step, as JSON or else a text. The fork runs the\n" +
			"recipe as it was when the run began. With --recipe it runs an edited one, and takes over the results of the\n" +
			"steps that are the same in both, with all that they depend on.",
		Example: examples(a.cfg.Name,
			"runs fork 7f3a --from write", "run this step, and what follows, again",
			"runs fork 7f3a --from 2 --set limit=3", "with another field of the state",
			`runs fork 7f3a --from write --set 'plan={"steps":["a"]}'`, "as if the step plan had made this update too",
			`runs fork 7f3a --from report --set rate=9`, "of a recipe: as if the step rate had given this",
			`runs fork 7f3a --from report --set 'rate=not good enough'`, "the same with a text",
			"runs fork 7f3a --recipe brief.yaml", "run the edited recipe, with what has not changed taken over",
			"runs fork 7f3a --from write --no-run", "only make it"),
	}
	cmd.Flags().StringVar(&f.from, "from", "", "the `point` to go on from: a step, a superstep, or seq:N")
	cmd.Flags().Var(&f.sets, "set", "change the state: FIELD=value, or STEP=update as JSON, which of a recipe is the output of the step (may be repeated)")
	cmd.Flags().BoolVar(&f.noRun, "no-run", false, "make the run and do not start it")
	r.add(cmd.Flags())
	cmd.Flags().StringVar(&f.recipe, "recipe", "", "run this `FILE` (or recipe) instead, with the results of the steps that are as they were")
	a.pointWords(cmd, "from", "")
	noModel(cmd, a, "fork keeps the model that the run began with")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case f.recipe != "" && (f.from != "" || len(f.sets) > 0):
			return usage("--recipe: which steps run anew follows from what has changed; leave --from and --set out")
		case f.from == "" && f.recipe == "":
			return usage("runs fork: say where to go on from with --from, or what to run with --recipe. A point is " + atHelp)
		}
		ans, err := r.check(a)
		if err != nil {
			return err
		}
		if f.recipe != "" {
			return forkToRecipe(cmd.Context(), a, args[0], &f, &r, ans)
		}
		return forkRun(cmd.Context(), a, args[0], &f, &r, ans)
	}
	return cmd
}

// forkable returns a run that may be forked, and an engine to fork it with.
func forkable(ctx context.Context, a *app, ref string, ans tui.Answers) (*superstep.Engine, runlog.Info, error) {
	e, info, err := pastRun(ctx, a, ref)
	if err == nil {
		err = vouchFor(ctx, a, info)
	}
	if err == nil {
		err = checkAskable(ctx, e, info, ans)
	}
	return e, info, err
}

func forkRun(ctx context.Context, a *app, ref string, f *forking, r *running, ans tui.Answers) error {
	e, info, err := forkable(ctx, a, ref, ans)
	if err != nil {
		return err
	}
	at, opt, err := a.host().ForkAt(ctx, e, &info, f.from, f.sets)
	if err != nil {
		return explainPoint(a, err, info.ID)
	}
	fork, err := e.Fork(ctx, info.ID, at, opt)
	if err != nil {
		if len(opt.Edits) > 0 {
			err = usage("--set: " + err.Error())
		}
		return err
	}
	return runFork(ctx, a, fork, f.noRun, r, ans, &superstep.ResumeOptions{})
}

// forkToRecipe forks a run of an older version of a recipe to the edited recipe, and runs the fork.
func forkToRecipe(ctx context.Context, a *app, ref string, f *forking, r *running, ans tui.Answers) error {
	_, info, err := findRun(ctx, a, ref)
	if err == nil {
		err = vouchFor(ctx, a, info)
	}
	if err != nil {
		return err
	}
	if err := inheritSettings(ctx, a, info.ID); err != nil {
		return err
	}
	w, err := chooseWorkflow(a, f.recipe)
	if err != nil {
		return err
	}
	e, err := a.engine(ctx, "", nil)
	if err != nil {
		return err
	}
	fork, err := e.ForkTo(ctx, info.ID, w)
	if err != nil {
		return err
	}
	return runFork(ctx, a, fork, f.noRun, r, ans, &superstep.ResumeOptions{})
}

// inheritSettings sets the model to the one that a run began with, and adds the run's rules to the flags' rules.
func inheritSettings(ctx context.Context, a *app, id string) error {
	was := a.host().Pinned(ctx, id).Setting
	a.set.model = was.Model
	l := &a.set.leave
	l.onAsk = cmp.Or(l.onAsk, was.OnAsk)
	for _, text := range was.Rules {
		word, rule, _ := strings.Cut(text, " ")
		switch d, err := permit.ParseDecision(word); {
		case err != nil:
			return err
		case d == tool.Allow:
			l.allow = append(l.allow, rule)
		case d == tool.Ask:
			l.ask = append(l.ask, rule)
		default:
			l.deny = append(l.deny, rule)
		}
	}
	_, err := l.rules()
	return err
}

// redoRun forks a partial run so that the failed tasks are done again, and runs the fork.
func redoRun(ctx context.Context, a *app, info runlog.Info, r *running, ans tui.Answers, again *superstep.ResumeOptions, before func(fork string) error) error {
	e, info, err := forkable(ctx, a, info.ID, ans)
	if err != nil {
		return err
	}
	fork, err := e.ForkFailed(ctx, info.ID)
	var none *superstep.PointError
	if errors.As(err, &none) {
		err = usage(err.Error())
		if next := failedIn(ctx, a, info.ID); next != nil {
			err = usage(none.Error(), "do it again there: "+a.hint(next...))
		}
	}
	if twice, ok := errors.AsType[*superstep.RepeatError](err); ok {
		err = usage(err.Error(), "if it did not happen, or may again: "+a.forkAgain(info.ID, twice.Effect.Path))
	}
	if err == nil {
		err = before(fork.ID)
	}
	if err != nil {
		return err
	}
	return runFork(ctx, a, fork, false, r, ans, again)
}

// runFork announces a fork, and runs it.
func runFork(ctx context.Context, a *app, fork *superstep.Fork, noRun bool, r *running, ans tui.Answers, again *superstep.ResumeOptions) error {
	for i := range fork.Repeats {
		x := &fork.Repeats[i]
		once := ""
		if x.Once {
			once = ", which was declared to never happen twice"
		}
		a.tty.Warn(fmt.Sprintf("in run %s the task %s has done %q (%s)%s; the fork may do it again", fork.Parent, x.Path, x.Name, x.Kind, once))
	}
	if noRun && a.programs() {
		return a.out.value(fork)
	}
	if !a.programs() && !a.set.Quiet {
		if fork.Workflow != "" {
			a.err.line(fmt.Sprintf("run %s of %s takes over from %s: %s; runs anew: %s", fork.ID, fork.Workflow, fork.Parent, orNothing(fork.Kept),
				orNothing(fork.Next)))
		} else {
			kept := ""
			if len(fork.Kept) > 0 {
				kept = ", kept: " + someOf(fork.Kept)
			}
			a.err.line(fmt.Sprintf("run %s forked from %s after %s%s, next: %s", fork.ID, fork.Parent, inwords.Plural(fork.Step, "superstep"), kept,
				orNothing(fork.Next)))
		}
	}
	if noRun {
		a.out.line(fork.ID)
		return nil
	}
	_, made, err := findRun(ctx, a, fork.ID)
	if err != nil {
		return err
	}
	return resumeRun(ctx, a, made, r, ans, again)
}

// someOf returns a list of paths, cut where it is long.
func someOf(paths []string) string {
	const most = 12
	if n := len(paths) - most; n > 0 {
		return strings.Join(paths[:most], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(paths, ", ")
}
