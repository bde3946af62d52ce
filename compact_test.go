package superstep_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	lead "github.com/superstep-dev/superstep/internal/builtin/agent"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// A shortened is the model of a chat whose user asks for a summary. "work N" it answers after a call of look, other messages at once.
type shortened struct {
	mu    sync.Mutex
	asked []string                 // the requests but for summaries, a line for each message
	sums  int                      // requests for summaries
	begin func(last model.Message) // is called with each turn but for summaries, if non-nil
}

func (s *shortened) answer(r *model.Request) scripted.Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(r.System, "Sum up") {
		s.sums++
		return scripted.Say("THE SUMMARY").Using(10, 5)
	}
	last := r.Messages[len(r.Messages)-1]
	s.asked = append(s.asked, strings.Join(told(r.Messages), "\n"))
	if s.begin != nil {
		s.begin(last)
	}
	if strings.HasPrefix(last.Text(), "work") {
		return scripted.Call("look", `{"at":"it"}`).Using(10, 5)
	}
	return scripted.Say("answer to "+last.Text()).Using(10, 5)
}

// said returns the requests so far and the number of summaries.
func (s *shortened) said() (asked []string, sums int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, s.sums
}

// asksCompact posts a request for a summary, as another process does.
func asksCompact(ctx context.Context, store runlog.Store, id string) error {
	return unlisted.Post(ctx, store, id, &unlisted.Request{Kind: unlisted.KindSteer, Time: time.Now(), Data: json.RawMessage(unlisted.Compact)})
}

// compactions returns the keys of the effects by which agents were asked to sum up, and of those by which they did.
func compactions(t *testing.T, store runlog.Store, id string) (keys []string) {
	t.Helper()
	for r, err := range runlog.Records(t.Context(), store, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		d := mail.Settled(&r)
		if d == nil || d.Error != "" {
			continue
		}
		asked := slices.ContainsFunc(mail.SteeringOf(d), func(m mail.Message) bool { return m.Compact }) // twice, if a post failed that was stored
		if asked || d.Kind == "model" && strings.HasPrefix(d.Key, "compact-") {
			keys = append(keys, r.Path+" "+d.Key)
		}
	}
	return keys
}

