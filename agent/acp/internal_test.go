package acp

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/external"
	"github.com/superstep-dev/superstep/model"
)

// Trap 8: each permission request gets its own answer, in whatever order they are answered.
func TestAnswersByCall(t *testing.T) {
	t.Parallel()
	one, two := &permission{call: "c1", allow: "yes", deny: "no", reply: make(chan string, 1)}, &permission{call: "c2", allow: "yes", deny: "no", reply: make(chan string, 1)}
	s := &session{asks: []*permission{one, two}}
	s.answer(&external.Step{Answers: []external.Answer{{Call: "c2", Allow: true}, {Call: "other", Allow: true}, {Call: "c1"}}})
	if a, b := <-one.reply, <-two.reply; a != "no" || b != "yes" || len(s.asks) != 0 {
		t.Errorf("answers %s and %s", a, b)
	}
}

// A process that is ended while one of its sessions collects the end of a turn waits for the session, and the session not for the process.
func TestEndWhileCollecting(t *testing.T) {
	t.Parallel()
	_, stdin, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: &Command{Name: "scripted"}, stdin: stdin, exited: make(chan struct{}), sessions: map[string]*session{}}
	close(p.exited)
	s := newSession(p, "s1")
	p.sessions[s.id] = s
	s.events = []event{{kind: eventText, text: "half"}, {kind: eventEnd, err: errors.New("gone")}}
	ended, collected := make(chan struct{}), make(chan error, 1)
	say := func(model.Part) { // the session's lock is held here
		go func() {
			defer close(ended)
			p.end()
		}()
		for p.mu.TryLock() { // until end holds it
			p.mu.Unlock()
			time.Sleep(time.Millisecond)
		}
	}
	go func() {
		_, _, err := s.collect(&external.Step{Say: say}, &external.Stepped{})
		collected <- err
	}()
	select {
	case err := <-collected:
		if err == nil || err.Error() != "gone" {
			t.Errorf("got %v", err)
		}
		<-ended
	case <-time.After(time.Minute):
		t.Fatal("the process and its session wait for each other")
	}
}

// Processes name their sessions each for itself, such as by their number, which is the same in each sandbox. One that is left is not that of another
// agent, nor that of another use of the same agent.
func TestLeaveOfOneSession(t *testing.T) {
	t.Parallel()
	ready := make(chan struct{})
	close(ready)
	pool := NewPool(nil)
	uses := []struct{ agent, place string }{{"lab", "run one"}, {"lab", "run two"}, {"den", "run three"}, {"den", ""}, {"lab", ""}}
	all := make([]*session, len(uses))
	for i, use := range uses {
		p := &process{cmd: &Command{Name: use.agent}, exited: make(chan struct{}), sessions: map[string]*session{}}
		all[i] = newSession(p, "ses-2-1")
		all[i].asks = []*permission{{reply: make(chan string, 1)}} // which a cancellation denies
		p.sessions["ses-2-1"] = all[i]
		pool.places[use.agent+use.place] = &place{ready: ready, p: p, user: use.place}
	}
	(&runner{pool: pool, cmd: Command{Name: "lab"}}).Leave("run one", "ses-2-1", true)
	for i, s := range all {
		if mine := i == 0 || i == 4; (s.asks == nil) != mine { // in its own process, or in the one that serves all uses of the agent
			t.Errorf("%v: left: %t", uses[i], !mine)
		}
	}
}
