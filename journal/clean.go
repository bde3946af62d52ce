package journal

import (
	"encoding/json"

	"github.com/superstep-dev/superstep/runlog"
)

// Cleans reports whether the journal's store takes anything out of what is written.
func (j *Journal) Cleans() bool {
	_, ok := j.log.(runlog.Cleaner)
	return ok
}

// Clean gives what would be stored of JSON. Whoever goes on working with what is recorded
// uses it, so that the same comes of it after a crash.
func (j *Journal) Clean(data json.RawMessage) json.RawMessage {
	if c, ok := j.log.(runlog.Cleaner); ok {
		return c.Clean(data)
	}
	return data
}
