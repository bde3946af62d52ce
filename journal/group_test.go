package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// gatedStore holds its first append up until it is told to continue, so that what comes
// meanwhile shares the next one, and lets a test interfere with each append.
type gatedStore struct {
	*runlog.Memory
	begun, open chan struct{}
	around      func(n int, store func() error) error
	n           int
}

func newGatedStore(around func(n int, store func() error) error) *gatedStore {
	return &gatedStore{Memory: runlog.NewMemory(nil), begun: make(chan struct{}), open: make(chan struct{}), around: around}
}

func (s *gatedStore) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	l, info, err := s.Memory.Acquire(ctx, id, opt)
	return &gatedLog{l, s}, info, err
}

type gatedLog struct {
	runlog.Log
	s *gatedStore
}

func (l *gatedLog) Append(ctx context.Context, b *runlog.Batch) error {
	l.s.n++
	if l.s.n == 1 {
		close(l.s.begun)
		<-l.s.open
	}
	return l.s.around(l.s.n, func() error { return l.Log.Append(ctx, b) })
}

// group appends the first batch, and all others in one group behind it. It returns what became of
// each. One whose goroutine panics has the error errPanicked.
func (s *gatedStore) group(t *testing.T, j *journal.Journal, batches ...[]runlog.Record) []error {
	t.Helper()
	errs := make([]error, len(batches))
	var wg sync.WaitGroup
	for i, recs := range batches {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("%w: %v", errPanicked, p)
				}
			}()
			errs[i] = j.Append(t.Context(), "", recs...)
		})
		if i == 0 {
			<-s.begun
			continue
		}
		for j.Queued() != i && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
	}
	close(s.open)
	wg.Wait()
	return errs
}

var errPanicked = errors.New("it panicked")

func events(t *testing.T, j *journal.Journal, n int) [][]runlog.Record {
	t.Helper()
	var out [][]runlog.Record
	for i := range n {
		r, err := j.New(runlog.KindEvent, "task", json.RawMessage(fmt.Sprintf(`{"name":"%d"}`, i)))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, []runlog.Record{r})
	}
	return out
}

// stored counts the records of each event.
func stored(t *testing.T, store runlog.Store) map[string]int {
	t.Helper()
	out := map[string]int{}
	for r, err := range runlog.Records(t.Context(), store, "run", 1) {
		if err != nil {
			t.Fatal(err)
		}
		out[string(r.Data)]++
	}
	return out
}

// A panic in a shared append acknowledges nothing that is not stored, whether it comes before the
// store has written or after, and the journal writes nothing more: nobody knows what is there.
func TestAPanicAcknowledgesNothing(t *testing.T) {
	for name, around := range map[string]func(n int, store func() error) error{
		"before": func(n int, store func() error) error {
			if n == 2 {
				panic("before")
			}
			return store()
		},
		"after": func(n int, store func() error) error {
			err := store()
			if n == 2 {
				panic("after")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := newGatedStore(around)
			j := openJournal(t, store, nil)
			batches := events(t, j, 4)
			errs := store.group(t, j, batches...)
			panicked, there := 0, stored(t, store)
			for i, err := range errs {
				switch n := there[string(batches[i][0].Data)]; {
				case errors.Is(err, errPanicked):
					panicked++
				case err == nil && n != 1:
					t.Errorf("append %d is acknowledged and stored %d times", i, n)
				case i > 0 && !errors.Is(err, runlog.ErrUnknown):
					t.Errorf("append %d: %v", i, err)
				}
			}
			if errs[0] != nil || panicked != 1 {
				t.Errorf("got %v", errs)
			}
			if err := j.Append(t.Context(), "", events(t, j, 1)[0]...); !errors.Is(err, runlog.ErrUnknown) {
				t.Errorf("an append after that: %v", err)
			}
			if n := len(stored(t, store)); n != len(there) {
				t.Errorf("%d records, then %d", len(there), n)
			}
			if err := j.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			j = openJournal(t, store, &journal.Options{})
			if err := j.Append(t.Context(), "", events(t, j, 1)[0]...); err != nil {
				t.Errorf("the run opened again: %v", err)
			}
		})
	}
}

