package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
)

func runsResolve(a *app) *cobra.Command {
	var r running
	var again, happened bool
	var result string
	cmd := &cobra.Command{
		Use: "resolve ID [TASK]", Short: "Resolve an effect whose outcome is unknown after a crash", ValidArgsFunction: a.ids,
		Example: examples(a.cfg.Name,
			"runs resolve @last", "what is unknown",
			"runs resolve @last pay --happened", "its output is lost: the task is told so",
			`runs resolve 7f3a pay --happened --result 'receipt 17'`, "the text that the tool would have returned",
			"runs resolve 7f3a pay --again", "it did not happen: do it"),
		Args: nargs(1, 2, "runs resolve: name the run, and the task if several wait: ID [TASK]"),
	}
	cmd.Flags().BoolVar(&again, "again", false, "it did not happen, or may happen twice: do it")
	cmd.Flags().BoolVar(&happened, "happened", false, "it happened: do not do it again")
	cmd.Flags().StringVar(&result, "result", "", "with --happened: the `TEXT` that the tool returned; of other effects, their output as JSON")
	r.add(cmd.Flags())
	noModel(cmd, a, "run keeps the model that it began with")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ans, err := r.check(a)
		if err := cmp.Or(err, a.byUser()); err != nil {
			return err
		}
		var output json.RawMessage // see outcome
		if cmd.Flags().Changed("result") {
			output = json.RawMessage(result)
		}
		given, err := resolution(again, happened, output)
		if err != nil {
			return err
		}
		task := ""
		if len(args) > 1 {
			task = args[1]
		}
		return resolveEffect(cmd.Context(), a, args[0], task, given, &r, ans)
	}
	return cmd
}

// resolution returns the answer given by the flags, or nil.
func resolution(again, happened bool, output json.RawMessage) (*runlog.Answer, error) {
	choice := runlog.UnknownAgain
	switch {
	case again && happened:
		return nil, usage("runs resolve: --again or --happened, not both")
	case output != nil && !happened:
		return nil, usage("--result needs --happened")
	case !again && !happened:
		return nil, nil
	case happened:
		choice = runlog.UnknownHappened
	}
	b, err := json.Marshal(choice)
	return &runlog.Answer{Value: b, By: "person", Output: output}, err
}

// outcome returns the outcome of an effect as given by --result.
func outcome(u *unknownJSON, result json.RawMessage) (json.RawMessage, error) {
	switch {
	case result == nil || json.Valid(result):
		return result, nil
	case !u.Text:
		return nil, usage(fmt.Sprintf("--result: the output of %s in %s is JSON, such as \"a text\" in quotes; got %q", u.Effect, u.Task, result))
	}
	return json.Marshal(string(result))
}

// unknownJSON is an effect with an unknown outcome, for programs.
type unknownJSON struct {
	Task     string `json:"task"`
	Effect   string `json:"effect"`
	Question string `json:"question"`
	Text     bool   `json:"text,omitempty"` // it gives text, as tools do; other effects give JSON
	key      string
}

func resolveEffect(ctx context.Context, a *app, ref, task string, given *runlog.Answer, r *running, ans tui.Answers) error {
	e, info, err := findRun(ctx, a, ref)
	if err != nil {
		return err
	}
	run, err := a.host().Transcript(ctx, &info)
	if err != nil {
		return err
	}
	open := []unknownJSON{}
	for _, q := range run.Open() {
		asked := runlog.Question{Key: q.Key, Options: q.Options}
		if effect, ok := asked.Unknown(); ok && (task == "" || q.Path == task) {
			open = append(open, unknownJSON{q.Path, effect, transcript.Line(q.Question), q.Text, q.Key})
		}
	}
	switch {
	case given == nil:
		return printUnknown(a, info, open)
	case len(open) == 0 && task != "":
		return usage(fmt.Sprintf("run %s has no effect of unknown outcome in %q; `%s` lists those there are", info.ID, task, a.hint("runs", "resolve", info.ID)))
	case len(open) == 0:
		return usage(fmt.Sprintf("run %s has no effect of unknown outcome; it is %s", info.ID, info.Status), findsOut(a, info)...)
	case slices.ContainsFunc(open, func(u unknownJSON) bool { return u.Task != open[0].Task }):
		var next []string
		for _, u := range open {
			next = append(next, u.Task+": "+u.Question)
		}
		return usage(fmt.Sprintf("run %s has several effects of unknown outcome; name the task", info.ID), next...)
	}
	all := make([]runlog.Answer, len(open))
	for i := range open {
		all[i] = *given
		all[i].Key = open[i].key
		if all[i].Output, err = outcome(&open[i], given.Output); err != nil {
			return err
		}
	}
	if err := vouchFor(ctx, a, info); err != nil {
		return err
	}
	var g going
	for i, u := range open {
		if err = g.answer(ctx, e, info.ID, u.Task, &all[i]); err != nil {
			break
		}
	}
	return g.on(ctx, a, &info, err, r, ans)
}

// answerRecorded returns the error of resuming a run after its last answer was recorded. It is no
// error if another process resumed the run first.
func answerRecorded(a *app, id string, err error) error {
	busy, ok := errors.AsType[*runlog.BusyError](err)
	if !ok || busy.ID != id {
		return err
	}
	return a.tell(map[string]any{"run": id, "status": runlog.Running, "owner": busy.Owner},
		fmt.Sprintf("the answer is recorded, and %s runs %s; watch it: %s", busy.Owner, id, a.hint("runs", "watch", id)))
}

func printUnknown(a *app, info runlog.Info, open []unknownJSON) error {
	if a.programs() {
		return a.out.value(open)
	}
	if len(open) == 0 {
		a.err.line(fmt.Sprintf("run %s has no effect of unknown outcome", info.ID))
		for _, next := range findsOut(a, info) {
			a.err.line("  " + next)
		}
		return nil
	}
	for _, u := range open {
		a.out.line(fmt.Sprintf("%s  %s  %s", u.Task, u.Effect, u.Question))
	}
	a.err.line("  It happened   " + a.hint("runs", "resolve", info.ID, clean.Shell(open[0].Task), "--happened"))
	shape := "JSON"
	if open[0].Text {
		shape = "TEXT"
	}
	a.err.line("  Its result    " + a.hint("runs", "resolve", info.ID, clean.Shell(open[0].Task), "--happened", "--result", shape))
	a.err.line("  It did not    " + a.hint("runs", "resolve", info.ID, clean.Shell(open[0].Task), "--again"))
	return nil
}

// findsOut returns how to make an interrupted run ask its question.
func findsOut(a *app, info runlog.Info) []string {
	if info.Status != runlog.Interrupted {
		return nil
	}
	return []string{"it is interrupted, and asks when it comes to one: " + a.hint("runs", "resume", info.ID)}
}
