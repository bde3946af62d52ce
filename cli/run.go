package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// running are the flags of the commands that execute a run.
type running struct {
	answers    arguments.List
	onAsk      string
	timeout    time.Duration
	turn       time.Duration
	width      int // steps of a recipe at once
	maxSteps   int
	agents     int
	processes  int // of other programs' agents
	maxCost    float64
	maxTokens  int64
	maxAgents  int64
	maxTurns   int64
	maxCalls   int64
	streamText bool
	input      string // jsonl: a program on standard input drives the run
	every      int
	plan       bool // only say what would be done
	leave      leave
	detach     bool          // execute it in a process of its own
	detached   string        // this is that process; see detach.Hidden
	id         string        // of a new run, "" for any
	queue      *runlog.Queue // of a run that is left to a worker
	trace      string        // of a new run, "" for that of the environment
}

func (r *running) add(f *pflag.FlagSet) {
	f.Var(&r.answers, "answer", "answer a question ahead: PATH=value, or PATH:KEY=value where a task asks several (may be repeated)")
	f.StringVar(&r.onAsk, "on-ask", "", "what to do about a question with no answer and no default: wait, deny or fail; ask: as wait, and no default answers "+
		"(default: ask on a terminal; without one questions wait, and what agents need permission for is denied)")
	r.addLimits(f)
	f.DurationVar(&r.turn, "turn-timeout", 0, "end a model's turn after this long, or after half of it without progress (default: 10m)")
	f.IntVar(&r.width, "max-concurrency", 0, "run at most this many steps of a recipe at once, whatever it says (default: its own limit)")
	f.IntVar(&r.agents, "parallel-agents", 0, "run at most this many agents at once, whatever began them (default: 5, or the max_concurrency of the recipe)")
	f.IntVar(&r.processes, "agent-processes", 4, "let at most this many agents of other programs run at once")
	f.IntVar(&r.maxSteps, "max-steps", 0, "stop after this many supersteps (default: the workflow's own limit)")
	r.leave.add(f)
	f.BoolVar(&r.streamText, "stream-text", false, streamTextHelp)
}

// addLimits adds the flags of the budget.
func (r *running) addLimits(f *pflag.FlagSet) {
	f.DurationVar(&r.timeout, "timeout", 0, "pause after this much execution time, such as 90s or 10m (default: never)")
	f.Float64Var(&r.maxCost, "max-cost", 0, "pause before the run costs more US dollars than this in all, where models tell their price (0: no limit)")
	f.Int64Var(&r.maxTokens, "max-tokens", 0, "pause before models read and write more tokens than this in all (0: no limit)")
	f.Int64Var(&r.maxAgents, "max-agents", 0, "pause before more agents than this begin (0: no limit)")
	f.Int64Var(&r.maxTurns, "max-turns", 0, "pause before models take more turns than this in all (0: no limit)")
	f.Int64Var(&r.maxCalls, "max-calls", 0, "pause before tools are called more often than this in all (0: no limit)")
}

const streamTextHelp = "with -o jsonl: also what models say while they say it"

// byUser refuses agents that work in a run: they answer no questions.
func (a *app) byUser() error {
	if !procgroup.Inside(a.cfg.Environ) {
		return nil
	}
	return &Error{Exit: ExitDenied, Code: superstep.CodeDenied, Message: "an agent that works in a run answers no questions: gates and permission are the user's; answer at your terminal"}
}

// checkStreamText refuses the flag where it does nothing.
func (a *app) checkStreamText(wanted bool) error {
	if wanted && a.set.output != "jsonl" {
		return usage("--stream-text needs -o jsonl")
	}
	return nil
}

// check finds the mistakes in the flags. It runs before anything else does.
func (r *running) check(a *app) (tui.Answers, error) {
	if r.onAsk != "" {
		if err := oneOf("--on-ask", r.onAsk, "ask", "deny", "wait", "fail"); err != nil {
			return nil, err
		}
	}
	for _, f := range []struct {
		flag string
		n    int64
	}{
		{"--parallel-agents", int64(r.agents)}, {"--agent-processes", int64(r.processes)}, {"--max-concurrency", int64(r.width)}, {"--max-steps", int64(r.maxSteps)}, {"--snapshot-every", int64(r.every)},
		{"--max-tokens", r.maxTokens}, {"--max-agents", r.maxAgents}, {"--max-turns", r.maxTurns}, {"--max-calls", r.maxCalls},
	} {
		if f.n < 0 {
			return nil, usage(fmt.Sprintf("%s: want a positive number, got %d", f.flag, f.n))
		}
	}
	switch {
	case r.timeout < 0:
		return nil, usage(fmt.Sprintf("--timeout: want a positive duration such as 90s, got %s", r.timeout))
	case r.turn < 0:
		return nil, usage(fmt.Sprintf("--turn-timeout: want a positive duration such as 20m, got %s", r.turn))
	case !(r.maxCost >= 0 && r.maxCost < 1e12):
		return nil, usage(fmt.Sprintf("--max-cost: want a number of US dollars such as 1.50, got %g", r.maxCost))
	}
	if err := a.checkStreamText(r.streamText); err != nil {
		return nil, err
	}
	if err := r.checkInput(a); err != nil {
		return nil, err
	}
	if len(r.answers) > 0 || r.input != "" {
		if err := a.byUser(); err != nil {
			return nil, err
		}
	}
	if _, err := r.leave.rules(); err != nil {
		return nil, err
	}
	if r.leave.onAsk = r.onAsk; r.onAsk == "ask" {
		r.leave.onAsk = "wait"
	}
	r.leave.headless = r.onAsk == "deny" || r.leave.onAsk != "wait" && !a.tty.Asks() && r.input == ""
	a.set.leave, a.set.turn, a.set.width, a.set.processes = r.leave, r.turn, r.width, r.processes
	return tui.ParseAnswers("--answer", r.answers)
}

