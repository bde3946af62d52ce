package cli

import (
	"bytes"
	"errors"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/events"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/transcript"
)

func workflowsNew(a *app) *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use: "new NAME", Short: "Create a starter recipe in the project", Args: a.named, ValidArgsFunction: cobra.NoFileCompletions,
		Long: `Create a starter recipe in the project

It is .superstep/workflows/NAME.yaml, with a first line by which editors complete and check it. A file that is
there already is left as it is.`,
		Example: examples(a.cfg.Name, "workflows new brief", "", "workflows new review --from code-review", "as another recipe is"),
		RunE:    func(_ *cobra.Command, args []string) error { return newRecipe(a, args[0], from) },
	}
	cmd.Flags().StringVar(&from, "from", "", "begin with the text of this recipe")
	recipes := itemNames(host.Workflows, func(i *host.Item) bool { return i.Recipe() != nil && i.State != "draft" })
	_ = cmd.RegisterFlagCompletionFunc("from", recipes.words(a, true)) // it fails if there is no such flag
	return cmd
}

func newRecipe(a *app, name, from string) error {
	path, err := a.here().NewRecipe(name, from)
	switch {
	case errors.As(err, new(*host.ExistsError)):
		return usage(err.Error(), "choose another name, or edit that file")
	case err != nil:
		return err
	case a.programs():
		return a.out.value(map[string]string{"name": name, "path": path})
	}
	a.out.line(a.shownPath(path))
	a.err.line("  Edit it, then   " + a.hint("lint", clean.Shell(a.shownPath(path))))
	a.err.line("  What it does    " + a.hint("workflows", "show", name))
	return nil
}

func workflowsSchema(a *app) *cobra.Command {
	var ofEvents bool
	cmd := &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of recipes, for editors", Args: none,
		Example: examples(a.cfg.Name, "workflows schema > .superstep/schema/workflow.json", "", "workflows schema --events", "of the lines of -o jsonl"),
		RunE: func(*cobra.Command, []string) error {
			schema := recipe.Schema()
			if ofEvents {
				schema = events.Schema()
			}
			_, err := a.out.Write(append(bytes.TrimRight(schema, "\n"), '\n'))
			return err
		},
	}
	cmd.Flags().BoolVar(&ofEvents, "events", false, "that of the events that -o jsonl prints of a run")
	return cmd
}

func workflowsApprove(a *app) *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use: "approve NAME", Short: "Approve a recipe written by an agent", Args: a.named, ValidArgsFunction: a.draftNames,
		Long: `Approve a recipe written by an agent

Recipes by agents wait as drafts, which nothing runs by their names. Look at it first: workflows show NAME -v. What
it may do is bound by the rules of its run as any other.`,
		Example: examples(a.cfg.Name, "workflows approve weekly-brief", "", "workflows approve weekly-brief --overwrite", "instead of the one there is"),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := a.here().Approve(args[0], replace)
			switch {
			case errors.As(err, new(*host.ExistsError)):
				return usage(err.Error(), "replace it: "+a.hint("workflows", "approve", args[0], "--overwrite"))
			case err != nil:
				return err
			case a.programs():
				return a.out.value(map[string]string{"name": args[0], "path": path})
			}
			a.out.line(a.shownPath(path))
			a.err.line("  Run it   " + a.hint("run", args[0], "--help"))
			return nil
		},
	}
	cmd.Flags().BoolVar(&replace, "overwrite", false, "replace the recipe of that name that is there already")
	return cmd
}

func workflowsReject(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "reject NAME", Short: "Remove a recipe written by an agent", Args: a.named, ValidArgsFunction: a.draftNames,
		Example: examples(a.cfg.Name, "workflows reject weekly-brief", ""),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := a.here().Reject(args[0])
			if err != nil {
				return err
			}
			a.note("removed " + transcript.Line(path))
			return nil
		},
	}
}

func (a *app) draftNames(cmd *cobra.Command, args []string, rest string) ([]string, cobra.ShellCompDirective) {
	return itemNames(host.Workflows, func(i *host.Item) bool { return i.State == "draft" }).words(a, false)(cmd, args, rest)
}
