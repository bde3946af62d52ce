package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/schedule"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/transcript"
)

func scheduleCommand(a *app) *cobra.Command {
	n := a.cfg.Name
	c := &cobra.Command{
		Use: "schedule", Aliases: []string{"schedules"}, Short: "Start runs at fixed times",
		Long: `Start runs at fixed times

A schedule starts a run of a workflow at the times of a cron expression. Workers carry it out:
start one with "` + n + ` worker". Each time has one run, however many workers there are.`,
		Example: examples(n, `schedule add nightly "0 3 * * *" agent "Sum up what changed today"`, "", "schedule list", "",
			`schedule next "0 9 * * mon-fri" --zone Europe/Berlin`, "when would it run?", "schedule pause nightly", ""),
	}
	c.AddCommand(scheduleAdd(a), scheduleList(a), scheduleNext(a), schedulePause(a, true), schedulePause(a, false), scheduleRm(a))
	return listFirst(a, c)
}

func scheduleAdd(a *app) *cobra.Command {
	var s superstep.Schedule
	g := arguments.Given{Dir: a.cfg.Dir}
	var r running
	var anywhere bool
	cmd := &cobra.Command{
		Use: "add NAME CRON WORKFLOW [free text | key=value ...]", Short: "Add a schedule", Args: cobra.ArbitraryArgs,
		Long: `Add a schedule

CRON has five fields, in quotes: minute, hour, day of the month, month, weekday. Or it is @hourly,
@daily, @weekly, @monthly or @yearly. Adding the same schedule again changes nothing.

The schedule belongs to this folder: only workers that were started here carry it out, unless you
add it with --place or --anywhere.`,
		Example: examples(a.cfg.Name, `schedule add nightly "0 3 * * *" WORKFLOW "free text"`, "", `schedule add hourly @hourly WORKFLOW key=value --zone UTC`, "",
			`schedule add report "30 8 * * mon-fri" WORKFLOW --overlap cancel --max-cost 2`, ""),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) != 2 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.workflowNames(cmd, nil, typed)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Zone, "zone", "", "the time zone of CRON, such as Europe/Berlin (default: this machine's)")
	f.DurationVar(&s.Jitter, "jitter", 0, "delay each run by a part of this, which differs from schedule to schedule")
	f.StringVar(&s.Overlap, "overlap", superstep.OverlapSkip, "if the last run is unfinished: skip the time, queue the run behind it, or cancel it")
	f.StringVar(&s.CatchUp, "catch-up", "1", "how many missed times to catch up when a worker is back, or how far back, such as 24h")
	f.StringSliceVar(&s.Place, "place", nil, "labels that a worker must have, in place of this folder")
	f.BoolVar(&anywhere, "anywhere", false, "let any worker carry it out that has the workflow, whatever its folder")
	f.VarP((*arguments.List)(&g.Pairs), "input", "i", "an input: key=value (may be repeated)")
	f.StringVar(&g.File, "inputs", "", "read inputs from a JSON `file`, - for standard input")
	f.StringVar(&a.set.model, "model", "", "the model, for workflows that take one as an input; others use that of the worker")
	r.addLimits(f)
	_ = cmd.RegisterFlagCompletionFunc("overlap", cobra.FixedCompletions([]string{superstep.OverlapSkip, superstep.OverlapQueue, superstep.OverlapCancel},
		cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) < 3 {
			return usage(`schedule add: want a name, a cron expression in quotes and a workflow, such as: ` + a.hint("schedule", "add", "nightly", `"0 3 * * *"`, "WORKFLOW"))
		}
		if _, err := r.check(a); err != nil {
			return err
		}
		if a.host().IsFile(args[2]) {
			return usage(fmt.Sprintf("schedule add: %s is a file, and a worker finds workflows by name: move it to .superstep/workflows, and name the workflow", args[2]))
		}
		if !a.kept() {
			return usage("schedule add: this store keeps nothing, so no worker would find the schedule; choose another store")
		}
		s.ID, s.Cron, s.Budget, s.Zone = args[0], args[1], r.budget(), cmp.Or(s.Zone, localZone(a.cfg.Env))
		if g.Words, g.Flags = args[3:], f; !a.set.NoInput {
			g.Stdin = a.opt.Stdin
		}
		if f.Changed("model") {
			g.Model = a.set.model
		}
		if s.Folder = a.host().Dir(); len(s.Place) == 0 && !anywhere {
			s.Place = []string{a.host().FolderLabel()}
		} else {
			s.Folder = ""
		}
		return addSchedule(cmd.Context(), a, args[2], &s, &g)
	}
	return cmd
}

