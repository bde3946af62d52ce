package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
)

func runsShow(a *app) *cobra.Command {
	var at string
	var state bool
	cmd := &cobra.Command{
		Use: "show [ID]", Short: "Show a run's steps, output and open questions", Args: oneRunOrLast, ValidArgsFunction: a.ids,
		Long: "Show a run's steps, output and open questions, as they are or, with --at, as they were right after a record of its log.\n" +
			"The terminal shows the same with h. " + recordHelp + ".",
		Example: examples(a.cfg.Name, "runs show @last", "", "runs show 7f3a -v", "with tools and what was said", "runs show 7f3a -o json", "",
			"runs show 7f3a --at 412", "as it was after record 412", "runs show 7f3a --at @2 --state", "its state after the second superstep"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case state:
				return showState(cmd.Context(), a, named(args), at)
			case cmd.Flags().Changed("at"):
				return showAt(cmd.Context(), a, named(args), at)
			}
			_, info, err := findRun(cmd.Context(), a, named(args))
			if err != nil {
				return err
			}
			run, err := a.host().Transcript(cmd.Context(), &info)
			if err != nil {
				return err
			}
			im, err := a.host().OriginOf(cmd.Context(), info.ID)
			if err != nil {
				return err
			}
			items, _, err := a.host().RunItems(cmd.Context(), []runlog.Info{info})
			if err != nil {
				return err
			}
			now := time.Now()
			if a.programs() {
				out := showJSON(info, run, now, im)
				out.Status = items[0].Status // as it is listed
				if items[0].Waits == summary.Worker {
					out.Waits, out.Until, out.Reason, out.Next = items[0].Waits, items[0].Until, items[0].Reason, items[0].Next
				}
				out.Folder = upToDate(cmd.Context(), a, &info)
				return a.out.value(out)
			}
			showRun(a, info, run, now, im, upToDate(cmd.Context(), a, &info), &items[0])
			return nil
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "show the run as it was at a `point`: a record, @SUPERSTEP or @STEP")
	cmd.Flags().BoolVar(&state, "state", false, "show the state of its graph instead, as JSON")
	a.pointWords(cmd, "at", "@")
	return cmd
}

// recordHelp describes how to name a record of a run.
const recordHelp = "A point is the number of a record, @N after N supersteps, or @STEP right before a step or task first ran.\n@TASK/N and @TASK/STEP are the same of the graph inside of a task"

// pointWord returns a point as superstep.Engine.At takes it.
func pointWord(at string) string {
	if word, ok := strings.CutPrefix(at, "@"); ok {
		return word
	}
	if n, err := strconv.Atoi(at); err == nil {
		return fmt.Sprintf("seq:%d", n)
	}
	return at
}

// recordAt returns the number of the record that a user names.
func recordAt(ctx context.Context, a *app, info *runlog.Info, at string) (uint64, error) {
	point := pointWord(at)
	number, isRecord := strings.CutPrefix(point, "seq:")
	if !isRecord {
		e, err := a.engine(ctx, "", nil)
		if err != nil {
			return 0, err
		}
		m, err := pointOf(ctx, a, e, info.ID, point)
		return m.Seq, err
	}
	seq, err := strconv.ParseUint(number, 10, 63)
	switch {
	case err != nil:
		return 0, usage(fmt.Sprintf("--at: %q is no record. %s", at, recordHelp))
	case seq < 1 || seq > info.Head:
		return 0, usage(fmt.Sprintf("run %s has no record %d; it has 1 to %d", info.ID, seq, info.Head), "see the supersteps: "+a.hint("runs", "history", info.ID))
	}
	return seq, nil
}

