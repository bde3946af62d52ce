package host

import (
	"context"
	"encoding/json"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// EngineOptions are the options of the runs of one call. Nil means the defaults.
type EngineOptions struct {
	// Look opens an engine that only reads runs: it has no workflows, and it does not create a missing store.
	Look             bool
	MaxSteps, Agents int // see superstep.Options
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
		Folder: h.Folder, Sockets: h.sockets, Failpoint: h.cfg.Failpoint, Sandbox: h.sandbox, Trusted: h.trustsRun,
		MaxSteps: opt.MaxSteps, Agents: opt.Agents, Restore: h.Restore,
	}
	if !opt.Look {
		o.Workflows = h.Workflows()
	}
	return superstep.New(store, o)
}

// sandbox returns the kind of sandbox for the commands that runs start, or "" if it is unknown.
func (h *Host) sandbox() string {
	mode, err := h.sandboxMode()
	if err != nil {
		return "" // whoever opens the project is told
	}
	return transcript.Line(mode)
}

// Start begins a run of a workflow and returns while it executes. A recipe is checked first, against the available
// agents, tools and workflows.
func (h *Host) Start(ctx context.Context, name string, inputs json.RawMessage, opt *superstep.StartOptions) (*superstep.Run, error) {
	e, name, err := h.ready(ctx, name)
	if err != nil {
		return nil, err
	}
	return e.Start(ctx, name, inputs, opt)
}

// Enqueue creates a run that a worker takes, after the checks of Start. See superstep.Engine.Enqueue.
func (h *Host) Enqueue(ctx context.Context, name string, inputs json.RawMessage, opt *superstep.StartOptions) (runlog.Info, error) {
	e, name, err := h.ready(ctx, name)
	if err != nil {
		return runlog.Info{}, err
	}
	return e.Enqueue(ctx, name, inputs, opt)
}

func (h *Host) ready(ctx context.Context, name string) (*superstep.Engine, string, error) {
	w, err := h.Ready(name)
	if err != nil {
		return nil, "", err
	}
	e, err := h.Engine(ctx, nil)
	return e, w.Name, err
}
