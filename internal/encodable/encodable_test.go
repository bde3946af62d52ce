package encodable_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/internal/encodable"
)

type (
	base   struct{ ID string }
	Base   struct{ ID string }
	list   struct{ Next *list }
	tree   struct{ Kids map[string][]tree }
	number int

	onlyJSON  struct{ N int }
	onlyText  struct{ N int }
	unJSON    struct{ N int }
	unText    struct{ N int }
	onPointer struct{ n int }
	halfKey   int
	structKey struct{ N int }
	stamped   struct {
		time.Time
		Note string
	}
	ownStamped struct {
		time.Time
		Note string
	}
)

func (onlyJSON) MarshalJSON() ([]byte, error)        { return []byte("1"), nil }
func (onlyText) MarshalText() ([]byte, error)        { return []byte("1"), nil }
func (*unJSON) UnmarshalJSON([]byte) error           { return nil }
func (*unText) UnmarshalText([]byte) error           { return nil }
func (p *onPointer) MarshalJSON() ([]byte, error)    { return json.Marshal(p.n) }
func (p *onPointer) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &p.n) }
func (halfKey) MarshalText() ([]byte, error)         { return []byte("half"), nil }
func (s ownStamped) MarshalJSON() ([]byte, error)    { return json.Marshal([]any{s.Time, s.Note}) }
func (s *ownStamped) UnmarshalJSON(data []byte) error {
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	return errors.Join(json.Unmarshal(raw[0], &s.Time), json.Unmarshal(raw[1], &s.Note))
}

// cases are types, and what is wrong with them: "" for nothing.
var cases = []struct {
	typ  reflect.Type
	want string
}{
	{reflect.TypeFor[struct {
		A int
		B *string
		C []float64
		D map[string]bool
		E [2]uint8
		F []byte
		G number
	}](), ""},
	{reflect.TypeFor[json.RawMessage](), ""},
	{reflect.TypeFor[struct{ At, Other time.Time }](), ""},
	{reflect.TypeFor[struct{ At *time.Time }](), ""},
	{reflect.TypeFor[*big.Int](), ""},
	{reflect.TypeFor[[]big.Int](), ""},
	{reflect.TypeFor[[]onPointer](), ""},
	{reflect.TypeFor[map[int8]string](), ""},
	{reflect.TypeFor[map[number]string](), ""},
	{reflect.TypeFor[map[netip.Addr]string](), ""},
	{reflect.TypeFor[list](), ""},
	{reflect.TypeFor[tree](), ""},
	{reflect.TypeFor[struct {
		base
		N int
	}](), ""},
	{reflect.TypeFor[struct {
		*Base
		N int
	}](), ""},
	{reflect.TypeFor[struct {
		Base `json:"base"`
		ID   string
	}](), ""},
	{reflect.TypeFor[ownStamped](), ""},
	{reflect.StructOf([]reflect.StructField{
		{Name: "A", Type: reflect.TypeFor[string](), Tag: `json:"B C"`},
		{Name: "B", Type: reflect.TypeFor[string](), Tag: `json:"\""`}, // no name, so it is B
		{Name: "C", Type: reflect.TypeFor[string](), Tag: `json:"\""`},
	}), ""},

	{reflect.TypeFor[big.Int](), `T: big.Int has its MarshalJSON on the pointer, which is not used for a value here; use a *big.Int`},
	{reflect.TypeFor[map[string]onPointer](), `T[]: encodable_test.onPointer has its MarshalJSON on the pointer, which is not used for a value here; use a *encodable_test.onPointer`},
	{reflect.TypeFor[struct{ Jobs []struct{ Done chan bool } }](), `T.Jobs[].Done: chan bool cannot be encoded`},
	{reflect.TypeFor[struct{ F func() }](), `T.F: func() cannot be encoded`},
	{reflect.TypeFor[struct{ C *complex64 }](), `T.C: complex64 cannot be encoded`},
	{reflect.TypeFor[struct{ P unsafe.Pointer }](), `T.P: unsafe.Pointer cannot be encoded`},
	{reflect.TypeFor[map[structKey]string](), `T: encodable_test.structKey cannot be the key of a map; use a string, an integer, or a type with MarshalText and UnmarshalText`},
	{reflect.TypeFor[map[halfKey]string](), `T: the key encodable_test.halfKey has only one of MarshalText and UnmarshalText`},
	{reflect.TypeFor[struct{ Err error }](), `T.Err: error cannot be decoded, as nothing says which type to make; use a concrete type`},
	{reflect.TypeFor[struct{ A, b int }](), `T.b: it is not exported and would be lost; export it, or tag it json:"-" if it may be`},
	{reflect.TypeFor[struct{ X onlyJSON }](), `T.X: encodable_test.onlyJSON has MarshalJSON but no UnmarshalJSON`},
	{reflect.TypeFor[struct{ X onlyText }](), `T.X: encodable_test.onlyText has MarshalText but no UnmarshalText`},
	{reflect.TypeFor[struct{ X unJSON }](), `T.X: encodable_test.unJSON has UnmarshalJSON but no MarshalJSON`},
	{reflect.TypeFor[struct{ X unText }](), `T.X: encodable_test.unText has UnmarshalText but no MarshalText`},
	{reflect.StructOf([]reflect.StructField{
		{Name: "A", Type: reflect.TypeFor[string](), Tag: `json:"b"`},
		{Name: "B", Type: reflect.TypeFor[string](), Tag: `json:"b"`},
	}), `T.B: T.A has the same name in JSON, "b", and one of the two would be lost; rename one`},
	{reflect.TypeFor[struct {
		Base
		ID string
	}](), `T.Base.ID: T.ID has the same name in JSON, "ID", and one of the two would be lost; rename one`},
	{reflect.TypeFor[struct {
		A string
		B string `json:"A"`
	}](), `T.A: T.B has the same name in JSON, "A", and one of the two would be lost; rename one`},
	{reflect.TypeFor[struct {
		*base
		N int
	}](), `T.base: an embedded pointer to a struct that is not exported cannot be decoded; embed the struct`},
	{reflect.TypeFor[struct {
		number
		N int
	}](), `T.number: it is not exported and would be lost; export it, or tag it json:"-" if it may be`},
	{reflect.TypeFor[stamped](), `T: encodable_test.stamped has the MarshalJSON of a field that is embedded in it, which leaves out the other fields; give the field a name`},
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range cases {
		if got := strings.Join(encodable.Check(c.typ, "T"), "\n"); got != c.want {
			t.Errorf("%v:\ngot  %s\nwant %s", c.typ, got, c.want)
		}
	}
}

