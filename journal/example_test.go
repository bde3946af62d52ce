package journal_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// An effect whose outcome is in the log is not done again.
func Example() {
	ctx := context.Background()
	store := runlog.NewMemory(nil)
	order := &journal.Effect{
		Key: "order", Kind: "tool", Name: "shop", Repeat: journal.RepeatNever,
		Do: func(context.Context, string) (json.RawMessage, error) {
			fmt.Println("ordering a book")
			return json.RawMessage(`{"order":17}`), nil
		},
	}
	work := func(opt *journal.Options) {
		j, err := journal.Open(ctx, store, "my-run", opt)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer j.Close(ctx)
		out, err := j.Scope("buy").Do(ctx, order)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s\n", out)
	}
	work(&journal.Options{Create: &runlog.NewRun{Workflow: "shopping"}})
	work(nil) // another time, or another process

	for r, err := range runlog.Records(ctx, store, "my-run", 1) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Seq, r.Epoch, r.Kind, r.Path)
	}
	// Output:
	// ordering a book
	// {"order":17}
	// {"order":17}
	// 1 1 effect.intended buy
	// 2 1 effect.settled buy
}
