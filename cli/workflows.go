package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/draw"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/transcript"
	"github.com/superstep-dev/superstep/workflow"
)

func (a *app) workflowsCommand() *cobra.Command {
	n := a.opt.Name
	c := &cobra.Command{
		Use: "workflows", Short: "Look at the workflows there are",
		Example: examples(n, "workflows list", "", "workflows show research", "", "workflows graph research --format svg > research.svg", "", "workflows graph --run @last", "with the states of its nodes"),
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("workflows: which of list, show, graph?")
			}
			return a.unknownCommand(cmd, args[:1])
		},
	}
	c.AddCommand(a.workflowsList(), a.workflowsShow(), a.workflowsGraph())
	return c
}

type workflowJSON struct {
	Name        string      `json:"name"`
	Description string      `json:"description,omitempty"`
	Inputs      []inputJSON `json:"inputs,omitempty"`
	Uses        []string    `json:"uses,omitempty"` // other workflows, by name
}

type inputJSON struct {
	Name        string          `json:"name"`
	Type        string          `json:"type"`
	Description string          `json:"description,omitempty"`
	Required    bool            `json:"required,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
}

func workflowsJSON(w *workflow.Workflow) workflowJSON {
	out := workflowJSON{Name: w.Name, Description: w.Description, Uses: w.Uses}
	for _, in := range w.List() {
		out.Inputs = append(out.Inputs, inputJSON(in))
	}
	return out
}

func (a *app) workflowsList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the workflows there are", Args: a.none,
		Example: examples(a.opt.Name, "workflows list", "", "workflows list -o json", ""),
		RunE: func(*cobra.Command, []string) error {
			set, err := a.workflows("")
			if err != nil {
				return err
			}
			rows := make([]workflowJSON, len(set))
			for i, w := range set {
				rows[i] = workflowsJSON(w)
			}
			if a.set.output == "json" {
				return a.out.json(rows, true)
			}
			for i := range rows {
				if a.programs() {
					if err := a.out.json(rows[i], false); err != nil {
						return err
					}
					continue
				}
				a.out.line(fmt.Sprintf("%-16s  %s", rows[i].Name, transcript.Line(rows[i].Description)))
			}
			return nil
		},
	}
}

// named is for commands about one workflow.
func (a *app) named(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(fmt.Sprintf("%s: name one workflow; `%s` shows those there are", strings.TrimPrefix(cmd.CommandPath(), a.opt.Name+" "), a.hint("workflows", "list")))
	}
	return nil
}

func (a *app) workflowNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	set, err := a.workflows("")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, w := range set {
		out = append(out, w.Name+"\t"+transcript.Line(w.Description))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) workflow(name string) (*workflow.Workflow, error) {
	set, err := a.workflows("")
	if err != nil {
		return nil, err
	}
	w, err := set.Find(name)
	if err != nil {
		return nil, usage(err.Error())
	}
	return w, nil
}

func (a *app) workflowsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show what a workflow is, takes and looks like", Args: a.named, ValidArgsFunction: a.workflowNames,
		Example: examples(a.opt.Name, "workflows show research", "", "workflows show research -o json", ""),
		RunE: func(_ *cobra.Command, args []string) error {
			w, err := a.workflow(args[0])
			if err != nil {
				return err
			}
			if a.programs() {
				return a.out.json(workflowsJSON(w), a.set.output == "json")
			}
			a.out.line(w.Name + "\n\n" + w.Description + "\n\nInputs:")
			for _, in := range w.List() {
				line := fmt.Sprintf("  %-16s %-8s %s", in.Name, in.Type, transcript.Line(in.Description))
				if in.Required {
					line += " (required)"
				}
				a.out.line(strings.TrimRight(line, " "))
			}
			flow, err := graphOf(w, nil)
			if err != nil {
				return nil //nolint:nilerr // a workflow need not be one graph
			}
			a.out.line("\n" + strings.TrimRight(draw.Text(flow.Shape(), nil), "\n"))
			return nil
		},
	}
}

func graphOf(w *workflow.Workflow, inputs json.RawMessage) (graph.Reading, error) {
	if w.Flow == nil {
		return nil, &workflow.OpaqueError{Name: w.Name}
	}
	return w.Flow(inputs)
}

func (a *app) workflowsGraph() *cobra.Command {
	var format, run, direction string
	var closed bool
	cmd := &cobra.Command{
		Use: "graph [NAME]", Short: "Draw a workflow, or a run of it", ValidArgsFunction: a.workflowNames,
		Example: examples(a.opt.Name, "workflows graph research", "", "workflows graph research --format mermaid", "for Markdown", "workflows graph --run @last --format svg > run.svg", "with the states of its nodes"),
	}
	cmd.Flags().StringVar(&format, "format", "text", "text, mermaid, dot or svg")
	cmd.Flags().StringVar(&run, "run", "", "colour the nodes by what became of them in this run")
	cmd.Flags().StringVar(&direction, "direction", "TD", "TD (top down) or LR (left to right)")
	cmd.Flags().BoolVar(&closed, "closed", false, "draw graphs within graphs as one node")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := oneOf("--format", format, "text", "mermaid", "dot", "svg"); err != nil {
			return err
		}
		if err := oneOf("--direction", direction, "TD", "LR"); err != nil {
			return err
		}
		if len(args) > 1 || (len(args) == 0) == (run == "") {
			return usage("workflows graph: name one workflow, or one run with --run")
		}
		opt := &draw.Options{Closed: closed}
		if direction == "LR" {
			opt.Direction = draw.LeftRight
		}
		var w *workflow.Workflow
		var inputs json.RawMessage
		var err error
		if run == "" {
			w, err = a.workflow(args[0])
		} else {
			w, inputs, err = a.drawnRun(cmd, run, opt)
		}
		if err != nil {
			return err
		}
		flow, err := graphOf(w, inputs)
		if err != nil {
			return err
		}
		if opt.Title == "" {
			opt.Title = w.Name
		}
		return a.draw(format, flow.Shape(), opt)
	}
	return cmd
}

// drawnRun gives the workflow and the inputs of a run, and the states of its nodes to the picture.
func (a *app) drawnRun(cmd *cobra.Command, ref string, opt *draw.Options) (*workflow.Workflow, json.RawMessage, error) {
	_, info, err := a.find(cmd.Context(), ref)
	if err != nil {
		return nil, nil, err
	}
	w, err := a.workflow(info.Workflow)
	if err != nil {
		return nil, nil, err
	}
	var started runlog.RunStarted
	var seen draw.Progress
	for r, err := range runlog.Records(cmd.Context(), a.store, info.ID, 0) {
		if err != nil {
			return nil, nil, err
		}
		if r.Kind == runlog.KindRunStarted {
			if err := json.Unmarshal(r.Data, &started); err != nil {
				return nil, nil, err
			}
		}
		seen.Apply(&r)
	}
	opt.Status = seen.Status()
	opt.Title = fmt.Sprintf("%s %s (%s)", info.Workflow, info.ID, info.Status)
	return w, started.Inputs, nil
}

func (a *app) draw(format string, shape graph.Shape, opt *draw.Options) error {
	var picture string
	switch format {
	case "mermaid":
		picture = draw.Mermaid(shape, opt)
	case "dot":
		picture = draw.DOT(shape, opt)
	case "svg":
		picture = string(draw.SVG(shape, opt))
	default:
		picture = draw.Text(shape, opt)
	}
	if a.programs() {
		return a.out.json(map[string]string{"format": format, "picture": picture}, a.set.output == "json")
	}
	a.out.line(strings.TrimRight(picture, "\n"))
	return nil
}
