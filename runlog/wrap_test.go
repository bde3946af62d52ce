package runlog_test

import (
	"context"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
)

type wrapped struct{ runlog.Store }

func (w wrapped) Unwrap() runlog.Store { return w.Store }

type sizer struct{ runlog.Store }

func (sizer) Sizes(context.Context, *runlog.Filter) (map[string]int64, error) {
	return map[string]int64{"own": 1}, nil
}

// A wrapped store can what the inner one can, and says no more of itself.
func TestAs(t *testing.T) {
	t.Parallel()
	m := runlog.NewMemory(nil)
	bare := struct{ runlog.Store }{m}
	for _, c := range []struct {
		store               runlog.Store
		waits, sizes, frees bool
	}{
		{m, true, true, false}, {bare, false, false, false}, {wrapped{m}, true, true, false}, {wrapped{wrapped{m}}, true, true, false},
		{wrapped{bare}, false, false, false}, {wrapped{sizer{m}}, false, true, false},
	} {
		_, waits := runlog.As[runlog.Waiter](c.store)
		_, sizes := runlog.As[runlog.Sizer](c.store)
		_, frees := runlog.As[runlog.Reclaimer](c.store)
		if waits != c.waits || sizes != c.sizes || frees != c.frees {
			t.Errorf("%T waits %t, sizes %t, frees %t", c.store, waits, sizes, frees)
		}
	}
	if s, ok := runlog.As[runlog.Sizer](sizer{wrapped{m}}); !ok {
		t.Error("it cannot what it can itself")
	} else if got, _ := s.Sizes(t.Context(), nil); got["own"] != 1 {
		t.Errorf("another store answers: %v", got)
	}
}
