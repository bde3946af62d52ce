package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent/team"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/live"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
)

func runsCommand(a *app) *cobra.Command {
	n := a.cfg.Name
	runs := &cobra.Command{
		Use: "runs", Short: "List, show, resume, answer, cancel, fork, replay and remove runs",
		Example: examples(n, "runs list", "", "runs show @last", "", "runs resume 7f3a", "", `runs answer @last write=yes`, ""),
	}
	runs.AddCommand(runsList(a), runsShow(a), runsOpen(a), runsWatch(a), runsResume(a), runsAnswer(a), runsPause(a), runsBudget(a), runsSteer(a), runsInterrupt(a), runsCancel(a), runsRemove(a), runsRestore(a),
		runsResolve(a), runsHistory(a), runsFork(a), runsDiff(a), runsReplay(a), runsDu(a), runsGC(a),
		runsExport(a), runsImport(a), runsTrust(a), runsDistil(a))
	return listFirst(a, runs)
}

// ids completes the IDs of runs.
func (a *app) ids(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if err := a.configure(cmd.Flags()); err != nil || len(args) > 0 && cmd.Name() != "rm" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	infos, err := listRuns(cmd.Context(), a, &runlog.Filter{Limit: 50})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	out := []string{"@last\tthe newest run"}
	for _, i := range infos {
		out = append(out, i.ID+"\t"+transcript.Line(string(i.Status)+" "+i.Workflow+" "+i.Title))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func listRuns(ctx context.Context, a *app, f *runlog.Filter) ([]runlog.Info, error) {
	e, err := a.looking(ctx)
	if err != nil {
		return nil, err
	}
	return e.Runs(ctx, f)
}

// oneRun is the argument check of commands about one run.
func oneRun(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(fmt.Sprintf("%s: name one run: its ID, the start of it, @last, or @-2 for the one before",
			strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")))
	}
	return nil
}

// nargs is the argument check of commands with a fixed number of arguments.
func nargs(least, most int, message string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usage(message)
		}
		return nil
	}
}

// oneRunOrLast is the argument check of commands about one run, or the newest if none is named.
func oneRunOrLast(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return oneRun(cmd, args)
}

// named returns the run that the arguments name, or the newest one.
func named(args []string) string {
	if len(args) == 0 {
		return "@last"
	}
	return args[0]
}

// findRun returns the run that the user names. A run that no process executes is never shown as
// running.
func findRun(ctx context.Context, a *app, ref string) (*superstep.Engine, runlog.Info, error) {
	e, err := a.looking(ctx)
	if err != nil {
		return nil, runlog.Info{}, err
	}
	info, err := e.Find(ctx, ref)
	var gone *runlog.NotFoundError
	switch {
	case errors.As(err, &gone) && gone.Hidden:
		err = &Error{Exit: ExitUsage, Code: "unknown_run", Err: err, Message: "run " + gone.ID + " was removed", Next: []string{
			"restore it: " + a.hint("runs", "restore", gone.ID), "delete it for good: " + a.hint("runs", "rm", "--now", gone.ID)}}
	case gone != nil:
		err = &Error{Exit: ExitUsage, Code: "unknown_run", Err: err, Message: fmt.Sprintf("no run %q in %s; `%s` shows the runs there are", ref,
			storeName(a), a.hint("runs", "list"))}
	case err != nil && !errors.As(err, new(*superstep.AmbiguousError)) && strings.HasPrefix(ref, "@"):
		err = usage(err.Error())
	}
	return e, info, err
}

// onRun has a command find the run that its first argument names, or the newest run without arguments.
func (a *app) onRun(do func(ctx context.Context, e *superstep.Engine, info runlog.Info, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		e, info, err := findRun(cmd.Context(), a, named(args))
		if err != nil {
			return err
		}
		return do(cmd.Context(), e, info, args)
	}
}

// completeRun completes a flag from the run that the arguments name.
func (a *app) completeRun(cmd *cobra.Command, flag string, words func(ctx context.Context, e *superstep.Engine, info runlog.Info) ([]string, error)) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if a.configure(cmd.Flags()) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		e, info, err := findRun(cmd.Context(), a, named(args))
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		out, err := words(cmd.Context(), e, info)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}) // it fails if there is no such flag
}

