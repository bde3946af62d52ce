package reduce

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/suggest"
)

// A Tagged is a reducer made from the tags of a state's fields. It never changes, and
// any number of goroutines may use it.
type Tagged[S, U any] struct {
	fields   []field
	singles  []string // the names of the fields that one task of a superstep may write
	defaults []defaulted
}

// defaulted is a field of the state with a default.
type defaulted struct {
	index int
	value string // as JSON, or the text itself
	text  bool
}

// A tagsError lists everything that is wrong with the fields and tags of a state and
// its update.
type tagsError struct {
	State, Update string // their types
	Problems      []string
}

func (e *tagsError) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0]
	}
	return fmt.Sprintf("%s and %s have %d mistakes:\n  - %s", e.State, e.Update, len(e.Problems), strings.Join(e.Problems, "\n  - "))
}

// Tags creates a reducer for a state and an update that are structs. Every exported
// field of the update folds into the state's field of that name, in the way that
// field's tag says:
//
//	Log   []string       `reduce:"append"`
//	Seen  []string       `reduce:"union"`      // append what is not there yet
//	Tasks []Task         `reduce:"merge=ID"`   // an element replaces the one with its ID
//	Plan  []Task         `reduce:"patch=ID"`   // as merge=ID, but its zero fields keep what was there
//	Notes map[string]int `reduce:"merge"`
//	Extra map[string]any `reduce:"deep-merge"`
//	Best  float64        `reduce:"max"`        // or min; numbers and strings, mostly by a pointer in the update
//	Cost  float64        `reduce:"sum"`
//	Found bool           `reduce:"or"`         // or and
//	Topic string         `reduce:"keep-first"` // unless it is zero
//	Phase string         `reduce:"replace"`    // the last in path order wins
//	Hint  string         `reduce:"ifset"`      // replace, by a pointer in the update
//	Draft string                               // replace, by one task a superstep
//
// They behave like the functions of this package, also regarding spare capacity. The field of the
// update has the same type as the state's, and is not written if it is zero. It may also be a
// pointer to that type, which is not written if nil, or, for append, union, merge=ID and patch=ID,
// the type of one element. Slices and maps are not written only if nil. If zero or empty must be
// written, use a pointer. Tags refuses plain fields with and, max or min whose zero would count,
// and single elements that are numbers or booleans.
//
// A `default:"…"` tag holds the value that [Tagged.Initial] puts into the field: JSON, or for a
// string the text itself.
//
// Tags reports every mistake at once, one on a line.
func Tags[S, U any]() (*Tagged[S, U], error) {
	st, ut := reflect.TypeFor[S](), reflect.TypeFor[U]()
	p := &parser{state: st, update: ut, stateName: nameOf(st, "S"), updateName: nameOf(ut, "U")}
	p.parse()
	t := &Tagged[S, U]{fields: p.fields, singles: p.singles, defaults: p.defaults}
	if len(p.problems) == 0 {
		p.problems = t.lossy(p.updateName)
	}
	if len(p.problems) > 0 {
		return nil, &tagsError{State: p.stateName, Update: p.updateName, Problems: p.problems}
	}
	return t, nil
}

// Reduce folds an update into a state, as the reducer of a graph.
func (t *Tagged[S, U]) Reduce(state S, update U) S {
	s, u := reflect.ValueOf(&state).Elem(), reflect.ValueOf(&update).Elem()
	for i := range t.fields {
		t.fields[i].apply(s, u)
	}
	return state
}

// Writes returns which fields without a tag an update writes, as a set of bits; 0 is none. Two
// updates of one superstep that share a bit conflict; [Tagged.Names] returns the fields they
// conflict on.
func (t *Tagged[S, U]) Writes(update U) uint64 {
	if len(t.singles) == 0 {
		return 0
	}
	u, bit, set := reflect.ValueOf(&update).Elem(), uint64(1), uint64(0)
	for i := range t.fields {
		if !t.fields[i].single {
			continue
		}
		if _, written := t.fields[i].written(u); written {
			set |= bit
		}
		bit <<= 1
	}
	return set
}