func addSchedule(ctx context.Context, a *app, name string, s *superstep.Schedule, g *arguments.Given) error {
	w, err := chooseWorkflow(a, name)
	if err != nil {
		return err
	}
	return explainLacking(a, w, a.allowing(ctx, func() error {
		inputs, err := g.Inputs(w)
		if err != nil {
			return a.inputsError(w, err)
		}
		if w, err = a.host().Ready(w.Name); err != nil {
			return err
		}
		e, err := a.engine(ctx, w.Name, nil)
		if err != nil {
			return err
		}
		s.Workflow, s.Inputs = w.Name, inputs
		added, err := e.AddSchedule(ctx, s)
		if err != nil {
			return &Error{Exit: ExitUsage, Code: "schedule", Message: err.Error(), Err: err}
		}
		if !a.programs() && !a.set.Quiet {
			a.tty.Notify("workers carry it out: " + a.hint("worker"))
		}
		return a.print(host.ScheduleItem{Schedule: *added, State: "active", Next: added.Upcoming(3)},
			fmt.Sprintf("schedule %s is added; its next runs: %s", added.ID, ticksText(added.Upcoming(3))))
	}))
}

// localZone returns the name of the time zone of this machine, or UTC if it has none.
func localZone(env func(string) string) string {
	name := strings.TrimPrefix(env("TZ"), ":")
	if name == "" {
		if link, err := os.Readlink("/etc/localtime"); err == nil {
			_, name, _ = strings.Cut(link, "zoneinfo/")
		}
	}
	if _, err := time.LoadLocation(name); err != nil || name == "Local" {
		name = ""
	}
	return cmp.Or(name, "UTC")
}

func ticksText(ticks []time.Time) string {
	var out []string
	for _, t := range ticks {
		out = append(out, t.Format("Mon 2 Jan 2006 15:04 MST"))
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}

func scheduleList(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the schedules with their next runs", Args: none,
		Example: examples(a.cfg.Name, "schedule list", "", "schedule list -o json", ""),
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := a.host().Schedules(cmd.Context())
		if err != nil {
			return err
		}
		if a.programs() {
			return rows(a.out, all)
		}
		for i := range all {
			a.out.line(scheduleText(a, &all[i]))
		}
		if len(all) == 0 && !a.set.Quiet {
			a.err.line("there are no schedules in " + storeName(a) + "; add one: " + a.hint("schedule", "add", "nightly", `"0 3 * * *"`, "WORKFLOW"))
		}
		return nil
	}
	return cmd
}

func scheduleText(a *app, s *host.ScheduleItem) string {
	lines := []string{fmt.Sprintf("%s  %s  %s  %s  (%s)", s.ID, s.State, transcript.Line(s.Workflow), transcript.Line(s.Cron), s.Zone)}
	if s.State == "overdue" {
		where := ""
		if s.Folder != "" {
			where = " in " + s.Folder
		}
		lines = append(lines, fmt.Sprintf("  no worker has carried it out since %s; start one%s: %s", s.Due.Local().Format(time.DateTime), where, a.hint("worker")))
	}
	if s.State != "paused" {
		lines = append(lines, "  next  "+ticksText(s.Next))
	}
	counts := inwords.Plural(s.Started, "run")
	if s.Missed > 0 {
		counts += fmt.Sprintf(", %d missed", s.Missed)
	}
	if s.Skipped > 0 {
		counts += fmt.Sprintf(", %d skipped (the last one: %s)", s.Skipped, transcript.Line(s.Why))
	}
	last := "none"
	if s.Last != "" {
		last = s.Last + " " + cmp.Or(string(s.LastStatus), "removed")
	}
	return strings.Join(append(lines, "  last  "+last+"; "+counts), "\n")
}