// showAt prints a run as it was at a point of its log.
func showAt(ctx context.Context, a *app, ref, at string) error {
	_, info, err := findRun(ctx, a, ref)
	if err != nil {
		return err
	}
	seq, err := recordAt(ctx, a, &info, at)
	if err != nil {
		return err
	}
	run := &transcript.Run{}
	var last runlog.Record
	for rec, err := range runlog.Records(ctx, a.store, info.ID, 0) {
		if err != nil {
			return err
		}
		if rec.Seq > seq {
			break
		}
		run.Apply(rec)
		last = rec
	}
	im, err := a.host().OriginOf(ctx, info.ID)
	if err != nil {
		return err
	}
	head := info.Head
	if seq == head {
		run.End(info.Status)
	}
	info.Status, info.Owner, info.Updated = run.Status, "", last.Time
	where := &pointJSON{seq, head, last.Time, tui.Moment(run, &last)}
	if a.programs() {
		out := showJSON(info, run, last.Time, im)
		out.At = where
		return a.out.value(out)
	}
	if !a.set.Quiet {
		a.err.line(fmt.Sprintf("run %s at record %d of %d, %s: %s", info.ID, seq, head, last.Time.Local().Format(time.DateTime), where.Step))
	}
	quiet := a.set.Quiet
	a.set.Quiet = true // what can be done next is something else than it was then
	showRun(a, info, run, last.Time, im, "", nil)
	if a.set.Quiet = quiet; !quiet {
		a.err.line("")
		for _, next := range [][2]string{{"State", a.hint("runs", "show", info.ID, "--at", fmt.Sprint(seq), "--state")},
			{"Fork ", a.hint("runs", "fork", info.ID, "--from", fmt.Sprintf("seq:%d", seq))}} {
			a.err.line("  " + next[0] + "   " + next[1])
		}
	}
	return nil
}

// pointJSON is a point of a run's log.
type pointJSON struct {
	Seq  uint64    `json:"seq"`
	Of   uint64    `json:"of"` // how many records there are
	Time time.Time `json:"time"`
	Step string    `json:"step"` // how far it had come, for people
}

type runJSON struct {
	host.RunItem
	At        *pointJSON              `json:"at,omitempty"`     // nil for what it is now
	Folder    string                  `json:"folder,omitempty"` // its files for people
	Inputs    json.RawMessage         `json:"inputs,omitempty"`
	Duration  int64                   `json:"duration_ms"`
	Waited    int64                   `json:"waited_ms,omitempty"` // of Duration: for a date, a rate limit or the next attempt alone
	Usage     transcript.Usage        `json:"usage"`
	Steps     []transcript.StepReport `json:"steps"`
	Questions []questionJSON          `json:"questions,omitempty"` // open ones
	Denied    []transcript.Denial     `json:"denied,omitempty"`    // calls that were turned down since nobody was asked
	Refused   []transcript.Denial     `json:"refused,omitempty"`   // calls that a rule or a person turned down
	Output    json.RawMessage         `json:"output,omitempty"`
	stepLists
	Error *errorJSON `json:"error,omitempty"`
}

func showJSON(info runlog.Info, r *transcript.Run, now time.Time, im *host.Origin) *runJSON {
	out := &runJSON{
		RunItem: host.NewRunItem(&info, r.Short, im),
		Inputs:  r.Inputs, Duration: r.Time.Elapsed(now).Milliseconds(), Waited: r.Waited(now).Milliseconds(), Usage: r.Used(),
		Steps: r.Report(now), Denied: r.Denied, Refused: r.Refused, Questions: questions(openQuestions(&info, r)), Output: r.Output, stepLists: stepsOf(r),
	}
	if r.Error != "" {
		out.Error = &errorJSON{Code: r.Code, Message: r.Error}
	}
	return out
}

