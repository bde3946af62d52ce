package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// A real file system of 1 to 4 MiB gets full, at another place each time.
func TestFullFileSystem(t *testing.T) {
	start := time.Now()
	rnd, seed := faults.Rand(t)
	n, parked := faults.N(200), 0
	for i := range n {
		dir := t.TempDir()
		err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", 1024+rnd.IntN(3*1024)))
		if err != nil {
			t.Skipf("mounting a small file system: %v", err)
		}
		func() {
			defer func() {
				if err := syscall.Unmount(dir, 0); err != nil {
					t.Error(err)
				}
			}()
			parked += fillUp(t, filepath.Join(dir, "store"), seed+uint64(i), int64(rnd.IntN(4096)))
		}()
	}
	if parked < n {
		t.Errorf("only %d runs were parked", parked)
	}
	faults.Report(t, "ENOSPC (tmpfs of 1 to 4 MiB)", "file", n, start, "%d runs parked as waiting_storage, all resumed, 0 corrupt", parked)
}

func fillUp(t *testing.T, dir string, seed uint64, odd int64) (parked int) {
	t.Helper()
	s, err := Open(t.Context(), dir, &Options{SegmentSize: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(filepath.Dir(dir), "ballast")
	y := newStory(s, seed)
	for k := range 10 {
		if err := y.step(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	// All room but a little is taken by somebody else.
	left := 20_000 + odd
	b := make([]byte, 4096)
	f, err := os.Create(ballast)
	for err == nil {
		_, err = f.Write(b)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	size, err := f.Stat()
	if err == nil {
		err = errors.Join(f.Truncate(size.Size()-left), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	full := false
	for k := 10; k < 300 && !full; k++ {
		if err := y.step(t.Context(), k); err != nil {
			if !errors.As(err, new(*runlog.StorageError)) {
				t.Fatal(err)
			}
			full = true
		}
	}
	if !full {
		t.Fatal("the file system did not get full")
	}
	for id, l := range y.logs {
		if l == nil {
			continue
		}
		if err := l.Append(t.Context(), &runlog.Batch{Records: runlogtest.Batch(1).Records, Status: runlog.WaitingStorage}); err != nil {
			t.Fatalf("parking: %v", err)
		}
		r := y.runs[id]
		r.acked++
		r.sizes[r.acked], r.status = "", runlog.WaitingStorage
		if err := l.Release(t.Context()); err != nil {
			t.Fatalf("releasing what was parked: %v", err)
		}
		y.logs[id] = nil
		parked++
		if got := info(t, s, id); got.Status != runlog.WaitingStorage {
			t.Fatalf("parked it is %+v", got)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for k := range 20 {
		if err := y.step(t.Context(), 1000+k); err != nil {
			t.Fatalf("with room again: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	other, err := Open(t.Context(), dir, nil)
	if err == nil {
		err = errors.Join(y.check(other, true), other.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return parked
}

// On a real disk that is full, hidden runs go first.
func TestHiddenOnFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4096k"); err != nil {
		t.Skipf("mounting a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	runlogtest.FullDisk(t, runlogtest.Open(t, Open, filepath.Join(dir, "store"), &Options{}), dir)
}
