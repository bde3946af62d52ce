package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// unserved tells why no worker takes a run that waits for one.
type unserved struct {
	why  string // for people, such as "no worker has gpu"
	next string // the command that helps, without the name of the program
}

// waitsForWorker reports whether a listed run may wait for a worker in vain.
func waitsForWorker(info runlog.Info) bool {
	return info.Status == runlog.Queued || info.Status == runlog.Interrupted
}

// unservedBy returns why none of the workers takes a run now, nil if one may, or if the run does not wait for one.
func (h *Host) unservedBy(workers []unlisted.Worker, info *runlog.Info, now time.Time) *unserved {
	if !waitsForWorker(*info) {
		return nil
	}
	q := info.Queue()
	if q == nil {
		q = &runlog.Queue{}
	}
	none := !slices.ContainsFunc(workers, func(w unlisted.Worker) bool { return !w.Left })
	labels, why := unlisted.Lacking(workers, info.ID, info.Workflow, q.Place)
	switch {
	case info.Status == runlog.Queued && now.Before(q.NotBefore):
		return nil // it waits for a date
	case info.Status == runlog.Interrupted && none:
		return nil // somebody stopped it, perhaps to resume it by hand
	case len(q.Place) == 0 && none && info.IsChild():
		return nil // the process of its parent executes it
	case none && why != "":
		return &unserved{"no worker is running, and the last one did not take this run: " + transcript.Line(why), "worker"}
	case len(q.Place) == 0 && none:
		return &unserved{"no worker is running", "worker"}
	}
	if strings.HasPrefix(why, "it comes with the rule ") || strings.HasPrefix(why, "its folder ") {
		return &unserved{"no worker takes this run: " + transcript.Line(why), "worker"}
	}
	if why != "" {
		return &unserved{fmt.Sprintf("no worker has workflow %s as this run needs it (%s)", transcript.Line(info.Workflow), transcript.Line(why)), "worker"}
	}
	if labels == nil {
		return nil
	}
	u := &unserved{"no worker has " + strings.Join(labels, ", "), "worker"}
	own := h.FolderLabel()
	if labels[0] == own {
		u.why = "no worker is running in this folder"
	}
	if place := slices.DeleteFunc(q.Place, func(label string) bool { return label == own }); len(place) > 0 {
		u.next += " --place " + strings.Join(place, ",")
	}
	return u
}

// Unserved returns a function that reports whether no worker takes a run, one of those listed now.
func (h *Host) Unserved(ctx context.Context, infos []runlog.Info) (func(*runlog.Info) bool, error) {
	var workers []unlisted.Worker
	if slices.ContainsFunc(infos, waitsForWorker) {
		store, err := h.Store(ctx, true)
		if err != nil {
			return nil, err
		}
		if workers, err = unlisted.Workers(ctx, store); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	return func(i *runlog.Info) bool { return h.unservedBy(workers, i, now) != nil }, nil
}

// unservedItems returns an item of the inbox for each reason for which no worker takes runs, about the run that has waited longest.
func (h *Host) unservedItems(workers []unlisted.Worker, infos []runlog.Info, now time.Time) (items []InboxItem) {
	n, at := map[string]int{}, map[string]int{}
	for i := range infos {
		info := &infos[i] // the newest first
		u := h.unservedBy(workers, info, now)
		if u == nil {
			continue
		}
		n[u.why]++
		item := InboxItem{Run: info.ID, Title: transcript.Line(info.Title), Workflow: info.Workflow, Status: info.Status, Text: u.why, Asked: info.Updated, Next: u.next}
		if n := n[u.why]; n > 1 {
			item.Text += fmt.Sprintf(": %s wait", inwords.Plural(n, "run"))
		}
		item.Text += "; start one: " + h.cfg.Name + " " + u.next
		if k, ok := at[u.why]; ok {
			items[k] = item
		} else {
			at[u.why] = len(items)
			items = append(items, item)
		}
	}
	return items
}
