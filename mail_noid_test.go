package superstep_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// A message without an ID, which only a writer of the store can leave, is refused: nothing could tell that it has been delivered.
func TestMessageWithoutIDIsRefused(t *testing.T) {
	t.Parallel()
	k := &talker{turns: 3, enter: make(chan int), leave: make(chan struct{})}
	r := &rig{second: k.run}
	store := runlog.NewMemory(nil)
	e := engine(t, store, r.workflow(t))
	run := start(t, e, nil)
	go func() {
		for n := range k.enter {
			if n == 0 {
				log, _, err := store.Acquire(t.Context(), unlisted.RequestsID(run.ID()),
					&runlog.AcquireOptions{Create: &runlog.NewRun{Parent: run.ID(), Status: runlog.Importing}})
				if err != nil {
					t.Error(err)
				} else if err = log.Append(t.Context(), &runlog.Batch{Records: []runlog.Record{
					{Kind: unlisted.KindSteer, Path: "second", Time: time.Now(), Data: json.RawMessage(`{"data":"say now"}`)},
					{Kind: unlisted.KindBudget, Time: time.Now(), Data: json.RawMessage(`{"data":{"tokens":1}}`)},
				}}); err != nil {
					t.Error(err)
				}
			}
			k.leave <- struct{}{}
		}
	}()
	out, err := run.Wait(t.Context())
	close(k.enter)
	if err != nil || out.Status != runlog.Completed || string(out.Output) != `"a  b:1"` {
		t.Errorf("got %+v, %v", out, err)
	}
	if told := said(t, store, run.ID()); len(told) != 0 {
		t.Errorf("it was told %v", told)
	}
}
