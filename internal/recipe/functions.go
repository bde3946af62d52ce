package recipe

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm/runtime"
)

// call evaluates a function.
func (e *evaluation) call(n *ast.BuiltinNode) any {
	switch n.Name {
	case "all", "any", "none", "one", "filter", "map", "find", "count", "sum":
		return e.each(n)
	}
	args := make([]any, len(n.Arguments))
	for i, a := range n.Arguments {
		args[i] = e.eval(a)
	}
	arg := func(i int) any {
		if i >= len(args) {
			panic(n.Name + " needs more values")
		}
		return args[i]
	}
	word := func(i int) string {
		s := text(arg(i), "what "+n.Name+" takes")
		e.spend(len(s) / 32)
		return s
	}
	switch n.Name {
	case "lower", "upper":
		e.make(len(word(0)))
		if n.Name == "lower" {
			return strings.ToLower(word(0))
		}
		return strings.ToUpper(word(0))
	case "trim":
		if len(args) > 1 {
			return strings.Trim(word(0), word(1))
		}
		return strings.TrimSpace(word(0))
	case "hasPrefix":
		return strings.HasPrefix(word(0), word(1))
	case "hasSuffix":
		return strings.HasSuffix(word(0), word(1))
	case "split":
		return e.split(args, word)
	case "join":
		return e.join(args, word)
	case "concat":
		return e.concat(args, false)
	case "flatten":
		return e.concat(listOf(arg(0), n.Name), true)
	case "min", "max":
		return e.extreme(n.Name, args)
	}
	return e.convert(n.Name, arg(0))
}

// concat concatenates lists. If deep is set, it also flattens nested lists. Other elements do not
// change.
func (e *evaluation) concat(lists []any, deep bool) []any {
	out := []any{}
	for _, l := range lists {
		list, ok := l.([]any)
		switch {
		case deep && !ok:
			list = []any{l}
		case deep:
			list = e.concat(list, true)
		case !ok:
			panic("concat needs lists, not " + typeOf(l))
		}
		e.make(16 * len(list))
		out = append(out, list...)
	}
	return out
}

func (e *evaluation) convert(fn string, v any) any {
	switch fn {
	case "len":
		switch x := v.(type) {
		case string:
			e.spend(len(x) / 32)
			return utf8.RuneCountInString(x)
		case []any:
			return len(x)
		case map[string]any:
			return len(x)
		}
		panic("len needs a text, a list or a map, not " + typeOf(v))
	case "first":
		if l := listOf(v, fn); len(l) > 0 {
			return l[0]
		}
		return nil
	case "last":
		if l := listOf(v, fn); len(l) > 0 {
			return l[len(l)-1]
		}
		return nil
	case "keys", "values":
		return e.entries(fn, v)
	case "int":
		return toInt(v)
	case "float":
		return toFloat(v)
	case "string":
		return e.string(v)
	}
	panic("there is no function " + fn)
}

func (e *evaluation) entries(fn string, v any) []any {
	m, ok := v.(map[string]any)
	if !ok {
		panic(fmt.Sprintf("%s needs a map, not %s", fn, typeOf(v)))
	}
	e.make(64 * len(m))
	l := make([]any, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if fn == "keys" {
			l = append(l, k)
		} else {
			l = append(l, m[k])
		}
	}
	return l
}

// string returns a value as a text, as templates put it in.
func (e *evaluation) string(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	}
	e.measure(v)
	return string(compact(v))
}

// measure counts a value against the memory limit.
func (e *evaluation) measure(v any) {
	e.make(24)
	switch x := v.(type) {
	case string:
		e.make(len(x))
	case []any:
		for _, c := range x {
			e.measure(c)
		}
	case map[string]any:
		for k, c := range x {
			e.make(len(k))
			e.measure(c)
		}
	}
}

func toInt(v any) any {
	switch x := v.(type) {
	case int:
		return x
	case float64:
		return int(x)
	case string:
		if i, err := strconv.Atoi(x); err == nil {
			return i
		}
		panic("int: " + name(x) + " is no whole number")
	}
	panic("int needs a number or a text, not " + typeOf(v))
}

