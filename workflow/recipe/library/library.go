// Package library finds recipes: those of a project, of its user, and those that come with this
// program. It reads files and does nothing else; what a recipe is, package recipe says, and whether
// one may be used is for others to decide.
package library

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/workflow/recipe"
)

// A Scope says whose a recipe is.
type Scope string

// The scopes, in the order of precedence.
const (
	Project Scope = "project"
	User    Scope = "user"
	Builtin Scope = "built-in"
)

// Options say where to look. Nil finds what comes with this program.
type Options struct {
	Project    string // the folder of the project; "" for none
	Home       string // the user's home; "" for none
	ConfigHome string // defaults to .config in Home
	// Builtin are the files that come with the program. Defaults to those of this package.
	Builtin fs.FS
	// Taken are the names of workflows that are no recipes. A recipe cannot have one of them.
	Taken []string
	// Shown is how people know a file. Defaults to its path.
	Shown func(path string) string
	// Cache makes it cheap to look again. Defaults to none.
	Cache *Cache
}

// An Entry is a file as it was found. It is not changed after.
type Entry struct {
	Name   string // of the recipe, or of the file if the recipe cannot be used
	Scope  Scope
	Path   string // absolute; "" of what is built in
	File   string // as people know it
	Draft  bool   // it waits for approval
	Text   []byte
	Digest string         // "sha256:" and 64 hexadecimal digits, of the text; "" if it could not be read
	Recipe *recipe.Recipe // nil if it cannot be used
	// Problems are what is wrong with it, and what is odd.
	Problems recipe.Problems
	// Overrides are the files that it goes before, each with the scope in front.
	Overrides []string
}

// A Library is the recipes there are. It is a value: what changes on disk afterwards is not in it. It
// is safe for use from several goroutines.
type Library struct {
	opt      Options
	entries  []*Entry // by scope, and within by path
	drafts   []*Entry
	problems recipe.Problems   // of folders
	names    map[string]*group // by name
	aliases  map[string][]*Entry
}

// A group is what has one name: several if none goes before the others.
type group struct{ first []*Entry }

//go:embed builtin/*.yaml
var shipped embed.FS

// Open reads what there is. Of several recipes of one name that of the project comes before that of the
// user before the one that is built in. What is wrong with files is among their Problems: a file that
// is invalid is an entry too, and goes by its file's name before what lies below, so that nothing
// else is used in its place. The error is about the options.
func Open(opt *Options) (*Library, error) {
	l := &Library{names: map[string]*group{}, aliases: map[string][]*Entry{}}
	if opt != nil {
		l.opt = *opt
	}
	o := &l.opt
	for _, dir := range []string{o.Project, o.Home, o.ConfigHome} {
		if dir != "" && !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("recipes: folder %q: must be an absolute path", dir)
		}
	}
	if o.Builtin == nil {
		sub, err := fs.Sub(shipped, "builtin")
		if err != nil {
			return nil, err
		}
		o.Builtin = sub
	}
	if o.Shown == nil {
		o.Shown = func(path string) string { return path }
	}
	for _, p := range o.places() {
		l.read(&p)
	}
	l.builtin()
	l.order()
	l.alias()
	for _, list := range [][]*Entry{l.entries, l.drafts} {
		for _, e := range list {
			arrange(e.Problems)
		}
	}
	return l, nil
}

// order finds out which file a name stands for.
func (l *Library) order() {
	byName := map[string][]*Entry{}
	for _, e := range l.entries {
		if e.Recipe != nil && slices.Contains(l.opt.Taken, e.Name) {
			e.wrong("taken-name", "name", "a workflow that comes with this program is called %q; choose another name", e.Name)
		}
		byName[e.Name] = append(byName[e.Name], e)
	}
	for name, all := range byName {
		first := all[:0:0]
		for _, e := range all {
			if e.Scope == all[0].Scope {
				first = append(first, e)
			}
		}
		valid := slices.DeleteFunc(slices.Clone(first), func(e *Entry) bool { return e.Recipe == nil })
		if len(valid) > 0 { // what has the name goes before what only its file has
			first = valid
		}
		l.names[name] = &group{first}
		if len(first) > 1 {
			l.twice(name, first)
			continue
		}
		for _, e := range all {
			if e.Scope != all[0].Scope {
				first[0].Overrides = append(first[0].Overrides, strings.TrimSpace(string(e.Scope)+" "+e.File))
			}
		}
	}
}

