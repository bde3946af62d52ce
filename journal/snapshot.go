package journal

import (
	"slices"

	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/runlog"
)

// SnapshotDue reports whether the next commit of a graph must include a snapshot: if due is true, or if the log of the graph has grown since its last
// snapshot by twice the size of that snapshot. Snapshots then grow threefold, so all of them together are at most half as large again as the last one,
// and both the log and a recovery stay linear in what the run produced. The path is that of the task that runs the graph, "" for the run's own.
func (j *Journal) SnapshotDue(path string, due bool) bool {
	j.mu.Lock()
	since, size := j.since, j.size
	if path != "" {
		s := j.space(path)
		since, size = s.since, s.size
	}
	j.mu.Unlock()
	return j.course.snapshot(path, due || since > max(2*size, j.opt.SnapshotAfter))
}

// Attaches reports whether the next result of the task at a path, or the next snapshot of the graph there, may have an attachment. It may unless the
// journal replays a log from before there were attachments. Without a journal nothing has one.
func (j *Journal) Attaches(kind runlog.Kind, path string) bool {
	return j != nil && j.course.attaches(kind, path)
}

// carryOn adds the data that must follow a snapshot when the snapshot is written. It puts the snapshot first, so that no record of the group precedes it
// without being part of it.
func (j *Journal) carryOn(group []*appending) error {
	i, k := -1, -1
	for n, a := range group {
		if k = slices.IndexFunc(a.recs, func(r runlog.Record) bool { return r.Kind == runlog.KindSnapshot }); k >= 0 {
			i = n
			break
		}
	}
	if i < 0 {
		return nil
	}
	a := group[i]
	recs, rest := slices.Clone(a.recs[:k+1]), a.recs[k+1:]
	c, err := j.carried(recs, rest)
	if err != nil {
		return err
	}
	if len(rest) > 0 && rest[0].Kind == carry.Kind {
		rest = rest[1:]
	}
	if c != nil {
		r, err := j.New(carry.Kind, "", c)
		if err != nil {
			return err
		}
		r.Time = recs[k].Time
		recs = append(recs, r)
	}
	a.recs = slices.Concat(recs, rest)
	copy(group[1:i+1], group[:i])
	group[0] = a
	return nil
}

// carried returns the data that must follow a snapshot, the last of recs. The first snapshot of a log may carry data of another log, which only its
// writer knows.
func (j *Journal) carried(recs, rest []runlog.Record) (*carry.Data, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ledger.tick(&runlog.Record{Epoch: j.info.Epoch, Time: recs[len(recs)-1].Time})
	first, l := j.size == 0, j.ledger.carried()
	if first && len(rest) > 0 && rest[0].Kind == carry.Kind {
		var c carry.Data
		err := unmarshal(&rest[0], &c)
		c.Ledger = l
		return &c, err
	}
	var tasks []string
	for i := range recs {
		if recs[i].Kind == runlog.KindTaskDone {
			tasks = append(tasks, recs[i].Path)
		}
	}
	return j.carry(tasks), nil
}
