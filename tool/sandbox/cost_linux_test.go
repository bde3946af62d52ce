//go:build linux && (amd64 || arm64)

package sandbox_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/tool/sandbox"
)

// BenchmarkChmod is what one change of a mode costs.
func BenchmarkChmod(b *testing.B) {
	for _, mode := range []sandbox.Mode{sandbox.None, sandbox.Landlock} {
		b.Run(string(mode), func(b *testing.B) {
			dir := b.TempDir()
			write(b, dir+"/sub/x", "x")
			s := newSandbox(b, sandbox.Options{Root: dir, Mode: mode})
			b.ResetTimer()
			if out, _, err := run(b, s, dir+"/sub", fmt.Sprintf(`exec perl -e 'for (1..%d) { chmod 0600,"x" or die }'`, b.N)); err != nil {
				b.Fatal(out, err)
			}
		})
	}
}

// A sandboxed command costs little more than a plain one.
func TestCost(t *testing.T) {
	const goal = 15 * time.Millisecond
	dir := t.TempDir()
	least := func(s *sandbox.Sandbox) time.Duration {
		best := time.Hour
		for range 20 {
			start := time.Now()
			c := s.Command(t.Context(), nil, "/bin/true")
			c.Dir = dir
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			if err := c.Wait(); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(start))
		}
		return best
	}
	plain := least(nil)
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		over := least(newSandbox(t, sandbox.Options{Root: dir, Mode: mode})) - plain
		t.Logf("%v over %v", over, plain)
		if over > 10*goal {
			t.Errorf("%v over a plain command, want %v", over, goal)
		}
	})
}
