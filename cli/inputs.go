package cli

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/workflow"
)

// completing reports whether a shell asks for completions.
func completing(a *app) bool {
	args := a.opt.Args
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// prepareRun adds to the command `run` a flag for each input of the workflow that the
// arguments name, if they name one.
func prepareRun(a *app, root, run *cobra.Command) {
	args := a.opt.Args
	if completing(a) {
		args = args[1:]
	} else if len(args) > 0 && args[0] == "help" {
		args = args[1:]
	}
	cmd, rest, err := root.Find(args)
	if err != nil || cmd != run {
		return
	}
	set := a.host().Workflows()
	describeRun(a, run, set)
	name := arguments.FirstWord(rest, set, func(name string) *pflag.Flag {
		if f := run.Flags().Lookup(name); f != nil {
			return f
		}
		return root.PersistentFlags().Lookup(name)
	})
	if w := workflowMeant(a, name, set); w != nil {
		addInputFlags(a, run, root.PersistentFlags(), w)
	}
	// Errors are reported when the command runs.
}

// workflowMeant returns the workflow that a word names, even one that may not be used yet, or nil.
func workflowMeant(a *app, word string, set workflow.Set) *workflow.Workflow {
	if a.host().IsFile(word) {
		if h, name, err := a.host().At(word); err == nil {
			a.opened, word = h, name
		}
	} else if w, err := set.Find(word); err == nil {
		return w
	}
	if i, err := a.host().Look(cmp.Or(a.host().File(word), word)); err == nil && i.Recipe() != nil {
		return i.Sketch()
	}
	return nil
}

func addInputFlags(a *app, run *cobra.Command, global *pflag.FlagSet, w *workflow.Workflow) {
	name := nameToType(a, w)
	run.Use = "run " + name + " [free text | key=value ...]"
	run.Long = strings.TrimSpace(transcript.Clean(w.Description) + "\n\n" + strings.Join(arguments.Lines(w.List()), "\n"))
	pairs := []string{"run " + name + arguments.Sample(w), ""}
	if first := arguments.First(w); first != "" {
		pairs = append(pairs, "run "+name+" "+first+" -o json", "", "run "+name+" --inputs inputs.json", "")
	}
	run.Example = examples(run.Root().Name(), append(pairs, "run "+name+" --plan", "what it would do")...)
	arguments.AddFlags(run.Flags(), func(name string) bool {
		return run.Flags().Lookup(name) != nil || global.Lookup(name) != nil || name == "help"
	}, w)
}

// nameToType returns what the user types to name a workflow: the file of a recipe, or the name.
func nameToType(a *app, w *workflow.Workflow) string {
	if file := a.host().File(w.Name); file != "" {
		return clean.Shell(file)
	}
	return w.Name
}
