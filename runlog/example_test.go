package runlog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// A run is written by whoever holds it, and read by anybody.
func Example() {
	ctx := context.Background()
	store := runlog.NewMemory(nil)
	log, _, err := store.Acquire(ctx, "my-run", &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "brief"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _, err = store.Acquire(ctx, "my-run", nil)
	fmt.Println("held:", errors.As(err, new(*runlog.BusyError)))
	err = log.Append(ctx, &runlog.Batch{Records: []runlog.Record{{Time: time.Now().UTC(), Kind: "searched", Path: "search", Data: json.RawMessage(`{"found":3}`)}}, Status: runlog.Paused})
	if err != nil {
		fmt.Println(err)
		return
	}
	for r, err := range runlog.Records(ctx, store, "my-run", 0) {
		fmt.Println(r.Seq, r.Kind, r.Path, string(r.Data), err)
	}
	fmt.Println(log.Release(ctx))
	// Output:
	// held: true
	// 1 searched search {"found":3} <nil>
	// <nil>
}
