package permit

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/bmatcuk/doublestar/v4"
)

// A location is a cleaned path, with slashes.
type location struct {
	rel string // from the root, "" if it is outside of it
	abs string // "" if there is no root
}

func (l location) shown() string {
	if l.rel != "" {
		return l.rel
	}
	return l.abs
}

// like is a pattern for a path and its neighbours.
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

// locations are the places a path names: as written, and where links lead, if that differs.
func (p *Policy) locations(name string) []location {
	first := p.locate(name)
	if p.opt.Resolve == nil || first.abs == "" {
		return []location{first}
	}
	real := p.opt.Resolve(filepath.FromSlash(first.abs))
	if real == "" {
		return []location{first}
	}
	second := p.locate(real)
	if second.rel == "" { // below the root as it is without links
		if root := p.opt.Resolve(p.opt.Root); root != "" {
			if rel, ok := inside(filepath.ToSlash(root), second.abs); ok {
				second.rel = rel
			}
		}
	}
	if second == first {
		return []location{first}
	}
	return []location{first, second}
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
			return location{rel: name}
		}
		name = path.Join(root, name)
	}
	l := location{abs: path.Clean(name)}
	if root != "" {
		l.rel, _ = inside(root, l.abs)
	}
	return l
}

// inside is a path relative to a folder, if it is in it.
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
	text string
	abs  bool
	base string // before the first wildcard
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
		return nil, fmt.Errorf("%q has .. in it; write the folder that is meant", shorten(text))
	}
	if !doublestar.ValidatePattern(s) {
		return nil, fmt.Errorf("%q is not a valid pattern; check its brackets, braces and backslashes", shorten(text))
	}
	base, _ := doublestar.SplitPattern(s)
	return pathPattern{text: s, abs: path.IsAbs(s) || filepath.IsAbs(filepath.FromSlash(s)), base: base}, nil
}

// escape makes a text match only itself.
func escape(s string) string {
	return strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`, "{", `\{`, "}", `\}`).Replace(s)
}

func (pp pathPattern) match(u *unit, strict bool) answer {
	best := no
	for i, l := range u.paths {
		a := pp.one(l, u.walk, strict)
		if strict && a != yes {
			return no // all places must be allowed
		}
		if i == 0 || a > best {
			best = a
		}
	}
	return best
}

func (pp pathPattern) one(l location, walk, strict bool) answer {
	name := l.rel
	if pp.abs {
		name = l.abs
	}
	if name == "" {
		return no
	}
	if ok, _ := doublestar.Match(pp.text, name); ok {
		return yes
	}
	if strict {
		return no
	}
	// What is denied stays denied where case does not tell files apart.
	if ok, _ := doublestar.Match(strings.ToLower(pp.text), strings.ToLower(name)); ok {
		return yes
	}
	if walk && overlap(strings.ToLower(name), strings.ToLower(pp.base)) {
		return perhaps
	}
	return no
}

// overlap says whether something below one folder may be below the other.
func overlap(a, b string) bool {
	if a == "." || b == "." || a == b {
		return true
	}
	return strings.HasPrefix(a, strings.TrimSuffix(b, "/")+"/") || strings.HasPrefix(b, strings.TrimSuffix(a, "/")+"/")
}

// protectedWrite says why none of the places may be written, "" if they may.
func (p *Policy) protectedWrite(all []location) string {
	for _, l := range all {
		if what := p.protectedPlace(l); what != "" {
			return fmt.Sprintf("%s is protected (%s), and no rule may allow writing it; only the user's own list of exceptions can", l.shown(), what)
		}
	}
	return ""
}

// Protected says why a path may not be written by any tool, "" if it may. It is for tools that
// check once more where a path leads.
func (p *Policy) Protected(name string) string { return p.protectedWrite(p.locations(name)) }

func (p *Policy) protectedPlace(l location) string {
	what := protectedName(l.shown())
	for _, dir := range p.opt.Protected {
		dir = path.Clean(filepath.ToSlash(dir))
		if _, ok := inside(strings.ToLower(dir), strings.ToLower(l.abs)); ok {
			what = "the user's configuration"
		}
	}
	if what == "" {
		return ""
	}
	for _, r := range p.unprotect {
		if r.match.match(&unit{paths: []location{l}}, true) == yes {
			return ""
		}
	}
	return what
}

// protectedName tells by its names whether a path decides what runs later: configuration of agents,
// of Git, of shells and of editors, and keys. It does not ask whether there is such a file.
func protectedName(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = foldName(parts[i])
	}
	for i, part := range parts {
		if what := protectedFolder(part); what != "" {
			return what
		}
		if i+1 < len(parts) {
			if what := protectedPair(part, parts[i+1]); what != "" {
				return what
			}
		}
	}
	return protectedFile(parts[len(parts)-1])
}

// foldName is a name as file systems may take it: without case, without characters that some ignore,
// and without what Windows leaves off its end.
func foldName(s string) string {
	s = strings.Map(func(c rune) rune {
		if unicode.Is(unicode.Cf, c) {
			return -1
		}
		return unicode.ToLower(c)
	}, s)
	s, _, _ = strings.Cut(s, "::$")
	if t := strings.TrimRight(s, " ."); t != "" {
		s = t
	}
	if s == "git~1" {
		return ".git"
	}
	return s
}

func protectedFolder(part string) string {
	switch part {
	case ".superstep", ".claude", ".opencode", ".codex", ".cursor", ".gemini", ".windsurf", ".agents":
		return "configuration of agents"
	case ".git", ".husky":
		return "configuration and hooks of Git"
	case ".ssh", ".gnupg", ".aws", ".kube", ".docker":
		return "keys and how to use them"
	}
	return ""
}

func protectedPair(dir, name string) string {
	switch dir {
	case ".config":
		switch name {
		case "superstep", "opencode", "fish", "git", "autostart", "systemd", "environment.d":
			return "configuration of programs that run by themselves"
		}
	case ".vscode":
		switch name {
		case "settings.json", "tasks.json", "launch.json", "mcp.json":
			return "configuration of an editor that runs what it says"
		}
	case "library":
		if name == "launchagents" || name == "launchdaemons" {
			return "programs that run by themselves"
		}
	}
	return ""
}

func protectedFile(name string) string {
	switch name {
	case ".mcp.json", "opencode.json", "opencode.jsonc", ".claude.json":
		return "configuration of agents"
	case ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc",
		".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".envrc":
		return "read by shells when they start"
	case ".gitconfig", ".gitmodules":
		return "configuration and hooks of Git"
	case ".netrc", ".npmrc", ".pypirc", ".git-credentials":
		return "keys and how to use them"
	}
	return ""
}
