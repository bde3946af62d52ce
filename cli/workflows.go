package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/draw"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

func workflowsCommand(a *app) *cobra.Command {
	n := a.cfg.Name
	list := listCommand(a, host.Workflows, nil)
	list.Long = list.Short + "\n\nRecipes that cannot be used are listed with what is wrong with them, and drafts by agents with the rest."
	subs := []*cobra.Command{list, workflowsShow(a), workflowsGraph(a)}
	pairs := []string{"workflows list", "", "workflows show research", "", "workflows graph research --format svg > research.svg", "",
		"workflows graph --run @last", "with the states of its nodes"}
	subs = append(subs, workflowsNew(a), workflowsSchema(a), workflowsApprove(a), workflowsReject(a))
	pairs = append(pairs, "workflows new brief", "", "workflows approve brief", "what an agent wrote")
	c := &cobra.Command{
		Use: "workflows", Short: "List, show and create workflows",
		Example: examples(n, pairs...),
	}
	c.AddCommand(subs...)
	return listFirst(a, c)
}

// named is the argument check of commands about one workflow.
func (a *app) named(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(fmt.Sprintf("%s: name one workflow; `%s` shows those there are", strings.TrimPrefix(cmd.CommandPath(), a.cfg.Name+" "),
			a.hint("workflows", "list")))
	}
	return nil
}

func (a *app) workflowNames(cmd *cobra.Command, args []string, rest string) ([]string, cobra.ShellCompDirective) {
	words, failed := itemNames(host.Workflows, nil).words(a, false)(cmd, args, rest)
	if failed != cobra.ShellCompDirectiveError && len(args) == 0 {
		failed = cobra.ShellCompDirectiveDefault // recipes are files too
	}
	return words, failed
}

func workflowNamed(a *app, name string) (*workflow.Workflow, error) {
	w, err := findWorkflow(a, name)
	return w, asUsage(err)
}

// asUsage turns the error about an unknown workflow into a usage error.
func asUsage(err error) error {
	var unknown *workflow.UnknownError
	if errors.As(err, &unknown) {
		return usage(err.Error())
	}
	return err
}

func graphOf(w *workflow.Workflow, inputs json.RawMessage) (graph.Reading, error) {
	if w.Flow == nil {
		return nil, &workflow.OpaqueError{Name: w.Name}
	}
	return w.Flow(inputs)
}

func workflowsGraph(a *app) *cobra.Command {
	var format, run, direction string
	var closed bool
	cmd := &cobra.Command{
		Use: "graph [NAME|FILE]", Short: "Draw a workflow, or a run of it", ValidArgsFunction: a.workflowNames,
		Example: examples(a.cfg.Name, "workflows graph research", "", "workflows graph research --format mermaid", "for Markdown",
			"workflows graph --run @last --format svg > run.svg", "with the states of its nodes"),
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
			opt.LeftRight = true
		}
		var w *workflow.Workflow
		var inputs json.RawMessage
		var err error
		if run == "" {
			loadWorkflows(a)
			var i *host.Item
			if i, err = a.host().Look(args[0]); err == nil {
				w, err = a.host().Draw(i)
			}
			err = asUsage(err)
		} else {
			w, inputs, err = drawnRun(a, cmd, run, opt)
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
		return printPicture(a, format, flow.Shape(), opt)
	}
	return cmd
}

// drawnRun returns the workflow and the inputs of a run, and the states of its nodes for the
// picture.
func drawnRun(a *app, cmd *cobra.Command, ref string, opt *draw.Options) (*workflow.Workflow, json.RawMessage, error) {
	_, info, err := findRun(cmd.Context(), a, ref)
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
	w, err := workflowOfRun(a, &started)
	if err != nil {
		return nil, nil, err
	}
	items, _, err := a.host().RunItems(cmd.Context(), []runlog.Info{info})
	if err != nil {
		return nil, nil, err
	}
	opt.Status = seen.Status()
	opt.Title = fmt.Sprintf("%s %s (%s)", info.Workflow, info.ID, items[0].Status)
	return w, started.Inputs, nil
}

// workflowOfRun returns the workflow of a run, as the run has pinned it.
func workflowOfRun(a *app, started *runlog.RunStarted) (*workflow.Workflow, error) {
	if started.Pinned != nil {
		return a.host().Restore(started.Workflow, started.Pinned)
	}
	return workflowNamed(a, started.Workflow)
}

func printPicture(a *app, format string, shape graph.Shape, opt *draw.Options) error {
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
	return a.print(map[string]string{"format": format, "picture": picture}, strings.TrimRight(picture, "\n"))
}
