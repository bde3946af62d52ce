package archive_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/archive"
	"github.com/superstep-dev/superstep/runlog"
	filestore "github.com/superstep-dev/superstep/runlog/file"
)

// A log that was cut anywhere is not exported as if it were whole, and not listed, resumed or read so.
func TestExportOfACutLog(t *testing.T) {
	dir := t.TempDir()
	store, err := filestore.Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := store.Acquire(t.Context(), "r", &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		b := &runlog.Batch{}
		for range i%3 + 1 {
			b.Records = append(b.Records, runlog.Record{Kind: runlog.KindEvent, Time: time.Unix(1, 0), Data: []byte(`{"name":"x"}`)})
		}
		if i == 11 {
			b.Status = runlog.Completed
		}
		if err := l.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join("runs", "r", "log")
	whole, err := os.ReadFile(filepath.Join(dir, log))
	if err != nil {
		t.Fatal(err)
	}
	var bad []string
	hold, err := os.ReadFile(filepath.Join(dir, "runs", "r", "hold"))
	if err != nil {
		t.Fatal(err)
	}
	for size := 0; size < len(whole); size += 13 {
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "runs", "r", "hold"), hold, 0o600), os.WriteFile(filepath.Join(dir, log), whole[:size], 0o600)); err != nil {
			t.Fatal(err)
		}
		func() {
			store, err := filestore.Open(t.Context(), dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			var out bytes.Buffer
			if err := archive.Export(t.Context(), store, "r", &out, nil); err == nil {
				bad = append(bad, fmt.Sprint(size))
			}
		}()
	}
	if len(bad) > 0 {
		t.Errorf("of a log of %d bytes, those cut to these are exported: %v", len(whole), bad)
	}
}
