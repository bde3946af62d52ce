package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// A Question is a node's question to a user; see [Ask]. Only its Text is required. If a node asks
// several, each needs a Key of its own, which names it within its task.
type Question = runlog.Question

// Ask returns the answer to a question. The context must be the node's. Until the user answers, Ask returns
// an error that the node must return, wrapped or not, or else it fails: the run continues with its other tasks and then pauses,
// see [Paused]. With the answer the node is run again from its top; earlier side effects that must not be
// repeated belong in [Do].
//
// An answer is a T, or one of the question's Options if T is a string, or several of them if T is a list of
// strings; the Schema of the question overrides both. An answer that does not fit is refused, and the question
// stays open. If a check, a pure function, returns an error, the question is asked again, with that error.
//
// The Default of the question is the answer if the question is denied, or if the run has no log. Without one
// these are errors, [journal.ErrDenied] and [journal.ErrNoLog].
func Ask[T any](ctx context.Context, q Question, check ...func(T) error) (answer T, err error) {
	s, err := scopeOf(ctx)
	if err != nil {
		return answer, fmt.Errorf("question %q: %w", cmp.Or(q.Key, q.Text), err)
	}
	q.Key = cmp.Or(q.Key, "answer")
	if err := offer[T](&q); err != nil {
		return answer, fmt.Errorf("question %q: %w", cmp.Or(q.Key, q.Text), err)
	}
	key, text := q.Key, q.Text
	for round := 2; ; round++ {
		if _, err := s.Use("question", q.Key); err != nil {
			return answer, err
		}
		given, err := s.Ask(ctx, &q)
		if len(q.Default) > 0 && (errors.Is(err, journal.ErrDenied) || errors.Is(err, journal.ErrNoLog)) {
			given, err = q.Default, nil
		}
		if err != nil {
			return answer, err
		}
		answer = *new(T)
		if err := json.Unmarshal(given, &answer); err != nil {
			return answer, fmt.Errorf("the answer to %q: %w", text, err)
		}
		wrong := error(nil)
		for _, c := range check {
			wrong = errors.Join(wrong, c(answer))
		}
		if wrong == nil {
			return answer, nil
		}
		if s.Run() == "" {
			return answer, fmt.Errorf("the default of %q: %w", text, wrong)
		}
		q.Key = fmt.Sprintf("%s-%d", key, round)
		q.Text = fmt.Sprintf("%s\n(The last answer will not do: %v)", text, wrong)
	}
}

// offer creates the schema of a question that has none, from its options or the type of its answer.
func offer[T any](q *Question) error {
	for o := range q.About {
		if !slices.Contains(q.Options, o) {
			return fmt.Errorf("it describes %q, which is none of its options", o)
		}
	}
	typ := reflect.TypeFor[T]()
	var schema *jsonschema.Schema
	switch {
	case len(q.Schema) > 0 || typ == reflect.TypeFor[json.RawMessage]():
		return nil
	case len(q.Options) == 0:
		var err error
		if schema, err = jsonschema.For[T](nil); err != nil {
			return err
		}
	case typ.Kind() == reflect.String:
		return nil // the options decide
	case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.String:
		one := &jsonschema.Schema{Type: "string"}
		for _, o := range q.Options {
			one.Enum = append(one.Enum, o)
		}
		schema = &jsonschema.Schema{Type: "array", Items: one, UniqueItems: true}
	default:
		return fmt.Errorf("it has options, but its answer is of type %s; use a string, or a list of strings to choose several", typ)
	}
	var err error
	q.Schema, err = json.Marshal(schema)
	return err
}
