//go:build unix

package crash_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/crash"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
)

// Of many who take the same run at the same moment, one gets it.
func TestCrashTake(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *backend) {
		p := b.open(t)
		var stores []crash.Store
		for range 4 {
			stores = append(stores, p.open(t, nil))
		}
		ctx, begin, runs := context.Background(), time.Now(), faults.N(500)
		for n := range runs {
			id := fmt.Sprintf("r-%d", n)
			if err := create(ctx, stores[0], id, crash.Job{Width: 2, Rounds: 1}); err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var logs []runlog.Log
			var all sync.WaitGroup
			ready := make(chan struct{})
			for i := range 8 {
				all.Go(func() {
					<-ready
					l, _, err := stores[i%len(stores)].Acquire(ctx, id, nil)
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						logs = append(logs, l)
					} else if !errors.As(err, new(*runlog.BusyError)) {
						t.Error(err)
					}
				})
			}
			close(ready)
			all.Wait()
			if len(logs) != 1 {
				t.Fatalf("%d got run %s", len(logs), id)
			}
			if err := logs[0].Release(ctx); err != nil {
				t.Fatal(err)
			}
		}
		faults.Report(t, "8 who take a run at once", b.name, runs, begin, "each went to one of them")
	})
}
