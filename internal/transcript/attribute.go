package transcript

import (
	"strings"

	"github.com/superstep-dev/superstep/runlog"
)

// Names returns the node that the last element of a path names, and the key that it runs for.
func Names(path string) (node, key string) {
	node, key = split(path[strings.LastIndexByte(path, '/')+1:])
	return Line(node), Line(key)
}

// CostOf returns what an effect of the task has cost, nil if that is not known.
func (t *Task) CostOf(d *runlog.Settled) *Cost {
	if d.Spent == nil {
		return nil
	}
	return cost(*d.Spent, t.unpriced(d))
}

// Cost is what the task and all tasks in it have cost so far, nil if that is not known.
func (t *Task) Cost() *Cost {
	spent, unpriced := t.total()
	return cost(spent, unpriced)
}

func (t *Task) total() (spent runlog.Amount, unpriced bool) {
	spent, unpriced = t.Spent, t.Unpriced
	for _, in := range t.Children {
		more, free := in.total()
		spent, unpriced = spent.Add(more), unpriced || free
	}
	return spent, unpriced
}
