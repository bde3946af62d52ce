package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// reserved is the largest batch that is still stored when the server has reached its maxmemory.
const reserved = 16 << 10

// A log is the hold of one store on one run.
type log struct {
	storekit.Hold
	s     *store
	born  token
	token token
	epoch uint64
	tail  tail // as of the last append that was acknowledged; only verdicts set it, one at a time
}

// A tail is the state needed to append to a log.
type tail struct {
	storekit.Tail
	ver uint64
}

// reset reports that the server has an earlier state of the run than the one this hold knows.
func (l *log) reset(r []any) error {
	return &resetError{store: l.s.name, what: fmt.Sprintf("of run %s it no longer has %s, which was acknowledged", l.ID, text(r, 1)),
		remedy: "acquire the run anew to go on with what there is"}
}

// refusal returns the error for a verdict on a hold.
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

// Append implements runlog.Log. After an error that wraps ErrUnknown or ErrStoreReset this hold of
// the run no longer writes: release it and acquire the run again.
func (l *log) Append(ctx context.Context, b *runlog.Batch) error {
	return l.Alone(ctx, func() error {
		was := l.tail
		then := was
		then.ver++
		buf, ends, err := then.Encode(nil, nil, l.ID, l.epoch, b)
		if err != nil {
			return err
		}
		snapshot := uint64(0)
		if then.Snapshot > was.Seq {
			snapshot = then.Snapshot
		}
		args := make([]any, 0, 14+len(ends))
		args = append(args, "a", l.ID, l.born[:], l.token[:], l.epoch, was.ver, was.Seq, flag(false),
			snapshot, string(b.Status), b.Summary, flag(b.Status.Ended()), l.s.ttl.Milliseconds(), len(ends))
		start := 0
		for _, end := range ends {
			args, start = append(args, buf[start:end]), end
		}
		o := &op{id: l.ID, args: args, size: len(buf), small: b.Status == runlog.WaitingStorage && sizeOf(b) <= reserved, unsureAt: 7}
		o.verdict = func(r []any) error {
			err := l.refusal(r)
			if err == nil {
				l.tail = then
			}
			return err
		}
		if err := l.s.write(ctx, o); err != nil {
			l.Note(err)
			return err
		}
		was.Number(b, l.epoch)
		if len(b.Records) > 0 {
			l.s.watch.Wake(l.ID)
		}
		return nil
	})
}

func sizeOf(b *runlog.Batch) (n int) {
	for i := range b.Records {
		n += b.Records[i].Size() + len(b.Records[i].Path) + 128
	}
	return n + len(b.Summary)
}

// Renew implements runlog.Log.
func (l *log) Renew(ctx context.Context) (cancel bool, err error) {
	if err := l.Usable(); err != nil {
		return false, err
	}
	o := &op{
		id: l.ID, small: true, harmless: true,
		args: []any{"r", l.ID, l.born[:], l.token[:], l.epoch, l.s.lease.Microseconds()},
		verdict: func(r []any) error {
			if l.tail.Status.Ended() && text(r, 0) == "lost" { // its time was over
				return l.Fenced()
			}
			cancel = number(r, 1) == 1
			return l.refusal(r)
		},
	}
	if err = l.s.write(ctx, o); errors.Is(err, runlog.ErrStoreReset) {
		l.Note(err)
	}
	return cancel && err == nil, err
}

// Release implements runlog.Log. From the call on nothing can be appended, even if
// it fails; then it may be called again.
func (l *log) Release(ctx context.Context) error {
	l.End()
	return l.s.write(ctx, &op{id: l.ID, small: true, harmless: true, args: []any{"f", l.ID, l.born[:], l.token[:]}, verdict: l.refusal})
}
