package rundir_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/superstep-dev/superstep/internal/rundir"
	"github.com/superstep-dev/superstep/runlog"
)

// The directory of a run has what it did as files.
func Example() {
	ctx := context.Background()
	store := runlog.NewMemory(nil)
	log, _, err := store.Acquire(ctx, "my-run", &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "research", Title: "cells"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := runlog.Record{Kind: runlog.KindRunFinished, Time: time.Unix(0, 0), Data: []byte(`{"output":"# Cells\n\nThey divide.","steps":1}`)}
	if err := log.Append(ctx, &runlog.Batch{Records: []runlog.Record{done}, Status: runlog.Completed}); err != nil {
		fmt.Println(err)
		return
	}
	dir, err := os.MkdirTemp("", "run")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := rundir.Write(ctx, store, "my-run", dir, nil); err != nil {
		fmt.Println(err)
		return
	}
	report, err := os.ReadFile(filepath.Join(dir, "reports", "report.md"))
	fmt.Printf("%s%v\n", report, err)
	// Output:
	// # Cells
	//
	// They divide.
	// <nil>
}
