package offline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

var (
	cited    = regexp.MustCompile(`^(?:[-*+•] |\d{1,3}[.)] )?\s*(\S.*\S)\s*[(\[]([^()\[\]\s][^()\[\]]*?):(\d{1,7})(?:-(\d{1,7}))?[)\]][.;]?$`)
	quotedWs = regexp.MustCompile(`^(?:[-*+•] |\d{1,3}[.)] )?“(.+)”$`)
	grepped  = regexp.MustCompile(`^([^\s:"][^:"]*\.\w+):(\d{1,7}):(.*)$`)
)

// What is taken of material: lines that are quoted as a whole, in bytes, and quotes in all.
const (
	mostUnit  = 600
	mostUnits = 600
)

// units are what can be quoted of the material, in its order, no two the same. What has a place keeps it.
func (b *brief) units() []sentence { return units(b.given) }

func units(texts []string) []sentence {
	u := &unitary{}
	for _, g := range texts {
		u.text(g, 0)
	}
	if len(u.out) == 0 {
		for _, l := range u.lines {
			u.add(sentence{pieces: []line{{0, l}}})
		}
	}
	return u.out
}

type unitary struct {
	out   []sentence
	lines []string // that are no sentences
}

func (u *unitary) add(s sentence) {
	text := s.String()
	if text == "" || len(u.out) >= mostUnits || len(text) > mostUnit && len(s.pieces) == 1 || strings.HasPrefix(text, preamble) {
		return
	}
	i := slices.IndexFunc(u.out, func(o sentence) bool { return o.String() == text })
	switch {
	case i < 0:
		u.out = append(u.out, s)
	case u.out[i].path == "":
		u.out[i] = s
	}
}

const deepest = 8 // texts in JSON in texts

func (u *unitary) text(text string, depth int) {
	if t := strings.TrimSpace(text); depth < deepest && isJSON(t) {
		var v any
		if json.Unmarshal([]byte(t), &v) == nil {
			u.value(v, depth+1)
			return
		}
	}
	lines := strings.Split(text, "\n")
	if i := slices.IndexFunc(lines, func(l string) bool { return placeHead.MatchString(l) }); i >= 0 {
		for _, p := range passages(strings.Join(lines[i:], "\n")) {
			for _, s := range p.sentences() {
				s.rank = 0
				u.add(s)
			}
		}
		lines = lines[:i]
	}
	var plain []line
	flush := func() {
		p := passage{path: "material.md", lines: plain}
		for _, s := range p.sentences() {
			s.path = ""
			for i := range s.pieces {
				s.pieces[i].n = 0
			}
			u.add(s)
		}
		plain = nil
	}
	for i, l := range lines {
		t := strings.TrimSpace(l)
		m, g := cited.FindStringSubmatch(t), grepped.FindStringSubmatch(t)
		switch {
		case isJSON(t):
			flush()
			u.text(t, depth+1)
		case m != nil:
			flush()
			n, _ := strconv.Atoi(m[3])
			to, _ := strconv.Atoi(m[4])
			u.add(sentence{path: m[2], pieces: []line{{n, unquoted(m[1])}}, to: to})
		case g != nil:
			flush()
			n, _ := strconv.Atoi(g[2])
			u.add(sentence{path: g[1], pieces: []line{{n, strings.TrimSpace(g[3])}}})
		case quotedWs.MatchString(t):
			flush()
			u.add(sentence{pieces: []line{{0, quotedWs.FindStringSubmatch(t)[1]}}})
		default:
			plain = append(plain, line{i + 1, l})
			if rest, ok := bullet(t); ok {
				t = strings.TrimSpace(rest)
			}
			if strings.ContainsFunc(t, unicode.IsLetter) && !strings.HasPrefix(t, "#") && !strings.HasPrefix(t, preamble) {
				u.lines = append(u.lines, t)
			}
		}
	}
	flush()
}

// value takes the texts out of JSON. An object with a text and its place is a quote.
func (u *unitary) value(v any, depth int) {
	switch v := v.(type) {
	case string:
		u.text(v, depth)
		if !strings.Contains(v, "\n") && len(u.lines) == 0 {
			u.lines = append(u.lines, v)
		}
	case []any:
		for _, e := range v {
			u.value(e, depth)
		}
	case map[string]any:
		path, quote := first(v, "path", "file"), first(v, "quote", "text", "claim", "finding")
		if n, ok := v["line"].(float64); ok && path != "" && quote != "" && n >= 1 && n < 1e7 {
			u.add(sentence{path: path, pieces: []line{{int(n), quote}}})
			return
		}
		var names []string
		for k := range v {
			names = append(names, k)
		}
		slices.Sort(names)
		for _, k := range names {
			u.value(v[k], depth)
		}
	}
}

func first(m map[string]any, names ...string) string {
	for _, n := range names {
		if s, ok := m[n].(string); ok && strings.TrimSpace(s) != "" {
			return s
		}
	}
	return ""
}

// unquoted is a text without the marks of a quotation around it.
func unquoted(s string) string {
	for _, q := range [][2]string{{"“", "”"}, {`"`, `"`}, {"«", "»"}} {
		if inner, ok := strings.CutPrefix(s, q[0]); ok {
			if inner, ok = strings.CutSuffix(inner, q[1]); ok && inner != "" {
				return inner
			}
		}
	}
	return s
}
