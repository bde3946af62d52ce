package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/runlog"
)

// appending is a call of Append.
type appending struct {
	recs   []runlog.Record
	status runlog.Status
	ended  bool
	err    error
}

// New creates a record with the current time. Data may be nil; it is encoded as JSON, except a json.RawMessage, which is used unchanged.
func (j *Journal) New(kind runlog.Kind, path string, data any) (runlog.Record, error) {
	r := runlog.Record{Kind: kind, Path: path, Time: j.opt.Now().UTC()}
	switch d := data.(type) {
	case nil:
		return r, nil
	case json.RawMessage:
		r.Data = d
		return r, nil
	}
	var err error
	if r.Data, err = json.Marshal(data); err != nil {
		return r, fmt.Errorf("encoding %s of %s: %w", kind, cmp.Or(path, "the run"), err)
	}
	return r, nil
}

// Append stores records durably, all or none, and shows them to followers. A status other than "" becomes the run's status in listings. Concurrent
// appends are stored in one batch, but fail separately: an append whose ctx has ended or whose records cannot be stored does not affect the others.
//
// After an append that failed with ErrUnknown, or in which the store panicked, every append
// returns ErrUnknown: close the journal and open it again, which reads what is stored.
func (j *Journal) Append(ctx context.Context, status runlog.Status, recs ...runlog.Record) error {
	together, due, err := j.course.appends(ctx, recs)
	if err = cmp.Or(err, due.Err()); err != nil {
		return fmt.Errorf("run %s: %w", j.id, err)
	}
	for i := range recs {
		if _, err := payload(&recs[i]); err != nil { // with it the run could not be opened again
			return fmt.Errorf("run %s: %w", j.id, err)
		}
	}
	a := &appending{recs: recs[:together], status: status}
	if err := j.enqueue(due, a); err != nil || together == len(recs) {
		return err
	}
	return j.Append(ctx, status, recs[together:]...)
}

// enqueue stores what is to be appended, with what others append meanwhile.
func (j *Journal) enqueue(ctx context.Context, a *appending) error {
	j.mu.Lock()
	j.queue = append(j.queue, a)
	j.mu.Unlock()
	j.append.Lock()
	defer j.append.Unlock()
	if !a.ended { // nobody took it along
		j.mu.Lock()
		group := j.queue
		j.queue = nil
		j.mu.Unlock()
		// From here on the batch also holds appends of other callers, so this caller's ctx must not end it.
		j.commit(context.WithoutCancel(ctx), group)
	}
	return a.err
}

// commit writes a group of appends. If the store refuses the group, it writes them one by one. The outcome of each append is ErrUnknown until the real
// one is known: if the store panics, only the writing caller sees the panic, and the others must not take it for a success. The caller holds append.
func (j *Journal) commit(ctx context.Context, group []*appending) {
	for _, a := range group {
		a.ended, a.err = true, errPanicked
	}
	err := j.write(ctx, group...)
	refused := err != nil && !errors.Is(err, runlog.ErrUnknown) // nothing of it is stored
	for _, a := range group {
		if a.err = err; refused && len(group) > 1 {
			a.err = errPanicked
			a.err = j.write(ctx, a)
		}
	}
}

// errPanicked is the outcome of appends during which the store panicked.
var errPanicked = fmt.Errorf("%w: something panicked in it; open the run again", runlog.ErrUnknown)

// write stores the records of a group durably in one batch. If it returns an error that does not wrap ErrUnknown, nothing is stored. The caller holds
// append.
func (j *Journal) write(ctx context.Context, group ...*appending) error {
	if j.lost != nil {
		return j.lost
	}
	j.lost = errPanicked
	err := j.put(ctx, group)
	if j.lost = nil; errors.Is(err, runlog.ErrUnknown) {
		j.lost = err
	}
	return err
}

// put does the storing for write, without the bookkeeping afterwards.
func (j *Journal) put(ctx context.Context, group []*appending) error {
	if err := j.carryOn(group); err != nil {
		return err
	}
	var b runlog.Batch
	for _, a := range group {
		b.Records = append(b.Records, a.recs...)
		if a.status != "" {
			b.Status = a.status
		}
	}
	j.fail("journal.before-append")
	j.mu.Lock()
	undo := j.preview(&b)
	j.mu.Unlock()
	if err := j.log.Append(ctx, &b); err != nil {
		if undo != nil {
			j.mu.Lock()
			undo()
			j.mu.Unlock()
		}
		return fmt.Errorf("run %s: %w", j.id, err)
	}
	j.fail("journal.after-append")
	var unread error
	j.mu.Lock()
	j.summed = undo != nil
	for i := range b.Records {
		if err := j.note(&b.Records[i]); err != nil && unread == nil {
			unread = fmt.Errorf("run %s: %w: it is stored and cannot be read: %w", j.id, runlog.ErrUnknown, err)
		}
		j.info.Head = b.Records[i].Seq
		if b.Records[i].Kind == runlog.KindTaskDone {
			delete(j.begun, b.Records[i].Path)
		}
		if b.Records[i].Kind == runlog.KindSnapshot {
			j.info.Snapshot = b.Records[i].Seq
		}
	}
	j.info.Status, j.info.Summary = cmp.Or(b.Status, j.info.Status), cmp.Or(b.Summary, j.info.Summary)
	j.mu.Unlock()
	j.hub.publish(b.Records...)
	for i := range b.Records { // now that Head says so too: who is told may look whether anything is new
		if r := &b.Records[i]; r.Kind == runlog.KindAnswered {
			j.tell(func(path string) bool { return path == "" || r.Path == path || strings.HasPrefix(r.Path, path+"/") })
		} else if j.freed || mail.BudgetOf(r) != nil {
			j.freed = false
			j.tell(func(string) bool { return true })
		}
	}
	return unread
}

// tell wakes the listeners of some paths.
func (j *Journal) tell(some func(path string) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for ch, path := range j.listen {
		if !some(path) {
			continue
		}
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Write creates a record with New and appends it.
func (j *Journal) Write(ctx context.Context, status runlog.Status, kind runlog.Kind, path string, data any) error {
	r, err := j.New(kind, path, data)
	if err != nil {
		return err
	}
	return j.Append(ctx, status, r)
}

// Live shows a record to the current followers, redacted if the store redacts, and stores nothing.
func (j *Journal) Live(kind runlog.Kind, path string, data any) {
	if !j.hub.followed() {
		return
	}
	if r, err := j.New(kind, path, data); err == nil {
		r.Data = j.Clean(r.Data)
		j.hub.publish(r)
	}
}
