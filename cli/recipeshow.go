package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/graph/draw"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/transcript"
	"github.com/superstep-dev/superstep/workflow"
)

func workflowsShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME|FILE", Short: "Show what a workflow is, takes and looks like", Args: a.named, ValidArgsFunction: a.workflowNames,
		Long: `Show what a workflow is, takes and looks like

A recipe may also be named by its path, and a draft by its name. With -v its text is shown too. To begin a
recipe of your own with the text of another: workflows new NAME --from OTHER.`,
		Example: examples(a.cfg.Name, "workflows show research", "", "workflows show drafts/brief.yaml -v", "", "workflows show research -o json", ""),
		RunE: func(_ *cobra.Command, args []string) error {
			loadWorkflows(a)
			i, err := a.host().Show(host.Workflows, args[0])
			if err != nil {
				return asUsage(a, err)
			}
			if a.programs() {
				return a.out.value(i)
			}
			printHeader(a, i)
			printInputs(a, i.Inputs)
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

// printInputs writes what a workflow takes.
func printInputs(a *app, inputs []workflow.Input) {
	a.out.line("")
	for _, l := range inputLines(inputs) {
		a.out.line(l)
	}
}

// inputLines are what a workflow takes, as a table.
func inputLines(inputs []workflow.Input) []string {
	if len(inputs) == 0 {
		return []string{"Inputs:", "  none"}
	}
	table := [][]string{{"Inputs:"}}
	for _, in := range inputs {
		table = append(table, []string{fmt.Sprintf("  %-12s", transcript.Line(in.Name)), fmt.Sprintf("%-8s %s", typeWord(in.Type), transcript.Line(inputText(in)))})
	}
	return aligned(table, 34)
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
	a.out.table(table, 0, 0)
}
