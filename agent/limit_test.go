package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// lines returns a model that gives what is next: a string that it says, a call, or an error; then "ok".
func lines(next ...any) *scripted.Model {
	m := &scripted.Model{ID: "acme/m1"}
	for _, v := range append(next[:len(next):len(next)], "ok") {
		t := scripted.Turn{}
		switch v := v.(type) {
		case error:
			t = scripted.Fail(v)
		case model.Part:
			t.Parts = []model.Part{v}
		case string:
			t = scripted.Say(v)
		case scripted.Turn:
			t = v
		}
		m.Turns = append(m.Turns, t)
	}
	return m
}

func busy(status int, code string, after time.Duration, temporary bool) error {
	return &model.Error{Provider: "acme", Model: "m1", Status: status, Code: code, RetryAfter: after, Temporary: temporary, Err: errors.New("slow down")}
}

func clock() *agent.Clock { return &agent.Clock{Now: time.Now, After: time.After} }

// A rate limit is waited out, for as long as the provider says or ever longer, and costs nothing.
func TestRateLimit(t *testing.T) {
	wall := make([]any, 0, 30)
	for range 30 {
		wall = append(wall, busy(429, "", time.Second, true))
	}
	for _, tc := range []struct {
		name   string
		next   []any
		clock  bool
		waited time.Duration
		err    string
	}{
		{"as long as it says", []any{busy(429, "", 5*time.Minute, true), "ok"}, true, 5 * time.Minute, ""},
		{"a quota that comes back", []any{busy(429, "usage_limit", 4*time.Hour, false), "ok"}, true, 4 * time.Hour, ""},
		{"overloaded, twice", []any{busy(529, "", 0, true), busy(0, "overloaded_error", 0, true), "ok"}, true, 30 * time.Second, ""},
		{"unavailable until", []any{busy(503, "", time.Minute, true), "ok"}, true, time.Minute, ""},
		{"unavailable", []any{busy(503, "", 0, true)}, true, 0, "slow down"},
		{"no money", []any{busy(429, "insufficient_quota", 0, false)}, true, 0, "slow down"},
		{"no clock", []any{busy(429, "", time.Minute, true)}, false, 0, "slow down"},
		{"a month", []any{busy(429, "", 30*24*time.Hour, true)}, true, 0, "slow down"},
		{"for ever", wall, true, 20 * time.Second, "slow down"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := lines(tc.next...)
				a := &agent.Agent{Name: "tester", Model: m}
				if tc.clock {
					a.Clock = clock()
				}
				store := runlogtest.NewMortal()
				j := openJournal(t, store, true)
				start := time.Now()
				out, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{})
				if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
					t.Fatal(err)
				}
				if got := time.Since(start); got != tc.waited {
					t.Errorf("waited %v, want %v", got, tc.waited)
				}
				if tc.err == "" && (out.Text != "ok" || j.Spent().Turns != 1) {
					t.Errorf("%+v, spent %+v", out, j.Spent())
				}
				if _, events := asked(t, store); tc.waited > 0 && (len(events) == 0 || !strings.HasPrefix(events[0], `note {"text":"rate limited by acme until `)) {
					t.Errorf("noted %q", events)
				}
				if err := j.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A run that is resumed waits for what is left, wherever it was cut off, and its
// stop does not wait for anybody who waits.
func TestRateLimitResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lines(busy(429, "", time.Hour, true), "ok")
		a := &agent.Agent{Name: "tester", Model: m, Clock: clock()}
		store := runlogtest.NewMortal()
		stopped := make(chan struct{})
		time.AfterFunc(20*time.Minute, func() { close(stopped) })
		start := time.Now()
		j := openJournal(t, store, true)
		if _, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{Stopped: stopped}); !errors.Is(err, pregel.ErrStopped) {
			t.Fatal(err)
		}
		if got := time.Since(start); got != 20*time.Minute {
			t.Errorf("stopped after %v", got)
		}
		if err := j.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		j = openJournal(t, store, false)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if _, err := a.Run(ctx, j.Scope("task"), &agent.Work{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		out, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{})
		if err != nil || out.Text != "ok" {
			t.Fatal(out, err)
		}
		if got := time.Since(start); got != time.Hour || len(m.Requests()) != 2 || m.Requests()[0].Key != m.Requests()[1].Key {
			t.Errorf("%d turns, the last after %v", len(m.Requests()), got)
		}
		if _, events := asked(t, store); len(events) != 1 {
			t.Errorf("noted %q", events)
		}
		_ = j.Close(context.Background())
	})
}

