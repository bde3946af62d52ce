package journal

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
)

// markPrefix begins the words of Grant that are marks; a path and the words follow, on lines of their own.
const markPrefix = "mark\n"

// A mark is the words that were recorded about a scope.
type mark struct {
	own   string // see Scope.ownGrant
	path  string
	words []string
}

// Mark records words about what the scope has come to hold, for the whole run: they are valid after a crash, in forks and in replays. The key names the
// mark within the scope, and a second mark of that key changes nothing. Without words nothing is recorded, nor once the effect before has begun, "" for none:
// a task that runs again then records nothing that it did not record at first. In a replay the recorded words count. Mark reports whether there is a mark.
func (s *Scope) Mark(ctx context.Context, key, before string, words []string) (bool, error) {
	if s == nil {
		return false, nil
	}
	_, done := s.Done(key)
	begun := false
	if before != "" {
		_, begun = s.Hint(before)
	}
	if !s.Does(key, done || len(words) > 0 && !begun) {
		return false, nil
	}
	if was := s.Recorded(key); was != nil {
		if err := json.Unmarshal(was.Input, &words); err != nil {
			return false, err
		}
	}
	lines := []string{markPrefix + oneLine(s.path)}
	for _, w := range words {
		lines = append(lines, oneLine(w))
	}
	_, err := s.Do(ctx, &Effect{Key: key, Kind: "note", Name: "seen", Input: words, Inside: true, Do: func(ctx context.Context, _ string) (json.RawMessage, error) {
		return json.RawMessage("{}"), s.Grant(ctx, strings.Join(lines, "\n"))
	}})
	return err == nil, err
}

// Marks calls f with the words of every mark of the run and the path of the scope that they are about, until f returns false.
func (s *Scope) Marks(f func(path string, words []string) bool) {
	if s == nil {
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
	if s == nil {
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
		if at := strings.Index(what, markPrefix); at >= 0 {
			out = append(out, what[at:])
		}
	}
	return out
}
