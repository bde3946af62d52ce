package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/transcript"
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
	if info.Status == runlog.Interrupted || info.Status == runlog.Quarantined {
		run.Interrupt()
	}
	return run, nil
}

func (a *app) showCommand() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show what a run did, said and wants", Args: a.one, ValidArgsFunction: a.ids,
		Example: examples(a.opt.Name, "runs show @last", "", "runs show 7f3a -v", "with tools and what was said", "runs show 7f3a -o json", "", "runs show 7f3a --at 2", "its state after the second superstep"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("at") {
				return a.showAt(cmd.Context(), args[0], at)
			}
			_, info, err := a.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			run, err := a.read(cmd.Context(), info)
			if err != nil {
				return err
			}
			now := time.Now()
			if a.programs() {
				return a.out.json(showJSON(info, run, now), a.set.output == "json")
			}
			a.show(info, run, now)
			return nil
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "show the state at a `point`: "+atHelp)
	return cmd
}

type runJSON struct {
	infoJSON
	Inputs    json.RawMessage `json:"inputs,omitempty"`
	Duration  int64           `json:"duration_ms"`
	Usage     usageJSON       `json:"usage"`
	Steps     []stepJSON      `json:"steps"`
	Questions []questionJSON  `json:"questions,omitempty"` // open ones
	Output    json.RawMessage `json:"output,omitempty"`
	Skipped   []string        `json:"skipped,omitempty"`
	Error     *errorJSON      `json:"error,omitempty"`
}

type stepJSON struct {
	Superstep int        `json:"superstep"`
	Done      bool       `json:"done"`
	Duration  int64      `json:"duration_ms"`
	Tasks     []taskJSON `json:"tasks"`
}

type taskJSON struct {
	Task     string           `json:"task"`
	Step     string           `json:"step"`
	Key      string           `json:"key,omitempty"`
	State    transcript.State `json:"state"`
	Attempt  int              `json:"attempt"`
	Agent    string           `json:"agent,omitempty"`
	Tools    int              `json:"tools"`
	Usage    usageJSON        `json:"usage"`
	Duration int64            `json:"duration_ms"`
	Error    string           `json:"error,omitempty"`
	Why      string           `json:"why,omitempty"`            // of one that was not run or is degraded
	Bad      []string         `json:"on_error_input,omitempty"` // the failed steps on whose results it ran
	Said     string           `json:"said,omitempty"`           // the last of it
}

func showJSON(info runlog.Info, r *transcript.Run, now time.Time) *runJSON {
	out := &runJSON{
		infoJSON: infoOf(&info, reasonOf(r.Short)),
		Inputs:   r.Inputs, Duration: r.Time.Elapsed(now).Milliseconds(), Usage: usageJSON{r.Usage.In, r.Usage.Out, r.Agents},
		Steps: []stepJSON{}, Questions: questions(r.Open()), Output: r.Output, Skipped: r.Skipped,
	}
	if r.Error != "" {
		out.Error = &errorJSON{Code: r.Code, Message: r.Error}
	}
	for _, s := range r.Steps {
		step := stepJSON{Superstep: s.Number, Done: s.Done, Duration: s.Time.Elapsed(now).Milliseconds(), Tasks: []taskJSON{}}
		for _, t := range s.Tasks {
			step.Tasks = append(step.Tasks, taskJSON{
				t.Path, t.Node, t.Key, t.State, t.Attempt, t.Agent, t.Tools, usageJSON{t.Usage.In, t.Usage.Out, t.Agents},
				t.Time.Elapsed(now).Milliseconds(), t.Error, t.Why, t.Bad, t.Last(),
			})
		}
		out.Steps = append(out.Steps, step)
	}
	return out
}

// show prints a run for people.
func (a *app) show(info runlog.Info, r *transcript.Run, now time.Time) {
	p := palette(a.term.outColor)
	put := func(format string, args ...any) { fmt.Fprintf(a.out, format+"\n", args...) }
	put("%s  %s  %s", p.bold("run "+info.ID), p.status(string(info.Status)), transcript.Line(info.Workflow))
	if r.Title != "" {
		put("  %s", r.Title)
	}
	when := fmt.Sprintf("started %s, %s at work", info.Created.Local().Format(time.DateTime), duration(r.Time.Elapsed(now)))
	if info.Owner != "" {
		when += ", run by " + transcript.Line(info.Owner)
	}
	put("  %s", when)
	put("  %s tokens (%s in, %s out), %s", count(r.Usage.In+r.Usage.Out), count(r.Usage.In), count(r.Usage.Out), plural(r.Agents, "agent"))
	for _, s := range r.Steps {
		for _, t := range s.Tasks {
			a.showTask(put, p, t, now)
		}
	}
	for _, q := range r.Open() {
		offered := choices(q)
		if offered != "" && strings.Contains(q.Question, "\n") {
			offered = "\n" + offered[1:]
		}
		put("\n%s asks: %s%s", addressed(r.Open(), q), q.Question, offered)
	}
	if r.Reason != "" {
		put("\n%s %s", p.yellow("paused:"), r.Reason)
	}
	if r.Error != "" {
		put("\n%s %s", p.red("error:"), r.Error)
	}
	if text := resultText(r.Output); text != "" {
		put("\n%s", a.term.wrap(transcript.Clean(text)))
	}
	if !a.set.quiet {
		a.nextShown(info, r)
	}
}

func (a *app) showTask(put func(string, ...any), p palette, t *transcript.Task, now time.Time) {
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
			put("       %s", indent(part.Text))
		}
	}
}

func indent(s string) string {
	return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n       ")
}

// nextShown says what can be done with a run that was shown.
func (a *app) nextShown(info runlog.Info, r *transcript.Run) {
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
	a.next(e)
}
