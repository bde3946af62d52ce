package recipe

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/expr-lang/expr"
	"pgregory.net/rapid"
)

// Conditions mean what they mean in the library: whatever its virtual machine and this evaluation both have an
// answer to, they have the same. What recipes define themselves is left out: string() of lists and null, the
// order of keys, and numbers within maps.
func TestHoldsAsTheLibraryDoes(t *testing.T) {
	t.Parallel()
	inputs := map[string]any{
		"s": "tea", "e": "", "n": 7, "f": 2.5, "b": true, "z": nil,
		"l": []any{1, 2.5, "a", nil}, "ns": []any{3, 1, 2}, "m": map[string]any{"a": map[string]any{"b": "c"}, "k": "tea"},
	}
	s := &Scope{Inputs: inputs, Vars: map[string]any{}}
	answered := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			compare(t, s, inputs, answered)
		}
	})
	if answered["same"] < 10 {
		t.Errorf("answers %v: the comparison shows nothing", answered)
	}
}

// compare asks both about one expression.
func compare(t *rapid.T, s *Scope, inputs map[string]any, answered map[string]int) {
	text := expression(t, 4)
	c, faults := parseExpr(text, true)
	if len(faults) > 0 || c.node == nil {
		return
	}
	p, err := expr.Compile(text, expr.Optimize(false))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	want, err := expr.Run(p, map[string]any{"inputs": inputs})
	got, mine := c.Holds(s)
	if _, boolean := want.(bool); err != nil || !boolean {
		answered["refused"]++
		return
	}
	if mine != nil && stricter(mine) {
		answered["stricter"]++
		return
	}
	answered["same"]++
	if mine != nil || !reflect.DeepEqual(any(got), want) {
		t.Fatalf("%s: %v, %v; the library says %v", text, got, mine, want)
	}
}

// stricter tells of errors where the library goes on: it takes a text for a list of bytes, and the right side
// of "and" for whatever it is.
func stricter(err error) bool {
	return strings.Contains(err.Error(), "needs a list, not") || strings.Contains(err.Error(), "a text has no") || strings.Contains(err.Error(), "nothing is in a text") ||
		strings.Contains(err.Error(), "must be written out") || strings.Contains(err.Error(), "is no condition") || strings.Contains(err.Error(), "needs numbers")
}

func expression(t *rapid.T, depth int) string {
	leaves := []string{
		"true", "false", "nil", "0", "1", "7", "2.5", `"tea"`, `"a"`, `""`, "[1, 2]", "[]", `{k: "tea"}`, "inputs.s", "inputs.e", "inputs.n", "inputs.f", "inputs.b", "inputs.z",
		"inputs.l", "inputs.ns", "inputs.m", "inputs.m.a.b", "inputs.m?.x?.y", "inputs.l[0]", "inputs.ns[-1]", `inputs.m["k"]`, "1..3",
	}
	if depth == 0 || rapid.IntRange(0, 4).Draw(t, "leaf") == 0 {
		return rapid.SampledFrom(leaves).Draw(t, "value")
	}
	sub := func() string { return expression(t, depth-1) }
	switch rapid.IntRange(0, 6).Draw(t, "form") {
	case 0, 1:
		op := rapid.SampledFrom([]string{"==", "!=", "<", "<=", ">", ">=", "and", "or", "&&", "||", "+", "-", "*", "/", "%", "in", "not in", "contains", "startsWith", "endsWith", "??"}).Draw(t, "op")
		return fmt.Sprintf("(%s) %s (%s)", sub(), op, sub())
	case 2:
		return fmt.Sprintf("%s(%s)", rapid.SampledFrom([]string{"len", "first", "last", "upper", "lower", "trim", "int", "float", "not ", "-", "min", "max", "sum"}).Draw(t, "fn"), sub())
	case 3:
		body := rapid.SampledFrom([]string{"# == 1", "# != nil", "true", "# in inputs.ns", "# == inputs.s", "len(inputs.ns) > #"}).Draw(t, "body")
		return fmt.Sprintf("%s(%s, %s)", rapid.SampledFrom([]string{"all", "any", "none", "one", "filter", "map", "find", "count"}).Draw(t, "each"), sub(), body)
	case 4:
		return fmt.Sprintf("(%s) ? (%s) : (%s)", sub(), sub(), sub())
	case 5:
		return fmt.Sprintf("(%s)[%d:]", sub(), rapid.IntRange(0, 2).Draw(t, "from"))
	}
	return fmt.Sprintf("(%s) == (%s)", sub(), sub())
}
