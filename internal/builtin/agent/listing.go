package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// listing returns the workflows that can be run.
func listing(set workflow.Set) string {
	var b strings.Builder
	b.WriteString("The workflows:\n")
	for _, w := range set {
		b.WriteString("\n" + described(w))
	}
	return b.String()
}

// described describes a workflow and its inputs.
func described(w *workflow.Workflow) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", w.Name, cmp.Or(line(w.Description), "no description"))
	for _, in := range w.List() {
		facts := []string{in.Type, "optional"}
		switch {
		case in.Required:
			facts[1] = "required"
		case len(in.Default) > 0:
			facts[1] = "default " + string(in.Default)
		}
		if one := choices(w.Inputs.Properties[in.Name].Enum); one != "" {
			facts = append(facts, one)
		}
		fmt.Fprintf(&b, "  %s (%s)", in.Name, strings.Join(facts, ", "))
		if d := line(in.Description); d != "" {
			b.WriteString(": " + d)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// choices returns the values that an input may have, "" if it may have any.
func choices(enum []any) string {
	const most = 50
	var out []string
	for _, v := range enum[:min(len(enum), most)] {
		if b, err := json.Marshal(v); err == nil {
			out = append(out, string(b))
		}
	}
	if len(out) == 0 {
		return ""
	}
	if left := len(enum) - len(out); left > 0 {
		out = append(out, fmt.Sprintf("or one of %d more", left))
	}
	return "one of " + strings.Join(out, ", ")
}

// line returns a text on one line.
func line(s string) string { return strings.Join(strings.Fields(clean.Text(s)), " ") }

// listing lists the workflows in the background.
func (k *desk) listing(ctx context.Context) string {
	steps := k.steps(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.runs) == 0 {
		return "Nothing was started in the background."
	}
	var out strings.Builder
	out.WriteString("In the background:\n")
	for _, b := range k.runs {
		fmt.Fprintf(&out, "\n%s: %s", b.Handle, k.state(b, steps))
	}
	return out.String()
}

// still returns how far a workflow is, "" if it has ended.
func (k *desk) still(ctx context.Context, b *background) string {
	steps := k.steps(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if b.phase == over {
		return ""
	}
	return "still running: " + b.Handle + ": " + k.state(b, steps)
}

// state returns how far a workflow is. The caller holds mu.
func (k *desk) state(b *background, steps map[string]int) string {
	collected := "not collected yet"
	if b.collected {
		collected = "collected"
	}
	switch {
	case b.phase == over && b.result.Success:
		return "done, " + collected
	case b.phase == over:
		return "failed, " + collected
	}
	what := "running"
	if b.phase == waiting {
		what = "waits"
		for _, q := range k.task.Scope().Inner(b.place).Open() {
			const longest = 200
			what = "waits for a person's answer to: " + short(line(q.Text), longest)
			break
		}
	}
	if n, known := steps[b.place]; known && n == 1 {
		what += ", 1 step done"
	} else if known {
		what += fmt.Sprintf(", %d steps done", n)
	}
	return what
}

// short returns a text, cut at so many characters.
func short(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// tally counts the steps that workflows in the background have done, from the log, each record
// of which it reads once.
type tally struct {
	mu   sync.Mutex
	next uint64
	done map[string]int // by the path of what was done in
}

// steps returns how many steps of each workflow are done, by its place; nothing without a log.
func (k *desk) steps(ctx context.Context) map[string]int {
	k.mu.Lock()
	runs := slices.Clone(k.runs)
	k.mu.Unlock()
	if k.journal == nil || len(runs) == 0 {
		return nil
	}
	t := &k.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done == nil {
		t.next, t.done = runs[0].After+1, map[string]int{}
	}
	for r, err := range k.journal.Since(ctx, t.next) {
		if err != nil {
			return nil // it is only how far they are, and the next append will tell
		}
		t.next = r.Seq + 1
		if i := strings.LastIndexByte(r.Path, '/'); i >= 0 && r.Kind == runlog.KindTaskDone {
			t.done[r.Path[:i]]++
		}
	}
	out := map[string]int{}
	for _, b := range runs {
		out[b.place] = t.done[k.task.Scope().Inner(b.place).Path()]
	}
	return out
}