// A chat whose user asks for a summary, while it waits, between two turns or in the last turn of an answer, has the summary in its next request
// in place of the messages, once, and keeps it.
func TestCompact(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		during string   // the last message of the turn in which it is asked for, "" while the chat waits before "message 3"
		want   []string // of the request that is the first with the summary
		not    []string
	}{
		"while it waits":          {"", []string{"user: message 3"}, []string{"message 1", "work 2"}},
		"between two turns":       {"user: work 2", []string{"tool: seen it"}, []string{"message 1"}},
		"in the turn that ends":   {"tool: seen it", []string{"user: message 3"}, []string{"message 1"}},
		"in the only turn of one": {"user: message 3", []string{"user: message 4"}, []string{"message 1", "work 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := runlog.NewMemory(nil)
			s := &shortened{}
			var id string
			s.begin = func(last model.Message) {
				if c.during != "" && told([]model.Message{last})[0] == c.during {
					if err := asksCompact(t.Context(), store, id); err != nil {
						t.Error(err)
					}
				}
			}
			w := chats(t, &scripted.Model{Answer: s.answer})
			e := engine(t, store, w)
			run, err := e.Start(context.WithoutCancel(t.Context()), lead.Name, json.RawMessage(`{"prompt":"message 0","chat":true}`), nil)
			for _, text := range []string{"message 1", "work 2", "message 3", "message 4"} {
				if err != nil {
					t.Fatal(err)
				}
				ends(t, run, runlog.Paused)
				id = run.ID()
				if text == "message 3" && c.during == "" {
					if err := asksCompact(t.Context(), store, id); err != nil {
						t.Fatal(err)
					}
				}
				run, err = e.Continue(context.WithoutCancel(t.Context()), id, text, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			ends(t, run, runlog.Paused)
			asked, sums := s.said()
			if sums != 1 {
				t.Errorf("it was summed up %d times", sums)
			}
			first := -1
			for i, a := range asked {
				has := strings.Contains(a, "THE SUMMARY")
				if has && first < 0 {
					first = i
					for _, want := range c.want {
						if !strings.HasSuffix(a, want) {
							t.Errorf("the first request with the summary ends otherwise than in %q:\n%s", want, a)
						}
					}
				}
				if first >= 0 && !has {
					t.Errorf("the summary is lost:\n%s", a)
				}
				for _, not := range c.not {
					if first >= 0 && strings.Contains(a, not) {
						t.Errorf("%q was not summed up:\n%s", not, a)
					}
				}
			}
			if first < 0 {
				t.Errorf("no request has the summary:\n%s", strings.Join(asked, "\n\n"))
			}
			if keys := compactions(t, store, id); len(keys) != 2 {
				t.Errorf("the log has %q", keys)
			}
			replays(t, engine(t, store, w), id)
		})
	}
}

// With nothing to sum up, the request changes nothing, and is not kept for later.
func TestCompactNothing(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	s := &shortened{}
	e := engine(t, store, chats(t, &scripted.Model{Answer: s.answer}))
	run, err := e.Start(context.WithoutCancel(t.Context()), lead.Name, json.RawMessage(`{"prompt":"message 0","chat":true}`), nil)
	for i := 1; i < 5; i++ {
		if err != nil {
			t.Fatal(err)
		}
		ends(t, run, runlog.Paused)
		if i == 1 {
			if err := asksCompact(t.Context(), store, run.ID()); err != nil {
				t.Fatal(err)
			}
		}
		run, err = e.Continue(context.WithoutCancel(t.Context()), run.ID(), fmt.Sprintf("message %d", i), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	ends(t, run, runlog.Paused)
	if asked, sums := s.said(); sums != 0 || len(asked) != 5 || strings.Count(asked[4], "\n") != 8 {
		t.Errorf("%d summaries, asked %q", sums, asked)
	}
	if keys := compactions(t, store, run.ID()); len(keys) != 1 {
		t.Errorf("the log has %q", keys)
	}
	replays(t, e, run.ID())
}

// Wherever the process of a chat dies, also between the request for a summary and the effect, the request is carried out once, at the same turn in
// the replay.
func TestCompactAtEveryAppend(t *testing.T) {
	t.Parallel()
	for _, during := range []string{"", "user: work 2"} {
		crashes, ended := 0, false
		for n := 0; !ended; n++ {
			for _, after := range []bool{false, true} {
				mortal := runlogtest.NewMortal()
				s := &shortened{}
				id, posted := "", false
				post := func() {
					if !posted && asksCompact(t.Context(), mortal, id) == nil {
						posted = true
					}
				}
				s.begin = func(last model.Message) {
					if during != "" && told([]model.Message{last})[0] == during {
						post()
					}
				}
				w := chats(t, &scripted.Model{Answer: s.answer})
				e := engine(t, mortal, w)
				run, err := e.Start(context.WithoutCancel(t.Context()), lead.Name, json.RawMessage(`{"prompt":"message 0","chat":true}`), nil)
				if err != nil {
					t.Fatal(err)
				}
				id = run.ID()
				died := false
				all := []string{"message 0", "message 1", "work 2", "message 3"}
				for sent := 1; ; {
					if err == nil {
						_ = outcome(t, run)
					}
					if mortal.Dead() {
						e.Close()
						mortal.Revive()
						died = true
						e = engine(t, mortal, w)
						sent = heard(t, mortal, id)
						run, err = e.Resume(context.WithoutCancel(t.Context()), id, nil)
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					if sent == 2 && !died {
						mortal.DieAt(n, after)
					}
					if sent == 3 && during == "" {
						post()
						if mortal.Dead() {
							continue
						}
					}
					if sent == len(all) {
						break
					}
					run, err = e.Continue(context.WithoutCancel(t.Context()), id, all[sent], nil)
					sent++
				}
				if died {
					crashes++
				} else {
					ended = true
				}
				asked, sums := s.said()
				if last := asked[len(asked)-1]; posted && (!strings.Contains(last, "THE SUMMARY") || strings.Contains(last, "message 1")) {
					t.Errorf("%q, %d, %v: the last request is\n%s", during, n, after, last)
				}
				if keys := compactions(t, mortal, id); len(keys) != 2 || sums < 1 || sums > 2 {
					t.Errorf("%q, %d, %v: %d summaries, the log has %q", during, n, after, sums, keys)
				}
				replays(t, e, id)
				e.Close()
			}
		}
		if crashes < 10 {
			t.Errorf("%q: only %d crashes", during, crashes)
		}
		t.Logf("%q: %d crashes", during, crashes)
	}
}
