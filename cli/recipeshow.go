package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/graph/draw"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
)

func workflowsShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME|FILE", Short: "Show a workflow's description, inputs and graph", Args: a.named, ValidArgsFunction: a.workflowNames,
		Long: `Show a workflow's description, inputs and graph

A recipe may also be named by its path, and a draft by its name. With -v its text is shown too. To begin a
recipe of your own with the text of another: workflows new NAME --from OTHER.`,
		Example: examples(a.cfg.Name, "workflows show research", "", "workflows show drafts/brief.yaml -v", "", "workflows show research -o json", ""),
		RunE: func(_ *cobra.Command, args []string) error {
			loadWorkflows(a)
			i, err := a.host().Show(host.Workflows, args[0])
			if err != nil {
				return asUsage(err)
			}
			if a.programs() {
				return a.out.value(i)
			}
			printHeader(a, i)
			a.out.line("\n" + strings.Join(arguments.Lines(i.Inputs), "\n"))
			if len(i.Steps) > 0 {
				a.out.line("\nSteps:")
				printSteps(a, i.Steps)
			}
			if w, err := a.host().Draw(i); err != nil {
				a.out.line("\nno graph: " + transcript.Line(err.Error()))
			} else if flow, err := graphOf(w, nil); err == nil {
				a.out.line("\n" + strings.TrimRight(draw.Text(flow.Shape(), nil), "\n"))
			}
			if a.set.Verbose && i.Text != "" {
				a.out.line("\n" + strings.TrimRight(transcript.Clean(i.Text), "\n"))
			}
			return nil
		},
	}
}

// printSteps writes steps as a table, those within others indented.
func printSteps(a *app, steps []host.Step) {
	var table [][]string
	var add func(steps []host.Step, indent string)
	add = func(steps []host.Step, indent string) {
		for _, s := range steps {
			rest := s.Notes
			if len(s.After) > 0 {
				rest = append([]string{"after " + strings.Join(s.After, ", ")}, rest...)
			}
			table = append(table, []string{
				indent + transcript.Line(s.ID), transcript.Line(strings.TrimSpace(s.Kind + " " + s.Uses)), transcript.Line(strings.Join(rest, "; ")),
			})
			add(s.Steps, indent+"  ")
		}
	}
	add(steps, "  ")
	for _, line := range inwords.Align(table, 0) {
		_, _ = a.out.Write([]byte(inwords.Wrap(line, a.tty.Width()) + "\n"))
	}
}
