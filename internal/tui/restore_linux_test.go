//go:build linux

package tui

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superstep-dev/superstep/internal/faults"
)

// Convention 29: a panic gives the screen back, and the keys, and is an error that says what it was.
func TestPanicRestoresTerminal(t *testing.T) { // not in parallel: bubbletea writes the stack to standard error
	faults.Unraced(t) // bubbletea then closes its input while another of its goroutines may wait for it, which the detector reports
	for _, where := range []string{"command", "drawing"} {
		master, slave := pair(t)
		var mu sync.Mutex
		var seen bytes.Buffer
		go func() {
			for buf := make([]byte, 4096); ; {
				n, err := master.Read(buf)
				mu.Lock()
				seen.Write(buf[:n])
				mu.Unlock()
				if err != nil {
					return
				}
			}
		}()
		screen := func() []byte {
			mu.Lock()
			defer mu.Unlock()
			return bytes.Clone(seen.Bytes())
		}
		before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		c := New(slave, slave, slave, func(string) string { return "" })
		c.Look(&Settings{})
		var broken atomic.Bool
		now := func() time.Time {
			if broken.Load() {
				panic("drawing")
			}
			return time.Now()
		}
		ended := make(chan error, 1)
		go func() {
			ended <- c.RunTerminal(t.Context(), slave, &brittle{fails: where == "command", drawn: func() bool { return len(screen()) > 0 }}, &TerminalOptions{Now: now})
		}()
		wait := func(what string) {
			t.Helper()
			for end := time.Now().Add(10 * time.Second); !bytes.Contains(screen(), []byte(what)); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("no %q in %q", what, screen())
				}
			}
		}
		wait("superstep")
		if where == "drawing" {
			broken.Store(true)
			_, _ = master.WriteString("x")
		}
		select {
		case err = <-ended:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: it lives on: %q", where, screen())
		}
		if err == nil {
			t.Errorf("%s: no error", where)
		}
		wait("\x1b[?1049l")
		after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		if err != nil || after.Lflag != before.Lflag || after.Iflag != before.Iflag {
			t.Errorf("%s: the modes of the terminal are not as they were: %v", where, err)
		}
	}
}

// brittle is a backend that may panic once the screen is drawn.
type brittle struct {
	nowhere
	fails bool
	drawn func() bool
}

func (b *brittle) Catalog(ctx context.Context) (*Catalog, error) {
	for b.fails && !b.drawn() {
		time.Sleep(time.Millisecond)
	}
	if b.fails {
		time.Sleep(50 * time.Millisecond)
		panic("the catalog")
	}
	return b.nowhere.Catalog(ctx)
}

// pair opens a pseudo-terminal.
func pair(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here:", err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	return master, slave
}
