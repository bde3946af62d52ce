package rundir_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/rundir"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
)

// counting counts the reads of logs, and the records that are read.
type counting struct {
	runlog.Store
	reads   int
	records int
}

func (c *counting) Read(ctx context.Context, id string, from uint64, limit int) ([]runlog.Record, error) {
	recs, err := c.Store.Read(ctx, id, from, limit)
	c.reads, c.records = c.reads+1, c.records+len(recs)
	return recs, err
}

// The log is read when the files may not be those of the run as it is.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	memory := runlog.NewMemory(nil)
	l, _, err := memory.Acquire(t.Context(), "r", &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	add := func(status runlog.Status, kinds ...runlog.Kind) {
		t.Helper()
		b := &runlog.Batch{Status: status}
		for _, k := range kinds {
			b.Records = append(b.Records, runlog.Record{Kind: k, Time: time.Unix(1, 0), Data: json.RawMessage(`{}`)})
		}
		if err := l.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	add("", runlog.KindRunStarted)
	store := &counting{Store: memory}
	dir := t.TempDir()
	write := func(what string, read bool, opt *rundir.Options) {
		t.Helper()
		store.reads = 0
		if err := rundir.Write(t.Context(), store, "r", dir, opt); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if (store.reads > 0) != read {
			t.Errorf("%s: %d reads", what, store.reads)
		}
	}
	one, other := redact.New(redact.Secret{Name: "ONE", Value: "a-secret-value"}), redact.New(redact.Secret{Name: "OTHER", Value: "a-secret-value"})
	write("at first", true, nil)
	write("again", false, nil)
	add("", runlog.KindStepCommitted)
	write("with a record more", true, nil)
	write("again", false, nil)
	add(runlog.Paused)
	write("with another status", true, nil)
	write("again", false, nil)
	write("with the log", true, &rundir.Options{Log: true})
	write("with the log again", true, &rundir.Options{Log: true})
	write("without it", false, nil)
	write("with secrets", true, &rundir.Options{Redactor: one})
	write("with them again", false, &rundir.Options{Redactor: one})
	write("with others", true, &rundir.Options{Redactor: other})
	write("plain", true, &rundir.Options{Plain: true})
	write("plain again", false, &rundir.Options{Plain: true})
	write("redacted again", true, nil)

	// What was cut off counts for nothing.
	var run struct{ Head, Records uint64 }
	b, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err != nil || json.Unmarshal(b, &run) != nil || run.Head != 2 || run.Records != 2 {
		t.Errorf("run.json is %s, error %v", b, err)
	}
	add("", runlog.KindStepCommitted)
	if err := os.RemoveAll(filepath.Join(dir, "logs")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "logs"), nil, 0o600); err != nil { // a file where the directory should be
		t.Fatal(err)
	}
	if err := rundir.Write(t.Context(), store, "r", dir, nil); err == nil {
		t.Error("a directory that cannot be written gives no error")
	}
	if err := os.Remove(filepath.Join(dir, "logs")); err != nil {
		t.Fatal(err)
	}
	write("after a failure", true, nil)
}

func TestRemove(t *testing.T) {
	t.Parallel()
	store, id := run(t, `{"task":"do it"}`)
	dir := filepath.Join(t.TempDir(), "runs", id)
	write := func() {
		t.Helper()
		if err := rundir.Write(t.Context(), store, id, dir, &rundir.Options{Log: true}); err != nil {
			t.Fatal(err)
		}
	}
	put := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write()
	put("agents/"+strings.Repeat("x", 80)+"-2.json", "agents/_con-3.json", "agents/.a.json42", ".run.json7", "logs/.run-12.jsonl") // as Write makes or leaves them
	if err := rundir.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		names, _ := files(t, dir)
		t.Fatalf("it is still there, with %q, error %v", names, err)
	}
	if err := rundir.Remove(dir); err != nil {
		t.Errorf("one that is not there: %v", err)
	}

	// What others have put there stays.
	write()
	own := []string{"agents/notes.txt", "agents/a b.json", "mine.txt", ".hidden", "reports/.keep", "logs/other.log", "run.json.bak"}
	put(own...)
	if err := os.Mkdir(filepath.Join(dir, "agents", "sub.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := rundir.Remove(dir); err != nil {
		t.Fatal(err)
	}
	names, _ := files(t, dir)
	slices.Sort(names)
	slices.Sort(own)
	if !slices.Equal(names, own) {
		t.Errorf("left are %q, want %q", names, own)
	}
	if _, err := os.Stat(filepath.Join(dir, "agents", "sub.json")); err != nil {
		t.Error(err)
	}
	for what, text := range map[string]string{"none": "", "another's": `{"id":"r","status":"done"}`, "no JSON": "x", "an export": `{"superstep":"run","version":1,"id":"r"}`} {
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, "run.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := rundir.Remove(dir); err == nil || !strings.Contains(err.Error(), "left unchanged") {
			t.Errorf("with a run.json that is %s: %v", what, err)
		}
	}
}

// No link leads out of the directory.
func TestRemoveFollowsNothing(t *testing.T) {
	t.Parallel()
	store, id := run(t, `{"task":"do it"}`)
	base := t.TempDir()
	dir, other := filepath.Join(base, "run"), filepath.Join(base, "elsewhere")
	for _, d := range []string{dir, other} {
		if err := rundir.Write(t.Context(), store, id, d, nil); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := files(t, other)
	if err := os.RemoveAll(filepath.Join(dir, "agents")); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{filepath.Join(dir, "agents"): filepath.Join(other, "agents"), filepath.Join(dir, "reports", "x.md"): filepath.Join(other, "run.json"), filepath.Join(base, "link"): other} {
		if err := os.Symlink(to, link); err != nil {
			t.Skip(err)
		}
	}
	if err := rundir.Remove(filepath.Join(base, "link")); err == nil {
		t.Error("a link to a directory was removed")
	}
	if err := rundir.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if after, _ := files(t, other); !slices.Equal(before, after) {
		t.Errorf("elsewhere %q became %q", before, after)
	}
	for _, link := range []string{filepath.Join(dir, "agents"), filepath.Join(dir, "reports", "x.md")} {
		if _, err := os.Lstat(link); err != nil {
			t.Error(err)
		}
	}
	if err := os.Symlink(filepath.Join(other, "run.json"), filepath.Join(dir, "run.json")); err != nil {
		t.Fatal(err)
	}
	if err := rundir.Remove(dir); err == nil || !strings.Contains(err.Error(), "left unchanged") {
		t.Errorf("a run.json that is a link: %v", err)
	}
}
