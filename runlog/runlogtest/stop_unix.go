//go:build unix

package runlogtest

import (
	"syscall"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
)

// Stopped checks that a child, which does AppendForever and is stopped past its lease, is fenced
// when it goes on. The function quiet, if there is one, keeps it from being stopped in the middle
// of a write, until what it returns is called.
func (c *Child) Stopped(t *testing.T, s runlog.Store, quiet func() (over func() error)) {
	t.Helper()
	f := &fixture{T: t, store: s}
	if last, line := c.Acked(4); last < 4 {
		t.Fatalf("the child said %q", line)
	}
	over := func() error { return nil }
	if quiet != nil {
		over = quiet()
	}
	f.ok(c.Process.Signal(syscall.SIGSTOP))
	var state syscall.WaitStatus
	if _, err := syscall.Wait4(c.Process.Pid, &state, syscall.WUNTRACED, nil); err != nil || !state.Stopped() {
		t.Fatalf("the child is not stopped but %v: %v", state, err)
	}
	f.ok(over())
	l, info := c.takeOver(t, s, longest)
	Append(t, l, 1)
	f.ok(c.Process.Signal(syscall.SIGCONT))
	if last, line := c.Acked(0); last > info.Head || line != "fenced true" {
		t.Fatalf("with %d records taken over the child had %d acknowledged and said %q", info.Head, last, line)
	}
	recs := f.read(c.run, 1, 0)
	f.seqs(recs, 1, info.Head+1)
	if epoch := recs[info.Head].Epoch; epoch != 2 {
		t.Fatalf("the record of the new holder has epoch %d", epoch)
	}
}
