package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/model"
)

// An UnfitError reports that the answer of an agent did not fit its Schema, even after being asked again.
type UnfitError struct {
	Agent string
	Tries int   // how often it was asked
	Err   error // what is wrong with the last of it
}

func (e *UnfitError) Error() string {
	times := ""
	if e.Tries > 1 {
		times = fmt.Sprintf(", %d times over", e.Tries)
	}
	return fmt.Sprintf("agent %s: what it gave is not what was asked for%s: %v; use a stronger model, or a simpler schema", e.Agent, times, e.Err)
}

// Unwrap returns what is wrong.
func (e *UnfitError) Unwrap() error { return e.Err }

// fits accepts the text of the nth turn as a result, or asks for another.
func (r *run) fits(ctx context.Context, n int, text string) (bool, error) {
	text = unfenced(text)
	err := r.unfitting(text)
	if err != nil {
		inside, found := r.inside(text)
		if key := turnKey(r.prefix, n) + "/within"; r.scope.Does(key, found) { // older logs asked again
			if err := r.mark(ctx, key, "note", note{r.Model.Name() + " wrote more than its result, which is taken"}); err != nil {
				return false, err
			}
			text, err = inside, nil
		}
	}
	if err == nil {
		r.out.Args = json.RawMessage(text)
		return true, nil
	}
	if r.again++; r.again > max(0, cmp.Or(r.Again, 2)) {
		return false, &UnfitError{r.Name, r.again, err}
	}
	r.turns++ // asking again is no turn of its own
	r.add(model.UserText(fmt.Sprintf("Your answer cannot be used: %v\nGive it again as JSON that fits the schema, and say nothing else.", err)))
	return false, nil
}

// unfitting returns why a text is no result, nil if it is one.
func (r *run) unfitting(text string) error {
	err := strict.CheckJSON(r.Schema, text)
	if err == nil && r.check != nil {
		err = r.check(json.RawMessage(text))
	}
	return err
}

// mostBraces is how many braces of an answer are looked at.
const mostBraces = 1000

// inside returns the last object in an answer that is a result.
func (r *run) inside(text string) (result string, found bool) {
	for i, n := 0, 0; i < len(text) && n < mostBraces; n++ {
		at := strings.IndexByte(text[i:], '{')
		if at < 0 {
			break
		}
		i += at
		var v json.RawMessage
		if json.NewDecoder(strings.NewReader(text[i:])).Decode(&v) != nil {
			i++
			continue
		}
		if r.unfitting(string(v)) == nil {
			result, found = string(v), true
		}
		i += len(v)
	}
	return result, found
}

// unfenced removes the code fence that models often put around JSON.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	rest, ok := strings.CutPrefix(text, "```")
	if !ok {
		return text
	}
	inner, ok := strings.CutSuffix(rest, "```")
	if word, body, found := strings.Cut(inner, "\n"); ok && found && (word == "" || strings.EqualFold(strings.TrimSpace(word), "json")) {
		return strings.TrimSpace(body)
	}
	return text
}
