package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/pregel"
	"github.com/superstep-dev/superstep/runlog"
)

// A Clock is how an agent knows of time: Clock{time.Now, time.After} outside of tests.
type Clock struct {
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
}

const (
	mostPauses = 20               // of one turn
	firstPause = 10 * time.Second // where the provider does not say for how long; then twice as long each time
	longPause  = 10 * time.Minute
	lastPause  = 7 * 24 * time.Hour // what is asked for beyond that is a failure
)

// limitedError is a turn that the provider would not begin yet.
type limitedError struct {
	err   error
	after time.Duration // as the provider said, 0 if it did not
}

const limitedPrefix = "rate limited: " // by which a replay knows one

func (e *limitedError) Error() string { return limitedPrefix + e.err.Error() }

func (e *limitedError) Unwrap() error { return e.err }

// Refused reports that nothing was used.
func (e *limitedError) Refused() bool { return true }

// longError is a turn that the provider would not begin because the conversation is too long.
type longError struct{ err error }

const longPrefix = "conversation too long: "

func (e *longError) Error() string { return longPrefix + e.err.Error() }

func (e *longError) Unwrap() error { return e.err }

// Refused reports that nothing was used.
func (e *longError) Refused() bool { return true }

// tooLong reports whether a turn failed because of the length of the conversation. Of a
// recorded failure there is only the text.
func tooLong(err error) bool {
	var long *longError
	return errors.As(err, &long) || replayed(err, longPrefix)
}

func replayed(err error, prefix string) bool {
	var was *runlog.ReplayedError
	return errors.As(err, &was) && strings.HasPrefix(was.Text, prefix)
}

// An unreadableError is an answer that breaks the protocol, such as a call whose arguments are no
// JSON: the provider asked again, and now the model is told.
type unreadableError struct{ error }

const unreadablePrefix = "answer that cannot be used: "

func (e *unreadableError) Error() string { return unreadablePrefix + e.error.Error() }

func (e *unreadableError) Unwrap() error { return e.error }

func unreadable(err error) bool {
	var e *unreadableError
	return errors.As(err, &e) || replayed(err, unreadablePrefix)
}

// mostUnreadable is how often the model is told in one turn that its answer cannot be used.
const mostUnreadable = 2

// complain tells the model for the kth time in turn n that its answer cannot be used, or again what it
// was told, and reports whether it did. Without an error only what was told before is told.
func (r *run) complain(ctx context.Context, n, k int, why error) (bool, error) {
	key := fmt.Sprintf("%sturn-%d/unreadable-%d", r.prefix, n, k)
	if _, told := r.scope.Done(key); k > mostUnreadable || !told && why == nil {
		return false, nil
	}
	e := &runlog.Effect{Key: key, Kind: "note", Name: r.Model.Name()}
	text, err := runlog.Do(ctx, r.scope, e, func(context.Context, string) (string, error) {
		return fmt.Sprintf("Your last answer could not be used: %v. Answer again. Give each tool call one complete JSON object as its arguments, and if it was too long, do less at once.", errors.Unwrap(why)), nil
	})
	if err != nil {
		return false, err
	}
	r.add(model.UserText(text))
	return true, nil
}

// classify tells the failures of a model apart that the agent knows what to do about.
func (r *run) classify(err error) error {
	var fail *model.Error
	if !errors.As(err, &fail) {
		return err
	}
	code := strings.ToLower(fail.Code)
	if fail.Code == model.CodeMalformed || fail.Code == model.CodeCutCall {
		return &unreadableError{err}
	}
	if fail.Status == http.StatusRequestEntityTooLarge || strings.Contains(code, "context_length") {
		return &longError{err}
	}
	const overloaded = 529 // as Anthropic says it
	limits := fail.Status == http.StatusTooManyRequests || fail.Status == overloaded || strings.Contains(code, "rate_limit") || strings.Contains(code, "overloaded") || strings.Contains(code, "exhausted") ||
		fail.Status == http.StatusServiceUnavailable && fail.RetryAfter > 0
	if r.Clock == nil || !limits || !fail.Temporary && fail.RetryAfter <= 0 || fail.RetryAfter > lastPause {
		return err
	}
	return &limitedError{err, fail.RetryAfter}
}

func pauseKey(turn string, n int) string { return fmt.Sprintf("%s/wait-%d", turn, n) }

// rest waits for what is left of the last pause that was begun before the turn, and says
// how many there were.
func (r *run) rest(ctx context.Context, turn string) (int, error) {
	n := 0
	for ; ; n++ {
		if _, begun := r.scope.Done(pauseKey(turn, n+1)); !begun {
			break
		}
	}
	if n == 0 {
		return 0, nil
	}
	return n, r.wait(ctx, turn, n, 0)
}

// pause waits out a rate limit, and reports whether the turn is to be asked for again. For
// how long is decided and recorded when the pause begins: a run that is taken up again
// waits for what is left of it.
func (r *run) pause(ctx context.Context, turn string, n int, err error) (again bool, _ error) {
	var limited *limitedError
	if !errors.As(err, &limited) && !replayed(err, limitedPrefix) || n > mostPauses {
		return false, nil
	}
	after := min(firstPause<<min(n-1, 10), longPause)
	if limited != nil && limited.after > 0 {
		after = limited.after
	}
	return true, r.wait(ctx, turn, n, after)
}

// wait is one pause, from now if it is not recorded.
func (r *run) wait(ctx context.Context, turn string, n int, after time.Duration) error {
	key := pauseKey(turn, n)
	provider, _, _ := strings.Cut(r.Model.Name(), "/")
	e := &runlog.Effect{Key: key, Kind: "timer", Name: provider}
	until, err := runlog.Do(ctx, r.scope, e, func(context.Context, string) (time.Time, error) {
		return r.Clock.Now().Add(after).UTC().Round(0), nil
	})
	if err != nil {
		return err
	}
	text := fmt.Sprintf("rate limited by %s until %s UTC", provider, until.Format("15:04:05"))
	if err := r.mark(ctx, key+"/note", "note", note{text}); err != nil {
		return err
	}
	return r.sleep(ctx, until)
}

func (r *run) sleep(ctx context.Context, until time.Time) error {
	if r.Clock == nil || r.scope.Replayed() {
		return nil
	}
	for left := until.Sub(r.Clock.Now()); left > 0; left = until.Sub(r.Clock.Now()) {
		select {
		case <-r.Clock.After(left):
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.work.Stopped:
			return pregel.ErrStopped // nobody should have to wait for somebody who waits
		}
	}
	return nil
}
