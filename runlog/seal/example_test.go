package seal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/seal"
)

// A store behind a seal is used like any other.
func Example() {
	ctx := context.Background()
	disk := runlog.NewMemory(nil) // or any other store
	keys, err := seal.ParseKeys("6368616e676520746869732070617373776f726420746f206120736563726574")
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := seal.New(disk, keys...)
	if err != nil {
		fmt.Println(err)
		return
	}
	log, _, err := store.Acquire(ctx, "my-run", &runlog.AcquireOptions{Create: &runlog.NewRun{Title: "the merger"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Release(ctx)
	note := runlog.Record{Kind: runlog.KindEvent, Time: time.Unix(0, 0), Data: json.RawMessage(`{"price":17}`)}
	if err := log.Append(ctx, &runlog.Batch{Records: []runlog.Record{note}}); err != nil {
		fmt.Println(err)
		return
	}
	for r, err := range runlog.Records(ctx, store, "my-run", 1) {
		fmt.Printf("%s %v\n", r.Data, err)
	}
	for _, err := range runlog.Records(ctx, disk, "my-run", 1) {
		fmt.Println(err)
	}
	// Output:
	// {"price":17} <nil>
	// run my-run is encrypted with key ab49004b; open the store with that key to read it
}
