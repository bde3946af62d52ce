package prices

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/suggest"
)

// These are the limits of a table.
const (
	maxSize     = 1 << 20 // bytes
	maxModels   = 5000
	maxAliases  = 20
	maxName     = 200
	maxText     = 500
	maxProblems = 20
	maxPrice    = 1e6 // US dollars for a million tokens
	maxTokens   = 1e9
)

// An Error lists what is wrong with a table.
type Error struct {
	File     string
	Problems []Problem // in the order of the file
}

// A Problem is one mistake.
type Problem struct {
	Line, Col int // from 1
	Text      string
}

// Error returns a line for each of the first mistakes: file:line:col: text.
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i == maxProblems {
			fmt.Fprintf(&b, "\nand %d more", len(e.Problems)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%d:%d: %s", e.File, p.Line, p.Col, p.Text)
	}
	return b.String()
}

// Parse reads a table in YAML, of which JSON is a part. The file is its name in errors, which
// are of type [*Error] and list every mistake.
func Parse(file string, b []byte) (*Table, error) {
	r := &reader{seen: map[string]int{}}
	var t *Table
	if len(b) > maxSize {
		r.at(1, 1, "a table is at most 1 MiB")
	} else if root, refused, err := frontmatter.Tree(b, nil); err != nil {
		if wrong, ok := errors.AsType[*frontmatter.Error](err); ok {
			r.at(max(1, wrong.Line), max(1, wrong.Col), "%.200s", wrong.Text)
		}
	} else {
		for _, twice := range refused {
			r.at(twice.Line, twice.Col, "%s", twice.Text)
		}
		t = r.table(root)
	}
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b Problem) int { return cmp.Or(a.Line-b.Line, a.Col-b.Col) })
		return nil, &Error{File: file, Problems: r.problems}
	}
	t.reindex()
	return t, nil
}

// reader is what is known of a table while it is read.
type reader struct {
	problems []Problem
	seen     map[string]int // names and aliases to their lines
}

func (r *reader) at(line, col int, format string, args ...any) {
	text := strings.Join(strings.Fields(clean.Text(fmt.Sprintf(format, args...))), " ")
	r.problems = append(r.problems, Problem{line, col, text})
}

func (r *reader) wrong(v *frontmatter.Value, format string, args ...any) {
	r.at(v.Line, v.Col, format, args...)
}

// fields returns those of a map; none, with a complaint, if it is none.
func (r *reader) fields(v *frontmatter.Value, want string) []frontmatter.Field {
	if v.Kind != frontmatter.Map {
		r.wrong(v, "want %s", want)
	}
	return v.Fields
}

func (r *reader) table(root *frontmatter.Value) *Table {
	t := &Table{}
	if root.Kind == frontmatter.Null {
		r.at(1, 1, "the table is empty; it needs a date and models")
		return t
	}
	for _, f := range r.fields(root, "the lines date and models") {
		switch f.Key {
		case "date":
			t.date = r.day(f.Value)
		case "sources":
			t.sources = r.texts(f.Value, "a list of where the facts come from", maxText)
		case "models":
			r.models(t, f.Value)
		default:
			r.at(f.Line, f.Col, "a table has no %.60q%s", f.Key, suggest.Hint(f.Key, []string{"date", "sources", "models"}))
		}
	}
	for _, need := range []string{"date", "models"} {
		if root.Kind == frontmatter.Map && root.Field(need) == nil {
			r.wrong(root, "%s is missing; a table has a date such as 2026-01-31, and models", need)
		}
	}
	return t
}

func (r *reader) models(t *Table, v *frontmatter.Value) {
	for _, f := range r.fields(v, "models such as `openai/gpt-5: {in: 1.25, out: 10}`") {
		name := f.Key
		provider, rest, ok := strings.Cut(name, "/")
		switch {
		case !ok || provider == "" || rest == "" || !plain(name):
			r.at(f.Line, f.Col, "%.100q is no name of a model; want provider/model", name)
			continue
		case provider == "google":
			name = "gemini/" + rest
		}
		if len(t.models) == maxModels {
			r.at(f.Line, f.Col, "a table has at most %d models", maxModels)
			return
		}
		r.taken(f.Line, f.Col, name)
		m := Model{Name: name}
		r.model(&m, f)
		t.models = append(t.models, m)
	}
}

