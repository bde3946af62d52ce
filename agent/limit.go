package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	effects "github.com/superstep-dev/superstep/internal/cut"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
)

// A Clock tells an agent the time: Clock{time.Now, time.After} outside of tests.
type Clock struct {
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
}

// RateLimits are the rate limits of models that agents know of. Its methods may be called from several goroutines.
type RateLimits interface {
	// Until returns when a limit of a model ends, zero if none is known.
	Until(ctx context.Context, model string) time.Time
	// Note notes when a limit of a model ends, as its provider said.
	Note(ctx context.Context, model string, until time.Time) error
}

const (
	mostBreaks = 3                // of one turn
	firstBreak = 2 * time.Second  // the wait behind the first, then twice as long each time
	mostPauses = 20               // of one turn
	firstPause = 10 * time.Second // where the provider does not say for how long; then twice as long each time
	longPause  = 10 * time.Minute
	lastPause  = 7 * 24 * time.Hour // what is asked for beyond that is a failure
)

// A turnError is a failed turn that the agent knows how to handle.
type turnError struct {
	kind  turnKind
	err   error
	after time.Duration // of one that was limited: as the provider said, 0 if it did not
}

// A turnKind describes how a turn failed. The error message begins with it, since a recorded failure has only its text.
type turnKind string

const (
	limited    turnKind = "rate limited: "               // the provider would not begin it yet
	tooLong    turnKind = "conversation too long: "      // the provider would not begin it
	unreadable turnKind = "answer that cannot be used: " // the model has got something wrong, such as a call whose arguments are no JSON
	brokeOff   turnKind = effects.BrokeOff               // the provider had begun it, and it is asked for again
)

func (e *turnError) Error() string { return string(e.kind) + e.err.Error() }

func (e *turnError) Unwrap() error { return e.err }

// Refused reports whether nothing was used.
func (e *turnError) Refused() bool { return e.kind == limited || e.kind == tooLong }

// is reports whether a turn failed in that way.
func (k turnKind) is(err error) bool {
	var e *turnError
	var was *journal.ReplayedError
	return errors.As(err, &e) && e.kind == k || errors.As(err, &was) && strings.HasPrefix(was.Text, string(k))
}

// mostUnreadable is how often per turn the model is told that its answer is unusable.
const mostUnreadable = 2

// complain tells the model for the kth time in a turn that its answer is unusable, or repeats the recorded complaint, and reports whether it did. If err
// is nil, it only repeats recorded complaints.
func (r *run) complain(ctx context.Context, turn string, k int, why error) (bool, error) {
	key := fmt.Sprintf("%s/unreadable-%d", turn, k)
	if _, told := r.scope.Done(key); k > mostUnreadable || !told && why == nil {
		return false, nil
	}
	e := &journal.Effect{Key: key, Kind: "note", Name: r.Model.Name()}
	text, err := journal.Do(ctx, r.scope, e, func(context.Context, string) (string, error) {
		return fmt.Sprintf("Your last answer could not be used: %v. Answer again. Give each tool call one complete JSON object as its arguments, "+
			"and if it was too long, do less at once.", errors.Unwrap(why)), nil
	})
	if err != nil {
		return false, err
	}
	r.add(model.UserText(text))
	return true, nil
}

// retell repeats the recorded complaints of a turn to the model, and returns their number.
func (r *run) retell(ctx context.Context, turn string) (told int, err error) {
	for again := true; again && err == nil; told++ {
		again, err = r.complain(ctx, turn, told+1, nil)
	}
	return told - 1, err
}

// classify sorts the failures of a model by what the agent can do about them. Breaks is how often the turn has broken off before.
func (r *run) classify(err error, breaks int) error {
	var fail *model.Error
	if !errors.As(err, &fail) {
		return err
	}
	code := strings.ToLower(fail.Code)
	if fail.Code == model.CodeBadCall || fail.Code == model.CodeCutCall {
		return &turnError{kind: unreadable, err: err}
	}
	if fail.Status == http.StatusRequestEntityTooLarge || strings.Contains(code, "context_length") {
		return &turnError{kind: tooLong, err: err}
	}
	const overloaded = 529 // as Anthropic says it
	limits := fail.Status == http.StatusTooManyRequests || fail.Status == overloaded || strings.Contains(code, "rate_limit") ||
		strings.Contains(code, "overloaded") || strings.Contains(code, "exhausted") ||
		fail.Status == http.StatusServiceUnavailable && fail.RetryAfter > 0
	if r.Clock != nil && limits && (fail.Temporary || fail.RetryAfter > 0) && fail.RetryAfter <= lastPause {
		return &turnError{limited, err, fail.RetryAfter}
	}
	// Before the first token the provider's client has tried again, but for a provider that said nothing.
	if begun := errors.As(err, new(*cutError)) || fail.Code == model.CodeIdle; begun && fail.Temporary && breaks < mostBreaks {
		return &turnError{kind: brokeOff, err: err}
	}
	return err
}

