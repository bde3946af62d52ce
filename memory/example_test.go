package memory_test

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/runlog"
)

func Example() {
	ctx := context.Background()
	store := runlog.NewMemory(nil) // that of the runs; sqlite.Open gives one that outlives the process
	space, err := memory.New(store, nil).In("project")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := space.Put(ctx, "style", "short sentences", nil); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(memory.Get[string](ctx, space, "style"))
	_, err = memory.Get[string](ctx, space, "colour")
	fmt.Println(err)
	// Output:
	// short sentences <nil>
	// memory project: there is nothing under "colour"
}
