package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent/team"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/seal"
)

// runsCommands are the commands that list, show, continue and end runs.
type runsCommands struct{ *app }

func (a *app) runsCommand() *cobra.Command {
	n := a.cfg.Name
	runs := &cobra.Command{
		Use: "runs", Short: "Look at runs, resume, answer, cancel, fork, compare, replay and remove them",
		Example: examples(n, "runs list", "", "runs show @last", "", "runs resume 7f3a", "", `runs answer @last write=yes`, ""),
	}
	r, past, room := runsCommands{a}, historyCommands{a}, storageCommands{a}
	runs.AddCommand(r.listCommand(), r.showCommand(), r.watchCommand(), r.resumeCommand(), r.answerCommand(), r.cancelCommand(), r.rmCommand(),
		r.resolveCommand(), past.historyCommand(), a.forkCommand(), past.diffCommand(), past.replayCommand(), room.duCommand(), room.gcCommand(),
		room.exportCommand(), room.importCommand(), a.trustRunCommand(), distilCommand{a}.command())
	return a.lists(runs)
}

// ids completes the IDs of runs.
func (a *app) ids(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if err := a.configure(cmd.Flags()); err != nil || len(args) > 0 && cmd.Name() != "rm" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	infos, err := a.list(cmd.Context(), &runlog.Filter{Limit: 50})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	out := []string{"@last\tthe newest run"}
	for _, i := range infos {
		out = append(out, i.ID+"\t"+transcript.Line(string(i.Status)+" "+i.Workflow+" "+i.Title))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) list(ctx context.Context, f *runlog.Filter) ([]runlog.Info, error) {
	e, err := a.looking(ctx)
	if err != nil {
		return nil, err
	}
	return e.Runs(ctx, f)
}

// oneRun is for commands about one run.
func oneRun(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(fmt.Sprintf("%s: name one run: its ID, the start of it, @last, or @-2 for the one before",
			strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")))
	}
	return nil
}

// nargs is for commands with so many arguments.
func nargs(least, most int, message string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usage(message)
		}
		return nil
	}
}

// oneRunOrLast is for commands that look at one run, the newest one if none is named.
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

// find gives the run that is meant. It never shows one as running that nobody runs.
func (a *app) find(ctx context.Context, ref string) (*superstep.Engine, runlog.Info, error) {
	e, err := a.looking(ctx)
	if err != nil {
		return nil, runlog.Info{}, err
	}
	info, err := e.Find(ctx, ref)
	switch {
	case errors.As(err, new(*runlog.NotFoundError)):
		err = &Error{Exit: ExitUsage, Code: "unknown_run", Err: err, Message: fmt.Sprintf("no run %q in %s; `%s` shows the runs there are", ref,
			a.storeName(), a.hint("runs", "list"))}
	case err != nil && !errors.As(err, new(*superstep.AmbiguousError)) && strings.HasPrefix(ref, "@"):
		err = usage(err.Error())
	}
	return e, info, err
}

// infoJSON is a run in a listing.
type infoJSON struct {
	ID       string        `json:"id"`
	Workflow string        `json:"workflow"`
	Title    string        `json:"title,omitempty"`
	Status   runlog.Status `json:"status"`
	Created  time.Time     `json:"created"`
	Updated  time.Time     `json:"updated"`
	Owner    string        `json:"owner,omitempty"`
	Reason   string        `json:"reason,omitempty"` // why it is paused: "budget", "" for questions
	Parent   string        `json:"parent,omitempty"` // of a fork
	Imported *host.Origin  `json:"imported,omitempty"`
}

func infoOf(i *runlog.Info, why string, im *host.Origin) infoJSON {
	return infoJSON{i.ID, i.Workflow, i.Title, i.Status, i.Created, i.Updated, i.Owner, why, i.Parent, im}
}

// waiting is how a run is listed that executes and does nothing but wait for answers.
const waiting runlog.Status = "waiting"

// tail is how many of a run's last records a listing reads.
const tail = 256

// waits reports whether a run does nothing but wait for answers, as far as the end of its log shows.
func (a runsCommands) waits(ctx context.Context, info *runlog.Info) (bool, error) {
	run := &transcript.Run{}
	for r, err := range runlog.Records(ctx, a.store, info.ID, max(info.Head, tail)-tail+1) {
		if err != nil {
			return false, err
		}
		run.Apply(r)
	}
	return run.Waits(), nil
}

// damaged is how a run is listed whose log cannot be read from its beginning.
const damaged runlog.Status = "damaged"

