package research

import (
	"io"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/superstep-dev/superstep/internal/docindex"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool/builtin"
)

// most is the number of bytes of a file that are searched for a quote.
const most = 16 << 20

// leastQuote is the number of letters and digits that a quote must have.
const leastQuote = 8

// verify keeps the findings whose quotes are in their sources, and counts the others. It corrects
// the line if the model was wrong, and normalizes the path. Web pages are checked against the
// search results in the conversation.
func verify(root *builtin.Root, seen []model.Message, found []finding) (good []finding, dropped int) {
	files := map[string]file{}
	for _, f := range found {
		f.Text, f.Path = strings.TrimSpace(f.Text), strings.TrimSpace(f.Path)
		ok := false
		switch {
		case substance(f.Text) < leastQuote:
		case strings.Contains(f.Path, "://"):
			f.Start, f.Text = 0, oneLine(f.Text)
			ok = onPage(seen, f.Path, f.Text)
		case root != nil:
			read, known := files[f.Path]
			if !known {
				read = open(root, f.Path)
				files[f.Path] = read
			}
			f.Path = read.path
			ok = f.locate(read.lines)
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

// open reads a file by the name that a model gave, which may end in a line number. A source that
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
	if err != nil || docindex.IsBrief(b) { // a brief must not be a source of the next
		return file{path: name}
	}
	out := file{path: relative(root.Dir(), f.Name(), name)}
	for _, l := range docindex.Text(out.path, b) {
		out.lines = append(out.lines, string(l))
	}
	return out
}

// relative returns the path of an opened file below the folder, or the requested name if that path
// is unknown.
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

// mostQuoted is how many lines a quote may have.
const mostQuoted = 20

// A word is a word of a line, by its bytes.
type word struct{ line, from, to int }

// locate finds the quote in the lines of its file, as near as possible to the line it names. It
// compares words, so that spaces, line breaks and comment marks make no difference. It sets Start
// and End, and replaces the quote by the text of the file.
func (f *finding) locate(lines []string) bool {
	quote := strings.Split(f.Text, "\n")
	var want []string
	for n := range quote {
		for _, w := range wordsOf(quote, n) {
			want = append(want, quote[n][w.from:w.to])
		}
	}
	var ws []word
	for n := range lines {
		ws = append(ws, wordsOf(lines, n)...)
	}
	best := -1
	off := func(i int) int { return max(ws[i].line+1-f.Start, f.Start-ws[i].line-1) }
	for i := 0; i+len(want) <= len(ws) && len(want) > 0; i++ {
		if (best < 0 || off(i) < off(best)) && saysFrom(lines, ws[i:], want) {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	ws = ws[best : best+len(want)]
	first, last := ws[0].line, ws[len(ws)-1].line
	if last-first >= mostQuoted {
		return false
	}
	parts := make([]string, last-first+1)
	for i, from := 0, 0; i < len(ws); i++ {
		if i > 0 && ws[i].line != ws[i-1].line {
			from = i
		}
		parts[ws[i].line-first] = lines[ws[i].line][ws[from].from:ws[i].to]
	}
	f.Start, f.End, f.Text = first+1, last+1, strings.Join(parts, "\n")
	return true
}

// wordsOf returns the words of a line, without a comment mark or bullet in front.
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

// saysFrom reports whether ws begins with the wanted words. The first and the last wanted word may
// be parts of words; the quote then gets the whole words.
func saysFrom(lines []string, ws []word, want []string) bool {
	for i, w := range want {
		got := lines[ws[i].line][ws[i].from:ws[i].to]
		switch {
		case got == w, len(want) == 1 && strings.Contains(got, w):
		case i == 0 && strings.HasSuffix(got, w), i > 0 && i == len(want)-1 && strings.HasPrefix(got, w):
		default:
			return false
		}
	}
	return true
}

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
