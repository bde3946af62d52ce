package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

func workerCommand(a *app) *cobra.Command {
	var o superstep.RecoverOptions
	var once bool
	cmd := &cobra.Command{
		Use: "worker", Short: "Resume runs whose process crashed, until stopped", Args: none,
		Long: `Resume runs whose process crashed, until stopped

A worker resumes every interrupted run, and every run that waits for storage. Several workers may
serve one store. A worker does not touch paused runs, which need a person, and quarantined runs,
which need a decision. When a worker stops, the others resume its runs.`,
		Example: examples(a.cfg.Name, "worker", "", "worker --once", "resume interrupted runs, and exit",
			"worker --store postgres://superstep@db/superstep", "one of many"),
	}
	cmd.Flags().IntVar(&o.Runs, "max-runs", 32, "runs at once")
	cmd.Flags().DurationVar(&o.Every, "every", 5*time.Second, "how long between two looks")
	cmd.Flags().BoolVar(&once, "once", false, "look once, and end when what was found has ended")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case o.Runs <= 0:
			return usage(fmt.Sprintf("--max-runs: want 1 or more, got %d", o.Runs))
		case o.Every <= 0:
			return usage(fmt.Sprintf("--every: want a positive duration such as 5s, got %s", o.Every))
		}
		return workOn(cmd.Context(), a, &o, once)
	}
	return cmd
}

// heldElsewhere returns how many runs are held by other processes.
func heldElsewhere(ctx context.Context, a *app) string {
	running, err := a.store.Runs(ctx, &runlog.Filter{Status: []runlog.Status{runlog.Running}})
	if err != nil || len(running) == 0 {
		return ""
	}
	return fmt.Sprintf("; %s held by other processes, and free when their hold ends if those are dead", inwords.Plural(len(running), "run"))
}

func workOn(ctx context.Context, a *app, o *superstep.RecoverOptions, once bool) error {
	a.lives = true
	e, err := a.engine(ctx, "", nil)
	if err != nil {
		return err
	}
	defer e.Close()
	ctx, done := a.stoppable(ctx, func() {})
	defer done()
	say := func(event, id string, err error) {
		if a.programs() {
			line := map[string]any{"time": time.Now().UTC(), "event": event, "run": id}
			if err != nil {
				line["error"] = err.Error()
			}
			_ = a.out.json(line, false)
			return
		}
		line := fmt.Sprintf("%s run %s %s", time.Now().Format(time.TimeOnly), id, event)
		if err != nil {
			line += ": " + transcript.Line(err.Error())
		}
		a.err.line(line)
	}
	o.Ended = func(id string, out superstep.Outcome) {
		warnLate(a, id, out.Folder)
		say(string(out.Status), id, out.Err)
	}
	o.Failed = func(id string, err error) {
		if id == "" {
			a.tty.Warn(err.Error())
			return
		}
		say("not resumed", id, err)
	}
	o.Skipped = func(id string, why error) {
		if id == "" { // a schedule
			a.tty.Warn("skipped: " + why.Error())
			return
		}
		say("skipped", id, why)
	}
	o.Scheduled = func(schedule, run string) { say("queued by schedule "+schedule, run, nil) }
	o.Place = append(o.Place, a.host().FolderLabel())
	o.Taken = func(id string) { say("resumed", id, nil) }
	if !once {
		if !a.set.Quiet && !a.programs() {
			a.err.line("serving " + storeName(a) + "; ^C stops at a safe point")
		}
		return e.Serve(ctx, o)
	}
	taken, err := e.Recover(ctx, o)
	if err != nil {
		return stopped(ctx, err)
	}
	if len(taken) == 0 && !a.programs() && !a.set.Quiet {
		a.err.line("there is nothing to resume in " + storeName(a) + heldElsewhere(ctx, a))
	}
	for _, r := range taken {
		_, _ = r.Wait(context.Background()) // it ends with ctx
	}
	return nil
}
