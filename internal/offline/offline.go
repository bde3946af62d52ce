// Package offline is a model that needs no key and no network. It acts as an agent that searches,
// reads and quotes: it answers with passages of documents, verbatim and each with its location. It
// writes neither prose nor code, and makes no judgements.
//
// It parses a prompt into a question and material, such as the outputs of earlier steps: text
// between tags or fences, below a line that ends with a colon, or in the form of passages. If there
// is material, it keeps the quotes in it, in their order and each once. Otherwise it reads the
// files that the prompt names, or searches with the tools search_docs or grep and read_file. It
// calls no other tool. Instructions in documents and material are quoted and never obeyed.
//
// Anything that needs more is a [*CannotError]; [Quotable] detects this before anything runs. The
// same request always has the same answer.
package offline

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/superstep-dev/superstep/model"
)

// Name is what users call the model by.
const Name = "offline"

// New returns the model.
func New() model.Model { return offline{} }

type offline struct{}

func (offline) Name() string { return Name }

// Price returns a price of zero.
func (offline) Price() (model.Price, bool) { return model.Price{}, true }

// A CannotError reports that a request needs more than quoting.
type CannotError struct {
	At  string // the place in the answer, as "findings/severity"; "" for the whole of it
	Why string // such as "is a number, which takes judgement"
}

func (e *CannotError) Error() string {
	at := "the answer"
	if e.At != "" {
		at = fmt.Sprintf("%q", e.At)
	}
	return fmt.Sprintf("the model offline only quotes documents: %s %s; this needs a language model, see superstep models list", at, e.Why)
}

// Unwrap returns the error as all models return it.
func (e *CannotError) Unwrap() error { return failure(e.Why) }

func failure(why string) *model.Error {
	return &model.Error{Provider: Name, Model: Name, Code: model.CodeRequest, Err: errors.New(why)}
}

func (offline) Generate(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(model.Part{}, err)
			return
		}
		parts, err := turn(req)
		if err != nil {
			yield(model.Part{}, err)
			return
		}
		usage, stop := model.Usage{In: size(req)}, model.StopEnd
		for _, p := range parts {
			if p.Kind == model.ToolCall {
				stop = model.StopCalls
				usage.Out += len(p.Call.Args) / 4
			}
			usage.Out += len(p.Text) / 4
			if !yield(p, nil) {
				return
			}
		}
		if yield(model.Part{Kind: model.UsagePart, Usage: &usage}, nil) {
			yield(model.Part{Kind: model.Stop, Stop: stop}, nil)
		}
	}
}

// size estimates the tokens of a request, at four bytes each.
func size(req *model.Request) int {
	n := len(req.System)
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			n += len(p.Text)
			if p.Call != nil {
				n += len(p.Call.Args)
			}
		}
	}
	return n / 4
}
