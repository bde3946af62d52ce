package host

import (
	"context"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// An InboxItem is an open question of a run, in short.
type InboxItem struct {
	Run      string              `json:"run"` // its ID
	Title    string              `json:"title,omitempty"`
	Workflow string              `json:"workflow"`
	Folder   string              `json:"project,omitempty"` // the project that it belongs to, "" if that is not known
	Status   runlog.Status       `json:"status"`            // of the run, as the store lists it
	Path     string              `json:"path"`              // of the task that asks, its address with Key
	Key      string              `json:"key"`
	Task     string              `json:"task"`            // for people
	Agent    string              `json:"agent,omitempty"` // who asks, "" for the step itself
	Kind     runlog.QuestionKind `json:"kind,omitempty"`
	Text     string              `json:"text"` // the header of the question, or else the start of its first line
	Asked    time.Time           `json:"asked"`
	Next     string              `json:"next,omitempty"` // the command that helps a run that no worker takes, without the name of the program
	More     int                 `json:"more,omitempty"` // further questions of the run, which are not in the inbox; in its last item alone
}

// Inbox returns the open questions of all runs of the store, the newest last. Items without a Key are runs that wait for a larger budget, and one of the
// runs for each reason why no worker takes them. It reads no logs, so the oldest five questions of a run are in it at most.
// Messages of conversations are no questions, and runs of older versions are left out until they are resumed.
func (h *Host) Inbox(ctx context.Context) ([]InboxItem, error) {
	store, err := h.Store(ctx, true)
	if err != nil {
		return nil, err
	}
	return h.inbox(ctx, store)
}

func (h *Host) inbox(ctx context.Context, store runlog.Store) (items []InboxItem, err error) {
	infos, err := store.Runs(ctx, &runlog.Filter{Status: []runlog.Status{
		runlog.Running, runlog.Paused, runlog.WaitingStorage, runlog.Interrupted, runlog.Quarantined, runlog.Queued,
	}})
	for i := range infos {
		info := &infos[i]
		sum := summary.Of(info)
		if sum == nil {
			continue
		}
		for k, q := range sum.Questions {
			item := InboxItem{
				Run: info.ID, Title: transcript.Line(info.Title), Workflow: info.Workflow, Folder: sum.Folder, Status: info.Status, Path: q.Path, Key: q.Key,
				Task: (&transcript.Task{Path: q.Path}).Label(), Agent: transcript.Line(q.Agent), Kind: q.Kind, Text: transcript.Line(q.Text), Asked: q.Asked,
			}
			if k == len(sum.Questions)-1 {
				item.More = sum.Open - len(sum.Questions)
			}
			items = append(items, item)
		}
		if sum.Waits == summary.Budget && info.Status == runlog.Paused {
			items = append(items, InboxItem{Run: info.ID, Title: transcript.Line(info.Title), Workflow: info.Workflow, Folder: sum.Folder, Status: info.Status,
				Text: "its budget is used up", Asked: info.Updated})
		}
	}
	if err == nil && slices.ContainsFunc(infos, waitsForWorker) {
		var workers []unlisted.Worker
		workers, err = unlisted.Workers(ctx, store)
		items = append(items, h.unservedItems(workers, infos, time.Now())...)
	}
	slices.SortStableFunc(items, func(a, b InboxItem) int { return a.Asked.Compare(b.Asked) })
	return items, err
}
