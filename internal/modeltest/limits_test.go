package modeltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/model"
)

// limits checks that whatever the server does, a turn ends in bounded time and memory.
func (s suite) limits(t *testing.T) {
	const limit = 400 * time.Millisecond
	with := func(f Fault, at int, pause time.Duration) Reply {
		r := Text("hello")
		r.Fault, r.At, r.Pause = f, at, pause
		return r
	}
	said := func(delta string, pause time.Duration) Reply { // for ever
		return Reply{Parts: []model.Part{text("so"), text(delta)}, Fault: Infinite, At: 2, Pause: pause}
	}
	for _, c := range []struct {
		name          string
		reply         Reply
		idle, timeout time.Duration
		code          string
	}{
		{"silent", with(Silent, 0, 0), limit, 0, model.CodeIdle},
		{"stalled", with(Stall, 40, 0), limit, 0, model.CodeIdle},
		{"stalled after the first part", with(Stall, -1, 0), limit, 0, model.CodeIdle},
		{"slow bytes", with(Trickle, 0, 50*time.Millisecond), 0, limit, model.CodeTimeout},
		{"comments", with(Chatter, 0, 50*time.Millisecond), 0, limit, model.CodeTimeout},
		{"comments are no progress", with(Chatter, 0, 50*time.Millisecond), limit, 0, model.CodeIdle},
		{"empty deltas", said("", 50*time.Millisecond), 0, limit, model.CodeTimeout},
		{"empty deltas are no progress", said("", 50*time.Millisecond), limit, 0, model.CodeIdle},
		{"empty deltas without a pause", said("", 0), 0, 0, model.CodeIdle},
		{"slow text is progress", said("x", 20*time.Millisecond), time.Second, 2 * time.Second, model.CodeTimeout},
		{"text without a pause", said(strings.Repeat("word ", 200), 0), 0, 0, model.CodeTooLarge},
		{"comments without a pause", with(Chatter, 0, 0), 0, limit, ""},
		{"stalled, both limits", with(Stall, -1, 0), time.Hour, limit, model.CodeTimeout},
		{"infinite", with(Infinite, 1, 0), 0, limit, ""}, // too long or too large, whichever comes first
		{"gigantic line", with(LongLine, 1, 0), 0, 0, model.CodeTooLarge},
		{"gigantic event", with(LongEvent, 1, 0), 0, 0, model.CodeTooLarge},
		{"gigantic body", with(LongBody, 0, 0), 0, 0, model.CodeTooLarge},
		{"gzip bomb", with(GzipBomb, 0, 0), 0, 0, ""},
		{"endless error", Reply{Status: 500, Fault: Infinite}, 0, limit, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			// The attempts share the limits.
			start, peak := time.Now(), memoryPeak()
			e := s.fails(t, Script{Handle: Sequence(c.reply), Idle: c.idle, Timeout: c.timeout, Attempts: 3})
			took := time.Since(start)
			heap, resident := peak()
			if c.code != "" && e.Code != c.code {
				t.Errorf("the error has the code %q, want %q: %v", e.Code, c.code, e)
			}
			if c.idle+c.timeout > 0 && took > max(limit, c.timeout)+faults.Bound(time.Second) {
				t.Errorf("the turn took %s, the limit is %s", took, limit)
			}
			if max(heap, resident) > 64<<20 {
				t.Errorf("the heap grew by %d MiB and the process by %d MiB, the limit is 64", heap>>20, resident>>20)
			}
		})
	}
}

// memoryPeak starts watching the memory of the process, client and server in one; the function it
// returns ends that and says by how many bytes the heap had grown at most, and by how many what the
// system has given the process, where that can be asked.
func memoryPeak() func() (heap, resident uint64) {
	read := func() [2]uint64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return [2]uint64{s[0].Value.Uint64(), residentBytes()}
	}
	debug.FreeOSMemory()
	before := read()
	stop, result := make(chan struct{}), make(chan [2]uint64)
	go func() {
		peak := before
		for {
			select {
			case <-stop:
				result <- [2]uint64{peak[0] - before[0], peak[1] - before[1]}
				return
			case <-time.After(2 * time.Millisecond):
				now := read()
				peak = [2]uint64{max(peak[0], now[0]), max(peak[1], now[1])}
			}
		}
	}()
	return func() (uint64, uint64) {
		close(stop)
		peak := <-result
		return peak[0], peak[1]
	}
}

// residentBytes is what Linux says; 0 elsewhere.
func residentBytes() uint64 {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident uint64
	if _, err := fmt.Sscan(string(raw), &size, &resident); err != nil {
		return 0
	}
	return resident * uint64(os.Getpagesize())
}

// leaving checks that a turn nobody wants any more ends at once, on both sides.
func (s suite) leaving(t *testing.T) {
	why := errors.New("why not")
	for _, c := range []struct {
		name  string
		reply Reply
		leave func(cancel context.CancelCauseFunc) bool // at the first part; says whether to go on
	}{
		{"canceled before the headers", Reply{Fault: Silent}, nil},
		{"canceled between attempts", Failure(503, "2"), nil},
		{"canceled in the middle", Reply{Parts: []model.Part{text("x")}, Fault: Infinite, At: 1}, func(cancel context.CancelCauseFunc) bool { cancel(why); return true }},
		{"broken off", Reply{Parts: []model.Part{text("x")}, Fault: Infinite, At: 1}, func(context.CancelCauseFunc) bool { return false }},
		{"broken off in silence", Reply{Parts: rich().Parts, Fault: Stall, At: -1}, func(context.CancelCauseFunc) bool { return false }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gone := make(chan (<-chan struct{}), 3)
			m := s.model(t, Script{Attempts: 3, Handle: func(r *ParsedRequest) Reply { gone <- r.Gone; return c.reply }})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if c.leave == nil {
				time.AfterFunc(100*time.Millisecond, func() { cancel(why) })
			}
			start := time.Now()
			var failure error
			left := false
			for _, err := range m.Generate(ctx, request()) {
				if failure = err; err == nil && !left {
					if left = true; !c.leave(cancel) {
						break
					}
				}
			}
			if took := time.Since(start); took > faults.Bound(time.Second) {
				t.Errorf("it took %s to end", took)
			}
			if context.Cause(ctx) != nil {
				if e := typed(t, failure); e.Code != model.CodeCanceled || !errors.Is(failure, context.Canceled) || !errors.Is(failure, why) {
					t.Errorf("got the error %v, want one that wraps the context's and its cause", failure)
				}
			}
			select {
			case <-<-gone:
			case <-time.After(faults.Bound(5 * time.Second)):
				t.Error("the connection is still open")
			}
		})
	}
	t.Run("ranged over twice", func(t *testing.T) {
		seq := s.model(t, Script{Handle: Sequence(Text("x"))}).Generate(t.Context(), request())
		if _, err := model.Collect(seq, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := model.Collect(seq, nil); err == nil {
			t.Error("the second range gave no error")
		}
	})
}
