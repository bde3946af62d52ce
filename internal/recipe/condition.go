package recipe

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"go.yaml.in/yaml/v4"
)

// The limits of a condition.
const (
	maxCondition = 4096 // bytes: its parser calls itself for each bracket
	maxNodes     = 1000
	maxPattern   = 1000 // instructions of a regular expression

	maxConditions = 256 << 10 // bytes of all in a recipe
)

// A Condition is an expression: a boolean condition, or the value expression of a step.
type Condition struct {
	text     string
	node     ast.Node
	refs     []placedRef
	patterns map[*ast.BinaryNode]*pattern // of `matches`
}

// A pattern is a regular expression and its cost.
type pattern struct {
	re   *regexp.Regexp
	size int
}

// String returns the source text of the condition.
func (c *Condition) String() string { return c.text }

// Refs returns the references in the condition, in their order and with duplicates.
func (c *Condition) Refs() []Ref {
	refs := make([]Ref, len(c.refs))
	for i, r := range c.refs {
		refs[i] = r.Ref
	}
	return refs
}

// functions returns the functions of conditions. They are deterministic.
func functions() []string {
	return []string{
		"all", "any", "concat", "count", "filter", "find", "first", "flatten", "float", "hasPrefix", "hasSuffix", "int", "join", "keys", "last", "len",
		"lower", "map", "max", "min", "none", "one", "split", "string", "sum", "trim", "upper", "values",
	}
}

// reserved reports whether a name already has another meaning.
func reserved(s string) bool {
	switch s {
	case "inputs", "steps", "loop", "index", "true", "false", "nil", "let", "if", "else", "in", "not", "and", "or",
		"matches", "contains", "startsWith", "endsWith":
		return true
	}
	return slices.Contains(functions(), s)
}

// condition reads a condition.
func (p *reading) condition(n *yaml.Node, what string, at *[]site) *Condition {
	if n.Kind == yaml.ScalarNode && scalarOf(n).kind == isBoolean {
		p.mark(n, codeType, "%s must be a condition as a text, and %s is a boolean; quote it: %s", what, name(n.Value), quoted(n.Value))
		return nil
	}
	return p.expr(n, what, at, true)
}

// expression parses an expression of any type.
func (p *reading) expression(n *yaml.Node, what string, at *[]site) *Condition {
	if c := p.expr(n, what, at, false); c != nil {
		return c
	}
	return &Condition{}
}

func (p *reading) expr(n *yaml.Node, what string, at *[]site, truth bool) *Condition {
	text, ok := p.text(n, what)
	if !ok {
		return nil
	}
	if p.conditions += min(len(text), maxCondition); p.conditions > maxConditions {
		if p.conditions-min(len(text), maxCondition) <= maxConditions {
			p.mark(n, codeCondition, "with this one the conditions are over %d KiB together; have steps work things out", maxConditions>>10)
		}
		return nil
	}
	c, faults := parseExpr(text, truth)
	for _, f := range faults {
		if f.text == unfinished && p.commented(n) {
			f.text = "YAML takes what follows a # with a space before it for a comment; put the condition in quotes, or write .a for #.a"
		}
		p.within(n, f.from, f.to, f.code, "%s: %s", what, f.text)
	}
	if len(c.refs) > 0 {
		*at = append(*at, site{node: n, refs: c.refs, condition: true})
	}
	return c
}

// unfinished is the fault of a condition that ends too early.
const unfinished = "something is missing after this"

// commented reports whether a comment follows a text without quotes.
func (p *reading) commented(n *yaml.Node) bool {
	if n.Style != 0 || n.Value == "" {
		return false
	}
	_, size := utf8.DecodeLastRuneInString(n.Value)
	if _, exact := p.src.at(n, len(n.Value)-size); !exact {
		return false
	}
	_, last, _, ok := p.src.char(n)
	if !ok {
		return false
	}
	rest := p.src.text[last.off:]
	end := bytes.IndexFunc(rest, func(r rune) bool { return r != ' ' && r != '\t' })
	return end > 0 && rest[end] == '#'
}

// parseExpr parses an expression. A condition must yield true or false. The targets of its references are checked
// later.
func parseExpr(text string, truth bool) (*Condition, []fault) {
	c := &Condition{text: text, patterns: map[*ast.BinaryNode]*pattern{}}
	whole := fault{0, len(text), codeCondition, ""}
	switch {
	case len(text) > maxCondition:
		whole.to = 1
		whole.text = fmt.Sprintf("over %d characters; have a step work it out", maxCondition)
		return c, []fault{whole}
	case strings.TrimSpace(text) == "":
		whole.text = `it is empty; write a condition such as inputs.depth == "deep"`
		if !truth {
			whole.text = "it is empty; write an expression such as filter(steps.rate.output, .score > 3)"
		}
		return c, []fault{whole}
	case strings.Contains(text, "{{"):
		whole.from = strings.Index(text, "{{")
		whole.to = whole.from + 2
		whole.text = "no braces in an expression: write inputs.topic, not {{inputs.topic}}"
		return c, []fault{whole}
	}
	config := conf.CreateNew()
	config.MaxNodes = maxNodes
	for name := range config.Builtins {
		if !slices.Contains(functions(), name) {
			config.Disabled[name] = true
			delete(config.Builtins, name)
		}
	}
	offsets := runeOffsets(text)
	tree, err := parser.ParseWithConfig(text, config)
	if err != nil {
		return c, []fault{exprFault(text, offsets, err)}
	}
	r := &refReader{condition: c, offsets: offsets, lets: map[string]int{}}
	r.node(tree.Node)
	if len(r.faults) > 0 {
		return c, r.faults
	}
	if _, err := checker.Check(tree, config); err != nil {
		return c, []fault{exprFault(text, offsets, err)}
	}
	if k := tree.Node.Type().Kind(); truth && k != reflect.Bool && k != reflect.Interface {
		whole.text = fmt.Sprintf("it gives %s, and must give true or false", exprType(k))
		return c, []fault{whole}
	}
	c.node = tree.Node
	return c, nil
}

