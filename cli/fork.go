package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/runlog"
)

// forking are the flags of runs fork.
type forking struct {
	from  string
	sets  list
	noRun bool
}

func (a *app) forkCommand() *cobra.Command {
	var r running
	var f forking
	cmd := &cobra.Command{
		Use: "fork ID --from POINT", Short: "Make a new run that shares another up to a point, and run it", Args: a.one, ValidArgsFunction: a.ids,
		Long: "Make a new run that shares everything with another up to a point, and run it from there. The other run is not changed.\n" +
			"A point is " + atHelp + ".\n" +
			"In a run of a recipe --set STEP=value is the output of a step, as JSON or else a text. The fork runs the\n" +
			"recipe as it was when the run began.",
		Example: examples(a.opt.Name,
			"runs fork 7f3a --from write", "run this step, and what follows, again",
			"runs fork 7f3a --from 2 --set limit=3", "with another field of the state",
			`runs fork 7f3a --from write --set 'plan={"steps":["a"]}'`, "as if the step plan had made this update too",
			`runs fork 7f3a --from report --set rate=9`, "of a recipe: as if the step rate had given this",
			`runs fork 7f3a --from report --set 'rate=not good enough'`, "the same with a text",
			"runs fork 7f3a --from write --no-run", "only make it"),
	}
	cmd.Flags().StringVar(&f.from, "from", "", "the `point` to go on from: a step, a superstep, or seq:N")
	cmd.Flags().Var(&f.sets, "set", "change the state: FIELD=value, or STEP=update as JSON, which of a recipe is the output of the step (may be repeated)")
	cmd.Flags().BoolVar(&f.noRun, "no-run", false, "make the run and do not start it")
	r.add(cmd.Flags())
	noModel(cmd, a)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("model") {
			return usage("--model: a fork keeps the model that the run began with; leave the flag out, or start a new run with `" + a.opt.Name + " run`")
		}
		if f.from == "" {
			return usage("runs fork: say where to go on from with --from: " + atHelp)
		}
		ans, err := r.check(a)
		if err != nil {
			return err
		}
		return a.fork(cmd.Context(), args[0], &f, &r, ans)
	}
	return cmd
}

func (a *app) fork(ctx context.Context, ref string, f *forking, r *running, ans answers) error {
	e, info, err := a.past(ctx, ref)
	if err != nil {
		return err
	}
	m, err := a.at(ctx, e, info.ID, f.from)
	if err != nil {
		return err
	}
	if err := a.askable(ctx, e, info, ans); err != nil {
		return err
	}
	edits, err := a.edits(ctx, e, info, f)
	if err != nil {
		return err
	}
	at := m.Seq
	if seq, ok := strings.CutPrefix(f.from, "seq:"); ok { // what was under way there is kept
		if _, err := fmt.Sscan(seq, &at); err != nil {
			return err
		}
	}
	fork, err := e.Fork(ctx, info.ID, at, &superstep.ForkOptions{Edits: edits, From: fromNode(f.from)})
	if err != nil {
		if len(edits) > 0 {
			err = usage("--set: " + err.Error())
		}
		return err
	}
	for i := range fork.Repeats {
		x := &fork.Repeats[i]
		once := ""
		if x.Once {
			once = ", which was declared to never happen twice"
		}
		a.warn(fmt.Sprintf("in run %s the task %s has done %q (%s)%s; the fork may do it again", info.ID, x.Path, x.Name, x.Kind, once))
	}
	if f.noRun && a.programs() {
		return a.out.json(fork, a.set.output == "json")
	}
	if !a.programs() && !a.set.quiet {
		a.err.line(fmt.Sprintf("run %s forked from %s after %s, next: %s", fork.ID, info.ID, plural(fork.Step, "superstep"), orNothing(fork.Next)))
	}
	if f.noRun {
		a.out.line(fork.ID)
		return nil
	}
	_, made, err := a.find(ctx, fork.ID)
	if err != nil {
		return err
	}
	return a.resume(ctx, made, r, ans, &superstep.ResumeOptions{})
}

// fromNode is the node that a point in a run names, "" for a superstep or a record.
func fromNode(ref string) string {
	if _, err := strconv.Atoi(ref); err == nil || strings.HasPrefix(ref, "seq:") {
		return ""
	}
	if i := strings.IndexAny(ref, "[#"); i >= 0 {
		ref = ref[:i]
	}
	return ref
}

// edits makes edits of the words FIELD=value and STEP=update.
func (a *app) edits(ctx context.Context, e *superstep.Engine, info runlog.Info, f *forking) ([]graph.Edit, error) {
	if len(f.sets) == 0 {
		return nil, nil
	}
	flow, err := e.Reading(ctx, info.ID)
	if err != nil {
		return nil, err
	}
	var nodes []string
	for _, n := range flow.Shape().Nodes {
		nodes = append(nodes, n.Name)
	}
	outputs := len(a.recipeFiles(ctx, info.ID)) > 0 // which is all the state that there is
	var out []graph.Edit
	fields := map[string]json.RawMessage{}
	for _, s := range f.sets {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return nil, usage(fmt.Sprintf("--set: want FIELD=value or STEP=update, got %q%s", s, suggest.Hint(s, nodes)))
		}
		raw := json.RawMessage(value)
		if slices.Contains(nodes, key) {
			if !json.Valid(raw) && !outputs {
				return nil, usage(fmt.Sprintf("--set: the update of %s is no JSON: %s", key, value))
			}
			if outputs && key == fromNode(f.from) {
				return nil, usage(fmt.Sprintf("--set %s: the fork does step %s again; go on from a step that follows it", quote(s), key))
			}
			if !json.Valid(raw) { // a text
				if raw, err = json.Marshal(value); err != nil {
					return nil, err
				}
			}
			out = append(out, graph.Edit{Node: key, Update: raw})
			continue
		}
		if outputs {
			return nil, usage(fmt.Sprintf("--set: workflow %s has no step %q%s", info.Workflow, key, suggest.Hint(key, nodes)))
		}
		if !json.Valid(raw) { // a word
			if raw, err = json.Marshal(value); err != nil {
				return nil, err
			}
		}
		fields[key] = raw
	}
	if len(fields) > 0 {
		update, err := json.Marshal(fields)
		if err != nil {
			return nil, err
		}
		out = append([]graph.Edit{{Update: update}}, out...)
	}
	return out, nil
}
