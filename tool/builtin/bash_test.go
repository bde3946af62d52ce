//go:build unix

package builtin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
)

func bashTool(t testing.TB, dir string, opts *builtin.BashOptions) *tool.Set {
	t.Helper()
	root, err := builtin.OpenRoot(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	b, err := builtin.Bash(root, opts)
	if err != nil {
		t.Skip(err)
	}
	s, err := tool.NewSet(b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// left are the processes whose command line holds a text.
func left(t testing.TB, text string) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("no /proc")
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), text) && filepath.Base(filepath.Dir(f)) != fmt.Sprint(os.Getpid()) {
			out = append(out, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return out
}

func TestBash(t *testing.T) {
	t.Setenv("SUPERSTEP_CANARY", "secret-canary")
	dir, _ := tree(t, map[string]string{"a": "x"})
	s := bashTool(t, dir, &builtin.BashOptions{Environ: append(os.Environ(), "API_KEY=secret-canary"), Extra: []string{"MORE=1"}})
	for _, tc := range []struct {
		command, want string
		bad           bool
	}{
		{"echo hi", "hi\n", false}, {"ls", "a\n", false}, {"true", "[no output]", false}, {"echo out; echo err >&2; echo out2", "out\nerr\nout2\n", false}, {"echo x; exit 3", "x\n[exit status 3]", true}, {"printf x; false", "x\n[exit status 1]", true},
		{"echo $MORE$API_KEY$SUPERSTEP_CANARY", "1\n", false}, {"cat", "[no output]", false}, {"", "is empty", true}, {"echo 'a\nb'", "a\nb\n", false}, {"-x", "127]", true}, {"printf '\\033[31mred'", "red", false}, {"kill -9 $$", "[signal: killed]", true}, {"echo " + strings.Repeat("x", 200<<10), "over 128 KiB", true}, {"echo a\x00b", "NUL", true},
	} {
		r := use(t, s, "bash", args{"command": tc.command})
		if r.Error != tc.bad || !strings.Contains(r.Text, tc.want) || strings.Contains(r.Text, "canary") {
			t.Errorf("%.40q: %v %.200q", tc.command, r.Error, r.Text)
		}
	}
	r := use(t, s, "bash", args{"command": "for i in $(seq 1 200000); do echo line $i; done"})
	if r.Error || len(r.Text) > clean.MaxBytes || !strings.HasPrefix(r.Text, "line 1\n") || !strings.HasSuffix(r.Text, "line 200000\n") || !strings.Contains(r.Text, "bytes in the middle are left out") || strings.Contains(r.Text, "[truncated") {
		t.Errorf("%d bytes: %.100q … %q", len(r.Text), r.Text, r.Text[len(r.Text)-100:])
	}
	if r := use(t, s, "bash", args{"command": "yes é | head -c 300000"}); r.Error || len(r.Text) > clean.MaxBytes || strings.Contains(r.Text, "\ufffd") {
		t.Errorf("%d bytes, %d lines", len(r.Text), strings.Count(r.Text, "\n"))
	}
	if r := use(t, s, "bash", args{"command": "head -c 3000000 /dev/zero | tr '\\0' x"}); r.Error || len(r.Text) > clean.MaxBytes {
		t.Errorf("%d bytes", len(r.Text))
	}
	if r := use(t, s, "bash", args{"command": "x", "timeout": 601}); !r.Error {
		t.Error(r)
	}
}

// TestBashFaults is row 13 of the fault plan: no orphan, no wait, no memory.
func TestBashFaults(t *testing.T) {
	mark := fmt.Sprintf("9876%d", os.Getpid())
	var before, after runtime.MemStats
	for _, tc := range []struct {
		name, command string
		within        time.Duration
		want          string
	}{
		{"1 GiB", "head -c 1073741824 /dev/zero | tr '\\0' 'x'; echo end", time.Minute, "end\n"},
		{"never ends", "sleep " + mark, 8 * time.Second, "killed after 1s"},
		{"ignores signals", "trap '' TERM INT HUP; while :; do sleep " + mark + "; done", 8 * time.Second, "killed after 1s"},
		{"holds the pipe", "sleep " + mark + " & echo started", 5 * time.Second, "started"},
		{"daemon", "setsid sleep " + mark + " >/dev/null 2>&1 & echo started", 5 * time.Second, "started"},
		{"double fork", "(setsid sh -c 'sleep " + mark + " & sleep " + mark + "' &) ; sleep 0.2; echo started", 5 * time.Second, "started"},
		{"daemon ignores signals", "setsid sh -c 'trap \"\" TERM; sleep " + mark + "; sleep " + mark + "' & sleep 0.2; echo started", 5 * time.Second, "started"},
		{"fork chain", "f() { sleep " + mark + " & if [ $1 -gt 0 ]; then f $(($1-1)) & fi; wait; }; f 20", 8 * time.Second, "killed after 1s"},
		{"never reads", "while :; do echo flood; done", 8 * time.Second, "killed after 1s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := bashTool(t, t.TempDir(), &builtin.BashOptions{Environ: os.Environ()})
			a := args{"command": tc.command, "timeout": 60}
			if strings.HasPrefix(tc.want, "killed") {
				a["timeout"] = 1
			}
			runtime.GC()
			runtime.ReadMemStats(&before)
			start := time.Now()
			r := use(t, s, "bash", a)
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if took > faults.Bound(tc.within) || !strings.Contains(r.Text, tc.want) || len(r.Text) > clean.MaxBytes {
				t.Errorf("after %v: %.200q", took, r.Text)
			}
			if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 64<<20 {
				t.Errorf("the heap grew by %d MiB", grown>>20)
			}
			if l := left(t, mark); len(l) > 0 {
				t.Errorf("left: %q", l)
			}
			t.Logf("%v", took.Round(time.Millisecond))
		})
	}
}

func TestBashCancelled(t *testing.T) {
	dir := t.TempDir()
	root, err := builtin.OpenRoot(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	b, err := builtin.Bash(root, nil)
	if err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var cancelled time.Time
	var seen sync.WaitGroup
	seen.Go(func() {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil {
				break
			}
		}
		cancelled = time.Now()
		cancel()
	})
	_, err = b.Run(ctx, &tool.Call{Args: []byte(`{"command":"echo begun; touch begun; sleep 200"}`)})
	if seen.Wait(); err == nil || !strings.Contains(err.Error(), "begun") || time.Since(cancelled) > faults.Bound(5*time.Second) {
		t.Errorf("after %v: %v", time.Since(cancelled), err)
	}
	if _, err := builtin.Bash(root, &builtin.BashOptions{Environ: []string{"PATH=/nonexistent:relative"}}); err == nil {
		t.Error("a shell was found")
	}
	for want, o := range map[string]*builtin.BashOptions{"sh": {Shell: "/bin/dash"}, "bash": {Shell: "/opt/bash-5.2"}, "": {Environ: []string{"PATH=/nonexistent"}}} {
		if got := builtin.ShellKind(o); got != want {
			t.Errorf("%+v: %q", o, got)
		}
	}
}
