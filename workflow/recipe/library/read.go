package library

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/workflow/recipe"
)

const (
	maxFiles  = 2000    // of recipes, in one folder
	maxBytes  = 8 << 20 // of all of them
	maxCached = 4096
)

// DraftsDir is the folder within that of recipes in which drafts wait.
const DraftsDir = "drafts"

// A place is a folder in which recipes are looked for.
type place struct {
	base  string // the folder that links may not leave
	dir   string // in it, with slashes
	scope Scope
	draft bool
}

func (o *Options) places() []place {
	var out []place
	add := func(base, dir string, scope Scope) {
		out = append(out, place{base, dir, scope, false}, place{base, path.Join(dir, DraftsDir), scope, true})
	}
	if o.Project != "" {
		add(o.Project, ".superstep/workflows", Project)
	}
	config := o.ConfigHome
	if config == "" && o.Home != "" {
		config = filepath.Join(o.Home, ".config")
	}
	if config == "" {
		return out
	}
	base, in := config, "."
	if rel, err := filepath.Rel(o.Home, config); o.Home != "" && err == nil && filepath.IsLocal(rel) {
		base, in = o.Home, filepath.ToSlash(rel) // people keep such files in a repository in their home and link to them
	}
	add(base, path.Join(in, "superstep/workflows"), User)
	return out
}

// read reads the recipes of a folder.
func (l *Library) read(p *place) {
	f, err := frontmatter.OpenFolder(p.base)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	where := l.opt.Shown(filepath.Join(p.base, filepath.FromSlash(p.dir)))
	if err != nil {
		l.problems = append(l.problems, &recipe.Problem{File: where, Code: "unreadable", Text: clean.Text(err.Error())})
		return
	}
	defer f.Close()
	found, cut := f.Entries(p.dir, &frontmatter.Walk{
		Entries: 2 * maxFiles, Depth: 1,
		Enter: func(dir string, _ []string) bool { return dir == path.Clean(p.dir) },
	})
	n, room := 0, int64(maxBytes)
	for _, e := range found {
		if e.Path == path.Clean(p.dir) && e.Err != nil {
			l.problems = append(l.problems, &recipe.Problem{File: where, Code: "unreadable", Text: e.Err.Error()})
			continue
		}
		if !IsFile(e.Path) || e.Mode.IsDir() && e.Err == nil {
			continue
		}
		if n++; n > maxFiles || room <= 0 {
			cut = true
			break
		}
		entry := &Entry{Scope: p.scope, Path: f.Path(e.Path), Draft: p.draft}
		entry.File = strings.ReplaceAll(clean.Text(l.opt.Shown(entry.Path)), "\n", " ")
		err := e.Err
		if err == nil {
			entry.Text, err = f.Read(e.Path, recipe.MaxBytes)
			room -= int64(len(entry.Text))
		}
		l.add(entry, err)
	}
	if cut {
		l.problems = append(l.problems, &recipe.Problem{File: where, Code: "too-many", Text: fmt.Sprintf("there are over %d files or %d MiB; those that come later are not looked at", maxFiles, maxBytes>>20)})
	}
}

// IsFile says whether a file is called as recipes are.
func IsFile(name string) bool {
	ext := strings.ToLower(path.Ext(filepath.ToSlash(name)))
	return ext == ".yaml" || ext == ".yml"
}

// builtin reads the recipes that come with the program.
func (l *Library) builtin() {
	names, err := fs.Glob(l.opt.Builtin, "*.yaml")
	if err != nil {
		l.problems = append(l.problems, &recipe.Problem{File: string(Builtin), Code: "unreadable", Text: err.Error()})
	}
	for _, name := range names {
		e := &Entry{Scope: Builtin, File: string(Builtin) + "/" + name}
		e.Text, err = fs.ReadFile(l.opt.Builtin, name)
		l.add(e, err)
	}
}

// add takes a file that was read, or could not be.
func (l *Library) add(e *Entry, err error) {
	base := path.Base(filepath.ToSlash(cmp.Or(e.Path, e.File)))
	e.Name = clean.Text(strings.TrimSuffix(base, path.Ext(base)))
	if e.Draft {
		l.drafts = append(l.drafts, e)
	} else {
		l.entries = append(l.entries, e)
	}
	if err != nil {
		e.unreadable(err)
		return
	}
	e.Digest = Digest(e.Text)
	e.Recipe, e.Problems = l.opt.Cache.parse(e)
	if e.Recipe == nil {
		return
	}
	if e.Recipe.Name != e.Name {
		e.odd("file-name", "name", "the file is called %q; the recipe is found as %q", base, e.Recipe.Name)
		e.Name = e.Recipe.Name
	}
}

