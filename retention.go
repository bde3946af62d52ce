package superstep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// Retention names which runs to keep. A run that any of its rules keeps is kept.
//
// Whatever the rules say, unfinished runs are kept: running, paused, interrupted and quarantined
// ones, and those that wait for storage. So is every run that a kept one was forked from, however
// far back. Child runs are kept and removed with their parent.
type Retention struct {
	Newest   int           // keep this many of the newest of each workflow; 0 keeps none for that
	Within   time.Duration // keep what was begun, resumed or ended this long ago or later; 0 keeps none for that
	Workflow string        // remove runs of this workflow only; "" for all
	Dry      bool          // remove nothing, only say what would be
}

// ErrKeepsNothing reports that a Retention has no rule.
var ErrKeepsNothing = errors.New("the retention keeps nothing: say how many of the newest runs to keep, or those of how long")

// Prune removes the runs that a retention does not keep, with their logs, and returns them, the
// newest first, behind those that were hidden 24 hours ago, see [Engine.Hide], which it removes whatever
// the retention. With an error it returns those it has removed. It also removes, without listing
// them, the remains of starts and imports that were killed. It reads no logs. A store may keep the
// disk space, see [runlog.Reclaimer].
func (e *Engine) Prune(ctx context.Context, keep Retention) (removed []runlog.Info, err error) {
	leave, err := e.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if !keep.Dry {
		if err := e.dropImports(ctx); err != nil {
			return nil, err
		}
	}
	if removed, err = unlisted.Expire(ctx, e.store, e.opt.Now(), keep.Dry); err != nil {
		return removed, err
	}
	if keep.Newest <= 0 && keep.Within <= 0 {
		return removed, ErrKeepsNothing
	}
	infos, err := unlisted.Whole(e.store).Runs(ctx, nil)
	if err != nil {
		return removed, err
	}
	_, hidden, err := unlisted.Hidden(ctx, e.store, "") // which keep what they were forked from
	if err != nil {
		return removed, err
	}
	for _, info := range prunable(infos, keep, e.opt.Now(), hidden) {
		if !keep.Dry {
			err := e.remove(ctx, info.ID)
			switch {
			case errors.As(err, new(*runlog.BusyError)), errors.As(err, new(*runlog.NotFoundError)): // it was resumed meanwhile, or removed
				continue
			case err != nil:
				return removed, err
			}
		}
		removed = append(removed, info)
	}
	return removed, nil
}

// Hide removes a run with its child runs from all listings, and nothing executes or changes it, until Restore. Prune deletes it after 24 hours, and an engine
// whose disk is full deletes it at once. If a process holds the run or one of its children, the error is a *runlog.BusyError.
func (e *Engine) Hide(ctx context.Context, id string) error {
	info, err := e.find(ctx, id)
	if err != nil {
		return err
	}
	return unlisted.Hide(ctx, e.store, &info, e.opt.Now())
}

// Restore brings back a hidden run and its child runs as they were, given its ID or a unique prefix of it. It returns the ID.
func (e *Engine) Restore(ctx context.Context, ref string) (string, error) {
	return unlisted.Restore(ctx, e.store, ref)
}

