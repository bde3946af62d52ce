package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// atHelp describes how to name a checkpoint of a run.
const atHelp = "a superstep (0 is the beginning), seq:N for record N, or a step or task, which is right before it first ran"

// pastRun returns the run that the user names, and an engine that can read its states but executes
// nothing.
func pastRun(ctx context.Context, a *app, ref string) (*superstep.Engine, runlog.Info, error) {
	_, info, err := findRun(ctx, a, ref)
	if err != nil {
		return nil, info, err
	}
	e, err := a.engine(ctx, "", nil)
	return e, info, err
}

// pointOf returns the checkpoint of a run that the user names.
func pointOf(ctx context.Context, a *app, e *superstep.Engine, id, ref string) (graph.Checkpoint[json.RawMessage], error) {
	m, err := e.At(ctx, id, ref)
	return m, explainPoint(a, err, id)
}

// explainPoint returns the error for a checkpoint that a run does not have, with what to do.
func explainPoint(a *app, err error, id string) error {
	if errors.As(err, new(*superstep.PointError)) || errors.As(err, new(*graph.InsideError)) {
		return usage(err.Error(), "see the supersteps: "+a.hint("runs", "history", id))
	}
	return err
}

type momentJSON struct {
	Step  int             `json:"step"`
	Seq   uint64          `json:"seq"`
	Tasks []string        `json:"tasks"`
	Next  []string        `json:"next"`
	State json.RawMessage `json:"state,omitempty"`
}

func moment(m *graph.Checkpoint[json.RawMessage]) momentJSON {
	out := momentJSON{Step: m.Step, Seq: m.Seq, Tasks: []string{}, Next: append([]string{}, m.Next...)}
	for _, t := range m.Tasks {
		out.Tasks = append(out.Tasks, t.Path)
	}
	return out
}

func runsHistory(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "history ID[@TASK]", Short: "List a run's supersteps: what each computed, and what came next", Args: oneRun, ValidArgsFunction: a.ids,
		Long: "List a run's supersteps: what each computed, and what came next. With a task behind the run, list those of the graph inside of that task:\n" +
			"a sub-graph, a workflow that it called, or the steps inside of a step of a recipe.",
		Example: examples(a.cfg.Name, "runs history @last", "", "runs history 7f3a -o json", "", "runs show 7f3a --at @2 --state", "the state after the second superstep",
			"runs history 7f3a@plan", "the graph inside of the task plan", "runs show 7f3a --at @plan/2 --state", "its state after its second superstep"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, inside, _ := cutPoint(args[0])
			e, info, err := pastRun(cmd.Context(), a, ref)
			if err != nil {
				return err
			}
			moments := []momentJSON{}
			for m, err := range e.History(cmd.Context(), info.ID, inside) {
				if err != nil {
					return explainPoint(a, err, info.ID)
				}
				moments = append(moments, moment(&m))
			}
			if err := printHistory(a, moments); err != nil || a.programs() || a.set.Quiet || inside != "" {
				return err
			}
			tasks, err := e.Insides(cmd.Context(), info.ID)
			if len(tasks) > 0 {
				one, most := a.hint("runs", "history", info.ID+"@"+tasks[0]), 20
				if more := len(tasks) - most; more > 0 {
					tasks = append(tasks[:most], fmt.Sprintf("and %d more", more))
				}
				a.err.line(fmt.Sprintf("There are graphs inside of: %s. See one: %s", strings.Join(tasks, ", "), one))
			}
			return err
		},
	}
}

func printHistory(a *app, moments []momentJSON) error {
	if a.programs() {
		return rows(a.out, moments)
	}
	if len(moments) == 0 {
		a.err.line("its graph has not begun")
		return nil
	}
	table := [][]string{{"STEP", "SEQ   ", "COMPUTED", "NEXT"}}
	for i := range moments {
		m := &moments[i]
		table = append(table, []string{fmt.Sprint(m.Step), fmt.Sprint(m.Seq), strings.Join(m.Tasks, " "), strings.Join(m.Next, " ")})
	}
	a.out.table(table, 60, 0)
	return nil
}

