package recipe

import (
	"fmt"
	"slices"
	"strings"
)

// A Problem is a mistake in a recipe, or a warning.
type Problem struct {
	File    string
	Pos     Pos    // zero if it is about the file as a whole
	End     int    // the column after the last one that is meant, 0 if that is not known
	Code    string // stable, such as "unknown-step"
	Text    string // what is wrong, why, and what to do, on one line and clean
	Warning bool   // the recipe can be used all the same
}

// Problems lists the mistakes and warnings of a recipe, in the order of the file. As an error it
// shows the first 20.
type Problems []*Problem

const (
	shown       = 20   // problems that are shown as an error
	maxProblems = 1000 // problems that are kept
)

// Error is "file:line:col: text", on one line and clean.
func (p *Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(oneLine(p.File, 1000))
		b.WriteByte(':')
	}
	if p.Pos.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", p.Pos.Line, p.Pos.Col)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if p.Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Text)
	return b.String()
}

// Structural reports whether a problem is structural. The JSON Schema of recipes also refuses a
// document with such a problem. Other problems are about the text as YAML, or about the meaning of
// names and expressions, which a schema cannot check.
func (p *Problem) Structural() bool { return !p.Warning && structural[p.Code] }

// structural has the codes of problems of form.
var structural = map[string]bool{
	codeField: true, codeMissing: true, codeType: true, codeKind: true, codeForm: true, codeDuration: true,
	codeRange: true, codeChoice: true, codeNoSteps: true, codeVersion: true, codeConflict: true,
	codeDefault: true, codeRepeated: true, codeNoUnit: true,
}

// The codes of problems of form.
const (
	codeField    = "unknown-field"
	codeMissing  = "missing-field"
	codeType     = "wrong-type"
	codeKind     = "step-kind"
	codeForm     = "malformed"
	codeDuration = "duration"
	codeNoUnit   = "duration-unit"
	codeRange    = "out-of-range"
	codeChoice   = "not-a-choice"
	codeNoSteps  = "no-steps"
	codeVersion  = "newer-version"
	codeConflict = "conflict"
	codeDefault  = "default-type"
	codeRepeated = "repeated"
)

// The codes of problems with the text as YAML.
const (
	codeEmpty     = "empty"
	codeLarge     = "too-large"
	codeEncoding  = "encoding"
	codeControl   = "control-character"
	codeTab       = "tab"
	codeSyntax    = "yaml"
	codeDocuments = "documents"
	codeAlias     = "alias"
	codeTag       = "tag"
	codeDepth     = "too-deep"
	codeValues    = "too-many-values"
	codeDuplicate = "duplicate-key"
	codeKey       = "key-not-text"
	codeBraces    = "unquoted-template"
	codeAmbiguous = "quote-it"
	codeNumber    = "number"
	codeMore      = "more-problems"
)

// The codes of problems of meaning.
const (
	codeTooManySteps   = "too-many-steps"
	codeDuplicateID    = "duplicate-step"
	codeDuplicateInput = "duplicate-input"
	codeUnknownStep    = "unknown-step"
	codeOtherBlock     = "other-block"
	codeCycle          = "cycle"
	codeUnclosed       = "unclosed-template"
	codeTemplate       = "template"
	codeUnknownRef     = "unknown-reference"
	codeUnknownInput   = "unknown-input"
	codeNotAncestor    = "not-an-ancestor"
	codeCondition      = "condition"
	codeEnum           = "not-in-enum"
	codeAnswer         = "ask-default"
	codeForeachIn      = "not-a-list"
	codeReserved       = "reserved-name"
	codeShadow         = "shadowed-name"
	codeSchema         = "output-schema"
	codeSpan           = "duration-range"
	codeHidden         = "hidden-character"
	codeUnused         = "unused"
	codeKeyword        = "schema-keyword"
	codeFlag           = "flag-name"

	codeUnknownAgent    = "unknown-subagent"
	codeUnknownTool     = "unknown-tool"
	codeUnknownWorkflow = "unknown-workflow"
	codeMissingInput    = "missing-input"
	codeInputType       = "input-type"
	codeCircle          = "workflow-cycle"
	codeInnerBudget     = "inner-budget"
	codeToolOff         = "tool-off"
	codeUnknownArg      = "unknown-argument"
	codeMissingArg      = "missing-argument"
	codeArgType         = "argument-type"
)

// Err returns the problems as an error, or nil if they are all warnings.
func (ps Problems) Err() error {
	for _, p := range ps {
		if !p.Warning {
			return ps
		}
	}
	return nil
}

// Error lists the first 20 problems, one per line, and the number of further problems.
func (ps Problems) Error() string {
	var b strings.Builder
	for i, p := range ps {
		if i == shown {
			fmt.Fprintf(&b, "\nand %d more", len(ps)-shown)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.Error())
	}
	return b.String()
}

// Unwrap returns the problems one by one, for errors.As.
func (ps Problems) Unwrap() []error {
	errs := make([]error, len(ps))
	for i, p := range ps {
		errs[i] = p
	}
	return errs
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b *Problem) int {
		if a.Code == codeMore || b.Code == codeMore {
			return btoi(a.Code == codeMore) - btoi(b.Code == codeMore)
		}
		if a.Pos.Line != b.Pos.Line {
			return a.Pos.Line - b.Pos.Line
		}
		return a.Pos.Col - b.Pos.Col
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

const window = 100 // columns of an excerpt

// Excerpt returns the source line of the problem, cleaned, and below it a caret at the column, or
// carets under the whole range. Long lines are cut around the problem. If the file has no such
// line, it returns "".
func (p *Problem) Excerpt(source []byte) string {
	line, ok := newSource(source).line(p.Pos.Line)
	if !ok || p.Pos.Col < 1 {
		return ""
	}
	runes := []rune(line)
	at := min(p.Pos.Col-1, len(runes))
	end := min(max(p.End-1, at+1), len(runes))
	from := 0
	if len(runes) > window {
		from = max(0, min(at-window/3, len(runes)-window))
	}
	to := min(len(runes), from+window)
	end = min(end, to)
	head, mark, tail := shownRunes(runes[from:at]), shownRunes(runes[at:max(at, end)]), shownRunes(runes[max(at, end):to])
	if from > 0 {
		head = "…" + head
	}
	if to < len(runes) {
		tail += "…"
	}
	return head + mark + tail + "\n" + strings.Repeat(" ", width(head)) + strings.Repeat("^", max(1, width(mark)))
}
