package storekit_test

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/seal"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// A store of your own is protected like those of this module.
func ExampleProtect() {
	ctx := context.Background()
	raw := runlog.NewMemory(nil) // the store of your own
	keys, err := seal.ParseKeys("6368616e676520746869732070617373776f726420746f206120736563726574")
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := storekit.Protect(raw, &storekit.Protection{
		Keys:    keys,
		Environ: []string{"SHOP_TOKEN=tok-9917-a1"}, // nil for the environment of the process
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	log, info, err := store.Acquire(ctx, "my-run", &runlog.AcquireOptions{Create: &runlog.NewRun{Title: "buy with tok-9917-a1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Release(ctx)
	fmt.Println(info.Title)

	without, err := storekit.Protect(raw, &storekit.Protection{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _, err = without.Acquire(ctx, "another", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	fmt.Println(err)
	// Output:
	// buy with [redacted:SHOP_TOKEN]
	// the runs of this store are encrypted with key ab49004b, and it was opened without a key: a new run would not be encrypted; open the store with that key
}
