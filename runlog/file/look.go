package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/internal/owners"
	"github.com/superstep-dev/superstep/runlog"
)

// A glance is the state of a run for readers, as of the last batch that is certainly durable.
type glance struct {
	h       header
	st      state
	until   int64
	durable int64 // how much of the log that is
	damage  error // a *CorruptError or *versionError, nil if none is known; the rest is what could be found out
}

// look returns a glance at a run. It does not read the log if a live process guarantees its state.
func (s *store) look(ctx context.Context, id string) (*glance, error) {
	if err := runlog.CheckID(id); err != nil {
		return nil, s.notFound(id)
	}
	info, err := os.Stat(s.logPath(id))
	return s.lookAt(ctx, id, nil, info, err)
}

// lookAt does the same as look, for a caller that already knows the size of the log. The liveness may be nil.
func (s *store) lookAt(ctx context.Context, id string, live *owners.Liveness, info fs.FileInfo, err error) (*glance, error) {
	dir := s.runDir(id)
	for try := 0; ; try++ {
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Stat(dir); err == nil {
				return s.lost(id, located(runlog.NewChain(id, 1), logName, 0, "the file is missing")), nil
			}
			return nil, s.notFound(id)
		}
		if err != nil {
			return nil, err
		}
		if g, ok := s.vouched(id, dir, info, live); ok {
			if g.st.deleted {
				return nil, s.notFound(id)
			}
			return g, nil
		}
		if try == 2 {
			return nil, s.stuck(id) // others change it all the time
		}
		err = s.settle(ctx, id)
		if errors.As(err, new(*runlog.CorruptError)) || errors.As(err, new(*versionError)) {
			return s.lost(id, err), nil
		}
		if err != nil {
			return nil, err
		}
		info, err = os.Stat(s.logPath(id))
	}
}

// vouched returns the state recorded in the hold file of a run, and reports whether that state is still valid.
func (s *store) vouched(id, dir string, info fs.FileInfo, live *owners.Liveness) (*glance, bool) {
	o, ok := readHold(dir)
	if !ok || o.h.id != id {
		return nil, false
	}
	g := &glance{h: o.h, st: o.st, until: o.until, durable: o.durable}
	if info.Size() == o.durable {
		return g, true
	}
	if o.st.holder == "" {
		return nil, false
	}
	if live != nil {
		return g, live.Alive(o.st.holder)
	}
	return g, s.owners.Alive(o.st.holder)
}

// lost returns what is known of a damaged run.
func (s *store) lost(id string, damage error) *glance {
	g := &glance{damage: damage}
	g.h.id = id
	f, err := os.Open(filepath.Join(s.runDir(id), logName))
	if err != nil {
		return g
	}
	defer f.Close()
	r := reel{s: s, f: realFile{f}}
	h, data, err := r.load()
	if err != nil || h.id != id {
		return g
	}
	sc := h.scan(data)
	g.h, g.st, g.durable = *h, sc.st, sc.pos
	return g
}

// A cache keeps the content of unchanged files: for logs that no process holds, the data for
// listings, and the former log that was read last.
type cache struct {
	mu    sync.Mutex
	runs  map[string]seen
	spots map[string]spot

	path string // of the former log
	info fs.FileInfo
	h    *header
	data []byte
}

// seen is a glance at a log of that size and time.
type seen struct {
	size     int64
	modified time.Time
	g        *glance
}

// A spot is where a frame begins in a log.
type spot struct {
	nonce [nonceSize]byte
	seq   uint64
	at    int64
}

// fresh is how long a file must be unchanged before its modification time identifies its content.
const fresh = 100 * time.Millisecond

func (c *cache) run(id string, info fs.FileInfo) *glance {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.runs[id]; ok && e.size == info.Size() && e.modified.Equal(info.ModTime()) {
		return e.g
	}
	return nil
}

// keep caches the glance at a log. Info is from before it was looked at.
func (c *cache) keep(id string, info fs.FileInfo, g *glance) {
	if g.damage != nil || g.durable != info.Size() || time.Since(info.ModTime()).Abs() < fresh {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.runs = map[string]seen{}
	}
	c.runs[id] = seen{info.Size(), info.ModTime(), g}
}

// trim forgets runs that no longer exist.
func (c *cache) trim(ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.runs) <= len(ids)+1000 {
		return
	}
	there := make(map[string]bool, len(ids))
	for _, id := range ids {
		there[id] = true
	}
	for id := range c.runs {
		if !there[id] {
			delete(c.runs, id)
		}
	}
}

func (c *cache) pack(path string, info fs.FileInfo) (*header, []byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.path == path && os.SameFile(c.info, info) && c.info.Size() == info.Size() && c.info.ModTime().Equal(info.ModTime()) {
		return c.h, c.data, true
	}
	return nil, nil, false
}

func (c *cache) keepPack(path string, info fs.FileInfo, h *header, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.path, c.info, c.h, c.data = path, info, h, data
}

// maxSpots limits the number of runs whose reading position is kept.
const maxSpots = 4096

func (c *cache) spot(id string, h *header, from uint64) (spot, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.spots[id]
	return p, ok && p.nonce == h.nonce && p.seq <= from
}

func (c *cache) keepSpot(id string, p spot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spots == nil || len(c.spots) >= maxSpots {
		c.spots = map[string]spot{}
	}
	c.spots[id] = p
}
