package journal

import (
	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/runlog"
)

// A Carrier collects the data that must follow a snapshot at the beginning of another log. It must be given the records of a run in
// order. The zero Carrier is ready to use.
type Carrier struct{ past recovered }

// Note takes the next record.
func (c *Carrier) Note(r *runlog.Record) error { return c.past.note(r) }

// Carried returns the effects and questions of tasks that have no result yet, as the data of a record, or nil if there are none. It leaves out effects
// whose outcome is unknown.
func (c *Carrier) Carried() any {
	carried := c.past.carry(nil)
	if carried == nil {
		return nil
	}
	out := &carry.Data{Inner: carried.Inner, Granted: carried.Granted}
	for _, s := range carried.Scopes {
		s.Intents = nil
		if len(s.Settled)+len(s.Asked)+s.Attempts > 0 {
			out.Scopes = append(out.Scopes, s)
		}
	}
	if out.Scopes == nil && out.Inner == nil && out.Granted == nil {
		return nil
	}
	return out
}
