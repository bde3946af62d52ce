package recipe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm/runtime"
)

// The bounds of one evaluation. The library's virtual machine limits the size of lists, but limits
// neither the time nor the size of texts. So conditions are evaluated here, on the tree that the
// library has parsed and checked.
const (
	maxWork = 2_000_000 // nodes evaluated, items looked at, and 32 bytes of texts read
	maxMade = 16 << 20  // bytes of texts and lists made
)

// Holds evaluates the condition. It is bounded in time and memory, and fails if the result is
// neither true nor false.
func (c *Condition) Holds(s *Scope) (holds bool, err error) {
	v, err := c.Value(s)
	if err != nil {
		return false, err
	}
	holds, ok := v.(bool)
	if !ok {
		err = &LookupError{Text: fmt.Sprintf("condition %s gives %s, and must give true or false", name(c.text), typeOf(v))}
	}
	return holds, err
}

// Value evaluates the expression. It is bounded in time and memory. The result shares memory with the scope.
func (c *Condition) Value(s *Scope) (v any, err error) {
	if c.node == nil {
		return nil, &LookupError{Text: "the expression is not valid"}
	}
	defer func() {
		if r := recover(); r != nil {
			v, err = nil, &LookupError{Text: fmt.Sprintf("%s: %v", name(c.text), explain(r))}
		}
	}()
	e := &evaluation{condition: c, scope: s}
	v = e.eval(c.node)
	if text, ok := v.(string); ok {
		e.make(len(text))
	} else {
		e.measure(v)
	}
	return v, nil
}

// explain returns the mistake in words for users who do not know Go.
func explain(r any) string {
	text := fmt.Sprint(r)
	for _, w := range [][2]string{{"map[string]interface {}", "a map"}, {"[]interface {}", "a list"}, {"<nil>", "null"}, {"runtime error: ", ""}} {
		text = strings.ReplaceAll(text, w[0], w[1])
	}
	return text
}

// An evaluation is one evaluation of a condition. It panics with an error, which Holds recovers.
type evaluation struct {
	condition *Condition
	scope     *Scope
	work      int
	made      int
	lets      []binding
	items     []any                     // what # stands for, the innermost last
	steps     map[string]map[string]any // by id, as far as they were looked at
}

type binding struct {
	name  string
	value any
}

func (e *evaluation) spend(n int) {
	if e.work += n; e.work > maxWork || n < 0 {
		panic("it takes too long; have a step work it out")
	}
}

func (e *evaluation) make(n int) {
	if e.made += n; e.made > maxMade || n < 0 {
		panic("it needs too much memory; have a step work it out")
	}
	e.spend(n / 32)
}

func (e *evaluation) eval(n ast.Node) any {
	e.spend(1)
	switch n := n.(type) {
	case *ast.NilNode:
		return nil
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		return n.Value
	case *ast.FloatNode:
		return n.Value
	case *ast.StringNode:
		return n.Value
	case *ast.IdentifierNode:
		return e.variable(n.Value)
	case *ast.ChainNode, *ast.MemberNode:
		v, _ := e.member(n)
		return v
	case *ast.UnaryNode:
		return e.unary(n)
	case *ast.BinaryNode:
		return e.binary(n)
	case *ast.SliceNode:
		return e.slice(n)
	case *ast.BuiltinNode:
		return e.call(n)
	case *ast.PointerNode:
		if len(e.items) == 0 {
			panic("# is only for lists")
		}
		return e.items[len(e.items)-1]
	case *ast.ConditionalNode:
		if e.truth(n.Cond) {
			return e.eval(n.Exp1)
		}
		return e.eval(n.Exp2)
	case *ast.VariableDeclaratorNode:
		e.lets = append(e.lets, binding{n.Name, e.eval(n.Value)})
		v := e.eval(n.Expr)
		e.lets = e.lets[:len(e.lets)-1]
		return v
	}
	return e.compound(n)
}

func (e *evaluation) compound(n ast.Node) any {
	switch n := n.(type) {
	case *ast.SequenceNode:
		var v any
		for _, c := range n.Nodes {
			v = e.eval(c)
		}
		return v
	case *ast.ArrayNode:
		e.make(16 * len(n.Nodes))
		l := make([]any, len(n.Nodes))
		for i, c := range n.Nodes {
			l[i] = e.eval(c)
		}
		return l
	case *ast.MapNode:
		e.make(64 * len(n.Pairs))
		m := make(map[string]any, len(n.Pairs))
		for _, c := range n.Pairs {
			pair, ok := c.(*ast.PairNode)
			if !ok {
				panic("not a map")
			}
			m[text(e.eval(pair.Key), "a key")] = e.eval(pair.Value)
		}
		return m
	}
	panic("this is not part of the language of conditions")
}

