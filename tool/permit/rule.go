package permit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/toolnames"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

const (
	longestRule = 2048 // bytes
	mostStars   = 16   // in a pattern, so that matching stays cheap
)

// A Rule describes the decision on the calls that it matches. Make one with Parse.
type Rule struct {
	Decision tool.Decision
	Tool     string // a name, or a glob over names: * and ?
	// Pattern is what the call must be about, "" for any call: a command for bash, a path for the
	// tools on files, "domain:HOST" for web_fetch, a text for web_search, skill, task and run_workflow.
	Pattern string
	// Source is where the rule is written, for users: a file and a line, or a flag. It may be "".
	Source string
	// Otherwise limits a rule that denies or asks to calls that no other rule of the same group
	// matches: "deny all of bash but these", as in agent definitions of other programs.
	Otherwise bool

	Layer   Layer  // set by New and With
	Ignored string // set by New and With: why the rule has no effect, "" if it has
}

// String returns the rule as it is written, without its decision.
func (r Rule) String() string {
	if r.Pattern == "" {
		return r.Tool
	}
	return r.Tool + "(" + r.Pattern + ")"
}

// where names the rule and its source.
func (r Rule) where() string {
	s := fmt.Sprintf("by the rule %s (%s", r, r.Layer.origin())
	if r.Layer == BuiltIn {
		s = "by default (" + r.String()
	}
	if r.Source != "" {
		s += ", " + r.Source
	}
	return s + ")"
}

// A syntaxError is a mistake in the text of a rule.
type syntaxError struct {
	Text    string // the rule
	Col     int    // of the mistake, in characters from 1
	Problem string // what is wrong and how to mend it
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("permission rule %q: column %d: %s", clean.Clip(e.Text, 200), e.Col, e.Problem)
}

// Outside reports whether a rule lets commands leave the sandbox, or reach any host.
func (r Rule) Outside() bool {
	return r.Tool == outsideTool || r.Pattern == "*" && r.Tool == netTool || strings.ContainsAny(r.Tool, "*?") && (glob(r.Tool, outsideTool) || glob(r.Tool, netTool))
}

// Covers reports whether a rule allows all that another one does, by their words. Nothing covers a rule that is Outside.
func (r Rule) Covers(o Rule) bool {
	return !o.Outside() && (r.Tool == o.Tool || glob(r.Tool, o.Tool) && r.Pattern == "") && (r.Pattern == "" && r.Tool != netTool || r.Pattern == o.Pattern ||
		kindOf(r.Tool) == kindShell && strings.HasSuffix(r.Pattern, " *") && strings.HasPrefix(o.Pattern, strings.TrimSuffix(r.Pattern, "*")))
}

// ParseDecision reads a decision, "" is none.
func ParseDecision(s string) (tool.Decision, error) {
	all := []string{string(tool.Allow), string(tool.Ask), string(tool.Deny)}
	if slices.Contains(all, s) {
		return tool.Decision(s), nil
	}
	return "", fmt.Errorf("permission %q: want allow, ask or deny%s", clean.Clip(s, 200), suggest.Hint(s, all))
}

// Parse reads a rule. Source says where it is written, for messages about it. An error names the column of the mistake.
func Parse(d tool.Decision, text, source string) (Rule, error) {
	if _, err := ParseDecision(string(d)); err != nil {
		return Rule{}, err
	}
	fail := func(at int, format string, args ...any) (Rule, error) {
		return Rule{}, &syntaxError{Text: text, Col: utf8.RuneCountInString(text[:min(at, len(text))]) + 1, Problem: fmt.Sprintf(format, args...)}
	}
	if len(text) > longestRule {
		return fail(longestRule, "is over %d bytes", longestRule)
	}
	if !utf8.ValidString(text) {
		return fail(0, "must be UTF-8")
	}
	if i := strings.IndexFunc(text, unicode.IsControl); i >= 0 {
		return fail(i, "has a control character, such as a tab or a newline; write one rule a line")
	}
	lead := len(text) - len(strings.TrimLeft(text, " "))
	body := strings.TrimSpace(text)
	if body == "" {
		return fail(0, "is empty; write TOOL or TOOL(pattern), such as bash(git log *)")
	}
	name, rest, hasPattern := strings.Cut(body, "(")
	if i := strings.IndexFunc(name, func(c rune) bool { return !nameRune(c) }); i >= 0 || name == "" {
		at := lead + max(i, 0)
		c, _ := utf8.DecodeRuneInString(body[max(i, 0):])
		return fail(at, "%q cannot be in the name of a tool; write TOOL or TOOL(pattern), such as bash(git log *)", c)
	}
	if strings.ContainsFunc(name, unicode.IsUpper) {
		if here := toolnames.Here(name, toolnames.Builtin()); here != "" {
			return fail(lead, "no tool %s; here it is called %s", name, here)
		}
	}
	r := Rule{Decision: d, Tool: name, Source: source}
	if !hasPattern {
		if _, _, err := r.matcher(&Options{Home: "/~"}); err != nil {
			return fail(lead, "%v", err)
		}
		return r, nil
	}
	if !strings.HasSuffix(rest, ")") {
		return fail(lead+len(body), "the pattern is not closed; end it with )")
	}
	r.Pattern = strings.TrimSuffix(rest, ")")
	if strings.TrimSpace(r.Pattern) == "" {
		return fail(lead+len(name)+1, "the pattern is empty; write %s alone for every call", name)
	}
	if _, at, err := r.matcher(&Options{Home: "/~"}); err != nil {
		return fail(lead+len(name)+1+at, "%v", err)
	}
	return r, nil
}

