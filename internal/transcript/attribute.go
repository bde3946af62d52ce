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

// CostOf returns the cost of an effect of the task, or nil if it is unknown.
func (t *Task) CostOf(d *runlog.Settled) *Cost {
	if d.Spent == nil {
		return nil
	}
	return cost(*d.Spent, t.unpriced(d))
}
