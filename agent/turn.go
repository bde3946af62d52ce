package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/hook"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

// Ask performs one model turn for a task that is not an agent, such as a choice or a summary. Like a turn of an agent, it is an effect in the log and
// counts toward the budget of the run: its possible cost is reserved before it begins (*runlog.BudgetError if too little is left) and replaced by the
// actual cost. The key names the turn within the task. If the answer cannot be read, the model is told so, at most twice.
func Ask(ctx context.Context, scope *journal.Scope, m model.Model, key string, req *model.Request) (resp *model.Response, err error) {
	free, err := scope.Use("turn", key)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			free()
		}
	}()
	r := &run{Agent: &Agent{Name: scope.Path(), Model: m}, scope: scope.Reuse(), work: &Work{}, quiet: true}
	r.out.Messages = slices.Clone(req.Messages)
	if err := r.unpricedTurn(ctx, key); err != nil {
		return nil, err
	}
	defer r.rise()
	told, err := r.retell(ctx, key)
	for err == nil {
		turn := *req
		turn.Messages = r.out.Messages
		resp, failed := r.ask(ctx, ctx, key, &turn, "")
		if !unreadable.is(failed) {
			return resp, failed
		}
		told++
		var again bool
		if again, err = r.complain(ctx, key, told, failed); !again {
			return nil, errors.Join(err, failed)
		}
	}
	return nil, err
}

// sit waits for a seat among the running agents of the run, unless the agent has one.
func (r *run) sit(ctx context.Context) error {
	if r.leave != nil {
		return nil
	}
	leave, ok, err := r.scope.Sit(ctx, r.work.Stopped)
	if err == nil && !ok {
		err = pregel.ErrStopped
	}
	if err != nil {
		return err
	}
	r.seat.Lock()
	defer r.seat.Unlock()
	r.leave = leave
	return nil
}

// rise releases the seat until the next turn. It may be called from several goroutines.
func (r *run) rise() {
	r.seat.Lock()
	defer r.seat.Unlock()
	if r.leave != nil {
		r.leave()
		r.leave = nil
	}
}

// Summarize asks a model to summarize a conversation, in the same way as [Ask]. An incomplete summary is an error.
func Summarize(ctx context.Context, scope *journal.Scope, m model.Model, key string, messages []model.Message) (model.Message, error) {
	req := &model.Request{System: summaryPrompt, Messages: []model.Message{model.UserText(written(messages, math.MaxInt))}}
	resp, err := Ask(ctx, scope, m, key, req)
	if err != nil {
		return model.Message{}, fmt.Errorf("summing the conversation up: %w", err)
	}
	sum, whole := summary(resp)
	if !whole {
		return sum, fmt.Errorf("summing the conversation up: %s gave no whole summary (stop: %s)", m.Name(), resp.Stop)
	}
	return sum, nil
}

// summary returns the message that replaces the summarized ones, and reports whether the summary is complete.
func summary(resp *model.Response) (model.Message, bool) {
	sum := resp.Message.Text()
	return model.UserText("What came before, summed up:\n\n" + sum), sum != "" && resp.Stop != model.StopLength && resp.Stop != model.StopFilter
}

// A cutError is the failure of a turn that had already produced some output.
type cutError struct {
	error
	part model.Response
}

func (e *cutError) Unwrap() error { return e.error }

// Partial returns the partial turn in the format of the effect's output.
func (e *cutError) Partial() json.RawMessage {
	b, _ := json.Marshal(e.part)
	return b
}

// brokenOff is the end of the conversation's part of a turn that a user broke off. A user and a model read it.
const brokenOff = "\n\n*(broken off)*"

// A brokenError ends a turn that a user broke off, with its outcome.
type brokenError struct {
	error
	turn any // a model.Response, or the step of an external agent
	by   []string
}

// Interrupted implements an interface of package journal.
func (e *brokenError) Interrupted() (output json.RawMessage, by []string) {
	b, _ := json.Marshal(e.turn)
	return b, e.by
}

// broken reports whether a user has broken off a turn.
func broken(turn context.Context) bool { return errors.Is(context.Cause(turn), mail.ErrInterrupted) }

// breaks returns the error of a turn that a user broke off. Calls that the model had begun are not among what it said.
func (r *run) breaks(said model.Response) error {
	said.Stop, said.Message.Role = mail.StopInterrupted, model.Assistant
	said.Message.Parts = append(said.Message.Parts, model.Part{Kind: model.Text, Text: brokenOff})
	return &brokenError{mail.ErrInterrupted, said, r.by()}
}

// reckon completes the usage of a turn that did not end, whose provider may not have told it.
func (r *run) reckon(said *model.Response, req *model.Request) {
	said.Usage.In, said.Usage.Out = cmp.Or(said.Usage.In, r.tokens(req)), max(said.Usage.Out, size(said.Message)/bytesPerToken)
}

// whatNow ends a turn that a user broke off: the agent continues with what the user has said meanwhile, or else is told now, or ends.
func (r *run) whatNow(ctx context.Context) (done bool, err error) {
	r.turns = max(r.turns, r.out.Turns+1)
	r.out.Stop = StopCut
	if r.work.Listens || r.Headless || r.scope.Run() == "" {
		return true, nil // and yet it hears what was said, see Run
	}
	if more, err := r.heed(ctx, r.out.Turns, r.last); more || err != nil {
		return false, err
	}
	q := &runlog.Question{
		Key: fmt.Sprintf("%sinterrupted-%d", r.prefix, r.out.Turns), Kind: runlog.QuestionAsk, Agent: r.Name,
		Text: "You interrupted " + r.Name + ". What is it to do now? If you deny this, it ends with what it has.",
	}
	r.rise()
	answer, err := r.scope.Ask(ctx, q)
	if errors.Is(err, journal.ErrDenied) {
		return true, nil
	}
	var text string
	if err == nil {
		err = json.Unmarshal(answer, &text)
	}
	if err != nil {
		return false, err
	}
	r.know(text)
	r.add(model.UserText(text))
	return false, nil
}

