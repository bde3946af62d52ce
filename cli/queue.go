package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// queueing are the flags of a run that a worker executes.
type queueing struct {
	on       bool
	place    []string
	priority int
	key      string
	after    string
}

// queueFlags are those that need --queue.
var queueFlags = [...]string{"place", "priority", "key", "not-before"}

func (q *queueing) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&q.on, "queue", false, "create the run and leave it to a worker; print its ID")
	f.StringSliceVar(&q.place, "place", nil, "with --queue: the labels that its worker must have, such as gpu,acp")
	f.IntVar(&q.priority, "priority", 0, "with --queue: workers take runs of a higher priority first")
	f.StringVar(&q.key, "key", "", "with --queue: execute only one run of this `key` at once, or as many as KEY=N says")
	f.StringVar(&q.after, "not-before", "", "with --queue: the `time` before which no worker takes it, such as 2h or 2026-12-24T18:00:00Z")
}

// check returns what the flags say, nil without --queue.
func (q *queueing) check(cmd *cobra.Command, r *running) (*runlog.Queue, error) {
	for _, flag := range queueFlags {
		if !q.on && cmd.Flags().Changed(flag) {
			return nil, usage("--" + flag + " needs --queue")
		}
	}
	if !q.on {
		return nil, nil
	}
	if len(r.answers) > 0 || r.input != "" || r.plan {
		return nil, usage("--queue: no process executes the run yet; answer its questions later with `superstep runs answer`, and leave out --answer, --input jsonl and --plan")
	}
	out := &runlog.Queue{Place: q.place, Priority: q.priority, Key: q.key}
	if i := strings.LastIndexByte(q.key, '='); i >= 0 {
		n, err := strconv.Atoi(q.key[i+1:])
		if err != nil || n < 1 {
			return nil, usage(fmt.Sprintf("--key: %q is no number of runs; write KEY or KEY=N", q.key[i+1:]))
		}
		out.Key, out.Limit = q.key[:i], n
	}
	if q.after != "" {
		if d, err := time.ParseDuration(q.after); err == nil {
			out.NotBefore = time.Now().Add(d).UTC().Truncate(time.Millisecond)
		} else if out.NotBefore, err = time.Parse(time.RFC3339, q.after); err != nil {
			return nil, usage(fmt.Sprintf("--not-before: %q is no time; write one such as 2h or 2026-12-24T18:00:00Z", q.after))
		}
	}
	if err := out.Check(); err != nil {
		return nil, usage("--queue: " + err.Error())
	}
	return out, nil
}

// enqueueRun creates a queued run and prints its ID.
func enqueueRun(ctx context.Context, a *app, w *workflow.Workflow, g *arguments.Given, r *running) error {
	if !a.kept() {
		return usage("--queue: this store keeps no runs, so no worker could take the run; choose another store")
	}
	inputs, err := g.Inputs(w)
	if err != nil {
		return err
	}
	e, err := a.engine(ctx, w.Name, r.engine())
	if err != nil {
		return err
	}
	info, err := e.Enqueue(ctx, w.Name, inputs, &superstep.StartOptions{ID: r.id, Budget: r.budget(), SnapshotEvery: r.every, Queue: r.queue})
	if err != nil {
		return err
	}
	if !a.programs() && !a.set.Quiet {
		needs := ""
		if place := strings.Join(r.queue.Place, ","); place != "" {
			needs = " --place " + place
		}
		a.tty.Notify(fmt.Sprintf("run %s is %s; a worker takes it: %s", info.ID, info.Status, a.hint("worker"+needs)))
	}
	return a.print(map[string]any{"run": info.ID, "status": info.Status}, info.ID+"\n")
}
