package question

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/runlog"
)

// The recorded authors of answers that modes give.
const (
	byEdits = "person, accepting edits"
	byPlan  = "person, planning"
)

// The modes in which permission requests of a run are met. The zero mode asks about everything.
const (
	ModeEdits = "accept edits"
	ModePlan  = "plan"
)

// Meet returns the answer of a mode to a question, nil to ask the user. Nothing is accepted of a run that was imported.
func Meet(mode string, imported bool, q *runlog.Question) *runlog.Answer {
	switch {
	case Kind(q) != runlog.QuestionPermission:
	case mode == ModePlan:
		return &runlog.Answer{Value: json.RawMessage(`"` + agent.AnswerDeny + `: plan mode: propose, change nothing"`), By: byPlan}
	case mode == ModeEdits && !imported && q.Call != nil && PlainEdit(q.Call) && slices.Contains(q.Options, agent.AnswerOnce):
		return &runlog.Answer{Value: json.RawMessage(`"` + agent.AnswerOnce + `"`), By: byEdits}
	}
	return nil
}

// PlainEdit reports whether a call changes one ordinary file inside of its folder in a way that is fully known. Whatever is unusual about it is for the
// user: a protected name, a rule about this very file, hidden characters.
func PlainEdit(c *runlog.QuestionCall) bool {
	var in struct{ Path string }
	switch {
	case c.Tool != "edit_file" && c.Tool != "write_file":
		return false
	case c.Diff == "" || c.Larger > 0 || c.Fails != "" || Hidden(c.Diff) || len(c.Parts) > 0 || c.Cwd == "" || c.Always == "":
		return false
	case json.Unmarshal(c.Args, &in) != nil || in.Path == "" || Hidden(in.Path):
		return false
	case c.Rule == "" && c.Reason != "no rule allows it":
		return false
	case c.Rule != "" && (c.Rule != c.Tool || !strings.HasPrefix(c.Reason, "ask by the rule ")): // one about all files is what the mode stands for
		return false
	}
	for _, path := range []string{in.Path, c.Subject} { // as it was called, and where that leads
		if filepath.IsAbs(path) {
			rel, err := filepath.Rel(c.Cwd, path)
			if err != nil {
				return false
			}
			path = rel
		}
		hides := func(name string) bool { return strings.HasPrefix(name, ".") }
		if path = filepath.Clean(path); !filepath.IsLocal(path) || slices.ContainsFunc(strings.Split(filepath.ToSlash(path), "/"), hides) {
			return false
		}
	}
	return true
}
