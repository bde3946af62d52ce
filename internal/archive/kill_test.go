package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/superstep-dev/superstep/internal/archive"
	"github.com/superstep-dev/superstep/runlog"
	filestore "github.com/superstep-dev/superstep/runlog/file"
	"github.com/superstep-dev/superstep/runlog/sqlite"
)

// A kept store is one that outlives its process.
type kept interface {
	runlog.Store
	io.Closer
}

func openKept(kind, path string) (kept, error) {
	if kind == "file" {
		return filestore.Open(context.Background(), path, nil)
	}
	return sqlite.Open(context.Background(), path, nil)
}

// importAndHang is what the processes do that the test below starts and kills: it imports a file,
// tells when it has come to a byte of the second reading, and goes no further.
func importAndHang(kind, path, name, at string) error {
	store, err := openKept(kind, path)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	stop, err := strconv.Atoi(at)
	if err != nil {
		return err
	}
	_, err = archive.Import(context.Background(), store, &watching{r: bytes.NewReader(b), look: func(pass, at int) {
		if pass == 2 && at >= stop {
			fmt.Println("there")
			select {}
		}
	}}, nil)
	return err
}

// An import that is killed leaves nothing that is listed, or that holds the ID; the next one is whole.
func TestKilledImport(t *testing.T) {
	t.Parallel()
	home := runlog.NewMemory(nil)
	for i := range 3 {
		opt := &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w"}}
		if i > 0 {
			opt = nil
		}
		l, _, err := home.Acquire(t.Context(), "r", opt)
		if err == nil {
			err = l.Append(t.Context(), &runlog.Batch{Records: kinds(400)[min(i, 1):], Status: runlog.Paused})
		}
		if err == nil {
			err = l.Release(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	exported := export(t, home, "r", nil)
	name := filepath.Join(t.TempDir(), "run.jsonl")
	if err := os.WriteFile(name, exported, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"sqlite", "file"} {
		path := filepath.Join(t.TempDir(), "runs")
		for i := range 5 { // one after the other in the same store
			killImport(t, kind, path, name, (i+1)*len(exported)/5-1)
			store, err := openKept(kind, path)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range []*runlog.Filter{nil, {ID: "r"}, {Prefix: "r"}} {
				if infos, err := store.Runs(t.Context(), f); err != nil || len(infos) > 0 {
					t.Errorf("%s: killed at part %d it left %+v, error %v", kind, i+1, infos, err)
				}
			}
			left, err := store.Runs(t.Context(), &runlog.Filter{Status: []runlog.Status{runlog.Importing}})
			if err != nil || len(left) != 1 || left[0].Head == 0 && i > 1 {
				t.Errorf("%s: it was killed before it had begun: %+v, error %v", kind, left, err)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
		}
		store, err := openKept(kind, path)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := archive.Import(t.Context(), store, bytes.NewReader(exported), nil); err != nil || info.Status != runlog.Paused {
			t.Errorf("%s: %+v, error %v", kind, info, err)
		}
		same(t, home, "r", store, "r")
		if left, err := store.Runs(t.Context(), &runlog.Filter{Status: []runlog.Status{runlog.Importing}}); err != nil || len(left) > 0 {
			t.Errorf("%s: %+v are left, error %v", kind, left, err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killImport kills a process that has imported a file up to a byte.
func killImport(t *testing.T, kind, path, name string, at int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), "TEST_IMPORT="+kind, "TEST_IMPORT_STORE="+path, "TEST_IMPORT_FILE="+name, "TEST_IMPORT_AT="+strconv.Itoa(at))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len("there\n"))
	if _, err := io.ReadFull(out, b); err != nil || string(b) != "there\n" {
		t.Errorf("it said %q, error %v", b, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); !errors.As(err, new(*exec.ExitError)) {
		t.Errorf("it was not killed: %v", err)
	}
}
