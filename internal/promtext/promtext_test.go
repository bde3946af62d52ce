package promtext

import (
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
)

// What a listing says is counted, and written as Prometheus reads it.
func TestRuns(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	err := Write(&b, append(Runs([]runlog.Info{
		{Status: runlog.Completed, Head: 10, Epoch: 1, Summary: `{"head":10,"steps":3,"done":2,"tokens":50,"cost":1500000}`},
		{Status: runlog.Paused, Head: 5, Epoch: 2, Parent: "a", Summary: `{"head":5,"waits":"person","open":2,"tokens":1,"more":true}`},
		{Status: runlog.Paused, Head: 1, Takeovers: 1},
	}), Metric{Name: "jobs_total", Help: "Jobs.", Counter: true, Label: "of", Values: map[string]float64{"a \"b\"": 2}}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# HELP superstep_runs Runs of the store by status.\n# TYPE superstep_runs gauge\nsuperstep_runs{status=\"completed\"} 1\nsuperstep_runs{status=\"paused\"} 2\n",
		"superstep_runs_waiting{for=\"person\"} 1\n", "superstep_runs_derived 1\n", "superstep_runs_unpriced 1\n", "superstep_questions_open 2\n",
		"superstep_tokens 51\n", "superstep_cost_dollars 1.5\n", "superstep_supersteps 3\n", "superstep_nodes_done 2\n", "superstep_records 16\n",
		"superstep_executions 3\n", "superstep_takeovers 1\n", "# TYPE jobs_total counter\njobs_total{of=\"a \\\"b\\\"\"} 2\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &b)
		}
	}
}
