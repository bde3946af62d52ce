package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/seal"
	"github.com/superstep-dev/superstep/transcript"
)

func (a *app) runsCommand() *cobra.Command {
	n := a.opt.Name
	runs := &cobra.Command{
		Use: "runs", Short: "Look at runs, resume, answer, cancel, fork, compare, replay and remove them",
		Example: examples(n, "runs list", "", "runs show @last", "", "runs resume 7f3a", "", `runs answer @last write=yes`, ""),
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("runs: which of list, show, watch, resume, answer, resolve, cancel, rm, history, fork, diff, replay, distil, du, gc, export, import?")
			}
			return a.unknownCommand(cmd, args[:1])
		},
	}
	runs.AddCommand(a.listCommand(), a.showCommand(), a.watchCommand(), a.resumeCommand(), a.answerCommand(), a.cancelCommand(), a.rmCommand(),
		a.resolveCommand(), a.historyCommand(), a.forkCommand(), a.diffCommand(), a.replayCommand(), a.duCommand(), a.gcCommand(), a.exportCommand(), a.importCommand(), a.distilCommand())
	return runs
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
	e, err := a.engine(ctx, "", nil)
	if err != nil {
		return nil, err
	}
	return e.Runs(ctx, f)
}

// one is for commands about one run.
func (a *app) one(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(fmt.Sprintf("%s: name one run: its ID, the start of it, @last, or @-2 for the one before", strings.TrimPrefix(cmd.CommandPath(), a.opt.Name+" ")))
	}
	return nil
}

// find gives the run that is meant. It never shows one as running that nobody runs.
func (a *app) find(ctx context.Context, ref string) (*superstep.Engine, runlog.Info, error) {
	e, err := a.engine(ctx, "", nil)
	if err != nil {
		return nil, runlog.Info{}, err
	}
	info, err := e.Find(ctx, ref)
	var missing *runlog.NotFoundError
	var ambiguous *superstep.AmbiguousError
	switch {
	case errors.As(err, &missing):
		err = &Error{Exit: ExitUsage, Code: "unknown_run", Err: err, Message: fmt.Sprintf("no run %q in %s; `%s` shows the runs there are", ref, a.storeName(), a.hint("runs", "list"))}
	case err != nil && !errors.As(err, &ambiguous) && strings.HasPrefix(ref, "@"):
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
}

func infoOf(i *runlog.Info, why string) infoJSON {
	return infoJSON{i.ID, i.Workflow, i.Title, i.Status, i.Created, i.Updated, i.Owner, why, i.Parent}
}

// reason says why a run is paused, from its last record.
func (a *app) reason(ctx context.Context, info *runlog.Info) (string, error) {
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

func (a *app) listCommand() *cobra.Command {
	var statuses []string
	var limit int
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List runs, the newest first", Args: a.none,
		Example: examples(a.opt.Name, "runs list", "", "runs list --status failed,paused --limit 5", "", "runs list -o json", ""),
	}
	cmd.Flags().StringSliceVar(&statuses, "status", nil, "only these: "+strings.Join(statusNames(), ", "))
	cmd.Flags().IntVar(&limit, "limit", 20, "at most this many, 0 for all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f := &runlog.Filter{Limit: limit}
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
		return a.printList(cmd.Context(), infos)
	}
	return cmd
}

// statusNames are the statuses of runs as listings show them.
func statusNames() []string {
	var out []string
	for _, s := range []runlog.Status{
		runlog.Running, runlog.Paused, runlog.WaitingStorage, runlog.Completed, runlog.Partial, runlog.Failed, runlog.Cancelled, runlog.Interrupted, runlog.Quarantined,
	} {
		out = append(out, string(s))
	}
	return out
}

func (a *app) printList(ctx context.Context, infos []runlog.Info) error {
	rows := make([]infoJSON, 0, len(infos))
	for n := range infos {
		if key, ok := seal.Sealed(infos[n]); ok {
			infos[n].Workflow, infos[n].Title = "(sealed)", "with key "+key
		}
	}
	for _, i := range infos {
		why, err := a.reason(ctx, &i)
		if err != nil {
			a.warn(err.Error()) // the other runs are listed all the same
		}
		rows = append(rows, infoOf(&i, why))
	}
	switch a.set.output {
	case "json":
		return a.out.json(rows, true)
	case "jsonl":
		for _, r := range rows {
			if err := a.out.json(r, false); err != nil {
				return err
			}
		}
		return nil
	}
	if len(infos) == 0 {
		a.err.line("no runs in " + a.storeName() + a.absent() + "; start one with `" + a.opt.Name + " run`")
		return nil
	}
	width := 0
	if fd, ok := isTerminal(a.opt.Stdout); ok {
		width, _, _ = term.GetSize(fd)
	}
	idWidth, statusWidth, flowWidth := 2, 11, 8
	for n, i := range infos {
		statusWidth = max(statusWidth, len(i.Status)+len(why(&rows[n])))
		idWidth, flowWidth = max(idWidth, len(i.ID)), max(flowWidth, ansi.StringWidth(transcript.Line(i.Workflow)))
	}
	pal := palette(a.term.outColor)
	put := func(id, status, why, age, flow, title string) {
		line := fmt.Sprintf("%-*s  %s%s%s  %-8s  %-*s  %s", idWidth, id, pal.status(status), why, strings.Repeat(" ", max(0, statusWidth-len(status)-len(why))), age, flowWidth, flow, title)
		line = strings.TrimRight(line, " ")
		if width > 0 {
			line = ansi.Truncate(line, width, "…")
		}
		_, _ = a.out.Write([]byte(line + "\n"))
	}
	put("ID", "STATUS", "", "STARTED", "WORKFLOW", "TITLE")
	for n, i := range infos {
		put(i.ID, string(i.Status), why(&rows[n]), ago(time.Since(i.Created)), transcript.Line(i.Workflow), transcript.Line(i.Title))
	}
	return nil
}

// why is the reason of a pause as the listing adds it to the status.
func why(r *infoJSON) string {
	if r.Reason == "" {
		return ""
	}
	return " (" + r.Reason + ")"
}

// status colours the word, which says the same without.
func (p palette) status(s string) string {
	switch runlog.Status(s) {
	case runlog.Completed:
		return p.green(s)
	case runlog.Failed, runlog.Quarantined:
		return p.red(s)
	case runlog.Paused, runlog.Partial, runlog.Interrupted, runlog.Running, runlog.WaitingStorage:
		return p.yellow(s)
	}
	return s
}

func (a *app) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watch ID", Short: "Follow a run that another process may be running", Args: a.one, ValidArgsFunction: a.ids,
		Example: examples(a.opt.Name, "runs watch @last", "", "runs watch 7f3a -o jsonl", "its whole log, and what is to come"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, info, err := a.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.watch(cmd.Context(), e, info)
		},
	}
}

