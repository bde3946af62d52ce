package storekit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

func TestHold(t *testing.T) {
	h := &storekit.Hold{ID: "r"}
	h.Note(errors.New("refused"))
	if err := h.Usable(); err != nil {
		t.Errorf("a refusal ends the hold: %v", err)
	}
	h.Note(fmt.Errorf("one: %w", runlog.ErrUnknown))
	h.Note(fmt.Errorf("two: %w", runlog.ErrStoreReset))
	if err := h.Usable(); !errors.Is(err, runlog.ErrUnknown) || err.Error()[:3] != "one" {
		t.Errorf("it says %v", err)
	}
	h.End()
	if err := h.Usable(); !errors.Is(err, runlog.ErrFenced) {
		t.Errorf("after its end: %v", err)
	}
}

// An append that waits for another one ends with its context.
func TestHoldAloneEndsWithContext(t *testing.T) {
	h, inside, leave := &storekit.Hold{ID: "r"}, make(chan struct{}), make(chan struct{})
	var other sync.WaitGroup
	other.Go(func() {
		if err := h.Alone(t.Context(), func() error { close(inside); <-leave; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-inside
	ended, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if err := h.Alone(ended, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second ended with %v", err)
	}
	close(leave)
	other.Wait()
}

// One append at a time; after one that panics nothing more is written.
func TestHoldAlone(t *testing.T) {
	h := &storekit.Hold{ID: "r"}
	var all sync.WaitGroup
	busy, n := 0, 0
	for range 20 {
		all.Go(func() {
			err := h.Alone(t.Context(), func() error {
				if busy++; busy != 1 {
					t.Error("two at a time")
				}
				time.Sleep(100 * time.Microsecond)
				busy--
				n++
				return errors.New("refused")
			})
			if err == nil || err.Error() != "refused" {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n != 20 {
		t.Errorf("%d were called", n)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if err := h.Alone(ended, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = h.Alone(t.Context(), func() error { panic("no") })
	}()
	if err := h.Alone(t.Context(), nil); !errors.Is(err, runlog.ErrUnknown) {
		t.Errorf("after a panic: %v", err)
	}
}

func TestTail(t *testing.T) {
	at := time.Unix(1, 0)
	good := &runlog.Batch{Status: runlog.Paused, Records: []runlog.Record{
		{Time: at, Kind: "a", Data: json.RawMessage(`1`)}, {Time: at, Kind: runlog.KindSnapshot, Data: json.RawMessage(`2`)}, {Time: at, Kind: "b"},
	}}
	tail := storekit.Tail{Seq: 4, Status: runlog.Running}
	frames, ends, err := tail.Encode([]byte("before"), nil, "r", 7, good)
	if err != nil || tail.Seq != 7 || tail.Snapshot != 6 || tail.Status != runlog.Paused || len(ends) != 3 || ends[2] != len(frames) {
		t.Fatalf("%+v, ends %v of %d, error %v", tail, ends, len(frames), err)
	}
	chain, start := runlog.NewChain("r", 5), len("before")
	for i, end := range ends {
		rec, err := chain.Next(frames[start:end])
		if err != nil || rec.Seq != uint64(5+i) || rec.Epoch != 7 || rec.Kind != good.Records[i].Kind {
			t.Fatalf("record %d: %+v, error %v", i, rec, err)
		}
		start = end
	}
	if chain.Hash != tail.Hash {
		t.Error("the tail's hash is not that of the last frame")
	}
	if good.Records[0].Seq != 0 {
		t.Error("the caller's records were numbered before they were stored")
	}
	(&storekit.Tail{Seq: 4}).Number(good, 7)
	if r := good.Records[2]; r.Seq != 7 || r.Epoch != 7 {
		t.Errorf("numbered %+v", r)
	}
	was := tail
	bad := &runlog.Batch{Status: runlog.Completed, Records: []runlog.Record{{Time: at, Kind: "a"}, {Time: at, Kind: ""}}}
	if got, more, err := tail.Encode(frames, ends, "r", 7, bad); err == nil || tail != was || len(got) != len(frames) || len(more) != 3 {
		t.Errorf("a bad batch: %+v, %d ends, error %v", tail, len(more), err)
	}
	tail.Status = runlog.Completed
	if _, _, err := tail.Encode(nil, nil, "r", 7, good); !errors.As(err, new(*runlog.EndedError)) {
		t.Errorf("an ended run: %v", err)
	}
}