// heard collects what a model says in a turn, for the case that the turn fails.
type heard struct {
	said  model.Response // but for what is in text
	kind  model.PartKind // of text
	text  strings.Builder
	count int // parts of text and reasoning, and usages
}

func (h *heard) add(p model.Part) {
	switch {
	case p.Kind == model.UsagePart && p.Usage != nil:
		h.said.Usage = h.said.Usage.Add(*p.Usage)
	case p.Kind == model.Text || p.Kind == model.Reasoning:
		if p.Kind != h.kind {
			h.flush()
			h.kind = p.Kind
		}
		h.text.WriteString(p.Text)
	default:
		return
	}
	h.count++
}

func (h *heard) flush() {
	if h.text.Len() > 0 {
		h.said.Message.Role = model.Assistant
		h.said.Message.Parts = append(h.said.Message.Parts, model.Part{Kind: h.kind, Text: h.text.String()})
		h.text.Reset()
	}
}

// delta is a live-only event: a piece of what the model is saying.
type delta struct {
	Agent string `json:"agent"`
	Text  string `json:"text"`
}

// retry is a live-only event: the model waits to ask its provider again.
type retry struct {
	Attempt int       `json:"attempt"` // which failed
	Until   time.Time `json:"until"`
	Limited string    `json:"limited,omitempty"` // the provider, if it is a rate limit
	Error   string    `json:"error"`
}

func (r *run) retrying(attempt int, failed *model.Error, wait time.Duration) {
	if r.Clock == nil {
		return
	}
	e := retry{Attempt: attempt, Until: r.Clock.Now().Add(wait).UTC(), Error: failed.Error()}
	if limited.is(r.classify(failed, 0)) {
		e.Limited, _, _ = strings.Cut(r.Model.Name(), "/")
	}
	r.scope.Live("model.retry", e)
}

// ask gets a turn from the model, or from the log if it is recorded. It waits for rate limits to pass. The context turn is ctx, or ends when a user
// interrupts the turn.
func (r *run) ask(ctx, turn context.Context, key string, asked *model.Request, hint string) (*model.Response, error) {
	bare := *asked
	req := &bare
	req.Messages = slices.Clone(req.Messages)
	for i := range req.Messages {
		req.Messages[i].ID = ""
	}
	hash, err := journal.Hash(struct {
		System   string
		Messages []model.Message
		Choice   string
		Schema   *jsonschema.Schema `json:",omitempty"`
	}{req.System, req.Messages, req.Choice, req.Schema})
	if err != nil {
		return nil, err
	}
	effect := &journal.Effect{
		Key: key, Kind: "model", Name: r.Model.Name(), Repeat: journal.RepeatByKey, Hash: hash,
		Hint: hint, Cost: r.estimate(req), Spent: r.spent,
	}
	r.broke = turn.Done()
	had, err := r.rest(ctx, key)
	if err != nil {
		return nil, err
	}
	for {
		if !broken(turn) {
			if known, err := r.obey(ctx, key, had.limits+1); err != nil {
				return nil, err
			} else if known {
				had.limits++
				continue
			}
		}
		if err := r.sit(turn); err != nil && !broken(turn) {
			return nil, err
		}
		resp, err := journal.Do(ctx, r.scope, effect, func(ctx context.Context, key string) (*model.Response, error) {
			keyed := *req
			keyed.Key = key
			keyed.Trace = r.scope.Traceparent(effect.Key)
			var origin model.Origin
			keyed.Answered = func(o model.Origin) { origin = o }
			retries, trouble := 0, ""
			keyed.Retrying = func(failed *model.Error, wait time.Duration) {
				retries, trouble = retries+1, failed.Error()
				r.retrying(retries, failed, wait)
			}
			keyed.Messages = slices.Clone(req.Messages)
			var sofar heard
			begun := false
			if broken(turn) {
				return nil, r.breaks(sofar.said)
			}
			resp, err := hook.Model(turn, r.at(r.Model.Name()), &keyed, func(ctx context.Context, req *model.Request) (*model.Response, error) {
				return model.Collect(r.Model.Generate(ctx, req), func(p model.Part) {
					if output := p.Kind != model.UsagePart && p.Kind != model.Stop; output && !begun {
						begun = true
						r.scope.First(effect.Key)
					}
					if sofar.add(p); !r.quiet && (p.Kind == model.Text || p.Kind == model.Reasoning) {
						r.scope.Live(string(p.Kind), delta{r.Name, p.Text})
					}
				})
			})
			if sofar.flush(); err != nil && broken(turn) {
				r.reckon(&sofar.said, req)
				return nil, r.breaks(sofar.said)
			}
			if err != nil && sofar.count > 0 {
				r.reckon(&sofar.said, req)
				err = &cutError{err, sofar.said}
			}
			if resp != nil {
				resp.Origin, resp.Retries, resp.Trouble = origin, retries, trouble
			}
			return resp, r.classify(err, had.breaks)
		})
		if err == nil || ctx.Err() != nil {
			return resp, err
		}
		if again, werr := r.pause(ctx, key, &had, err); werr != nil {
			return nil, werr
		} else if !again {
			return nil, err
		}
	}
}
