package acp

import (
	"testing"

	"github.com/superstep-dev/superstep/internal/external"
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