func runsList(a *app) *cobra.Command {
	var statuses []string
	var limit int
	var of string
	var here bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, SuggestFor: []string{"ps", "status"}, Short: "List runs, the newest first", Args: none,
		Example: examples(a.cfg.Name, "runs list", "", "runs list --status failed,paused --limit 5", "", "runs list --here", "of this project alone",
			"runs list -o json", ""),
	}
	cmd.Flags().BoolVar(&here, "here", false, "only the runs of this project, among which @last is the newest")
	cmd.Flags().StringSliceVar(&statuses, "status", nil, "only these: "+strings.Join(statusNames(), ", "))
	cmd.Flags().IntVar(&limit, "limit", 20, "at most this many, 0 for all")
	cmd.Flags().StringVar(&of, "of", "", "only the child runs of this run")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f := &runlog.Filter{}
		if limit > 0 && !here {
			f.Limit = limit + 1 // to know whether there are more
		}
		for _, s := range statuses {
			if err := oneOf("--status", s, statusNames()...); err != nil {
				return err
			}
			f.Status = append(f.Status, runlog.Status(s))
		}
		if slices.Contains(f.Status, hidden) && len(f.Status)+len(of) > 1 {
			return usage("--status hidden: stands alone, without other statuses and --of")
		}
		if limit < 0 {
			return usage(fmt.Sprintf("--limit: want 0 or more, got %d", limit))
		}
		infos, until, err := a.listed(cmd.Context(), f, of)
		if err != nil {
			return err
		}
		place := storeName(a)
		if here {
			place = a.host().Project()
			infos = slices.DeleteFunc(infos, func(i runlog.Info) bool { return summary.Elsewhere(&i, place) })
		}
		tops := 0
		more := slices.IndexFunc(infos, func(i runlog.Info) bool {
			if !i.IsChild() || of != "" {
				tops++
			}
			return limit > 0 && tops > limit
		})
		if more >= 0 {
			infos = infos[:more]
		}
		if len(infos) == 0 && len(f.Status) > 0 && !a.programs() {
			a.err.line(fmt.Sprintf("no run in %s is %s; `%s` shows all", place, strings.Join(statuses, " or "), a.hint("runs", "list")))
			return nil
		}
		if err := printList(cmd.Context(), a, infos, until, place); err != nil || more < 0 {
			return err
		}
		a.note("older runs are not shown; --limit 0 shows all")
		return nil
	}
	return cmd
}

// listed lists runs for runs list. Of hidden ones it tells until when they can be restored.
func (a *app) listed(ctx context.Context, f *runlog.Filter, of string) ([]runlog.Info, map[string]time.Time, error) {
	if slices.Contains(f.Status, hidden) {
		return hiddenRuns(ctx, a)
	}
	infos, err := a.family(ctx, f, of)
	return infos, nil, err
}

// family lists runs. It puts the child runs of a listed run into its place, at most three of them, or lists only those of one run.
func (a *app) family(ctx context.Context, f *runlog.Filter, of string) ([]runlog.Info, error) {
	if of != "" {
		e, info, err := findRun(ctx, a, of)
		if err != nil {
			return nil, err
		}
		infos, err := e.Children(ctx, info.ID)
		return slices.DeleteFunc(infos, func(i runlog.Info) bool { return !f.Takes(i.Status) }), err
	}
	infos, err := listRuns(ctx, a, f)
	if err != nil || !slices.ContainsFunc(infos, func(i runlog.Info) bool { return i.IsChild() }) {
		return infos, err
	}
	all := *f
	all.Limit = 0 // a large family would leave no room for others
	if infos, err = listRuns(ctx, a, &all); err != nil || a.programs() && f.Limit == 0 {
		return infos, err
	}
	listed, below := map[string]bool{}, map[string][]runlog.Info{}
	for i := range infos {
		listed[infos[i].ID] = true
	}
	var tops []runlog.Info
	for i := range infos {
		if infos[i].IsChild() && listed[infos[i].Parent] {
			below[infos[i].Parent] = append(below[infos[i].Parent], infos[i])
		} else {
			tops = append(tops, infos[i])
		}
	}
	if f.Limit > 0 && len(tops) > f.Limit {
		tops = tops[:f.Limit]
	}
	const shown = 3
	var out []runlog.Info
	for i := range tops {
		children := below[tops[i].ID]
		slices.SortStableFunc(children, func(a, b runlog.Info) int { return cmp.Compare(rank(a.Status), rank(b.Status)) })
		out = append(append(out, tops[i]), children[:min(shown, len(children))]...)
		if hidden := len(children) - shown; hidden > 0 {
			a.note(fmt.Sprintf("run %s has %d more children; `%s` shows all", tops[i].ID, hidden, a.hint("runs", "list", "--of", tops[i].ID, "--limit", "0")))
		}
	}
	return out, nil
}

