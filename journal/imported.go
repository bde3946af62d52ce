package journal

import (
	"github.com/superstep-dev/superstep/runlog"
)

// Imported returns the mark of a run that was made of a file, nil for any other. Whoever takes
// rights from what a run has recorded, such as its folder, must not do so for an imported run.
func (j *Journal) Imported() *runlog.Imported {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.imported
}

// Imported is [Journal.Imported]. Without a log it returns nil.
func (s *Scope) Imported() *runlog.Imported {
	if s == nil {
		return nil
	}
	return s.j.Imported()
}

// Own returns the key under which a decision about rights is recorded: key itself, or in an
// imported run one that no record of the file can have, so that nothing is allowed because the
// file says so.
func (s *Scope) Own(key string) string {
	if s == nil {
		return key
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	if s.j.own == "" {
		return key
	}
	return key + "/here-" + s.j.own
}
