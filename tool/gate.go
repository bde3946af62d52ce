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
	Origin   string   // where the rule comes from: "user", "project", "agent", "built-in", "run"
	Reason   string   // for the model and for people
	Subject  string   // what is asked about, in full: the command, the path, the address
	Always   string   // a rule that would allow this and its like, offered to people; "" if none fits every part of it
}
