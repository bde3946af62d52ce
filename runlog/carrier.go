package runlog

// A Carrier finds what must follow a snapshot that opens another log: see Carried. It is
// shown the records of a run in their order. The zero Carrier is ready to use.
type Carrier struct{ j *Journal }

// Note takes the next record.
func (c *Carrier) Note(r *Record) error {
	if c.j == nil {
		c.j = &Journal{scopes: map[string]*memory{}, spaces: map[string]*space{}}
	}
	return c.j.note(r)
}

// Carried is what tasks have done and asked by now that have no result yet, nil for
// nothing. An effect that was intended and has no outcome is not part of it.
func (c *Carrier) Carried() *Carried {
	if c.j == nil {
		return nil
	}
	carried := c.j.Carry()
	if carried == nil {
		return nil
	}
	out := &Carried{Inner: carried.Inner, Granted: carried.Granted}
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
