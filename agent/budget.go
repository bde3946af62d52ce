package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

const (
	bytesPerToken = 4    // of text, for what a request is going to read
	outputTokens  = 1024 // of a turn whose output nobody bounds
)

func turnKey(prefix string, turn int) string { return fmt.Sprintf("%sturn-%d", prefix, turn) }

// hint returns the hint to wrap up if a limit of the run is near and the agent has not had the hint yet. A turn that has already begun gets the same
// hint again, whatever is left of the budget by now.
func (r *run) hint(key string) string {
	hint, begun := r.scope.Hint(key)
	if low := r.low(); !begun && low != "" {
		end := "give your result now"
		if r.Finish != "" {
			end = "call the tool " + r.Finish + " with your result now"
		}
		hint = fmt.Sprintf("Budget notice: this run has used %s. Wrap up: finish what you must, then %s.", low, end)
	}
	if hint != "" {
		r.warned = true
		r.add(model.UserText(hint))
	}
	return hint
}

func (r *run) low() string {
	if r.warned {
		return ""
	}
	return r.scope.Low()
}

// estimate returns what a turn is likely to cost. It may be too high or too low: the actual cost is
// known after the turn.
func (r *run) estimate(req *model.Request) runlog.Amount {
	out := req.MaxTokens
	if out <= 0 {
		out = outputTokens
	}
	return r.amount(model.Usage{In: r.tokens(req), Out: out})
}

// tokens returns about how many tokens a request has.
func (r *run) tokens(req *model.Request) int {
	bytes := len(req.System)
	for _, m := range req.Messages {
		bytes += size(m)
	}
	return bytes / bytesPerToken
}

// size returns how many bytes of a message a model reads.
func size(m model.Message) int {
	bytes := 0
	for _, p := range m.Parts {
		if bytes += len(p.Text); p.Call != nil {
			bytes += len(p.Call.Args)
		}
	}
	return bytes
}

// spent returns the actual cost of a turn.
func (r *run) spent(output json.RawMessage) runlog.Amount {
	var resp model.Response
	if json.Unmarshal(output, &resp) != nil {
		return r.amount(model.Usage{})
	}
	return r.amount(resp.Usage)
}

func (r *run) amount(u model.Usage) runlog.Amount {
	a := runlog.Amount{Tokens: int64(u.In) + int64(u.Out), Turns: 1}
	if p, known := price(r.Model); known {
		a.Money = p.Of(u)
	}
	return a
}

func price(m model.Model) (model.Price, bool) {
	if p, ok := m.(model.Priced); ok {
		return p.Price()
	}
	return model.Price{}, false
}

// unpriced notes that the limit on money cannot be enforced for the agent.
func (r *run) unpriced(ctx context.Context) error {
	return r.scope.Emit(ctx, "note", note{r.unpricedText("agent " + r.Name)})
}

// unpricedTurn works like unpriced, for a turn outside an agent.
func (r *run) unpricedTurn(ctx context.Context, key string) error {
	key += "/unpriced"
	_, priced := price(r.Model)
	if !r.scope.Does(key, !priced) || !r.scope.CountsMoney() {
		return nil
	}
	return r.mark(ctx, key, "note", note{r.unpricedText(r.Name)})
}

func (r *run) unpricedText(who string) string {
	if r.external() {
		return fmt.Sprintf("%s: what it costs is an estimate, and is known only as far as %s reports it; the limit on money may be exceeded", who, r.Model.Name())
	}
	return fmt.Sprintf("model %s tells no price: what %s costs is not counted, and the limit on money does not hold for it", r.Model.Name(), who)
}
