package unlisted

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// KindHidden is the one record of a mark: the run and its children are hidden.
const KindHidden runlog.Kind = "run.hidden"

// HiddenFor is how long a hidden run can be restored at least.
const HiddenFor = 24 * time.Hour

// A hidden run has a mark, which is an unlisted log. The run itself does not change. A mark without its record hides nothing: whoever made it looks whether
// somebody holds the run.
const marksPrefix = "hidden--"

func markID(tree string) string {
	sum := sha256.Sum256([]byte(tree))
	return marksPrefix + hex.EncodeToString(sum[:16])
}

// Tree returns which mark hides a run: children have that of the run at the top. Of an encrypted run without its key, the ID tells whether it is one.
func Tree(i *runlog.Info) string {
	if root := runlog.RootOf(i.ID, true); i.IsChild() || i.Summary == "" && i.Parent != "" && (root == i.Parent || root == runlog.RootOf(i.Parent, true)) {
		return root
	}
	return i.ID
}

// marked calls see for each of the runs that has a mark.
func marked(ctx context.Context, store runlog.Store, infos []runlog.Info, see func(info, mark *runlog.Info)) error {
	marks := map[string]*runlog.Info{}
	for i := range infos {
		if infos[i].Status != runlog.Importing {
			marks[markID(Tree(&infos[i]))] = nil
		}
	}
	const few = 8 // which are looked for one by one
	f := runlog.Filter{Prefix: marksPrefix, Status: []runlog.Status{runlog.Importing}}
	for id := range marks {
		if len(marks) <= few {
			f.ID = id
		}
		found, err := store.Runs(ctx, &f)
		if err != nil {
			return err
		}
		for i := range found {
			marks[found[i].ID] = &found[i]
		}
		if f.ID == "" {
			break
		}
	}
	for i := range infos {
		if infos[i].Status == runlog.Importing {
			continue
		}
		if m := marks[markID(Tree(&infos[i]))]; m != nil {
			see(&infos[i], m)
		}
	}
	return nil
}

// Hidden lists the hidden runs whose ID begins with prefix, children too, the newest first, and until when each can be restored at least.
func Hidden(ctx context.Context, store runlog.Store, prefix string) (infos []runlog.Info, until map[string]time.Time, err error) {
	store, until = Whole(store), map[string]time.Time{}
	all, err := store.Runs(ctx, &runlog.Filter{Prefix: prefix})
	if err == nil {
		err = marked(ctx, store, all, func(info, mark *runlog.Info) {
			if mark.Head > 0 {
				until[info.ID] = mark.Updated.Add(HiddenFor)
				infos = append(infos, *info)
			}
		})
	}
	return infos, until, err
}

// Missing returns the error for a run that is not found by the start of its ID, which says whether it is hidden.
func Missing(ctx context.Context, store runlog.Store, ref string) error {
	missing := &runlog.NotFoundError{ID: ref, Store: "the store"}
	if ref == "" {
		return missing
	}
	infos, _, err := Hidden(ctx, store, ref)
	infos = slices.DeleteFunc(infos, func(i runlog.Info) bool { return i.ID != ref && i.IsChild() })
	if i := slices.IndexFunc(infos, func(i runlog.Info) bool { return i.ID == ref }); i >= 0 {
		infos = infos[i : i+1]
	}
	switch {
	case err != nil:
		return err
	case len(infos) > 1:
		return fmt.Errorf("%q begins the IDs of %d removed runs, such as %s and %s: give more of the ID", ref, len(infos), infos[0].ID, infos[1].ID)
	case len(infos) == 1:
		missing.ID, missing.Hidden = infos[0].ID, true
	}
	return missing
}

// family returns a run and its children, as far as they are there, the oldest first.
func family(ctx context.Context, store runlog.Store, id string) ([]runlog.Info, error) {
	root := runlog.RootOf(id, false)
	infos, err := store.Runs(ctx, &runlog.Filter{Prefix: root})
	slices.Reverse(infos)
	in := map[string]bool{id: true}
	return slices.DeleteFunc(infos, func(i runlog.Info) bool {
		in[i.ID] = i.ID == id || Tree(&i) != i.ID && in[i.Parent]
		return !in[i.ID]
	}), err
}

