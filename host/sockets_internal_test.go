package host

import (
	"context"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
)

// The sockets of a run are in the user's folder for such things or in the data folder. Each store has its own, whose names tell
// nothing of its password.
func TestSockets(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are none")
	}
	data, run := t.TempDir(), t.TempDir()
	sockets := func(store, runtimeDir string) []string {
		h, err := Open(context.Background(), &Config{
			Settled: true, Stores: []runlog.Driver{{Kind: "sqlite"}, {Kind: "postgres"}}, Settings: Settings{DataDir: data, Store: store},
			Env: func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": runtimeDir}[name] },
		})
		if err != nil {
			t.Fatal(err)
		}
		return h.sockets("7f3a")
	}
	both := sockets("", run)
	if len(both) != 2 || filepath.Dir(both[0]) != filepath.Join(run, "superstep") || filepath.Dir(both[1]) != filepath.Join(data, "live") ||
		filepath.Base(both[0]) != filepath.Base(both[1]) {
		t.Errorf("%q", both)
	}
	for _, dir := range []string{"", "relative"} {
		if got := sockets("", dir); !slices.Equal(got, both[1:]) {
			t.Errorf("with XDG_RUNTIME_DIR=%s: %q", dir, got)
		}
	}
	a, b, c := sockets("postgres://u:one@h/db", ""), sockets("postgres://u:two@h/db", ""), sockets("postgres://u:one@h/other", "")
	if !slices.Equal(a, b) || slices.Equal(a, c) || slices.Equal(a, both[1:]) {
		t.Errorf("%q, %q, %q, %q", a, b, c, both)
	}
	if got := sockets("memory", run); got == nil || len(got) != 0 {
		t.Errorf("of a store of one process: %#v", got)
	}
}
