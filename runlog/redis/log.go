package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// reserved is the most that a batch may have that is to be stored when the server has
// reached its maxmemory.
const reserved = 16 << 10

// A log is the hold of one store on one run.
type log struct {
	storekit.Hold
	s     *store
	born  token
	token token
	epoch uint64

	// What follows belongs to whoever has the turn to write.
	tail tail // as of the last append that was acknowledged
	busy bool // an append is under way
}

// A tail is what is needed of a log to go on with it.
type tail struct {
	storekit.Tail
	ver uint64
}

// reset says that the server has an earlier state of the run than the one this hold knows.
func (l *log) reset(r []any) error {
	return &resetError{store: l.s.name, what: fmt.Sprintf("of run %s it no longer has %s, which was acknowledged", l.ID, text(r, 1)),
		remedy: "acquire the run anew to go on with what there is"}
}

// refusal is what a verdict on a hold means.
func (l *log) refusal(r []any) error {
	switch verdict := text(r, 0); verdict {
	case "ok":
		return nil
	case "fenced":
		return l.Fenced()
	case "lost":
		return l.reset(r)
	case "damaged":
		return damaged(l.ID, l.tail.Seq, text(r, 1))
	default:
		return fmt.Errorf("run %s in store %s: %w: the server gave the answer %q", l.ID, l.s.name, runlog.ErrUnknown, verdict)
	}
}

// Append implements runlog.Log. After an error that wraps ErrUnknown or ErrStoreReset this hold
// of the run writes no more: release it and acquire the run again.
func (l *log) Append(ctx context.Context, b *runlog.Batch) error {
	if err := l.Usable(); err != nil {
		return err
	}
	a := &appending{l: l, b: b}
	o := &op{id: l.ID, prepare: a.prepare, verdict: l.refusal, settle: a.settle, small: b.Status == runlog.WaitingStorage && sizeOf(b) <= reserved, unsureAt: 7}
	if err := l.s.write(ctx, o); err != nil {
		return err
	}
	storekit.Number(b, a.from, l.epoch)
	if len(b.Records) > 0 {
		l.s.watch.Wake(l.ID)
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
	if err := l.Usable(); err != nil { // an append before this one may have found out
		return nil, 0, false, err
	}
	a.from, a.then = l.tail.Seq+1, l.tail
	a.then.ver++
	buf, ends, err := a.then.Encode(nil, nil, l.ID, l.epoch, a.b)
	if err != nil {
		return nil, 0, false, err
	}
	frames, start := make([]any, 0, len(ends)), 0
	for _, end := range ends {
		frames, start = append(frames, buf[start:end]), end
	}
	snapshot := uint64(0)
	if a.then.Snapshot > l.tail.Seq {
		snapshot = a.then.Snapshot
	}
	l.busy, a.under = true, true
	args = make([]any, 0, 13+len(frames))
	args = append(args, "a", l.ID, l.born[:], l.token[:], l.epoch, l.tail.ver, l.tail.Seq, flag(false),
		snapshot, string(a.b.Status), flag(a.b.Status.Ended()), l.s.ttl.Milliseconds(), len(frames))
	return append(args, frames...), len(buf), false, nil
}

func (a *appending) settle(err error) {
	if a.under {
		a.l.busy = false
	}
	if err == nil {
		a.l.tail = a.then
		return
	}
	a.l.Note(err)
}

// Renew implements runlog.Log.
func (l *log) Renew(ctx context.Context) (cancel bool, err error) {
	if err := l.Usable(); err != nil {
		return false, err
	}
	o := &op{
		id: l.ID, small: true, harmless: true,
		prepare: func() ([]any, int, bool, error) {
			return []any{"r", l.ID, l.born[:], l.token[:], l.epoch, l.s.lease.Microseconds()}, 0, false, nil
		},
		verdict: func(r []any) error {
			if l.tail.Status.Ended() && text(r, 0) == "lost" { // its time was over
				return l.Fenced()
			}
			cancel = number(r, 1) == 1
			return l.refusal(r)
		},
		settle: func(err error) {
			if errors.Is(err, runlog.ErrStoreReset) {
				l.Note(err)
			}
		},
	}
	err = l.s.write(ctx, o)
	return cancel && err == nil, err
}

// Release implements runlog.Log. From the call on nothing can be appended, even if
// it fails; then it may be called again.
func (l *log) Release(ctx context.Context) error {
	l.End()
	return l.s.write(ctx, &op{
		id: l.ID, small: true, harmless: true,
		prepare: func() ([]any, int, bool, error) {
			return []any{"f", l.ID, l.born[:], l.token[:]}, 0, false, nil
		},
		verdict: l.refusal,
	})
}
