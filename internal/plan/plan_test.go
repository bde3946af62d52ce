package plan_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/internal/plan"
)

func task(id string, blockedBy ...string) plan.Task {
	return plan.Task{ID: id, Title: "t", BlockedBy: blockedBy}
}

func with(t plan.Task, status string) plan.Task {
	t.Status = status
	return t
}

func ids(tasks []plan.Task) string {
	var out []string
	for _, t := range tasks {
		out = append(out, t.ID)
	}
	return strings.Join(out, ",")
}

// The cases of the specification's task graph.
func TestTaskGraph(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []plan.Task
		want string
	}{
		{"sort", []plan.Task{task("#2", "#1"), task("#1"), task("#3")}, "#1,#3,#2"},
		{"number", []plan.Task{task("#2", "1"), task("#1")}, "#1,#2"},
		{"unknown", []plan.Task{task("#1"), task("#2", "#99"), task("#3")}, "#1,#3,#2"},
		{"duplicates and missing ids", []plan.Task{task("#1"), task(""), task("#1"), task("#2")}, "#1,#2,,#1"},
		{"cycle", []plan.Task{task("a", "b"), task("b", "a"), task("c")}, "c,a,b"},
		{"empty", nil, ""},
	} {
		before := slices.Clone(c.in)
		if got := ids(plan.Order(c.in)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if diff := cmp.Diff(before, c.in); diff != "" {
			t.Errorf("%s: the input was changed: %s", c.name, diff)
		}
	}
}

func TestReady(t *testing.T) {
	done, pending := plan.Completed, plan.Pending
	for _, c := range []struct {
		name string
		in   []plan.Task
		want string
	}{
		{"unknown blocker", []plan.Task{task("1", "99")}, ""},
		{"no blockers", []plan.Task{task("1")}, "1"},
		{"one of two", []plan.Task{with(task("1"), done), with(task("2"), pending), task("3", "#1", "2")}, "2"},
		{"both", []plan.Task{with(task("1"), done), with(task("2"), done), task("3", "#1", "2")}, "3"},
		{"running", []plan.Task{with(task("1"), plan.InProgress), with(task("2"), plan.Failed)}, ""},
	} {
		if got := ids(plan.Ready(c.in)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestDeadlock(t *testing.T) {
	in := []plan.Task{with(task("1"), plan.Failed), task("2", "1"), task("3", "2"), task("4"), task("5", "4"), task("6", "7"), task("7", "6"), task("8", "9"),
		with(task("10"), plan.InProgress), task("11", "10")}
	if got := ids(plan.Deadlock(in)); got != "2,3,6,7,8" {
		t.Error(got)
	}
}

func TestProblems(t *testing.T) {
	in := []plan.Task{task("build", "test"), task("test", "lint"), task("lint", "build"), task("ship", "buidl"), {ID: "x"}}
	want := []string{
		`task ship waits for "buidl", and there is no such task; did you mean "build"?`,
		"task 5 says nothing: give it a title",
		"tasks wait for each other in a circle: build ← test ← lint ← build",
	}
	if diff := cmp.Diff(want, plan.Problems(in)); diff != "" {
		t.Error(diff)
	}
	if got := plan.Problems([]plan.Task{task("a"), task("b", "a"), task("c", "a", "b")}); got != nil {
		t.Error(got)
	}
}

func TestTidy(t *testing.T) {
	in := []plan.Task{task("#1"), task("1", "#1"), task("Ünder/../way", "1", "#1"), task("", "1", ""), task("x", "x", "gone"), task("y", "#Old")}
	got := plan.Tidy(in, []string{"x", "old"})
	if ids(got) != "1,1-2,nder-way,4,x-2,y" {
		t.Error(ids(got))
	}
	if diff := cmp.Diff([]string{"1"}, got[2].BlockedBy); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"gone"}, got[4].BlockedBy); diff != "" { // Problems tells
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"old"}, got[5].BlockedBy); diff != "" {
		t.Error(diff)
	}
	if in[0].ID != "#1" {
		t.Error("the input was changed")
	}
}

