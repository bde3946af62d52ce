package runlogtest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// A process dies at its second append, and the next one finds what the first had written.
func ExampleMortal() {
	ctx := context.Background()
	store := runlogtest.NewMortal()
	store.DieAt(1, false)
	log, _, err := store.Acquire(ctx, "my-run", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, kind := range []runlog.Kind{"first", "second"} {
		if err := log.Append(ctx, &runlog.Batch{Records: []runlog.Record{{Time: time.Now().UTC(), Kind: kind}}}); errors.Is(err, runlogtest.ErrCrash) {
			fmt.Println("died before the record", kind)
		}
	}
	store.Revive()
	for r, err := range runlog.Records(ctx, store, "my-run", 0) {
		fmt.Println("there is the record", r.Kind, err)
	}
	// Output:
	// died before the record second
	// there is the record first <nil>
}