// twice reports that files of one scope have one name.
func (l *Library) twice(name string, files []*Entry) {
	for _, e := range files {
		var others []string
		for _, o := range files {
			if o != e {
				others = append(others, o.File)
			}
		}
		e.wrong("same-name", "name", "%s is called %q too; rename or remove one of them", strings.Join(others, ", "), name)
	}
}

// alias finds out what aliases stand for. One never hides a name.
func (l *Library) alias() {
	for _, e := range l.Effective() {
		if e.Recipe == nil {
			continue
		}
		for _, name := range e.Recipe.Aliases {
			_, recipes := l.names[name]
			if recipes || slices.Contains(l.opt.Taken, name) {
				if name != e.Name {
					e.odd("alias-name", "aliases", "the alias %q is the name of another workflow, which goes before it; choose another alias", name)
				}
				continue
			}
			l.aliases[name] = append(l.aliases[name], e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.aliases)) {
		all := l.aliases[name]
		for _, e := range all {
			if len(all) > 1 {
				e.odd("same-alias", "aliases", "the alias %q finds nothing, since several recipes have it: %s; take it from all but one", name, strings.Join(namesOf(all), ", "))
			}
		}
	}
}

func namesOf(entries []*Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Name)
	}
	return out
}

// Entries are all files, by scope, and within by path; drafts are not among them.
func (l *Library) Entries() []*Entry { return slices.Clone(l.entries) }

// Effective are the files that go before others of their name, by name: those that are found,
// those that cannot be used, and all of several that none goes before.
func (l *Library) Effective() []*Entry {
	var out []*Entry
	for _, g := range l.names {
		out = append(out, g.first...)
	}
	// A file whose name another recipe of its scope has is no recipe that anything could find, and shown all the same.
	for _, e := range l.entries {
		if e.Recipe == nil && !slices.Contains(out, e) && l.names[e.Name].first[0].Scope == e.Scope {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b *Entry) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.File, b.File))
	})
	return out
}

// Drafts are the files that wait for approval, those of the project first.
func (l *Library) Drafts() []*Entry { return slices.Clone(l.drafts) }

// Problems are those of folders that could not be read. Those of files are with their entries.
func (l *Library) Problems() recipe.Problems { return slices.Clone(l.problems) }

// Aliases are the names besides its own that an entry is found by.
func (l *Library) Aliases(e *Entry) []string {
	var out []string
	if e.Recipe == nil {
		return nil
	}
	for _, name := range e.Recipe.Aliases {
		if found := l.aliases[name]; len(found) == 1 && found[0] == e {
			out = append(out, name)
		}
	}
	return out
}

// Find gives the recipe of a name or an alias. The error is a *NotFoundError, an *InvalidError or an
// *AmbiguousError; with the second the entry is given too.
func (l *Library) Find(name string) (*Entry, error) {
	if g, ok := l.names[name]; ok {
		switch e := g.first[0]; {
		case len(g.first) > 1:
			return nil, &AmbiguousError{Name: name, Files: files(g.first)}
		case e.Recipe == nil:
			return e, &InvalidError{Entry: e}
		default:
			return e, nil
		}
	}
	switch found := l.aliases[name]; len(found) {
	case 0:
		return nil, &NotFoundError{Name: name, known: l.known()}
	case 1:
		return found[0], nil
	default:
		return nil, &AmbiguousError{Name: name, Files: files(found), Alias: true}
	}
}

func files(entries []*Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.File)
	}
	return out
}

// known are the names that something is found by.
func (l *Library) known() []string {
	var out []string
	for _, e := range l.Effective() {
		if e.Recipe != nil {
			out = append(append(out, e.Name), l.Aliases(e)...)
		}
	}
	return out
}