// taken complains of a name that another model of the table has.
func (r *reader) taken(line, col int, name string) {
	key := strings.ToLower(name)
	if at, ok := r.seen[key]; ok {
		r.at(line, col, "%s is also the name of the model in line %d", name, at)
		return
	}
	r.seen[key] = line
}

// plain reports for a name whether it has nothing but what names of models have.
func plain(s string) bool {
	return len(s) <= maxName && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.:/@+", c))
	})
}

func (r *reader) model(m *Model, entry frontmatter.Field) {
	provider, _, _ := strings.Cut(m.Name, "/")
	for _, f := range r.fields(entry.Value, "what the model costs, such as {in: 1.25, out: 10}") {
		switch f.Key {
		case "in":
			m.Price.In = r.number(f)
		case "out":
			m.Price.Out = r.number(f)
		case "cached":
			m.Price.Cached = r.number(f)
		case "written":
			m.Price.Written = r.number(f)
		case "window":
			m.Window = r.whole(f)
		case "output":
			m.Output = r.whole(f)
		case "released":
			m.Released = r.day(f.Value)
		case "note":
			m.Note = r.text(f.Value, maxText)
		case "aliases":
			m.Aliases = r.texts(f.Value, "a list of names", maxName)
			for _, a := range m.Aliases {
				if !plain(a) {
					r.wrong(f.Value, "%.100q is no name of a model", a)
				}
				r.taken(f.Value.Line, f.Value.Col, provider+"/"+a)
			}
		default:
			r.at(f.Line, f.Col, "a model has no %.60q%s", f.Key,
				suggest.Hint(f.Key, []string{"in", "out", "cached", "written", "window", "output", "released", "aliases", "note"}))
		}
	}
	has := func(key string) bool { return entry.Value.Field(key) != nil }
	if has("in") != has("out") || !has("in") && (has("cached") || has("written")) {
		r.at(entry.Line, entry.Col, "%s: in and out belong together; leave all prices out if they are not known", m.Name)
	}
	m.Priced = has("in") && has("out")
}

// digits returns a number as it is written, "" for what is none. Numbers in quotes are texts.
func digits(v *frontmatter.Value) string {
	if v.Kind != frontmatter.Number {
		return ""
	}
	return v.Text
}

func (r *reader) number(f frontmatter.Field) float64 {
	n, err := strconv.ParseFloat(digits(f.Value), 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > maxPrice {
		r.wrong(f.Value, "%s: want a number of US dollars from 0 to %.0f", f.Key, maxPrice)
		return 0
	}
	return n
}

func (r *reader) whole(f frontmatter.Field) int {
	n, err := strconv.ParseInt(digits(f.Value), 10, 64)
	if err != nil || n < 1 || n > maxTokens {
		r.wrong(f.Value, "%s: want a number of tokens, at least 1", f.Key)
		return 0
	}
	return int(n)
}

func (r *reader) day(v *frontmatter.Value) string {
	s, _ := v.String()
	if t, err := time.Parse(time.DateOnly, s); err != nil || t.Year() < 2000 || t.Year() > 2199 {
		r.wrong(v, "want a day such as 2026-01-31")
		return ""
	}
	return s
}

func (r *reader) text(v *frontmatter.Value, most int) string {
	s, ok := v.String()
	s = strings.Join(strings.Fields(clean.Text(s)), " ")
	if !ok || s == "" || len(s) > most {
		r.wrong(v, "want a text of at most %d bytes", most)
		return ""
	}
	return s
}

func (r *reader) texts(v *frontmatter.Value, want string, most int) []string {
	if v.Kind != frontmatter.List || len(v.Items) > maxAliases {
		r.wrong(v, "want %s, at most %d", want, maxAliases)
		return nil
	}
	var out []string
	for _, item := range v.Items {
		if s := r.text(item, most); s != "" {
			out = append(out, s)
		}
	}
	return out
}
