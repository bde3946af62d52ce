package recipe

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// The forms of names. The schema has the same patterns.
var (
	recipeName = newForm(`^[a-z0-9]+(-[a-z0-9]+)*$`, 64,
		"a name has small letters and digits, and single hyphens between, at most 64 characters, such as research-and-brief")
	plainName = newForm(`^[A-Za-z0-9_-]{1,64}$`, 64, "it must have 1 to 64 of a-z, A-Z, 0-9, _ and -")
	placeName = newForm(`^[a-z0-9-]{1,32}$`, 32, "a label has small letters, digits and hyphens, at most 32 characters")
	variable  = newForm(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`, 64, "it must be a word of letters, digits and _ that does not start with a digit, at most 64 characters")
	thing     = newForm(`^[A-Za-z0-9_][A-Za-z0-9_.:/@ -]*$`, 128, "it must have letters, digits and any of _ . : / @ - between, at most 128 characters")
	modelName = newForm(`^(acp:[A-Za-z0-9_.-]+|[A-Za-z0-9_.-]+/[A-Za-z0-9_.:/@+-]+(#(low|medium|high|xhigh|max))?)$`, 200,
		"write provider/name, such as anthropic/claude-sonnet-4; an effort after it is #low, #medium, #high, #xhigh or #max")
	span = newForm(`^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$`, 40,
		"write a number and a unit, such as 90s, 0.5s or 1h30m")
)

func newForm(pattern string, limit int, says string) *form {
	re := regexp.MustCompile(pattern)
	return &form{pattern, func(s string) bool { return utf8.RuneCountInString(s) <= limit && re.MatchString(s) }, says}
}

// wholeIn reads a whole number within bounds.
func (p *reading) wholeIn(n *yaml.Node, what string, low, high int64) int64 {
	v, ok := p.wholeNumber(n)
	if !ok {
		p.wrongType(n, what, "a whole number")
		return 0
	}
	if i, err := strconv.ParseInt(v, 10, 64); err == nil && i >= low && i <= high {
		return i
	}
	if high == maxWhole {
		p.mark(n, codeRange, "%s is %s; it must be at least %d", what, name(n.Value), low)
	} else {
		p.mark(n, codeRange, "%s is %s; it must be from %d to %d", what, name(n.Value), low, high)
	}
	return 0
}

// maxWhole is the largest integer that every JSON implementation represents exactly.
const maxWhole = 1<<53 - 1

// wholeNumber returns the digits of a whole number, also of one written as 3.0.
func (p *reading) wholeNumber(n *yaml.Node) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		return "", false
	}
	s := scalarOf(n)
	if s.odd != "" && (s.kind == isInteger || s.kind == isNumber) {
		p.mark(n, codeNumber, "%s %s; write it another way", name(n.Value), s.odd)
		return "1", true
	}
	return whole(s)
}

func whole(s scalar) (string, bool) {
	switch s.kind {
	case isInteger:
		return string(s.json), true
	case isNumber:
		if f, err := strconv.ParseFloat(string(s.json), 64); err == nil && f == math.Trunc(f) {
			return strconv.FormatFloat(f, 'f', -1, 64), true
		}
	}
	return "", false
}

// real reads a number of at least low (above it if open), at most high.
func (p *reading) real(n *yaml.Node, what string, low float64, open bool, high float64, says string) float64 {
	if n.Kind != yaml.ScalarNode {
		p.wrongType(n, what, "a number")
		return 0
	}
	s := scalarOf(n)
	switch {
	case s.kind != isInteger && s.kind != isNumber:
		p.wrongType(n, what, "a number")
		return 0
	case s.odd != "":
		p.mark(n, codeNumber, "%s %s; write it another way", name(n.Value), s.odd)
		return 0
	}
	f, err := strconv.ParseFloat(string(s.json), 64)
	if err != nil || f < low || open && f == low || f > high {
		p.mark(n, codeRange, "%s is %s; it must be %s", what, name(n.Value), says)
		return 0
	}
	return f
}

// boolean reads true or false.
func (p *reading) boolean(n *yaml.Node, what string) bool {
	if n.Kind == yaml.ScalarNode {
		switch s := scalarOf(n); {
		case s.kind == isBoolean:
			return string(s.json) == "true"
		case s.odd != "":
			p.mark(n, codeType, "%s must be true or false, got %s; write %v", what, name(n.Value), strings.ContainsAny(n.Value, "yYnN") &&
				!strings.EqualFold(n.Value, "no"))
			return false
		}
	}
	p.wrongType(n, what, "true or false")
	return false
}

// duration reads a duration with a unit.
func (p *reading) duration(n *yaml.Node, what string) time.Duration {
	if n.Kind != yaml.ScalarNode {
		p.wrongType(n, what, "a duration such as 30s")
		return 0
	}
	v := n.Value
	if number.MatchString(v) {
		if !strings.HasPrefix(v, "-") && strings.ContainsAny(v, "123456789") {
			p.mark(n, codeNoUnit, "%s is %s; add a unit: %ss", what, name(v), name(strings.TrimPrefix(v, "+")))
			return 0
		}
		p.mark(n, codeDuration, "%s is %s; it must be more than zero, with a unit, such as 30s", what, name(v))
		return 0
	}
	switch {
	case scalarOf(n).kind != isText:
		p.wrongType(n, what, "a duration such as 30s")
		return 0
	case !span.match(v) && span.match(strings.TrimPrefix(v, "-")):
		p.mark(n, codeDuration, "%s is %s; it must be more than zero", what, quoted(v))
		return 0
	case !span.match(v):
		p.mark(n, codeDuration, "%s is %s; %s", what, quoted(v), span.says)
		return 0
	case !strings.ContainsAny(v, "123456789"):
		p.mark(n, codeDuration, "%s is %s; it must be more than zero", what, quoted(v))
		return 0
	}
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		p.mark(n, codeSpan, "%s is %s; it must be from 1ns to 290 years", what, quoted(v))
		return 0
	}
	return d
}

// json returns a value as JSON.
func (p *reading) json(n *yaml.Node) json.RawMessage { return compact(p.plain(n)) }

// plain converts a YAML value to a value that can be encoded as JSON. It reports ambiguous values.
func (p *reading) plain(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			if k := n.Content[i]; k.Kind == yaml.ScalarNode {
				m[k.Value] = p.plain(n.Content[i+1])
			}
		}
		return m
	case yaml.SequenceNode:
		l := make([]any, len(n.Content))
		for i, c := range n.Content {
			l[i] = p.plain(c)
		}
		return l
	case yaml.ScalarNode:
		s := scalarOf(n)
		if s.odd != "" {
			p.oddScalar(n, s)
		}
		if s.kind == isText {
			return n.Value
		}
		return s.json
	}
	return nil
}

// oddScalar reports a scalar that other YAML parsers interpret differently.
func (p *reading) oddScalar(n *yaml.Node, s scalar) {
	if s.kind == isText {
		p.mark(n, codeAmbiguous, "%s %s; quote it, or write true or false", name(n.Value), s.odd)
		return
	}
	p.mark(n, codeNumber, "%s %s; quote it, or write it another way", name(n.Value), s.odd)
}
