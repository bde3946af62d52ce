//go:build linux

package tui

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/faults"
)

// Convention 29: a panic gives the screen back, and the keys, and is an error that says what it was, in whichever goroutine of the terminal it is.
func TestPanicRestoresTerminal(t *testing.T) { // not in parallel: bubbletea writes the stack to standard error
	faults.Unraced(t) // bubbletea then closes its input while another of its goroutines may wait for it, which the detector reports
	for _, where := range []string{"Update", "pump", "awaken", "lookCatalog"} {
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
		b := &brittle{where: ".(*Terminal)." + where}
		ended := make(chan error, 1)
		go func() { ended <- c.RunTerminal(t.Context(), slave, b, &TerminalOptions{Now: b.now, Run: "ship0001"}) }()
		wait := func(what string) {
			t.Helper()
			for end := time.Now().Add(time.Minute); !bytes.Contains(screen(), []byte(what)); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%s: no %q in %q", where, what, screen())
				}
			}
		}
		wait("ship0001")
		b.broken.Store(true)
		_, _ = master.WriteString("x")
		select {
		case err = <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("%s: it lives on: %q", where, screen())
		}
		if goroutines := where == "pump" || where == "awaken"; err == nil || goroutines && !strings.Contains(err.Error(), "broken on purpose") {
			t.Errorf("%s: the error is %v", where, err)
		}
		wait("\x1b[?1049l")
		after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		if err != nil || after.Lflag != before.Lflag || after.Iflag != before.Iflag {
			t.Errorf("%s: the modes of the terminal are not as they were: %v", where, err)
		}
	}
}

// brittle is a backend, and a clock, that panic below a function once they are broken.
type brittle struct {
	nowhere
	where  string
	broken atomic.Bool
}

func (b *brittle) fail() {
	if b.broken.Load() && bytes.Contains(debug.Stack(), []byte(b.where)) {
		panic("broken on purpose")
	}
}

func (b *brittle) now() time.Time {
	b.fail()
	return time.Now()
}

func (b *brittle) Catalog(ctx context.Context) (*Catalog, error) {
	for strings.HasSuffix(b.where, "lookCatalog") && !b.broken.Load() {
		time.Sleep(time.Millisecond)
	}
	b.fail()
	return b.nowhere.Catalog(ctx)
}

func (b *brittle) Engine(ctx context.Context) (*superstep.Engine, error) {
	b.fail()
	return b.nowhere.Engine(ctx)
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
