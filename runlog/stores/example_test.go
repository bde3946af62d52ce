package stores_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/stores"
)

func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	place, err := runlog.ParsePlace("sqlite:" + filepath.Join(dir, "runs.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	store, closer, err := stores.Open(ctx, &runlog.OpenOptions{Place: place})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer closer.Close()
	runs, err := store.Runs(ctx, nil)
	fmt.Println(len(runs), err)
	// Output: 0 <nil>
}