// pauses are how often a turn has waited for a rate limit, and been asked for again since it broke off.
type pauses struct{ limits, breaks int }

func pauseKey(turn string, n int) string { return fmt.Sprintf("%s/wait-%d", turn, n) }

func breakKey(turn string, n int) string { return fmt.Sprintf("%s/again-%d", turn, n) }

// rest waits for the remainder of the last recorded pauses before the turn, and returns their numbers.
func (r *run) rest(ctx context.Context, turn string) (had pauses, err error) {
	begun := func(key string) bool { _, done := r.scope.Done(key); return done }
	for ; begun(pauseKey(turn, had.limits+1)); had.limits++ {
	}
	for ; begun(breakKey(turn, had.breaks+1)); had.breaks++ {
	}
	if had.limits > 0 {
		err = r.wait(ctx, turn, had.limits, 0)
	}
	if had.breaks > 0 && err == nil {
		err = r.afterBreak(ctx, turn, had.breaks, "")
	}
	return had, err
}

// afterBreak waits before a turn that has broken off is asked for again.
func (r *run) afterBreak(ctx context.Context, turn string, n int, why string) error {
	key := breakKey(turn, n)
	if err := r.mark(ctx, key+"/note", "note", note{"the answer broke off and is asked for again: " + why}); err != nil || r.Clock == nil {
		return err
	}
	until, err := r.until(ctx, key, why, firstBreak<<(n-1))
	if err != nil {
		return err
	}
	return r.sleep(ctx, until)
}

// pause waits until a turn that has failed can be asked for again, and reports whether it can. The length is recorded when the pause begins: a resumed run
// waits only for the remainder.
func (r *run) pause(ctx context.Context, turn string, had *pauses, err error) (again bool, _ error) {
	if brokeOff.is(err) {
		had.breaks++
		why := err
		if e, ok := errors.AsType[*turnError](err); ok {
			why = e.err
		}
		return true, r.afterBreak(ctx, turn, had.breaks, strings.TrimSuffix(strings.TrimPrefix(why.Error(), string(brokeOff)), "; try again"))
	}
	n := had.limits + 1
	if !limited.is(err) || n > mostPauses {
		return false, nil
	}
	had.limits = n
	after := min(firstPause<<min(n-1, 10), longPause)
	var e *turnError
	if errors.As(err, &e) && e.after > 0 {
		after = e.after
		if r.RateLimits != nil {
			_ = r.RateLimits.Note(ctx, r.Model.Name(), r.Clock.Now().Add(after)) // or the others meet it too
		}
	}
	return true, r.wait(ctx, turn, n, after)
}

// obey waits for a rate limit that another agent has met, and reports whether there was one. A turn with an outcome waits for none.
func (r *run) obey(ctx context.Context, turn string, n int) (waited bool, _ error) {
	if r.RateLimits == nil || r.Clock == nil || n > mostPauses {
		return false, nil
	}
	if _, done := r.scope.Done(turn); done {
		return false, nil
	}
	var left time.Duration
	err := r.scope.Afresh(func() error {
		if until := r.RateLimits.Until(ctx, r.Model.Name()); !until.IsZero() {
			left = until.Sub(r.Clock.Now())
		}
		return nil
	})
	if err != nil || left <= 0 || left > lastPause {
		return false, err
	}
	return true, r.wait(ctx, turn, n, left)
}

// wait is one pause, from now if it is not recorded.
func (r *run) wait(ctx context.Context, turn string, n int, after time.Duration) error {
	key := pauseKey(turn, n)
	until, err := r.until(ctx, key, "", after)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("rate limited by %s until %s UTC", r.provider(), until.Format("15:04:05"))
	if err := r.mark(ctx, key+"/note", "note", note{text}); err != nil {
		return err
	}
	return r.sleep(ctx, until)
}

func (r *run) provider() string {
	provider, _, _ := strings.Cut(r.Model.Name(), "/")
	return provider
}

// until returns the recorded end of a wait, which is so long from now if it is not recorded.
func (r *run) until(ctx context.Context, key, why string, after time.Duration) (time.Time, error) {
	e := &journal.Effect{Key: key, Kind: "timer", Name: r.provider(), Input: why}
	return journal.Do(ctx, r.scope, e, func(context.Context, string) (time.Time, error) { return r.Clock.Now().Add(after).UTC().Round(0), nil })
}

func (r *run) sleep(ctx context.Context, until time.Time) error {
	if r.Clock == nil {
		return nil
	}
	return r.scope.Afresh(func() error { return r.waitUntil(ctx, until) })
}

func (r *run) waitUntil(ctx context.Context, until time.Time) error {
	if until.After(r.Clock.Now()) {
		r.rise()
	}
	for left := until.Sub(r.Clock.Now()); left > 0; left = until.Sub(r.Clock.Now()) {
		select {
		case <-r.Clock.After(left):
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.broke:
			return context.Cause(ctx) // the turn is over
		case <-r.work.Stopped:
			return pregel.ErrStopped // nobody should have to wait for somebody who waits
		}
	}
	return nil
}
