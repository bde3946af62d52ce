package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/recipe"
)

// topNode is the node of the graph of the run that a path lies in.
func topNode(path string) string {
	if i := strings.IndexAny(path, "[#/:"); i >= 0 {
		return path[:i]
	}
	return path
}

// ahead refuses answers that no step of a workflow can ask for, before anything runs.
func (a answering) ahead(w *workflow.Workflow, inputs json.RawMessage, ans answers) error {
	if len(ans) == 0 || w.Flow == nil {
		return nil
	}
	flow, err := w.Flow(inputs)
	if err != nil {
		return nil // the run says so, better
	}
	if err := knownSteps(w.Name, flow.Shape(), ans); err != nil {
		return err
	}
	r := keptRuns(a).recipeOf(w.Name)
	if r == nil {
		return nil
	}
	for _, g := range ans {
		for _, s := range r.Steps {
			if s.ID != g.path || s.Ask == nil || s.Gate != nil {
				continue
			}
			q, err := askedBy(s.Ask)
			if err != nil {
				return err
			}
			if _, err := fit(q, g.value); err != nil {
				return usage(fmt.Sprintf("--answer %s: %v", quote(g.text), err))
			}
		}
	}
	return nil
}

// knownSteps refuses answers for steps that a graph does not have.
func knownSteps(name string, shape graph.Shape, ans answers) error {
	var nodes []string
	known := map[string]bool{}
	for _, n := range shape.Nodes {
		nodes = append(nodes, n.Name)
		known[n.Name] = true
	}
	for _, g := range ans {
		if node := topNode(g.path); !known[node] {
			return usage(fmt.Sprintf("--answer %s: workflow %s has no step %q%s", quote(g.text), name, node, suggest.Hint(node, nodes)))
		}
	}
	return nil
}

// askable refuses answers that no step of a run can ask for.
func (a answering) askable(ctx context.Context, e *superstep.Engine, info runlog.Info, ans answers) error {
	if len(ans) == 0 {
		return nil
	}
	flow, err := e.Reading(ctx, info.ID)
	if err != nil {
		return nil // who goes on with the run says so
	}
	return knownSteps(info.Workflow, flow.Shape(), ans)
}

// keptRuns knows what runs are made of.
type keptRuns struct{ *app }

// recipeOf is the recipe that a workflow was made of, nil if it is not known or there is none.
func (a keptRuns) recipeOf(name string) *recipe.Recipe {
	i, err := a.host().Look(cmp.Or(a.host().File(name), name))
	if err != nil || i.Name != name {
		return nil
	}
	return i.Recipe()
}

// askedBy is what a step asks, as far as it says what may be answered.
func askedBy(a *recipe.Ask) (*runlog.Question, error) {
	schema, err := json.Marshal(a.Schema())
	return &runlog.Question{Options: a.Options, Schema: schema}, err
}

// keptFile is the text of a recipe as a run keeps it.
type keptFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// kept is what a run of a recipe is made of.
type kept struct {
	Files   []keptFile
	Setting struct {
		Dir, Model string
		OnAsk      string `json:"on_ask"`
		Rules      []string
	}
}

// recipeFiles are the recipes that a run is made of, the first its own; nil if it is no run of a recipe.
func (a keptRuns) recipeFiles(ctx context.Context, id string) []keptFile {
	return a.pinned(ctx, id).Files
}

func (a keptRuns) pinned(ctx context.Context, id string) (out kept) {
	recs, err := a.store.Read(ctx, id, 1, 1)
	var d runlog.RunStarted
	if err != nil || len(recs) == 0 || recs[0].Kind != runlog.KindRunStarted || json.Unmarshal(recs[0].Data, &d) != nil {
		return out // who needs it says what is wrong
	}
	_ = json.Unmarshal(d.Pinned, &out) // nothing, or of another kind
	if d.Imported != nil {             // the file has no say in this
		out.Setting.Model, out.Setting.OnAsk, out.Setting.Rules = "", "", nil
	}
	return out
}

// changedSince says so if the recipe of a run is another one by now, "" if it is not or nobody knows.
func (a keptRuns) changedSince(ctx context.Context, info *runlog.Info) string {
	file, _, changed := a.edited(ctx, info)
	if !changed {
		return ""
	}
	return fmt.Sprintf("%s has changed since run %s began, which finishes on its own version; compare: %s", file, info.ID, a.hint("runs", "diff", info.ID, quote(file)))
}

// edited is the file of the recipe of a run as it is now, and whether it is another one than the run has kept.
func (a keptRuns) edited(ctx context.Context, info *runlog.Info) (file string, text []byte, changed bool) {
	p := a.pinned(ctx, info.ID)
	if len(p.Files) == 0 {
		return "", nil, false
	}
	file = p.Files[0].Name
	if i, err := a.host().Show(host.Workflows, info.Workflow); err == nil && i.Path == file {
		text = []byte(i.Text)
	}
	if text == nil {
		path := file
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.Setting.Dir, path)
		}
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return file, nil, false // it was moved, or typed elsewhere
		}
	}
	return file, text, string(text) != p.Files[0].Text
}