// variable looks a name up.
func (e *evaluation) variable(id string) any {
	for i := len(e.lets) - 1; i >= 0; i-- {
		if e.lets[i].name == id {
			return e.lets[i].value
		}
	}
	if id == "inputs" {
		return e.scope.Inputs
	}
	v, ok := e.scope.Vars[id]
	if !ok {
		panic("there is no " + id + " here")
	}
	return v
}

// step returns a step's result as a map.
func (e *evaluation) step(id string) map[string]any {
	if m := e.steps[id]; m != nil {
		return m
	}
	if e.scope.Step == nil {
		panic("there is no step " + id)
	}
	res, ok := e.scope.Step(id)
	if !ok || res == nil {
		panic("step " + id + " has not ended")
	}
	out, err := Decode(res.Output)
	if err != nil {
		panic(fmt.Sprintf("the output of %s is %v", id, err))
	}
	if e.steps == nil {
		e.steps = map[string]map[string]any{}
	}
	e.steps[id] = map[string]any{"output": out, "status": string(res.Status), "error": res.Error}
	return e.steps[id]
}

// member follows a path. It reports whether the path ended at a ?. after a null value.
func (e *evaluation) member(n ast.Node) (v any, ended bool) {
	switch n := n.(type) {
	case *ast.ChainNode:
		e.spend(1)
		return e.member(n.Node)
	case *ast.MemberNode:
		e.spend(1)
		if root, ok := n.Node.(*ast.IdentifierNode); ok && root.Value == "steps" && !e.bound("steps") {
			id, _ := constant(n.Property)
			return e.step(id), false
		}
		from, ended := e.member(n.Node)
		if ended || n.Optional && from == nil {
			return nil, true
		}
		return e.fetch(from, e.eval(n.Property)), false
	}
	return e.eval(n), false
}

func (e *evaluation) bound(id string) bool {
	return slices.ContainsFunc(e.lets, func(b binding) bool { return b.name == id })
}

func (e *evaluation) fetch(from, key any) any {
	switch x := from.(type) {
	case nil:
		panic(fmt.Sprintf("there is no %v below null; write ?. to go on with null", key))
	case map[string]any:
		return x[text(key, "the key of a map")]
	case []any:
		switch key.(type) {
		case int, float64:
			return runtime.Fetch(x, key)
		}
		panic(fmt.Sprintf("a list has no %v", key))
	}
	panic(fmt.Sprintf("%s has no %v", typeOf(from), key))
}

func (e *evaluation) slice(n *ast.SliceNode) any {
	v := e.eval(n.Node)
	var from, to any = 0, nil
	if n.To != nil {
		to = e.eval(n.To)
	}
	if n.From != nil {
		from = e.eval(n.From)
	}
	switch x := v.(type) {
	case string:
		if to == nil {
			to = len(x)
		}
	case []any:
		if to == nil {
			to = len(x)
		}
	default:
		panic("only texts and lists have parts, not " + typeOf(v))
	}
	return runtime.Slice(v, from, to)
}

func (e *evaluation) truth(n ast.Node) bool {
	v := e.eval(n)
	b, ok := v.(bool)
	if !ok {
		panic(fmt.Sprintf("%s is no condition", typeOf(v)))
	}
	return b
}

func (e *evaluation) unary(n *ast.UnaryNode) any {
	switch n.Operator {
	case "!", "not":
		return !e.truth(n.Node)
	case "-":
		return runtime.Negate(e.eval(n.Node))
	}
	return e.eval(n.Node)
}

