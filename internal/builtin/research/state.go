package research

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A state is the state of a run of the research workflow.
type state struct {
	Question string `json:"question"`
	Docs     string `json:"docs,omitempty"`   // the folder that is searched, absolute; "" for the web only
	Model    string `json:"model"`            // the model the run began with
	Report   string `json:"report,omitempty"` // the file the report goes to, absolute; "" for none
	Guest    bool   `json:"guest,omitempty"`  // somebody else than the user gave the inputs
	Max      int    `json:"max_searches"`     // the search budget

	Queries    []string    `json:"queries,omitempty"`
	Directions []direction `json:"directions,omitempty"`
	Findings   []finding   `json:"findings,omitempty"`
	Searches   int         `json:"searches"`       // how much of the budget is spent
	Checked    int         `json:"checked"`        // how much of it was spent when the coverage was last checked
	Rounds     int         `json:"rounds"`         // how often the coverage was checked
	Dropped    int         `json:"dropped"`        // findings whose quote is not in its source
	Enough     bool        `json:"enough"`         // nothing more is to be searched
	Files      int         `json:"files"`          // that were searched, as far as that is known
	Left       string      `json:"left,omitempty"` // what was left out of them
	Missing    []string    `json:"missing,omitempty"`
	Answered   bool        `json:"answered"`
	Web        bool        `json:"web,omitempty"`    // it was searched, without a model
	Said       string      `json:"said,omitempty"`   // the search service's own answer
	Failed     string      `json:"failed,omitempty"` // why the web could not be searched
	Brief      string      `json:"brief,omitempty"`
	Quoted     []Passage   `json:"quoted,omitempty"` // in the brief
}

// A direction is a part of the question that is investigated separately.
type direction struct {
	Key       string   `json:"key"` // names its tasks
	Topic     string   `json:"topic"`
	Rationale string   `json:"rationale,omitempty"`
	Priority  string   `json:"priority,omitempty"`
	Path      string   `json:"path,omitempty"`     // of the file that it was found in, if it was
	Searched  []string `json:"searched,omitempty"` // the queries it took so far
}

// A Passage is a part of a file, or of a page of the web.
type Passage struct {
	Path    string   `json:"path"`            // relative to the documents, with slashes, or an address
	Start   int      `json:"start,omitempty"` // the first line, from 1; 0 for a page
	End     int      `json:"end,omitempty"`
	Heading string   `json:"heading,omitempty"` // that it belongs to, or its symbol
	Text    string   `json:"text"`              // its lines, each verbatim in that line of the file
	Copies  []string `json:"copies,omitempty"`  // other places with the same text
}

// place returns the location of a passage: path:line, path:from-to, or an address.
func (p *Passage) place() string {
	switch {
	case p.Start == 0:
		return p.Path
	case p.End <= p.Start:
		return fmt.Sprintf("%s:%d", p.Path, p.Start)
	}
	return fmt.Sprintf("%s:%d-%d", p.Path, p.Start, p.End)
}

// A finding is one statement of a source.
type finding struct {
	Direction string   `json:"direction"`       // the key; "" for the question itself
	Also      []string `json:"also,omitempty"`  // the keys of other directions that found it, too
	Claim     string   `json:"claim,omitempty"` // what a model takes it for
	Query     string   `json:"query,omitempty"` // that found it, without a model
	Score     float64  `json:"score,omitempty"` // of a passage that was found without one
	Passage
}

// An update is a node's addition to the state.
type update struct {
	Queries    []string    `json:"queries,omitempty"`
	Directions []direction `json:"directions,omitempty"` // by key: new, or with more queries
	Findings   []finding   `json:"findings,omitempty"`
	Searches   int         `json:"searches,omitempty"`
	Checked    int         `json:"checked,omitempty"`
	Rounds     int         `json:"rounds,omitempty"`
	Dropped    int         `json:"dropped,omitempty"`
	Enough     bool        `json:"enough,omitempty"`
	Files      int         `json:"files,omitempty"`
	Left       string      `json:"left,omitempty"`
	Missing    []string    `json:"missing,omitempty"`
	Answered   bool        `json:"answered,omitempty"`
	Web        bool        `json:"web,omitempty"`
	Said       string      `json:"said,omitempty"`
	Failed     string      `json:"failed,omitempty"`
	Brief      string      `json:"brief,omitempty"`
	Quoted     []Passage   `json:"quoted,omitempty"`
	Report     string      `json:"report,omitempty"`
}