// So does a panic at a failpoint, and one in an append that is made again by itself.
func TestAPanicOfAFailpoint(t *testing.T) {
	for _, point := range []string{"journal.before-append", "journal.after-append"} {
		n, fail := 0, 2
		store := newGatedStore(func(_ int, store func() error) error { return store() })
		j := openJournal(t, store, &journal.Options{Create: &runlog.NewRun{}, Failpoint: func(name string) {
			if name == point {
				if n++; n == fail {
					panic(name)
				}
			}
		}})
		batches := events(t, j, 3)
		errs := store.group(t, j, batches...)
		there := stored(t, store)
		for i, err := range errs {
			if n := there[string(batches[i][0].Data)]; n > 1 || err == nil && n != 1 {
				t.Errorf("%s: append %d gives %v and is stored %d times", point, i, err, n)
			}
		}
		_ = j.Close(t.Context())
	}
}

// A panic while the appends of a group that was refused are made one by one leaves those before
// it as they are, and acknowledges none of those behind it.
func TestAPanicAmongThoseMadeOneByOne(t *testing.T) {
	refused := errors.New("refused")
	store := newGatedStore(func(n int, store func() error) error {
		switch n {
		case 2:
			return refused
		case 4:
			panic("the second of them")
		}
		return store()
	})
	j := openJournal(t, store, nil)
	batches := events(t, j, 4)
	errs := store.group(t, j, batches...)
	there, acknowledged := stored(t, store), 0
	for i, err := range errs {
		if err == nil {
			acknowledged++
		}
		if n := there[string(batches[i][0].Data)]; n > 1 || err == nil && n != 1 {
			t.Errorf("append %d gives %v and is stored %d times", i, err, n)
		}
	}
	if acknowledged == 0 || acknowledged > 2 || len(there) != 2 {
		t.Errorf("got %v, stored %v", errs, there)
	}
}

// A record that nobody could read again is refused before anything is stored, and harms nobody.
func TestARecordThatCannotBeRead(t *testing.T) {
	store := newGatedStore(func(_ int, store func() error) error { return store() })
	j := openJournal(t, store, nil)
	bad, err := j.New(runlog.KindSettled, "task", json.RawMessage(`{"key":1}`))
	if err != nil {
		t.Fatal(err)
	}
	batches := events(t, j, 2)
	if err := j.Append(t.Context(), "", bad); err == nil || errors.Is(err, runlog.ErrUnknown) {
		t.Fatalf("it was taken: %v", err)
	}
	for i, err := range store.group(t, j, batches...) {
		if err != nil {
			t.Errorf("append %d: %v", i, err)
		}
	}
	if there := stored(t, store); len(there) != 2 || j.Head() != 2 {
		t.Errorf("stored %v, head %d", there, j.Head())
	}
}

// What a store has made unreadable while it wrote it is not written again.
func TestARecordThatTheStoreSpoils(t *testing.T) {
	store := newGatedStore(nil)
	var spoil func() // the settled outcome, if it is in the batch
	store.around = func(n int, store func() error) error {
		if n == 2 {
			spoil()
		}
		return store()
	}
	j := openJournal(t, store, nil)
	batches := events(t, j, 2)
	settled, err := j.New(runlog.KindSettled, "task", runlog.Settled{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	spoil = func() { copy(settled.Data, `{"key":123`) }
	errs := store.group(t, j, append(batches, []runlog.Record{settled})...)
	if errs[0] != nil || !errors.Is(errs[1], runlog.ErrUnknown) || !errors.Is(errs[2], runlog.ErrUnknown) {
		t.Errorf("got %v", errs)
	}
	for data, n := range stored(t, store) {
		if n != 1 {
			t.Errorf("%s is stored %d times", data, n)
		}
	}
	if j.Head() != 3 {
		t.Errorf("followers are told of %d records, want 3", j.Head())
	}
}
