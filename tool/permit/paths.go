package permit

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/superstep-dev/superstep/internal/clean"
)

// A location is a cleaned path, with slashes.
type location struct {
	rel  string // from the root, "" if it is outside of it
	fold string // rel as file systems may take it, for rules that deny or ask
	abs  string // "" if there is no root
}

func (l location) shown() string {
	if l.rel != "" {
		return l.rel
	}
	return l.abs
}

// like returns a pattern for a path and its neighbours.
func (l location) like(folder bool) string {
	if l.rel == "" { // only the file itself
		return literalPath(l.abs)
	}
	dir := path.Dir(l.rel)
	if folder {
		dir = l.rel
	}
	if dir == "." {
		if folder {
			return "**"
		}
		return literalPath(l.rel)
	}
	if dir = literalPath(dir); dir == "" {
		return ""
	}
	return dir + "/**"
}

// locations returns the locations that a path names: the path as written, and the target of its
// links, if that differs.
func (p *Policy) locations(name string) []location {
	first := p.locate(name)
	all := p.around([]location{first})
	if p.opt.Resolve == nil || first.abs == "" {
		return all
	}
	real := p.opt.Resolve(filepath.FromSlash(first.abs))
	if real == "" {
		return all
	}
	second := p.locate(real)
	if second.rel == "" { // below the root as it is without links
		if root := p.opt.Resolve(p.opt.Root); root != "" {
			if rel, ok := inside(filepath.ToSlash(root), second.abs); ok {
				second = placed(second.abs, rel)
			}
		}
	}
	if second == first {
		return all
	}
	return append(all, p.around([]location{second})...)
}

// around adds the place from the project's root to that from the root of In.
func (p *Policy) around(all []location) []location {
	if rel, ok := inside(filepath.ToSlash(p.outer), all[0].abs); ok && p.outer != "" {
		all = append(all, placed(all[0].abs, rel))
	}
	return all
}

// placed returns the location of a path inside the root.
func placed(abs, rel string) location { return location{rel: rel, fold: foldPath(rel), abs: abs} }

// foldPath folds every name of a path.
func foldPath(name string) string {
	if strings.IndexFunc(name, func(c rune) bool { return c >= utf8.RuneSelf || c >= 'A' && c <= 'Z' || strings.ContainsRune(" :~", c) }) < 0 &&
		!strings.Contains(name, "./") && !strings.HasSuffix(name, ".") {
		return name
	}
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = foldName(parts[i])
	}
	return strings.Join(parts, "/")
}

func (p *Policy) locate(name string) location {
	name = filepath.ToSlash(name)
	if p.opt.Home != "" && (name == "~" || strings.HasPrefix(name, "~/")) {
		name = path.Join(filepath.ToSlash(p.opt.Home), name[1:])
	}
	root := filepath.ToSlash(p.opt.Root)
	if !path.IsAbs(name) && !filepath.IsAbs(filepath.FromSlash(name)) {
		if root == "" {
			name = path.Clean(name)
			if name == ".." || strings.HasPrefix(name, "../") {
				return location{abs: name}
			}
			return placed("", name)
		}
		name = path.Join(root, name)
	}
	l := location{abs: path.Clean(name)}
	if root != "" {
		if rel, ok := inside(root, l.abs); ok {
			return placed(l.abs, rel)
		}
	}
	return l
}

// inside returns a path relative to a folder, if it is in it.
func inside(dir, name string) (string, bool) {
	if name == dir {
		return ".", true
	}
	rel, ok := strings.CutPrefix(name, strings.TrimSuffix(dir, "/")+"/")
	if !ok {
		return "", false
	}
	return rel, true
}

// A pathPattern matches paths from the root, or absolute ones.
type pathPattern struct {
	exact pathGlob
	fold  pathGlob // without case, for rules that deny or ask: files may be the same where case does not tell them apart
	abs   bool
}

// A pathGlob is a doublestar pattern. Patterns of common shapes are matched without the package, which takes ten times as
// long: searches ask about every file.
type pathGlob struct {
	text  string
	match func(name string) bool
}

func newPathGlob(text string) pathGlob {
	rest, anywhere := strings.CutPrefix(text, "**/")
	plain := func(s, but string) bool { return anywhere && s != "" && !strings.ContainsAny(s, `*?[]{}\`+but) }
	base := func(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
	dir, isBelow := strings.CutSuffix(rest, "/**")
	prefix, isPrefix := strings.CutSuffix(rest, "*")
	suffix, isSuffix := strings.CutPrefix(rest, "*")
	g := pathGlob{text: text}
	switch {
	case text == "**":
		g.match = func(string) bool { return true }
	case plain(rest, ""):
		g.match = func(name string) bool { return hasNames(name, rest, false) }
	case isBelow && plain(dir, ""):
		g.match = func(name string) bool { return hasNames(name, dir, true) }
	case isPrefix && plain(prefix, "/"):
		g.match = func(name string) bool { return strings.HasPrefix(base(name), prefix) }
	case isSuffix && plain(suffix, "/"):
		g.match = func(name string) bool { return strings.HasSuffix(base(name), suffix) }
	default:
		g.match = func(name string) bool { ok, _ := doublestar.Match(text, name); return ok }
	}
	return g
}

// hasNames reports whether a path ends with a sequence of names, or, if within is set, contains it
// anywhere.
func hasNames(name, names string, within bool) bool {
	for at := 0; ; {
		i := strings.Index(name[at:], names)
		if i < 0 {
			return false
		}
		i += at
		end := i + len(names)
		if (i == 0 || name[i-1] == '/') && (end == len(name) || within && name[end] == '/') {
			return true
		}
		at = i + 1
	}
}

func compilePath(text, home string) (matcher, error) {
	s := filepath.ToSlash(text)
	if s == "~" || strings.HasPrefix(s, "~/") {
		if home == "" {
			return nil, errors.New("~ cannot be used here, since there is no home folder")
		}
		s = escape(filepath.ToSlash(home)) + s[1:]
	}
	for strings.HasPrefix(s, "./") {
		s = strings.TrimLeft(s[2:], "/")
	}
	if s != "/" {
		s = strings.TrimSuffix(s, "/")
	}
	if s == "" {
		s = "."
	}
	if slices.Contains(strings.Split(s, "/"), "..") {
		return nil, fmt.Errorf("%q has .. in it; write the folder that is meant", clean.Clip(text, 200))
	}
	if !doublestar.ValidatePattern(s) {
		return nil, fmt.Errorf("%q is not a valid pattern; check its brackets, braces and backslashes", clean.Clip(text, 200))
	}
	return pathPattern{exact: newPathGlob(s), fold: newPathGlob(strings.ToLower(s)), abs: path.IsAbs(s) || filepath.IsAbs(filepath.FromSlash(s))}, nil
}

// escape returns a pattern that matches only the text.
func escape(s string) string {
	return strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`, "{", `\{`, "}", `\}`).Replace(s)
}

func (pp pathPattern) match(u *unit, strict bool) answer {
	best := no
	for i, l := range u.paths {
		a := pp.one(l, strict)
		if strict && a != yes {
			return no // all places must be allowed
		}
		if i == 0 || a > best {
			best = a
		}
	}
	return best
}

func (pp pathPattern) one(l location, strict bool) answer {
	name, g := l.rel, pp.exact
	switch {
	case pp.abs && strict:
		name = l.abs
	case pp.abs:
		name, g = foldPath(l.abs), pp.fold
	case !strict:
		name, g = l.fold, pp.fold
	}
	if name != "" && g.match(name) {
		return yes
	}
	return no
}
