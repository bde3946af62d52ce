package distil

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/superstep-dev/superstep/internal/recipe"
)

// Options are the settings of Distil. Nil means the defaults.
type Options struct {
	Run  string // the ID of the run, for the comment that says what the recipe is from
	Name string // of the recipe; defaults to one made of the title of the run
	// Loose keeps steps whose texts paraphrase earlier results. The recipe is then a draft, and is marked as one.
	Loose bool
	// Synthesizer is the agent for the last answer if the lead gave that answer itself. The default
	// is "synthesizer".
	Synthesizer string
}

// A Made is a recipe that was made from a run and proven.
type Made struct {
	Name   string
	Text   []byte // of the file
	Recipe *recipe.Recipe
	Steps  int      // those inside of others too
	Cut    []Cut    // what the run did and the recipe does not
	Loose  []Reason // the steps that are not proven word for word; only with Options.Loose
	Notes  []string // what else people should know of it, each in a line
}

// A Cut is a piece of the run's work that did not become a step of the recipe.
type Cut struct {
	What string `json:"what"` // "agent researcher"
	Path string `json:"path"` // where it is in the log
	Why  string `json:"why"`
}

// A Reason is why a step is not proven word for word.
type Reason struct {
	Step string `json:"step"`
	Path string `json:"path"`
	Why  string `json:"why"`
}

// A RewrittenError names the steps whose prompts paraphrase earlier results. No template can
// produce such a text.
type RewrittenError struct{ Steps []Reason }

func (e *RewrittenError) Error() string {
	var b strings.Builder
	b.WriteString("what was asked in this run cannot be asked again with other inputs, since results were rewritten in other words before they were passed on:")
	for _, s := range e.Steps {
		fmt.Fprintf(&b, "\n  step %s (%s): %s", s.Step, s.Path, s.Why)
	}
	return b.String()
}

// FailureCode returns the code for programs.
func (e *RewrittenError) FailureCode() string { return "not_proven" }

// A RedactedError reports that a recipe would need a text that was redacted from the log as a
// secret.
type RedactedError struct{ Line int }

func (e *RedactedError) Error() string {
	return fmt.Sprintf("line %d of the recipe has a mark in it where a secret was taken out of the log; a recipe with that would not do what "+
		"the run did; take a run without secrets in its prompts", e.Line)
}

// FailureCode returns the code for programs.
func (e *RedactedError) FailureCode() string { return "redacted" }

// mark matches the placeholder for redacted text in logs.
var mark = regexp.MustCompile(`\[redacted(:[^\]\n]*)?\]`)

// Distil creates a recipe from a run and proves it. It returns an *UnfitError, *RewrittenError,
// *RedactedError or *ProofError, or the mistakes in the text as recipe.Problems.
func Distil(ctx context.Context, rec *Recording, opt *Options) (*Made, error) {
	o := Options{}
	if opt != nil {
		o = *opt
	}
	if o.Name == "" {
		o.Name = Slug(rec.started.Title, 40)
	}
	if o.Name == "" {
		o.Name = "distilled"
	}
	first, err := begin(rec, &o, nil)
	if err != nil {
		return nil, err
	}
	why := ""
	for _, folds := range choices(findFolds(first)) {
		made, err := attempt(ctx, rec, &o, folds)
		if err == nil || ctx.Err() != nil {
			return made, err
		}
		why = err.Error()
	}
	made, err := attempt(ctx, rec, &o, nil)
	if err == nil && why != "" {
		made.Notes = append(made.Notes, "the same was done for each item of a list, but a foreach of that is not proven, so the steps stand by themselves: "+
			line(why, 300))
	}
	return made, err
}

// choices returns the sets of folds to try, the largest first.
func choices(folds []*fold) [][]*fold {
	var out [][]*fold
	if len(folds) > 1 {
		out = append(out, folds)
	}
	for _, f := range folds {
		if len(out) < 8 {
			out = append(out, []*fold{f})
		}
	}
	return out
}

func attempt(ctx context.Context, rec *Recording, opt *Options, folds []*fold) (*Made, error) {
	p, err := draft(rec, opt, folds)
	if err != nil {
		return nil, err
	}
	return prove(ctx, p)
}

// prove writes the recipe and runs it against the recording.
func prove(ctx context.Context, p *plan) (*Made, error) {
	text := []byte(p.yaml())
	if at := mark.FindIndex(text); at != nil {
		return nil, &RedactedError{1 + strings.Count(string(text[:at[0]]), "\n")}
	}
	made := &Made{Name: p.opt.Name, Text: text, Steps: p.size(), Cut: p.cut, Notes: p.notes}
	for _, s := range p.steps {
		if s.why != "" {
			made.Loose = append(made.Loose, Reason{s.id, s.unit.path, s.why})
		}
	}
	var err error
	made.Recipe, err = newProof(p).run(ctx, text)
	if err != nil {
		return nil, err
	}
	return made, nil
}