// rank orders child runs: those that need somebody, those that execute, those that have ended.
func rank(s runlog.Status) int {
	switch s {
	case runlog.Paused, runlog.Failed, runlog.Quarantined:
		return 0
	case runlog.Completed, runlog.Partial, runlog.Cancelled:
		return 2
	}
	return 1
}

// statusNames returns the names of run statuses as listings show them.
func statusNames() []string {
	var out []string
	for _, s := range []runlog.Status{
		runlog.Queued, runlog.Running, runlog.Paused, runlog.WaitingStorage, runlog.Completed, runlog.Partial, runlog.Failed, runlog.Cancelled, runlog.Interrupted,
		runlog.Quarantined, hidden,
	} {
		out = append(out, string(s))
	}
	return out
}

func printList(ctx context.Context, a *app, infos []runlog.Info, until map[string]time.Time, place string) error {
	list, problems, err := a.host().RunItems(ctx, infos)
	if err != nil {
		return err
	}
	for n := range list {
		if t, ok := until[list[n].ID]; ok {
			list[n].Status, list[n].Reason, list[n].Open, list[n].Next = hidden, "until "+t.Local().Format("2006-01-02 15:04"), 0, ""
		}
	}
	for _, problem := range problems {
		a.tty.Warn(problem.Error())
	}
	if a.programs() {
		return rows(a.out, list)
	}
	if len(infos) == 0 {
		a.err.line("no runs in " + place + absent(a) + "; start one with `" + a.cfg.Name + " run`")
		return nil
	}
	pal := a.tty.Out
	table := [][]string{{"ID", "STATUS     ", "STARTED ", "WORKFLOW", "TITLE"}}
	costs := slices.ContainsFunc(list, func(i host.RunItem) bool { return i.Cost != nil && i.Cost.Micros > 0 })
	if costs {
		table[0] = slices.Insert(table[0], 3, "COST")
	}
	here := a.host().Project()
	folders := slices.ContainsFunc(list, func(i host.RunItem) bool { return i.Folder != "" && i.Folder != here })
	if folders {
		table[0] = slices.Insert(table[0], len(table[0])-1, "FOLDER")
	}
	for n, i := range list {
		age := inwords.Ago(time.Since(i.Created))
		if i.Created.Unix() <= 0 { // that is what is damaged
			age = "-"
		}
		id := i.ID
		if i.Child {
			id = "└ " + id
		}
		row := []string{id, status(pal, i.Status) + why(&list[n]), age, transcript.Line(i.Workflow), transcript.Line(i.Title)}
		if costs {
			row = slices.Insert(row, 3, i.Cost.String())
		}
		if folders {
			row = slices.Insert(row, len(row)-1, a.folderName(i.Folder, here))
		}
		table = append(table, row)
	}
	a.out.table(table, 0, a.tty.Width())
	var told []string
	for n := range list {
		if next := list[n].Next; next != "" && !slices.Contains(told, next) && !a.set.Quiet {
			told = append(told, next)
			a.err.line("  " + pad("Worker") + " " + a.hint(next))
		}
	}
	return nil
}

// folderName returns the folder of a project for a listing.
func (a *app) folderName(dir, here string) string {
	if dir == here {
		return "."
	}
	if rel, err := filepath.Rel(a.host().Home(), dir); err == nil && filepath.IsLocal(rel) && dir != "" {
		dir = filepath.Join("~", rel)
	}
	return transcript.Line(dir)
}

