package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/runlog"
)

// Project returns the folder that runs belong to: Dir without symbolic links.
func (h *Host) Project() string {
	if real, err := filepath.EvalSymlinks(h.Dir()); err == nil {
		return real
	}
	return h.Dir()
}

// FolderLabel returns the place of the workers of this folder, see superstep.RecoverOptions. A schedule belongs to the folder in which it was added.
func (h *Host) FolderLabel() string {
	dir := h.Project()
	sum := sha256.Sum256([]byte(dir))
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(filepath.Base(dir)))
	return "folder-" + name[:min(len(name), 14)] + "-" + hex.EncodeToString(sum[:4])
}

// A ScheduleItem is a schedule with what users want to know of it.
type ScheduleItem struct {
	superstep.Schedule
	State      string        `json:"state"` // active, paused, overdue (no worker has carried it out for a minute) or ended (it has no more ticks)
	Next       []time.Time   `json:"next"`  // the next three ticks, in its zone
	LastStatus runlog.Status `json:"last_status,omitempty"`
}

// Schedules lists the schedules of the store.
func (h *Host) Schedules(ctx context.Context) ([]ScheduleItem, error) {
	e, err := h.Engine(ctx, &EngineOptions{Look: true})
	if err != nil {
		return nil, err
	}
	all, err := e.Schedules(ctx)
	out := make([]ScheduleItem, 0, len(all))
	for _, s := range all {
		item := ScheduleItem{Schedule: s, State: "active", Next: s.Upcoming(3)}
		switch {
		case s.Paused:
			item.State = "paused"
		case s.Due.IsZero():
			item.State = "ended"
		case time.Since(s.Due) > time.Minute:
			item.State = "overdue"
		}
		if s.Last != "" {
			infos, ferr := e.Runs(ctx, &runlog.Filter{ID: s.Last})
			if ferr == nil && len(infos) > 0 {
				item.LastStatus = infos[0].Status
			}
		}
		out = append(out, item)
	}
	return out, err
}
