package research

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/renameio/v2/maybe"
)

var marker = regexp.MustCompile(`\[(\d+(?:\s*,\s*\d+)*)\]`)

// unread matches the parts of a text in which a number in brackets is no citation: code and
// quotations.
var unread = regexp.MustCompile("(?s)```.*?(```|$)|`[^`\n]*`|“[^”]*”")

// cited returns the numbers of sources that a text cites, in order of first use.
func cited(text string) []int {
	var out []int
	for _, m := range marker.FindAllStringSubmatch(unread.ReplaceAllString(text, " "), -1) {
		for s := range strings.SplitSeq(m[1], ",") {
			n, _ := strconv.Atoi(strings.TrimSpace(s)) // one that is too large becomes the largest, which is no source either
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// listed finds a list of sources in a text. The text must not have one.
var listed = regexp.MustCompile(`(?mi)^#+\s*(sources|references|bibliography|citations)\W*$|^\s*\[\d+\]:? \S+:\d+ `)

// checkCitations finds the mistakes in the citations of a text.
func checkCitations(text string, sources int) error {
	if strings.TrimSpace(text) == "" {
		return fmt.Errorf("content: is empty")
	}
	used := cited(text)
	var unknown []string
	for _, n := range used {
		if n < 1 || n > sources {
			unknown = append(unknown, strconv.Itoa(n))
		}
	}
	switch {
	case listed.MatchString(text):
		return fmt.Errorf("content: leave out the list of sources; it is added, with what has been verified")
	case len(unknown) > 0:
		return fmt.Errorf("content: there is no source %s; the sources are 1 to %d", strings.Join(unknown, ", "), sources)
	case len(used) == 0 && sources > 0:
		return fmt.Errorf("content: cites nothing; put the number of a source, like [1], behind what rests on it")
	}
	return nil
}

// numbered returns the sources of a report, in the order of the directions.
func (s *state) numbered() []finding {
	var out []finding
	for _, d := range s.Directions {
		for _, f := range s.Findings {
			if f.Direction == d.Key {
				out = append(out, f)
			}
		}
	}
	return out
}

var title = regexp.MustCompile(`^# [^\n]*\n*`)

// render returns the brief of a language model: the question, the text of the model, the sources
// that it cites, and a summary of the searches.
func (s *state) render(text string, sources []finding, answered bool) (string, []Passage) {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", oneLine(s.Question))
	if !answered {
		b.WriteString(none(s) + "\n\n")
	}
	b.WriteString(strings.TrimSpace(title.ReplaceAllString(strings.TrimSpace(text), "")))
	b.WriteString("\n\n## Sources\n\n")
	used := cited(text)
	slices.Sort(used)
	var quoted []Passage
	for _, n := range used {
		if n < 1 || n > len(sources) {
			continue
		}
		p := sources[n-1].Passage
		line, text := p.telling()
		fmt.Fprintf(&b, "[%d] %s — “%s”%s\n", n, line.at(), text, p.also())
		quoted = append(quoted, p)
	}
	if quoted == nil {
		b.WriteString("None.\n")
	}
	s.foot(&b)
	return b.String(), quoted
}

// telling returns the longest line of a passage, and its place.
func (p Passage) telling() (at *Passage, text string) {
	at = &Passage{Path: p.Path, Start: p.Start}
	for i, l := range strings.Split(p.Text, "\n") {
		if len(l) > len(text) {
			text = l
			if p.Start > 0 {
				at.Start = p.Start + i
			}
		}
	}
	return at, text
}

// listing returns the report for a model that wrote none: the list of findings.
func (s *state) listing(sources []finding) string {
	var b strings.Builder
	b.WriteString("The model wrote no report. These are the findings it was to be written from.\n\n")
	for i, f := range sources {
		fmt.Fprintf(&b, "- %s [%d]\n", cmp.Or(oneLine(f.Claim), "“"+f.Text+"”"), i+1)
	}
	return b.String()
}

// save writes the report atomically. Its error has only the system's reason and does not name
// temporary files.
func save(file, text string) error {
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = maybe.WriteFile(file, []byte(text), 0o644)
	}
	if err == nil {
		return nil
	}
	if reason := errors.Unwrap(err); reason != nil {
		err = reason
	}
	return fmt.Errorf("the report is done but cannot be written to %s: %w; mend that and resume the run", file, err)
}

// writable returns why no file can be created in a folder, or in its nearest parent that exists.
func writable(dir string) error {
	for {
		info, err := os.Stat(dir)
		up := filepath.Dir(dir)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s is no folder", dir)
		case errors.Is(err, fs.ErrNotExist) && up != dir:
			dir = up
			continue
		case err != nil:
			return err
		}
		f, err := os.CreateTemp(dir, ".superstep-*")
		if err != nil {
			return fmt.Errorf("cannot write in %s", dir)
		}
		return errors.Join(f.Close(), os.Remove(f.Name()))
	}
}