// reduce folds an update in. Sources are deduplicated here: of two findings of the same
// place the first is kept, and it counts for the directions of both.
func reduce(s state, u update) state {
	if len(u.Queries) > 0 {
		s.Queries = u.Queries
	}
	s.Directions = slices.Clone(s.Directions)
	for _, d := range u.Directions {
		if i := slices.IndexFunc(s.Directions, func(o direction) bool { return o.Key == d.Key }); i >= 0 {
			s.Directions[i].Searched = append(slices.Clone(s.Directions[i].Searched), d.Searched...)
		} else {
			s.Directions = append(s.Directions, d)
		}
	}
	s.Findings = slices.Clone(s.Findings)
	for _, f := range u.Findings {
		i := slices.IndexFunc(s.Findings, f.same)
		if i < 0 {
			s.Findings = append(s.Findings, f)
			continue
		}
		kept := &s.Findings[i]
		if f.Path != kept.Path && !slices.Contains(kept.Copies, f.place()) { // the same text
			kept.Copies = append(slices.Clone(kept.Copies), f.place())
		}
		if f.Direction != "" && !kept.supports(f.Direction) {
			kept.Also = append(slices.Clone(kept.Also), f.Direction)
		}
	}
	s.Searches += u.Searches
	s.Checked = max(s.Checked, u.Checked)
	s.Rounds += u.Rounds
	s.Dropped += u.Dropped
	s.Enough = s.Enough || u.Enough
	s.Files = max(s.Files, u.Files)
	s.Left = cmp.Or(u.Left, s.Left)
	s.Answered = s.Answered || u.Answered
	s.Web = s.Web || u.Web
	s.Said = cmp.Or(u.Said, s.Said)
	s.Failed = cmp.Or(u.Failed, s.Failed)
	s.Brief = cmp.Or(u.Brief, s.Brief)
	s.Report = cmp.Or(u.Report, s.Report)
	if u.Missing != nil {
		s.Missing = u.Missing
	}
	if u.Quoted != nil {
		s.Quoted = u.Quoted
	}
	return s
}

// same reports whether two findings have one source: lines in common, the same page, or the same text.
func (f finding) same(o finding) bool {
	if f.Text == o.Text {
		return true
	}
	if f.Path != o.Path {
		return false
	}
	if f.Start == 0 {
		return strings.Contains(o.Text, f.Text) || strings.Contains(f.Text, o.Text)
	}
	return f.Start <= max(o.Start, o.End) && o.Start <= max(f.Start, f.End)
}

// supports reports whether a finding is about a direction.
func (f *finding) supports(direction string) bool {
	return f.Direction == direction || slices.Contains(f.Also, direction)
}

// sources returns the distinct files and pages that are about a direction.
func (s *state) sources(direction string) []string {
	var out []string
	for _, f := range s.Findings {
		if f.supports(direction) && !slices.Contains(out, f.Path) {
			out = append(out, f.Path)
		}
	}
	return out
}

// covered reports whether a direction needs no more searches: two sources are about it, or one has
// several findings.
func (s *state) covered(direction string) bool {
	n := 0
	for _, f := range s.Findings {
		if f.supports(direction) {
			n++
		}
	}
	return n >= 4 || n >= 2 && len(s.sources(direction)) >= 2
}

// searched reports whether a query was sent before.
func (s *state) searched(query string) bool {
	same := func(q string) bool { return normal(q) == normal(query) }
	return slices.ContainsFunc(s.Queries, same) || slices.ContainsFunc(s.Directions, func(d direction) bool { return slices.ContainsFunc(d.Searched, same) })
}
