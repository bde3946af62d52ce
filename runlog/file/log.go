package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// A log is the hold of one store on one run.
type log struct {
	storekit.Hold
	s     *store
	epoch uint64
	turn  chan struct{} // is full while somebody writes

	mu    sync.Mutex
	shown glance // for listings of this store

	// The goroutine whose turn it is to write owns the fields below.
	reel
	until int64
	st    state
	buf   []byte
	ends  []int

	squeezing sync.WaitGroup
	slots     chan struct{} // as many as former logs may wait to be compressed
}

// Append implements runlog.Log. After an error that wraps ErrUnknown this hold of the run no longer
// writes: release it and acquire the run again.
func (l *log) Append(ctx context.Context, b *runlog.Batch) error {
	if err := l.s.alive(ctx); err != nil {
		return err
	}
	return l.Alone(ctx, func() error {
		select { // wait while too much is to be compressed
		case l.slots <- struct{}{}:
			<-l.slots
		case <-ctx.Done():
			return ctx.Err()
		}
		l.turn <- struct{}{}
		defer func() { <-l.turn }()
		if err := l.s.alive(context.Background()); err != nil {
			return err
		}
		if err := l.Usable(); err != nil { // it was released meanwhile
			return err
		}
		unlock, err := l.begin(context.WithoutCancel(ctx))
		if err != nil {
			return l.s.explain("writing", err)
		}
		defer unlock()
		if err := ctx.Err(); err != nil { // nothing is written yet
			return err
		}
		if l.size >= l.s.segment {
			if err := l.roll(); err != nil {
				return err
			}
		}
		return l.write(b)
	})
}

// keepMost is how many bytes of buffer one append keeps for the next.
const keepMost = 4 << 20

// write writes a batch. An empty batch only checks whether the run is still held.
func (l *log) write(b *runlog.Batch) error {
	if cap(l.buf) > keepMost {
		l.buf = nil
	}
	then := l.st
	var err error
	l.buf, l.ends, err = then.Encode(l.buf[:0], l.ends[:0], l.ID, l.epoch, b)
	if err != nil || len(l.ends) == 0 && then.Status == l.st.Status && b.Summary == "" {
		return err
	}
	if then.Status != l.st.Status {
		then.updated = l.s.now().UnixNano()
	}
	if then.Status.Ended() {
		then.cancel = false
	}
	mark := then
	mark.summary = b.Summary
	then.summary = cmp.Or(mark.summary, then.summary)
	l.buf = l.h.appendMark(l.buf, l.size, l.size, &mark)
	last := b.Status == runlog.WaitingStorage
	if !last && l.s.reserve.spent.Load() {
		if err := l.s.reserve.fill(); err != nil {
			return l.s.explain("writing", err)
		}
	}
	err = l.reel.append(l.buf)
	if last && errors.As(err, new(*runlog.StorageError)) && l.s.reserve.spend() {
		err = l.reel.append(l.buf)
	}
	if err != nil {
		return err
	}
	l.st.Number(b, l.epoch)
	l.st = then
	l.tell()
	if len(b.Records) > 0 {
		l.s.watch.Wake(l.ID)
	}
	return nil
}

// roll begins a new log, and has the former one compressed beside the next appends. Where it cannot, the log goes on to grow.
func (l *log) roll() error {
	select {
	case l.slots <- struct{}{}:
	default:
		return nil
	}
	base, dir, records := l.h.base, l.dir, l.st.Seq >= l.h.base
	err := l.rotate(&l.st)
	if err == nil {
		l.tell()
	}
	if err != nil || !records {
		<-l.slots
		if errors.Is(err, runlog.ErrUnknown) {
			return err
		}
		return nil
	}
	l.squeezing.Go(func() {
		defer func() { <-l.slots }()
		l.squeeze(dir, base)
	})
	return nil
}

// squeeze compresses a former log. Whatever goes wrong, it stays as it was; Reclaim looks at it again when the run has ended.
func (l *log) squeeze(dir string, base uint64) {
	l.s.packing.Lock()
	tmp, err := l.s.squeeze(dir, base)
	l.s.packing.Unlock()
	if err != nil || tmp == "" {
		return
	}
	l.turn <- struct{}{} // no append finds the run locked by this
	defer func() { <-l.turn }()
	e, err := l.s.edit(context.Background(), l.ID)
	if e != nil {
		defer e.close()
	}
	if err != nil { // the run was deleted, for one; the folder of another of its name would not have the copy
		os.Remove(tmp)
		return
	}
	_ = l.s.replace(dir, base, tmp)
}