func toFloat(v any) any {
	switch x := v.(type) {
	case int:
		return float64(x)
	case float64:
		return x
	case string:
		if f, err := strconv.ParseFloat(x, 64); err == nil {
			return f
		}
		panic("float: " + name(x) + " is no number")
	}
	panic("float needs a number or a text, not " + typeOf(v))
}

func (e *evaluation) split(args []any, word func(int) string) any {
	s, sep := word(0), word(1)
	limit := -1
	if len(args) > 2 {
		limit = runtime.ToInt(args[2])
	}
	n := strings.Count(s, sep) + 1
	if limit >= 0 {
		n = min(n, limit)
	}
	e.make(32 * n)
	parts := strings.SplitN(s, sep, limit)
	l := make([]any, len(parts))
	for i, part := range parts {
		l[i] = part
	}
	return l
}

func (e *evaluation) join(args []any, word func(int) string) any {
	glue := ""
	if len(args) > 1 {
		glue = word(1)
	}
	list, size := listOf(args[0], "join"), 0
	for _, v := range list {
		n := len(text(v, "what join puts together")) + len(glue) + 1
		e.make(n)
		size += n
	}
	var b strings.Builder
	b.Grow(size)
	for i, v := range list {
		part := text(v, "what join puts together")
		if i > 0 {
			b.WriteString(glue)
		}
		b.WriteString(part)
	}
	return b.String()
}

// extreme returns the least or the greatest number, including numbers in lists, or null without
// numbers.
func (e *evaluation) extreme(fn string, args []any) any {
	var best any
	for _, a := range args {
		e.spend(1)
		if l, ok := a.([]any); ok {
			if a = e.extreme(fn, l); a == nil {
				continue
			}
		}
		if typeOf(a) != "a number" {
			panic(fmt.Sprintf("%s needs numbers, not %s", fn, typeOf(a)))
		}
		if best == nil || fn == "min" && runtime.Less(a, best) || fn == "max" && runtime.More(a, best) {
			best = a
		}
	}
	return best
}

// each evaluates a function that looks at the items of a list one by one.
func (e *evaluation) each(n *ast.BuiltinNode) any {
	list := listOf(e.eval(n.Arguments[0]), n.Name)
	var kept []any
	count, sum := 0, any(0)
	for _, v := range list {
		e.spend(1)
		got := v
		if len(n.Arguments) > 1 {
			e.items = append(e.items, v)
			got = e.eval(body(n.Arguments[1]))
			e.items = e.items[:len(e.items)-1]
		}
		switch n.Name {
		case "map":
			kept = e.keep(kept, got)
			continue
		case "sum":
			if typeOf(got) != "a number" {
				panic("sum needs numbers, not " + typeOf(got))
			}
			sum = runtime.Add(got, sum)
			continue
		}
		holds, ok := got.(bool)
		switch {
		case !ok:
			panic(fmt.Sprintf("%s needs a condition, not %s", n.Name, typeOf(got)))
		case holds && n.Name == "any", !holds && n.Name == "all", holds && n.Name == "none":
			return n.Name == "any"
		case holds && n.Name == "find":
			return v
		case holds && n.Name == "filter":
			kept = e.keep(kept, v)
		}
		count += btoi(holds)
	}
	switch n.Name {
	case "all", "none":
		return true
	case "any":
		return false
	case "one":
		return count == 1
	case "count":
		return count
	case "sum":
		return sum
	case "find":
		return nil
	}
	if kept == nil {
		kept = []any{}
	}
	return kept
}

// keep appends to a list, and counts the list's memory again whenever the list grows.
func (e *evaluation) keep(list []any, v any) []any {
	if len(list) == cap(list) {
		e.make(16 * max(4, 2*len(list)))
		list = append(make([]any, 0, max(4, 2*len(list))), list...)
	}
	return append(list, v)
}

func body(n ast.Node) ast.Node {
	if p, ok := n.(*ast.PredicateNode); ok {
		return p.Node
	}
	return n
}
