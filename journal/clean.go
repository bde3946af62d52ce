package journal

import (
	"encoding/json"
)

// A cleaner is a runlog.Log that takes something out of what it is given before it is stored: secrets, for
// instance. Clean gives what would be stored of JSON, which is the same slice if nothing is taken out. What is
// cleaned once stays as it is.
type cleaner interface {
	Clean(data json.RawMessage) json.RawMessage
}

// Cleans reports whether the journal's store takes anything out of what is written.
func (j *Journal) Cleans() bool {
	_, ok := j.log.(cleaner)
	return ok
}

// Clean returns what would be stored of JSON. Whoever goes on working with what is recorded
// uses it, so that the same comes of it after a crash.
func (j *Journal) Clean(data json.RawMessage) json.RawMessage {
	if c, ok := j.log.(cleaner); ok {
		return c.Clean(data)
	}
	return data
}