// begin takes the run's lock and finds out whether the run is still held. The caller
// has the turn.
func (l *log) begin(ctx context.Context) (unlock func(), err error) {
	short, stop := l.s.patience(ctx)
	defer stop()
	lock, err := l.s.lockAny(short, l.ID)
	switch {
	case errors.As(err, new(*runlog.NotFoundError)):
		return nil, l.Fenced() // it was deleted
	case err != nil && ctx.Err() == nil && short.Err() != nil:
		return nil, fmt.Errorf("run %s: %w; end the process that hangs in it", l.ID, errPatience)
	case err != nil:
		return nil, err
	}
	unlock = func() { _ = lock.Close() }
	if err := l.check(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// check checks whether the log is as this hold left it. The caller has the lock.
func (l *log) check() error {
	own, err := l.f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(l.path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l.Fenced()
	case err != nil:
		return err
	case !os.SameFile(own, there):
		return l.Fenced() // whoever took the run over has begun a new log, or it is another run
	case own.Size() != l.size:
		return l.catchUp(own.Size())
	}
	return nil
}

// catchUp reads what other processes wrote to the log: that the run was taken over or deleted, or
// that its cancellation was requested.
func (l *log) catchUp(size int64) error {
	if size < l.size {
		err := fmt.Errorf("run %s: %w: its log became shorter, from %d bytes to %d; check who changed it", l.ID, runlog.ErrUnknown, l.size, size)
		l.Note(err)
		return err
	}
	data := make([]byte, size-l.size)
	if _, err := l.f.ReadAt(data, l.size); err != nil {
		return err
	}
	for at := int64(0); at < int64(len(data)); {
		st, _, n, err := l.h.decodeMark(data[at:], l.size)
		if err != nil {
			break // somebody died while writing it
		}
		if st.epoch != l.epoch || st.deleted || st.holder == "" {
			return l.Fenced()
		}
		if st.Seq != l.st.Seq {
			return fmt.Errorf("run %s: another process wrote records: %w", l.ID, runlog.ErrFenced)
		}
		st.summary = cmp.Or(st.summary, l.st.summary)
		l.st = st
		l.size += int64(n)
		at += int64(n)
	}
	if l.size == size {
		return nil
	}
	return l.f.Truncate(l.size)
}

// tell publishes the new state of the run.
func (l *log) tell() {
	l.vouch(&l.st, l.until)
	l.show()
}

// show updates the listings of this store.
func (l *log) show() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown = glance{h: *l.h, st: l.st, until: l.until, durable: l.size}
}

// glance returns what the listings of this store may say of the run, if its log has that size.
func (l *log) glance(size int64) *glance {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Usable() != nil || l.shown.durable != size {
		return nil
	}
	g := l.shown
	return &g
}

// Renew implements runlog.Log.
func (l *log) Renew(ctx context.Context) (cancel bool, err error) {
	if err := l.s.alive(ctx); err != nil {
		return false, err
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-l.turn }()
	if err := l.Usable(); err != nil {
		return false, err
	}
	unlock, err := l.begin(ctx)
	if err != nil {
		return false, l.s.explain("writing", err)
	}
	defer unlock()
	l.until = l.s.now().Add(l.s.lease).UnixNano()
	l.tell()
	return l.st.cancel, nil
}

// Release implements runlog.Log. From the call on nothing can be appended, even if it
// fails; then it may be called again.
func (l *log) Release(ctx context.Context) error {
	if err := l.s.alive(ctx); err != nil {
		l.shut()
		return err
	}
	l.shut()
	e, err := l.s.edit(ctx, l.ID)
	if e != nil {
		defer e.close()
	}
	switch {
	case errors.As(err, new(*runlog.NotFoundError)):
		return nil // it was deleted
	case err != nil:
		return l.s.explain("releasing a run of", err)
	case e.st.epoch != l.epoch || e.st.holder == "" || e.h.no != l.h.no:
		return nil // it is another's by now, or nobody's
	}
	st := e.st
	st.owner, st.holder, st.takeovers = "", "", 0
	if err := e.commitLast(&st, 0); err != nil {
		return l.s.explain("releasing a run of", err)
	}
	l.s.watch.Wake(l.ID)
	return nil
}

// shut closes the run for this process.
func (l *log) shut() {
	l.End()
	l.turn <- struct{}{} // whoever writes is finished first
	_ = l.reel.close()
	<-l.turn
	l.squeezing.Wait()
	l.s.holds.forget(l)
}