// reason says why a run is paused, from its last record.
func (a runsCommands) reason(ctx context.Context, info *runlog.Info) (string, error) {
	if info.Status != runlog.Paused {
		return "", nil
	}
	recs, err := a.store.Read(ctx, info.ID, info.Head, 1)
	if err != nil || len(recs) == 0 || recs[0].Kind != runlog.KindRunPaused {
		return "", err
	}
	var d runlog.RunPaused
	if err := json.Unmarshal(recs[0].Data, &d); err != nil {
		return "", fmt.Errorf("run %s: its last record: %w", info.ID, err)
	}
	return reasonOf(d.Short), nil
}

func reasonOf(short *runlog.BudgetError) string {
	if short == nil {
		return ""
	}
	return short.FailureCode()
}

func (a runsCommands) listCommand() *cobra.Command {
	var statuses []string
	var limit int
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, SuggestFor: []string{"ps", "status"}, Short: "List runs, the newest first", Args: a.none,
		Example: examples(a.cfg.Name, "runs list", "", "runs list --status failed,paused --limit 5", "", "runs list -o json", ""),
	}
	cmd.Flags().StringSliceVar(&statuses, "status", nil, "only these: "+strings.Join(statusNames(), ", "))
	cmd.Flags().IntVar(&limit, "limit", 20, "at most this many, 0 for all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f := &runlog.Filter{}
		if limit > 0 {
			f.Limit = limit + 1 // to know whether there are more
		}
		for _, s := range statuses {
			if err := oneOf("--status", s, statusNames()...); err != nil {
				return err
			}
			f.Status = append(f.Status, runlog.Status(s))
		}
		if limit < 0 {
			return usage(fmt.Sprintf("--limit: want 0 or more, got %d", limit))
		}
		infos, err := a.list(cmd.Context(), f)
		if err != nil {
			return err
		}
		more := limit > 0 && len(infos) > limit
		if more {
			infos = infos[:limit]
		}
		if len(infos) == 0 && len(f.Status) > 0 && !a.programs() {
			a.err.line(fmt.Sprintf("no run in %s is %s; `%s` shows all", a.storeName(), strings.Join(statuses, " or "), a.hint("runs", "list")))
			return nil
		}
		if err := a.printList(cmd.Context(), infos); err != nil || !more || a.programs() {
			return err
		}
		a.err.line(fmt.Sprintf("older runs are not shown; `%s --limit 0` shows all", a.hint("runs", "list")))
		return nil
	}
	return cmd
}

// statusNames are the statuses of runs as listings show them.
func statusNames() []string {
	var out []string
	for _, s := range []runlog.Status{
		runlog.Running, runlog.Paused, runlog.WaitingStorage, runlog.Completed, runlog.Partial, runlog.Failed, runlog.Cancelled, runlog.Interrupted,
		runlog.Quarantined,
	} {
		out = append(out, string(s))
	}
	return out
}

func (a runsCommands) printList(ctx context.Context, infos []runlog.Info) error {
	list := make([]infoJSON, 0, len(infos))
	for _, i := range infos {
		if i.Status == runlog.Running {
			if waits, err := a.waits(ctx, &i); err == nil && waits { // what cannot be read runs, as far as is known
				i.Status = waiting
			}
		}
		why, err := a.reason(ctx, &i)
		if err != nil {
			a.warn(err.Error()) // the other runs are listed all the same
		}
		var im *host.Origin
		if key, ok := seal.Sealed(i); ok {
			i.Workflow, i.Title = "(encrypted)", "with key "+key
		} else if im, err = a.origin(ctx, i.ID); err != nil {
			a.warn(err.Error())
			if errors.As(err, new(*runlog.CorruptError)) {
				i.Status = damaged
			}
		}
		list = append(list, infoOf(&i, why, im))
	}
	if a.programs() {
		return rows(a.out, list)
	}
	if len(infos) == 0 {
		a.err.line("no runs in " + a.storeName() + a.absent() + "; start one with `" + a.cfg.Name + " run`")
		return nil
	}
	width := 0
	if fd, ok := isTerminal(a.opt.Stdout); ok {
		width, _, _ = term.GetSize(fd)
	}
	pal := palette(a.term.outColor)
	table := [][]string{{"ID", "STATUS     ", "STARTED ", "WORKFLOW", "TITLE"}}
	for n, i := range list {
		age := ago(time.Since(i.Created))
		if i.Created.Unix() <= 0 { // that is what is damaged
			age = "-"
		}
		table = append(table, []string{i.ID, pal.status(string(i.Status)) + why(&list[n]), age, transcript.Line(i.Workflow), transcript.Line(i.Title)})
	}
	a.out.table(table, 0, width)
	return nil
}

