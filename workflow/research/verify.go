package research

import (
	"fmt"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool/builtin"
)

// most is how much of a file is read to find a quote in it.
const most = 16 << 20

// leastQuote is how many letters and digits a quote must have to say anything.
const leastQuote = 8

// verify keeps the findings whose quotes are in their sources, of which no brief is one, with the line put right
// where the model was off and the path in its one form, and counts the others. Pages of
// the web are checked against what the searches of the conversation gave.
func verify(root *builtin.Root, own string, seen []model.Message, found []Finding) (good []Finding, dropped int) {
	files := map[string]file{}
	for _, f := range found {
		f.Quote, f.Path = strings.TrimSpace(f.Quote), strings.TrimSpace(f.Path)
		ok := false
		switch {
		case substance(f.Quote) < leastQuote:
		case strings.Contains(f.Path, "://"):
			f.Line, f.Quote = 0, oneLine(f.Quote)
			ok = onPage(seen, f.Path, f.Quote)
		case root != nil:
			read, known := files[f.Path]
			if !known {
				read = open(root, f.Path)
				files[f.Path] = read
			}
			f.Path = read.path
			ok = !written(read.path, own) && f.locate(read.lines)
		}
		if ok {
			good = append(good, f)
		} else {
			dropped++
		}
	}
	return good, dropped
}

func substance(quote string) int {
	n := 0
	for _, r := range quote {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			n++
		}
	}
	return n
}

// file is a file that was read.
type file struct {
	path  string // relative to the root, clean, without links
	lines []string
}

var lineSuffix = regexp.MustCompile(`:\d+(-\d+)?$`)

// open reads a file as a model named it, perhaps with a line behind. A source that
// cannot be read supports nothing, so there is no error.
func open(root *builtin.Root, name string) file {
	f, err := root.Open(name)
	if bare := lineSuffix.ReplaceAllString(name, ""); err != nil && bare != name {
		f, err = root.Open(bare)
		name = bare
	}
	if err != nil {
		return file{path: name}
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return file{path: name}
	}
	return file{relative(root.Dir(), f.Name(), name), strings.Split(string(b), "\n")}
}

// relative is the path of an opened file below the folder, or the name it was asked for
// by if that cannot be told.
func relative(dir, opened, name string) string {
	for _, base := range []string{dir, evaluated(dir)} {
		if rel, err := filepath.Rel(base, opened); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel)
		}
	}
	return path.Clean(filepath.ToSlash(name))
}