func nameRune(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_-*?", c)
}

// compile prepares a rule for matching. The names of the tools must be known.
func (r Rule) compile(o *Options) (matcher, error) {
	if _, err := ParseDecision(string(r.Decision)); err != nil {
		return nil, fmt.Errorf("%s: %w", r, err)
	}
	if _, err := Parse(r.Decision, r.String(), r.Source); err != nil {
		return nil, err
	}
	if o.Tools != nil && !strings.ContainsAny(r.Tool, "*?") && !slices.Contains(o.Tools, r.Tool) && !strings.HasPrefix(r.Tool, "mcp__") &&
		!slices.Contains(builtIns(), r.Tool) {
		return nil, &syntaxError{Text: r.String(), Col: 1, Problem: fmt.Sprintf("no tool %q%s", r.Tool, toolnames.Hint(r.Tool, slices.Concat(o.Tools, builtIns())))}
	}
	m, at, err := r.matcher(o)
	if err != nil {
		return nil, &syntaxError{Text: r.String(), Col: len(r.Tool) + 2 + at, Problem: err.Error()}
	}
	return m, nil
}

// matcher compiles the pattern for the kind of tool. The number is the offset of a mistake in it.
func (r Rule) matcher(o *Options) (matcher, int, error) {
	if k := kindOf(r.Tool); r.Pattern == "" && r.Decision == tool.Allow && k == kindHost {
		return nil, 0, errors.New("allow the hosts that are meant, such as net(registry.npmjs.org), or net(*) for any")
	} else if r.Pattern == "" && r.Decision == tool.Allow && k == kindExact {
		return nil, 0, errors.New("name the whole command that may leave the sandbox, as unsandboxed(make deploy)")
	}
	if r.Pattern == "" {
		return nil, 0, nil
	}
	if i := strings.IndexAny(r.Tool, "*?"); i >= 0 {
		return nil, 0, fmt.Errorf("a pattern needs the full name of a tool, and %s has a wildcard", r.Tool)
	}
	if strings.Count(r.Pattern, "*") > mostStars && kindOf(r.Tool) != kindExact {
		return nil, 0, fmt.Errorf("has over %d wildcards", mostStars)
	}
	switch kindOf(r.Tool) {
	case kindShell:
		return compileCommand(r.Pattern), 0, nil
	case kindPath:
		m, err := compilePath(r.Pattern, o.Home)
		return m, 0, err
	case kindURL:
		m, at, err := compileDomain(r.Pattern)
		return m, at, err
	case kindText:
		return textPattern(r.Pattern), 0, nil
	case kindHost:
		return exactText(r.Pattern), 0, sandbox.CheckHost(r.Pattern)
	case kindExact:
		return exactText(r.Pattern), 0, nil
	case kindDocs:
		if r.Pattern != "large" {
			return nil, 0, fmt.Errorf("search_docs takes no pattern but large, which is for folders of any size")
		}
		return textPattern(r.Pattern), 0, nil
	}
	return nil, 0, fmt.Errorf("%s takes no pattern; write %s alone. Patterns are for bash, the tools on files, net, web_fetch, web_search, "+
		"skill, task and run_workflow", r.Tool, r.Tool)
}

// specific orders rules by how specific they are: by the literal part of their pattern, then of
// their name.
func (r Rule) specific() int {
	literal := 0
	for _, c := range r.Pattern {
		if c != '*' && c != '?' {
			literal++
		}
	}
	n := 0
	if r.Pattern != "" {
		n = 1 + literal
	}
	return n*100 + len(r.Tool) - strings.Count(r.Tool, "*") - strings.Count(r.Tool, "?")
}

// glob matches a whole text, where * is any run of characters and ? is one. It takes time in
// proportion to the product of the lengths at worst.
func glob(pattern, s string) bool {
	p, i, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == s[i] || pattern[p] == '?' && s[i] < utf8.RuneSelf) && s[i] > spread:
			p++
			i++
		case p < len(pattern) && pattern[p] == '?' && s[i] >= utf8.RuneSelf:
			_, n := utf8.DecodeRuneInString(s[i:])
			p++
			i += n
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