// why is what the listing adds to the status: the reason of a pause, and that a run was imported.
func why(r *infoJSON) string {
	var words []string
	if r.Status == waiting {
		words = append(words, "needs you")
	}
	if r.Reason != "" {
		words = append(words, r.Reason)
	}
	if r.Imported != nil {
		words = append(words, "imported")
	}
	if words == nil {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// status colours the word, which says the same without.
func (p palette) status(s string) string {
	switch runlog.Status(s) {
	case runlog.Completed:
		return p.green(s)
	case runlog.Failed, runlog.Quarantined, damaged:
		return p.red(s)
	case runlog.Paused, runlog.Partial, runlog.Interrupted, runlog.Running, runlog.WaitingStorage, waiting:
		return p.yellow(s)
	}
	return s
}

func (a runsCommands) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watch [ID]", Aliases: []string{"logs"}, Short: "Show the log of a run, and follow it while another process runs it", Args: oneRunOrLast,
		ValidArgsFunction: a.ids,
		Example:           examples(a.cfg.Name, "runs watch @last", "", "runs watch 7f3a -o jsonl", "its whole log, and what is to come"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, info, err := a.find(cmd.Context(), named(args))
			if err != nil {
				return err
			}
			return a.watch(cmd.Context(), e, info)
		},
	}
}

// watch follows a run until nobody runs it. Its exit code is the run's.
func (a runsCommands) watch(ctx context.Context, e *superstep.Engine, info runlog.Info) error {
	ctx, done := a.stoppable(ctx, func() {})
	defer done()
	s := a.session(0, false)
	s.name(info.ID)
	var broke error
	for rec, err := range e.Follow(ctx, info.ID, 0) {
		if err != nil {
			broke = err
			break
		}
		s.observe(rec, nil)
	}
	s.close()
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
	return a.finish(s, a.ending(ctx, s, logged(&s.run, &now), false))
}

// logged is the outcome of a run that somebody else ran, as its log has it.
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

func (a runsCommands) resumeCommand() *cobra.Command {
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
	cmd.Flags().BoolVar(&again.Quarantined, "quarantined", false, "go on with a run whose processes died one after another")
	cmd.Flags().BoolVar(&again.AllowChange, "allow-graph-change", false, "go on with the workflow as it is today, if what the run does next is still there")
	acts(cmd, "quarantined", "allow-graph-change")
	noModel(cmd, a.app, "run keeps the model that it began with")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ans, err := r.check(a.app)
		if err != nil {
			return err
		}
		_, info, err := a.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if info.Status == runlog.Partial {
			return a.redo(cmd.Context(), info, &r, ans, &again)
		}
		if err := answering(a).checkAnswers(cmd.Context(), info, ans, false); err != nil {
			return err
		}
		return a.resume(cmd.Context(), info, &r, ans, &again)
	}
	return cmd
}

// noModel takes the flag --model, only to say that there is none.
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

func (a runsCommands) resume(ctx context.Context, info runlog.Info, r *running, ans answers, again *superstep.ResumeOptions) error {
	name := info.Workflow
	if info.Status.Ended() {
		name = "" // nothing will run
	} else if err := a.vouch(ctx, info); err != nil {
		return err
	}
	run, err := a.read(ctx, info)
	if err != nil {
		return err
	}
	a.began(run)
	engine, err := a.engine(ctx, name, r.engine())
	if err != nil {
		return err
	}
	if name != "" && !a.programs() && !a.set.quiet {
		if changed := keptRuns(a).changedSince(ctx, &info); changed != "" {
			a.err.line(changed)
		}
	}
	if name != "" {
		if err := answering(a).askable(ctx, engine, info, ans); err != nil {
			return err
		}
	}
	return a.execute(ctx, &job{
		engine: engine, flags: r, answers: ans, after: info.Head,
		begin: func(ctx context.Context, answer superstep.Answering, observe func(runlog.Record, error)) (*superstep.Run, error) {
			o := *again
			o.Answer, o.Observe, o.Budget = answer, observe, r.budget()
			return engine.Resume(ctx, info.ID, &o)
		},
	})
}

