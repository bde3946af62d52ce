package research

import (
	"bytes"
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

// unread are the parts of a text in which a number in brackets is no citation: code, and
// the words of others.
var unread = regexp.MustCompile("(?s)```.*?(```|$)|`[^`\n]*`|“[^”]*”")

// cited gives the numbers of sources that a text cites, in order of first use.
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

// listed finds a list of sources in a text, which it must not have.
var listed = regexp.MustCompile(`(?mi)^#+\s*(sources|references|bibliography|citations)\W*$|^\s*\[\d+\]:? \S+:\d+ `)

// checkCitations finds what is wrong with the citations of a text.
func checkCitations(text string, sources []Source) error {
	if strings.TrimSpace(text) == "" {
		return fmt.Errorf("content: is empty")
	}
	used := cited(text)
	var unknown []string
	for _, n := range used {
		if n < 1 || n > len(sources) {
			unknown = append(unknown, strconv.Itoa(n))
		}
	}
	switch {
	case listed.MatchString(text):
		return fmt.Errorf("content: leave out the list of sources; it is added, with what has been verified")
	case len(unknown) > 0:
		return fmt.Errorf("content: there is no source %s; the sources are 1 to %d", strings.Join(unknown, ", "), len(sources))
	case len(used) == 0 && len(sources) > 0:
		return fmt.Errorf("content: cites nothing; put the number of a source, like [1], behind what rests on it")
	}
	return nil
}

// render adds the list of the sources it cites to a text, and what is known of its making.
func (s *State) render(text string, sources []Source) string {
	var b bytes.Buffer
	b.WriteString(strings.TrimSpace(text))
	b.WriteString("\n\n## Sources\n\n")
	used := cited(text)
	slices.Sort(used)
	used = slices.DeleteFunc(used, func(n int) bool { return n < 1 || n > len(sources) })
	for _, n := range used {
		src := sources[n-1]
		fmt.Fprintf(&b, "[%d] %s — “%s”\n", n, src.Place, src.Quote)
	}
	if len(used) == 0 {
		b.WriteString("None.\n")
	}
	fmt.Fprintf(&b, "\n---\n\n%d of %d searches", s.Searches, s.Max)
	for _, d := range s.Directions {
		fmt.Fprintf(&b, " · %s: %s, confidence %.2f", d.Topic, count(len(s.sources(d.Key)), "source"), s.confidence(d.Key))
	}
	if s.Dropped > 0 {
		fmt.Fprintf(&b, " · %s dropped, not found in its source", count(s.Dropped, "quote"))
	}
	fmt.Fprintf(&b, " · model %s\n", s.Model)
	return b.String()
}

// listing is a report of a model that gave none: the findings as they are.
func (s *State) listing(sources []Source) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nThe model wrote no report. These are the findings it was to be written from.\n", oneLine(s.Question))
	heading := ""
	for _, src := range sources {
		if src.Direction != heading {
			heading = src.Direction
			fmt.Fprintf(&b, "\n## %s\n\n", heading)
		}
		fmt.Fprintf(&b, "- %s [%d]\n", cmp.Or(oneLine(src.Claim), "“"+src.Quote+"”"), src.N)
	}
	return b.String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// save puts the report where it belongs, whole or not at all.
func save(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return unwritten(file, err)
	}
	if err := maybe.WriteFile(file, []byte(text), 0o644); err != nil {
		return unwritten(file, err)
	}
	return nil
}

// unwritten says why a report is not where it should be, by the system's reason alone:
// the files that were made on the way there are nobody's business.
func unwritten(file string, err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		err = path.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return fmt.Errorf("the report is done but cannot be written to %s: %w; mend that and resume the run", file, err)
}

// writable reports why no file can be made in a folder, or in the nearest one above it
// that there is.
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
