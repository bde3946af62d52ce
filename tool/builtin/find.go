package builtin

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sync/errgroup"

	"github.com/superstep-dev/superstep/tool"
)

const (
	grepMatches = 100      // by default
	grepMost    = 1000     // at most
	grepFile    = 32 << 20 // bytes of a file searched; larger ones are named and skipped
	grepText    = 300      // bytes of a line shown
)

// skipped reports whether walks leave out a folder, unless they start in it.
func skipped(name string) bool { return name == ".git" || name == "node_modules" }

// walk calls f with every file below dir, in order of folders, as a path relative to the
// root. Symbolic links to files inside the root are files; those to folders are not
// followed, so a walk ends.
func (r *Root) walk(ctx context.Context, dir string, f func(name string, d fs.DirEntry) error) error {
	return fs.WalkDir(r.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case err != nil && name == dir:
			return r.explain(dir, err)
		case err != nil: // a folder that may not be read or is gone
			return nil
		case d.IsDir():
			if name != dir && skipped(d.Name()) {
				return fs.SkipDir
			}
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			rel, err := r.resolve(name)
			if err != nil {
				return nil
			}
			if info, err := r.root.Stat(rel); err != nil || !info.Mode().IsRegular() {
				return nil
			}
		case !d.Type().IsRegular():
			return nil
		}
		return f(name, d)
	})
}

// start returns the folder of a search, and its name for errors.
func (r *Root) start(name string) (string, error) {
	name = cmp.Or(name, ".")
	rel, err := r.resolve(name)
	if err != nil {
		return "", err
	}
	if _, err := r.root.Stat(rel); err != nil {
		return "", r.explain(name, err)
	}
	return rel, nil
}

// Glob returns the tool "glob", which finds files below root by their path.
func Glob(root *Root) *tool.Tool {
	type args struct {
		Pattern string `json:"pattern" jsonschema:"such as **/*.go or docs/*.{md,txt}; * and ? stop at /, ** does not"`
		Path    string `json:"path,omitempty" jsonschema:"the folder the pattern is relative to; defaults to the working folder"`
	}
	return made(tool.NewRaw("glob", "Find files by a pattern over their paths. The output is one path per line, sorted. Files in .git and "+
		"node_modules are left out unless path, or the pattern before its first special character, is in them.",
		func(ctx context.Context, c *tool.Call, in args) (string, error) {
			from, _ := doublestar.SplitPattern(in.Pattern)
			if !path.IsAbs(in.Pattern) {
				from = path.Join(cmp.Or(in.Path, "."), from)
			}
			s := root.sight(c, "glob", from)
			list, err := root.glob(ctx, in.Pattern, in.Path, s)
			if err != nil {
				return "", err
			}
			switch {
			case c.Raw && len(list) > listed:
				return "", fmt.Errorf("pattern %s: over %d files match; use a narrower one", in.Pattern, listed)
			case c.Raw && len(list) == 0:
				return "", nil
			case len(list) == 0:
				return strings.TrimSpace(fmt.Sprintf("no file matches %s; ** matches folders of any depth, as in **/%s\n%s", in.Pattern, path.Base(in.Pattern),
					s.note())), nil
			}
			more := ""
			if n := len(list) - listed; n > 0 {
				list, more = list[:listed], fmt.Sprintf("[%d more files; use a narrower pattern]\n", n)
			}
			for i := range list {
				list[i] = shown(list[i])
			}
			text := strings.Join(list, "\n") + "\n"
			if c.Raw {
				return text, nil
			}
			return text + more + s.note(), nil
		}, &tool.Options{Effect: tool.Pure}))
}

