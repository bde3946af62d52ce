package redact_test

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
)

// What the environment says is secret never gets into the log.
func Example() {
	ctx := context.Background()
	environ := []string{"HOME=/home/me", "SHOP_TOKEN=tok-9917-a1"} // as os.Environ gives it
	r := redact.New(redact.FromEnv(environ)...)
	store := redact.Store(runlog.NewMemory(nil), r)

	j, err := journal.Open(ctx, store, "my-run", &journal.Options{Create: &runlog.NewRun{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer j.Close(ctx)
	if err := j.Scope("buy").Emit(ctx, "note", "header X-Shop: tok-9917-a1"); err != nil {
		fmt.Println(err)
		return
	}
	for rec, err := range runlog.Records(ctx, store, "my-run", 1) {
		fmt.Printf("%s %v\n", rec.Data, err)
	}
	fmt.Println(r.Text("postgres://me:secret@db/shop"))
	// Output:
	// {"name":"note","data":"header X-Shop: [redacted:SHOP_TOKEN]"} <nil>
	// postgres://me:[redacted]@db/shop
}
