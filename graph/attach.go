package graph

import "errors"

// An Attacher is a state or an update of type T of which a part is recorded beside its JSON, as bytes, since it is large and no text. Its methods have
// pointer receivers. Nothing searches the bytes for secrets: whoever makes them uses Clean of journal.Scope.
type Attacher[T any] interface {
	// Detach returns the value without that part, and the part: no bytes if there is nothing. It may be called several times.
	Detach() (T, []byte, error)
	// Attach puts the part back into what Detach returned.
	Attach(part []byte) error
}

func detach[T any](v *T) (T, []byte, error) {
	if a, ok := any(v).(Attacher[T]); ok {
		return a.Detach()
	}
	return *v, nil, nil
}

func attach[T any](v *T, part []byte) error {
	if len(part) == 0 {
		return nil
	}
	if a, ok := any(v).(Attacher[T]); ok {
		return a.Attach(part)
	}
	return errors.New("a part of it was recorded as bytes, for which the type has no place any more")
}
