package superstep_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
	"github.com/superstep-dev/superstep/workflow"
)

// The folder of a run is there while it executes, so that it is there too if the process is killed.
func TestFolderWhileItRuns(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	type file struct {
		Status  runlog.Status
		Records uint64
		Ms      int64 `json:"duration_ms"`
	}
	read := func() (f file) {
		b, err := os.ReadFile(filepath.Join(root, "r", "run.json"))
		if err == nil {
			err = json.Unmarshal(b, &f)
		}
		if err != nil {
			return file{}
		}
		return f
	}
	release := make(chan struct{})
	r := &rig{second: func(ctx context.Context, _ *graph.Task) (string, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return "2", nil
	}}
	e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: workflow.Set{r.workflow(t)}, Folder: func(string) (string, *redact.Redactor) {
		return filepath.Join(root, "r"), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	run := start(t, e, nil)
	<-r.entered
	for end := time.Now().Add(time.Minute); read().Status != runlog.Running || read().Records < 3; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("while it runs: %+v", read())
		}
	}
	close(release)
	out, err := run.Wait(t.Context())
	if got := read(); err != nil || out.Folder != nil || got.Status != runlog.Completed || got.Ms == 0 {
		t.Errorf("%+v, %v, %v", got, err, out.Folder)
	}
}
