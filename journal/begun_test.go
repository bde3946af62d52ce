package journal

import (
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
)

// A journal forgets when a task began once the task has its result.
func TestForgetsWhenTasksBegan(t *testing.T) {
	t.Parallel()
	j, err := Open(t.Context(), runlog.NewMemory(nil), "r", &Options{Create: &runlog.NewRun{Workflow: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		path := fmt.Sprintf("work[%d]", n)
		j.Scope(path).Begin()
		j.Scope(path).Took()
		if err := j.Write(t.Context(), "", runlog.KindTaskDone, path, runlog.TaskDone{Node: "work"}); err != nil {
			t.Fatal(err)
		}
	}
	if len(j.begun) > 0 {
		t.Errorf("it knows of %d tasks", len(j.begun))
	}
}
