package docindex

import (
	"io"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/superstep-dev/superstep/internal/inside"
)

// ignores are the patterns of the .gitignore files of a folder and of .git/info/exclude, by the folder they hold in.
type ignores map[string][]ignore

// An ignore is a pattern of such a file.
type ignore struct {
	pattern  string // for doublestar
	anchored bool   // it is about paths from the folder, not about names
	folders  bool   // it is about folders only
	keep     bool   // what it matches is not ignored
}

const maxIgnore = 1 << 20 // bytes of a .gitignore that are read

// read adds the patterns that hold in a folder.
func (ig ignores) read(b *builder, dir string) {
	files := []string{path.Join(dir, ".gitignore")}
	if dir == "." {
		files = []string{".git/info/exclude", ".gitignore"} // the later one decides
	}
	for _, name := range files {
		f, _, err := inside.Regular(b.root, name)
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(io.LimitReader(f, maxIgnore)) // what cannot be read ignores nothing
		f.Close()
		for line := range strings.Lines(string(text)) {
			if p, ok := parseIgnore(strings.TrimRight(line, "\r\n")); ok {
				ig[dir] = append(ig[dir], p)
			}
		}
	}
}

func parseIgnore(line string) (p ignore, ok bool) {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = strings.TrimSuffix(line, " ")
	}
	if line == "" || line[0] == '#' {
		return p, false
	}
	line, p.keep = strings.CutPrefix(line, "!")
	line, p.folders = strings.CutSuffix(line, "/")
	p.anchored = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	p.pattern = strings.NewReplacer("{", `\{`, "}", `\}`).Replace(line)
	return p, line != "" && doublestar.ValidatePattern(p.pattern)
}

// has reports whether a file or folder is ignored, provided its parent is not. The last matching
// pattern decides; patterns of inner folders come after those of outer ones.
func (ig ignores) has(name string, folder bool) bool {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		list := ig[dir]
		for i := len(list) - 1; i >= 0; i-- {
			p := list[i]
			subject := path.Base(name)
			if p.anchored {
				subject = strings.TrimPrefix(name, dir+"/")
			}
			if ok, _ := doublestar.Match(p.pattern, subject); ok && (folder || !p.folders) {
				return !p.keep
			}
		}
		if dir == "." {
			return false
		}
	}
}
