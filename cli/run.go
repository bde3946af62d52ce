package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// running are the flags of the commands that execute a run.
type running struct {
	answers    list
	onAsk      string
	timeout    time.Duration
	maxSteps   int
	streamText bool
}

func (r *running) add(f *pflag.FlagSet) {
	f.Var(&r.answers, "answer", "answer a question ahead: PATH=value (may be repeated)")
	f.StringVar(&r.onAsk, "on-ask", "", "what to do about a question with no answer and no default: wait, deny or fail (default: ask on a terminal, else wait)")
	f.DurationVar(&r.timeout, "timeout", 0, "stop after this long, such as 90s or 10m (default: never)")
	f.IntVar(&r.maxSteps, "max-steps", 0, "stop after this many supersteps (default: the workflow's own limit)")
	f.BoolVar(&r.streamText, "stream-text", false, "with -o jsonl: also what models say while they say it")
}

// check finds the mistakes in the flags. It runs before anything else does.
func (r *running) check(a *app) (answers, error) {
	if r.onAsk != "" {
		if err := oneOf("--on-ask", r.onAsk, "deny", "wait", "fail"); err != nil {
			return nil, err
		}
	}
	switch {
	case r.timeout < 0:
		return nil, usage(fmt.Sprintf("--timeout: want a positive duration such as 90s, got %s", r.timeout))
	case r.maxSteps < 0:
		return nil, usage(fmt.Sprintf("--max-steps: want a positive number, got %d", r.maxSteps))
	case r.streamText && a.set.output != "jsonl":
		return nil, usage("--stream-text needs -o jsonl")
	}
	return parseAnswers(r.answers)
}

func (r *running) engine() *superstep.Options {
	return &superstep.Options{MaxSteps: r.maxSteps, Timeout: r.timeout}
}

func (a *app) runCommand() *cobra.Command {
	var r running
	var g gathered
	cmd := &cobra.Command{
		Use:   "run WORKFLOW [free text | key=value ...]",
		Short: "Run a workflow",
		Example: examples(a.opt.Name,
			`run WORKFLOW "free text"`, "for the first required input",
			"run WORKFLOW key=value -o json", "",
			"run WORKFLOW --help", "its inputs"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			set, err := a.workflows("")
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			var out []string
			for _, w := range set {
				out = append(out, w.Name+"\t"+w.Description)
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
		Args: cobra.ArbitraryArgs,
	}
	r.add(cmd.Flags())
	cmd.Flags().StringVar(&a.set.model, "model", "", "the model to use, as provider/name such as openai/…, ollama/… or openrouter/…, or offline; also SUPERSTEP_MODEL")
	cmd.Flags().VarP((*list)(&g.pairs), "input", "i", "an input: key=value (may be repeated)")
	cmd.Flags().StringVar(&g.file, "inputs", "", "read inputs from a JSON `file`, - for standard input")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage("run: which workflow? " + a.known())
		}
		ans, err := r.check(a)
		if err != nil {
			return err
		}
		g.words, g.flags, g.model = args[1:], cmd.Flags(), a.set.model
		if n := cmd.ArgsLenAtDash(); n >= 0 {
			g.words = slices.Insert(slices.Clone(g.words), max(0, n-1), "--")
		}
		return a.runWorkflow(cmd.Context(), args[0], &g, &r, ans)
	}
	return cmd
}

// describeRun says in the help of `run` what there is to run.
func (a *app) describeRun(run *cobra.Command, set workflow.Set) {
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
		fmt.Fprintf(&b, "  %-*s   %s\n", width, w.Name, w.Description)
	}
	run.Long = b.String()
	run.Example = examples(a.opt.Name,
		"run "+set[0].Name+sample(set[0]), "",
		"run "+set[0].Name+" key=value -o json", "",
		"run "+set[0].Name+" --help", "its inputs")
}

func (a *app) known() string {
	set, err := a.workflows("")
	if err != nil || len(set) == 0 {
		return "there are none"
	}
	names := make([]string, len(set))
	for i, w := range set {
		names[i] = w.Name
	}
	return "There are: " + strings.Join(names, ", ")
}

func (a *app) runWorkflow(ctx context.Context, name string, g *gathered, r *running, ans answers) error {
	set, err := a.workflows("")
	if err != nil {
		return err
	}
	w, err := set.Find(name)
	if err != nil {
		return err
	}
	inputs, err := a.inputs(w, g)
	if err == nil {
		if set, err = a.workflows(name); err != nil {
			return err
		}
		if w, err = set.Find(name); err != nil {
			return err
		}
		inputs, err = w.Settle(inputs)
	}
	if err != nil {
		var wrong *workflow.InputsError
		if errors.As(err, &wrong) {
			err = &Error{Exit: ExitUsage, Code: "inputs", Message: err.Error(), Err: err, Next: []string{
				"such as: " + a.hint("run", w.Name) + sample(w),
				"all inputs: " + a.hint("run", w.Name, "--help"),
			}}
		}
		return err
	}
	engine, err := a.engineOf(ctx, set, r.engine())
	if err != nil {
		return err
	}
	return a.execute(ctx, &job{
		flags: r, answers: ans, workflow: name,
		begin: func(ctx context.Context, answer superstep.Answering, observe func(runlog.Record, error)) (*superstep.Run, error) {
			return engine.Start(ctx, name, inputs, &superstep.StartOptions{Answer: answer, Observe: observe})
		},
	})
}
