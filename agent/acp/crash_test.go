//go:build unix

package acp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/acptest"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// working is an agent that does something in the world, with permission, and tells the test.
func working(a *acptest.Agent, text string) string {
	if strings.Contains(text, "\ngo") || strings.HasPrefix(text, "go") || a.Logged("did") == 0 {
		a.Say("I make it.")
		call := map[string]any{"toolCallId": "c1", "title": "make", "kind": "execute", "status": "pending", "rawInput": map[string]any{"command": "make"}}
		if a.Ask(call) != "yes" {
			return "end_turn"
		}
		a.Log("did")
		a.End("c1", "made")
	}
	a.Say("It is made.")
	return "end_turn"
}

// finish answers every question, and resumes the run until it ends. It returns the kinds of the questions.
func (s *stage) finish(t *testing.T, run *superstep.Run) (out superstep.Outcome, asked []string) {
	t.Helper()
	for range 8 {
		if out = wait(t, run); errors.Is(out.Err, runlogtest.ErrCrash) || out.Status.Ended() && out.Status != runlog.Failed {
			return out, asked
		}
		for _, q := range out.Open {
			asked = append(asked, string(q.Kind))
			answer := "once"
			if q.Kind == runlog.QuestionUnknown {
				answer = runlog.UnknownAgain
			}
			if err := s.engine.Answer(t.Context(), run.ID(), q.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(strconv.Quote(answer))}); errors.Is(err, runlogtest.ErrCrash) {
				return out, asked
			} else if err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if run, err = s.engine.Resume(t.Context(), run.ID(), nil); errors.Is(err, runlogtest.ErrCrash) {
			return out, asked
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("it does not end: %+v", out)
	return out, asked
}

// killed kills the agents, as the system does when the process that started them is killed.
func (s *stage) killed() {
	for _, line := range s.logged("start") {
		var pid int
		if n, _ := fmt.Sscanf(line, "start %d", &pid); n == 1 {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // with what it has started; it may have ended
		}
	}
}

// Wherever Superstep is killed, the resumed run ends with the same result, and what the agent does happens once, unless a user was asked before it was
// done again. A prompt whose outcome is recorded is not sent again.
func TestKilledAtEveryAppend(t *testing.T) {
	t.Parallel()
	questions := map[string]int{}
	for n := 1; ; n++ {
		ended := false
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("append %d, after %v", n, after), func(t *testing.T) {
				s := open(t, "working")
				asked, over := s.killedAt(t, n, after)
				ended = over
				for _, kind := range asked {
					questions[kind]++
				}
				if n := len(s.logged("did")); n != 1 && !slices.Contains(asked, string(runlog.QuestionUnknown)) {
					t.Errorf("it was done %d times, and nobody was asked; the agent's log: %q", n, acptest.Log(s.state))
				}
			})
		}
		if ended || t.Failed() {
			break
		}
	}
	if questions[string(runlog.QuestionUnknown)] == 0 {
		t.Error("no crash left an unknown outcome")
	}
	t.Log("questions", questions)
}

// A call that was allowed and cut off by a crash may have happened: the agent is told so, and is not told to make it again.
func TestKilledInCall(t *testing.T) {
	t.Parallel()
	s := open(t, "calls")
	store := runlogtest.NewMortal()
	s.store = store
	run, out := s.start(t)
	s.allow(t, run, out, "once")
	again, err := s.engine.Resume(t.Context(), run.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return len(s.logged("did")) == 1 })
	store.Die()
	s.killed()
	_ = wait(t, again)
	s.engine.Close()
	s.pool.Close()
	store.Revive()
	if again, err = s.begin(t).Resume(t.Context(), run.ID(), nil); err != nil {
		t.Fatal(err)
	}
	out = wait(t, again)
	if len(out.Open) != 1 || !strings.Contains(out.Open[0].Text, `what became of this is not known`) || !strings.Contains(out.Open[0].Text, "bash {\"command\":\"make\"") {
		t.Fatalf("got %+v", out)
	}
	s.allow(t, run, out, runlog.UnknownAgain)
	if again, err = s.engine.Resume(t.Context(), run.ID(), nil); err != nil {
		t.Fatal(err)
	}
	if out = wait(t, again); string(out.Output) != `"I look whether it is made."` {
		t.Errorf("got %+v", out)
	}
	s.replayed(t, run.ID())
}

// allow answers the open questions.
func (s *stage) allow(t *testing.T, run *superstep.Run, out superstep.Outcome, answer string) {
	t.Helper()
	for _, q := range out.Open {
		if err := s.engine.Answer(t.Context(), run.ID(), q.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(strconv.Quote(answer))}); err != nil {
			t.Fatal(err)
		}
	}
}

// Wherever the agent is killed, the run ends with the same result.
func TestAgentKilledAtEveryMessage(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		s := open(t, "working")
		if err := acptest.DieAt(s.state, n); err != nil {
			t.Fatal(err)
		}
		run, err := s.begin(t).Start(t.Context(), "test", json.RawMessage(`{"prompt":"go"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		out, _ := s.finish(t, run)
		if string(out.Output) != `"It is made."` {
			t.Errorf("message %d: got %+v", n, out)
		}
		if n := len(s.logged("did")); n != 1 {
			t.Errorf("it was done %d times; the agent's log: %q", n, acptest.Log(s.state))
		}
		s.replayed(t, run.ID())
		if len(s.logged("start")) == 1 { // it lived longer
			if n < 5 {
				t.Errorf("it has sent %d messages", n)
			}
			break
		}
	}
}
