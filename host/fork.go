package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/runlog"
)

// ForkAt returns the record at which a fork of a run begins, and the options of the fork. Point is
// a superstep, seq:N, or a step or task, which is done again; see superstep.Engine. Each element of
// sets is FIELD=value, or STEP=update as JSON; in a recipe the update is the output of the step.
func (h *Host) ForkAt(
	ctx context.Context, e *superstep.Engine, info *runlog.Info, point string, sets []string,
) (at uint64, opt *superstep.ForkOptions, err error) {
	if strings.Contains(point, "/") {
		return 0, nil, &superstep.PointError{Why: "a fork begins at a superstep of the run's own graph, not of one inside of a task"}
	}
	m, err := e.At(ctx, info.ID, point)
	if err != nil {
		return 0, nil, err
	}
	again := nodeOf(point)
	opt = &superstep.ForkOptions{}
	if opt.Edits, err = h.edits(ctx, e, info, sets, again); err != nil {
		return 0, nil, err
	}
	if again != "" {
		opt.Again = []string{again}
	}
	at = m.Seq
	if seq, ok := strings.CutPrefix(point, "seq:"); ok { // what was under way there is kept
		at, err = strconv.ParseUint(seq, 10, 64)
	}
	return at, opt, err
}

// nodeOf returns the node named by a checkpoint reference, or "" if the reference is a superstep or
// a record.
func nodeOf(point string) string {
	if _, err := strconv.Atoi(point); err == nil || strings.HasPrefix(point, "seq:") {
		return ""
	}
	return pregel.VertexOf(point)
}

// edits reads edits from the words FIELD=value and STEP=update.
func (h *Host) edits(ctx context.Context, e *superstep.Engine, info *runlog.Info, sets []string, again string) ([]graph.Edit, error) {
	if len(sets) == 0 {
		return nil, nil
	}
	flow, err := e.Inside(ctx, info.ID, "")
	if err != nil {
		return nil, err
	}
	var nodes []string
	for _, n := range flow.Shape().Nodes {
		nodes = append(nodes, n.Name)
	}
	outputs := len(h.Pinned(ctx, info.ID).Files) > 0 // which is all the state that there is
	var out []graph.Edit
	fields := map[string]json.RawMessage{}
	for _, s := range sets {
		key, value, ok := strings.Cut(s, "=")
		step, raw := slices.Contains(nodes, key), json.RawMessage(value)
		switch {
		case !ok || key == "":
			return nil, mistake(fmt.Sprintf("--set: want FIELD=value or STEP=update, got %q%s", s, suggest.Hint(s, nodes)))
		case outputs && !step:
			return nil, mistake(fmt.Sprintf("--set: workflow %s has no step %q%s", info.Workflow, key, suggest.Hint(key, nodes)))
		case outputs && key == again:
			return nil, mistake(fmt.Sprintf("--set %s: the fork does step %s again; go on from a step that follows it", clean.Shell(s), key))
		case step && !outputs && !json.Valid(raw):
			return nil, mistake(fmt.Sprintf("--set: the update of %s is no JSON: %s", key, value))
		}
		if !json.Valid(raw) { // a text
			if raw, err = json.Marshal(value); err != nil {
				return nil, err
			}
		}
		if step {
			out = append(out, graph.Edit{Node: key, Update: raw})
		} else {
			fields[key] = raw
		}
	}
	if len(fields) > 0 {
		update, err := json.Marshal(fields)
		if err != nil {
			return nil, err
		}
		out = append([]graph.Edit{{Update: update}}, out...)
	}
	return out, nil
}
