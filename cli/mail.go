package cli

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/runlog"
)

func runsBudget(a *app) *cobra.Command {
	var r running
	cmd := &cobra.Command{
		Use: "budget ID", Short: "Change what a run may use, in any process", Args: oneRun, ValidArgsFunction: a.ids,
		Long: `Change what a run may use, in any process

A limit given takes the place of the one before and counts from the start of the run; the others stay. A run that executes
has the new budget at once: what waits for a larger one goes on. Any other has it when it is resumed.`,
		Example: examples(a.cfg.Name, "runs budget @last --max-cost 2.50", "", "runs budget 7f3a --max-tokens 200000 --timeout 1h", ""),
	}
	r.addLimits(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := r.check(a); err != nil {
			return err
		}
		b := r.budget()
		if b == nil {
			return usage("runs budget: name a limit, such as --max-cost 2.50 or --max-tokens 200000")
		}
		e, info, err := findRun(cmd.Context(), a, args[0])
		if err != nil {
			return err
		}
		if err := e.Budget(cmd.Context(), info.ID, *b); err != nil {
			return err
		}
		if info, err = e.Find(cmd.Context(), info.ID); err != nil {
			return err
		}
		return a.tell(map[string]any{"run": info.ID, "status": info.Status, "changed": b}, fmt.Sprintf("the budget of run %s is changed%s", info.ID, later(a, &info)))
	}
	return cmd
}

func runsSteer(a *app) *cobra.Command {
	var agent string
	var short bool
	cmd := &cobra.Command{
		Use: "steer ID TEXT...", SuggestFor: []string{"say", "tell", "message"}, Short: "Say something to an agent of a run, in any process",
		Args: func(cmd *cobra.Command, args []string) error {
			if short && len(args) == 1 {
				return nil
			}
			if short {
				return usage("runs steer: --compact takes the run and no text: ID --compact")
			}
			return nargs(2, math.MaxInt, "runs steer: name the run and give the text: ID TEXT")(cmd, args)
		},
		ValidArgsFunction: a.ids,
		Long: `Say something to an agent of a run, in any process

The agent reads it before its next turn, once, and does not end before. Without --agent that is the lead, the first agent that runs.
If nobody executes the run, the agent reads it when the run is resumed.

With --compact there is no text: before its next turn the agent sums up its conversation, as it does by itself when the context
of its model is nearly full. A chat that waits for a message does so before the next answer.`,
		Example: examples(a.cfg.Name, `runs steer @last "Use the API instead"`, "", `runs steer 7f3a --agent 'work/task[1.1]/explorer' "Skip the tests"`, "",
			"runs steer 7f3a --compact", ""),
	}
	cmd.RunE = a.onRun(func(ctx context.Context, e *superstep.Engine, info runlog.Info, args []string) (err error) {
		if short {
			return askCompact(ctx, a, &info, agent)
		}
		text := strings.Join(args[1:], " ")
		if strings.TrimSpace(text) == "" {
			return usage("runs steer: the text is empty; say what the agent is to know")
		}
		if err := e.Steer(ctx, info.ID, agent, text); err != nil {
			return err
		}
		if info, err = e.Find(ctx, info.ID); err != nil {
			return err
		}
		told := "the agent reads it before its next turn"
		if waits := later(a, &info); waits != "" {
			told = "the message waits in run " + info.ID + waits
		}
		return a.tell(map[string]any{"run": info.ID, "status": info.Status, "agent": agent}, told)
	})
	cmd.Flags().StringVar(&agent, "agent", "", "the agent's path (default: the lead)")
	cmd.Flags().BoolVar(&short, "compact", false, "sum up the conversation instead of a text")
	a.completeRun(cmd, "agent", a.agentsOf)
	return cmd
}

// agentsOf completes the paths of the agents of a run that work.
func (a *app) agentsOf(ctx context.Context, _ *superstep.Engine, info runlog.Info) (out []string, err error) {
	agents, err := mail.Agents(runlog.Records(ctx, a.store, info.ID, 0))
	for _, m := range agents {
		out = append(out, word(m.Path, m.Name))
	}
	return out, err
}

func runsInterrupt(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "interrupt ID [PATH]", SuggestFor: []string{"break"}, Short: "Break off what an agent of a run says, in any process",
		Args: nargs(1, 2, "runs interrupt: name the run, and the agent unless it is the lead: ID [PATH]"), ValidArgsFunction: a.ids,
		Long: `Break off what an agent of a run says, in any process

The current turn of the agent's model ends at once. What it has said stays in the conversation, marked as broken off, and its
tokens count. A chat then reads the messages that were sent meanwhile, or waits for one; any other agent asks what it is to do.
While the agent calls tools, they end first, and its next turn does not begin. Without PATH it is the lead, the first agent that runs.`,
		Example: examples(a.cfg.Name, "runs interrupt @last", "", `runs interrupt 7f3a 'work/task[1.1]/explorer'`, ""),
		RunE: a.onRun(func(ctx context.Context, e *superstep.Engine, info runlog.Info, args []string) (err error) {
			agent := strings.Join(args[1:], "")
			if err := e.Interrupt(ctx, info.ID, agent); err != nil {
				return err
			}
			if info, err = e.Find(ctx, info.ID); err != nil {
				return err
			}
			text := "the agent's turn is broken off, or the next one once its tools have ended"
			if waits := later(a, &info); waits != "" && info.Status != runlog.Paused {
				text = "the turn is broken off in run " + info.ID + waits
			}
			return a.tell(map[string]any{"run": info.ID, "status": info.Status, "agent": agent}, text)
		}),
	}
}

// askCompact asks an agent to sum up its conversation, and tells when it does.
func askCompact(ctx context.Context, a *app, info *runlog.Info, agent string) error {
	waits, err := compact(ctx, a, info, agent)
	if err != nil {
		return err
	}
	text := "the conversation is summed up before the agent's next turn"
	if after := later(a, info); waits {
		text = "the conversation is summed up before the next answer"
	} else if after != "" {
		text = "the request waits in run " + info.ID + after
	}
	return a.tell(map[string]any{"run": info.ID, "status": info.Status, "agent": agent, "compact": true}, text)
}

// later describes how a run that no process executes can be resumed, "" for other runs.
func later(a *app, info *runlog.Info) string {
	if info.Status == runlog.Running || info.Status.Ended() {
		return ""
	}
	return "; resume it: " + a.hint("runs", "resume", info.ID)
}
