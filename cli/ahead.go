package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// checkAhead refuses answers that no step of a workflow can ask for, before anything runs.
func checkAhead(a *app, w *workflow.Workflow, inputs json.RawMessage, ans tui.Answers) error {
	if len(ans) == 0 || w.Flow == nil {
		return nil
	}
	flow, err := w.Flow(inputs)
	if err != nil {
		return nil // the run says so, better
	}
	if err := ans.CheckSteps(w.Name, flow.Shape()); err != nil {
		return err
	}
	i, err := a.host().Look(cmp.Or(a.host().File(w.Name), w.Name))
	if err != nil || i.Name != w.Name || i.Recipe() == nil {
		return nil
	}
	for _, s := range i.Recipe().Steps {
		if s.Ask == nil || s.Gate != nil {
			continue
		}
		schema, err := json.Marshal(s.Ask.Schema())
		if err != nil {
			return err
		}
		if err := ans.CheckStep(s.ID, &runlog.Question{Options: s.Ask.Options, Schema: schema}); err != nil {
			return err
		}
	}
	return nil
}

// checkAskable refuses answers that no step of a run can ask for.
func checkAskable(ctx context.Context, e *superstep.Engine, info runlog.Info, ans tui.Answers) error {
	if len(ans) == 0 {
		return nil
	}
	flow, err := e.Inside(ctx, info.ID, "")
	if err != nil {
		return nil // who continues with the run says so
	}
	return ans.CheckSteps(info.Workflow, flow.Shape())
}

// checkAnswers refuses answers that could be meant for several open questions of a run, or do not fit.
func checkAnswers(ctx context.Context, a *app, info runlog.Info, ans tui.Answers) error {
	if len(ans) == 0 {
		return nil
	}
	run, err := a.host().Transcript(ctx, &info)
	if err != nil {
		return err
	}
	return ans.Check(&info, tui.Questions(run.Open()), false)
}

// changedSince returns a notice if the recipe of a run has changed since the run started, and "" if it has not or this is unknown.
func changedSince(ctx context.Context, a *app, info *runlog.Info) string {
	file, changed := a.host().Edited(ctx, info)
	if !changed {
		return ""
	}
	return fmt.Sprintf("%s has changed since run %s began, which finishes on its own version; compare: %s", file, info.ID,
		a.hint("runs", "diff", info.ID, clean.Shell(file)))
}