// watch follows a run until nobody runs it. Its exit code is the run's.
func (a *app) watch(ctx context.Context, e *superstep.Engine, info runlog.Info) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s := a.session(0, false)
	a.out.broken = func() { stop(errPipe) }
	done := onSignal(func(why *signalError) { stop(why) })
	defer done()
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
	return a.finish(s, watched(s, now))
}

// watched is how a run ended that somebody else ran.
func watched(s *session, info runlog.Info) *ending {
	r := &s.run
	r.Interrupt()
	e := &ending{run: r, id: info.ID, status: info.Status, output: r.Output, duration: r.Time.Elapsed(s.now())}
	switch info.Status {
	case runlog.Partial:
		e.exit = ExitPartial
	case runlog.Paused:
		e.exit, e.open = ExitPaused, r.Open()
		e.lacks(r.Short)
	case runlog.Failed:
		e.exit = exitOf(r.Code)
		e.err = &Error{Exit: e.exit, Code: r.Code, Message: r.Error}
	case runlog.Cancelled:
		e.exit = ExitFailed
		e.err = &Error{Exit: e.exit, Code: "cancelled", Message: fmt.Sprintf("run %s was cancelled", info.ID)}
	case runlog.WaitingStorage:
		e.exit = ExitPaused
		e.err = &Error{Exit: e.exit, Code: "waiting_storage", Message: r.Reason}
	case runlog.Quarantined:
		e.exit = ExitFailed
		e.err = &Error{Exit: e.exit, Code: "quarantined", Message: (&runlog.QuarantinedError{ID: info.ID, Takeovers: info.Takeovers}).Error()}
	case runlog.Interrupted:
		e.exit = ExitFailed
		e.err = &Error{Exit: e.exit, Code: "interrupted", Message: fmt.Sprintf("run %s was interrupted; nobody runs it", info.ID)}
	}
	return e
}

func (a *app) resumeCommand() *cobra.Command {
	var r running
	var again superstep.ResumeOptions
	cmd := &cobra.Command{
		Use: "resume ID", Short: "Go on with a run that was interrupted, failed or paused", Args: a.one, ValidArgsFunction: a.ids,
		Example: examples(a.opt.Name, "runs resume @last", "", "runs resume 7f3a --answer write=yes", "", "runs resume 7f3a -o jsonl", ""),
	}
	r.add(cmd.Flags())
	cmd.Flags().BoolVar(&again.Quarantined, "quarantined", false, "go on with a run whose processes died one after another")
	cmd.Flags().BoolVar(&again.AllowChange, "allow-graph-change", false, "go on with the workflow as it is today, if what the run does next is still there")
	acts(cmd, "quarantined", "allow-graph-change")
	noModel(cmd, a)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("model") {
			return usage("--model: a run keeps the model that it began with; leave the flag out, or start a new run with `" + a.opt.Name + " run`")
		}
		ans, err := r.check(a)
		if err != nil {
			return err
		}
		_, info, err := a.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if err := a.checkAnswers(cmd.Context(), info, ans, false); err != nil {
			return err
		}
		return a.resume(cmd.Context(), info, &r, ans, &again)
	}
	return cmd
}

