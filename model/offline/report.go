package offline

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// source is a numbered source as a prompt lists them:
//
//	[3] src/runtime/mgc.go:41 (direction: pacing; confidence: 0.71) "the words it says"
type source struct {
	n          int
	direction  string
	file       string
	confidence float64
	quote      string // what stands on its line
	claim      string // the whole sentence, if it is longer than that
}

var sourceLine = regexp.MustCompile(`^\[(\d+)\] (.+) \(direction: (.*); confidence: ([0-9.]+)\) (".*")$`)

func (c *conversation) sources() []source {
	var out []source
	for l := range strings.Lines(c.prompt) {
		l = strings.TrimSpace(l)
		if claim, ok := strings.CutPrefix(l, "taken for: "); ok && len(out) > 0 && strings.Contains(claim, out[len(out)-1].quote) {
			out[len(out)-1].claim = claim
		}
		m := sourceLine.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		n, _ := strconv.Atoi(m[1])
		conf, _ := strconv.ParseFloat(m[4], 64)
		file := m[2]
		if i := strings.LastIndexByte(file, ':'); i > 0 && !strings.Contains(file, "://") {
			file = file[:i]
		}
		quote, err := strconv.Unquote(m[5])
		if err != nil {
			continue
		}
		out = append(out, source{n: n, direction: m[3], file: file, confidence: conf, quote: quote})
	}
	return out
}

func (s *source) says() string { return cmp.Or(s.claim, s.quote) }

// A point is something that one or several sources say in the same words.
type point struct {
	text    string
	sources []source
	answer  float64 // how well it answers the question
}

// points gathers the sources that say the same, or a part of what another says.
func points(all []source) []point {
	var out []point
	for _, s := range all {
		text := s.says()
		i := slices.IndexFunc(out, func(p point) bool { return strings.Contains(p.text, text) || strings.Contains(text, p.text) })
		if i < 0 {
			out, i = append(out, point{}), len(out)
		}
		if len(text) > len(out[i].text) {
			out[i].text = text
		}
		out[i].sources = append(out[i].sources, s)
	}
	return out
}

// answering sorts points by how well they answer the question.
func answering(question string, all []point) []point {
	sentences := make([]sentence, len(all))
	for i, p := range all {
		sentences[i] = sentence{path: p.sources[0].file, rank: i, pieces: []line{{i + 1, p.text}}}
	}
	var out []point
	for _, s := range newView(question, "").rank(sentences) {
		p := all[s.pieces[0].n-1]
		p.answer = s.score
		out = append(out, p)
	}
	return out
}

// report arranges the numbered sources: first what answers the question best, then the
// rest under their directions.
func (c *conversation) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", c.question)
	b.WriteString("*Put together by the offline model from sentences it found. It quotes; it does not write prose, reason or judge. Every quote is followed by the number of its source.*\n")
	all := c.sources()
	if len(all) == 0 {
		b.WriteString("\nNothing was found that speaks of this in the words of the question.\n")
		return b.String()
	}
	said := points(all)
	short := shortly(answering(c.question, said))
	if len(short) > 0 {
		b.WriteString("\n## In short\n\n")
		for _, p := range short {
			p.write(&b)
		}
	}
	var directions []string
	for _, s := range all {
		if !slices.Contains(directions, s.direction) {
			directions = append(directions, s.direction)
		}
	}
	for _, d := range directions {
		title := capital(d)
		if d == inWords(c.question) {
			title = "In detail"
		}
		if text := section(d, said, short); text != "" {
			fmt.Fprintf(&b, "\n## %s\n\n%s", title, text)
		}
	}
	return b.String()
}

// shortly picks what goes in front: the best point, and those near to it that say
// something else.
func shortly(sorted []point) []point {
	var out []point
	for _, p := range sorted {
		if len(out) == 3 || p.answer < 0.55*sorted[0].answer {
			break
		}
		said := stems(p.text)
		if !slices.ContainsFunc(out, func(o point) bool { return alike(said, stems(o.text)) > 0.7 }) {
			out = append(out, p)
		}
	}
	return out
}

func set(list []string) map[string]bool {
	m := map[string]bool{}
	for _, s := range list {
		m[s] = true
	}
	return m
}

// section is what the sources of a direction say beyond what stands in front, and how
// many they are; "" if they say nothing more.
func section(direction string, said, short []point) string {
	var b strings.Builder
	var files []string
	var above []string
	n := 0
	for _, p := range said {
		if p.sources[0].direction != direction {
			continue
		}
		for _, s := range p.sources {
			if !slices.Contains(files, s.file) {
				files = append(files, s.file)
			}
		}
		if slices.ContainsFunc(short, func(o point) bool { return o.text == p.text }) {
			above = append(above, p.marks())
			continue
		}
		p.write(&b)
		n++
	}
	if n == 0 {
		return ""
	}
	b.WriteByte('\n')
	if len(above) > 0 {
		fmt.Fprintf(&b, "See also %s above. ", strings.Join(above, " "))
	}
	if len(files) == 1 {
		fmt.Fprintf(&b, "Only one source speaks of this: %s.\n", files[0])
	} else {
		fmt.Fprintf(&b, "%d sources speak of this: %s.\n", len(files), strings.Join(files, ", "))
	}
	return b.String()
}

func (p *point) write(b *strings.Builder) { fmt.Fprintf(b, "- “%s” %s\n", p.text, p.marks()) }

// marks are the numbers of the sources of a point.
func (p *point) marks() string {
	var out []string
	for _, s := range p.sources {
		out = append(out, fmt.Sprintf("[%d]", s.n))
	}
	return strings.Join(out, " ")
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