// Hide hides a run with its children from all listings, and from whoever would execute it, until Restore. If a process holds one of them, the error is a
// *runlog.BusyError. If this process dies meanwhile, the run is hidden or nothing has happened.
func Hide(ctx context.Context, store runlog.Store, info *runlog.Info, now time.Time) (err error) {
	store = Whole(store)
	id := info.ID
	if top := Tree(info); top != id {
		return fmt.Errorf("run %s is a child of run %s: remove that one", id, top)
	}
	if err := idle(ctx, store, id); err != nil {
		return err
	}
	mark := markID(id)
	log, was, err := store.Acquire(ctx, mark, &runlog.AcquireOptions{Create: &runlog.NewRun{Parent: id, Status: runlog.Importing}})
	if errors.Is(err, runlog.ErrExists) { // another process died, or is first
		log, was, err = store.Acquire(ctx, mark, nil)
	}
	if busy, ok := errors.AsType[*runlog.BusyError](err); ok {
		busy.ID = id
	}
	if err != nil {
		return err
	}
	if err = idle(ctx, store, id); err == nil && was.Head == 0 { // whoever takes the run from now on finds the mark
		err = log.Append(ctx, &runlog.Batch{Records: []runlog.Record{{Kind: KindHidden, Time: now.UTC()}}})
		if err == nil || errors.Is(err, runlog.ErrUnknown) {
			return errors.Join(err, log.Release(context.WithoutCancel(ctx)))
		}
	}
	err = errors.Join(err, log.Release(context.WithoutCancel(ctx)))
	if was.Head == 0 {
		_ = store.Delete(context.WithoutCancel(ctx), mark) // one that stays hides nothing
	}
	return err
}

// idle returns an error if a run is not there, or somebody holds it or one of its children.
func idle(ctx context.Context, store runlog.Store, id string) error {
	infos, err := family(ctx, store, id)
	if err == nil && !slices.ContainsFunc(infos, func(i runlog.Info) bool { return i.ID == id }) {
		err = &runlog.NotFoundError{ID: id, Store: "the store"}
	}
	if i := slices.IndexFunc(infos, func(i runlog.Info) bool { return i.Owner != "" }); err == nil && i >= 0 {
		err = &runlog.BusyError{ID: infos[i].ID, Owner: infos[i].Owner}
	}
	if err == nil && len(infos) > 1 && runlog.RootOf(id, false) != id {
		err = fmt.Errorf("run %s has too long an ID to be hidden with its children: delete it at once", id)
	}
	return err
}

// Restore brings back the hidden run whose ID begins with ref, with its children, and returns its ID.
func Restore(ctx context.Context, store runlog.Store, ref string) (string, error) {
	err := Missing(ctx, store, ref)
	missing, ok := errors.AsType[*runlog.NotFoundError](err)
	if !ok || !missing.Hidden {
		return "", err
	}
	store = Whole(store)
	infos, err := store.Runs(ctx, &runlog.Filter{ID: missing.ID})
	if err != nil || len(infos) == 0 {
		return "", errors.Join(err, missing)
	}
	return Tree(&infos[0]), store.Delete(ctx, markID(Tree(&infos[0])))
}

// Drop deletes a run that was hidden before a time, whenever if that is zero, with its children, and returns them. It holds the mark meanwhile, so that nobody restores the run.
func Drop(ctx context.Context, store runlog.Store, id string, before time.Time) (infos []runlog.Info, err error) {
	dropped := func(string) {}
	if v, ok := store.(*visible); ok && v.dropped != nil {
		dropped = v.dropped
	}
	store = Whole(store)
	marks, err := store.Runs(ctx, &runlog.Filter{ID: markID(id), Status: []runlog.Status{runlog.Importing}})
	if err != nil || len(marks) == 0 || !before.IsZero() && marks[0].Updated.After(before) { // it was restored, and perhaps hidden again
		return nil, err
	}
	log, _, err := store.Acquire(ctx, markID(id), nil)
	switch {
	case errors.As(err, new(*runlog.NotFoundError)):
		return nil, nil
	case errors.As(err, new(*runlog.StorageError)): // it is deleted because the disk is full
	case err != nil:
		return nil, err
	}
	defer func() {
		if log != nil {
			err = errors.Join(err, log.Release(context.WithoutCancel(ctx)))
		}
		if err == nil { // last: what a crash leaves stays hidden
			err = store.Delete(ctx, markID(id))
		}
		if errors.As(err, new(*runlog.NotFoundError)) {
			err = nil
		}
	}()
	infos, err = family(ctx, store, id)
	for i := range slices.Backward(infos) { // the run itself goes last, so that Drop finds the others after a crash
		if err == nil {
			err = store.Delete(ctx, infos[i].ID)
		}
		if err == nil || errors.As(err, new(*runlog.NotFoundError)) {
			dropped(infos[i].ID)
			err = DropRequests(ctx, store, infos[i].ID)
		}
	}
	return infos, err
}

