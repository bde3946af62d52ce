package host

import (
	"context"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/telemetry"
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
		Folder: h.Folder, Sockets: h.sockets, Failpoint: h.cfg.Failpoint, Sandbox: h.sandbox, Trusted: h.trustsRun, Accept: h.accepts,
		Project: h.Project(), MaxSteps: opt.MaxSteps, Agents: opt.Agents, Restore: h.Restore, Hooks: h.cfg.Hooks,
	}
	if !opt.Look {
		o.Workflows = h.Workflows()
		t, err := h.telemetry()
		if err != nil {
			return nil, err
		}
		if t != nil {
			o.Observe, o.Propagate = t.Apply, true
		}
	}
	return superstep.New(store, o)
}

// telemetry returns where the telemetry of runs goes, nil if it is off. What is wrong with the variables is an error only if the user has asked for
// telemetry: otherwise runs do without it. A project has no say in it.
func (h *Host) telemetry() (*telemetry.Telemetry, error) {
	h.all.telemetry.Do(func() {
		c := h.telemetryConfig()
		if h.all.sends, h.all.sendsNot = telemetry.Open(c); h.all.sendsNot != nil && !c.On {
			c.Warn("telemetry is off: " + h.all.sendsNot.Error())
			h.all.sendsNot = nil
		}
	})
	if err := h.all.sendsNot; err != nil {
		return nil, mistake(err.Error())
	}
	return h.all.sends, nil
}

func (h *Host) telemetryConfig() *telemetry.Config {
	return &telemetry.Config{On: h.cfg.OTel, Env: h.cfg.Env, Offline: h.cfg.Offline, Version: superstep.Version, Warn: h.cfg.Warn,
		Options: telemetry.Options{Redact: h.Redactor().Text}}
}

// SendSpans sends the spans of a run to a collector, "" for the one that the variables name, and returns how many there are.
func (h *Host) SendSpans(ctx context.Context, id, collector string) (spans int, err error) {
	store, err := h.Store(ctx, true)
	if err != nil {
		return 0, err
	}
	c := h.telemetryConfig()
	c.On, c.Endpoint = true, collector
	return telemetry.Send(ctx, id, runlog.Records(ctx, store, id, 0), c)
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
func (h *Host) Start(ctx context.Context, name string, inputs any, opt *superstep.StartOptions) (*superstep.Run, error) {
	e, name, err := h.ready(ctx, name)
	if err != nil {
		return nil, err
	}
	return e.Start(ctx, name, inputs, opt)
}

// Enqueue creates a run that a worker takes, after the checks of Start. See superstep.Engine.Enqueue.
func (h *Host) Enqueue(ctx context.Context, name string, inputs any, opt *superstep.StartOptions) (runlog.Info, error) {
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