// why returns the listing's addition to the status: what a run waits for or where it failed, how far it is, and whether it was imported.
func why(r *host.RunItem) string {
	var words []string
	switch {
	case r.Open > 0:
		words = append(words, "needs you: "+inwords.Plural(r.Open, "question"))
	case r.Reason != "":
		words = append(words, r.Reason)
	case r.Failed != "":
		words = append(words, "in "+clean.Clip(transcript.Line(r.Failed), 24))
	}
	if r.Nodes > 1 && r.Done > 0 && r.Open == 0 && r.Reason != host.ReasonMessage && r.Failed == "" && !r.Status.Ended() {
		words = append(words, fmt.Sprintf("%d/%d", r.Done, r.Nodes))
	}
	if r.Imported != nil {
		words = append(words, "imported")
	}
	if words == nil {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// status adds a colour to the status word. The word alone carries the same information.
func status(p tui.Palette, of runlog.Status) string {
	s := string(of)
	switch of {
	case runlog.Completed:
		return p.Green(s)
	case runlog.Failed, runlog.Quarantined, host.Damaged:
		return p.Red(s)
	case runlog.Queued, runlog.Paused, runlog.Partial, runlog.Interrupted, runlog.Running, runlog.WaitingStorage, host.Waiting:
		return p.Yellow(s)
	}
	return s
}

// runsOpen opens a run in the terminal.
func runsOpen(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "open [ID]", Short: "Open a run in the full-screen terminal", Args: oneRunOrLast, ValidArgsFunction: a.ids,
		Example: examples(a.cfg.Name, "runs open @last", "", "runs open 7f3a", "a chat is continued there"),
		RunE: a.onRun(func(ctx context.Context, _ *superstep.Engine, info runlog.Info, _ []string) error {
			switch {
			case a.tty.OutTTY && a.tty.Asks() && a.tty.Live:
				return a.terminal(ctx, info.ID)
			case a.tty.OutTTY && a.tty.Asks():
				return (&plainTerminal{a: a, run: info.ID, chat: info.Workflow == "agent" || info.Status.Ended()}).converse(ctx)
			}
			return usage("runs open: needs a terminal; print the run instead: " + a.hint("runs", "show", info.ID))
		}),
	}
}

func runsWatch(a *app) *cobra.Command {
	var streamText bool
	var since uint64
	cmd := &cobra.Command{
		Use: "watch [ID]", Aliases: []string{"logs"}, Short: "Show the log of a run, and follow it while the run executes", Args: oneRunOrLast,
		ValidArgsFunction: a.ids,
		Example: examples(a.cfg.Name, "runs watch @last", "", "runs watch 7f3a -o jsonl", "its whole log, and what is to come",
			"runs watch 7f3a -o jsonl --since 412", "what came after the event of that seq"),
		RunE: a.onRun(func(ctx context.Context, e *superstep.Engine, info runlog.Info, _ []string) error {
			return watchRun(ctx, a, e, info, since, streamText)
		}),
	}
	cmd.Flags().Uint64Var(&since, "since", 0, "only what comes after this position in the log, such as the seq of an event")
	cmd.Flags().BoolVar(&streamText, "stream-text", false, streamTextHelp)
	cmd.PreRunE = func(*cobra.Command, []string) error { return a.checkStreamText(streamText) }
	return cmd
}

// watchRun follows a run until no process executes it, and exits with the code of the run.
func watchRun(ctx context.Context, a *app, e *superstep.Engine, info runlog.Info, since uint64, streamText bool) error {
	ctx, done := a.stoppable(ctx, func() {})
	defer done()
	s, stream := a.follow(since, streamText)
	s.Begin(info.ID)
	var broke error
	for rec, err := range e.Follow(ctx, info.ID, 0) {
		if err != nil {
			broke = err
			break
		}
		if live.StoredOnly(&rec) {
			if !a.set.Quiet {
				a.tty.Notify(fmt.Sprintf("run %s executes on another machine, or out of reach: text appears when each answer is complete", info.ID))
			}
			continue
		}
		s.Observe(rec, nil)
	}
	s.Close()
	if errors.Is(context.Cause(ctx), errPipe) {
		return nil
	}
	if broke != nil {
		return stopped(ctx, broke)
	}
	now, err := e.Find(ctx, info.ID)
	if err != nil {
		return err
	}
	return finishRun(a, s, stream, endingOf(ctx, s, logged(s.Run(), &now)))
}

// logged returns the outcome of a run that another process executed, read from its log.
func logged(r *transcript.Run, info *runlog.Info) *superstep.Outcome {
	failed := &Error{Exit: ExitFailed, Code: string(info.Status)}
	out := &superstep.Outcome{Status: info.Status, Output: r.Output, Short: r.Short}
	switch info.Status {
	case runlog.Failed:
		failed.Exit, failed.Code, failed.Message = exitOf(r.Code), r.Code, r.Error
	case runlog.WaitingStorage:
		failed.Message = r.Reason
	case runlog.Quarantined:
		failed.Message = (&runlog.QuarantinedError{ID: info.ID, Takeovers: info.Takeovers}).Error()
	case runlog.Interrupted:
		failed.Message = fmt.Sprintf("run %s was interrupted; nobody runs it", info.ID)
		if info.Head == 0 {
			failed.Message = fmt.Sprintf("run %s was cut off before it began", info.ID)
		}
	default:
		return out
	}
	out.Err = failed
	return out
}

func runsResume(a *app) *cobra.Command {
	var r running
	var again superstep.ResumeOptions
	cmd := &cobra.Command{
		Use: "resume ID", SuggestFor: []string{"continue", "restart", "retry"}, Short: "Resume a run that was interrupted, failed, paused or partial",
		Args: oneRun, ValidArgsFunction: a.ids,
		Long: "Resume a run that was interrupted, failed or paused. Of a partial run, whose record is complete, a fork is made: it has\n" +
			"the results of all that worked, and does again what failed and what depends on it.",
		Example: examples(a.cfg.Name, "runs resume @last", "", "runs resume 7f3a --answer write=yes", "", "runs resume 7f3a -o jsonl", ""),
	}
	r.add(cmd.Flags())
	r.addDetach(cmd)
	a.addGuest(cmd)
	cmd.Flags().StringVar(&r.input, "input", "", "jsonl: a program drives the run, with -o jsonl, by lines on standard input")
	cmd.Flags().BoolVar(&again.Quarantined, "quarantined", false, "go on with a run whose processes died one after another")
	cmd.Flags().BoolVar(&again.AllowChange, "allow-graph-change", false, "go on with the workflow as it is today, if what the run does next is still there")
	noModel(cmd, a, "run keeps the model that it began with")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ans, err := r.check(a)
		if err != nil {
			return err
		}
		if r.detach {
			return a.startDetached(cmd.Context(), &r)
		}
		_, info, err := findRun(cmd.Context(), a, args[0])
		if err != nil {
			return err
		}
		if info.Status == runlog.Partial {
			return redoRun(cmd.Context(), a, info, &r, ans, &again, func(string) error { return nil })
		}
		if err := checkAnswers(cmd.Context(), a, info, ans); err != nil {
			return err
		}
		return resumeRun(cmd.Context(), a, info, &r, ans, &again)
	}
	return cmd
}

