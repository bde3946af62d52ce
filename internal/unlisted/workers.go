package unlisted

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/runlog"
)

// A Worker describes a process that takes queued runs, for those who list runs. It is the summary of an unlisted log, which the process holds as long as it
// takes runs.
type Worker struct {
	Place []string          `json:"place,omitempty"` // its labels
	Skips map[string]string `json:"skips,omitempty"` // by workflow, or SkippedRun: why it could not execute that
	Left  bool              `json:"left,omitempty"`  // it takes no runs any more: the description tells what it has not taken
	// hidden reports that the description cannot be read: the store is encrypted with a key that the reader lacks.
	hidden bool
}

// SkippedRun returns what Worker.Skips has for one run, other than for all of its workflow.
func SkippedRun(id string) string { return "run " + id }

const workersPrefix = "worker--"

// encode returns the stored form, with as many reasons as there is room for.
func (w *Worker) encode() string {
	out := Worker{Place: w.Place, Skips: map[string]string{}, Left: w.Left}
	for name, why := range w.Skips {
		out.Skips[clean.Clip(name, 100)] = clean.Clip(clean.Text(why), 100)
	}
	for {
		b, _ := json.Marshal(&out) // it has only what JSON has
		if len(b) <= runlog.MaxSummary-64 || len(out.Skips) == 0 {
			return string(b)
		}
		for name := range out.Skips {
			delete(out.Skips, name)
			break
		}
	}
}

// A Presence is the hold of a worker on its description.
type Presence struct {
	store runlog.Store
	log   runlog.Log
	id    string
	last  string
}

// Announce stores the description of a worker. It removes those of workers that have crashed.
func Announce(ctx context.Context, store runlog.Store, w *Worker) (*Presence, error) {
	left, err := store.Runs(ctx, &runlog.Filter{Prefix: workersPrefix, Status: []runlog.Status{runlog.Importing}})
	if err != nil {
		return nil, err
	}
	for i := range left {
		if left[i].Owner == "" {
			_ = store.Delete(ctx, left[i].ID) // or the next worker does
		}
	}
	p := &Presence{store: store, id: fmt.Sprintf("%s%016x", workersPrefix, rand.Uint64())}
	if p.log, _, err = store.Acquire(ctx, p.id, &runlog.AcquireOptions{Create: &runlog.NewRun{Status: runlog.Importing}}); err != nil {
		return nil, err
	}
	return p, p.Renew(ctx, w)
}

// Renew extends the hold, and stores the description if it has changed.
func (p *Presence) Renew(ctx context.Context, w *Worker) error {
	if now := w.encode(); now != p.last {
		if err := p.log.Append(ctx, &runlog.Batch{Summary: now}); err != nil {
			return err
		}
		p.last = now
	}
	_, err := p.log.Renew(ctx)
	return err
}

// Stay lets go of the description, which the next worker removes.
func (p *Presence) Stay(ctx context.Context) error { return p.log.Release(ctx) }

// Leave removes the description.
func (p *Presence) Leave(ctx context.Context) error {
	return errors.Join(p.log.Release(ctx), p.store.Delete(ctx, p.id))
}

// Workers returns the workers that take queued runs of the store now, and the last one that has left without taking some.
func Workers(ctx context.Context, store runlog.Store) ([]Worker, error) {
	infos, err := store.Runs(ctx, &runlog.Filter{Prefix: workersPrefix, Status: []runlog.Status{runlog.Importing}})
	var out []Worker
	for i := range infos {
		var w Worker
		w.hidden = json.Unmarshal([]byte(infos[i].Summary), &w) != nil
		if infos[i].Owner != "" || w.Left { // else it has crashed
			out = append(out, w)
		}
	}
	return out, err
}

// Has reports whether the worker has all labels.
func (w *Worker) Has(place []string) bool {
	return w.hidden || !slices.ContainsFunc(place, func(label string) bool { return !slices.Contains(w.Place, label) })
}

// Lacking returns what no worker has that a run needs: the labels, or a text about its workflow. It returns nothing if a worker can take the run.
func Lacking(workers []Worker, run, workflow string, place []string) (labels []string, why string) {
	for i := range workers {
		w := &workers[i]
		if !w.Has(place) {
			continue
		}
		said := cmp.Or(w.Skips[SkippedRun(run)], w.Skips[clean.Clip(workflow, 100)])
		if said == "" && !w.Left {
			return nil, ""
		}
		why = cmp.Or(why, said)
	}
	if why != "" {
		return nil, why
	}
	for _, label := range place {
		if !slices.ContainsFunc(workers, func(w Worker) bool { return w.Has([]string{label}) }) {
			labels = append(labels, label)
		}
	}
	if labels == nil { // each has a worker, but not all of them together
		labels = place
	}
	return labels, ""
}

// SchedulesPrefix begins the IDs of the logs of schedules. Such a log has the status runlog.Importing, so no listing shows it.
const SchedulesPrefix = "schedule--"

// MemoryPrefix begins the IDs of the logs of package memory.
const MemoryPrefix = "memory--"

// Reserved reports whether an ID may be that of an unlisted log. No run may have such an ID: the holder of another run would obey the records of a mailbox.
func Reserved(id string) bool {
	return slices.ContainsFunc([]string{RequestsPrefix, SchedulesPrefix, workersPrefix, limitsPrefix, MemoryPrefix, marksPrefix}, func(p string) bool { return strings.HasPrefix(id, p) })
}

// Lasts reports whether an ID is that of an unlisted log that stays, whoever made it: a schedule, a memory, or what hides a run.
func Lasts(id string) bool {
	return strings.HasPrefix(id, SchedulesPrefix) || strings.HasPrefix(id, MemoryPrefix) || strings.HasPrefix(id, marksPrefix)
}
