package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// planner is the node of ralph that hears what users say to a run.
const planner = "planner"

// addResume adds the flag --resume to the command run.
func addResume(a *app, cmd *cobra.Command, ref *string) {
	cmd.Flags().StringVar(ref, "resume", "", "run ralph: resume this `run`; a text adds to its plan")
	_ = cmd.RegisterFlagCompletionFunc("resume", func(cmd *cobra.Command, _ []string, s string) ([]string, cobra.ShellCompDirective) {
		return a.ids(cmd, nil, s)
	})
}

// plansFile reports whether --plan is followed by the file of a plan, as in `run ralph --plan plan.yaml`.
func plansFile(args []string) bool {
	if len(args) != 2 || args[0] != ralph {
		return false
	}
	info, err := os.Stat(args[1])
	return err == nil && info.Mode().IsRegular()
}

// resumeWorkflow resumes a run of a workflow. The words are for the planner of ralph, which adds tasks for them.
func resumeWorkflow(ctx context.Context, a *app, name, ref string, words []string, r *running, ans tui.Answers) error {
	w, err := chooseWorkflow(a, name)
	if err != nil {
		return err
	}
	_, info, err := findRun(ctx, a, ref)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(strings.Join(words, " "))
	switch {
	case info.Workflow != w.Name:
		return usage(fmt.Sprintf("--resume: run %s is one of %s, not of %s", info.ID, info.Workflow, w.Name), "resume it: "+a.hint("runs", "resume", info.ID))
	case text != "" && w.Name != ralph:
		return usage("--resume: a run of "+w.Name+" takes no text", "resume it: "+a.hint("runs", "resume", info.ID))
	case text != "" && info.Status.Ended():
		return usage(fmt.Sprintf("--resume: run %s is %s, so nothing can be added to it", info.ID, info.Status),
			"go on from its branch: "+a.hint("run", ralph, "--base", "superstep/"+info.ID, `"TEXT"`))
	case text != "":
		if err := tellPlanner(ctx, a, info, text); err != nil {
			return err
		}
	}
	if info.Status == runlog.Partial {
		return redoRun(ctx, a, info, r, ans, &superstep.ResumeOptions{})
	}
	if err := checkAnswers(ctx, a, info, ans); err != nil {
		return err
	}
	return resumeRun(ctx, a, info, r, ans, &superstep.ResumeOptions{})
}

// tellPlanner leaves a message for the next visit of the planner.
func tellPlanner(ctx context.Context, a *app, info runlog.Info, text string) error {
	run, err := a.host().Transcript(ctx, &info)
	if err != nil {
		return err
	}
	path, visits := planner, 0
	for _, t := range run.Tasks {
		if t.Parent == nil && t.Node == planner && t.Ended() {
			visits++
			path = fmt.Sprintf("%s#%d", planner, visits)
		}
	}
	data, err := json.Marshal(text)
	if err != nil {
		return err
	}
	return unlisted.Post(ctx, a.store, info.ID, &unlisted.Request{Kind: unlisted.KindSteer, Path: path, Time: time.Now().UTC(), Data: data})
}
