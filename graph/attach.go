package graph

import (
	"errors"
	"reflect"
)

// An Attacher is a state or an update of type T of which a part is recorded beside its JSON, as bytes, since it is large and no text. Its methods have
// pointer receivers. Nothing searches the bytes for secrets: whoever makes them uses Clean of journal.Scope.
type Attacher[T any] interface {
	// Detach returns the value without that part, and the part: no bytes if there is nothing. It may be called several times.
	Detach() (T, []byte, error)
	// Attach puts the part back into what Detach returned.
	Attach(part []byte) error
}

// A detacher calls Detach of what p points to, and returns a pointer too.
type detacher func(p any) (small any, part []byte, err error)

// detaching returns the detacher of a type, or nil if the type is no Attacher.
func detaching[T any]() detacher {
	if _, ok := any((*T)(nil)).(Attacher[T]); !ok {
		return nil
	}
	return func(p any) (any, []byte, error) {
		small, part, err := p.(Attacher[T]).Detach() //nolint:forcetypeassert,errcheck // see above
		return &small, part, err
	}
}

// detachState takes off the part of a state that is recorded as bytes.
func (k *types) detachState(state any) (any, []byte, error) {
	if k.smallState == nil {
		return state, nil, nil
	}
	return k.smallState(state)
}

// detachUpdate is detachState for an update.
func (k *types) detachUpdate(update any) (any, []byte, error) {
	if k.smallUpdate == nil {
		return update, nil, nil
	}
	small, part, err := k.smallUpdate(k.pointer(update))
	return reflect.ValueOf(small).Elem().Interface(), part, err
}

// attachState puts the part back into a state.
func (k *types) attachState(state any, part []byte) error { return attach(k.smallState, state, part) }

// attachUpdate returns an update with its part.
func (k *types) attachUpdate(update any, part []byte) (any, error) {
	if len(part) == 0 {
		return update, nil
	}
	p := k.pointer(update)
	err := attach(k.smallUpdate, p, part)
	return reflect.ValueOf(p).Elem().Interface(), err
}

func attach(has detacher, p any, part []byte) error {
	if len(part) == 0 {
		return nil
	}
	if a, ok := p.(interface{ Attach(part []byte) error }); ok && has != nil {
		return a.Attach(part)
	}
	return errors.New("a part of it was recorded as bytes, for which the type has no place any more")
}