func (r *Root) glob(ctx context.Context, pattern, dir string, s *sight) ([]string, error) {
	if !doublestar.ValidatePattern(pattern) {
		return nil, fmt.Errorf("pattern %q: is not valid; check its brackets, braces and backslashes", pattern)
	}
	base, err := r.start(dir)
	if err != nil {
		return nil, err
	}
	fixed, rest := doublestar.SplitPattern(pattern)
	fixed, err = r.local(path.Join(base, fixed))
	if path.IsAbs(pattern) {
		fixed, rest = doublestar.SplitPattern(pattern)
		fixed, err = r.local(fixed)
	}
	if err != nil {
		return nil, err
	}
	if slices.Contains(strings.Split(rest, "/"), "..") {
		return nil, r.outside(pattern)
	}
	from, err := r.resolve(fixed)
	if err != nil {
		return nil, err
	}
	if info, err := r.root.Stat(from); err != nil || !info.IsDir() {
		return nil, nil
	}
	var list []string
	err = r.walk(ctx, from, func(name string, d fs.DirEntry) error {
		rel := name
		if from != "." {
			rel = strings.TrimPrefix(name, from+"/")
		}
		if ok, _ := doublestar.Match(rest, rel); ok && s.sees(r.names(name, d)...) {
			list = append(list, path.Join(fixed, rel))
		}
		return nil
	})
	slices.Sort(list)
	return list, err
}

// Grep returns the tool "grep", which finds lines of text files below root.
func Grep(root *Root) *tool.Tool {
	type args struct {
		Pattern    string `json:"pattern" jsonschema:"a regular expression in RE2 syntax, matched against each line"`
		Literal    bool   `json:"literal,omitempty" jsonschema:"take the pattern as plain text"`
		IgnoreCase bool   `json:"ignore_case,omitempty" jsonschema:"match regardless of case"`
		Path       string `json:"path,omitempty" jsonschema:"the folder or file to search; defaults to the working folder"`
		Include    string `json:"include,omitempty" jsonschema:"only files that match, such as *.go or docs/**/*.md"`
		Max        int    `json:"max,omitempty" jsonschema:"how many matches to return, at most 1000; defaults to 100"`
	}
	return made(tool.NewRaw("grep", "Search the text of files. The output is path:line:text, sorted by path. Binary files, .git and node_modules are left out.",
		func(ctx context.Context, c *tool.Call, in args) (string, error) {
			if in.Max < 0 || in.Max > grepMost {
				return "", fmt.Errorf("max %d: must be from 1 to %d", in.Max, grepMost)
			}
			g, err := newGrep(in.Pattern, in.Literal, in.IgnoreCase)
			if err != nil {
				return "", err
			}
			g.max = cmp.Or(in.Max, grepMatches)
			s := root.sight(c, "grep", cmp.Or(in.Path, "."))
			g.sight = s
			files, err := root.grepFiles(ctx, in.Path, in.Include, s)
			if err != nil {
				return "", err
			}
			text, remarks, err := g.run(ctx, root, files)
			if c.Raw {
				if text == "" || in.Max > 0 || !strings.HasPrefix(remarks, moreMatches) {
					return text, err
				}
				return "", fmt.Errorf("there are over %d matches; set max, to %d at most, or narrow the pattern, path or include", g.max, grepMost)
			}
			return text + remarks + s.note(), err
		}, &tool.Options{Effect: tool.Pure}))
}

