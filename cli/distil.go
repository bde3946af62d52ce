package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/catalog"
	"github.com/superstep-dev/superstep/internal/distil"
	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/transcript"
)

// distilling are the flags of runs distil.
type distilling struct {
	name                string
	loose, dry, replace bool
}

// distilCommand is `runs distil`.
type distilCommand struct{ *app }

func (a distilCommand) command() *cobra.Command {
	var d distilling
	cmd := &cobra.Command{
		Use: "distil ID", Short: "Make a recipe of a run that went well, and prove it", Args: oneRun, ValidArgsFunction: a.ids,
		Long: `Make a recipe of a run that went well, and prove it

What agents and tools did becomes steps; what failed, was done again or led nowhere is cut, and listed. Where a prompt
has an earlier result in it word for word, that becomes a reference; what you said that comes again becomes an
input. The recipe is run against the recording, without a model: it is written only if every agent is asked
exactly what it was asked, and the result is the same. It goes to .superstep/workflows, and you agree to it by this.

A prompt that an agent wrote from results in its own words cannot be asked again with other inputs, and is
refused. With --loose such a step is given your task and the results themselves, where that can be, and the recipe is
a draft that says so.`,
		Example: examples(a.cfg.Name, "runs distil @last --name weekly-brief", "", "runs distil @last --dry-run", "only print it",
			"runs distil 7f3a --loose", "also what is not proven word for word, as a draft"),
	}
	cmd.Flags().StringVar(&d.name, "name", "", "call it this; defaults to the title of the run")
	cmd.Flags().BoolVar(&d.loose, "loose", false, "keep steps whose prompts were made of results in other words, in a draft")
	cmd.Flags().BoolVar(&d.dry, "dry-run", false, "print the recipe and write nothing")
	cmd.Flags().BoolVar(&d.replace, "force", false, "replace the recipe of that name that is there already")
	acts(cmd, "name", "loose", "dry-run", "force")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.distil(cmd.Context(), args[0], &d) }
	return cmd
}

// distilledJSON is what came of it, for programs.
type distilledJSON struct {
	Name  string          `json:"name"`
	Run   string          `json:"run"`
	Path  string          `json:"path,omitempty"` // "" if nothing was written
	Draft bool            `json:"draft,omitempty"`
	Steps int             `json:"steps"`
	Cut   []distil.Cut    `json:"cut,omitempty"`
	Loose []distil.Reason `json:"not_proven,omitempty"`
	Notes []string        `json:"notes,omitempty"`
	Text  string          `json:"text"`

	imported bool
}

func (a distilCommand) distil(ctx context.Context, ref string, d *distilling) error {
	if d.name != "" && distil.Slug(d.name, 64) != d.name {
		return usage(fmt.Sprintf("--name: %q is no name of a recipe; it has small letters and digits, and single hyphens between, at most 64", d.name))
	}
	_, info, err := a.find(ctx, ref)
	if err != nil {
		return err
	}
	rec, err := distil.Read(runlog.Records(ctx, a.store, info.ID, 0))
	if err != nil {
		return distilError(err)
	}
	made, err := distil.Distil(ctx, rec, &distil.Options{Run: info.ID, Name: d.name, Loose: d.loose})
	if err != nil {
		return a.notDistilled(err, info.ID)
	}
	out := distilledJSON{
		Name: made.Name, Run: info.ID, Draft: len(made.Loose) > 0, Steps: made.Steps, Cut: made.Cut, Loose: made.Loose, Notes: made.Notes, Text: string(made.Text),
	}
	im, err := runlog.Origin(ctx, a.store, info.ID)
	if err != nil {
		return err
	}
	if im != nil { // nobody trusts it by asking for it
		out.Draft, out.imported = true, true
	}
	if !d.dry {
		if out.Path, err = a.keep(made, info.ID, d.replace, out.Draft); err != nil {
			return err
		}
	}
	if a.programs() {
		return a.out.value(out)
	}
	a.reportDistilled(&out)
	return nil
}

