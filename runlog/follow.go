package runlog

import (
	"context"
	"iter"
	"time"
)

// Follow yields the records of a run that another process may be writing, as Follow of a journal
// does, without live-only ones. It ends when no process executes the run any more and everything
// was yielded.
func Follow(ctx context.Context, store Store, id string, from uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		next := max(from, 1)
		for {
			// The status is read before the records, so that a run that ends in between is read to its end.
			infos, err := store.Runs(ctx, &Filter{ID: id})
			if err != nil {
				yield(Record{}, err)
				return
			}
			if len(infos) == 0 {
				yield(Record{}, &NotFoundError{ID: id, Store: "the store"})
				return
			}
			for r, err := range Records(ctx, store, id, next) {
				if !yield(r, err) || err != nil {
					return
				}
				next = r.Seq + 1
			}
			if infos[0].Status != Running {
				return
			}
			if err := wait(ctx, store, id, next); err != nil {
				yield(Record{}, err)
				return
			}
		}
	}
}

// wait waits until a run may have a record of that sequence number. It also returns earlier from
// time to time, since a crash of the process writes no record.
func wait(ctx context.Context, store Store, id string, seq uint64) error {
	limit := 100 * time.Millisecond
	w, ok := As[Waiter](store)
	if ok {
		limit = 2 * time.Second
	}
	short, stop := context.WithTimeout(ctx, limit)
	defer stop()
	if ok {
		if err := w.Wait(short, id, seq); err != nil && short.Err() == nil {
			return err
		}
	} else {
		<-short.Done()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Records reads all stored records of a run from a sequence number on.
func Records(ctx context.Context, store Store, id string, from uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		next := max(from, 1)
		for {
			recs, err := store.Read(ctx, id, next, 256)
			for i := range recs {
				if err := checkSealed(id, &recs[i]); err != nil {
					yield(Record{}, err)
					return
				}
				if !yield(recs[i], nil) {
					return
				}
			}
			if err != nil {
				yield(Record{}, err)
				return
			}
			if len(recs) == 0 {
				return
			}
			next = recs[len(recs)-1].Seq + 1
		}
	}
}
