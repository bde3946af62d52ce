package transcript

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/runlog"
)

// A Cost is what models cost, in millionths of a US dollar.
type Cost struct {
	Micros int64 `json:"micros"`
	More   bool  `json:"more,omitempty"` // a model that tells no price is not counted
}

// Title returns the first line of the agent's assignment, cut to 60 letters.
func (a *Agent) Title() string {
	line := []rune(Line(firstLine(a.Prompt)))
	if len(line) > 60 {
		return string(line[:59]) + "…"
	}
	return string(line)
}

func firstLine(s string) string {
	for line := range strings.SplitSeq(s, "\n") {
		if strings.TrimSpace(line) != "" {
			return line
		}
	}
	return ""
}

func cost(spent runlog.Amount, unpriced bool) *Cost {
	if unpriced && spent.Money == 0 {
		return nil
	}
	return &Cost{spent.Money, unpriced}
}

// Cost returns the cost of the run so far, or nil if it is not known.
func (r *Run) Cost() *Cost { return cost(r.Spent, r.Unpriced) }

// Cost is what the agent has cost so far, nil if that is not known.
func (a *Agent) Cost() *Cost { return cost(a.Spent, !a.Priced && a.Spent.Tokens > 0) }

// String returns the cost as people read it: a dash if it is not known, and a plus behind one that lacks something.
func (c *Cost) String() string {
	switch {
	case c == nil:
		return "–"
	case c.More:
		return inwords.Dollars(c.Micros) + "+"
	}
	return inwords.Dollars(c.Micros)
}

// A Wait is the reason why a run makes no progress.
type Wait struct {
	What  string     `json:"what"`            // person, message, budget, rate_limit, storage, operator or worker
	Until *time.Time `json:"until,omitempty"` // of a rate limit
}

// Wait returns the reason why the run makes no progress, or nil if it does or has ended.
func (r *Run) Wait() *Wait {
	switch {
	case r.Status.Ended() || r.Status == runlog.Failed || r.Status == "":
		return nil
	case r.Status == runlog.WaitingStorage:
		return &Wait{What: "storage"}
	case r.Status == runlog.Interrupted:
		return &Wait{What: "worker"}
	case r.Short != nil:
		return &Wait{What: "budget"}
	case r.Status == runlog.Paused && r.asking == 0:
		return &Wait{What: "operator"}
	case r.Status == runlog.Paused || r.Waits():
		return &Wait{What: "person"}
	}
	if r.leaves == 0 || r.retrying < r.leaves {
		return nil
	}
	var until time.Time
	for _, t := range r.Tasks {
		if t.retries && (until.IsZero() || t.RetryAt.Before(until)) {
			until = t.RetryAt
		}
	}
	return &Wait{What: "rate_limit", Until: &until}
}

// Compare orders tasks as declared: by superstep, then by the order of nodes and of sends, then by path.
func (r *Run) Compare(a, b *Task) int {
	node := func(t *Task) int { return slices.Index(r.Nodes, Top(t.Path)) }
	return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(node(a), node(b)), cmp.Compare(a.Order, b.Order), byNumber(a.Path, b.Path))
}

// byNumber compares texts in which numbers count as such.
func byNumber(a, b string) int {
	digits := func(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }
	for a != "" && b != "" {
		m, n := digits(a), digits(b)
		if m > 0 && n > 0 {
			x, y := strings.TrimLeft(a[:m], "0"), strings.TrimLeft(b[:n], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y), cmp.Compare(m, n)); c != 0 {
				return c
			}
		} else if m, n = 1, 1; a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[m:], b[n:]
	}
	return cmp.Compare(len(a), len(b))
}
