// Package promtext writes metrics of a store as Prometheus reads them. The numbers come from the summaries in the listing of runs, so no log is read.
package promtext

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/runlog"
)

// ContentType is the type of what Write writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// A Metric is a gauge or a counter with its values.
type Metric struct {
	Name, Help string
	Counter    bool
	Label      string             // of Values, "" if there is one value
	Values     map[string]float64 // by the label's value; "" without a label
}

// Write writes metrics in their order, values by label.
func Write(w io.Writer, all []Metric) error {
	var b strings.Builder
	for _, m := range all {
		kind := "gauge"
		if m.Counter {
			kind = "counter"
		}
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", m.Name, m.Help, m.Name, kind)
		for _, v := range slices.Sorted(maps.Keys(m.Values)) {
			label := ""
			if m.Label != "" {
				label = fmt.Sprintf("{%s=%q}", m.Label, v)
			}
			fmt.Fprintf(&b, "%s%s %g\n", m.Name, label, m.Values[v])
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Runs returns the metrics of listed runs. What is a sum over the runs of a store falls when runs are deleted, so all of them are gauges.
func Runs(infos []runlog.Info) []Metric {
	status, waiting := map[string]float64{}, map[string]float64{}
	var open, tokens, cost, unpriced, steps, tasks, records, executions, takeovers, forks float64
	for i := range infos {
		info := &infos[i]
		status[string(info.Status)]++
		records, executions, takeovers = records+float64(info.Head), executions+float64(info.Epoch), takeovers+float64(info.Takeovers)
		if info.Parent != "" {
			forks++
		}
		s := summary.Of(info)
		if s == nil {
			continue
		}
		if s.Waits != "" {
			waiting[s.Waits]++
		}
		if s.More {
			unpriced++
		}
		open, tokens, cost = open+float64(s.Open), tokens+float64(s.Tokens), cost+float64(s.Cost)/1e6
		steps, tasks = steps+float64(s.Steps), tasks+float64(s.Done)
	}
	one := func(name, help string, v float64) Metric {
		return Metric{Name: name, Help: help, Values: map[string]float64{"": v}}
	}
	return []Metric{
		{Name: "superstep_runs", Help: "Runs of the store by status.", Label: "status", Values: status},
		{Name: "superstep_runs_waiting", Help: "Runs that wait, by what for.", Label: "for", Values: waiting},
		one("superstep_runs_derived", "Runs that another run is the parent of: forks, continued conversations, child runs.", forks),
		one("superstep_runs_unpriced", "Runs with a model that tells no price.", unpriced),
		one("superstep_questions_open", "Questions that wait for an answer.", open),
		one("superstep_tokens", "Tokens of all runs of the store.", tokens),
		one("superstep_cost_dollars", "Known cost of all runs of the store.", cost),
		one("superstep_supersteps", "Supersteps committed by all runs of the store.", steps),
		one("superstep_nodes_done", "Nodes with a result, in all runs of the store.", tasks),
		one("superstep_records", "Records of all runs of the store.", records),
		one("superstep_executions", "How often the runs of the store were acquired.", executions),
		one("superstep_takeovers", "Takeovers from crashed processes that no release followed.", takeovers),
	}
}
