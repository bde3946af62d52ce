package archive_test

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/internal/archive"
	"github.com/superstep-dev/superstep/runlog"
)

// A run is carried from one store to another.
func Example() {
	ctx := context.Background()
	here, there := runlog.NewMemory(nil), runlog.NewMemory(nil)
	log, _, err := here.Acquire(ctx, "my-run", &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "research", Title: "cells"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	begun := runlog.Record{Kind: runlog.KindRunStarted, Time: time.Unix(0, 0), Data: []byte(`{"workflow":"research"}`)}
	done := runlog.Record{Kind: runlog.KindRunFinished, Time: time.Unix(0, 0), Data: []byte(`{"output":"42","steps":1}`)}
	if err := log.Append(ctx, &runlog.Batch{Records: []runlog.Record{begun, done}, Status: runlog.Completed}); err != nil {
		fmt.Println(err)
		return
	}
	var file bytes.Buffer
	if err := archive.Export(ctx, here, "my-run", &file, nil); err != nil {
		fmt.Println(err)
		return
	}
	info, err := archive.Import(ctx, there, bytes.NewReader(file.Bytes()), &archive.ImportOptions{ID: "their-run"})
	fmt.Println(info.ID, info.Status, info.Title, info.Head, err)
	// Output: their-run completed cells 2 <nil>
}
