package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/superstep-dev/superstep/runlog"
)

// reserved is the most that a batch may have that is to be stored when the server has
// reached its maxmemory.
const reserved = 16 << 10

// A log is the hold of one store on one run.
type log struct {
	s     *Store
	id    string
	born  token
	token token
	epoch uint64

	mu       sync.Mutex
	released bool
	lost     error // why it is unknown what the log holds, nil if it is known

	// What follows belongs to whoever has the turn to write.
	tail tail // as of the last append that was acknowledged
	busy bool // an append is under way
}

// A tail is what is needed of a log to go on with it.
type tail struct {
	seq, ver uint64
	hash     runlog.FrameHash
	status   runlog.Status
}

// usable says whether the log may still write, as far as this process knows.
func (l *log) usable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return l.fenced()
	}
	return l.lost
}

func (l *log) fenced() error { return fmt.Errorf("run %s: %w", l.id, runlog.ErrFenced) }

// reset says that the server has an earlier state of the run than the one this hold knows.
func (l *log) reset(r []any) error {
	return &resetError{store: l.s.name, what: fmt.Sprintf("of run %s it no longer has %s, which was acknowledged", l.id, text(r, 1)),
		remedy: "acquire the run anew to go on with what there is"}
}

// refusal is what a verdict on a hold means.
func (l *log) refusal(r []any) error {
	switch verdict := text(r, 0); verdict {
	case "ok":
		return nil
	case "fenced":
		return l.fenced()
	case "lost":
		return l.reset(r)
	case "damaged":
		return damaged(l.id, l.tail.seq, text(r, 1))
	default:
		return fmt.Errorf("run %s in store %s: %w: the server gave the answer %q", l.id, l.s.name, runlog.ErrUnknown, verdict)
	}
}

// note remembers an outcome after which this hold cannot go on.
func (l *log) note(err error) {
	if errors.Is(err, runlog.ErrUnknown) || errors.Is(err, runlog.ErrStoreReset) {
		l.mu.Lock()
		if l.lost == nil {
			l.lost = err
		}
		l.mu.Unlock()
	}
}

// Append implements runlog.Log. After an error that wraps ErrUnknown or ErrStoreReset this hold
// of the run writes no more: release it and acquire the run again.
func (l *log) Append(ctx context.Context, b *runlog.Batch) error {
	if err := l.usable(); err != nil {
		return err
	}
	a := &appending{l: l, b: b}
	o := &op{id: l.id, prepare: a.prepare, verdict: l.refusal, settle: a.settle, small: b.Status == runlog.WaitingStorage && sizeOf(b) <= reserved, unsureAt: 7}
	if err := l.s.write(ctx, o); err != nil {
		return err
	}
	for i := range b.Records {
		b.Records[i].Seq, b.Records[i].Epoch = a.from+uint64(i), l.epoch
	}
	if len(b.Records) > 0 {
		l.s.watch.wake(l.id)
	}
	return nil
}

func sizeOf(b *runlog.Batch) (n int) {
	for i := range b.Records {
		n += len(b.Records[i].Data) + len(b.Records[i].Path) + 128
	}
	return n
}

// An appending is one batch on its way into the log.
type appending struct {
	l     *log
	b     *runlog.Batch
	from  uint64 // the sequence number of its first record
	then  tail   // the log behind it
	under bool   // it is under way
}

// prepare encodes the batch behind what the log has. There is one append of a log in a group,
// since the next one needs to know what became of it.
func (a *appending) prepare() (args []any, size int, later bool, err error) {
	l := a.l
	if l.busy {
		return nil, 0, true, nil
	}
	if err := l.usable(); err != nil { // an append before this one may have found out
		return nil, 0, false, err
	}
	if l.tail.status.Ended() { // only the holder changes it
		return nil, 0, false, &runlog.EndedError{ID: l.id, Status: l.tail.status}
	}
	a.from, a.then = l.tail.seq+1, l.tail
	a.then.ver++
	if a.b.Status != "" {
		a.then.status = a.b.Status
	}
	snapshot := uint64(0)
	frames := make([]any, 0, len(a.b.Records))
	for i := range a.b.Records {
		rec := a.b.Records[i]
		a.then.seq++
		rec.Seq, rec.Epoch = a.then.seq, l.epoch
		if rec.Kind == runlog.KindSnapshot {
			snapshot = rec.Seq
		}
		var frame []byte
		if frame, a.then.hash, err = runlog.AppendFrame(nil, a.then.hash, &rec); err != nil {
			return nil, 0, false, fmt.Errorf("run %s: %w", l.id, err)
		}
		frames, size = append(frames, frame), size+len(frame)
	}
	l.busy, a.under = true, true
	args = make([]any, 0, 13+len(frames))
	args = append(args, "a", l.id, l.born[:], l.token[:], l.epoch, l.tail.ver, l.tail.seq, flag(false),
		snapshot, string(a.b.Status), flag(a.b.Status.Ended()), l.s.ttl.Milliseconds(), len(frames))
	return append(args, frames...), size, false, nil
}

func (a *appending) settle(err error) {
	if a.under {
		a.l.busy = false
	}
	if err == nil {
		a.l.tail = a.then
		return
	}
	a.l.note(err)
}

// Renew implements runlog.Log.
func (l *log) Renew(ctx context.Context) (cancel bool, err error) {
	if err := l.usable(); err != nil {
		return false, err
	}
	o := &op{
		id: l.id, small: true, harmless: true,
		prepare: func() ([]any, int, bool, error) {
			return []any{"r", l.id, l.born[:], l.token[:], l.epoch, l.s.lease.Microseconds()}, 0, false, nil
		},
		verdict: func(r []any) error {
			if l.tail.status.Ended() && text(r, 0) == "lost" { // its time was over
				return l.fenced()
			}
			cancel = number(r, 1) == 1
			return l.refusal(r)
		},
		settle: func(err error) {
			if errors.Is(err, runlog.ErrStoreReset) {
				l.note(err)
			}
		},
	}
	err = l.s.write(ctx, o)
	return cancel && err == nil, err
}

// Release implements runlog.Log. From the call on nothing can be appended, even if
// it fails; then it may be called again.
func (l *log) Release(ctx context.Context) error {
	l.mu.Lock()
	l.released = true
	l.mu.Unlock()
	return l.s.write(ctx, &op{
		id: l.id, small: true, harmless: true,
		prepare: func() ([]any, int, bool, error) {
			return []any{"f", l.id, l.born[:], l.token[:]}, 0, false, nil
		},
		verdict: l.refusal,
	})
}