func evaluated(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// locate finds the quote in the lines of its file, at the line it names or as near to
// it as can be, and sets Line. A quote that does not occur as it stands may be one
// whose spaces and line breaks were changed: near its line it is looked for word by
// word, and becomes what stands there.
func (f *Finding) locate(lines []string) bool {
	parts := strings.Split(f.Quote, "\n")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	best := -1
	for i := range lines {
		if i+len(parts) <= len(lines) && contains(lines[i:], parts) && (best < 0 || distance(i+1, f.Line) < distance(best+1, f.Line)) {
			best = i
		}
	}
	if best >= 0 {
		f.Line, f.Quote = best+1, strings.Join(parts, "\n")
		return true
	}
	return f.reflow(lines)
}

// nearby is how far from its line a quote is looked for word by word.
const nearby = 60

// A word is a word of a line, by its bytes.
type word struct{ line, from, to int }

// reflow finds a quote word by word, over the ends of lines and what introduces them.
func (f *Finding) reflow(lines []string) bool {
	want := strings.Fields(f.Quote)
	first := max(0, f.Line-1-nearby)
	var ws []word
	for i := first; i < min(len(lines), f.Line+nearby); i++ {
		ws = append(ws, wordsOf(lines, i)...)
	}
	best := -1
	for i := 0; i+len(want) <= len(ws); i++ {
		if saysFrom(lines, ws[i:], want) && (best < 0 || distance(ws[i].line+1, f.Line) < distance(ws[best].line+1, f.Line)) {
			best = i
		}
	}
	if best < 0 || len(want) == 0 {
		return false
	}
	ws = ws[best : best+len(want)]
	if ws[len(ws)-1].line-ws[0].line > 12 {
		return false
	}
	var parts []string
	for n := ws[0].line; n <= ws[len(ws)-1].line; n++ {
		from, to := -1, 0
		for _, w := range ws {
			if w.line == n {
				if from < 0 {
					from = w.from
				}
				to = w.to
			}
		}
		if from < 0 {
			return false // the quote passes over a line without words
		}
		parts = append(parts, lines[n][from:to])
	}
	f.Line, f.Quote = ws[0].line+1, strings.Join(parts, "\n")
	return true
}

// wordsOf are the words of a line, without a comment mark or bullet in front.
func wordsOf(lines []string, n int) []word {
	var out []word
	l := lines[n]
	for i := 0; i < len(l); {
		size := strings.IndexFunc(l[i:], func(r rune) bool { return !unicode.IsSpace(r) })
		if size < 0 {
			break
		}
		i += size
		end := strings.IndexFunc(l[i:], unicode.IsSpace)
		if end < 0 {
			end = len(l) - i
		}
		if introduces := strings.Trim(l[i:i+end], "/*#>-+;|") == ""; !introduces || len(out) > 0 {
			out = append(out, word{n, i, i + end})
		}
		i += end
	}
	return out
}

// saysFrom reports whether the words wanted are the first ones of ws. The first and the
// last may be parts of theirs; the quote gets the whole ones.
func saysFrom(lines []string, ws []word, want []string) bool {
	for i, w := range want {
		got := lines[ws[i].line][ws[i].from:ws[i].to]
		switch {
		case got == w, i == 0 && len(want) > 1 && strings.HasSuffix(got, w), i == len(want)-1 && i > 0 && strings.HasPrefix(got, w):
		default:
			return false
		}
	}
	return true
}

func contains(lines, parts []string) bool {
	for i, p := range parts {
		if p == "" || !strings.Contains(lines[i], p) {
			return false
		}
	}
	return true
}

func distance(a, b int) int { return max(a-b, b-a) }

// onPage reports whether a search result of a page has the quote.
func onPage(seen []model.Message, address, quote string) bool {
	for _, m := range seen {
		for _, p := range m.Parts {
			if p.Kind != model.Result || p.Error {
				continue
			}
			for page := range strings.SplitSeq("\n"+p.Text, "\n## ") {
				head, body, _ := strings.Cut(page, "\n")
				if strings.TrimSpace(head) == address && strings.Contains(oneLine(body), quote) {
					return true
				}
			}
		}
	}
	return false
}

// A Source is a numbered place that the report cites.
type Source struct {
	N          int     `json:"n"`
	Place      string  `json:"place"` // path:line, or an address
	Quote      string  `json:"quote"` // verbatim on that line
	Claim      string  `json:"claim,omitempty"`
	Direction  string  `json:"direction"`
	Confidence float64 `json:"confidence"`
}

// numbered gives the sources of a report, in the order of the directions. Of a quote
// of several lines the one that says most is cited.
func (s *State) numbered() []Source {
	var out []Source
	for _, d := range s.Directions {
		for _, f := range s.Findings {
			if f.Direction != d.Key {
				continue
			}
			src := Source{N: len(out) + 1, Place: f.place(), Quote: f.Quote, Claim: f.Claim, Direction: d.Topic, Confidence: f.Confidence}
			if f.Line > 0 {
				at := f
				at.Line, src.Quote = f.telling()
				src.Place = at.place()
			}
			out = append(out, src)
		}
	}
	return out
}

// place is where a finding stands: path:line, or an address.
func (f *Finding) place() string {
	if f.Line == 0 {
		return f.Path
	}
	return fmt.Sprintf("%s:%d", f.Path, f.Line)
}

// telling is the longest line of a quote, and its number.
func (f *Finding) telling() (int, string) {
	line, best := f.Line, ""
	for i, part := range strings.Split(f.Quote, "\n") {
		if len(part) > len(best) {
			line, best = f.Line+i, part
		}
	}
	return line, best
}
