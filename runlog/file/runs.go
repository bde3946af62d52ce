package file

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/superstep-dev/superstep/internal/owners"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// claim returns the holder recorded in a run's state.
func (st *state) claim(until int64) owners.Claim {
	return owners.Claim{Holder: st.holder, Until: until}
}

// free returns nil if the run may be taken from its former holder, see [owners.Owners.Free].
func (s *store) free(id string, st *state, until int64, seen *owners.Doubt) error {
	return s.owners.Free(s.now(), st.claim(until), seen, &runlog.BusyError{ID: id, Owner: st.owner, Until: moment(until)})
}

// patiently is [owners.Patiently] for this store.
func (s *store) patiently(ctx context.Context, f func(seen *owners.Doubt) error) error {
	return owners.Patiently(ctx, s.lease, s.closing, fmt.Errorf("writing store %s: %w", s.dir, storekit.ErrClosed), f)
}

// Acquire implements [runlog.Store].
func (s *store) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	if err := runlog.CheckID(id); err != nil {
		return nil, runlog.Info{}, err
	}
	if err := s.alive(ctx); err != nil {
		return nil, runlog.Info{}, err
	}
	holder, err := s.owners.Join()
	if err != nil {
		return nil, runlog.Info{}, s.explain("writing", err)
	}
	if s.reserve.spent.Load() {
		_ = s.reserve.fill() // appends say so if there is no room
	}
	var l *log
	if opt != nil && opt.Create != nil {
		l, err = s.create(ctx, id, opt.Create, holder)
	} else {
		err = s.patiently(ctx, func(seen *owners.Doubt) (err error) {
			l, err = s.acquire(ctx, id, opt, holder, seen)
			return err
		})
	}
	if err != nil {
		return nil, runlog.Info{}, s.explain("writing", err)
	}
	info := l.h.info(&l.st)
	l.show()
	if !s.holds.keep(l) {
		l.shut()
		return nil, runlog.Info{}, s.alive(ctx)
	}
	return l, info, nil
}

func (s *store) newLog(id string, r reel, st *state, until int64) *log {
	return &log{Hold: storekit.Hold{ID: id}, s: s, epoch: st.epoch, turn: make(chan struct{}, 1), slots: make(chan struct{}, 2), reel: r, st: *st, until: until}
}

func (s *store) acquire(ctx context.Context, id string, opt *runlog.AcquireOptions, holder string, seen *owners.Doubt) (*log, error) {
	// A live holder is detected without taking the lock.
	if o, ok := readHold(s.runDir(id)); ok && o.h.id == id && s.owners.Liveness(s.now()).Held(o.st.claim(o.until)) {
		if err := s.free(id, &o.st, o.until, seen); err != nil { // he may be gone by now
			return nil, err
		}
	}
	e, err := s.edit(ctx, id)
	if e != nil {
		defer e.close()
	}
	if err != nil {
		return nil, err
	}
	if err := s.free(id, &e.st, e.until, seen); err != nil {
		return nil, err
	}
	st, info := e.st, e.h.info(&e.st)
	if st.takeovers, err = info.TakeOver(st.holder != "", opt); err != nil {
		return nil, err
	}
	now := s.now()
	st.epoch++
	st.updated, st.owner, st.holder = now.UnixNano(), s.owner, holder
	until := now.Add(s.lease).UnixNano()
	if err := e.commit(&st, until); err != nil {
		return nil, err
	}
	l := s.newLog(id, e.reel, &st, until)
	e.f = nil // it is the log's now
	return l, nil
}

