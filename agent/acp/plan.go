package acp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/internal/external"
)

// planned adds a plan as a call of the tool todo, whose arguments every view shows as the task list. The caller holds mu.
func (s *session) planned(out *external.Stepped, raw json.RawMessage) {
	args := todos(raw)
	if args == nil || s.plans >= mostCalls {
		return
	}
	s.plans++
	id := fmt.Sprintf("plan-%d", s.plans)
	out.Started = append(out.Started, external.Call{ID: id, Name: "todo", Args: args})
	out.Results = append(out.Results, external.Result{Call: id})
}

// todos returns the arguments of the tool todo for a list of what is to be done, or nil if it is none.
func todos(raw json.RawMessage) json.RawMessage {
	type todo struct {
		ID      string `json:"id"`
		Content string `json:"content"`
		Status  string `json:"status"`
	}
	var in []struct{ Content, Status string } // some have IDs of their own, which may be numbers
	if json.Unmarshal(raw, &in) != nil {
		return nil
	}
	list := make([]todo, len(in))
	for i, e := range in {
		if list[i] = (todo{fmt.Sprint(i + 1), e.Content, e.Status}); e.Content == "" || e.Status == "" {
			return nil
		}
	}
	args, err := json.Marshal(map[string]any{"todos": list})
	if err != nil {
		return nil
	}
	return args
}

// unified returns the change of a file as a unified diff of one hunk.
func unified(path, before, after string) string {
	const around = 3
	a, b := lines(before), lines(after)
	from := 0
	for from < len(a) && from < len(b) && a[from] == b[from] {
		from++
	}
	endA, endB := len(a), len(b)
	for endA > from && endB > from && a[endA-1] == b[endB-1] {
		endA, endB = endA-1, endB-1
	}
	if before == after {
		return ""
	}
	begin, tail := max(0, from-around), min(around, len(a)-endA)
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n@@ -%d,%d +%d,%d @@\n", path, path, begin+1, endA+tail-begin, begin+1, endB+tail-begin)
	for _, part := range []struct {
		sign  string
		lines []string
	}{{" ", a[begin:from]}, {"-", a[from:endA]}, {"+", b[from:endB]}, {" ", a[endA : endA+tail]}} {
		for _, l := range part.lines {
			out.WriteString(part.sign + l + "\n")
		}
	}
	return out.String()
}

// changed returns the lines between those at the beginning and the end that two texts have in common.
func changed(before, after string) (old, now string) {
	a, b := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return strings.Join(a, ""), strings.Join(b, "")
}

// cut returns the beginning of a text, of so many bytes at most.
func cut(text string, most int) string { return strings.ToValidUTF8(text[:min(len(text), most)], "") }

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// merge adds the settings of one JSON object to those of another, and replaces what is in both.
func merge(into, from string) string {
	var a, b map[string]any
	if json.Unmarshal([]byte(into), &a) != nil || json.Unmarshal([]byte(from), &b) != nil {
		return from
	}
	out, err := json.Marshal(merged(a, b))
	if err != nil {
		return from
	}
	return string(out)
}

func merged(a, b map[string]any) map[string]any {
	for k, v := range b {
		was, isMap := a[k].(map[string]any)
		now, both := v.(map[string]any)
		if isMap && both {
			v = merged(was, now)
		}
		a[k] = v
	}
	return a
}