// Load reads one file, wherever it is. The error is why it cannot be read; what is wrong with what is
// in it is among the Problems of the entry.
func Load(file, shown string) (*Entry, error) {
	abs, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(abs) // who names a link means what it leads to
	if err != nil {
		return nil, err
	}
	at, err := frontmatter.OpenFolder(filepath.Dir(real))
	if err != nil {
		return nil, err
	}
	defer at.Close()
	e := &Entry{Path: abs, File: shown}
	base := filepath.Base(abs)
	e.Name = clean.Text(strings.TrimSuffix(base, filepath.Ext(base)))
	e.Text, err = at.Read(filepath.Base(real), recipe.MaxBytes)
	var large *frontmatter.Error
	if errors.As(err, &large) {
		e.unreadable(err)
		return e, nil
	}
	if err != nil {
		return nil, err
	}
	e.Digest = Digest(e.Text)
	if e.Recipe, e.Problems = recipe.Parse(shown, e.Text); e.Recipe != nil {
		e.Name = e.Recipe.Name
	}
	return e, nil
}

// Digest is that of a recipe with this text; see Entry.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// unreadable notes why a file was not read.
func (e *Entry) unreadable(err error) {
	p := &recipe.Problem{File: e.File, Code: "unreadable", Text: "cannot be read: " + clean.Text(err.Error())}
	var large *frontmatter.Error
	if errors.As(err, &large) && large.Code == frontmatter.TooLarge {
		p.Code, p.Text = "too-large", "the recipe is over 1 MiB; split it, or keep data out of it"
	}
	e.Problems = append(e.Problems, p)
}

// wrong notes why a recipe cannot be used, at a key of the file.
func (e *Entry) wrong(code, key, format string, args ...any) {
	e.Recipe = nil
	e.note(&recipe.Problem{Code: code, Text: fmt.Sprintf(format, args...)}, key)
}

// odd notes what is strange about a recipe, at a key of the file.
func (e *Entry) odd(code, key, format string, args ...any) {
	e.note(&recipe.Problem{Code: code, Text: fmt.Sprintf(format, args...), Warning: true}, key)
}

func (e *Entry) note(p *recipe.Problem, key string) {
	p.File = e.File
	n := 0
	for line := range strings.Lines(string(e.Text)) {
		n++
		if !strings.HasPrefix(line, key+":") {
			continue
		}
		rest := line[len(key)+1:]
		value := strings.TrimLeft(rest, " ")
		text := []rune(strings.TrimRight(value, " \r\n"))
		p.Pos = recipe.Pos{Line: n, Col: 1}
		if len(text) > 0 {
			p.Pos.Col = len(key) + 2 + len(rest) - len(value)
			p.End = p.Pos.Col + len(text)
		}
		break
	}
	e.Problems = append(slices.Clone(e.Problems), p)
}

// arrange puts problems into the order of the file, those about all of it first.
func arrange(list recipe.Problems) {
	slices.SortStableFunc(list, func(a, b *recipe.Problem) int {
		if a.Pos.Line != b.Pos.Line {
			return a.Pos.Line - b.Pos.Line
		}
		return a.Pos.Col - b.Pos.Col
	})
}

// A Cache remembers what texts were read to, so that whoever looks often pays once. It is a value of
// who looks, safe for use from several goroutines; its zero is ready.
type Cache struct {
	mu   sync.Mutex
	seen map[string]parsed
}

type parsed struct {
	recipe   *recipe.Recipe
	problems recipe.Problems
}

// parse reads the text of an entry. Files are read anew each time, so a change is never missed.
func (c *Cache) parse(e *Entry) (*recipe.Recipe, recipe.Problems) {
	if c == nil {
		return recipe.Parse(e.File, e.Text)
	}
	key := e.Digest + e.File
	c.mu.Lock()
	p, ok := c.seen[key]
	c.mu.Unlock()
	if !ok {
		p.recipe, p.problems = recipe.Parse(e.File, e.Text)
		c.mu.Lock()
		if c.seen == nil || len(c.seen) >= maxCached {
			c.seen = map[string]parsed{}
		}
		c.seen[key] = p
		c.mu.Unlock()
	}
	return p.recipe, slices.Clone(p.problems)
}
