package skill

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
)

// Options say where to look. Nil finds nothing.
type Options struct {
	Project    string // the folder of the project; "" for none
	Home       string // the user's home; "" for none
	ConfigHome string // defaults to .config in Home
}

const (
	maxSkills  = 2000   // in all folders
	maxEntries = 50_000 // of one folder of skills, to look at
)

type spot struct {
	base  string // the folder that links may not leave
	dir   string // in it, with slashes
	scope Scope
}

// spots are the folders of skills, in the order of precedence.
func (o *Options) spots() []spot {
	var out []spot
	if o.Project != "" {
		for _, d := range []string{".superstep/skills", ".claude/skills", ".agents/skills", ".opencode/skills", ".opencode/skill", ".github/skills", "skills"} {
			out = append(out, spot{o.Project, d, Project})
		}
	}
	config, in := o.config()
	for _, s := range []spot{
		{config, path.Join(in, "superstep/skills"), User}, {o.Home, ".claude/skills", User}, {o.Home, ".agents/skills", User},
		{config, path.Join(in, "opencode/skills"), User}, {config, path.Join(in, "opencode/skill"), User},
	} {
		if s.base != "" {
			out = append(out, s)
		}
	}
	return out
}

// config is the folder of configurations, as one that links may not leave and one in it. Within the
// home, that is the home: people keep such files in a repository and link to them.
func (o *Options) config() (base, in string) {
	dir := o.ConfigHome
	if dir == "" && o.Home != "" {
		dir = filepath.Join(o.Home, ".config")
	}
	if rel, err := filepath.Rel(o.Home, dir); o.Home != "" && err == nil && filepath.IsLocal(rel) {
		return o.Home, filepath.ToSlash(rel)
	}
	return dir, "."
}

// A Library is the skills there are. It is a value and safe for use from several goroutines.
type Library struct {
	list     []*Skill // by name
	problems []Problem
}

// Find looks for the skills of a project and of the user. Of several of one name, that of the project
// comes before that of the user, and within each the folders come in their order. It reads files and
// does nothing else: folders within folders too, until one is a skill, but nothing that a symbolic
// link leads to outside of the project or the home, and at most 2,000 skills. The same files give the same
// library. A skill that is broken is a problem of the library and does not keep others out. What only
// breaks a rule of the format is a warning; Validate is stricter. The error is about the options.
func Find(opts *Options) (*Library, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	for _, dir := range []string{o.Project, o.Home, o.ConfigHome} {
		if dir != "" && !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("skills: folder %q: must be an absolute path", dir)
		}
	}
	s := &search{chosen: map[string]*Skill{}, lib: &Library{}}
	for _, p := range o.spots() {
		s.spot(p)
	}
	slices.SortFunc(s.lib.list, func(a, b *Skill) int { return strings.Compare(a.Name, b.Name) })
	return s.lib, nil
}

// search is a library while it is looked for.
type search struct {
	n      int
	chosen map[string]*Skill
	lib    *Library
}

func (s *search) problem(src Source, line, col int, format string, args ...any) {
	s.lib.problems = append(s.lib.problems, Problem{src, line, col, fmt.Sprintf(format, args...)})
}

// spot reads the skills of one folder.
func (s *search) spot(p spot) {
	src := Source{Scope: p.scope, Place: p.dir}
	f, err := frontmatter.OpenFolder(p.base)
	if err != nil {
		if src.Path = p.base; !errors.Is(err, fs.ErrNotExist) {
			s.problem(src, 0, 0, "cannot be looked at: %v", err)
		}
		return
	}
	defer f.Close()
	var dirs []string
	list, cut := f.Entries(p.dir, &frontmatter.Walk{Entries: maxEntries, Depth: maxDepth, Enter: func(dir string, names []string) bool {
		if slices.Contains(names, File) && dir != p.dir {
			dirs = append(dirs, dir)
			return false
		}
		base := path.Base(dir)
		return base != "node_modules" && base != ".git"
	}})
	if src.Path = f.Path(p.dir); cut {
		s.problem(src, 0, 0, "the folder has over %d files, or folders over %d deep; some are left out", maxEntries, maxDepth)
	}
	for _, e := range list {
		src.Path = f.Path(e.Path)
		switch {
		case e.Err != nil:
			s.problem(src, 0, 0, "cannot be read: %v", e.Err)
		case archive(e.Path):
			s.problem(src, 0, 0, "%s", unpack)
		}
	}
	slices.Sort(dirs)
	for _, d := range dirs {
		src.Path = f.Path(d)
		if s.n++; s.n > maxSkills {
			s.problem(src, 0, 0, "there are over %d skills; this one and the rest are left out", maxSkills)
			return
		}
		s.add(f, d, src)
	}
}

// add takes a skill in, below those of its name that came before.
func (s *search) add(base *frontmatter.Folder, dir string, src Source) {
	f, err := base.Sub(dir)
	if err != nil {
		s.problem(src, 0, 0, "cannot be read: %v", err)
		return
	}
	defer f.Close()
	c, err := look(f)
	if err != nil {
		s.problem(src, 0, 0, "cannot be used: %v", err)
		return
	}
	r := read(c.main, path.Base(dir))
	if bad := r.fatal(); bad != nil {
		for _, x := range r.found {
			if x.fatal {
				s.problem(src, x.line, x.col, "%s", x.text)
			}
		}
		return
	}
	k := r.skill
	src.Line = k.Source.Line
	k.Source, k.Digest, k.Files = src, c.digest, c.files
	for _, x := range r.found {
		k.Warnings = append(k.Warnings, Warning{File, x.line, x.col, x.text})
	}
	k.Warnings = append(k.Warnings, c.odd...)
	first := s.chosen[k.Name]
	if first == nil {
		s.chosen[k.Name] = k
		s.lib.list = append(s.lib.list, k)
		return
	}
	first.Overrides = append(first.Overrides, k.Source)
	if first.Source.Scope == src.Scope && first.Source.Place == src.Place {
		first.Warnings = append(first.Warnings, Warning{Path: File, Line: first.Source.Line, Col: 1,
			Text: fmt.Sprintf("%s is called %s too and is not used; rename one", clean.Text(src.Path), k.Name)})
	}
}

// List gives the skills, by name.
func (l *Library) List() []*Skill { return slices.Clone(l.list) }

// Problems gives what could not be used, in the order in which it was looked at.
func (l *Library) Problems() []Problem { return slices.Clone(l.problems) }

// Only gives the library of those skills that keep wants, such as those that the user trusts.
func (l *Library) Only(keep func(*Skill) bool) *Library {
	out := &Library{problems: l.problems}
	for _, s := range l.list {
		if keep(s) {
			out.list = append(out.list, s)
		}
	}
	return out
}

// Or gives the library with the skills of another for names that it does not have.
func (l *Library) Or(other *Library) *Library {
	out := &Library{list: slices.Clone(l.list), problems: l.problems}
	for _, s := range other.list {
		if !slices.ContainsFunc(l.list, func(have *Skill) bool { return have.Name == s.Name }) {
			out.list = append(out.list, s)
		}
	}
	slices.SortFunc(out.list, func(a, b *Skill) int { return strings.Compare(a.Name, b.Name) })
	return out
}