// noModel accepts the flag --model only to report that the command does not take it.
func noModel(cmd *cobra.Command, a *app, keeps string) {
	cmd.Flags().StringVar(&a.set.model, "model", "", "")
	cmd.Flags().Lookup("model").Hidden = true
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("model") {
			return usage("--model: a " + keeps + "; leave the flag out, or start a new run with `" + a.cfg.Name + " run`")
		}
		return nil
	}
}

func resumeRun(ctx context.Context, a *app, info runlog.Info, r *running, ans tui.Answers, again *superstep.ResumeOptions) error {
	name := info.Workflow
	if info.Status.Ended() {
		name = "" // nothing will run
	} else if err := vouchFor(ctx, a, info); err != nil {
		return err
	}
	run, err := a.host().Transcript(ctx, &info)
	if err != nil {
		return err
	}
	if err := useModelOf(ctx, a, info.ID, run); err != nil {
		return err
	}
	engine, err := a.engine(ctx, name, r.engine())
	if err != nil {
		return err
	}
	if name != "" && !a.programs() && !a.set.Quiet {
		if changed := changedSince(ctx, a, &info); changed != "" {
			a.err.line(changed)
		}
	}
	if name != "" {
		if err := checkAskable(ctx, engine, info, ans); err != nil {
			return err
		}
	}
	return executeRun(ctx, a, &job{
		engine: engine, flags: r, answers: ans, after: info.Head,
		begin: func(ctx context.Context, answer superstep.Answering, observe func(runlog.Record, error)) (*superstep.Run, error) {
			o := *again
			o.Answer, o.Observe, o.Budget = answer, observe, r.budget()
			return engine.Resume(ctx, info.ID, &o)
		},
	})
}