// showState prints the state of a run at a checkpoint.
func showState(ctx context.Context, a *app, ref, at string) error {
	e, info, err := pastRun(ctx, a, ref)
	if err != nil {
		return err
	}
	m, err := pointOf(ctx, a, e, info.ID, pointWord(at))
	if err != nil {
		return err
	}
	if a.programs() {
		out := moment(&m)
		out.State = m.State
		return a.out.value(out)
	}
	if !a.set.Quiet {
		a.err.line(fmt.Sprintf("run %s after %s (record %d), next: %s", info.ID, inwords.Plural(m.Step, "superstep"), m.Seq, orNothing(m.Next)))
	}
	var b bytes.Buffer
	if err := json.Indent(&b, m.State, "", "  "); err != nil {
		return err
	}
	a.out.line(b.String())
	return nil
}

func orNothing(paths []string) string {
	if len(paths) == 0 {
		return "nothing"
	}
	return strings.Join(paths, ", ")
}

func runsDiff(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "diff A[@POINT] B[@POINT] | RUN FILE", Short: "Compare two runs, two checkpoints, or a run's recipe with a file",
		Long: "Compare two runs, superstep by superstep; with a point behind both, compare two states, which may be of one run.\nA point is " + atHelp + ".\n" +
			"TASK/POINT is one of the graph inside of a task.",
		Example: examples(a.cfg.Name, "runs diff 7f3a 91bc", "", "runs diff 7f3a@1 7f3a@3", "what two supersteps changed", "runs diff @-2@write @last@write", "",
			"runs diff 7f3a 91bc -o json", ""),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				args = nil // the second is a run too
			}
			return a.ids(cmd, args, word)
		},
		Args: nargs(2, 2, "runs diff: name two runs, or two points of runs: A[@POINT] B[@POINT]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			refA, atA, pointA := cutPoint(args[0])
			refB, atB, pointB := cutPoint(args[1])
			if pointA != pointB {
				return usage("runs diff: give a point behind both runs, or behind neither", "such as: "+a.hint("runs", "diff", "7f3a@1", "7f3a@3"))
			}
			e, one, err := pastRun(cmd.Context(), a, refA)
			if err != nil {
				return err
			}
			if !pointA && a.host().IsFile(refB) {
				return diffRecipe(cmd.Context(), a, &one, refB)
			}
			_, two, err := findRun(cmd.Context(), a, refB)
			if err != nil {
				return err
			}
			if pointA {
				return diffStates(cmd.Context(), a, e, [2]string{one.ID, two.ID}, [2]string{atA, atB})
			}
			d, err := e.Diff(cmd.Context(), one.ID, two.ID)
			if err != nil {
				return err
			}
			return printRunDiff(a, d)
		},
	}
}

// diffRecipe shows how a file differs from the recipe that a run began with.
func diffRecipe(ctx context.Context, a *app, info *runlog.Info, file string) error {
	files := a.host().Pinned(ctx, info.ID).Files
	if len(files) == 0 {
		return usage(fmt.Sprintf("runs diff: run %s is no run of a recipe", info.ID))
	}
	diff, err := a.host().DiffRecipe(files[0].Text, file)
	if err != nil {
		return err
	}
	v := map[string]string{"run": info.ID, "file": file, "diff": diff}
	if diff == "" {
		return a.tell(v, fmt.Sprintf("%s is the recipe that run %s began with", file, info.ID))
	}
	return a.print(v, strings.TrimRight(transcript.Clean(diff), "\n"))
}

