package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/graph/draw"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/workflow"
)

func (a *app) workflowsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME|FILE", Short: "Show what a workflow is, takes and looks like", Args: a.named, ValidArgsFunction: a.workflowNames,
		Long: `Show what a workflow is, takes and looks like

A recipe may also be named by its path, and a draft by its name. With -v its text is shown too. To begin a
recipe of your own with the text of another: workflows new NAME --from OTHER.`,
		Example: examples(a.cfg.Name, "workflows show research", "", "workflows show drafts/brief.yaml -v", "", "workflows show research -o json", ""),
		RunE: func(_ *cobra.Command, args []string) error {
			a.allRuns()
			i, err := a.host().Show(host.Workflows, args[0])
			if err != nil {
				return a.unknown(err)
			}
			if a.programs() {
				return a.out.value(i)
			}
			a.header(i)
			a.printInputs(i.Inputs)
			if len(i.Steps) > 0 {
				a.out.line("\nSteps:")
				a.printSteps(i.Steps)
			}
			if w, err := a.host().Draw(i); err != nil {
				a.out.line("\nno graph: " + transcript.Line(err.Error()))
			} else if flow, err := graphOf(w, nil); err == nil {
				a.out.line("\n" + strings.TrimRight(draw.Text(flow.Shape(), nil), "\n"))
			}
			if a.set.verbose && i.Text != "" {
				a.out.line("\n" + strings.TrimRight(transcript.Clean(i.Text), "\n"))
			}
			return nil
		},
	}
}

// printInputs writes what a workflow takes.
func (a *app) printInputs(inputs []workflow.Input) {
	a.out.line("")
	for _, l := range inputLines(inputs) {
		a.out.line(l)
	}
}

// inputLines are what a workflow takes, as a table.
func inputLines(inputs []workflow.Input) []string {
	lines := []string{"Inputs:"}
	width := 12
	for i := range inputs {
		width = max(width, min(32, ansi.StringWidth(transcript.Line(inputs[i].Name))))
	}
	for i := range inputs {
		in := &inputs[i]
		name := transcript.Line(in.Name)
		name += strings.Repeat(" ", max(0, width-ansi.StringWidth(name)))
		lines = append(lines, strings.TrimRight(fmt.Sprintf("  %s  %-8s %s", name, typeWord(in.Type), transcript.Line(inputText(*in))), " "))
	}
	if len(inputs) == 0 {
		lines = append(lines, "  none")
	}
	return lines
}

// typeWord is the type of an input as recipes and people call it.
func typeWord(kind string) string {
	if kind == "array" {
		return "list"
	}
	return kind
}

// inputText is what people are told of an input.
func inputText(in workflow.Input) string {
	text := in.Description
	if len(in.Enum) > 0 {
		var words []string
		for _, v := range in.Enum {
			words = append(words, valueText(v))
		}
		text += " (" + strings.Join(words, ", ") + ")"
	}
	switch {
	case in.Required:
		text += " (required)"
	case len(in.Default) > 0:
		var v any
		if json.Unmarshal(in.Default, &v) == nil {
			text += " (default " + valueText(v) + ")"
		}
	}
	return strings.TrimSpace(text)
}

// valueText is a JSON value as it is typed: a text as it is.
func valueText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// printSteps writes steps as a table, those within others indented.
func (a *app) printSteps(steps []host.Step) {
	type row struct{ id, does, rest string }
	var rows []row
	var add func(steps []host.Step, depth int)
	add = func(steps []host.Step, depth int) {
		for _, s := range steps {
			rest := s.Notes
			if len(s.After) > 0 {
				rest = append([]string{"after " + strings.Join(s.After, ", ")}, rest...)
			}
			rows = append(rows, row{
				strings.Repeat("  ", depth) + transcript.Line(s.ID), transcript.Line(strings.TrimSpace(s.Kind + " " + s.Uses)),
				transcript.Line(strings.Join(rest, "; ")),
			})
			add(s.Steps, depth+1)
		}
	}
	add(steps, 1)
	id, does := 0, 0
	for _, r := range rows {
		id, does = max(id, ansi.StringWidth(r.id)), max(does, ansi.StringWidth(r.does))
	}
	for _, r := range rows {
		a.out.line(strings.TrimRight(fmt.Sprintf("%-*s  %-*s  %s", id, r.id, does, r.does, r.rest), " "))
	}
}