func (r *running) engine() *host.EngineOptions {
	return &host.EngineOptions{MaxSteps: r.maxSteps, Agents: r.agents}
}

// budget returns the budget given by the flags, or nil.
func (r *running) budget() *runlog.Budget {
	b := runlog.Budget{Tokens: r.maxTokens, Agents: r.maxAgents, Turns: r.maxTurns, Calls: r.maxCalls, Money: int64(math.Ceil(r.maxCost * 1e6)), Wall: r.timeout}
	if b == (runlog.Budget{}) {
		return nil
	}
	return &b
}

// raised returns the flag that raises the limit that a run has reached.
func raised(e *runlog.BudgetError) []string {
	n := e.Enough()
	switch e.What {
	case runlog.BudgetTokens, runlog.BudgetAgents, runlog.BudgetTurns, runlog.BudgetCalls:
		return []string{"--max-" + e.What, strconv.FormatInt(n, 10)}
	case runlog.BudgetMoney:
		return []string{"--max-cost", strconv.FormatFloat(math.Ceil(float64(n)/1e4)/100, 'f', 2, 64)}
	case runlog.BudgetWall:
		return []string{"--timeout", time.Duration(n).String()}
	}
	return nil
}

func newRunCommand(a *app) *cobra.Command {
	var r running
	g := arguments.Given{Dir: a.cfg.Dir}
	var q queueing
	var ref, stopped string // of the run to continue, and of that to resume
	var yes bool
	cmd := &cobra.Command{
		Use:   "run WORKFLOW|FILE [free text | key=value ...]",
		Short: "Run a workflow",
		Example: examples(a.cfg.Name,
			`run WORKFLOW "free text"`, "for the first required input",
			"run WORKFLOW key=value -o json", "",
			"run WORKFLOW --plan", "what it would do",
			`run agent --continue "MESSAGE"`, "the newest conversation here",
			"run WORKFLOW --help", "its inputs"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			var out []string
			for _, w := range a.host().Workflows() {
				out = append(out, w.Name+"\t"+transcript.Line(w.Description))
			}
			return out, cobra.ShellCompDirectiveDefault // recipes are files too
		},
		Args: cobra.ArbitraryArgs,
	}
	r.add(cmd.Flags())
	r.addDetach(cmd)
	a.addGuest(cmd)
	r.addID(cmd)
	q.add(cmd)
	cmd.Flags().BoolVar(&r.plan, "plan", false, "only say what would be done: steps, agents, tools, and what it costs at most; nothing runs")
	cmd.Flags().StringVar(&a.set.model, "model", "", "the model to use, as provider/name such as openai/…, ollama/… or openrouter/…, or "+
		"offline; for an agent also acp:NAME, such as acp:opencode; also SUPERSTEP_MODEL")
	cmd.Flags().IntVar(&r.every, "snapshot-every", 0, "write a snapshot after every so many supersteps too (default: when the log has grown enough)")
	addContinue(a, cmd, &ref)
	addResume(a, cmd, &stopped, &yes)
	cmd.Flags().VarP((*arguments.List)(&g.Pairs), "input", "i", "an input: key=value (may be repeated); jsonl: a program drives the run, with -o jsonl, by lines "+
		"on standard input")
	cmd.Flags().StringVar(&g.File, "inputs", "", "read inputs from a JSON `file`, - for standard input")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage("run: which workflow? "+knownWorkflows(a), "what each does: "+a.hint("run", "--help"))
		}
		if i := slices.Index(g.Pairs, driven); i >= 0 {
			r.input, g.Pairs = driven, slices.Delete(g.Pairs, i, i+1)
		}
		if a.plansFile(args) {
			r.plan = false
		}
		if yes && args[0] != ralph {
			return usage("--yes: only ralph asks about a plan; answer other questions ahead with --answer PATH=VALUE")
		}
		ans, err := r.check(a)
		if err == nil && yes {
			err = a.byUser()
		}
		if err != nil {
			return err
		}
		if a.set.yes = yes; yes && stopped != "" { // the run began without it
			ans = append(ans, tui.Flag("--yes", "approve", "approve")...)
		}
		if r.queue, err = q.check(cmd, &r); err != nil {
			return err
		}
		if q.on && (stopped != "" || cmd.Flags().Changed("continue")) {
			return usage("--queue: only a new run can be queued")
		}
		if r.detach && !r.plan && !q.on {
			return a.startDetached(cmd.Context(), &r)
		}
		if g.Words, g.Flags = args[1:], cmd.Flags(); !a.set.NoInput && r.input == "" {
			g.Stdin = a.opt.Stdin
		}
		if cmd.Flags().Changed("model") || a.cfg.Env(host.Variable("model")) != "" {
			g.Model = a.set.model // else a project goes before the user's configuration
		}
		if n := cmd.ArgsLenAtDash(); n >= 0 {
			g.Words = slices.Insert(slices.Clone(g.Words), max(0, n-1), "--")
		}
		if stopped != "" {
			return resumeWorkflow(cmd.Context(), a, args[0], stopped, &g, &r, ans)
		}
		if cmd.Flags().Changed("continue") {
			return continueRun(cmd.Context(), a, args[0], ref, &g, &r, ans)
		}
		return runWorkflow(cmd.Context(), a, args[0], &g, &r, ans)
	}
	return cmd
}

