package host

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/transcript"
)

// EngineOptions are what is said of runs with a call. Nil means the defaults.
type EngineOptions struct {
	// Look is for looking at runs only: the engine has no workflows, and a store that is not there is not made.
	Look             bool
	MaxSteps, Agents int           // see superstep.Options
	Timeout          time.Duration // of one run
}

// Engine opens the store and returns an engine over the workflows. The store stays the host's.
func (h *Host) Engine(ctx context.Context, opt *EngineOptions) (*superstep.Engine, error) {
	if opt == nil {
		opt = &EngineOptions{}
	}
	store, err := h.Store(ctx, opt.Look)
	if err != nil {
		return nil, err
	}
	o := &superstep.Options{
		Folder: h.Folder, Failpoint: h.cfg.Failpoint, Sandbox: h.sandbox, Trusted: h.TrustsRun,
		MaxSteps: opt.MaxSteps, Agents: opt.Agents, Timeout: opt.Timeout, Restore: h.Restore,
	}
	if !opt.Look {
		o.Workflows = h.Workflows()
	}
	return superstep.New(store, o)
}

// sandbox says what bounds the commands that runs start, "" if that is not known.
func (h *Host) sandbox() string {
	mode, err := h.sandboxMode()
	if err != nil {
		return "" // whoever opens the project is told
	}
	return transcript.Line(mode)
}

// Start begins a run of a workflow and returns while it executes. A recipe is checked first, in view of what there is.
func (h *Host) Start(ctx context.Context, name string, inputs json.RawMessage, opt *superstep.StartOptions) (*superstep.Run, error) {
	w, err := h.Ready(name)
	if err != nil {
		return nil, err
	}
	e, err := h.Engine(ctx, nil)
	if err != nil {
		return nil, err
	}
	return e.Start(ctx, w.Name, inputs, opt)
}

// Resume takes up a run; see superstep.Engine.
func (h *Host) Resume(ctx context.Context, id string, opt *superstep.ResumeOptions) (*superstep.Run, error) {
	e, err := h.Engine(ctx, nil)
	if err != nil {
		return nil, err
	}
	return e.Resume(ctx, id, opt)
}

// Answer answers a question of a run, which goes on when it is resumed.
func (h *Host) Answer(ctx context.Context, id, path string, a *runlog.Answer) error {
	e, err := h.Engine(ctx, nil)
	if err != nil {
		return err
	}
	return e.Answer(ctx, id, path, a)
}

// Fork makes a new run that shares everything with another up to a record of it; see superstep.Engine.
func (h *Host) Fork(ctx context.Context, id string, at uint64, opt *superstep.ForkOptions) (*superstep.Fork, error) {
	e, err := h.Engine(ctx, nil)
	if err != nil {
		return nil, err
	}
	return e.Fork(ctx, id, at, opt)
}

// Cancel asks for a run to be cancelled, whoever runs it.
func (h *Host) Cancel(ctx context.Context, id string) error {
	e, err := h.Engine(ctx, nil)
	if err != nil {
		return err
	}
	return e.Cancel(ctx, id)
}

// Runs lists runs, the newest first. Nil means all of them.
func (h *Host) Runs(ctx context.Context, f *runlog.Filter) ([]runlog.Info, error) {
	e, err := h.Engine(ctx, &EngineOptions{Look: true})
	if err != nil {
		return nil, err
	}
	return e.Runs(ctx, f)
}

// Follow yields a run's records from a sequence number on and then those to come, until nobody runs it any more.
func (h *Host) Follow(ctx context.Context, id string, from uint64) iter.Seq2[runlog.Record, error] {
	e, err := h.Engine(ctx, &EngineOptions{Look: true})
	if err != nil {
		return func(yield func(runlog.Record, error) bool) { yield(runlog.Record{}, err) }
	}
	return e.Follow(ctx, id, from)
}