func exprType(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a text"
	case reflect.Int, reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	case reflect.Map:
		return "a map"
	}
	return "something else"
}

// runeOffsets maps characters to bytes.
func runeOffsets(text string) []int {
	offsets := make([]int, 0, len(text)+1)
	for i := range text {
		offsets = append(offsets, i)
	}
	return append(offsets, len(text))
}

// exprFault converts an error of the expression parser to a fault.
func exprFault(text string, offsets []int, err error) fault {
	f := fault{0, len(text), codeCondition, oneLine(err.Error(), 300)}
	var at *file.Error
	if !errors.As(err, &at) {
		return f
	}
	last := len(offsets) - 1
	f.from = offsets[min(max(at.From, 0), last)]
	f.to = offsets[min(max(at.To, at.From+1), last)]
	f.text = oneLine(at.Message, 300)
	for _, m := range hyphened.FindAllStringIndex(text, -1) {
		if m[0] <= f.from && f.from <= m[1] {
			return fault{m[0], m[1], codeCondition, hyphen(text[m[0]:])}
		}
	}
	for f.from > 0 && (f.from >= len(text) || white(rune(text[f.from]))) { // the end of the text: what is before it
		_, size := utf8.DecodeLastRuneInString(text[:f.from])
		f.from -= size
		f.to = max(f.from+1, min(f.to, len(text)))
	}
	switch m := f.text; {
	case strings.Contains(m, "maximum allowed nodes"):
		f.text = fmt.Sprintf("it has over %d parts; have a step work it out", maxNodes)
	case strings.Contains(m, "token EOF"):
		f.text = unfinished
	case strings.HasPrefix(m, "unexpected token Operator(\"=\")"):
		f.text = "one = sets nothing here; compare with =="
	}
	return f
}

// hyphened finds names with hyphens after a dot, where an expression reads the hyphen as minus.
var hyphened = regexp.MustCompile(`\b(steps|inputs)\s*\.\s*([A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)+)`)

// hyphen returns the correct spelling of the first name with a hyphen in a text, or "" if no name
// has a hyphen.
func hyphen(text string) string {
	m := hyphened.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return fmt.Sprintf("a hyphen means minus here; write %s[%q]", m[1], m[2])
}

// A refReader finds the references of an expression, and the language features that recipes do not
// support.
type refReader struct {
	condition *Condition
	offsets   []int
	lets      map[string]int
	faults    []fault
}

func (r *refReader) fault(from, to int, format string, args ...any) {
	r.faults = addFault(r.faults, fault{r.offsets[from], r.offsets[min(max(to, from), len(r.offsets)-1)], codeCondition, fmt.Sprintf(format, args...)})
}

func (r *refReader) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		r.chain(n)
	case *ast.MemberNode:
		r.chain(n)
	case *ast.ChainNode:
		r.node(n.Node)
	case *ast.UnaryNode:
		r.node(n.Node)
	case *ast.BinaryNode:
		r.binary(n)
	case *ast.SliceNode:
		r.nodes(n.Node, n.From, n.To)
	case *ast.CallNode:
		r.call(n)
	case *ast.BuiltinNode:
		if !slices.Contains(functions(), n.Name) {
			r.noFunction(n.Location(), n.Name)
		}
		r.nodes(n.Arguments...)
	case *ast.PredicateNode:
		r.node(n.Node)
	case *ast.PointerNode:
		if n.Name != "" {
			r.fault(n.Location().From, n.Location().To, "there is # for the item, and no #%s", name(n.Name))
		}
	case *ast.ConditionalNode:
		r.nodes(n.Cond, n.Exp1, n.Exp2)
	case *ast.VariableDeclaratorNode:
		r.node(n.Value)
		r.lets[n.Name]++
		r.node(n.Expr)
		r.lets[n.Name]--
	case *ast.SequenceNode:
		r.nodes(n.Nodes...)
	case *ast.ArrayNode:
		r.nodes(n.Nodes...)
	case *ast.MapNode:
		r.nodes(n.Pairs...)
	case *ast.PairNode:
		r.nodes(n.Key, n.Value)
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode:
	default:
		r.fault(n.Location().From, n.Location().To, "this is not part of the language of conditions")
	}
}

