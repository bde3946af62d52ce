package waitlist

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

func info(id, workflow string, status runlog.Status, created int, q *runlog.Queue) *runlog.Info {
	i := &runlog.Info{ID: id, Workflow: workflow, Status: status, Created: time.Unix(int64(created), 0)}
	if q != nil {
		b, err := json.Marshal(map[string]any{"queue": q})
		if err != nil {
			panic(err)
		}
		i.Summary = string(b)
	}
	return i
}

func first(int) int { return 0 }

func drain(l *List, now time.Time) (ids []string) {
	for w := l.Next(now, first); w != nil; w = l.Next(now, first) {
		ids = append(ids, w.Info.ID)
	}
	return ids
}

func TestOrder(t *testing.T) {
	l, now := &List{Place: []string{"gpu"}}, time.Unix(100, 0)
	for _, i := range []*runlog.Info{
		info("b2", "b", runlog.Queued, 5, nil), info("a1", "a", runlog.Queued, 1, nil), info("a3", "a", runlog.Queued, 3, nil), info("a2", "a", runlog.Queued, 2, nil),
		info("b1", "b", runlog.Queued, 4, nil), info("k1", "a", runlog.Queued, 6, &runlog.Queue{Key: "k"}),
		info("high", "a", runlog.Queued, 7, &runlog.Queue{Priority: 1, Place: []string{"gpu"}}), info("low", "a", runlog.Queued, 0, &runlog.Queue{Priority: -1}),
		info("left", "a", runlog.Interrupted, 9, nil), info("other", "a", runlog.Queued, 0, &runlog.Queue{Place: []string{"gpu", "acp"}}),
		info("later", "a", runlog.Queued, 0, &runlog.Queue{NotBefore: time.Unix(200, 0)}),
	} {
		if !l.Add(i) || l.Add(i) {
			t.Errorf("%s is added twice or not at all", i.ID)
		}
	}
	held := info("held", "a", runlog.Queued, 0, nil)
	held.Owner = "other"
	if l.Add(held); l.Away != 1 || !l.Soonest().Equal(time.Unix(200, 0)) {
		t.Errorf("%d are for others, the next is due at %v", l.Away, l.Soonest())
	}
	if n, oldest := l.Size(); n != 10 || !oldest.Equal(time.Unix(0, 0)) {
		t.Errorf("there are %d, the oldest of %v", n, oldest)
	}
	if got, want := drain(l, now), []string{"left", "high", "b1", "a1", "k1", "b2", "a2", "a3", "low"}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
	if got := drain(l, time.Unix(200, 0)); !slices.Equal(got, []string{"later"}) {
		t.Errorf("later there are %v", got)
	}
}

// A line whose limit is reached waits, and the others do not. A reset keeps whose turn it is.
func TestBlockAndReset(t *testing.T) {
	l, now := &List{}, time.Unix(100, 0)
	add := func() {
		for n := range 3 {
			l.Add(info(fmt.Sprint("a", n), "a", runlog.Queued, n, nil))
			l.Add(info(fmt.Sprint("k", n), "a", runlog.Queued, n, &runlog.Queue{Key: "k"}))
		}
	}
	add()
	if w := l.Next(now, first); w.Info.ID != "a0" {
		t.Fatal(w.Info.ID)
	}
	l.Reset()
	add()
	w := l.Next(now, first)
	if w.Info.ID != "k0" {
		t.Fatalf("after a reset %s is next", w.Info.ID)
	}
	l.Block(w, now.Add(time.Second))
	if got := drain(l, now); !slices.Equal(got, []string{"a0", "a1", "a2"}) {
		t.Errorf("while the key is blocked there are %v", got)
	}
	if got := drain(l, now.Add(time.Second)); !slices.Equal(got, []string{"k0", "k1", "k2"}) {
		t.Errorf("then there are %v", got)
	}
}

// Picking a run does not depend on how many there are.
func BenchmarkNext(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := &List{}
			for i := range n {
				l.Add(info(fmt.Sprint("r", i), fmt.Sprint("w", i%10), runlog.Queued, i, nil))
			}
			b.ResetTimer()
			for b.Loop() {
				w := l.Next(time.Time{}, first)
				if w == nil {
					b.Fatal("none is left")
				}
				l.Block(w, time.Time{})
			}
		})
	}
}
