package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

func workerCommand(a *app) *cobra.Command {
	var o superstep.RecoverOptions
	var once bool
	var dirs []string
	cmd := &cobra.Command{
		Use: "worker", Short: "Execute queued and interrupted runs, until stopped", Args: none,
		Long: `Execute queued and interrupted runs, until stopped

A worker takes queued runs, and resumes every interrupted run and every run that waits for storage.
Several workers may serve one store. Runs of a higher priority come first, then workflows and keys
take turns. A worker does not touch paused runs, which need a person, and quarantined runs, which
need a decision. It serves its own folder, or those of --dir, and takes the rules of a run (--allow)
only as far as your permissions.yaml says. When a worker is stopped, it takes no more runs,
lets running tasks end within the grace period, and leaves its runs to the others.`,
		Example: examples(a.cfg.Name, "worker", "", "worker --once", "take the waiting runs, and exit",
			"worker --store postgres://superstep@db/superstep --place gpu,acp --max-runs 8 --health 127.0.0.1:9090", "one of many"),
	}
	var health string
	cmd.Flags().StringSliceVar(&o.Place, "place", nil, "the labels of this worker, such as gpu,acp: it also takes queued runs that need these")
	cmd.Flags().DurationVar(&o.Grace, "grace", 20*time.Second, "how long running tasks may go on when the worker is stopped")
	cmd.Flags().StringArrayVar(&dirs, "dir", nil, "a `FOLDER` whose runs it takes, with all below it; defaults to the current one (may be repeated)")
	cmd.Flags().StringVar(&health, "health", "", "the `address` of a page for health checks and Prometheus, such as 127.0.0.1:9090")
	cmd.Flags().IntVar(&o.Runs, "max-runs", 32, "runs at once")
	cmd.Flags().DurationVar(&o.Every, "every", 3*time.Second, "how long between two looks for interrupted runs; for queued ones it looks four times a second, or Redis reports them")
	cmd.Flags().BoolVar(&once, "once", false, "look once, and end when what was found has ended")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case o.Runs <= 0:
			return usage(fmt.Sprintf("--max-runs: want 1 or more, got %d", o.Runs))
		case o.Every <= 0:
			return usage(fmt.Sprintf("--every: want a positive duration such as 5s, got %s", o.Every))
		case o.Grace < 0:
			return usage(fmt.Sprintf("--grace: want a duration such as 20s, got %s", o.Grace))
		}
		if err := (&runlog.Queue{Place: o.Place}).Check(); err != nil {
			return usage("--place: " + err.Error())
		}
		if err := checkHealth(health); err != nil {
			return err
		}
		if err := a.serveFolders(dirs); err != nil {
			return err
		}
		return workOn(cmd.Context(), a, &o, once, health)
	}
	return cmd
}

// serveFolders bounds the host to what a worker of these folders may do.
func (a *app) serveFolders(dirs []string) error {
	if len(dirs) == 0 {
		dirs = []string{cmp.Or(a.host().Dir(), ".")}
	}
	for i, dir := range dirs {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			err = errors.New("is no folder")
		}
		if err == nil {
			dir, err = filepath.Abs(dir)
		}
		if err != nil {
			return usage(fmt.Sprintf("--dir %s: %v", dir, err))
		}
		dirs[i] = dir
	}
	a.worker = host.Worker{Dirs: strings.Join(dirs, "\n"), Shared: !a.host().OwnStore()}
	return nil
}

// heldElsewhere returns how many runs are held by other processes.
func heldElsewhere(ctx context.Context, a *app) string {
	running, err := a.store.Runs(ctx, &runlog.Filter{Status: []runlog.Status{runlog.Running}})
	if err != nil || len(running) == 0 {
		return ""
	}
	return fmt.Sprintf("; %s held by other processes, and free when their hold ends if those are dead", inwords.Plural(len(running), "run"))
}

func workOn(ctx context.Context, a *app, o *superstep.RecoverOptions, once bool, health string) error {
	a.lives = true
	e, err := a.engine(ctx, "", nil)
	if err != nil {
		return err
	}
	defer e.Close()
	ctx, done := a.stoppable(ctx, func() {})
	defer done()
	if health != "" {
		at, end, err := serveHealth(ctx, health, e)
		if err != nil {
			return err
		}
		defer end()
		if !a.set.Quiet && !a.programs() {
			a.err.line("health and metrics: " + at)
		}
	}
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
	o.Taken = func(id string) { say("taken", id, nil) }
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
