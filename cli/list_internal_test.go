package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
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
	listed := func() string {
		t.Helper()
		var out bytes.Buffer
		a := newApp(nil, &Options{Stdout: &out, Args: []string{}})
		a.store, a.set.output = store, "text"
		infos, err := store.Runs(t.Context(), nil)
		if err == nil {
			err = printList(t.Context(), a, infos)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	add(runlog.KindRunStarted, "", `{"workflow":"w"}`)
	for range 3000 {
		add(runlog.KindEvent, "work", `{"name":"note","data":{"text":"on it"}}`)
	}
	if out := listed(); !strings.Contains(out, "running") {
		t.Errorf("it works:\n%s", out)
	}
	add(runlog.KindAsked, "work", `{"key":"q","question":"Sure?"}`)
	if out := listed(); !strings.Contains(out, "waiting (needs you)") {
		t.Errorf("it waits:\n%s", out)
	}
	if store.read > 2*(tail+4) { // and where they came from
		t.Errorf("two listings read %d records", store.read)
	}
}