func TestCheckTakesExplicitChoices(t *testing.T) {
	t.Parallel()
	got := encodable.Check(reflect.TypeFor[struct {
		Any  any
		Skip chan int `json:"-"`
		_    [3]byte
		none struct{}
		Kids []struct{ Bad, Worse func() }
		More []struct{ C chan int }
	}](), "State")
	want := []string{
		"State.Kids[].Bad: func() cannot be encoded",
		"State.More[].C: chan int cannot be encoded",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// fill gives every part of a value something that is not zero.
func fill(v reflect.Value, depth int) {
	if v.CanAddr() && !v.CanSet() {
		v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem() // an unexported field
	}
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		*p = time.Unix(1, 2).UTC()
		return
	case *big.Int:
		p.SetInt64(7)
		return
	case *json.RawMessage:
		*p = json.RawMessage(`{"a":1}`)
		return
	case *netip.Addr:
		*p = netip.MustParseAddr("127.0.0.1")
		return
	case *error:
		*p = errors.New("x")
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(5)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(6)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Complex64, reflect.Complex128:
		v.SetComplex(1)
	case reflect.String:
		v.SetString("text")
	case reflect.Chan:
		v.Set(reflect.MakeChan(v.Type(), 0))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), nil))
	case reflect.UnsafePointer:
		v.SetPointer(unsafe.Pointer(new(int)))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), depth)
		}
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth-1)
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(v.Index(0), depth-1)
			fill(v.Index(1), depth-1)
		}
	case reflect.Map:
		if depth > 0 {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(k, depth-1)
			fill(e, depth-1)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(k, e)
		}
	}
}

// survives is whether a full value of a type comes back from JSON as it was.
func survives(t reflect.Type) error {
	before, after := reflect.New(t), reflect.New(t)
	fill(before.Elem(), 6)
	data, err := json.Marshal(before.Elem().Interface())
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, after.Interface()); err != nil {
		return err
	}
	if !reflect.DeepEqual(before.Interface(), after.Interface()) {
		return fmt.Errorf("%+v came back as %+v", before.Elem(), after.Elem())
	}
	return nil
}

func TestCheckAgreesWithJSON(t *testing.T) {
	t.Parallel()
	for _, c := range cases {
		err := survives(c.typ)
		if (err == nil) != (c.want == "") {
			t.Errorf("%v: Check says %q, a round trip %v", c.typ, c.want, err)
		}
	}
}

// Types made of those of the table, at random.
func TestCheckAgreesWithJSONOnAnyType(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		typ := drawType(t, 3)
		problems := encodable.Check(typ, "T")
		err := survives(typ)
		if (err == nil) != (len(problems) == 0) {
			t.Fatalf("%v: Check says %q, a round trip %v", typ, problems, err)
		}
	})
}

func drawType(t *rapid.T, depth int) reflect.Type {
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	if depth == 0 || kind < 2 {
		all := cases
		if rapid.IntRange(0, 3).Draw(t, "sound") > 0 {
			all = slices.DeleteFunc(slices.Clone(all), func(c struct {
				typ  reflect.Type
				want string
			},
			) bool {
				return c.want != ""
			})
		}
		return rapid.SampledFrom(all).Draw(t, "type").typ
	}
	switch kind {
	case 2:
		return reflect.PointerTo(drawType(t, depth-1))
	case 3:
		return reflect.SliceOf(drawType(t, depth-1))
	case 4:
		return reflect.ArrayOf(2, drawType(t, depth-1))
	case 5:
		key := rapid.SampledFrom([]reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[number](), reflect.TypeFor[netip.Addr](), reflect.TypeFor[structKey]()}).Draw(t, "key")
		return reflect.MapOf(key, drawType(t, depth-1))
	}
	var fields []reflect.StructField
	for i := range rapid.IntRange(1, 3).Draw(t, "fields") {
		f := reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: drawType(t, depth-1)}
		f.Tag = rapid.SampledFrom([]reflect.StructTag{"", "", "", `json:"F0"`, `json:"same"`, `json:",omitempty"`}).Draw(t, "tag")
		fields = append(fields, f)
	}
	return reflect.StructOf(fields)
}