func TestCrashInRateLimit(t *testing.T) {
	hour := busy(429, "", time.Hour, true)
	crashesIn(t, call("look", "a"), hour, hour, "ok")
}

func TestCrashInBreak(t *testing.T) {
	half := breaks("half")
	crashesIn(t, call("look", "a"), half, half, "ok")
}

// crashesIn runs an agent that dies at each append, whose model has trouble twice in its second turn.
func crashesIn(t *testing.T, hour ...any) {
	for n, ended := 0, false; !ended; n++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("append %d, after %v", n, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := &bench{}
					limits := 0
					a := &agent.Agent{Name: "tester", Model: lines(hour...), Tools: b.tools(t), Clock: clock()}
					store := runlogtest.NewMortal()
					store.DieAt(n, after)
					run := func() (*agent.Outcome, error) {
						j := openJournal(t, store, !exists(t, store))
						defer func() { _ = j.Close(context.Background()) }()
						return a.Run(t.Context(), j.Scope("task"), &agent.Work{})
					}
					out, err := run()
					if errors.Is(err, runlogtest.ErrCrash) {
						store.Revive()
						if !settled(t, store)["turn-0"] {
							a.Model = lines(hour...)
						}
						out, err = run()
					} else {
						ended = true
					}
					if err != nil || out.Text != "ok" {
						t.Fatal(out, err)
					}
					_, events := asked(t, store)
					for _, e := range events {
						if strings.HasPrefix(e, "note") {
							limits++
						}
					}
					if limits < 1 || limits > 3 {
						t.Errorf("events %q", events)
					}
					if diff := cmp.Diff([]string{"look error=false look saw a"}, results(out)); diff != "" {
						t.Error(diff)
					}
				})
			})
		}
	}
}

// breaks returns a turn that breaks off after a text.
func breaks(text string) scripted.Turn {
	t := scripted.Say(text)
	t.Err = busy(0, model.CodeTruncated, 0, true)
	return t
}

