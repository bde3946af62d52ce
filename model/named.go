package model

import (
	"context"
	"errors"
	"iter"
)

// Named returns a model that has a name and generates nothing, for a replay, which asks no model.
func Named(name string) Model { return named(name) }

type named string

func (n named) Name() string { return string(n) }

func (n named) Generate(context.Context, *Request) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		yield(Part{}, errors.New("a replay asks no model"))
	}
}
