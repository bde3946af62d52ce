package host

import (
	"context"

	"github.com/superstep-dev/superstep/internal/docindex"
	"github.com/superstep-dev/superstep/memory"
)

// Memory returns what the runs of the store remember. A caller that only reads does not create a missing store.
func (h *Host) Memory(ctx context.Context, look bool) (*memory.Memory, error) {
	store, err := h.Store(ctx, look)
	if err != nil {
		return nil, err
	}
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	if h.all.memory == nil {
		o := &memory.Options{Embed: docindex.Embedder(h.embedder(), func(text string) { h.cfg.Notice(text) })}
		h.all.memory = memory.New(store, o)
	}
	return h.all.memory, nil
}

// Namespace returns the name of the memory that agents in the folder of the host share, "user" if they have no folder.
func (h *Host) Namespace() string {
	if h.Dir() == "" {
		return "user"
	}
	return h.FolderLabel()
}

// notes returns what agents in the folder remember.
func (h *Host) notes(ctx context.Context) (*memory.Space, error) {
	m, err := h.Memory(ctx, false)
	if err != nil {
		return nil, err
	}
	return m.In(h.Namespace())
}
