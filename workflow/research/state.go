package research

import (
	"cmp"
	"slices"
	"strings"
)

// A State is what a run of the research workflow knows.
type State struct {
	Question string `json:"question"`
	Docs     string `json:"docs,omitempty"` // the folder that is searched, absolute; "" for the web only
	Model    string `json:"model"`          // the model the run began with
	Report   string `json:"report"`         // the file the report goes to, absolute
	Max      int    `json:"max_searches"`   // the search budget

	Queries    []string    `json:"queries,omitempty"`
	Directions []Direction `json:"directions,omitempty"`
	Findings   []Finding   `json:"findings,omitempty"`
	Searches   int         `json:"searches"` // how much of the budget is spent
	Checked    int         `json:"checked"`  // how much of it was spent when the coverage was last checked
	Rounds     int         `json:"rounds"`   // how often the coverage was checked
	Dropped    int         `json:"dropped"`  // findings whose quote is not in its source
	Enough     bool        `json:"enough"`   // nothing more is to be searched
	Brief      string      `json:"brief,omitempty"`
}

// A Direction is a part of the question that is looked into on its own.
type Direction struct {
	Key       string   `json:"key"` // names its tasks
	Topic     string   `json:"topic"`
	Rationale string   `json:"rationale,omitempty"`
	Priority  string   `json:"priority,omitempty"`
	Searched  []string `json:"searched,omitempty"` // the queries it took so far
}

// A Finding is one thing a source says. Its quote has been found there.
type Finding struct {
	Direction  string   `json:"direction"`      // the key
	Also       []string `json:"also,omitempty"` // the keys of other directions that found it, too
	Claim      string   `json:"claim"`
	Quote      string   `json:"quote"` // verbatim in that line; several lines from Line on, if it has line breaks
	Path       string   `json:"path"`  // relative to Docs, clean and without links, or an address
	Line       int      `json:"line"`  // from 1; 0 for a page of the web
	Confidence float64  `json:"confidence"`
}

// An Update is what a node adds to the state.
type Update struct {
	Queries    []string    `json:"queries,omitempty"`
	Directions []Direction `json:"directions,omitempty"` // by key: new, or with more queries
	Findings   []Finding   `json:"findings,omitempty"`
	Searches   int         `json:"searches,omitempty"`
	Checked    int         `json:"checked,omitempty"`
	Rounds     int         `json:"rounds,omitempty"`
	Dropped    int         `json:"dropped,omitempty"`
	Enough     bool        `json:"enough,omitempty"`
	Brief      string      `json:"brief,omitempty"`
	Report     string      `json:"report,omitempty"`
}

// reduce folds an update in. Sources are deduplicated here: of two findings of the same
// place the first is kept, and it counts for the directions of both.
func reduce(s State, u Update) State {
	if len(u.Queries) > 0 {
		s.Queries = u.Queries
	}
	s.Directions = slices.Clone(s.Directions)
	for _, d := range u.Directions {
		if i := slices.IndexFunc(s.Directions, func(o Direction) bool { return o.Key == d.Key }); i >= 0 {
			s.Directions[i].Searched = append(slices.Clone(s.Directions[i].Searched), d.Searched...)
		} else {
			s.Directions = append(s.Directions, d)
		}
	}
	s.Findings = slices.Clone(s.Findings)
	for _, f := range u.Findings {
		f.Confidence = clamp(f.Confidence)
		i := slices.IndexFunc(s.Findings, f.same)
		if i < 0 {
			s.Findings = append(s.Findings, f)
		} else if kept := &s.Findings[i]; !kept.supports(f.Direction) {
			kept.Also = append(slices.Clone(kept.Also), f.Direction)
		}
	}
	s.Searches += u.Searches
	s.Checked = max(s.Checked, u.Checked)
	s.Rounds += u.Rounds
	s.Dropped += u.Dropped
	s.Enough = s.Enough || u.Enough
	s.Brief = cmp.Or(u.Brief, s.Brief)
	s.Report = cmp.Or(u.Report, s.Report)
	return s
}

// clamp keeps a confidence between 0 and 1.
func clamp(f float64) float64 {
	if f != f {
		return 0
	}
	return min(1, max(0, f))
}

// same reports whether two findings have one source: the same line, or the same page.
func (f Finding) same(o Finding) bool {
	if f.Path != o.Path || f.Line != o.Line {
		return false
	}
	return f.Line > 0 || strings.Contains(o.Quote, f.Quote) || strings.Contains(f.Quote, o.Quote)
}

// supports reports whether a finding speaks of a direction.
func (f *Finding) supports(direction string) bool {
	return f.Direction == direction || slices.Contains(f.Also, direction)
}

// sources are the distinct files and pages that speak of a direction.
func (s *State) sources(direction string) []string {
	var out []string
	for _, f := range s.Findings {
		if f.supports(direction) && !slices.Contains(out, f.Path) {
			out = append(out, f.Path)
		}
	}
	return out
}

// covered reports whether a direction needs no more searching: two sources agree to
// speak of it, or one says a lot.
func (s *State) covered(direction string) bool {
	n := 0
	for _, f := range s.Findings {
		if f.supports(direction) {
			n++
		}
	}
	return n >= 4 || n >= 2 && len(s.sources(direction)) >= 2
}

// confidence is how well a direction is supported: the chance that at least one of its
// sources is right, each counted by its best finding, if they were independent.
func (s *State) confidence(direction string) float64 {
	best := map[string]float64{}
	for _, f := range s.Findings {
		if f.supports(direction) {
			best[f.Path] = max(best[f.Path], f.Confidence)
		}
	}
	wrong := 1.0
	for _, path := range s.sources(direction) {
		wrong *= 1 - best[path]
	}
	return clamp(1 - wrong)
}
