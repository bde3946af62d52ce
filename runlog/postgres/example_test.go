package postgres_test //nolint:testableexamples // the example needs a server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/postgres"
)

// A run is kept in a database that several machines share. The password comes from
// PGPASSWORD or ~/.pgpass. This example needs a server, so it is only compiled.
func Example() {
	if err := session(context.Background(), "postgres://superstep@db.example.com:5432/agents"); err != nil {
		fmt.Println(err)
	}
}

func session(ctx context.Context, dsn string) (err error) {
	store, err := postgres.Open(ctx, dsn, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for _, note := range store.Notes() {
		fmt.Println("note:", note)
	}
	j, err := journal.Open(ctx, store, "my-run", &journal.Options{Create: &runlog.NewRun{Workflow: "brief"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close(ctx)) }()
	_, err = j.Scope("search").Do(ctx, &journal.Effect{Key: "work", Do: func(context.Context, string) (json.RawMessage, error) {
		return json.RawMessage(`"done"`), nil
	}})
	return err
}
