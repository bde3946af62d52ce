package redis_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/redisserver"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redis"
)

// A run is kept in Redis and resumed by whoever opens it next.
func Example() { //nolint:testableexamples // it needs a server; TestExample runs it with one
	url := "redis://localhost:6379/0"
	if err := session(os.Stdout, url, &runlog.NewRun{Workflow: "brief"}, "search"); err != nil {
		fmt.Println(err)
	}
	if err := session(os.Stdout, url, nil, "search", "write"); err != nil {
		fmt.Println(err)
	}
}

// session opens the store and the run, does the tasks that have not been done, and
// closes both.
func session(out io.Writer, url string, create *runlog.NewRun, tasks ...string) (err error) {
	ctx := context.Background()
	store, err := redis.Open(ctx, url, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for _, note := range store.Notes() {
		fmt.Fprintln(out, "note:", note)
	}
	j, err := journal.Open(ctx, store, "my-run", &journal.Options{Create: create})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close(ctx)) }()
	fmt.Fprintf(out, "epoch %d, %d records\n", j.Info().Epoch, j.Info().Head)
	for _, task := range tasks {
		_, err := j.Scope(task).Do(ctx, &journal.Effect{Key: "work", Do: func(context.Context, string) (json.RawMessage, error) {
			fmt.Fprintln(out, "doing", task)
			return json.RawMessage(`"done"`), nil
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

func TestExample(t *testing.T) {
	srv := redisserver.Start(t, "appendonly yes", "appendfsync everysec")
	var out strings.Builder
	for _, err := range []error{
		session(&out, srv.URL(), &runlog.NewRun{Workflow: "brief"}, "search"),
		session(&out, srv.URL(), nil, "search", "write"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	const note = "note: a crash of the server may lose 1 s of acknowledged steps (appendfsync everysec)\n"
	const want = note + "epoch 1, 0 records\ndoing search\n" + note + "epoch 2, 1 records\ndoing write\n"
	if out.String() != want {
		t.Fatalf("got\n%swant\n%s", out.String(), want)
	}
}