func (r *Root) grepFiles(ctx context.Context, dir, include string, s *sight) ([]string, error) {
	if !doublestar.ValidatePattern(include) {
		return nil, fmt.Errorf("include %q: is not a valid pattern; check its brackets, braces and backslashes", include)
	}
	from, err := r.start(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	err = r.walk(ctx, from, func(name string, d fs.DirEntry) error {
		subject := name
		if !strings.Contains(include, "/") {
			subject = path.Base(name)
		}
		if include != "" {
			if ok, _ := doublestar.Match(include, subject); !ok {
				return nil
			}
		}
		if s.sees(r.names(name, d)...) {
			files = append(files, name)
		}
		return nil
	})
	slices.Sort(files)
	return files, err
}

type grep struct {
	re    *regexp.Regexp
	max   int
	sight *sight
}

func newGrep(pattern string, literal, ignoreCase bool) (*grep, error) {
	expr := pattern
	if literal {
		expr = regexp.QuoteMeta(pattern)
	}
	if ignoreCase {
		expr = "(?i)" + expr
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: is not a regular expression in RE2 syntax: %w; correct it, or set literal to search for it as plain text", pattern, err)
	}
	return &grep{re: re}, nil
}

// found holds the matches in one file.
type found struct {
	lines []string
	big   bool
	err   error
}

// run searches files in parallel, one per processor, and returns the results in the order of files. It stops when it has enough. Remarks mention what
// the text leaves out.
func (g *grep) run(ctx context.Context, root *Root, files []string) (text, remarks string, err error) {
	ctx, stop := context.WithCancel(ctx)
	var workers errgroup.Group
	defer func() {
		stop()
		_ = workers.Wait() // none fails
	}()
	workers.SetLimit(1 + runtime.GOMAXPROCS(0))
	order := make(chan chan found, 4*runtime.GOMAXPROCS(0))
	workers.Go(func() error {
		defer close(order)
		for _, name := range files {
			out := make(chan found, 1)
			select {
			case order <- out:
			case <-ctx.Done():
				return nil
			}
			workers.Go(func() error {
				out <- g.file(ctx, root, name)
				return nil
			})
		}
		return nil
	})
	var out strings.Builder
	matches, big := 0, 0
	for result := range order {
		f := <-result
		if f.err != nil && ctx.Err() != nil {
			return "", "", ctx.Err()
		}
		if f.big {
			big++
		}
		for _, l := range f.lines {
			if matches == g.max || out.Len()+len(l) > textBytes {
				return out.String(), moreMatches + "; narrow the pattern, path or include]\n", nil
			}
			out.WriteString(l + "\n")
			matches++
		}
	}
	if err := ctx.Err(); err != nil {
		return "", "", err
	}
	if matches == 0 {
		remarks = fmt.Sprintf("no match in %d files\n", len(files)-big)
	}
	if big > 0 {
		remarks += fmt.Sprintf("[%d files over %d MiB were not searched]\n", big, grepFile>>20)
	}
	return out.String(), remarks, nil
}

const moreMatches = "[there are more matches"

// file searches one file. An unreadable or binary file has no matches.
func (g *grep) file(ctx context.Context, root *Root, name string) (out found) {
	rel, err := root.resolve(name)
	if err != nil {
		return found{err: err}
	}
	if rel != name { // a link, perhaps since a moment ago
		if err := g.sight.check(name, rel); err != nil {
			return found{err: err}
		}
	}
	f, info, err := root.root.Exact(rel)
	if err != nil {
		return found{err: err}
	}
	defer f.Close()
	if info.Size() > grepFile {
		return found{big: true}
	}
	raw, err := io.ReadAll(io.LimitReader(f, grepFile))
	if err != nil {
		return found{err: err}
	}
	if bytes.IndexByte(raw[:min(len(raw), sniffed)], 0) >= 0 {
		return found{}
	}
	for n := 1; len(raw) > 0; n++ {
		var line []byte
		line, raw, _ = bytes.Cut(raw, []byte("\n"))
		if n%4096 == 0 && ctx.Err() != nil {
			return found{err: ctx.Err()}
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		at := g.re.FindIndex(line)
		if at == nil {
			continue
		}
		out.lines = append(out.lines, fmt.Sprintf("%s:%d:%s", shown(name), n, excerpt(line, at[0])))
		if len(out.lines) > g.max {
			break
		}
	}
	return out
}

// excerpt cuts a long line to grepText bytes around offset at.
func excerpt(line []byte, at int) string {
	if len(line) <= grepText {
		return string(line)
	}
	lo := 0
	if at > grepText*2/3 {
		lo = at - grepText/3
	}
	hi := min(len(line), lo+grepText)
	for lo > 0 && lo < at && !utf8.RuneStart(line[lo]) {
		lo++
	}
	for hi < len(line) && hi > lo && !utf8.RuneStart(line[hi]) {
		hi--
	}
	s := string(line[lo:hi])
	if lo > 0 {
		s = "…" + s
	}
	if hi < len(line) {
		s += "…"
	}
	return s
}
