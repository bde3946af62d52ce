package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/detach"
	"github.com/superstep-dev/superstep/runlog"
)

// addDetach adds the flag that executes the run in a separate process.
func (r *running) addDetach(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&r.detach, detach.Flag, false, "execute the run in a separate process that outlives this terminal; print its ID")
	f.StringVar(&r.detached, detach.Hidden, "", "")
	f.Lookup(detach.Hidden).Hidden = true
}

// guestFlag is the hidden flag of runs that a model starts.
const guestFlag = "guest"

// addGuest adds that flag.
func (a *app) addGuest(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.set.guest, guestFlag, false, "")
	cmd.Flags().Lookup(guestFlag).Hidden = true
}

// runID is the hidden flag with the ID of a new run.
const runID = "run-id"

// traceFlag is the hidden flag with the traceparent of who starts the run. The default is the variable TRACEPARENT.
const traceFlag = "trace"

// addID adds that flag.
func (r *running) addID(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.id, runID, "", "")
	cmd.Flags().Lookup(runID).Hidden = true
	cmd.Flags().StringVar(&r.trace, traceFlag, "", "")
	cmd.Flags().Lookup(traceFlag).Hidden = true
}

// startDetached starts this command again in a separate process, and prints the ID of its run.
func (a *app) startDetached(ctx context.Context, r *running) error {
	if !a.kept() {
		return usage("--detach: this store keeps no runs, so nothing could follow the run; choose another store")
	}
	args := a.opt.Args
	if r.onAsk == "" {
		args = detach.Args(args, "--on-ask=wait") // somebody else answers
	}
	cmd, err := a.again(context.WithoutCancel(ctx), detach.Args(args, "--output=text", "--plain")...)
	if err != nil {
		return err
	}
	p, err := detach.Start(ctx, cmd, filepath.Join(a.host().DataDir(), "live"), func(id string) string {
		dir, _ := a.host().Folder(id)
		return dir
	})
	if ended, ok := errors.AsType[*detach.EndedError](err); ok {
		a.err.line(ended.Output)
		return &Error{Exit: max(ended.Exit, ExitFailed), Code: "detached", Message: err.Error(), Err: err, shown: true}
	}
	if err != nil {
		return err
	}
	if !a.programs() && !a.set.Quiet {
		a.tty.Notify(fmt.Sprintf("run %s executes in process %d; watch it: %s", p.Run, p.PID, a.hint("runs", "watch", p.Run)))
		if p.Log != "" {
			a.tty.Notify("what it prints: " + p.Log)
		}
	}
	return a.print(p, p.Run+"\n")
}

// answering returns how questions of a run are answered. A detached run that only waits for a person, for so long, leaves its questions open: it pauses, its
// process ends, and whoever answers resumes it.
func (r *running) answering(asked superstep.Answering, idle time.Duration) superstep.Answering {
	if r.detached == "" || r.leave.onAsk != "wait" {
		return asked
	}
	idle = cmp.Or(idle, time.Minute)
	var until time.Time // of all questions that are open together
	return func(ctx context.Context, q runlog.Question) (*runlog.Answer, bool) {
		if a, ok := asked(ctx, q); ok {
			until = time.Time{}
			return a, ok
		}
		if until.IsZero() || time.Since(until) > idle { // they are asked about one after another
			until = time.Now().Add(idle)
		}
		select {
		case <-ctx.Done(): // the question stays open, and another one is answered
			until = time.Time{}
		case <-time.After(time.Until(until)):
		}
		return nil, false
	}
}