// create creates a run, in a folder of another name first.
func (s *store) create(ctx context.Context, id string, run *runlog.NewRun, holder string) (*log, error) {
	exists := func() error { return fmt.Errorf("run %s: %w", id, runlog.ErrExists) }
	if s.there(ctx, id) {
		return nil, exists()
	}
	no, err := s.number(ctx)
	if err != nil {
		return nil, err
	}
	now := s.now()
	until := now.Add(s.lease).UnixNano()
	h := &header{id: id, no: no, workflow: run.Workflow, title: run.Title, parent: run.Parent, created: now.UnixNano(), base: 1}
	if _, err := rand.Read(h.nonce[:]); err != nil {
		return nil, err
	}
	st := state{Tail: storekit.Tail{Status: cmp.Or(run.Status, runlog.Running)}, epoch: 1, updated: now.UnixNano(), owner: s.owner, holder: holder}
	r := reel{s: s, dir: filepath.Join(s.dir, "trash", newPrefix+holder+"-"+strings.ToLower(rand.Text())), h: h}
	b := h.encode()
	b = h.appendMark(b, 0, h.size, &st)
	if len(b) > markMost {
		return nil, fmt.Errorf("run %s: its workflow, title and parent are too long", id)
	}
	r.size = int64(len(b))
	tmp := r.dir
	defer func() { _ = os.RemoveAll(tmp) }() // unless it has its name by then
	if err := s.furnish(&r, b, &st, until); err != nil {
		return nil, err
	}
	unlock, err := s.lockStore(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if s.there(ctx, id) {
		return nil, exists()
	}
	if _, err := os.Lstat(s.runDir(id)); err == nil { // deleted, but for the name
		if err := s.discard(id); err != nil {
			return nil, err
		}
	}
	s.fail("file.before-rename")
	if err := s.disk.rename(r.dir, s.runDir(id)); err != nil {
		return nil, err
	}
	s.fail("file.after-rename")
	if err := s.disk.syncDir(filepath.Join(s.dir, "runs")); err != nil {
		return nil, errors.Join(err, s.discard(id))
	}
	r.dir = s.runDir(id)
	if r.f, err = s.disk.open(r.path(), os.O_RDWR); err != nil {
		return nil, errors.Join(err, s.discard(id))
	}
	return s.newLog(id, r, &st, until), nil
}

// newPrefix begins the names of folders that runs are made in; the name of their owner
// comes next.
const newPrefix = "new-"

// furnish creates the folder of a run with its files.
func (s *store) furnish(r *reel, b []byte, st *state, until int64) error {
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return err
	}
	if err := write(s.disk, r.path(), b); err != nil {
		return err
	}
	lock, err := s.disk.open(filepath.Join(r.dir, lockName), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	if err := lock.Close(); err != nil {
		return err
	}
	r.vouch(st, until)
	return s.disk.syncDir(r.dir)
}

// there reports whether a run of that ID exists, damaged or not.
func (s *store) there(ctx context.Context, id string) bool {
	if _, err := os.Lstat(s.runDir(id)); err != nil {
		return false
	}
	_, err := s.look(ctx, id)
	return !errors.As(err, new(*runlog.NotFoundError))
}

// discard moves a run's folder to the trash. The caller has the store's lock, or created the
// folder.
func (s *store) discard(id string) error {
	trash := filepath.Join(s.dir, "trash", strings.ToLower(rand.Text()))
	s.fail("file.before-rename")
	if err := s.disk.rename(s.runDir(id), trash); err != nil {
		return err
	}
	s.fail("file.after-rename")
	err := s.disk.syncDir(filepath.Join(s.dir, "runs"))
	_ = os.RemoveAll(trash) // Reclaim does what is left
	return err
}

// Runs implements [runlog.Store].
func (s *store) Runs(ctx context.Context, f *runlog.Filter) ([]runlog.Info, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	if f == nil {
		f = &runlog.Filter{}
	}
	ids, err := s.ids(f)
	if err != nil {
		return nil, s.explain("reading", err)
	}
	rows, err := s.glances(ctx, ids)
	if err != nil {
		return nil, s.explain("reading", err)
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.g.h.no, a.g.h.no), cmp.Compare(b.g.h.created, a.g.h.created), cmp.Compare(a.g.h.id, b.g.h.id))
	})
	infos := make([]runlog.Info, 0, len(rows))
	for _, r := range rows {
		info := r.g.h.info(&r.g.st)
		info.Status = cmp.Or(info.Status, runlog.Interrupted) // where it is too damaged to say
		info.Show(r.held, r.g.st.holder != "")
		if !f.Takes(info.Status) {
			continue
		}
		infos = append(infos, info)
		if len(infos) == f.Limit {
			break
		}
	}
	return infos, nil
}

