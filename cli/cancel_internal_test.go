package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
)

// A run whose process dies when it has been asked to stop is cancelled by whoever asked: nobody else would.
func TestCancelWhileDying(t *testing.T) {
	h := newHome(t)
	run := exec.CommandContext(t.Context(), "superstep", "run", "slow", "ms=60000")
	run.Dir = filepath.Join(h.root, "project")
	for name, value := range h.env {
		run.Env = append(run.Env, name+"="+value)
	}
	out, err := run.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = run.Process.Kill(); _ = run.Wait() }()
	for begun, b := "", make([]byte, 100); !strings.Contains(begun, "step wait start"); {
		n, err := out.Read(b)
		if begun += string(b[:n]); err != nil {
			t.Fatalf("%v: %s", err, begun)
		}
	}
	cfg := h.config()
	for i := range cfg.Stores {
		open := cfg.Stores[i].Open
		cfg.Stores[i].Open = func(ctx context.Context, opt *runlog.OpenOptions) (runlog.Store, io.Closer, error) {
			s, c, err := open(ctx, opt)
			return &dying{s, run.Process}, c, err
		}
	}
	t.Chdir(run.Dir)
	var said bytes.Buffer
	a := newApp(cfg, &Options{Args: []string{"runs", "cancel", "@last"}, Stdin: strings.NewReader(""), Stdout: &said, Stderr: &said})
	if code := a.run(t.Context()); code != ExitOK || !strings.Contains(said.String(), "is cancelled") {
		t.Errorf("%d %s", code, &said)
	}
}

// dying is a store in which the holder of a run dies once it is asked to stop.
type dying struct {
	runlog.Store
	holder *os.Process
}

func (d *dying) RequestCancel(ctx context.Context, id string) error {
	if err := d.Store.RequestCancel(ctx, id); err != nil {
		return err
	}
	return d.holder.Kill()
}