func (e *evaluation) binary(n *ast.BinaryNode) any {
	switch n.Operator {
	case "or", "||":
		return e.truth(n.Left) || e.truth(n.Right)
	case "and", "&&":
		return e.truth(n.Left) && e.truth(n.Right)
	case "??":
		if v := e.eval(n.Left); v != nil {
			return v
		}
		return e.eval(n.Right)
	}
	a, b := e.eval(n.Left), e.eval(n.Right)
	switch n.Operator {
	case "==":
		return e.equal(a, b)
	case "!=":
		return !e.equal(a, b)
	case "in":
		return e.in(a, b)
	case "contains", "startsWith", "endsWith", "matches":
		return e.search(n, a, b)
	case "..":
		return e.span(runtime.ToInt(a), runtime.ToInt(b))
	case "+":
		if x, ok := a.(string); ok {
			y := text(b, "what is put to a text")
			e.make(len(x) + len(y))
			return x + y
		}
	case "<", "<=", ">", ">=":
		return e.compare(n.Operator, a, b)
	}
	return calculate(n.Operator, a, b)
}

// calculate does arithmetic.
func calculate(op string, a, b any) any {
	if typeOf(a) != "a number" || typeOf(b) != "a number" {
		panic(fmt.Sprintf("%s %s %s: that is only for numbers", typeOf(a), op, typeOf(b)))
	}
	switch op {
	case "+":
		return runtime.Add(a, b)
	case "-":
		return runtime.Subtract(a, b)
	case "*":
		return runtime.Multiply(a, b)
	case "/":
		return runtime.Divide(a, b)
	case "%":
		return runtime.Modulo(a, b)
	case "**", "^":
		return runtime.Exponent(a, b)
	}
	panic("there is no operator " + op)
}

func (e *evaluation) compare(op string, a, b any) bool {
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			e.spend(min(len(x), len(y)) / 32)
		}
	}
	if typeOf(a) != typeOf(b) || typeOf(a) != "a number" && typeOf(a) != "a text" {
		panic(fmt.Sprintf("%s and %s have no order", typeOf(a), typeOf(b)))
	}
	switch op {
	case "<":
		return runtime.Less(a, b)
	case ">":
		return runtime.More(a, b)
	case "<=":
		return runtime.LessOrEqual(a, b)
	case ">=":
		return runtime.MoreOrEqual(a, b)
	}
	panic("there is no operator " + op)
}

// equal compares values as JSON does: numbers by value.
func (e *evaluation) equal(a, b any) bool {
	e.spend(1)
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		if ok && len(x) == len(y) {
			e.spend(len(x) / 32)
		}
		return ok && x == y
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !e.equal(x[i], y[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k := range x {
			v, ok := y[k]
			if !ok || !e.equal(x[k], v) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return runtime.Equal(a, b)
}

func (e *evaluation) in(a, b any) bool {
	switch x := b.(type) {
	case nil:
		return false
	case []any:
		return slices.ContainsFunc(x, func(v any) bool { return e.equal(v, a) })
	case map[string]any:
		if a == nil {
			return false
		}
		_, ok := x[text(a, "the key of a map")]
		return ok
	}
	panic("nothing is in " + typeOf(b) + "; it must be a list or a map")
}

func (e *evaluation) search(n *ast.BinaryNode, a, b any) bool {
	if a == nil || b == nil {
		return false
	}
	s, what := text(a, "what "+n.Operator+" looks at"), text(b, "what "+n.Operator+" looks for")
	e.spend((len(s) + len(what)) / 32)
	switch n.Operator {
	case "contains":
		return strings.Contains(s, what)
	case "startsWith":
		return strings.HasPrefix(s, what)
	case "endsWith":
		return strings.HasSuffix(s, what)
	}
	p := e.condition.patterns[n]
	if p == nil {
		panic("the pattern of matches must be written out")
	}
	e.spend(len(s)/8 + len(s)/16*p.size) // the library takes time in proportion to the product, at worst
	return p.re.MatchString(s)
}

// span returns the list of whole numbers from a to b.
func (e *evaluation) span(a, b int) []any {
	if a > b {
		return []any{}
	}
	size := b - a + 1
	if size <= 0 || size > maxMade {
		size = maxMade
	}
	e.make(24 * size)
	l := make([]any, size)
	for i := range l {
		l[i] = a + i
	}
	return l
}

// text returns a value that must be a text.
func text(v any, what string) string {
	s, ok := v.(string)
	if !ok {
		panic(fmt.Sprintf("%s must be a text, not %s", what, typeOf(v)))
	}
	return s
}

func listOf(v any, fn string) []any {
	l, ok := v.([]any)
	if !ok {
		panic(fmt.Sprintf("%s needs a list, not %s", fn, typeOf(v)))
	}
	return l
}
