package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/catalog"
	"github.com/superstep-dev/superstep/internal/distil"
	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/transcript"
	"github.com/superstep-dev/superstep/workflow/recipe"
)

func (a *app) workflowsNew() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use: "new NAME", Short: "Write a recipe to begin with into the project", Args: a.named, ValidArgsFunction: cobra.NoFileCompletions,
		Long: `Write a recipe to begin with into the project

It is .superstep/workflows/NAME.yaml, with a first line by which editors complete and check it. A file that is
there already is left as it is.`,
		Example: examples(a.cfg.Name, "workflows new brief", "", "workflows new review --from code-review", "as another recipe is"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.newRecipe(args[0], from) },
	}
	cmd.Flags().StringVar(&from, "from", "", "begin with the text of this recipe")
	acts(cmd, "from")
	_ = cmd.RegisterFlagCompletionFunc("from", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { // it fails if there is no such flag
		p, err := a.project()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var out []string
		for _, e := range p.Workflows() {
			if e.State != catalog.Invalid {
				out = append(out, word(e.Name, e.Description))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

const newRecipe = `name: %s
description: Says in a sentence what it is for.

inputs:
  - name: topic
    description: What it is about
    required: true

steps:
  - id: gather
    subagent: researcher
    prompt: |
      Find out what matters about {{inputs.topic}}. Give the source of each fact.

  - id: write
    subagent: synthesizer
    depends_on: [gather]
    prompt: |
      Write a page about {{inputs.topic}} from these notes, and keep their sources:

      {{steps.gather.output}}

output: "{{steps.write.output}}"
`

func (a *app) newRecipe(name, from string) error {
	if distil.Slug(name, 64) != name {
		return usage(fmt.Sprintf("workflows new: %q is no name of a recipe; it has small letters and digits, and single hyphens between, at most 64%s", name, suggested(name)))
	}
	text := fmt.Sprintf(newRecipe, name)
	p, err := a.project()
	if err != nil {
		return err
	}
	if slices.Contains(a.host().Taken(), name) {
		return usage(fmt.Sprintf("workflows new: a workflow that comes with %s is called %q; choose another name", a.cfg.Name, name))
	}
	if from != "" {
		e, _, err := p.Look(from)
		if err != nil {
			return usage("--from: " + err.Error())
		}
		text = renamed(string(e.Text), e.Name, name)
	}
	path, err := p.AddRecipe([]byte(text), false)
	var there *project.ExistsError
	var bad *catalog.InvalidError
	switch {
	case errors.As(err, &there):
		return usage(there.Error(), "choose another name, or edit that file")
	case errors.As(err, &bad):
		return usage(fmt.Sprintf("workflows new: %v", bad.Entry.Problems))
	case err != nil:
		return err
	}
	if a.programs() {
		return a.out.json(map[string]string{"name": name, "path": path}, a.set.output == "json")
	}
	a.out.line(shownPath(path))
	a.err.line("  Edit it, then   " + a.hint("lint", quote(shownPath(path))))
	a.err.line("  What it does    " + a.hint("workflows", "show", name))
	return nil
}

// suggested is an end of sentence with a name for a recipe that is like one that cannot be.
func suggested(name string) string {
	if slug := distil.Slug(name, 64); slug != "" {
		return fmt.Sprintf(", such as %q", slug)
	}
	return ""
}

// renamed is the text of a recipe under another name, without its aliases.
func renamed(text, old, name string) string {
	var b strings.Builder
	skip := false
	body := false
	word := regexp.MustCompile(`(^|[^a-z0-9-])` + regexp.QuoteMeta(old) + `($|[^a-z0-9-])`)
	for line := range strings.Lines(text) {
		switch {
		case skip && (strings.HasPrefix(line, " ") || strings.HasPrefix(line, "-")):
			continue
		case strings.HasPrefix(line, "aliases:"):
			skip = true
			continue
		case strings.HasPrefix(line, "name:"):
			line = "name: " + name + "\n"
		case strings.HasPrefix(line, "#") && !body:
			line = word.ReplaceAllString(line, "${1}"+name+"${2}")
		}
		skip = false
		body = body || !strings.HasPrefix(line, "#")
		b.WriteString(line)
	}
	return b.String()
}

func (a *app) workflowsSchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of recipes, for editors", Args: a.none,
		Example: examples(a.cfg.Name, "workflows schema > .superstep/schema/workflow.json", ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(append([]byte(strings.TrimRight(string(recipe.Schema()), "\n")), '\n'))
			return err
		},
	}
}

func (a *app) workflowsApprove() *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use: "approve NAME", Short: "Use a recipe that an agent has written", Args: a.named, ValidArgsFunction: a.draftNames,
		Long: `Use a recipe that an agent has written

Recipes by agents wait as drafts, which nothing runs by their names. Look at it first: workflows show NAME -v. What
it may do is bound by the rules of its run as any other.`,
		Example: examples(a.cfg.Name, "workflows approve weekly-brief", "", "workflows approve weekly-brief --overwrite", "instead of the one there is"),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := a.project()
			if err != nil {
				return err
			}
			path, err := p.Approve(args[0], replace)
			if err != nil {
				return a.draftError(err, args[0])
			}
			if a.programs() {
				return a.out.json(map[string]string{"name": args[0], "path": path}, a.set.output == "json")
			}
			a.out.line(shownPath(path))
			a.err.line("  Run it   " + a.hint("run", args[0], "--help"))
			return nil
		},
	}
	cmd.Flags().BoolVar(&replace, "overwrite", false, "replace the recipe of that name that is there already")
	acts(cmd, "overwrite")
	return cmd
}

func (a *app) workflowsReject() *cobra.Command {
	return &cobra.Command{
		Use: "reject NAME", Short: "Remove a recipe that an agent has written", Args: a.named, ValidArgsFunction: a.draftNames,
		Example: examples(a.cfg.Name, "workflows reject weekly-brief", ""),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := a.project()
			if err != nil {
				return err
			}
			path, err := p.Reject(args[0])
			if err != nil {
				return a.draftError(err, args[0])
			}
			a.note("removed " + transcript.Line(path))
			return nil
		},
	}
}

// draftError says what to do about an error of a draft.
func (a *app) draftError(err error, name string) error {
	var none *catalog.NoDraftError
	var there *project.ExistsError
	var bad *catalog.InvalidError
	switch {
	case errors.As(err, &none):
		return usage(err.Error())
	case errors.As(err, &there):
		return usage(there.Error(), "replace it: "+a.hint("workflows", "approve", name, "--overwrite"))
	case errors.As(err, &bad):
		return a.invalidEntry(bad.Entry)
	}
	return err
}

func (a *app) draftNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	p, err := a.project()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, e := range p.Drafts() {
		out = append(out, word(e.Name, e.Description))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
