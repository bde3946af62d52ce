package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
)

// mostDenied is the largest number of denied calls that are named.
const mostDenied = 3

// withoutLeave returns an error that lists the calls of a finished run that were denied without asking a user, and how to allow them, or else the step
// whose required call was denied. It returns nil if there are none.
func withoutLeave(run *transcript.Run, id string) *Error {
	var calls, rules []string
	for _, d := range run.Denied {
		call, allowing := shortened(d.String()), d.Allowing()
		if len(allowing) == 0 && d.Reason != "" {
			call += " (" + transcript.Line(d.Reason) + ")"
		}
		calls = append(calls, call)
		for _, r := range allowing {
			if !slices.Contains(rules, r) {
				rules = append(rules, r)
			}
		}
	}
	for _, q := range run.Questions {
		if q.Denied && q.By == tui.ByPolicy && agent.Permission(&runlog.Question{Key: q.Key, Kind: q.Kind}) {
			calls = append(calls, shortened(transcript.Line(q.Question)))
		}
	}
	if len(calls) == 0 {
		return deniedStep(run, id)
	}
	named := slices.Clone(calls[:min(len(calls), mostDenied)])
	if n := len(calls) - mostDenied; n > 0 {
		named = append(named, fmt.Sprintf("and %d more", n))
	}
	let := "let it: --allow 'RULE', such as --allow 'bash(go test *)'"
	if len(rules) > 0 {
		let = "let it:" + allowFlags(rules[:min(len(rules), mostDenied)])
	}
	how := "completed"
	switch run.Status {
	case runlog.Partial:
		how = "completed in part"
	case runlog.Failed:
		how = "failed"
	}
	return &Error{
		Exit: ExitDenied, Code: "denied", Message: fmt.Sprintf("run %s %s, but %s turned down since nobody was asked: %s", id, how,
			was(len(calls), "call"), strings.Join(named, "; ")),
		Next: []string{let, "be asked: on a terminal without --on-ask deny, or anywhere with --on-ask wait"},
	}
}

// allowFlags returns the flags that allow what rules are about, with a space before each.
func allowFlags(rules []string) (flags string) {
	for _, r := range rules {
		flags += " --allow '" + strings.ReplaceAll(r, "'", `'\''`) + "'"
	}
	return flags
}

// deniedStep returns the error of a run in which a step failed because a rule or a user denied its call, or --on-ask denied its question. It returns nil
// if there is no such step.
func deniedStep(run *transcript.Run, id string) *Error {
	failed := func(path string) bool {
		t := run.Task(path)
		return t != nil && t.State == transcript.Failed
	}
	denied := func(path, what string, next ...string) *Error {
		text := fmt.Sprintf("run %s completed in part, but step %s was denied: %s", id, path, what)
		return &Error{Exit: ExitDenied, Code: "denied", Message: text, Next: next}
	}
	for _, d := range run.Refused {
		if d.Agent == "" && failed(d.Path) { // an agent finds another way, and fails for reasons of its own
			return denied(d.Path, shortened(d.String()))
		}
	}
	for _, q := range run.Questions {
		if q.Denied && q.By == tui.ByPolicy && failed(q.Path) {
			return denied(q.Path, shortened(transcript.Line(q.Question)), "answer ahead: --answer "+q.Path+"=VALUE",
				"be asked: on a terminal without --on-ask deny, or anywhere with --on-ask wait")
		}
	}
	return nil
}

// failedDenied reports whether a task failed that had a call denied.
func failedDenied(run *transcript.Run) bool {
	return slices.ContainsFunc(run.Denied, func(d transcript.Denial) bool {
		t := run.Task(d.Path)
		return t != nil && t.State == transcript.Failed
	})
}
