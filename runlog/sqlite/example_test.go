package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/sqlite"
)

// A run is kept in a file and resumed by whoever opens it next.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "runs.db")
	if err := session(file, &runlog.NewRun{Workflow: "brief"}, "search"); err != nil {
		fmt.Println(err)
	}
	if err := session(file, nil, "search", "write"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// epoch 1, 0 records
	// doing search
	// epoch 2, 1 records
	// doing write
}

// session opens the store and the run, does the tasks that have not been done, and
// closes both.
func session(file string, create *runlog.NewRun, tasks ...string) (err error) {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	j, err := journal.Open(ctx, store, "my-run", &journal.Options{Create: create})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close(ctx)) }()
	fmt.Printf("epoch %d, %d records\n", j.Info().Epoch, j.Info().Head)
	for _, task := range tasks {
		_, err := j.Scope(task).Do(ctx, &journal.Effect{Key: "work", Do: func(context.Context, string) (json.RawMessage, error) {
			fmt.Println("doing", task)
			return json.RawMessage(`"done"`), nil
		}})
		if err != nil {
			return err
		}
	}
	return nil
}