func runsAnswer(a *app) *cobra.Command {
	var r running
	cmd := &cobra.Command{
		Use: "answer ID [VALUE | PATH=value...]", Short: "Answer the open questions of a run",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, s string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return a.ids(cmd, args, s)
			}
			return answerWords(a, cmd, args[0]), cobra.ShellCompDirectiveNoFileComp
		},
		Long: `Answer the open questions of a run

If one question is open, its answer is enough. Without any, the questions are asked on the terminal.
PATH is the task that asks, or the node if one task of it does; gather/tests and gather[tests] are the same.
If a task asks several questions, name one as PATH:KEY, or give an answer to each in the order in which
` + "`runs show`" + ` lists them. Whether an agent may do something is answered with once, run (this and its like in this
run), always (and in later runs of the project), deny, or "deny: why", which the agent is told; y and n are once and
deny, and at a gate approve and reject. An answer that does not fit is refused before anything runs.

The run is resumed then, unless a person paused it, its budget is used up, it failed, or other questions are open.`,
		Example: examples(a.cfg.Name, "runs answer @last", "asks on the terminal", "runs answer @last once", "the only question", "runs answer @last work=once", "",
			`runs answer @last "work=deny: use the API instead"`, "", "runs answer @last work:turn-0/call-1=deny", "one of several",
			"runs answer @last work=deny work=once", "all of two, in order", `runs answer 7f3a "gather/tests=run them"`, "a task of a fan-out"),
		Args: nargs(1, math.MaxInt, "runs answer: name the run: ID, and the answer: VALUE or PATH=value"),
	}
	r.add(cmd.Flags())
	noModel(cmd, a, "run keeps the model that it began with")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ans, err := r.check(a)
		if err := cmp.Or(err, a.byUser()); err != nil {
			return err
		}
		e, info, err := findRun(cmd.Context(), a, args[0])
		if err != nil {
			return err
		}
		read, err := a.host().Transcript(cmd.Context(), &info)
		if err != nil {
			return err
		}
		open := tui.Questions(read.Open())
		given, err := a.tty.AnswersTo(&info, open, "runs answer:", args[1:])
		if err != nil {
			return err
		}
		ans = append(ans, given...)
		if err := ans.Check(&info, open, true); err != nil {
			return err
		}
		if len(ans) == 0 { // they are asked while it runs
			if info.Status == runlog.Paused && (read.By != "" || read.Short != nil) {
				return usage(fmt.Sprintf("run %s is paused and stays so: give the answer, or resume it", info.ID), a.hint("runs", "resume", info.ID))
			}
			return resumeRun(cmd.Context(), a, info, &r, ans, &superstep.ResumeOptions{})
		}
		if err := vouchFor(cmd.Context(), a, info); err != nil {
			return err
		}
		var g going
		err = ans.Each(open, func(path string, answer *runlog.Answer) error {
			return g.answer(cmd.Context(), e, info.ID, path, answer)
		})
		return g.on(cmd.Context(), a, &info, err, &r, ans)
	}
	return cmd
}

// A going says whether a run is to be resumed after answers, or why not.
type going struct {
	goes  bool
	rests string
}

func (g *going) answer(ctx context.Context, e *superstep.Engine, id, path string, answer *runlog.Answer) (err error) {
	g.rests, err = host.Answer(ctx, e, id, path, answer, func(context.Context) error { g.goes = true; return nil })
	return err
}

