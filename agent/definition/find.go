package definition

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/suggest"
)

// Options say where to look. Nil finds what is built in.
type Options struct {
	Project    string // the folder of the project; "" for none
	Home       string // the user's home; "" for none
	ConfigHome string // defaults to .config in Home
	// KnownTools are the tools there are besides those that come with this program, such as those
	// of scripts and servers. A file that names another is warned about.
	KnownTools []string
	NoBuiltin  bool // leave out what comes with this program
}

const (
	maxFiles   = 2000   // of agents, in all folders
	maxEntries = 20_000 // of one folder, to look at
	maxFolders = 16     // in each other
)

// A place is a folder in which agents are looked for.
type place struct {
	base    string // the folder that links may not leave
	dir     string // in it, with slashes
	scope   Scope
	dialect Dialect
}

// places are the folders, in the order of precedence.
func (o *Options) places() []place {
	var out []place
	if o.Project != "" {
		for _, p := range []place{
			{dir: ".superstep/agents", dialect: Superstep}, {dir: ".claude/agents", dialect: Claude},
			{dir: ".opencode/agents", dialect: OpenCode}, {dir: ".opencode/agent", dialect: OpenCode},
			{dir: ".github/agents", dialect: Copilot},
		} {
			out = append(out, place{o.Project, p.dir, Project, p.dialect})
		}
	}
	config, in := o.config()
	for _, p := range []place{
		{config, path.Join(in, "superstep/agents"), User, Superstep}, {o.Home, ".claude/agents", User, Claude},
		{config, path.Join(in, "opencode/agents"), User, OpenCode}, {config, path.Join(in, "opencode/agent"), User, OpenCode}, {o.Home, ".opencode/agents", User, OpenCode},
		{config, path.Join(in, ".copilot/agents"), User, Copilot}, {o.Home, ".copilot/agents", User, Copilot},
	} {
		if p.base != "" {
			out = append(out, p)
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

//go:embed builtin/*.md
var builtin embed.FS

// A Library is the agents there are. It is a value and safe for use from several goroutines.
type Library struct {
	list     []*Definition // by name
	disabled []*Definition
	problems []Problem
}

// Find reads the agents of a project, of the user and those that come with this program. Of several of
// one name, that of the project comes before that of the user before the one that is built in, and
// within each the dialects come in their order. It reads files and does nothing else: folders within
// folders too, but nothing that a symbolic link leads to outside of the project or the home, and at
// most 2,000 files. The same files give the same library. A file that is broken is a problem of the library and
// does not keep others out. The error is about the options.
func Find(opts *Options) (*Library, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	for _, dir := range []string{o.Project, o.Home, o.ConfigHome} {
		if dir != "" && !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("agents: folder %q: must be an absolute path", dir)
		}
	}
	s := &search{opt: &o, chosen: map[string]*Definition{}, off: map[*Definition]bool{}, lib: &Library{}}
	for _, p := range o.places() {
		s.place(p)
	}
	if !o.NoBuiltin {
		s.builtin()
	}
	for _, name := range s.names {
		d := s.chosen[name]
		if s.off[d] {
			s.lib.disabled = append(s.lib.disabled, d)
		} else {
			s.lib.list = append(s.lib.list, d)
		}
	}
	byName := func(a, b *Definition) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(s.lib.list, byName)
	slices.SortFunc(s.lib.disabled, byName)
	return s.lib, nil
}

// search is a library while it is looked for.
type search struct {
	opt    *Options
	files  int
	names  []string // those of chosen, as they were found
	chosen map[string]*Definition
	off    map[*Definition]bool
	lib    *Library
}

func (s *search) problem(src Source, format string, args ...any) {
	s.lib.problems = append(s.lib.problems, Problem{Source: src, Text: fmt.Sprintf(format, args...)})
}

// place reads the agents of one folder.
func (s *search) place(p place) {
	src := Source{Scope: p.scope, Dialect: p.dialect}
	f, err := frontmatter.OpenFolder(p.base)
	if err != nil {
		if src.Path = p.base; !errors.Is(err, fs.ErrNotExist) {
			s.problem(src, "cannot be looked at: %v", err)
		}
		return
	}
	defer f.Close()
	var skills []string
	list, cut := f.Entries(p.dir, &frontmatter.Walk{Entries: maxEntries, Depth: maxFolders, Enter: func(dir string, names []string) bool {
		if slices.Contains(names, "SKILL.md") {
			skills = append(skills, dir)
			return false
		}
		base := path.Base(dir)
		return base != "node_modules" && base != ".git"
	}})
	for _, dir := range skills {
		src.Path = f.Path(dir)
		s.problem(src, "this folder is a skill and no agent; move it to a folder of skills, such as .superstep/skills")
	}
	if src.Path = f.Path(p.dir); cut {
		s.problem(src, "the folder has over %d files, or folders over %d deep; some are left out", maxEntries, maxFolders)
	}
	for _, e := range list {
		if !strings.EqualFold(path.Ext(e.Path), ".md") && e.Err == nil {
			continue
		}
		src.Path = f.Path(e.Path)
		if s.files++; s.files > maxFiles {
			if s.files == maxFiles+1 {
				s.problem(src, "there are over %d files of agents; this one and the rest are left out", maxFiles)
			}
			return
		}
		err := e.Err
		var b []byte
		if err == nil {
			b, err = f.Read(e.Path, frontmatter.MaxFile)
		}
		if err != nil {
			s.problem(src, "cannot be read: %v", err)
			continue
		}
		s.add(b, src)
	}
}

func (s *search) builtin() {
	entries, err := builtin.ReadDir("builtin")
	if err != nil {
		return // it is part of the program
	}
	for _, e := range entries {
		if b, err := builtin.ReadFile("builtin/" + e.Name()); err == nil {
			s.add(b, Source{Scope: Builtin, Dialect: Superstep, Path: e.Name()})
		}
	}
}

// add takes a file in, below those of its name that came before.
func (s *search) add(b []byte, src Source) {
	d, problems, disabled := parse(b, src, s.opt.KnownTools)
	s.lib.problems = append(s.lib.problems, problems...)
	if d == nil {
		return
	}
	first := s.chosen[d.Name]
	if first == nil {
		s.chosen[d.Name] = d
		s.names = append(s.names, d.Name)
		s.off[d] = disabled
		return
	}
	first.Overrides = append(first.Overrides, d.Source)
	if first.Source.Scope == src.Scope && first.Source.Dialect == src.Dialect {
		first.Warnings = append(first.Warnings, Warning{first.Source.Line, 1,
			fmt.Sprintf("%s is called %s too and is not used; rename one", clean.Text(src.Path), d.Name)})
	}
}

// List gives the agents, by name. Those that are switched off are not among them.
func (l *Library) List() []*Definition { return slices.Clone(l.list) }

// Disabled gives the agents that their files switch off, by name.
func (l *Library) Disabled() []*Definition { return slices.Clone(l.disabled) }

// Problems gives the files that could not be used, in the order in which they were looked at.
func (l *Library) Problems() []Problem { return slices.Clone(l.problems) }

// ByCapability gives the agents that have every one of those capabilities, by name.
func (l *Library) ByCapability(c ...Capability) []*Definition {
	var out []*Definition
	for _, d := range l.list {
		if d.Has(c...) {
			out = append(out, d)
		}
	}
	return out
}

// A NotFoundError says that there is no agent of that name.
type NotFoundError struct {
	Name  string
	Known []string // those there are
	// Because says why there is none although there is a file: it is switched off, or broken.
	Because string
}

func (e *NotFoundError) Error() string {
	switch {
	case e.Because != "":
		return fmt.Sprintf("there is no agent %s: %s", shown(e.Name), e.Because)
	case len(e.Known) == 0:
		return fmt.Sprintf("there is no agent %s, and no other", shown(e.Name))
	}
	return fmt.Sprintf("there is no agent %s%s", shown(e.Name), suggest.Hint(e.Name, e.Known))
}

// Find gives the agent of that name, or a *NotFoundError. It takes a name in the form that it has in a
// file, such as "API Architect", too.
func (l *Library) Find(name string) (*Definition, error) {
	want := normal(name)
	for _, d := range l.list {
		if d.Name == want {
			return d, nil
		}
	}
	e := &NotFoundError{Name: name}
	for _, d := range l.list {
		e.Known = append(e.Known, d.Name)
	}
	for _, d := range l.disabled {
		if d.Name == want {
			e.Because = d.Source.String() + " switches it off"
		}
	}
	for _, p := range l.problems {
		if r := (&reader{def: &Definition{Source: p.Source}}); e.Because == "" && want != "" && normal(r.stem()) == want {
			e.Because = p.String()
		}
	}
	return nil, e
}
