package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/demo"
)

// ralph is the name of a built-in workflow, and of its demo.
const ralph = "ralph"

func demoCommand(a *app) *cobra.Command {
	var fast, keep bool
	cmd := &cobra.Command{
		Use: "demo [ralph]", Short: "See five agents killed and resumed, in half a minute", Args: cobra.MaximumNArgs(1), ValidArgs: []string{ralph},
		Long: `See five agents killed and resumed, in half a minute

The models' turns are scripted. The rest is real: the engine, the run log, the tools, the questions, and the SIGKILL. It works in a
temporary folder that is removed at the end, and writes nowhere else.

With ralph it shows the workflow of that name: three tasks in Git worktrees, a check that fails, a conflict and a finding.`,
		Example: examples(a.cfg.Name, "demo", "", "demo --fast", "in three seconds, and it answers itself", "demo --keep", "and look into the run afterwards", "demo ralph", "a specification becomes merged work"),
	}
	cmd.Flags().BoolVar(&fast, "fast", false, "do not wait for people")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the folder with the run")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && args[0] != ralph {
			return usage("demo: there is none of " + strconv.Quote(args[0]) + "; leave it out, or say ralph")
		}
		if a.programs() {
			return usage("demo shows a run to people; leave out -o " + a.set.output)
		}
		ctx, done := a.stoppable(cmd.Context(), func() {})
		defer done()
		program, err := a.file()
		if err != nil {
			return err
		}
		dir, run, err := demo.Show(ctx, &demo.Options{
			Host: &a.cfg, Program: program, Screen: a.tty, Settings: &a.set.Settings, Stdin: a.opt.Stdin, Stdout: a.opt.Stdout, Stderr: a.opt.Stderr, Fast: fast, Keep: keep, Ralph: len(args) > 0,
		})
		if exit, failed := errors.AsType[*demo.ExitError](err); failed {
			return &Error{Exit: exit.Exit, Code: "demo", Message: err.Error(), shown: true} // the command has said why
		}
		if err != nil {
			return stopped(ctx, err)
		}
		sayNext(a, dir, run)
		return nil
	}
	return cmd
}

// sayNext prints the commands to try after the demo. The demo has kept the folder of its run unless dir is "".
func sayNext(a *app, dir, run string) {
	n, say := strings.TrimSpace(a.hint()), func(text string) { fmt.Fprintln(a.err, a.tty.Wrap(text)) }
	if dir != "" {
		at := " " + run + " --data-dir " + clean.Shell(dir)
		say("\nThe run is in " + dir + ", which is yours to remove. Look into it:\n" + examples(n,
			"runs show"+at, "what every agent did", "runs replay"+at, "again from the log, equal to the byte"))
	} else {
		say("\nThe demo's folder is removed. To look into the run: " + n + " demo --keep")
	}
	say("Next, in an empty folder:\n" + examples(n,
		"init", "a recipe to begin with", "run hello --model offline", "run it, without a key", "models list", "which language models you can use"))
}
