package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// planner is the node of ralph that hears what users say to a run.
const planner = "planner"

// addResume adds the flags --resume and --yes to the command run. No input stands for --yes: who is not the user might give it.
func addResume(a *app, cmd *cobra.Command, ref *string, yes *bool) {
	cmd.Flags().BoolVar(yes, "yes", false, "run ralph: work on the plan without asking")
	cmd.Flags().StringVar(ref, "resume", "", "run ralph: resume this `run`; a text adds to its plan")
	_ = cmd.RegisterFlagCompletionFunc("resume", func(cmd *cobra.Command, _ []string, s string) ([]string, cobra.ShellCompDirective) {
		return a.ids(cmd, nil, s)
	})
}

// plansFile reports whether --plan is followed by the file of a plan, as in `run ralph --plan plan.yaml`.
func (a *app) plansFile(args []string) bool {
	if len(args) != 2 || args[0] != ralph {
		return false
	}
	info, err := os.Stat(a.host().Abs(args[1]))
	return err == nil && info.Mode().IsRegular()
}

// resumeWorkflow resumes a run of a workflow. The words are for the planner of ralph, which adds tasks for them.
func resumeWorkflow(ctx context.Context, a *app, name, ref string, g *arguments.Given, r *running, ans tui.Answers) error {
	w, err := chooseWorkflow(a, name)
	if err != nil {
		return err
	}
	_, info, err := findRun(ctx, a, ref)
	if err != nil {
		return err
	}
	text, err := messageOf(a, w, g)
	if err != nil {
		return err
	}
	if info.Workflow != w.Name {
		return usage(fmt.Sprintf("--resume: run %s is one of %s, not of %s", info.ID, info.Workflow, w.Name), "resume it: "+a.hint("runs", "resume", info.ID))
	}
	if text != "" {
		if err := tellable(ctx, a, info); err != nil {
			return err
		}
	}
	tell := func(run string) error {
		if text == "" {
			return nil
		}
		return tellPlanner(ctx, a.store, run, text)
	}
	if info.Status == runlog.Partial {
		return redoRun(ctx, a, info, r, ans, &superstep.ResumeOptions{}, tell)
	}
	if err := tell(info.ID); err != nil {
		return err
	}
	if text != "" && info.Status == runlog.Running {
		a.err.line(fmt.Sprintf("run %s goes on; its planner hears it when the present tasks are done", info.ID))
		return nil
	}
	if err := checkAnswers(ctx, a, info, ans); err != nil {
		return err
	}
	return resumeRun(ctx, a, info, r, ans, &superstep.ResumeOptions{})
}

// tellable reports why nothing can be added to the plan of a run.
func tellable(ctx context.Context, a *app, info runlog.Info) error {
	if info.Workflow != ralph {
		return usage("--resume: a run of "+info.Workflow+" takes no text", "resume it: "+a.hint("runs", "resume", info.ID))
	}
	late := info.Status.Ended() && info.Status != runlog.Partial
	run, err := a.host().Transcript(ctx, &info)
	if err != nil {
		return err
	}
	for _, t := range run.Active() {
		late = late || t.Parent == nil && t.Node == "finish"
	}
	if late {
		return usage(fmt.Sprintf("--resume: run %s is %s, so nothing can be added to it", info.ID, cmp.Or(map[bool]string{true: string(info.Status)}[info.Status.Ended()], "at its end")),
			"go on from its branch: "+a.hint("run", ralph, "--base", "superstep/"+info.ID, `"TEXT"`))
	}
	return nil
}

// tellPlanner leaves a message for the next visit of the planner.
func tellPlanner(ctx context.Context, store runlog.Store, run, text string) error {
	data, err := json.Marshal(text)
	if err != nil {
		return err
	}
	return unlisted.Post(ctx, store, run, &unlisted.Request{Kind: unlisted.KindSteer, Path: planner, Time: time.Now().UTC(), Data: data})
}
