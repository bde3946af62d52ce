package tool

// A Gate decides on calls before they happen. It is safe for use from several goroutines
// and a pure function of its rules.
type Gate interface {
	Check(t *Tool, c *Call) Verdict
}

// A Granter is a Gate that can tell whether a rule would allow a call it asks about, so that a person's
// answer to one call covers its like.
type Granter interface {
	// Grants says whether the gate would allow the call if the rule were an answer of a person. A rule lifts no denial.
	Grants(rule string, t *Tool, c *Call) bool
}

// A Reader is a Gate that also decides on the files that a tool comes upon by itself, as in a search, so that none of them
// reveals what reading the file would have been asked about or denied.
type Reader interface {
	Gate
	// Reads returns a function that decides whether a call of the tool of that name may reveal a file, named from the folder
	// that paths are relative to. From is the path in the call's arguments, which the gate has decided on; answers are
	// rules that a person allowed. A verdict that is not Allow names the rule.
	Reads(name, from string, answers []string) func(file string) Verdict
}

// A Decision is what is to become of a call.
type Decision string

// The decisions. The zero value counts as Ask.
const (
	Allow Decision = "allow"
	Ask   Decision = "ask"
	Deny  Decision = "deny"
)

// A Verdict is what a Gate says of a call.
type Verdict struct {
	Decision Decision // Allow, Ask or Deny
	Rule     string   // the rule that decided, as written, "" for a default
	Bounded  bool     // no rule allows it; it is allowed since the sandbox bounds it
	Origin   string   // where the rule comes from: "user", "project", "agent", "built-in", "run"
	Reason   string   // for the model and for people
	Subject  string   // what is asked about, in full: the command, the path, the address
	Parts    []Part   // of a call that is decided on part by part, such as a command; else nil
	Always   string   // a rule that would allow this and its like, offered to people; "" if none fits every part of it
	Missing  []string // rules that would allow this only together, such as one for a command and one for the file that it writes; nil if Always is set
}

// A Guard decides on the calls of a Set, whoever makes them; see [Set.Guarded]. Its zero allows all.
type Guard struct {
	Gate Gate // if nil, all calls are allowed
	// Headless means that no user can be asked: what the Gate asks about is denied.
	Headless bool
	// Strict means that only the Gate permits calls: answers and decisions in the log of a run do not, since others could have put them there.
	Strict bool
	// Remember keeps a rule for later runs, when a user answers that something is always allowed. It may be called
	// again after a crash. If nil, that answer is not offered.
	Remember func(rule string) error
}

// Guarded returns a set of the same tools whose calls obey a guard. What the Gate denies is refused. What it asks about
// is refused unless the caller has asked and the call is Permitted, as agents, nodes and steps of recipes do. Sets
// that Select makes of it have the same guard.
func (s *Set) Guarded(g Guard) *Set {
	if s == nil {
		return nil
	}
	return &Set{tools: s.tools, byName: s.byName, guard: g}
}

// Guard returns what decides on the calls of the set.
func (s *Set) Guard() Guard {
	if s == nil {
		return Guard{}
	}
	return s.guard
}

// refuses returns why a call must not happen, or "".
func (g *Guard) refuses(t *Tool, c *Call) string {
	if g.Gate == nil {
		return ""
	}
	switch v := g.Gate.Check(t, c); {
	case v.Decision == Allow || v.Decision != Deny && c.Permitted:
		return ""
	case v.Decision == Deny:
		return "denied: " + v.Reason
	default:
		return "denied: it needs permission, and the user was not asked: " + v.Reason
	}
}

// A Part is a part of a call, with what a Gate says of that part alone.
type Part struct {
	Text     string // a simple command, or what else is done
	Decision Decision
	Rule     string // as in Verdict, as are the next
	Origin   string
	Reason   string
}
