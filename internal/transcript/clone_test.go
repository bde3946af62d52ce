package transcript_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/transcript/recorded"
)

// A clone is deeply equal, shares nothing that a record can change, and becomes what the original becomes.
func TestClone(t *testing.T) {
	t.Parallel()
	for _, name := range recorded.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recs := recorded.Load(name)
			var whole transcript.Run
			for _, rec := range recs {
				whole.Apply(rec)
			}
			var r transcript.Run
			for i := range recs {
				r.Apply(recs[i])
				if i%3 != 0 {
					continue
				}
				c := r.Clone()
				if !reflect.DeepEqual(&r, c) {
					t.Fatalf("after record %d the clone differs", i)
				}
				unshared(t, &r, c)
				before := c.Clone()
				for _, rec := range recs[i+1:] {
					c.Apply(rec)
				}
				if !reflect.DeepEqual(c, &whole) {
					t.Fatalf("cut at record %d, the clone does not become what the original becomes", i)
				}
				if !reflect.DeepEqual(&r, before) {
					t.Fatalf("after record %d, the clone changed the original", i)
				}
			}
		})
	}
}

// unshared fails for memory that both of two values can write to: structs behind pointers, maps, and slices, but for raw JSON, options and texts, which
// no record changes once they are there.
func unshared(t *testing.T, a, b *transcript.Run) {
	t.Helper()
	fixed := map[reflect.Type]bool{reflect.TypeFor[[]string](): true, reflect.TypeFor[*runlog.BudgetError](): true, reflect.TypeFor[*runlog.QuestionCall](): true,
		reflect.TypeFor[map[string]string](): true, reflect.TypeFor[*time.Location](): true, reflect.TypeFor[runlog.Question](): true, reflect.TypeFor[[]transcript.Node](): true}
	collect := func(r *transcript.Run) map[uintptr]string {
		seen := map[uintptr]string{}
		var walk func(v reflect.Value, at string)
		walk = func(v reflect.Value, at string) {
			if fixed[v.Type()] && at != "run.Failed" && at != "run.Degraded" && at != "run.Skipped" {
				return
			}
			switch v.Kind() {
			case reflect.Pointer:
				if v.IsNil() || seen[v.Pointer()] != "" {
					return
				}
				seen[v.Pointer()] = at
				walk(v.Elem(), at)
			case reflect.Struct:
				for i := range v.NumField() {
					walk(v.Field(i), at+"."+v.Type().Field(i).Name)
				}
			case reflect.Slice:
				if v.Cap() == 0 || v.Type() == reflect.TypeOf(r.Inputs) {
					return
				}
				seen[v.Pointer()] = at
				for i := range v.Len() {
					walk(v.Index(i), fmt.Sprintf("%s[%d]", at, i))
				}
			case reflect.Map:
				if v.IsNil() {
					return
				}
				seen[v.Pointer()] = at
				for _, k := range v.MapKeys() {
					if e := v.MapIndex(k); e.Kind() == reflect.Pointer || e.Kind() == reflect.Map {
						walk(e, fmt.Sprintf("%s[%v]", at, k))
					}
				}
			}
		}
		walk(reflect.ValueOf(r).Elem(), "run")
		return seen
	}
	one, two := collect(a), collect(b)
	for p, at := range one {
		if other, shared := two[p]; shared {
			t.Errorf("%s and the clone's %s are the same", at, other)
		}
	}
}
