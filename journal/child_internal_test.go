package journal

import (
	"errors"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
)

// A child run that found nothing left, and may begin after all since another has ended meanwhile, asks again what is left.
func TestShareOfNothing(t *testing.T) {
	j := &Journal{course: live{}}
	j.scopes = map[string]*memory{}
	j.ledger.change(runlog.Budget{Tokens: 10})
	other := j.of("other")
	j.ledger.hold(other, "run:", runlog.Amount{Tokens: 10})
	s := &Scope{j: j, path: "task"}
	cost, none := s.share("run:", &runlog.Budget{})
	if cost.Tokens != 1 || !none {
		t.Fatalf("%+v, %v", cost, none)
	}
	e := &Effect{Key: "run:", Kind: kindRun, Cost: cost, none: none}
	if _, err := j.reserve("task", e); !errors.As(err, new(*runlog.BudgetError)) && err == nil {
		t.Fatal("nothing is left")
	}
	j.ledger.settle(other, &runlog.Settled{Key: "run:", Spent: &runlog.Amount{Tokens: 3}})
	if _, err := j.reserve("task", e); !errors.Is(err, errMoreLeft) {
		t.Fatalf("reserved one token of seven: %v", err)
	}
	if cost, none = s.share("run:", &runlog.Budget{}); cost.Tokens != 7 || none {
		t.Errorf("%+v, %v", cost, none)
	}
	e.Cost, e.none = cost, none
	if _, err := j.reserve("task", e); err != nil {
		t.Error(err)
	}
}