// ids returns the runs that may match a filter, in no order.
func (s *store) ids(f *runlog.Filter) ([]string, error) {
	if f.ID != "" {
		if runlog.CheckID(f.ID) != nil || !strings.HasPrefix(f.ID, f.Prefix) {
			return nil, nil
		}
		return []string{f.ID}, nil
	}
	if f.Prefix != "" && runlog.CheckID(f.Prefix) != nil {
		return nil, nil // no ID begins like that
	}
	d, err := os.Open(filepath.Join(s.dir, "runs"))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	if f.Prefix == "" {
		s.cache.trim(names)
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, f.Prefix) || runlog.CheckID(name) != nil
	}), nil
}

// A row is a run in a listing.
type row struct {
	g    *glance
	held bool
}

// glances reads the state of runs for a listing, several at a time.
func (s *store) glances(ctx context.Context, ids []string) ([]row, error) {
	rows := make([]row, len(ids))
	live := s.owners.Liveness(s.now())
	var next atomic.Int64
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	workers := min(runtime.GOMAXPROCS(0), 8, len(ids)/64+1)
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(ids) || ctx.Err() != nil {
				return
			}
			g, err := s.glance(ctx, ids[i], live)
			if err != nil {
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
				return
			}
			if g != nil {
				rows[i] = row{g, live.Held(g.st.claim(g.until))}
			}
		}
	}
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	return slices.DeleteFunc(rows, func(r row) bool { return r.g == nil }), failed
}

// glance looks at a run for a listing. It returns nil if the run is gone.
func (s *store) glance(ctx context.Context, id string, live *owners.Liveness) (*glance, error) {
	info, statErr := os.Stat(s.logPath(id))
	if statErr == nil {
		if l := s.holds.of(id); l != nil {
			if g := l.glance(info.Size()); g != nil {
				return g, nil
			}
		}
		if g := s.cache.run(id, info); g != nil && (g.st.holder == "" || !live.Alive(g.st.holder)) {
			return g, nil
		}
	}
	g, err := s.lookAt(ctx, id, live, info, statErr)
	switch {
	case errors.As(err, new(*runlog.NotFoundError)):
		return nil, nil
	case errors.As(err, new(*runlog.BusyError)): // hangs in a write
		if o, ok := readHold(s.runDir(id)); ok {
			return &glance{h: o.h, st: o.st, until: o.until, durable: o.durable}, nil
		}
		return nil, nil
	case err != nil:
		return nil, err
	}
	if statErr == nil {
		s.cache.keep(id, info, g)
	}
	return g, nil
}

// RequestCancel implements [runlog.Store].
func (s *store) RequestCancel(ctx context.Context, id string) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	if runlog.CheckID(id) != nil {
		return s.notFound(id)
	}
	e, err := s.edit(ctx, id)
	if e != nil {
		defer e.close()
	}
	if err == nil && !e.st.Status.Ended() && !e.st.cancel {
		st := e.st
		st.cancel = true
		err = e.commitLast(&st, e.until)
	}
	return s.explain("writing", err)
}

// Delete implements [runlog.Store]. A damaged run is deleted like any other.
func (s *store) Delete(ctx context.Context, id string) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	if runlog.CheckID(id) != nil {
		return s.notFound(id)
	}
	err := s.patiently(ctx, func(seen *owners.Doubt) error { return s.strike(ctx, id, seen) })
	if err == nil {
		err = s.bury(ctx, id)
	}
	if err != nil {
		return s.explain("writing", err)
	}
	s.watch.Wake(id)
	return nil
}

// strike marks a run as deleted, which fences any process that still has it open.
func (s *store) strike(ctx context.Context, id string, seen *owners.Doubt) error {
	e, err := s.edit(ctx, id)
	if e != nil {
		defer e.close()
	}
	damaged := errors.As(err, new(*runlog.CorruptError))
	if err != nil && !damaged {
		return err
	}
	if err := s.free(id, &e.st, e.until, seen); err != nil {
		return err
	}
	if e.h == nil || e.f == nil {
		return nil
	}
	if e.size, err = e.length(); err != nil {
		return err
	}
	st := e.st
	st.deleted, st.owner, st.holder = true, "", ""
	return e.commitLast(&st, 0)
}

// bury removes a run that was marked as deleted.
func (s *store) bury(ctx context.Context, id string) error {
	unlock, err := s.lockStore(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	g, err := s.look(ctx, id)
	if err == nil && g.damage == nil {
		return nil // it is a new one already
	}
	err = s.discard(id)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // somebody else did it
	}
	return err
}