// cutPoint splits 7f3a@2 and @last@2.
func cutPoint(s string) (ref, point string, ok bool) {
	i := strings.LastIndexByte(s, '@')
	if i <= 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func diffStates(ctx context.Context, a *app, e *superstep.Engine, ids, at [2]string) error {
	var states [2]json.RawMessage
	for i := range ids {
		m, err := pointOf(ctx, a, e, ids[i], at[i])
		if err != nil {
			return err
		}
		states[i] = m.State
	}
	changes, err := superstep.Diff(states[0], states[1])
	if err != nil {
		return err
	}
	if a.programs() {
		return a.out.value(map[string]any{"state": append([]superstep.Change{}, changes...)})
	}
	if len(changes) == 0 {
		a.err.line("the states are the same")
	}
	printChanges(a, "", changes)
	return nil
}

func printRunDiff(a *app, d *superstep.RunDiff) error {
	if a.programs() {
		return a.out.value(d)
	}
	for i := range d.Tasks {
		t := &d.Tasks[i]
		how := map[string]string{superstep.Changed: "~", superstep.OnlyA: "-", superstep.OnlyB: "+"}[t.How]
		a.out.line(fmt.Sprintf("%s %d %s", how, t.Step, t.Path))
		printChanges(a, "    ", t.Changes)
	}
	if len(d.State) > 0 {
		a.out.line("the last state")
		printChanges(a, "    ", d.State)
	}
	if !a.set.Quiet {
		a.err.line(fmt.Sprintf("%s the same, %d not", inwords.Plural(d.Same, "task"), len(d.Tasks)))
	}
	return nil
}

func printChanges(a *app, indent string, changes []superstep.Change) {
	for _, c := range changes {
		path := c.Path
		if path == "" {
			path = "/"
		}
		if c.Before != nil {
			a.out.line(indent + "- " + path + " " + oneLine(a, c.Before))
		}
		if c.After != nil {
			a.out.line(indent + "+ " + path + " " + oneLine(a, c.After))
		}
	}
}

// oneLine returns a value as JSON, truncated unless the whole is wanted.
func oneLine(a *app, v json.RawMessage) string {
	s := transcript.Line(string(v))
	if r := []rune(s); len(r) > 120 && !a.set.Verbose {
		return string(r[:119]) + "…"
	}
	return s
}

func runsReplay(a *app) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "replay ID", Short: "Replay a run from its log, and compare the results", Args: oneRun, ValidArgsFunction: a.ids,
		Long: "Execute a run again from its own record, in memory, and compare what it writes byte for byte. No model and no tool is called,\n" +
			"so no key, no server and no trust is needed.\n" +
			"The exit code is 1 if something differs: the workflow has changed since, or does something that depends on more than its inputs and effects.",
		Example: examples(a.cfg.Name, "runs replay @last", "", "runs replay 7f3a -o json", ""),
	}
	cmd.Flags().DurationVar(&wait, "wait", time.Minute, "how long the workflow may compute from one record to the next")
	cmd.RunE = a.onRun(func(ctx context.Context, _ *superstep.Engine, info runlog.Info, _ []string) error {
		if wait <= 0 {
			return usage(fmt.Sprintf("--wait: want a positive duration such as 90s, got %s", wait))
		}
		a.replays = true // which needs no model, no key and no project
		e, err := a.engine(ctx, "", nil)
		if err != nil {
			return err
		}
		report, err := e.Replay(ctx, info.ID, &superstep.ReplayOptions{Wait: wait})
		if err != nil {
			return err
		}
		return printReplay(a, info.ID, report)
	})
	return cmd
}

// useModelOf selects the model that a run began with, unless a file says so: an imported run has the models of the user.
func useModelOf(ctx context.Context, a *app, id string, run *transcript.Run) error {
	o, err := a.host().OriginOf(ctx, id)
	if err != nil || o != nil {
		return err
	}
	var began struct{ Model string }
	if json.Unmarshal(run.Inputs, &began) == nil && began.Model != "" {
		a.set.model = began.Model
	}
	return nil
}

type recordJSON struct {
	Seq  uint64          `json:"seq,omitempty"`
	Kind runlog.Kind     `json:"kind"`
	Path string          `json:"path,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
}

func printReplay(a *app, id string, r *journal.Report) error {
	var diverged map[string]any
	var next []string
	if d := r.Diverged; d != nil {
		diverged = map[string]any{"seq": d.Seq, "path": d.Path, "message": d.Why}
		for side, rec := range map[string]*runlog.Record{"recorded": d.Recorded, "replayed": d.Replayed} {
			if rec != nil {
				diverged[side] = recordJSON{rec.Seq, rec.Kind, rec.Path, rec.Data}
				next = append(next, fmt.Sprintf("%s: %s %s %s", side, rec.Kind, rec.Path, oneLine(a, rec.Data)))
			}
		}
		slices.Sort(next)
	}
	if a.programs() {
		err := a.out.value(map[string]any{
			"run": id, "equal": diverged == nil, "records": r.Records, "executed": r.Executed, "epochs": r.Epochs, "hash": fmt.Sprintf("%x", r.Hash),
			"divergence": diverged,
		})
		if err != nil || diverged == nil {
			return err
		}
		return &Error{Exit: ExitFailed, Code: "diverged", Message: r.Diverged.Error(), shown: true}
	}
	if diverged == nil {
		a.out.line(fmt.Sprintf("run %s replayed: %s, every byte equal, no model called", id, inwords.Plural(r.Records, "record")))
		return nil
	}
	return &Error{Exit: ExitFailed, Code: "diverged", Message: fmt.Sprintf("the replay of run %s differs at %s", id, r.Diverged.Error()), Next: next}
}