// A turn that breaks off after its first token is asked for again, three times, as if it had said nothing; what it used counts.
func TestBreaks(t *testing.T) {
	silent := scripted.Fail(busy(0, model.CodeIdle, 0, true))
	final := scripted.Say("half")
	final.Err = busy(0, "server_error", 0, false)
	half, thought := breaks("half"), scripted.Think("let me see")
	thought.Err = half.Err
	for _, tc := range []struct {
		name   string
		next   []any
		clock  bool
		waited time.Duration
		err    string
	}{
		{"once", []any{half}, true, 2 * time.Second, ""},
		{"in a thought", []any{thought}, true, 2 * time.Second, ""},
		{"silence", []any{silent, silent}, true, 6 * time.Second, ""},
		{"three times", []any{half, half, half}, true, 14 * time.Second, ""},
		{"four times", []any{half, half, half, half}, true, 14 * time.Second, "slow down"},
		{"and a limit between", []any{half, busy(429, "", time.Minute, true), half, half}, true, time.Minute + 14*time.Second, ""},
		{"without a clock", []any{half, half, half}, false, 0, ""},
		{"for good", []any{final}, true, 0, "slow down"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := lines(tc.next...)
				a := &agent.Agent{Name: "tester", Model: m}
				if tc.clock {
					a.Clock = clock()
				}
				store := runlogtest.NewMortal()
				j := openJournal(t, store, true)
				start := time.Now()
				out, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{Prompt: "go"})
				if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
					t.Fatal(err)
				}
				if got := time.Since(start); got != tc.waited {
					t.Errorf("waited %v, want %v", got, tc.waited)
				}
				if tc.err == "" {
					sent := m.Requests()
					if first, last := sent[0].Messages, sent[len(sent)-1].Messages; out.Text != "ok" || cmp.Diff(first, last) != "" {
						t.Errorf("%+v; first asked %+v, and last %+v", out, first, last)
					}
					_, events := asked(t, store)
					if notes := strings.Count(strings.Join(events, "\n"), "the answer broke off and is asked for again: acme/m1"); notes != len(sent)-1-strings.Count(strings.Join(events, "\n"), "rate limited") {
						t.Errorf("noted %q", events)
					}
				}
				broke := 0
				for _, v := range tc.next {
					if turn, is := v.(scripted.Turn); is && len(turn.Parts) > 0 {
						broke++
					}
				}
				if spent := j.Spent(); tc.err == "" && (int(spent.Turns) < broke+1 || broke > 0 && spent.Tokens == 0) {
					t.Errorf("spent %+v", spent)
				}
				if err := j.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// An agent that ends without a word is asked again, twice; then it fails, and what it said before is no answer.
func TestEmptyAnswers(t *testing.T) {
	t.Parallel()
	nothing := scripted.Think("hm")
	for _, tc := range []struct {
		name  string
		chat  bool
		next  []any
		turns int
		text  string
		err   string
	}{
		{"once", false, []any{scripted.Say("let me look").And(scripted.Call("look", `{"at":"a"}`)), nothing, "fine"}, 3, "fine", ""},
		{"twice", false, []any{nothing, scripted.Say(" \n"), "fine"}, 3, "fine", ""},
		{"thrice", false, []any{scripted.Say("let me look").And(scripted.Call("look", `{"at":"a"}`)), nothing, nothing, nothing}, 4, "", "acme/m1 ended 3 times without an answer"},
		{"between calls", false, []any{nothing, nothing, call("look", "a"), nothing, nothing, "fine"}, 6, "fine", ""},
		{"in a chat", true, []any{nothing, nothing, nothing}, 3, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := lines(tc.next...)
			a := &agent.Agent{Name: "tester", Model: m, Tools: (&bench{}).tools(t)}
			store := runlogtest.NewMortal()
			j := openJournal(t, store, true)
			out, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{Prompt: "go", Listens: tc.chat})
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatal(err)
			}
			if err == nil && out.Text != tc.text || len(m.Requests()) != tc.turns {
				t.Errorf("%d turns, and %+v", len(m.Requests()), out)
			}
			if err := j.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A board is what agents know of rate limits together.
type board struct {
	mu    sync.Mutex
	until time.Time
	noted []string
}

func (b *board) Until(context.Context, string) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.until
}

func (b *board) Note(_ context.Context, model string, until time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until, b.noted = until, append(b.noted, model)
	return nil
}

// A limit that one agent has met is waited out by the others before they call. A replay asks nobody.
func TestRateLimitIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{}
		start := time.Now()
		first := lines(busy(429, "", 10*time.Minute, true), "ok")
		run := func(m *scripted.Model) *runlogtest.Mortal {
			store := runlogtest.NewMortal()
			j := openJournal(t, store, true)
			a := &agent.Agent{Name: "tester", Model: m, Clock: clock(), RateLimits: b}
			if out, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{}); err != nil || out.Text != "ok" {
				t.Error(out, err)
			}
			if err := j.Close(t.Context()); err != nil {
				t.Error(err)
			}
			return store
		}
		var others sync.WaitGroup
		others.Go(func() { run(first) })
		time.Sleep(time.Minute)
		second := lines("ok")
		store := run(second)
		got := time.Since(start)
		others.Wait()
		if got != 10*time.Minute || len(second.Requests()) != 1 || len(b.noted) != 1 || b.noted[0] != "acme/m1" {
			t.Errorf("after %v it has called %d times; noted are %v", got, len(second.Requests()), b.noted)
		}
		if _, events := asked(t, store); len(events) == 0 || !strings.HasPrefix(events[0], `note {"text":"rate limited by acme until `) {
			t.Errorf("noted %q", events)
		}
		b.until = time.Now().Add(time.Hour) // which nobody has to wait for who has the answer
		j := openJournal(t, store, false)
		a := &agent.Agent{Name: "tester", Model: second, Clock: clock(), RateLimits: b}
		if out, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{}); err != nil || out.Text != "ok" || time.Since(start) != 10*time.Minute {
			t.Errorf("again: %v, %v, after %v", out, err, time.Since(start))
		}
		if err := j.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