// Expire deletes the hidden runs that were hidden HiddenFor ago, and returns them with their children. Those that somebody holds it leaves. With dry it only
// returns them.
func Expire(ctx context.Context, store runlog.Store, now time.Time, dry bool) (expired []runlog.Info, err error) {
	before := now.Add(-HiddenFor)
	ids, err := hiddenBefore(ctx, Whole(store), before)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		var infos []runlog.Info
		if !dry {
			infos, err = Drop(ctx, store, id, before)
		} else if infos, err = family(ctx, Whole(store), id); slices.ContainsFunc(infos, func(i runlog.Info) bool { return i.Owner != "" }) {
			continue
		}
		if errors.As(err, new(*runlog.BusyError)) {
			continue
		}
		if err != nil {
			return expired, err
		}
		expired = append(expired, infos...)
	}
	return expired, nil
}

// hiddenBefore returns which runs were hidden before a time, without their children, the one that was hidden first first.
func hiddenBefore(ctx context.Context, store runlog.Store, t time.Time) (ids []string, err error) {
	marks, err := store.Runs(ctx, &runlog.Filter{Prefix: marksPrefix, Status: []runlog.Status{runlog.Importing}})
	slices.Reverse(marks)
	slices.SortStableFunc(marks, func(a, b runlog.Info) int { return a.Updated.Compare(b.Updated) })
	for i := range marks {
		if m := &marks[i]; m.Head > 0 && !m.Updated.After(t) {
			ids = append(ids, m.Parent)
		}
	}
	return ids, err
}

// Visible returns the store without its hidden runs: Runs does not list them, and Acquire returns a *runlog.NotFoundError that says so. On a full disk it
// deletes hidden runs, those that were hidden first, until an append succeeds, and calls dropped for each.
func Visible(store runlog.Store, dropped func(id string)) runlog.Store {
	if v, ok := store.(*visible); ok {
		return v
	}
	return &visible{store, dropped}
}

type visible struct {
	runlog.Store
	dropped func(id string)
}

// Whole returns the store with its hidden runs.
func Whole(store runlog.Store) runlog.Store {
	if v, ok := store.(*visible); ok {
		return v.Store
	}
	return store
}

// Unwrap returns the store below, see [runlog.As].
func (v *visible) Unwrap() runlog.Store { return v.Store }

// Runs implements runlog.Store.
func (v *visible) Runs(ctx context.Context, f *runlog.Filter) ([]runlog.Info, error) {
	var g runlog.Filter
	if f != nil {
		g = *f
	}
	for {
		all, err := v.Store.Runs(ctx, &g)
		if err != nil {
			return all, err
		}
		hidden := map[string]bool{}
		if err := marked(ctx, v.Store, all, func(info, mark *runlog.Info) { hidden[info.ID] = mark.Head > 0 }); err != nil {
			return nil, err
		}
		if len(hidden) == 0 {
			return all, nil
		}
		more := g.Limit > 0 && len(all) == g.Limit
		all = slices.DeleteFunc(all, func(i runlog.Info) bool { return hidden[i.ID] })
		if more && len(all) < f.Limit {
			g.Limit = 0
			continue
		}
		if f != nil && f.Limit > 0 && len(all) > f.Limit {
			all = all[:f.Limit]
		}
		return all, nil
	}
}

