// Package prices knows what models cost and how much they hold: a table, embedded and dated,
// over which a user's own can be laid without a new release.
//
// The prices were collected by third parties; providers change them without notice. A model that is missing from the table has no price, and its cost is
// not counted.
package prices

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/model"
)

//go:embed prices.yaml
var embedded []byte

// A Model is what a table knows of one model.
type Model struct {
	Name     string      // "provider/model", as the provider calls it
	Aliases  []string    // the provider's other names for it, without the provider
	Price    model.Price // valid if Priced
	Priced   bool
	Window   int    // the most tokens of a request and its answer together; 0 is not known
	Output   int    // the most tokens of one answer; 0 is not known
	Released string // as 2025-08-07; "" is not known
	Note     string // what to know of the numbers
	Own      bool   // from the user's table, not from the embedded one
}

// A Table is what is known of models. It does not change. A nil *Table knows nothing.
type Table struct {
	date    string
	sources []string
	models  []Model
	index   map[string]int // by name and alias, in lower case
}

// Embedded returns the table of this release. It is parsed anew by every call.
func Embedded() *Table {
	t, err := Parse("prices.yaml", embedded)
	if err != nil {
		panic(err) // a test has parsed it
	}
	return t
}

// Date returns the day the table holds for, as 2026-01-31.
func (t *Table) Date() string {
	if t == nil {
		return ""
	}
	return t.date
}

// Sources say where the facts come from.
func (t *Table) Sources() []string {
	if t == nil {
		return nil
	}
	return slices.Clone(t.sources)
}

// Models returns those of the table, in its order.
func (t *Table) Models() []Model {
	if t == nil {
		return nil
	}
	return slices.Clone(t.models)
}

// Over returns a table laid over another one: the entries of the upper table replace those of the
// lower. Date and sources are those of the upper table.
func (t *Table) Over(lower *Table) *Table {
	if t == nil {
		return lower
	}
	out := &Table{date: t.date, sources: t.sources}
	for i := range t.models {
		m := t.models[i]
		m.Own = true
		out.models = append(out.models, m)
	}
	out.reindex()
	if lower == nil {
		return out
	}
	for i := range lower.models {
		if _, known := out.index[strings.ToLower(lower.models[i].Name)]; !known {
			out.models = append(out.models, lower.models[i])
		}
	}
	out.reindex()
	return out
}

// reindex finds the models by name and alias. A name comes before an alias, and the first
// before the next.
func (t *Table) reindex() {
	t.index = make(map[string]int, 2*len(t.models))
	for i := range t.models {
		t.index[strings.ToLower(t.models[i].Name)] = i
	}
	for i := range t.models {
		provider, _, _ := strings.Cut(t.models[i].Name, "/")
		for _, alias := range t.models[i].Aliases {
			key := strings.ToLower(provider + "/" + alias)
			if _, taken := t.index[key]; !taken {
				t.index[key] = i
			}
		}
	}
}

// Find returns the model of a name "provider/model", whatever its case. An unknown name stands for
// the longest known name that it extends by a dash and a date, or by "-latest". Other suffixes mean
// other models: gpt-5-pro is not gpt-5.
func (t *Table) Find(name string) (Model, bool) {
	if t == nil || len(name) > maxName {
		return Model{}, false
	}
	key := strings.ToLower(name)
	if rest, ok := strings.CutPrefix(key, "google/"); ok {
		key = "gemini/" + rest
	}
	if i, ok := t.index[key]; ok {
		return t.models[i], true
	}
	start := strings.IndexByte(key, '/') + 1
	for end := len(key) - 1; end > start; end-- {
		if key[end] != '-' || !dated(key[end+1:]) {
			continue
		}
		if i, ok := t.index[key[:end]]; ok {
			return t.models[i], true
		}
	}
	return Model{}, false
}

var date = regexp.MustCompile(`^(?:20\d\d-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])|(?:0[1-9]|1[0-2])-20\d\d|2[0-9](?:0[1-9]|` +
	`1[0-2])|(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01]))$`)

// dated reports whether the end of a name only selects an edition of a model: 2025-08-07, 20250807,
// 08-2025, 2508, 0807, 08-07 or latest.
func dated(end string) bool { return end == "latest" || date.MatchString(end) }

// Newest returns the newest model of a provider, among those that have a word between the dashes
// of their names, such as "sonnet": the one with the highest version in its name, and of those
// with the same the one that was released last.
func (t *Table) Newest(provider, word string) (Model, bool) {
	best, found := Model{}, false
	if t == nil {
		return best, false
	}
	for i := range t.models {
		m := &t.models[i]
		rest, ok := strings.CutPrefix(m.Name, provider+"/")
		if !ok || !slices.Contains(strings.Split(rest, "-"), word) {
			continue
		}
		if !found || cmp.Or(slices.Compare(version(rest), version(best.Name[len(provider)+1:])), cmp.Compare(m.Released, best.Released)) > 0 {
			best, found = *m, true
		}
	}
	return best, found
}

// version returns the small numbers in a name: 4 and 5 of claude-sonnet-4-5, 2 and 5 of
// gemini-2.5-pro. Others are dates and sizes.
func version(name string) []int {
	var out []int
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '.' }) {
		if n, err := strconv.Atoi(word); err == nil && len(word) <= 2 {
			out = append(out, n)
		}
	}
	return out
}

// Names returns the names of all models, or of one provider if it is not "".
func (t *Table) Names(provider string) []string {
	if t == nil {
		return nil
	}
	var out []string
	for i := range t.models {
		if provider == "" || strings.HasPrefix(t.models[i].Name, provider+"/") {
			out = append(out, t.models[i].Name)
		}
	}
	return out
}

// String returns the size and the date of the table.
func (t *Table) String() string {
	return fmt.Sprintf("prices of %d models, as of %s", len(t.Models()), t.Date())
}
