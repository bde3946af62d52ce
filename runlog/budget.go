package runlog

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Budget limits a run, including its agents, its nested graphs and their agents. A limit of zero
// or less means none.
//
// The estimated cost of an effect is reserved before it begins, so that parallel tasks cannot spend
// the same amount, and replaced by the actual cost when it ends. An effect that may cost more than
// is left does not begin: its task waits with a *BudgetError, nothing is lost, and the run
// continues once it has a larger budget.
type Budget struct {
	Tokens int64         `json:"tokens,omitempty"` // that models read and write
	Money  int64         `json:"money,omitempty"`  // in millionths of a US dollar, for models that tell their price
	Turns  int64         `json:"turns,omitempty"`  // of models
	Calls  int64         `json:"calls,omitempty"`  // of tools
	Agents int64         `json:"agents,omitempty"` // that begin
	Wall   time.Duration `json:"wall,omitempty"`   // execution time, without pauses, since the run has a limit on it
	// Soft is the share of a limit at which agents are told to wrap up; defaults to 0.8,
	// and 1 or more tells them nothing. The limit on agents is not told.
	Soft float64 `json:"soft,omitempty"`
}

// Over returns the budget with the changes of another: non-zero limits there replace those here,
// and negative ones remove the limit.
func (b Budget) Over(base Budget) Budget {
	return Budget{
		Tokens: cmp.Or(b.Tokens, base.Tokens), Money: cmp.Or(b.Money, base.Money),
		Turns: cmp.Or(b.Turns, base.Turns), Calls: cmp.Or(b.Calls, base.Calls), Agents: cmp.Or(b.Agents, base.Agents),
		Wall: cmp.Or(b.Wall, base.Wall), Soft: cmp.Or(b.Soft, base.Soft),
	}
}

// An Amount is a cost in the units of Budget.
type Amount struct {
	Tokens int64 `json:"tokens,omitempty"`
	Money  int64 `json:"money,omitempty"`
	Turns  int64 `json:"turns,omitempty"`
	Calls  int64 `json:"calls,omitempty"`
	Agents int64 `json:"agents,omitempty"`
}

// Add returns the sum of both.
func (a Amount) Add(b Amount) Amount {
	return Amount{a.Tokens + b.Tokens, a.Money + b.Money, a.Turns + b.Turns, a.Calls + b.Calls, a.Agents + b.Agents}
}

// The names of the limits in BudgetError.What.
const (
	BudgetTokens = "tokens"
	BudgetMoney  = "money"
	BudgetTurns  = "turns"
	BudgetCalls  = "calls"
	BudgetAgents = "agents"
	BudgetWall   = "time"
)

// A BudgetError reports that a task cannot continue within the budget of its run. The task has not
// failed: it waits, and the run continues with a larger budget.
type BudgetError struct {
	Run   string `json:"run,omitempty"`  // the child run whose limit it is, "" for the run itself
	Path  string `json:"path,omitempty"` // of the task, "" for the run as a whole
	What  string `json:"what"`           // which limit
	Limit int64  `json:"limit"`          // like the others in the unit of the limit; nanoseconds for time
	Used  int64  `json:"used"`           // and set aside for what is under way
	Held  int64  `json:"held,omitempty"` // of Used, what is set aside
	Need  int64  `json:"need,omitempty"` // what the next step may cost; 0 for time
}

func (e *BudgetError) Error() string {
	var b strings.Builder
	if e.Run != "" {
		b.WriteString("child run " + e.Run + ": ")
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	fmt.Fprintf(&b, "%s of the run's budget of %s used", e.show(e.Used), e.unit())
	if e.Held > 0 {
		fmt.Fprintf(&b, " (%s of it only set aside)", e.show(e.Held))
	}
	if e.Need > 0 {
		fmt.Fprintf(&b, ", and the next step may take %s more", e.show(e.Need))
	}
	if e.Run != "" {
		return b.String() + "; resume that one with a larger budget"
	}
	return b.String() + "; resume the run with a larger budget"
}

// Left returns what is left of the limit, with its unit.
func (e *BudgetError) Left() string {
	left := *e
	left.Limit = max(0, e.Limit-e.Used)
	return left.unit()
}

func (e *BudgetError) show(n int64) string {
	switch e.What {
	case BudgetMoney:
		return "$" + strconv.FormatFloat(float64(n)/1e6, 'f', 4, 64)
	case BudgetWall:
		return time.Duration(n).Round(time.Millisecond).String()
	}
	return strconv.FormatInt(n, 10)
}

// unit returns the limit with its unit.
func (e *BudgetError) unit() string {
	switch e.What {
	case BudgetMoney, BudgetWall:
		return e.show(e.Limit)
	case BudgetTurns:
		return e.show(e.Limit) + " model " + plural("turn", e.Limit)
	case BudgetCalls:
		return e.show(e.Limit) + " tool " + plural("call", e.Limit)
	}
	return e.show(e.Limit) + " " + e.What
}

// Share returns the used share of the limit, for users.
func (e *BudgetError) Share() string { return e.show(e.Used) + " of " + e.unit() }

// Waits reports that the task has not ended.
func (e *BudgetError) Waits() bool { return true }

// FailureCode returns the stable word for programs.
func (e *BudgetError) FailureCode() string { return "budget" }

// Enough returns a limit that lets the run continue for a while.
func (e *BudgetError) Enough() int64 { return max(2*e.Limit, e.Used+2*e.Need) }

func plural(noun string, n int64) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
