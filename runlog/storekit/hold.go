package storekit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// A Hold is the state of a [runlog.Log]'s hold on the run ID. Its methods are safe for concurrent use.
type Hold struct {
	ID string

	once     sync.Once
	turn     chan struct{} // full while something is appended
	mu       sync.Mutex
	released bool
	lost     error // why it is unknown what the log holds, nil if it is known
}

// Usable returns why the log may write no more, as far as this process knows, nil if it may.
func (h *Hold) Usable() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return h.Fenced()
	}
	return h.lost
}

// Fenced returns the error for a run that is another's by now.
func (h *Hold) Fenced() error { return fmt.Errorf("run %s: %w", h.ID, runlog.ErrFenced) }

// Note remembers an error after which the hold cannot write: an unknown outcome, or a loss of acknowledged records. It ignores other errors.
func (h *Hold) Note(err error) {
	if errors.Is(err, runlog.ErrUnknown) || errors.Is(err, runlog.ErrStoreReset) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.lost == nil {
			h.lost = err
		}
	}
}

// Alone calls write, which appends to the log, unless the log may write no more. One call at a
// time is in it; the others wait, at most as long as their contexts last. If write panics or its
// outcome is unknown, the hold cannot write any more.
func (h *Hold) Alone(ctx context.Context, write func() error) (err error) {
	h.once.Do(func() { h.turn = make(chan struct{}, 1) })
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := h.Usable(); err != nil {
		return err
	}
	err = fmt.Errorf("run %s: %w: something panicked in it", h.ID, runlog.ErrUnknown)
	defer func() {
		if errors.Is(err, runlog.ErrUnknown) {
			h.Note(err)
		}
	}()
	err = write()
	return err
}

// End ends the hold: from now on, Usable returns an error that wraps runlog.ErrFenced.
func (h *Hold) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = true
}

// A Tail holds the data of a log's end that an append needs.
type Tail struct {
	Seq      uint64 // the number of the last record
	Hash     runlog.FrameHash
	Status   runlog.Status
	Snapshot uint64
}

// Encode appends the frames of a batch to dst, advances the tail past them, and returns the end of each frame in dst. After an error the tail is
// unchanged. It returns a *runlog.EndedError for a run that has ended, and refuses a summary that is too long.
func (t *Tail) Encode(dst []byte, ends []int, id string, epoch uint64, b *runlog.Batch) ([]byte, []int, error) {
	if t.Status.Ended() {
		return dst, ends, &runlog.EndedError{ID: id, Status: t.Status}
	}
	if n := len(b.Summary); n > runlog.MaxSummary {
		return dst, ends, fmt.Errorf("run %s: the summary of a batch has %d bytes, at most %d are allowed", id, n, runlog.MaxSummary)
	}
	then, frames, n := *t, dst, len(ends)
	if b.Status != "" {
		then.Status = b.Status
	}
	for i := range b.Records {
		rec := b.Records[i]
		then.Seq++
		rec.Seq, rec.Epoch = then.Seq, epoch
		if rec.Kind == runlog.KindSnapshot {
			then.Snapshot = rec.Seq
		}
		var err error
		if frames, then.Hash, err = runlog.AppendFrame(frames, then.Hash, &rec); err != nil {
			return dst, ends[:n], fmt.Errorf("run %s: %w", id, err)
		}
		ends = append(ends, len(frames))
	}
	*t = then
	return frames, ends, nil
}

// Number numbers the records of a batch that was stored behind the tail.
func (t *Tail) Number(b *runlog.Batch, epoch uint64) {
	for i := range b.Records {
		b.Records[i].Seq, b.Records[i].Epoch = t.Seq+uint64(i)+1, epoch
	}
}

// Diagnose replaces an error about a damaged last record by an error about the run's first damage. It returns other errors unchanged.
func Diagnose(ctx context.Context, s runlog.Store, id string, err error) error {
	if corrupt := (*runlog.CorruptError)(nil); !errors.As(err, &corrupt) {
		return err
	}
	for from := uint64(1); ; {
		records, readErr := s.Read(ctx, id, from, 256)
		if errors.As(readErr, new(*runlog.CorruptError)) {
			return readErr
		}
		if readErr != nil || len(records) == 0 {
			return err
		}
		from += uint64(len(records))
	}
}

// Explained reports whether an error is complete: it names the run or store, and the remedy.
func Explained(err error) bool {
	for _, own := range []any{
		new(*runlog.NotFoundError), new(*runlog.BusyError), new(*runlog.CorruptError), new(*runlog.EndedError), new(*runlog.QuarantinedError),
		new(*runlog.VersionError), new(*runlog.StorageError),
	} {
		if errors.As(err, own) {
			return true
		}
	}
	return errors.Is(err, runlog.ErrFenced) || errors.Is(err, runlog.ErrExists)
}

// Defaults sets the defaults of a store's options: a lease of 15 seconds, the host and the process as the displayed holder of runs, and a failpoint that
// does nothing.
func Defaults(lease *time.Duration, owner *string, failpoint *func(name string)) {
	if *lease <= 0 {
		*lease = 15 * time.Second
	}
	if *owner == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "localhost"
		}
		*owner = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	if *failpoint == nil {
		*failpoint = func(string) {}
	}
}

// A Backoff spaces attempts out. The zero value is ready.
type Backoff struct{ tries int }

// Wait pauses, longer each time, up to half a second. It ends early with ctx or stop, and then
// returns false.
func (b *Backoff) Wait(ctx context.Context, stop <-chan struct{}) bool {
	most := min(4*time.Millisecond<<min(b.tries, 10), 500*time.Millisecond)
	b.tries++
	t := time.NewTimer(most/2 + rand.N(most/2))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-stop:
	}
	return false
}
