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
