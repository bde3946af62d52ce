package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/runlog"
)

// markPrefix begins the words of Grant that are marks; a path and the words follow, on lines of their own.
const markPrefix = "mark\n"

// The effect that records a mark.
const (
	markKind = "note"
	markName = "seen"
)

// A mark is the words that were recorded about a scope.
type mark struct {
	own   string // see Scope.ownGrant
	path  string
	words []string
}

// Mark records words about what the scope has come to hold, for the whole run: they are valid after a crash and in forks. The key names the mark within the
// scope, and a second mark of that key changes nothing. Without words nothing is recorded. Mark reports whether there is a mark.
//
// A mark depends on what others in the run have done by then, which may be more when the task runs again. So marks are beside the workflow: a replay copies
// them from the record.
func (s *Scope) Mark(ctx context.Context, key string, words []string) (is bool, err error) {
	if s.off() {
		return false, nil
	}
	_, is = s.Done(key)
	is = s.Does(key, is)
	if is || len(words) == 0 {
		return is, nil
	}
	lines := []string{markPrefix + oneLine(s.path)}
	for _, w := range words {
		lines = append(lines, oneLine(w))
	}
	err = s.Afresh(func() error {
		is = true
		_, err := s.Do(ctx, &Effect{Key: key, Kind: markKind, Name: markName, Input: words, Inside: true, Do: func(ctx context.Context, _ string) (json.RawMessage, error) {
			return json.RawMessage("{}"), s.Grant(ctx, strings.Join(lines, "\n"))
		}})
		return err
	})
	return is && err == nil, err
}

// cutMark returns what a word of Grant has before a mark and the mark's lines, and reports whether the word is a mark.
func cutMark(what string) (own, lines string, is bool) {
	own, lines, is = strings.Cut(what, markPrefix)
	return own, lines, is && (own == "" || strings.IndexByte(own, ' ') == len(own)-1)
}

// ofMark reports whether an outcome is that of a mark, whose input is a list. Others of that kind may have any name.
func ofMark(e *runlog.Settled) bool {
	return e.Kind == markKind && e.Name == markName && bytes.HasPrefix(e.Input, []byte("["))
}

// marks reports whether a record is one of the two that a mark leaves.
func marks(r *runlog.Record) bool {
	switch {
	case r.Kind == runlog.KindSettled && bytes.Contains(r.Data, []byte(`"kind":"`+markKind+`","name":"`+markName+`"`)):
		var e runlog.Settled
		return json.Unmarshal(r.Data, &e) == nil && ofMark(&e)
	case r.Kind == runlog.KindEvent:
		what, is := grantOf(r)
		_, _, marks := cutMark(what)
		return is && marks
	}
	return false
}

// Marks calls f with the words of every mark of the run and the path of the scope that they are about, until f returns false.
func (s *Scope) Marks(f func(path string, words []string) bool) {
	if s.off() {
		return
	}
	own := s.ownGrant()
	s.j.mu.Lock()
	marks := s.j.marks // which only grows
	s.j.mu.Unlock()
	for _, m := range marks {
		if m.own == own && !f(m.path, m.words) {
			return
		}
	}
}

// IsChild reports whether the run is the child of another one.
func (s *Scope) IsChild() bool {
	if s.off() {
		return false
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	return s.j.child != nil
}

// Marked reports whether a mark of the run has a word.
func (s *Scope) Marked(word string) (is bool) {
	s.Marks(func(_ string, words []string) bool { is = slices.Contains(words, word); return !is })
	return is
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }

// Marks returns the marks among the words of Grant that a run carries, for another run that takes over its results.
func (c *Carrier) Marks() (out []string) {
	carried := c.past.carry(nil)
	if carried == nil {
		return nil
	}
	for _, what := range carried.Granted {
		if _, lines, is := cutMark(what); is {
			out = append(out, markPrefix+lines)
		}
	}
	return out
}
