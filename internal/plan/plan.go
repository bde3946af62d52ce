// Package plan holds lists of tasks that wait for each other: it reads them from what models and people write, and decides which of them can begin.
package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/suggest"
)

// The states of a task.
const (
	Pending    = "pending"
	InProgress = "in_progress"
	Completed  = "completed"
	Failed     = "error"
)

// A Task is one piece of work.
type Task struct {
	ID        string   `json:"id"`
	Title     string   `json:"title"`
	Prompt    string   `json:"prompt,omitempty"` // what the worker is told; defaults to the title
	BlockedBy []string `json:"blocked_by,omitempty"`
	Files     []string `json:"files,omitempty"` // that it will change, as far as that is known
	Check     string   `json:"check,omitempty"` // a command besides the plan's
	Status    string   `json:"status,omitempty"`
}

// A Plan is a list of tasks and what their result has to fulfil.
type Plan struct {
	Acceptance []string `json:"acceptance,omitempty"`
	Check      string   `json:"check,omitempty"` // the command that decides whether a task is done
	Tasks      []Task   `json:"tasks"`
}

// Key returns an ID in the form in which IDs are compared: "#1" is "1", and case does not count.
func Key(id string) string {
	return strings.ToLower(strings.TrimLeft(strings.TrimSpace(id), "#"))
}

// index maps the keys of tasks to their positions. Of duplicates the first counts, and tasks without an ID are left out.
func index(tasks []Task) map[string]int {
	at := map[string]int{}
	for i, t := range tasks {
		k := Key(t.ID)
		if _, taken := at[k]; k != "" && !taken {
			at[k] = i
		}
	}
	return at
}

// Order returns the tasks so that each comes after those that block it, and otherwise in their own order. Tasks that can never begin follow: those
// without an ID, duplicates, those in a cycle, and those behind unknown tasks.
func Order(tasks []Task) []Task {
	at := index(tasks)
	out, placed := make([]Task, 0, len(tasks)), make([]bool, len(tasks))
	waits := map[int][]int{}
	open := make([]int, len(tasks))
	var ready []int
	for i, t := range tasks {
		if first, ok := at[Key(t.ID)]; !ok || first != i {
			continue
		}
		for _, b := range t.BlockedBy {
			j, known := at[Key(b)]
			if open[i]++; known {
				waits[j] = append(waits[j], i)
			}
		}
		if open[i] == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := ready[0]
		ready = ready[1:]
		out, placed[i] = append(out, tasks[i]), true
		for _, j := range waits[i] {
			if open[j]--; open[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
	for i, t := range tasks {
		if !placed[i] {
			out = append(out, t)
		}
	}
	return out
}

// Ready returns the pending tasks whose blockers are all completed.
func Ready(tasks []Task) []Task {
	at := index(tasks)
	var out []Task
	for _, t := range tasks {
		if (t.Status == "" || t.Status == Pending) && !slices.ContainsFunc(t.BlockedBy, func(b string) bool {
			i, known := at[Key(b)]
			return !known || tasks[i].Status != Completed
		}) {
			out = append(out, t)
		}
	}
	return out
}

// Deadlock returns the pending tasks that can never begin, even if all that run or can begin are completed.
func Deadlock(tasks []Task) []Task {
	left := slices.Clone(tasks)
	for i := range left {
		if left[i].Status == InProgress {
			left[i].Status = Completed
		}
	}
	for ready := Ready(left); len(ready) > 0; ready = Ready(left) {
		done := index(ready)
		for i := range left {
			if _, ok := done[Key(left[i].ID)]; ok || Key(left[i].ID) == "" {
				left[i].Status = Completed
			}
		}
	}
	return slices.DeleteFunc(left, func(t Task) bool { return t.Status != "" && t.Status != Pending })
}

// Problems lists what must be put right before tasks can run: tasks that say nothing, unknown blockers, and cycles, each as a path.
func Problems(tasks []Task) []string {
	at := index(tasks)
	var out, ids []string
	for _, t := range tasks {
		ids = append(ids, t.ID)
	}
	for i, t := range tasks {
		if t.Title == "" && t.Prompt == "" {
			out = append(out, fmt.Sprintf("task %d says nothing: give it a title", i+1))
		}
		for _, b := range t.BlockedBy {
			if _, known := at[Key(b)]; !known {
				out = append(out, fmt.Sprintf("task %s waits for %q, and there is no such task%s", t.ID, b, suggest.Hint(b, ids)))
			}
		}
	}
	state := make([]int, len(tasks)) // 1 is on the way, 2 is done
	var way []string
	var visit func(i int)
	visit = func(i int) {
		state[i] = 1
		way = append(way, tasks[i].ID)
		for _, b := range tasks[i].BlockedBy {
			j, known := at[Key(b)]
			switch {
			case !known || state[j] == 2:
			case state[j] == 1:
				circle := append(slices.Clone(way[slices.Index(way, tasks[j].ID):]), tasks[j].ID)
				out = append(out, "tasks wait for each other in a circle: "+strings.Join(circle, " ← "))
			default:
				visit(j)
			}
		}
		way = way[:len(way)-1]
		state[i] = 2
	}
	for i := range tasks {
		if state[i] == 0 {
			visit(i)
		}
	}
	return out
}

// Tidy returns tasks with an ID each that can name files and branches: lower-case letters, digits and dashes. Of duplicates the later ones are renamed,
// and blockers follow the first. A task does not block itself, and is pending. Names are the IDs of
// other tasks, which may block these.
func Tidy(tasks []Task, names []string) []Task {
	taken, renamed := map[string]bool{}, map[string]string{}
	for _, n := range names {
		taken[n] = true
	}
	out := slices.Clone(tasks)
	for i := range out {
		t := &out[i]
		base := slug(t.ID)
		if base == "" {
			base = fmt.Sprint(i + 1)
		}
		id := base
		for n := 2; taken[id]; n++ {
			id = fmt.Sprintf("%s-%d", base, n)
		}
		taken[id] = true
		if k := Key(t.ID); k != "" && renamed[k] == "" {
			renamed[k] = id
		}
		t.ID, t.Status = id, Pending
	}
	for _, n := range names {
		if renamed[Key(n)] == "" {
			renamed[Key(n)] = n
		}
	}
	for i := range out {
		t := &out[i]
		var blocked []string
		for _, b := range t.BlockedBy {
			if id := renamed[Key(b)]; id != "" {
				b = id
			}
			if b != t.ID && !slices.Contains(blocked, b) {
				blocked = append(blocked, b)
			}
		}
		t.BlockedBy = blocked
	}
	return out
}

// slug returns what can be a part of a branch's name on every system, "" if nothing is left.
func slug(id string) string {
	const most = 32
	var b strings.Builder
	for _, c := range strings.ToLower(id) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			b.WriteRune(c)
		} else if s := b.String(); s != "" && !strings.HasSuffix(s, "-") {
			b.WriteByte('-')
		}
		if b.Len() >= most {
			break
		}
	}
	return strings.Trim(b.String(), "-")
}