// describeRun lists the workflows in the help of `run`.
func describeRun(a *app, run *cobra.Command, set workflow.Set) {
	if len(set) == 0 {
		return
	}
	var b strings.Builder
	b.WriteString("Run a workflow. There are:\n")
	width := 0
	for _, w := range set {
		width = max(width, len(w.Name))
	}
	for _, w := range set {
		fmt.Fprintf(&b, "  %-*s   %s\n", width, w.Name, ansi.Truncate(transcript.Line(w.Description), 90, "…"))
	}
	run.Long = b.String()
	run.Example = examples(a.cfg.Name,
		"run "+set[0].Name+arguments.Sample(set[0]), "",
		"run "+set[0].Name+" key=value -o json", "",
		"run "+set[0].Name+" --help", "its inputs")
}

func knownWorkflows(a *app) string {
	set := a.host().Workflows()
	if len(set) == 0 {
		return "there are none"
	}
	names := make([]string, len(set))
	for i, w := range set {
		names[i] = w.Name
	}
	return "There are: " + strings.Join(names, ", ")
}

func runWorkflow(ctx context.Context, a *app, name string, g *arguments.Given, r *running, ans tui.Answers) error {
	w, err := chooseWorkflow(a, name)
	if err != nil {
		return err
	}
	return explainLacking(a, w, a.allowing(ctx, func() error { return runChosen(ctx, a, w, g, r, ans) }))
}

func runChosen(ctx context.Context, a *app, w *workflow.Workflow, g *arguments.Given, r *running, ans tui.Answers) error {
	name := w.Name
	var settled json.RawMessage
	inputs, err := g.Inputs(w)
	if err == nil {
		err = a.host().Quotable(w, g.Model)
	}
	if err == nil && r.plan {
		return planRun(a, w, inputs, r, g.Model)
	}
	if err == nil {
		a.current = name
		if w, err = a.host().Ready(name); err != nil {
			return err
		}
		settled, err = w.Settle(inputs)
	}
	if err != nil {
		return a.inputsError(w, err)
	}
	if r.maxCost > 0 {
		if p, err := a.host().Plan(w, &host.PlanOptions{Inputs: settled, Model: g.Model, Budget: r.budget()}); err == nil && p.Cost == nil {
			return usage("--max-cost: what the run costs is "+p.CostWhy, "limit its tokens: --max-tokens N", "set its price: "+a.hint("models", "update", "FILE"))
		}
	}
	if r.queue != nil {
		return enqueueRun(ctx, a, w, g, r)
	}
	if err := checkAhead(a, w, settled, ans); err != nil {
		return err
	}
	engine, err := a.engine(ctx, name, r.engine())
	if err != nil {
		return err
	}
	return executeRun(ctx, a, &job{
		engine: engine, flags: r, answers: ans,
		begin: func(ctx context.Context, answer superstep.Answering, observe func(runlog.Record, error)) (*superstep.Run, error) {
			return engine.Start(ctx, name, inputs, &superstep.StartOptions{ID: r.id, Trace: cmp.Or(r.trace, a.cfg.Env("TRACEPARENT")), Answer: answer,
				Observe: observe, Budget: r.budget(), SnapshotEvery: r.every})
		},
	})
}

// inputsError adds to an error about the inputs of a workflow how to give them.
func (a *app) inputsError(w *workflow.Workflow, err error) error {
	if !errors.As(err, new(*workflow.InputsError)) {
		return err
	}
	return &Error{Exit: ExitUsage, Code: "inputs", Message: err.Error(), Err: err, Next: []string{
		"such as: " + a.hint("run", nameToType(a, w)) + arguments.Sample(w),
		"all inputs: " + a.hint("run", nameToType(a, w), "--help"),
	}}
}