func (a runsCommands) answerCommand() *cobra.Command {
	var r running
	cmd := &cobra.Command{
		Use: "answer ID [VALUE | PATH=value...]", Short: "Answer the questions of a paused run, and go on with it", ValidArgsFunction: a.ids,
		Long: `Answer the questions of a paused run, and go on with it

If one question is open, its answer is enough. Without any, the questions are asked on the terminal.
PATH is the task that asks, or the node if one task of it does; gather/tests and gather[tests] are the same.
If a task asks several questions, name one as PATH:KEY, or give an answer to each in the order in which
` + "`runs show`" + ` lists them. Whether an agent may do something is answered with once, run (this and its like in this
run), always (and in later runs of the project), deny, or "deny: why", which the agent is told; y and n are once and
deny, and at a gate approve and reject. An answer that does not fit is refused before anything runs.`,
		Example: examples(a.cfg.Name, "runs answer @last", "asks on the terminal", "runs answer @last once", "the only question", "runs answer @last work=once", "",
			`runs answer @last "work=deny: use the API instead"`, "", "runs answer @last work:turn-0/call-1=deny", "one of several",
			"runs answer @last work=deny work=once", "all of two, in order", `runs answer 7f3a "gather/tests=run them"`, "a task of a fan-out"),
		Args: nargs(1, math.MaxInt, "runs answer: name the run: ID, and the answer: VALUE or PATH=value"),
	}
	r.add(cmd.Flags())
	noModel(cmd, a.app, "run keeps the model that it began with")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ans, err := r.check(a.app)
		if err != nil {
			return err
		}
		_, info, err := a.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		given, err := answering(a).addressed(cmd.Context(), info, args[1:])
		if err != nil {
			return err
		}
		ans = append(ans, given...)
		if err := answering(a).checkAnswers(cmd.Context(), info, ans, true); err != nil {
			return err
		}
		return a.resume(cmd.Context(), info, &r, ans, &superstep.ResumeOptions{})
	}
	return cmd
}

func (a runsCommands) cancelCommand() *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: "cancel ID", SuggestFor: []string{"stop", "kill"}, Short: "Stop a run for good, or one of its sub-agents, whoever runs it", Args: oneRun,
		ValidArgsFunction: a.ids,
		Example:           examples(a.cfg.Name, "runs cancel @last", "", "runs cancel @last --agent 'work/task[1.1]/explorer'", ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, info, err := a.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("agent") {
				return a.cancel(cmd.Context(), e, info.ID, nil)
			}
			return a.cancel(cmd.Context(), e, info.ID, &agent)
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "cancel this sub-agent only; the run goes on without it")
	_ = cmd.RegisterFlagCompletionFunc("agent", a.agentIDs) // it fails if there is no such flag
	return cmd
}

// agentIDs completes the sub-agents of a run that can be cancelled.
func (a runsCommands) agentIDs(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if err := a.configure(cmd.Flags()); err != nil || len(args) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	e, info, err := a.find(cmd.Context(), args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	members, err := e.Agents(cmd.Context(), info.ID)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, m := range members {
		if m.State == team.Running {
			out = append(out, m.ID+"\t"+transcript.Line(m.Agent))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// cancel cancels a run, or one of its sub-agents, and waits a little for its end.
func (a runsCommands) cancel(ctx context.Context, e *superstep.Engine, id string, agent *string) error {
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
		if state, err = look(); state != string(runlog.Running) || ctx.Err() != nil {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	out[field] = state
	switch {
	case err != nil:
		return err
	case a.programs():
		return a.out.value(out)
	case state == string(runlog.Running):
		a.err.line(what + " is asked to stop and has not yet" + later)
	default:
		a.err.line(what + " is " + state)
	}
	return nil
}

func (a runsCommands) rmCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID...", SuggestFor: []string{"remove", "delete", "del"}, Short: "Remove runs and their logs", ValidArgsFunction: a.ids,
		Example: examples(a.cfg.Name, "runs rm 7f3a", "", "runs rm @last @-2", ""),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return oneRun(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			var ids []string // all are found before one is removed, since @last moves
			var engine *superstep.Engine
			for _, ref := range args {
				e, info, err := a.find(ctx, ref)
				if err != nil {
					return err
				}
				engine = e
				if !slices.Contains(ids, info.ID) {
					ids = append(ids, info.ID)
				}
			}
			for _, id := range ids {
				if err := engine.Delete(ctx, id); err != nil {
					return err
				}
				folders(a).sweep(id)
				if !a.programs() {
					a.err.line("removed run " + id)
				}
			}
			if a.programs() {
				return a.out.value(map[string]any{"removed": ids})
			}
			return nil
		},
	}
}