// showRun prints a run for users. Listed is the run as it is listed now, or nil.
func showRun(a *app, info runlog.Info, r *transcript.Run, now time.Time, im *host.Origin, folder string, listed *host.RunItem) {
	p := a.tty.Out
	put := func(format string, args ...any) { fmt.Fprintf(a.out, format+"\n", args...) }
	state := info.Status
	if listed != nil {
		state = listed.Status // which tells whether it waits
	}
	put("%s  %s  %s", p.Bold("run "+info.ID), status(p, state), transcript.Line(info.Workflow))
	if r.Title != "" {
		put("  %s", r.Title)
	}
	waited := r.Waited(now)
	when := fmt.Sprintf("started %s, %s of execution", info.Created.Local().Format(time.DateTime), inwords.Duration(max(0, r.Time.Elapsed(now)-waited)))
	if waited >= time.Second {
		when += fmt.Sprintf(" and %s of waiting for a date or the next attempt", inwords.Duration(waited))
	}
	if info.Status == runlog.Queued && r.Time.Elapsed(now) == 0 {
		when = fmt.Sprintf("queued %s, not begun", info.Created.Local().Format(time.DateTime))
	}
	if info.Owner != "" {
		when += ", run by " + transcript.Line(info.Owner)
	}
	put("  %s", when)
	if listed != nil && listed.Waits == summary.Worker && listed.Reason != "" {
		put("  %s %s", p.Yellow("waits:"), listed.Reason)
	}
	if folder != "" {
		put("  files in %s", transcript.Line(a.shownPath(folder)))
	}
	if used := r.Used(); used.Tokens > 0 || used.Agents > 0 {
		put("  %s tokens (%s in, %s out), %s", inwords.Count(used.Tokens), inwords.Count(r.Usage.In), inwords.Count(r.Usage.Out), inwords.Plural(used.Agents, "agent")+costOf(used.Cost, min(used.Agents, int(r.Spent.Tokens))))
	}
	if im != nil {
		put("  %s %s, works in %s", p.Yellow("imported"), im.Time.Local().Format(time.DateTime), transcript.Line(im.Dir))
		if im.Records > 0 {
			put("  its first %s come from the file: what they say has happened, the file claims", inwords.Plural(int(im.Records), "record"))
		}
		if !im.Trusted {
			put("  %s: before it continues, see what it would execute: %s", p.Yellow("not trusted"), a.hint("runs", "trust", info.ID))
		}
	}
	for _, s := range r.Steps {
		for _, t := range s.Tasks {
			showTask(a, put, p, t, now)
		}
	}
	for _, d := range r.Refused {
		put("\n%s %s", p.Yellow("denied by "+refuser(&d)+":"), d.String())
		if d.Reason != "" {
			put("  %s", transcript.Line(d.Reason))
		}
	}
	for _, d := range r.Denied {
		put("\n%s %s", p.Yellow("denied, since nobody was asked:"), d.String())
		if d.Reason != "" {
			put("  %s", transcript.Line(d.Reason))
		}
		if rules := d.Allowing(); len(rules) > 0 {
			put("  allowed by%s", allowFlags(rules))
		}
	}
	open := openQuestions(&info, r)
	if r.AwaitsMessage() {
		open = nil
		put("\n%s", p.Dim("waits for your next message"))
	}
	for _, q := range open {
		put("\n%s", strings.Join(q.Lines(p), "\n"))
	}
	if r.Reason != "" {
		put("\n%s %s", p.Yellow("paused:"), r.Reason)
	}
	if r.Error != "" {
		put("\n%s %s", p.Red("error:"), r.Error)
	}
	if text := a.tty.Result(r.Output); text != "" {
		put("\n%s", text)
	}
	if !a.set.Quiet {
		nextShown(a, info, r)
		if listed != nil && listed.Next != "" {
			a.err.line("  " + pad("Worker") + " " + a.hint(listed.Next))
		}
	}
}

// costOf returns what so many agents cost, to follow other facts.
func costOf(c *transcript.Cost, agents int) string {
	switch {
	case agents == 0:
		return ""
	case c == nil:
		return ", cost –"
	}
	return ", " + c.String()
}

// openQuestions returns the questions that can still be answered.
func openQuestions(info *runlog.Info, r *transcript.Run) []tui.Question {
	if info.Status == runlog.Cancelled {
		return nil
	}
	return tui.Questions(r.Open())
}