// noModel takes the flag --model, only to say that there is none.
func noModel(cmd *cobra.Command, a *app) {
	cmd.Flags().StringVar(&a.set.model, "model", "", "")
	cmd.Flags().Lookup("model").Hidden = true
}

func (a *app) resume(ctx context.Context, info runlog.Info, r *running, ans answers, again *superstep.ResumeOptions) error {
	name := info.Workflow
	if info.Status.Ended() {
		name = "" // nothing will run
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
	if changed := a.changedSince(ctx, &info); changed != "" && name != "" && !a.programs() && !a.set.quiet {
		a.err.line(changed)
	}
	if name != "" {
		if err := a.askable(ctx, engine, info, ans); err != nil {
			return err
		}
	}
	return a.execute(ctx, &job{
		engine: engine, flags: r, answers: ans, workflow: info.Workflow, after: info.Head,
		begin: func(ctx context.Context, answer superstep.Answering, observe func(runlog.Record, error)) (*superstep.Run, error) {
			o := *again
			o.Answer, o.Observe, o.Budget = answer, observe, r.budget()
			return engine.Resume(ctx, info.ID, &o)
		},
	})
}

func (a *app) answerCommand() *cobra.Command {
	var r running
	cmd := &cobra.Command{
		Use: "answer ID PATH=value...", Short: "Answer the questions of a paused run, and go on with it", ValidArgsFunction: a.ids,
		Long: `Answer the questions of a paused run, and go on with it

PATH is the task that asks, or the node if one task of it does. If a task asks several questions, name one as
PATH:KEY, or give an answer to each in the order in which ` + "`runs show`" + ` lists them. Whether an agent may do
something is answered with once, run (this and its like in this run), always (and in later ones), deny, or
"deny: why", which the agent is told. An answer that does not fit is refused before anything runs.`,
		Example: examples(a.opt.Name, "runs answer @last work=once", "", `runs answer @last "work=deny: use the API instead"`, "",
			"runs answer @last work:turn-0/call-1=deny", "one of several", "runs answer @last work=deny work=once", "all of two, in order",
			`runs answer 7f3a "gather[tests]=run them"`, "a task of a fan-out"),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage("runs answer: name the run and the answer: ID PATH=value")
			}
			return nil
		},
	}
	r.add(cmd.Flags())
	noModel(cmd, a)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("model") {
			return usage("--model: a run keeps the model that it began with; leave the flag out, or start a new run with `" + a.opt.Name + " run`")
		}
		ans, err := r.check(a)
		if err != nil {
			return err
		}
		for _, s := range args[1:] {
			g, err := parseAnswer("runs answer:", s)
			if err != nil {
				return err
			}
			ans = append(ans, g)
		}
		_, info, err := a.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if err := a.checkAnswers(cmd.Context(), info, ans, true); err != nil {
			return err
		}
		return a.resume(cmd.Context(), info, &r, ans, &superstep.ResumeOptions{})
	}
	return cmd
}

func (a *app) cancelCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID", Short: "Stop a run for good, whoever runs it", Args: a.one, ValidArgsFunction: a.ids,
		Example: examples(a.opt.Name, "runs cancel @last", ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			e, info, err := a.find(ctx, args[0])
			if err != nil {
				return err
			}
			if err := e.Cancel(ctx, info.ID); err != nil {
				return err
			}
			status := a.settle(ctx, e, info.ID)
			if a.programs() {
				return a.out.json(map[string]any{"run": info.ID, "status": status}, a.set.output == "json")
			}
			if status == runlog.Running {
				a.err.line(fmt.Sprintf("run %s is asked to stop and has not yet; it will when its tasks let it", info.ID))
				return nil
			}
			a.err.line(fmt.Sprintf("run %s is %s", info.ID, status))
			return nil
		},
	}
}

// settle waits a little for a run to stop.
func (a *app) settle(ctx context.Context, e *superstep.Engine, id string) runlog.Status {
	for range 60 {
		info, err := e.Find(ctx, id)
		if err != nil || info.Status != runlog.Running {
			return info.Status
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return info.Status
		}
	}
	return runlog.Running
}

func (a *app) rmCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID...", Short: "Remove runs and their logs", ValidArgsFunction: a.ids,
		Example: examples(a.opt.Name, "runs rm 7f3a", "", "runs rm @last @-2", ""),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.one(cmd, args)
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
				a.sweep(id)
				if !a.programs() {
					a.err.line("removed run " + id)
				}
			}
			if a.programs() {
				return a.out.json(map[string]any{"removed": ids}, a.set.output == "json")
			}
			return nil
		},
	}
}