// Names returns the fields of a set that Writes made, in the order of the update's fields.
func (t *Tagged[S, U]) Names(set uint64) []string {
	var names []string
	for i, name := range t.singles {
		if set>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return names
}

// Initial returns a new state with the defaults of the tags, which shares no memory with earlier
// ones. It fails only if the type of a field refuses a default that it accepted before.
func (t *Tagged[S, U]) Initial() (S, error) {
	var state S
	v := reflect.ValueOf(&state).Elem()
	for _, d := range t.defaults {
		if err := d.set(v); err != nil {
			return state, fmt.Errorf("%s.%s: its default: %w", nameOf(v.Type(), "S"), v.Type().Field(d.index).Name, err)
		}
	}
	return state, nil
}

func (d *defaulted) set(state reflect.Value) error {
	f := state.Field(d.index)
	if d.text {
		f.SetString(d.value)
		return nil
	}
	return json.Unmarshal([]byte(d.value), f.Addr().Interface())
}

// lossy finds the fields that an update did not write but that count as written once it is read
// back from the log, because their zero value encodes as something.
func (t *Tagged[S, U]) lossy(name string) (problems []string) {
	var before, after U
	data, err := json.Marshal(before)
	if err == nil {
		err = json.Unmarshal(data, &after)
	}
	if err != nil {
		return []string{fmt.Sprintf("%s: an empty one cannot be encoded and decoded again: %v", name, err)}
	}
	for i := range t.fields {
		f := &t.fields[i]
		if _, written := f.written(reflect.ValueOf(&after).Elem()); written {
			problems = append(problems, fmt.Sprintf("%s.%s: an update that does not write it comes back from the log as one that does; use a "+
				"pointer, or the json option omitzero", name, f.name))
		}
	}
	return problems
}

func nameOf(t reflect.Type, unnamed string) string {
	if t.Name() == "" {
		return unnamed
	}
	return t.Name()
}

// A parser reads the tags.
type parser struct {
	state, update         reflect.Type
	stateName, updateName string
	fields                []field
	singles               []string
	defaults              []defaulted
	problems              []string
}

// maxSingles is how many fields fit into the set that Writes returns.
const maxSingles = 64

func (p *parser) report(format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

func (p *parser) parse() {
	if p.state.Kind() != reflect.Struct {
		p.report("the state is %v; only a struct has tags", p.state)
	}
	if p.update.Kind() != reflect.Struct {
		p.report("the update is %v; only a struct has fields to fold", p.update)
	}
	if len(p.problems) > 0 {
		return
	}
	plans := make(map[string]field, p.state.NumField())
	var names []string
	for i := range p.state.NumField() {
		f := p.state.Field(i)
		where := p.stateName + "." + f.Name
		if !f.IsExported() {
			if f.Tag.Get("reduce") != "" || f.Tag.Get("default") != "" {
				p.report("%s has tags but is not exported", where)
			}
			continue
		}
		names = append(names, f.Name)
		plans[f.Name] = p.plan(where, &f)
		p.byDefault(where, i, &f)
	}
	for i := range p.update.NumField() {
		f := p.update.Field(i)
		if !f.IsExported() {
			continue
		}
		where := p.updateName + "." + f.Name
		plan, ok := plans[f.Name]
		if !ok {
			p.report("%s: %s has no field of that name%s", where, p.stateName, suggest.Hint(f.Name, names))
			continue
		}
		p.match(where, plan, &f)
	}
	if len(p.singles) > maxSingles {
		p.report("%s has %d fields without a tag that %s writes; %d is the limit, tag the others", p.stateName, len(p.singles), p.updateName, maxSingles)
	}
}

// tagNames returns the tags, for suggestions.
func tagNames() []string {
	return []string{"append", "union", "merge", "merge=ID", "patch=ID", "deep-merge", "max", "min", "sum", "or", "and", "keep-first", "replace", "ifset"}
}

// plan reads the tag of a field of the state.
func (p *parser) plan(where string, sf *reflect.StructField) field {
	f := field{name: sf.Name, typ: sf.Type, state: sf.Index[0]}
	tag, tagged := sf.Tag.Lookup("reduce")
	f.single = !tagged
	if !tagged {
		return f
	}
	kind := sf.Type.Kind()
	need := func(ok bool, what string) {
		if !ok {
			p.report("%s: reduce:%q needs %s, not %v", where, tag, what, sf.Type)
		}
	}
	name, id, byID := strings.Cut(tag, "=")
	if byID && name != "merge" && name != "patch" {
		name = tag
	}
	switch name {
	case "replace":
	case "ifset":
		f.ptr = true // the update must have one
	case "keep-first":
		f.op = opKeepFirst
	case "max", "min":
		f.op = map[string]op{"max": opMax, "min": opMin}[name]
		need(isNumber(kind) || kind == reflect.String, "a number or a string")
	case "sum":
		f.op = opSum
		need(isNumber(kind), "a number")
	case "or", "and":
		f.op = map[string]op{"or": opOr, "and": opAnd}[name]
		need(kind == reflect.Bool, "a bool")
	case "append":
		f.op = opAppend
		need(kind == reflect.Slice, "a slice")
	case "union":
		f.op = opUnion
		need(kind == reflect.Slice && isPlain(sf.Type.Elem()), "a slice of comparable elements")
	case "deep-merge":
		f.op = opDeepMerge
		need(sf.Type.ConvertibleTo(reflect.TypeFor[map[string]any]()), "a map[string]any")
	case "merge", "patch":
		f.op = opMerge
		if f.patch = name == "patch"; f.patch && !byID {
			p.report("%s: reduce:%q needs the name of the field that identifies its elements: patch=ID", where, tag)
			break
		} else if byID {
			f.op = opMergeID
			f.id = p.idField(where, tag, id, sf.Type)
			break
		}
		need(kind == reflect.Map, "a map (for a slice: merge=, and the name of the field that identifies its elements)")
	default:
		p.report("%s: reduce:%q is not known%s", where, tag, hint(tag))
	}
	return f
}

func hint(tag string) string {
	if c := suggest.Closest(tag, tagNames()); c != "" {
		return fmt.Sprintf("; did you mean %q?", c)
	}
	return "; known: " + strings.Join(tagNames(), ", ")
}

func isNumber(k reflect.Kind) bool { return k >= reflect.Int && k <= reflect.Float64 }

// isPlain reports whether values of a type can always be compared, interfaces left out:
// their values may be of types that cannot.
func isPlain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface:
		return false
	case reflect.Array:
		return isPlain(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !isPlain(t.Field(i).Type) {
				return false
			}
		}
	}
	return t.Comparable()
}