func scheduleNext(a *app) *cobra.Command {
	var n int
	var zone string
	cmd := &cobra.Command{
		Use: "next [NAME | CRON]", Short: "Show the next times of schedules or of a cron expression", Args: cobra.MaximumNArgs(1),
		Example:           examples(a.cfg.Name, "schedule next nightly -n 10", "", `schedule next "30 2 * * *" --zone America/New_York`, "without adding it"),
		ValidArgsFunction: completer(scheduleWords).words(a, false),
	}
	cmd.Flags().IntVarP(&n, "number", "n", 3, "how many of each")
	cmd.Flags().StringVar(&zone, "zone", "", "the time zone of CRON (default: this machine's)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if n <= 0 || n > 1000 {
			return usage(fmt.Sprintf("--number: want 1 to 1000, got %d", n))
		}
		times := map[string][]time.Time{}
		var order []string
		if len(args) == 1 && strings.ContainsAny(args[0], " @*") {
			c, err := schedule.Parse(args[0], cmp.Or(zone, localZone(a.cfg.Env)))
			if err != nil {
				return usage(err.Error())
			}
			order = args
			for at := c.Next(time.Now()); len(times[args[0]]) < n && !at.IsZero(); at = c.Next(at) {
				times[args[0]] = append(times[args[0]], at)
			}
		} else {
			all, err := a.host().Schedules(cmd.Context())
			if err != nil {
				return err
			}
			for i := range all {
				if s := &all[i]; len(args) == 0 || s.ID == args[0] {
					times[s.ID], order = s.Upcoming(n), append(order, s.ID)
				}
			}
			if len(args) > 0 && len(order) == 0 {
				return noSchedule(a, args[0], all)
			}
		}
		var text strings.Builder
		for _, id := range order {
			for _, t := range times[id] {
				fmt.Fprintf(&text, "%s  %s\n", id, t.Format("Mon 2006-01-02 15:04:05 MST (-07:00)"))
			}
		}
		return a.print(times, strings.TrimSuffix(text.String(), "\n"))
	}
	return cmd
}

func noSchedule(a *app, name string, all []host.ScheduleItem) error {
	var known []string
	for i := range all {
		known = append(known, all[i].ID)
	}
	return usage(fmt.Sprintf("there is no schedule %q%s", name, suggest.Hint(name, known)), "list them: "+a.hint("schedule", "list"))
}

func scheduleWords(a *app, cmd *cobra.Command) ([]string, error) {
	if err := a.configure(cmd.Flags()); err != nil {
		return nil, err
	}
	all, err := a.host().Schedules(cmd.Context())
	var out []string
	for i := range all {
		out = append(out, word(all[i].ID, all[i].State+", "+all[i].Cron+" "+all[i].Workflow))
	}
	return out, err
}

// scheduleChange returns a command that changes one schedule.
func scheduleChange(a *app, verb, short, done string, change func(context.Context, *superstep.Engine, string) error) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: short, ValidArgsFunction: completer(scheduleWords).words(a, false),
		Example: examples(a.cfg.Name, "schedule "+verb+" nightly", ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("schedule " + verb + ": name one schedule; list them: " + a.hint("schedule", "list"))
			}
			all, err := a.host().Schedules(cmd.Context())
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(all, func(s host.ScheduleItem) bool { return s.ID == args[0] }) {
				return noSchedule(a, args[0], all)
			}
			e, err := a.engine(cmd.Context(), "", nil)
			if err != nil {
				return err
			}
			if err := change(cmd.Context(), e, args[0]); err != nil {
				return err
			}
			return a.print(map[string]string{"schedule": args[0], "did": done}, fmt.Sprintf("schedule %s is %s", args[0], done))
		},
	}
}

func schedulePause(a *app, pause bool) *cobra.Command {
	change := func(ctx context.Context, e *superstep.Engine, id string) error {
		return e.PauseSchedule(ctx, id, pause)
	}
	if pause {
		return scheduleChange(a, "pause", "Pause a schedule", "paused", change)
	}
	return scheduleChange(a, "resume", "End the pause of a schedule; its missed times are not caught up", "resumed", change)
}

func scheduleRm(a *app) *cobra.Command {
	c := scheduleChange(a, "rm", "Remove a schedule; its runs stay", "removed", func(ctx context.Context, e *superstep.Engine, id string) error { return e.RemoveSchedule(ctx, id) })
	c.Aliases = []string{"remove", "delete"}
	return c
}
