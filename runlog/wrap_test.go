package runlog_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
)

type waits struct{}

func (waits) Wait(context.Context, string, uint64) error { return nil }

type sizes struct{}

func (sizes) Sizes(context.Context, *runlog.Filter) (map[string]int64, error) { return nil, nil }

type reclaims struct{}

func (reclaims) Reclaim(context.Context) (int64, error) { return 0, nil }

// A wrapped store can what the inner one can, and says no more of itself.
func TestWrap(t *testing.T) {
	t.Parallel()
	bare := struct{ runlog.Store }{runlog.NewMemory(nil)}
	able := func(s runlog.Store) string {
		_, w := s.(runlog.Waiter)
		_, z := s.(runlog.Sizer)
		_, r := s.(runlog.Reclaimer)
		return fmt.Sprint(w, z, r)
	}
	for _, inner := range []runlog.Store{
		bare,
		struct {
			runlog.Store
			waits
		}{Store: bare},
		struct {
			runlog.Store
			sizes
		}{Store: bare},
		struct {
			runlog.Store
			reclaims
		}{Store: bare},
		struct {
			runlog.Store
			waits
			sizes
		}{Store: bare},
		struct {
			runlog.Store
			waits
			reclaims
		}{Store: bare},
		struct {
			runlog.Store
			sizes
			reclaims
		}{Store: bare},
		struct {
			runlog.Store
			waits
			sizes
			reclaims
		}{Store: bare},
	} {
		if got, want := able(runlog.Wrap(bare, inner)), able(inner); got != want {
			t.Errorf("the inner store can %s, the wrapped one %s", want, got)
		}
	}
}