// notDistilled says what to do where no recipe came of a run.
func (a distilCommand) notDistilled(err error, id string) error {
	var rewritten *distil.RewrittenError
	if errors.As(err, &rewritten) {
		return &Error{Exit: ExitFailed, Code: rewritten.FailureCode(), Err: err, Message: err.Error(),
			Next: []string{"a draft of it, for you to mend: " + a.hint("runs", "distil", id, "--loose")}}
	}
	return distilError(err)
}

func distilError(err error) error {
	var unfit *distil.UnfitError
	var proof *distil.ProofError
	var redacted *distil.RedactedError
	switch {
	case errors.As(err, &unfit):
		return usage(err.Error())
	case errors.As(err, &proof):
		return &Error{Exit: ExitFailed, Code: proof.FailureCode(), Err: err, Message: err.Error()}
	case errors.As(err, &redacted):
		return &Error{Exit: ExitFailed, Code: redacted.FailureCode(), Err: err, Message: err.Error()}
	}
	return err
}

// keep writes a recipe into the project: one that is proven where it is found by its name, another
// as a draft.
func (a distilCommand) keep(made *distil.Made, run string, replace, draft bool) (path string, err error) {
	p, err := a.project()
	if err != nil {
		return "", err
	}
	if slices.Contains(a.host().Taken(), made.Name) {
		return "", usage(fmt.Sprintf("a workflow that comes with %s is called %q; choose another name with --name", a.cfg.Name, made.Name))
	}
	if err := p.Check(made.Recipe).Err(); err != nil {
		return "", &Error{Exit: ExitUsage, Code: "usage", Message: "the recipe is proven, but it cannot be run here:\n" + err.Error(), Next: []string{"look at it: " + a.hint("runs", "distil", run, "--dry-run")}}
	}
	if !draft {
		path, err = p.AddRecipe(made.Text, replace)
	} else {
		path, err = p.SaveDraft(made.Name, string(made.Text), "runs distil, of run "+run)
	}
	return path, a.keepError(err)
}

func (a distilCommand) keepError(err error) error {
	var there *project.ExistsError
	var bad *catalog.InvalidError
	switch {
	case errors.As(err, &there):
		return usage(there.Error(), "another name: --name", "or replace it: --force")
	case errors.As(err, &bad):
		return a.invalidEntry(bad.Entry)
	}
	return err
}

// reportDistilled tells people what came of it.
func (a distilCommand) reportDistilled(d *distilledJSON) {
	if d.Path == "" {
		_, _ = a.out.Write([]byte(d.Text))
	} else {
		a.out.line(shownPath(d.Path))
	}
	if a.set.quiet {
		return
	}
	proven := "proven against the recording"
	if d.imported && len(d.Loose) == 0 {
		proven = "proven against the recording; a draft, since the run was imported"
	} else if d.Draft {
		proven = "a draft, not proven word for word"
	}
	a.err.line(fmt.Sprintf("%s of run %s, %s", plural(d.Steps, "step"), d.Run, proven))
	for _, r := range d.Loose {
		a.err.line("  not proven: " + transcript.Line("step "+r.Step+": "+r.Why))
	}
	for _, c := range d.Cut {
		a.err.line("  cut: " + transcript.Line(c.What+" ("+c.Path+"): "+c.Why))
	}
	for _, n := range d.Notes {
		a.err.line("  note: " + transcript.Line(strings.TrimSpace(n)))
	}
	switch {
	case d.Path == "":
	case d.Draft:
		a.err.line("  Look at it   " + a.hint("workflows", "show", d.Name, "-v"))
		a.err.line("  Use it       " + a.hint("workflows", "approve", d.Name))
	default:
		a.err.line("  Run it   " + a.hint("run", d.Name, "--help"))
	}
}
