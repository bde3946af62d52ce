package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/journal"
)

// SchemaOf returns the schema of a T as the answer of an agent. T encodes as a JSON object, since providers want one.
func SchemaOf[T any]() (*jsonschema.Schema, error) {
	schema, err := jsonschema.For[T](nil)
	if err == nil && schema.Type != "object" {
		err = fmt.Errorf("an answer is a JSON object, and a %s is none; use a struct with a field for it", reflect.TypeFor[T]())
	}
	return schema, err
}

// Typed runs an agent, as RunAgain does, and returns its answer as a T. The answer must satisfy the Schema of the agent, by default that of T, and pass the
// checks, which are pure functions. If it does not, the agent is told why and asked again, at most Again times; then the error is *UnfitError.
// The agent must have no Finish tool. Turns are effects of the task: after a crash, none that is recorded is taken again.
func Typed[T any](ctx context.Context, scope *journal.Scope, a *Agent, w *Work, check ...func(T) error) (answer T, out *Outcome, err error) {
	own := *a
	if a.Finish != "" {
		return answer, nil, fmt.Errorf("agent %s: its tool %s gives the result; leave Finish out for an answer with a type", a.Name, a.Finish)
	}
	if own.Schema == nil {
		if own.Schema, err = SchemaOf[T](); err != nil {
			return answer, nil, fmt.Errorf("agent %s: %w", a.Name, err)
		}
	}
	own.check = func(text json.RawMessage) error {
		answer = *new(T)
		if err := json.Unmarshal(text, &answer); err != nil {
			return strict.Words(text, err)
		}
		wrong := error(nil)
		for _, c := range check {
			wrong = errors.Join(wrong, c(answer))
		}
		return wrong
	}
	if out, err = own.RunAgain(ctx, scope, w); err != nil {
		answer = *new(T)
	}
	return answer, out, err
}

// RunAgain is Run for a task that may be run again. A recorded conversation that ended without a result, for lack of turns or
// of a valid answer, would do so again, so RunAgain begins another one.
func (a *Agent) RunAgain(ctx context.Context, scope *journal.Scope, first *Work) (*Outcome, error) {
	for round := 1; ; round++ {
		w := *first
		if round > 1 {
			w.Key = strings.TrimPrefix(fmt.Sprintf("%s/again-%d", first.Key, round), "/")
		}
		spent := &journal.Effect{Key: strings.TrimPrefix(w.Key+"/spent", "/"), Kind: "limit", Name: a.Name, Inside: true}
		spent.Do = func(context.Context, string) (json.RawMessage, error) { return nil, unspent{} }
		if _, err := scope.Do(ctx, spent); err == nil {
			continue
		} else if !errors.Is(err, unspent{}) {
			return nil, err
		}
		out, err := a.Run(ctx, scope, &w)
		var limit *LimitError
		var unfit *UnfitError
		if errors.As(err, &limit) || errors.As(err, &unfit) {
			spent.Do = func(context.Context, string) (json.RawMessage, error) { return json.RawMessage("true"), nil }
			if _, serr := scope.Do(ctx, spent); serr != nil {
				return out, errors.Join(err, serr)
			}
		}
		return out, err
	}
}

// unspent reports that an effect is not in the log. It waits, so that asking leaves no trace there.
type unspent struct{}

func (unspent) Error() string { return "it is not recorded" }

// Waits reports that nothing has failed.
func (unspent) Waits() bool { return true }