// Acquire implements runlog.Store. It looks for a mark once it holds the run, as Hide looks for holders once there is a mark.
func (v *visible) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (log runlog.Log, info runlog.Info, err error) {
	if Reserved(id) {
		err = v.sparing(ctx, func() error {
			log, info, err = v.Store.Acquire(ctx, id, opt)
			return err
		})
		if err != nil {
			return nil, info, err
		}
		return v.spared(log), info, nil
	}
	hidden := false
	if opt != nil && opt.Create != nil {
		if hidden, err = v.clear(ctx, id); err != nil {
			return nil, runlog.Info{}, err
		}
	}
	err = v.sparing(ctx, func() error {
		log, info, err = v.Store.Acquire(ctx, id, opt)
		return err
	})
	if hidden && errors.Is(err, runlog.ErrExists) {
		err = fmt.Errorf("%w: %s", runlog.ErrExists, (&runlog.NotFoundError{ID: id, Hidden: true}).Error())
	}
	if err != nil {
		return nil, runlog.Info{}, err
	}
	if opt == nil || opt.Create == nil {
		merr := marked(ctx, v.Store, []runlog.Info{info}, func(_, mark *runlog.Info) {
			if mark.Head > 0 {
				err = &runlog.NotFoundError{ID: id, Hidden: true}
			} else if mark.Owner != "" {
				err = &runlog.BusyError{ID: id, Owner: mark.Owner} // it is being hidden
			}
		})
		if err = errors.Join(err, merr); err != nil {
			return nil, runlog.Info{}, errors.Join(err, log.Release(context.WithoutCancel(ctx)))
		}
	}
	return v.spared(log), info, nil
}

// Delete implements runlog.Store.
func (v *visible) Delete(ctx context.Context, id string) error {
	err := v.Store.Delete(ctx, id)
	if err == nil && v.dropped != nil && !Reserved(id) {
		v.dropped(id)
	}
	return err
}

// spared returns a log whose appends delete hidden runs on a full disk.
func (v *visible) spared(log runlog.Log) runlog.Log {
	if c, ok := log.(cleaner); ok {
		return &cleaningLog{visibleLog{log, v}, c}
	}
	return &visibleLog{log, v}
}

// clear removes what is left of a hidden run that was deleted: another run of its ID is not hidden. It reports whether there is a hidden run.
func (v *visible) clear(ctx context.Context, id string) (hidden bool, err error) {
	marks, err := v.Store.Runs(ctx, &runlog.Filter{ID: markID(id), Status: []runlog.Status{runlog.Importing}})
	if err != nil || len(marks) == 0 {
		return false, err
	}
	infos, err := v.Store.Runs(ctx, &runlog.Filter{ID: id})
	if err == nil && len(infos) == 0 {
		_, err = Drop(ctx, v, id, time.Time{})
		return false, err
	}
	return marks[0].Head > 0, err
}

// sparing carries out a write. On a full disk it deletes hidden runs until that succeeds.
func (v *visible) sparing(ctx context.Context, write func() error) error {
	full := func(err error) bool {
		return (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.ENOMEM)) && errors.As(err, new(*runlog.StorageError))
	}
	err := write()
	if !full(err) {
		return err
	}
	ids, derr := hiddenBefore(ctx, v.Store, time.Unix(1<<40, 0)) // whatever their age
	for n := 0; derr == nil && n < len(ids) && full(err); n++ {
		if infos, derr := Drop(ctx, v, ids[n], time.Time{}); derr != nil || len(infos) == 0 {
			continue
		}
		if err = write(); !full(err) {
			break
		}
		if r, ok := runlog.As[runlog.Reclaimer](v.Store); ok { // it may need room beside the store's file
			_, _ = r.Reclaim(ctx)
			err = write()
		}
	}
	return err
}

type visibleLog struct {
	runlog.Log
	v *visible
}

// A cleaner is a log that redacts, see package journal.
type cleaner interface {
	Clean(data json.RawMessage) json.RawMessage
}

type cleaningLog struct {
	visibleLog
	cleaner
}

// Append implements runlog.Log.
func (l *visibleLog) Append(ctx context.Context, b *runlog.Batch) error {
	return l.v.sparing(ctx, func() error { return l.Log.Append(ctx, b) })
}
