package journal

import (
	"encoding/json"
)

// A cleaner is a runlog.Log that redacts data, such as secrets, before it stores them. Clean returns the redacted form of JSON, which is the same slice
// if nothing is redacted. Cleaning twice is the same as cleaning once.
type cleaner interface {
	Clean(data json.RawMessage) json.RawMessage
}

// Cleans reports whether the journal's store redacts anything.
func (j *Journal) Cleans() bool {
	_, ok := j.log.(cleaner)
	return ok
}

// Clean returns JSON as the store would keep it. Code that continues with recorded data must use it, so that it computes the same after a crash.
func (j *Journal) Clean(data json.RawMessage) json.RawMessage {
	if c, ok := j.log.(cleaner); ok {
		return c.Clean(data)
	}
	return data
}

// Clean returns JSON as the store of the run would keep it.
func (s *Scope) Clean(data json.RawMessage) json.RawMessage {
	if s.off() {
		return data
	}
	return s.j.Clean(data)
}
