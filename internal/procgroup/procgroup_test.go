package procgroup_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/procgroup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// alive counts the processes whose command line holds a word.
func alive(t *testing.T, word string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), word) {
			n++
		}
	}
	return n
}

func start(ctx context.Context, t *testing.T, script, word string) *exec.Cmd {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("looks at /proc")
	}
	cmd := procgroup.Command(ctx, procgroup.Base(os.Environ()), "sh", "-c", script, "sh", word)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// wait waits until n processes know the word.
func wait(t *testing.T, word string, n int) {
	t.Helper()
	for range 500 {
		if alive(t, word) >= n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%d processes, want %d: nothing is tested", alive(t, word), n)
}

// unique is a word that is also a time to sleep.
func unique() string {
	return fmt.Sprintf("9%d", int(rand.Text()[0])*1e6+int(time.Now().UnixNano()%1e6))
}

// What a command leaves behind is dead after Sweep.
func TestSweep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		left   int // processes besides the command's own
	}{
		"background":           {`sleep $1 & exit 0`, 1},
		"session of its own":   {`setsid sleep $1 & exit 0`, 1},
		"double fork":          {`(setsid sh -c 'sleep '$1' & exit' &) ; exit 0`, 1},
		"deaf to TERM":         {`setsid sh -c 'trap "" TERM HUP INT; while :; do sleep '$1'; done' & exit 0`, 2},
		"many":                 {`for i in 1 2 3 4 5 6 7 8 9 10; do setsid sh -c '(setsid sleep '$1' &) ; sleep '$1 & done; exit 0`, 20},
		"one that makes more":  {`setsid sh -c 'while :; do setsid sleep '$1' & sleep 0.05; done' & exit 0`, 3},
		"others are not known": {`exit 0`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			word := unique()
			cmd := start(t.Context(), t, c.script, word)
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			wait(t, word, c.left)
			procgroup.Sweep(cmd.Process, cmd.Env)
			if n := alive(t, word); n > 0 {
				t.Errorf("%d processes are left", n)
			}
		})
	}
}

// The end of the context ends the group, those that are deaf to TERM after Grace.
func TestContext(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"obedient": `sleep $1 & sleep $1`,
		"deaf":     `trap '' TERM; sleep $1 & while :; do sleep $1; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			word := unique()
			cmd := start(ctx, t, script, word)
			wait(t, word, 3)
			began := time.Now()
			cancel()
			if err := cmd.Wait(); err == nil {
				t.Error("it ended well")
			}
			procgroup.Sweep(cmd.Process, cmd.Env)
			if took := time.Since(began); took > faults.Bound(10*time.Second) || name == "obedient" && took > faults.Bound(procgroup.Grace) {
				t.Errorf("took %s", took)
			}
			if n := alive(t, word); n > 0 {
				t.Errorf("%d processes are left", n)
			}
		})
	}
}

// Sweeping one command does nothing to another, nor to the one that sweeps.
func TestSweepLeavesOthers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	mine, other := unique(), unique()+"1"
	a, b := start(ctx, t, `setsid sleep $1 & exit 0`, mine), start(ctx, t, `setsid sleep $1 & sleep $1`, other)
	wait(t, mine, 1)
	wait(t, other, 3)
	if err := a.Wait(); err != nil {
		t.Fatal(err)
	}
	procgroup.Sweep(a.Process, a.Env)
	if alive(t, mine) != 0 || alive(t, other) != 3 {
		t.Errorf("%d of mine, %d of the other", alive(t, mine), alive(t, other))
	}
	cancel()
	_ = b.Wait() // it was killed
	procgroup.Sweep(b.Process, b.Env)
	if n := alive(t, other); n > 0 {
		t.Errorf("%d processes are left", n)
	}
	procgroup.Sweep(nil, nil)
}

// A program sees what it is handed, and a mark that it cannot choose.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	run := func(env []string) []string {
		t.Helper()
		path, err := exec.LookPath("env")
		if err != nil {
			t.Skip(err)
		}
		cmd := procgroup.Command(t.Context(), env, path)
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		procgroup.Sweep(cmd.Process, cmd.Env)
		lines := strings.Fields(out.String())
		slices.Sort(lines)
		return lines
	}
	given := []string{"A=1", "SUPERSTEP_GROUP=chosen"}
	got := run(given)
	if len(got) != 2 || got[0] != "A=1" || !strings.HasPrefix(got[1], "SUPERSTEP_GROUP=") || got[1] == "SUPERSTEP_GROUP=chosen" {
		t.Errorf("got %q", got)
	}
	if given[1] != "SUPERSTEP_GROUP=chosen" {
		t.Error("the caller's list was changed")
	}
	if again := run(given); again[1] == got[1] {
		t.Error("two commands have the same mark")
	}
	if got := run(nil); len(got) != 1 {
		t.Errorf("nil is not an empty environment: %q", got)
	}
}

func TestBase(t *testing.T) {
	t.Parallel()
	got := procgroup.Base([]string{
		"PATH=/bin", "HOME=/h", "LANG=C", "Path=/windows", "TMPDIR=/t=x",
		"OPENAI_API_KEY=k", "AWS_SECRET_ACCESS_KEY=k", "LD_PRELOAD=x", "NODE_OPTIONS=x", "PATHX=1", "XPATH=1", "BASH_ENV=x", "PWD=/x", "", "=", "PATH",
	})
	if want := []string{"PATH=/bin", "HOME=/h", "LANG=C", "Path=/windows", "TMPDIR=/t=x", "PATH"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := procgroup.Base(nil); len(got) != 0 {
		t.Errorf("got %q", got)
	}
}
