package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"

	"github.com/superstep-dev/superstep/graph/reduce"
	"github.com/superstep-dev/superstep/internal/pregel"
)

// The engine below the exported types is compiled once for all of them. It holds a state as a *S
// and an update as a U, each in an any, and what it needs to know of the two types are the functions
// of types. A state behind such a pointer has one owner, which alone may fold into it.
type (
	machine = pregel.Machine[any, any, message]
	result  = pregel.Result[any, message]
)

// types is the part of the engine that depends on S and U.
type types struct {
	state, update reflect.Type
	fold          func(state, update any)
	set           func(to, from any) // copies a state
	clip          func(state any)    // takes away its spare capacity; nil if it has none, see reduce.Clipper
	value         func(state any) any
	check         func(state any) error   // nil for none
	writes        func(update any) uint64 // see reduce.Tagged; nil for a reducer that is a function
	names         func(uint64) []string   // of the fields in what writes returns
	smallState    detacher                // nil if no part of a state is recorded as bytes
	smallUpdate   detacher
}

// A giving gives states to the functions of a user.
type giving[S any] struct {
	clip func(S) S // see reduce.Clipper
}

func clipping[S any]() giving[S] { return giving[S]{reduce.Clipper[S]()} }

// of returns a state for a function that may append to its slices.
func (g giving[S]) of(state any) S {
	s := *state.(*S) //nolint:forcetypeassert,errcheck // a state is a *S
	if g.clip != nil {
		s = g.clip(s)
	}
	return s
}

// of returns an update. A nil one of an interface type is an any that is nil.
func of[U any](update any) U {
	u, _ := update.(U)
	return u
}

func typesOf[S, U any](fold func(S, U) S, give giving[S]) types {
	k := types{state: reflect.TypeFor[S](), update: reflect.TypeFor[U](), smallState: detaching[S](), smallUpdate: detaching[U]()}
	if fold != nil {
		k.fold = func(state, update any) {
			s := state.(*S) //nolint:forcetypeassert,errcheck // see above
			*s = fold(*s, of[U](update))
		}
	}
	k.set = func(to, from any) { *to.(*S) = *from.(*S) } //nolint:forcetypeassert,errcheck // see above
	k.value = func(state any) any { return give.of(state) }
	if give.clip != nil {
		k.clip = func(state any) {
			s := state.(*S) //nolint:forcetypeassert,errcheck // see above
			*s = give.clip(*s)
		}
	}
	return k
}

// erase returns a node as the engine runs it.
func erase[S, U any](n *Node[S, U], give giving[S]) Node[any, any] {
	e := Node[any, any]{Name: n.Name, Retry: n.Retry, Timeout: n.Timeout, OnError: n.OnError, Join: n.Join, Version: n.Version, Reads: n.Reads, Sends: n.Sends,
		Output: n.Output, Most: n.Most, Agents: n.Agents, Kind: n.Kind, Sub: n.Sub, Inner: n.Inner, Uses: n.Uses, UsesAny: n.UsesAny, Child: n.Child, Err: n.Err}
	if run := n.Run; run != nil {
		e.Run = func(ctx context.Context, t *Task, s any) (any, error) { return run(ctx, t, give.of(s)) }
	}
	if instead := n.Instead; instead != nil {
		e.Instead = func(s any, err error) any { return instead(give.of(s), err) }
	}
	if in := n.Input; in != nil {
		e.Input = &Input[any]{Schema: in.Schema, From: in.From}
		if in.Of != nil {
			e.Input.Of = func(s any) (any, error) { return in.Of(give.of(s)) }
		}
	}
	if c := n.Cache; c != nil {
		e.Cache = &Caching[any]{TTL: c.TTL}
		if c.Key != nil {
			e.Cache.Key = func(s any) any { return c.Key(give.of(s)) }
		}
	}
	return e
}

// newState returns the zero state.
func (k *types) newState() any { return reflect.New(k.state).Interface() }

// copied returns a state of its own.
func (k *types) copied(state any) any {
	s := k.newState()
	k.set(s, state)
	return s
}

// apart returns a state that can be folded beside another one.
func (k *types) apart(state any) any {
	s := k.copied(state)
	if k.clip != nil {
		k.clip(s)
	}
	return s
}

// folded folds an update into a state.
func (k *types) folded(state, update any) any {
	k.fold(state, update)
	return state
}

// reduced returns a new state with an update folded in.
func (k *types) reduced(state, update any) any {
	s := k.copied(state)
	k.fold(s, update)
	return s
}

func (f *core) reduce(state, update any) any { return f.types.reduced(state, update) }

// Reduce returns a state with an update folded in, as a run folds it, for tests of the reducer.
func (f *Flow[S, U]) Reduce(state S, update U) S {
	return *f.engine.reduce(&state, update).(*S) //nolint:forcetypeassert,errcheck // a state is a *S
}

// pointer returns a pointer to an update.
func (k *types) pointer(update any) any {
	p := reflect.New(k.update)
	if update != nil {
		p.Elem().Set(reflect.ValueOf(update))
	}
	return p.Interface()
}

// readState decodes a state. On error it returns what had been decoded.
func (k *types) readState(data []byte, strict bool) (any, error) {
	s := k.newState()
	return s, decode(data, s, strict)
}

// readUpdate is readState for an update.
func (k *types) readUpdate(data []byte, strict bool) (any, error) {
	p := reflect.New(k.update)
	err := decode(data, p.Interface(), strict)
	return p.Elem().Interface(), err
}

func decode(data []byte, into any, strict bool) error {
	if !strict {
		return json.Unmarshal(data, into)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields() // what the type has no place for would be lost
	return d.Decode(into)
}
