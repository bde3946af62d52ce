package cli

import (
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

// chatIdle is how long the process of a chat waits for the next message.
const chatIdle = 10 * time.Minute

// answering returns how questions of a run are answered.
func (r *running) answering(asked superstep.Answering) superstep.Answering {
	if r.detached == "" || r.leave.onAsk != "wait" {
		return asked
	}
	return func(ctx context.Context, q runlog.Question) (*runlog.Answer, bool) {
		if a, ok := asked(ctx, q); ok {
			return a, ok
		}
		var idle <-chan time.Time
		if q.Kind == runlog.QuestionMessage { // a conversation that nobody continues is paused, and needs no process
			idle = time.After(chatIdle)
		}
		select {
		case <-ctx.Done(): // the question stays open: whoever answers does so from another process
		case <-idle:
		}
		return nil, false
	}
}