// on resumes a run where that is due, or tells what becomes of it.
func (g *going) on(ctx context.Context, a *app, was *runlog.Info, err error, r *running, ans tui.Answers) error {
	if err != nil {
		return err
	}
	id := was.ID
	e, info, err := findRun(ctx, a, id)
	info.Head = was.Head // the answers are shown, too
	switch {
	case err != nil:
		return err
	case g.goes:
		return answerRecorded(a, id, resumeRun(ctx, a, info, r, ans, &superstep.ResumeOptions{}))
	case g.rests == "":
		return answerRecorded(a, id, &runlog.BusyError{ID: id, Owner: cmp.Or(info.Owner, "another process")})
	}
	if !a.programs() && !a.set.Quiet {
		a.err.line(fmt.Sprintf("the answer is recorded; run %s stays as it is: %s", id, g.rests))
	}
	if info.Status == runlog.Queued {
		return nil
	}
	return watchRun(ctx, a, e, info, info.Head, false)
}

func runsPause(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "pause ID", Short: "Pause a run, in any process", Args: oneRun, ValidArgsFunction: a.ids,
		Long: `Pause a run, in any process

Nothing new starts, and the command waits until what is running has ended. The run stays paused, also for
workers, until it is resumed.`,
		Example: examples(a.cfg.Name, "runs pause @last", ""),
		RunE: a.onRun(func(ctx context.Context, e *superstep.Engine, info runlog.Info, _ []string) error {
			if err := e.Pause(ctx, info.ID, "command line"); err != nil {
				return err
			}
			return a.tell(map[string]any{"run": info.ID, "status": runlog.Paused},
				fmt.Sprintf("run %s is paused; resume it: %s", info.ID, a.hint("runs", "resume", info.ID)))
		}),
	}
}

func runsCancel(a *app) *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: "cancel ID", SuggestFor: []string{"stop", "kill"}, Short: "Cancel a run or one of its sub-agents, in any process", Args: oneRun,
		ValidArgsFunction: a.ids,
		Example:           examples(a.cfg.Name, "runs cancel @last", "", "runs cancel @last --agent 'work/task[1.1]/explorer'", ""),
	}
	cmd.Flags().StringVar(&agent, "agent", "", "cancel this sub-agent only; the run goes on without it")
	cmd.RunE = a.onRun(func(ctx context.Context, e *superstep.Engine, info runlog.Info, _ []string) error {
		if !cmd.Flags().Changed("agent") {
			return cancelRun(ctx, a, e, info.ID, nil)
		}
		return cancelRun(ctx, a, e, info.ID, &agent)
	})
	a.completeRun(cmd, "agent", func(ctx context.Context, e *superstep.Engine, info runlog.Info) (out []string, err error) {
		members, err := e.Agents(ctx, info.ID)
		for _, m := range members {
			if m.State == team.Running {
				out = append(out, word(m.ID, m.Agent))
			}
		}
		return out, err
	})
	return cmd
}

// cancelRun cancels a run, or one of its sub-agents, and waits a little for its end.
func cancelRun(ctx context.Context, a *app, e *superstep.Engine, id string, agent *string) error {
	out := map[string]any{"run": id}
	what, field, later := "run "+id, "status", "; it will when its tasks let it"
	stop := func() error { return e.Cancel(ctx, id) }
	look := func() (string, error) {
		now, err := e.Find(ctx, id)
		return string(now.Status), err
	}
	if agent != nil {
		out["agent"] = *agent
		what, field, later = "agent "+*agent, "state", ""
		stop = func() error { return e.CancelAgent(ctx, id, *agent) }
		look = func() (string, error) {
			members, err := e.Agents(ctx, id)
			if i := slices.IndexFunc(members, func(m team.Member) bool { return m.ID == *agent }); i >= 0 {
				return members[i].State, err
			}
			return string(runlog.Running), err
		}
	}
	err := stop()
	state := string(runlog.Running)
	for range 60 {
		if err != nil {
			return err
		}
		state, err = look()
		if err == nil && agent == nil && state == string(runlog.Interrupted) { // its process has died, and nobody else cancels it
			if err = stop(); errors.As(err, new(*runlog.EndedError)) {
				err = nil
			}
		} else if state != string(runlog.Running) || ctx.Err() != nil {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	if err != nil {
		return err
	}
	text := what + " is " + state
	if state == string(runlog.Running) {
		text = what + " is asked to stop and has not yet" + later
	}
	out[field] = state
	return a.tell(out, text)
}
