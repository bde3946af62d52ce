package skill

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
)

// A Report is the result of Validate. Errors break the format: some programs will not use the
// skill. Warnings should be corrected.
type Report struct {
	Skills   int // that were looked at
	Errors   []Finding
	Warnings []Finding
}

// OK reports whether the result has no errors.
func (r *Report) OK() bool { return len(r.Errors) == 0 }

const (
	wordyDescription  = 500 // characters; each is paid for in every conversation
	wordyInstructions = 500 // lines
	maxFindings       = 1000
)

// Validate checks the skill in a folder, or all skills in a folder of skills. It only reads files. A
// folder without any skill is an error of the report.
func Validate(dir string) *Report {
	r := &Report{}
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	f, err := frontmatter.OpenFolder(abs)
	if err != nil {
		text := "cannot be looked at: " + err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			text = "there is no such folder"
		}
		r.Errors = append(r.Errors, Finding{Code: unreadable, Path: abs, Text: text})
		return r
	}
	defer f.Close()
	dirs, odd := Dirs(f, ".", true)
	for _, x := range odd {
		r.add(x)
	}
	if len(dirs) == 0 {
		r.Errors = append(r.Errors, Finding{Code: missingFrontMatter, Path: abs, Text: "there is no " + File + " in this folder or below"})
	}
	for _, d := range dirs {
		if len(r.Errors)+len(r.Warnings) > maxFindings {
			r.Warnings = append(r.Warnings, Finding{Code: unreadable, Path: abs,
				Text: fmt.Sprintf("there are over %d findings; the other skills were not looked at", maxFindings)})
			break
		}
		r.Skills++
		r.skill(f, d)
	}
	return r
}

// skill checks one skill.
func (r *Report) skill(base *frontmatter.Folder, dir string) {
	at := base.Path(dir)
	f, err := base.Sub(dir)
	if err != nil {
		r.Errors = append(r.Errors, Finding{Code: unreadable, Path: at, Text: "cannot be read: " + err.Error()})
		return
	}
	defer f.Close()
	c, err := look(f)
	if err != nil {
		r.Errors = append(r.Errors, Finding{Code: unreadable, Path: at, Text: err.Error()})
		return
	}
	x := read(c.main, filepath.Base(at))
	if x.body != "" {
		x.advise(c)
	}
	for _, y := range append(x.found, c.odd...) {
		y.Path = filepath.Join(at, filepath.FromSlash(y.Path))
		r.add(y)
	}
}

func (r *Report) add(x Finding) {
	if x.err {
		r.Errors = append(r.Errors, x)
	} else {
		r.Warnings = append(r.Warnings, x)
	}
}

var exampleLike = regexp.MustCompile("(?im)^\\s*(```|~~~)|\\bexamples?\\b|\\be\\.g\\.|^\\s*(input|output)s?:")

// advise adds what could be better about a skill that can be read.
func (r *reader) advise(c *contents) {
	if n := utf8.RuneCountInString(r.skill.Description); n > wordyDescription && n <= maxDescription {
		r.warn(longDescription, r.descLine, 1, "the description has %d characters, which every conversation pays for; say it in %d", n, wordyDescription)
	}
	if r.body != "" && !exampleLike.MatchString(r.body) {
		r.warn(noExamples, r.bodyLine, 1, "there is no example; models follow one better than a description")
	}
	if n := strings.Count(r.body, "\n") + 1; n > wordyInstructions {
		r.warn(longInstructions, r.bodyLine, 1, "the instructions have %d lines; move what is not always needed to files beside, and name them", n)
	}
	have := map[string]bool{".": true, File: true}
	for _, f := range c.files {
		have[path.Base(f.Path)] = true // instructions often leave its folder out
		for p := f.Path; p != "." && !have[p]; p = path.Dir(p) {
			have[p] = true
		}
	}
	for _, w := range c.odd {
		have[w.Path] = true
	}
	said := map[string]bool{}
	for _, l := range links(r.body) {
		if have[l.to] || said[l.to] {
			continue
		}
		said[l.to] = true
		if strings.HasPrefix(l.to, "../") || l.to == ".." {
			r.warn(missingHelperFiles, r.bodyLine+l.line, 1, "%s is outside of the folder of the skill, where it cannot be read", clean.Quote(l.to))
			continue
		}
		r.warn(missingHelperFiles, r.bodyLine+l.line, 1, "there is no file %s", clean.Quote(l.to))
	}
}

// A link is a file that instructions name.
type link struct {
	to   string
	line int // from 0
}

var (
	markdownLink = regexp.MustCompile(`!?\[[^\]\n]*\]\(\s*<?([^()<>\s]+)>?(?:\s+["'][^"'\n]*["'])?\s*\)`)
	helperPath   = regexp.MustCompile("(?:^|[\\s`\"'(])((?:\\./)?(?:scripts|references|assets)/[A-Za-z0-9_./-]*[A-Za-z0-9_-]\\.[A-Za-z0-9]+|\\./[A-Za-z0-9_-]+\\.(?:py|sh|js|mjs|rb|pl)\\b)")
	scheme       = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)
)

// links returns the files that a text refers to: the targets of links, paths into the format's
// folders, and scripts with a path. A name alone, and text in code blocks, is often only an example, so it is left
// out.
func links(body string) []link {
	var out []link
	fence := ""
	n := -1
	for line := range strings.Lines(body) {
		n++
		if t := strings.TrimLeft(line, " \t"); fence != "" || strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~") {
			switch {
			case fence == "":
				fence = t[:3]
			case strings.HasPrefix(t, fence):
				fence = ""
			}
			continue
		}
		for _, m := range markdownLink.FindAllStringSubmatch(line, -1) {
			to, _, _ := strings.Cut(m[1], "#")
			to, _, _ = strings.Cut(to, "?")
			if to == "" || scheme.MatchString(to) || strings.HasPrefix(to, "/") || strings.ContainsAny(to, "{}$*|") {
				continue
			}
			out = append(out, link{path.Clean(strings.ReplaceAll(to, "%20", " ")), n})
		}
		for _, m := range helperPath.FindAllStringSubmatch(line, -1) {
			out = append(out, link{path.Clean(m[1]), n})
		}
	}
	return out
}
