package host

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// counted is a store that counts the records that are read.
type counted struct {
	runlog.Store
	read int
}

func (c *counted) Read(ctx context.Context, id string, from uint64, limit int) ([]runlog.Record, error) {
	recs, err := c.Store.Read(ctx, id, from, limit)
	c.read += len(recs)
	return recs, err
}

// A listing reads the end of the logs of running runs and no more, to tell whether they wait.
func TestListReadsNoWholeLogs(t *testing.T) {
	t.Parallel()
	store := &counted{Store: runlog.NewMemory(nil)}
	log, _, err := store.Acquire(t.Context(), "r1", &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	add := func(kind runlog.Kind, path, data string) {
		t.Helper()
		if err := log.Append(t.Context(), &runlog.Batch{Records: []runlog.Record{{Kind: kind, Path: path, Time: time.Now(), Data: json.RawMessage(data)}}}); err != nil {
			t.Fatal(err)
		}
	}
	listed := func() runlog.Status {
		t.Helper()
		infos, err := store.Runs(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		items, problems := (&Host{}).runItems(t.Context(), store, infos)
		if len(items) != 1 || len(problems) > 0 {
			t.Fatal(items, problems)
		}
		return items[0].Status
	}
	add(runlog.KindRunStarted, "", `{"workflow":"w"}`)
	for range 3000 {
		add(runlog.KindEvent, "work", `{"name":"note","data":{"text":"on it"}}`)
	}
	if got := listed(); got != runlog.Running {
		t.Errorf("it works: %s", got)
	}
	add(runlog.KindAsked, "work", `{"key":"q","question":"Sure?"}`)
	if got := listed(); got != Waiting {
		t.Errorf("it waits: %s", got)
	}
	if store.read > 2*(tail+4) { // and where they came from
		t.Errorf("two listings read %d records", store.read)
	}
}
