package journal

import (
	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/runlog"
)

// A Carrier finds what must follow a snapshot that opens another log: see carry.Data. It is
// shown the records of a run in their order. The zero Carrier is ready to use.
type Carrier struct{ past recovered }

// Note takes the next record.
func (c *Carrier) Note(r *runlog.Record) error { return c.past.note(r) }

// Carried is what tasks have done and asked by now that have no result yet, nil for
// nothing. An effect that was intended and has no outcome is not part of it.
func (c *Carrier) Carried() *carry.Data {
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