// idField finds the field that identifies the elements of a slice.
func (p *parser) idField(where, tag, id string, t reflect.Type) []int {
	var elem reflect.Type
	if t.Kind() == reflect.Slice {
		elem = t.Elem()
		if elem.Kind() == reflect.Pointer {
			elem = elem.Elem()
		}
	}
	if elem == nil || elem.Kind() != reflect.Struct {
		p.report("%s: reduce:%q needs a slice of structs, not %v", where, tag, t)
		return nil
	}
	var names []string
	for i := range elem.NumField() {
		if f := elem.Field(i); f.IsExported() {
			names = append(names, f.Name)
		}
	}
	i := slices.Index(names, id)
	if i < 0 {
		p.report("%s: reduce:%q: %v has no exported field %q%s", where, tag, elem, id, suggest.Hint(id, names))
		return nil
	}
	f, _ := elem.FieldByName(id)
	if k := f.Type.Kind(); k != reflect.String && !(k >= reflect.Int && k <= reflect.Uintptr) {
		p.report("%s: reduce:%q: %v.%s is %v; a string or an integer can identify", where, tag, elem, id, f.Type)
	}
	return f.Index
}

// match finds out how a field of the update folds into that of the state.
func (p *parser) match(where string, f field, uf *reflect.StructField) {
	f.update = uf.Index[0]
	mustPoint := f.ptr
	f.ptr = uf.Type.Kind() == reflect.Pointer && uf.Type != f.typ
	value := uf.Type
	if f.ptr {
		value = uf.Type.Elem()
	}
	lists := f.op == opAppend || f.op == opUnion || f.op == opMergeID
	switch {
	case value == f.typ:
	case lists && f.typ.Kind() == reflect.Slice && uf.Type == f.typ.Elem():
		f.one, f.ptr, value = true, false, uf.Type
	case lists && f.typ.Kind() == reflect.Slice:
		p.report("%s is %v; %s.%s wants %v, a pointer to it, or one %v", where, uf.Type, p.stateName, f.name, f.typ, f.typ.Elem())
		return
	default:
		p.report("%s is %v; %s.%s wants %v or a pointer to it", where, uf.Type, p.stateName, f.name, f.typ)
		return
	}
	option := strings.Split(uf.Tag.Get("json"), ",")
	kind := value.Kind()
	signed := isNumber(kind) && !(kind >= reflect.Uint && kind <= reflect.Uintptr)
	switch {
	case f.op == opAnd && !f.ptr:
		p.report("%s: false would mean that it is not written, and true changes nothing; make it a *%v", where, f.typ)
	case f.op == opMin && !f.ptr && kind == reflect.String:
		p.report("%s: \"\" would mean that it is not written, and so never be the least; make it a *%v", where, f.typ)
	case (f.op == opMin || f.op == opMax && signed) && !f.ptr:
		p.report("%s: 0 would mean that it is not written, and so get lost; make it a *%v, in an update type of its own if the state has the same type", where, f.typ)
	case f.one && (isNumber(kind) || kind == reflect.Bool):
		p.report("%s: %v would mean that it is not written, and so get lost; make it a %v", where, reflect.Zero(value), f.typ)
	case mustPoint && !f.ptr:
		p.report("%s: reduce:\"ifset\" wants a *%v", where, f.typ)
	case option[0] == "-" && len(option) == 1:
		p.report("%s: json:\"-\" keeps it out of the log, and a resumed run would do without it", where)
	case !f.ptr && f.op <= opKeepFirst && (value.Kind() == reflect.Slice || value.Kind() == reflect.Map) && slices.Contains(option[1:], "omitempty") &&
		value != reflect.TypeFor[json.RawMessage]():
		p.report("%s: omitempty keeps an empty one out of the log, and nil is not the same here; use omitzero", where)
	}
	if f.single {
		p.singles = append(p.singles, f.name)
	}
	p.fields = append(p.fields, f)
}

// byDefault reads the default of a field of the state.
func (p *parser) byDefault(where string, index int, sf *reflect.StructField) {
	value, ok := sf.Tag.Lookup("default")
	if !ok {
		return
	}
	d := defaulted{index: index, value: value, text: sf.Type.Kind() == reflect.String}
	if err := d.set(reflect.New(p.state).Elem()); err != nil {
		p.report("%s: default:%q does not decode into %v: %v", where, value, sf.Type, err)
		return
	}
	p.defaults = append(p.defaults, d)
}