func (r *refReader) nodes(all ...ast.Node) {
	for _, n := range all {
		if n != nil {
			r.node(n)
		}
	}
}

func (r *refReader) call(n *ast.CallNode) {
	if callee, ok := n.Callee.(*ast.IdentifierNode); ok {
		r.noFunction(callee.Location(), callee.Value)
	} else {
		r.fault(n.Location().From, n.Location().To, "values have no methods; there are the functions %s", strings.Join(functions(), ", "))
	}
	r.nodes(n.Arguments...)
}

func (r *refReader) noFunction(at file.Location, fn string) {
	r.fault(at.From, at.To, "no function `%s`; there are %s", name(fn), strings.Join(functions(), ", "))
}

func (r *refReader) binary(n *ast.BinaryNode) {
	if n.Operator == "-" {
		if root, from := leftmost(n); root != nil && r.lets[root.Value] == 0 && (root.Value == "steps" || root.Value == "inputs") {
			text := r.condition.text[r.offsets[from]:]
			if m := hyphened.FindStringSubmatchIndex(text); len(m) > 1 && m[0] == 0 && (root.Value == "steps" || r.bare(n)) {
				r.faults = addFault(r.faults, fault{r.offsets[from], r.offsets[from] + m[1], codeCondition, hyphen(text)})
				return
			}
		}
	}
	r.nodes(n.Left, n.Right)
	if n.Operator != "matches" {
		return
	}
	at := n.Right.Location()
	s, ok := n.Right.(*ast.StringNode)
	if !ok {
		r.fault(at.From, at.To, "the pattern of matches must be written out as a text")
		return
	}
	pat, err := compilePattern(s.Value)
	if err != nil {
		r.fault(at.From, at.To, "%v", err)
		return
	}
	r.condition.patterns[n] = pat
}

// bare reports whether the right side of a subtraction from an input is an unknown name.
func (r *refReader) bare(n *ast.BinaryNode) bool {
	root, _ := leftmost(n.Right)
	return root != nil && r.lets[root.Value] == 0 && root.Value != "inputs" && root.Value != "steps" && root.Value != "loop" && root.Value != "index"
}

// leftmost returns the variable that an expression starts with.
func leftmost(n ast.Node) (*ast.IdentifierNode, int) {
	for {
		switch x := n.(type) {
		case *ast.BinaryNode:
			n = x.Left
		case *ast.MemberNode:
			n = x.Node
		case *ast.ChainNode:
			n = x.Node
		case *ast.IdentifierNode:
			return x, x.Location().From
		default:
			return nil, 0
		}
	}
}

// compilePattern reads a regular expression and bounds it.
func compilePattern(text string) (*pattern, error) {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("this is no regular expression (RE2): %s", oneLine(strings.TrimPrefix(err.Error(), "error parsing regexp: "), 200))
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(prog.Inst) > maxPattern {
		return nil, fmt.Errorf("the pattern is too large: %d instructions, at most %d", len(prog.Inst), maxPattern)
	}
	return &pattern{re, len(prog.Inst)}, nil
}

// chain reads a variable and the constant path below it as a reference.
func (r *refReader) chain(n ast.Node) {
	var parts []string
	to := n.Location().To
	for {
		switch x := n.(type) {
		case *ast.MemberNode:
			part, constant := constant(x.Property)
			if !constant {
				r.node(x.Property)
				parts, part, to = nil, "", 0
			}
			parts = append(parts, part)
			to = max(to, x.Property.Location().To)
			n = x.Node
			continue
		case *ast.ChainNode:
			n = x.Node
			continue
		case *ast.IdentifierNode:
			if r.lets[x.Value] == 0 {
				r.ref(x, parts, to)
			}
			return
		}
		r.node(n)
		return
	}
}

// constant returns a constant part of a path.
func constant(n ast.Node) (string, bool) {
	switch x := n.(type) {
	case *ast.StringNode:
		return x.Value, true
	case *ast.IntegerNode:
		return strconv.Itoa(x.Value), true
	}
	return "", false
}

// ref records a reference. The parts are in reverse order. An empty part is known only at run time.
func (r *refReader) ref(root *ast.IdentifierNode, parts []string, to int) {
	slices.Reverse(parts)
	from := root.Location().From
	to = max(to, root.Location().To)
	path := []string{root.Value}
	for i, part := range parts {
		if part == "" || !refForm(part) || strings.Contains(part, ".") {
			if i == 0 && part != "" || i == 0 && root.Value == "steps" {
				r.fault(from, to, "name a step or an input by a word, such as steps.find or steps[\"step-a\"]")
				return
			}
			break
		}
		path = append(path, part)
	}
	if root.Value == "inputs" && len(path) == 1 {
		return // all of them
	}
	r.condition.refs = append(r.condition.refs, placedRef{Ref{strings.Join(path, ".")}, r.offsets[from], r.offsets[min(to, len(r.offsets)-1)]})
}