// Delete deletes a run with its child runs, and their logs, also if it is hidden. A child cannot be removed before its parent has ended, and a run whose
// child is held by a process gives the *runlog.BusyError of that child.
func (e *Engine) Delete(ctx context.Context, id string) error {
	info, err := e.find(ctx, id)
	if gone, ok := errors.AsType[*runlog.NotFoundError](err); ok && gone.Hidden && gone.ID == id {
		infos, err := unlisted.Whole(e.store).Runs(ctx, &runlog.Filter{ID: id})
		if err == nil && len(infos) > 0 && unlisted.Tree(&infos[0]) != id {
			err = fmt.Errorf("run %s is a child of run %s, which was removed: restore that one, or delete it", id, unlisted.Tree(&infos[0]))
		}
		if err == nil {
			_, err = unlisted.Drop(ctx, e.store, id, time.Time{})
		}
		return err
	}
	if err != nil {
		return err
	}
	if info.IsChild() && !e.orphaned(ctx, &runlog.Child{Parent: info.Parent}) {
		return fmt.Errorf("run %s is a child of run %s, which has not ended: cancel or remove that one", id, info.Parent)
	}
	infos, err := e.childrenOf(ctx, &info)
	if err != nil {
		return err
	}
	for i := range infos {
		if infos[i].Owner != "" {
			return &runlog.BusyError{ID: infos[i].ID, Owner: infos[i].Owner}
		}
	}
	if err := e.remove(ctx, id); err != nil {
		return err
	}
	for i := range infos { // their parent is gone
		if err := e.Delete(ctx, infos[i].ID); err != nil && !errors.As(err, new(*runlog.NotFoundError)) {
			return err
		}
	}
	return nil
}

// remove removes a run and its log.
func (e *Engine) remove(ctx context.Context, id string) error {
	if err := e.store.Delete(ctx, id); err != nil {
		return err
	}
	return unlisted.DropRequests(ctx, e.store, id)
}

// dropImports removes the remains of starts and imports whose process crashed. No listing shows
// them.
func (e *Engine) dropImports(ctx context.Context) error {
	left, err := e.store.Runs(ctx, &runlog.Filter{Status: []runlog.Status{runlog.Importing}})
	if err != nil {
		return err
	}
	for _, info := range left {
		if info.Owner != "" || unlisted.Lasts(info.ID) && info.Head > 0 || e.opt.Now().Sub(info.Updated) < time.Hour {
			continue // it goes on, perhaps: between two epochs nobody holds it
		}
		if info.ID == unlisted.RequestsID(info.Parent) { // a run that has not ended still reads them
			of, err := unlisted.Whole(e.store).Runs(ctx, &runlog.Filter{ID: info.Parent})
			if err != nil {
				return err
			}
			if len(of) > 0 && !of[0].Status.Ended() {
				continue
			}
		}
		err := e.store.Delete(ctx, info.ID)
		if err != nil && !errors.As(err, new(*runlog.BusyError)) && !errors.As(err, new(*runlog.NotFoundError)) {
			return err
		}
	}
	return nil
}

// prunable returns the runs that a retention does not keep. The runs are given with the newest
// first.
func prunable(infos []runlog.Info, keep Retention, now time.Time, hidden map[string]time.Time) []runlog.Info {
	byID := make(map[string]*runlog.Info, len(infos))
	newer := map[string]int{} // runs of a workflow that have been seen
	kept := make(map[string]bool, len(infos))
	for i := range infos {
		info := &infos[i]
		if byID[info.ID] = info; info.IsChild() { // it goes with its parent, and one that has not ended keeps that
			kept[info.ID] = !done(*info)
			continue
		}
		if _, kept[info.ID] = hidden[info.ID]; kept[info.ID] {
			continue
		}
		newer[info.Workflow]++
		over := info.Status.Ended() || info.Status == runlog.Failed
		kept[info.ID] = !over ||
			keep.Workflow != "" && info.Workflow != keep.Workflow ||
			newer[info.Workflow] <= keep.Newest ||
			keep.Within > 0 && now.Sub(info.Updated) <= keep.Within
	}
	for i := range infos {
		if !kept[infos[i].ID] {
			continue
		}
		for p := byID[infos[i].Parent]; p != nil && !kept[p.ID]; p = byID[p.Parent] {
			kept[p.ID] = true
		}
	}
	var out []runlog.Info
	for i := range infos {
		if !kept[root(byID, &infos[i]).ID] {
			out = append(out, infos[i])
		}
	}
	return out
}

// root returns the run at the top of a tree of child runs, as far as it is there.
func root(byID map[string]*runlog.Info, info *runlog.Info) *runlog.Info {
	for range byID { // no more, should they be in a circle
		up := byID[info.Parent]
		if !info.IsChild() || up == nil {
			break
		}
		info = up
	}
	return info
}