// refuser names the user or rule that denied a call.
func refuser(d *transcript.Denial) string {
	switch d.By {
	case "":
		return "a rule"
	case "person":
		return "a person"
	}
	return d.By
}

func showTask(a *app, put func(string, ...any), p tui.Palette, t *transcript.Task, now time.Time) {
	var facts []string
	if t.Agent != "" && t.Agent != t.Node {
		facts = append(facts, t.Agent)
	}
	if t.Tools > 0 {
		facts = append(facts, inwords.Plural(t.Tools, "tool"))
	}
	if t.Attempt > 1 {
		facts = append(facts, fmt.Sprintf("attempt %d", t.Attempt))
	}
	if t.Run != "" {
		facts = append(facts, "run "+t.Run)
	}
	facts = append(facts, inwords.Brief(t.Time.Elapsed(now)))
	word := string(t.State)
	switch t.State {
	case transcript.Done:
		word = p.Green(word)
	case transcript.Failed:
		word = p.Red(word)
	default:
		word = p.Yellow(word)
	}
	if len(t.Bad) > 0 {
		facts = append(facts, p.Yellow("ran on error input: "+strings.Join(t.Bad, ", ")))
	}
	put("  %d  %s%s  %s  %s", t.Step+1, word, strings.Repeat(" ", max(0, 7-len(t.State))), t.Label(), strings.Join(facts, " · "))
	if t.Why != "" {
		put("       %s", transcript.Line(t.Why))
	} else if t.Error != "" {
		put("       %s", transcript.Line(t.Error))
	}
	if !a.set.Verbose {
		return
	}
	for _, x := range t.Agents {
		line := fmt.Sprintf("agent %s", x.Name)
		if x.Model != "" {
			line += " " + x.Model
		}
		if x.Effort != "" {
			line += " effort=" + x.Effort
		}
		line += fmt.Sprintf(": %s, %s tokens%s", inwords.Plural(x.Turns, "turn"), inwords.Count(x.Usage.In+x.Usage.Out), costOf(x.Cost(), int(min(1, x.Spent.Tokens))))
		if x.First >= 100*time.Millisecond { // less is shown as nothing
			line += ", first token " + inwords.Brief(x.First)
		}
		if title := x.Title(); title != "" {
			line += " · " + title
		}
		put("       %s", line)
	}
	for _, part := range t.Parts {
		if part.Cut {
			part.Text = strings.TrimSpace(part.Text) + " … (cut off)"
		}
		switch part.Kind {
		case transcript.ToolUse:
			put("       %s %s %s (%s, %s)", part.Tool.Kind, part.Tool.Name, part.Tool.Arg, part.Tool.State, inwords.Brief(part.Tool.Time.Elapsed(now)))
		case transcript.Reasoning:
			put("       thought: %s", indent(part.Text))
		default:
			put("       %s%s", speaker(a, t), indent(part.Text))
		}
	}
}

// speaker returns the name that a text of a task begins with. It is for screen readers: without --plain it returns "".
func speaker(a *app, t *transcript.Task) string {
	if !a.tty.Plain {
		return ""
	}
	return "Agent " + t.Label() + ": "
}

func indent(s string) string {
	return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n       ")
}

// nextShown prints the commands that make sense after showing a run.
func nextShown(a *app, info runlog.Info, r *transcript.Run) {
	e := &ending{run: r, id: info.ID, open: tui.Questions(r.Open()), status: info.Status, output: r.Output, shown: true}
	if e.awaits = info.Status == runlog.Paused && r.AwaitsMessage(); e.awaits {
		e.open = nil
	}
	if info.Status == runlog.Failed {
		e.exit = exitOf(r.Code)
	}
	if info.Status == runlog.Running {
		e.open = nil
		a.err.line("\n  Watch   " + a.hint("runs", "watch", info.ID))
		return
	}
	if info.Status == runlog.Cancelled || info.Status.Ended() && len(r.Output) == 0 {
		return
	}
	a.err.line("")
	nextSteps(a, e)
}
