package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// read folds the stored log of a run.
func (a *app) read(ctx context.Context, info runlog.Info) (*transcript.Run, error) {
	run := &transcript.Run{}
	for rec, err := range runlog.Records(ctx, a.store, info.ID, 0) {
		if err != nil {
			return run, err
		}
		run.Apply(rec)
	}
	run.End(info.Status)
	return run, nil
}

func (a runsCommands) showCommand() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use: "show [ID]", Short: "Show a run's steps, output and open questions", Args: oneRunOrLast, ValidArgsFunction: a.ids,
		Example: examples(a.cfg.Name, "runs show @last", "", "runs show 7f3a -v", "with tools and what was said", "runs show 7f3a -o json", "",
			"runs show 7f3a --at 2", "its state after the second superstep"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("at") {
				return historyCommands(a).showAt(cmd.Context(), named(args), at)
			}
			_, info, err := a.find(cmd.Context(), named(args))
			if err != nil {
				return err
			}
			run, err := a.read(cmd.Context(), info)
			if err != nil {
				return err
			}
			im, err := a.origin(cmd.Context(), info.ID)
			if err != nil {
				return err
			}
			now := time.Now()
			if a.programs() {
				out := showJSON(info, run, now, im)
				out.Folder = folders(a).upToDate(cmd.Context(), &info)
				return a.out.value(out)
			}
			a.show(info, run, now, im, folders(a).upToDate(cmd.Context(), &info))
			return nil
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "show the state at a `point`: "+atHelp)
	return cmd
}

type runJSON struct {
	infoJSON
	Folder    string                  `json:"folder,omitempty"` // its files for people
	Inputs    json.RawMessage         `json:"inputs,omitempty"`
	Duration  int64                   `json:"duration_ms"`
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
		infoJSON: infoOf(&info, reasonOf(r.Short), im),
		Inputs:   r.Inputs, Duration: r.Time.Elapsed(now).Milliseconds(), Usage: r.Used(),
		Steps: r.Report(now), Denied: r.Denied, Refused: r.Refused, Questions: questions(r.Open()), Output: r.Output, stepLists: stepsOf(r),
	}
	if r.Error != "" {
		out.Error = &errorJSON{Code: r.Code, Message: r.Error}
	}
	return out
}

// show prints a run for people.
func (a runsCommands) show(info runlog.Info, r *transcript.Run, now time.Time, im *host.Origin, folder string) {
	p := palette(a.term.outColor)
	put := func(format string, args ...any) { fmt.Fprintf(a.out, format+"\n", args...) }
	put("%s  %s  %s", p.bold("run "+info.ID), p.status(string(info.Status)), transcript.Line(info.Workflow))
	if r.Title != "" {
		put("  %s", r.Title)
	}
	when := fmt.Sprintf("started %s, %s of execution", info.Created.Local().Format(time.DateTime), duration(r.Time.Elapsed(now)))
	if info.Owner != "" {
		when += ", run by " + transcript.Line(info.Owner)
	}
	put("  %s", when)
	if folder != "" {
		put("  files in %s", transcript.Line(shownPath(folder)))
	}
	if spent(r) != nil {
		put("  %s tokens (%s in, %s out), %s", count(r.Usage.In+r.Usage.Out), count(r.Usage.In), count(r.Usage.Out), plural(len(r.Agents), "agent"))
	}
	if im != nil {
		put("  %s %s, works in %s", p.yellow("imported"), im.Time.Local().Format(time.DateTime), transcript.Line(im.Dir))
		if im.Records > 0 {
			put("  its first %s come from the file: what they say has happened, the file claims", plural(int(im.Records), "record"))
		}
		if !im.Trusted {
			put("  %s: before it continues, see what it would execute: %s", p.yellow("not trusted"), a.hint("runs", "trust", info.ID))
		}
	}
	for _, s := range r.Steps {
		for _, t := range s.Tasks {
			a.showTask(put, p, t, now)
		}
	}
	for _, d := range r.Refused {
		put("\n%s %s", p.yellow("denied by "+refuser(&d)+":"), d.String())
		if d.Reason != "" {
			put("  %s", transcript.Line(d.Reason))
		}
	}
	for _, d := range r.Denied {
		put("\n%s %s", p.yellow("denied, since nobody was asked:"), d.String())
		if d.Always != "" {
			put("  allowed by --allow %s", quote(d.Always))
		}
	}
	for _, q := range r.Open() {
		put("\n%s", strings.Join(described(addressed(r.Open(), q), q, p), "\n"))
	}
	if r.Reason != "" {
		put("\n%s %s", p.yellow("paused:"), r.Reason)
	}
	if r.Error != "" {
		put("\n%s %s", p.red("error:"), r.Error)
	}
	if text := a.term.result(r.Output); text != "" {
		put("\n%s", text)
	}
	if !a.set.quiet {
		a.nextShown(info, r)
	}
}

// refuser is who or what turned a call down.
func refuser(d *transcript.Denial) string {
	switch d.By {
	case "":
		return "a rule"
	case "person":
		return "a person"
	}
	return d.By
}

func (a runsCommands) showTask(put func(string, ...any), p palette, t *transcript.Task, now time.Time) {
	var facts []string
	if t.Agent != "" && t.Agent != t.Node {
		facts = append(facts, t.Agent)
	}
	if t.Tools > 0 {
		facts = append(facts, plural(t.Tools, "tool"))
	}
	if t.Attempt > 1 {
		facts = append(facts, fmt.Sprintf("attempt %d", t.Attempt))
	}
	facts = append(facts, brief(t.Time.Elapsed(now)))
	word := string(t.State)
	switch t.State {
	case transcript.Done:
		word = p.green(word)
	case transcript.Failed:
		word = p.red(word)
	default:
		word = p.yellow(word)
	}
	if len(t.Bad) > 0 {
		facts = append(facts, p.yellow("ran on error input: "+strings.Join(t.Bad, ", ")))
	}
	put("  %d  %s%s  %s  %s", t.Step+1, word, strings.Repeat(" ", max(0, 7-len(t.State))), label(t), strings.Join(facts, " · "))
	if t.Why != "" {
		put("       %s", transcript.Line(t.Why))
	} else if t.Error != "" {
		put("       %s", transcript.Line(t.Error))
	}
	if !a.set.verbose {
		return
	}
	for _, part := range t.Parts {
		switch part.Kind {
		case transcript.ToolUse:
			put("       %s %s %s (%s, %s)", part.Tool.Kind, part.Tool.Name, part.Tool.Arg, part.Tool.State, brief(part.Tool.Time.Elapsed(now)))
		case transcript.Reasoning:
			put("       thought: %s", indent(part.Text))
		default:
			put("       %s%s", a.speaker(t), indent(part.Text))
		}
	}
}

// speaker returns the name that a text of a task begins with. It is for screen readers: without --plain it returns "".
func (a runsCommands) speaker(t *transcript.Task) string {
	if !a.term.plain {
		return ""
	}
	return "Agent " + label(t) + ": "
}

func indent(s string) string {
	return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n       ")
}

// nextShown says what can be done with a run that was shown.
func (a runsCommands) nextShown(info runlog.Info, r *transcript.Run) {
	e := &ending{run: r, id: info.ID, open: r.Open(), status: info.Status, output: r.Output, shown: true}
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
	summary{a.app, e}.next()
}
