package journal

import (
	"github.com/superstep-dev/superstep/runlog"
)

// Imported returns the import mark of a run that was created from a file, and nil for any other run. Code that derives permissions from recorded data,
// such as the run's folder, must not do so for an imported run.
func (j *Journal) Imported() *runlog.Imported {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.imported
}

// Imported works like [Journal.Imported]. Without a log it returns nil.
func (s *Scope) Imported() *runlog.Imported {
	if s.off() {
		return nil
	}
	return s.j.Imported()
}

// Own returns the key under which to record a permission decision. It is key itself, or in an imported run a key that no record of the file can have, so
// that the file cannot allow anything.
func (s *Scope) Own(key string) string {
	if s.off() {
		return key
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	if s.j.own == "" {
		return key
	}
	return key + "/here-" + s.j.own
}