// Every way in which planners write lists.
func TestRead(t *testing.T) {
	want := []plan.Task{
		{ID: "1", Title: "Add a limiter", Prompt: "In limit.go.", Status: plan.Pending},
		{ID: "2", Title: "Use it", BlockedBy: []string{"#1"}, Status: plan.Completed},
	}
	for name, text := range map[string]string{
		"object":   `{"tasks":[{"id":1,"title":"Add a limiter","prompt":"In limit.go."},{"id":"2","title":"Use it","blocked_by":["#1"],"status":"DONE"}]}`,
		"list":     `[{"id":"1","content":"Add a limiter","description":"In limit.go."},{"content":"Use  it","blockedBy":"#1","status":"Completed"}]`,
		"fenced":   "Here is the plan:\n```json\n{\"plan\":[{\"ID\":\"1\",\"Title\":\"Add a limiter\",\"details\":\"In limit.go.\"},{\"name\":\"Use it\",\"depends_on\":[\"#1\"],\"status\":\"finished\"}]}\n```\nGood luck!",
		"embedded": `I would [first] do this {as said}: [{"id":"1","title":"Add a limiter","prompt":"In limit.go."},{"title":"Use it","needs":["#1"],"status":"success"}] and stop.`,
		"nested":   `{"plan":{"tasks":[{"id":"1","title":"Add a limiter","prompt":"In limit.go."},{"title":"Use it","dependencies":"#1","status":"done"}]}}`,
		"yaml":     "tasks:\n  - id: 1\n    title: Add a limiter\n    prompt: |-\n      In limit.go.\n  - title: Use it\n    blocked_by: ['#1']\n    status: done\n",
	} {
		p, err := plan.Read(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, p.Tasks); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, text := range []string{"", "I cannot plan this.", `{"tasks":`, "[1, 2]", `{"verdict":"fine"}`, "note: this\nis prose: really"} {
		if p, err := plan.Read(text); err == nil {
			t.Errorf("%q: %+v", text, p)
		}
	}
	if p, err := plan.Read(`{"tasks":[]}`); err != nil || len(p.Tasks) != 0 {
		t.Error(p, err)
	}
	if _, err := plan.Read("tasks:\n  - id: 1\n title: x\n"); err == nil || !strings.Contains(err.Error(), "3") {
		t.Errorf("a mistake in YAML has no place: %v", err)
	}
	if _, err := plan.Read(strings.Repeat("[", 100_000)); err == nil {
		t.Error("brackets are no plan")
	}
}

func TestStatus(t *testing.T) {
	for v, want := range map[any]string{"In Progress": "in_progress", "DONE": "completed", "failed": "error", nil: "pending", "blocked": "pending", 123: "pending"} {
		if got := plan.Status(v); got != want {
			t.Errorf("%v: %s", v, got)
		}
	}
	got := plan.TaskOf(map[string]any{"id": json.Number("42"), "blockedBy": []any{"#1", json.Number("7"), "", nil}})
	if got.ID != "42" || strings.Join(got.BlockedBy, " ") != "#1 7" {
		t.Errorf("%+v", got)
	}
}

// What is shown to people to edit is read as it was.
func TestYAML(t *testing.T) {
	p := &plan.Plan{
		Acceptance: []string{"It builds: always", "- no dash"}, Check: `go test ./... # "all"`,
		Tasks: []plan.Task{
			{ID: "1", Title: "yes", Prompt: "Line: one\n\n  indented # no comment\n- x", Files: []string{"a b.go"}, Status: plan.Pending},
			{ID: "2", Title: `quote " and \`, BlockedBy: []string{"1"}, Check: "true", Prompt: "tab\there", Status: plan.Pending},
		},
	}
	got, err := plan.Read(p.YAML())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got); diff != "" {
		t.Errorf("%s\n%s", diff, p.YAML())
	}
	if table := p.Table(); !strings.Contains(table, "2   quote \" and \\ (after 1) [check: true]") {
		t.Error(table)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("```json\n[{\"id\":1}]\n```")
	f.Add("tasks:\n- x\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := plan.Read(text)
		if (p == nil) == (err == nil) {
			t.Fatal(p, err)
		}
		if p == nil {
			return
		}
		tasks := plan.Tidy(p.Tasks, nil)
		if len(plan.Order(tasks)) != len(tasks) {
			t.Fatal("tasks were lost")
		}
		seen := map[string]bool{}
		for _, x := range tasks {
			if x.ID == "" || seen[x.ID] {
				t.Fatal("an ID is empty or there twice")
			}
			seen[x.ID] = true
		}
		plan.Problems(tasks)
		plan.Deadlock(tasks)
	})
}

// A planner's title of any length leaves nothing of it out.
func TestLongTitle(t *testing.T) {
	long := strings.Repeat("long ", 10_000)
	p, err := plan.Read(`{"tasks":[{"id":"../../x","title":"` + long + `","prompt":"do it"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if x := plan.Tidy(p.Tasks, nil)[0]; x.ID != "x" || len(x.Title) > 210 || x.Prompt != strings.TrimSpace(long)+"\n\ndo it" {
		t.Errorf("%.100q", x)
	}
}
