package ralph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/gitwork"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/plan"
)

// An Output is the output of the workflow.
type Output struct {
	Text     string   `json:"text"`
	Branch   string   `json:"branch,omitempty"`
	Stop     string   `json:"stop,omitempty"` // why it ended
	Tasks    []result `json:"tasks,omitempty"`
	Unmerged []string `json:"unmerged,omitempty"` // branches with work that is not in Branch
	Findings []string `json:"findings,omitempty"` // that are left, those of P3 among them
	PR       string   `json:"pr,omitempty"`
}

// A result is what became of a task.
type result struct {
	ID       string `json:"id"`
	Title    string `json:"title,omitempty"`
	Status   string `json:"status"` // as of package plan; pending if it was not begun since it is blocked
	Error    string `json:"error,omitempty"`
	Attempts int    `json:"attempts,omitempty"` // how often it was checked
	Merged   string `json:"merged,omitempty"`   // the commit that merged it
	Branch   string `json:"branch,omitempty"`   // its own, if that is not merged
}

// state is the state of the outer graph.
type state struct {
	Run      string      `json:"run,omitempty"` // whose branch it works on; a fork has that of its parent
	Red      string      `json:"red,omitempty"` // what the check printed before the work
	Plan     plan.Plan   `json:"plan"`
	Again    string      `json:"again,omitempty"`    // why the user wants another plan
	Approved bool        `json:"approved,omitempty"` // the plan is
	Round    int         `json:"round"`              // reviews so far
	Clean    int         `json:"clean"`              // of them the last ones that found nothing
	Reviews  []review    `json:"reviews,omitempty"`  // of this round
	Reviewed string      `json:"reviewed,omitempty"` // the tip at the last review that found something
	Tip      string      `json:"tip,omitempty"`      // of the branch of the run
	Open     []finding   `json:"open,omitempty"`     // that no task is about
	Results  []result    `json:"results,omitempty"`
	Stop     string      `json:"stop,omitempty"`
	Partial  bool        `json:"partial,omitempty"`
	Output   Output      `json:"output"`
	Tasks    []plan.Task `json:"tasks,omitempty"` // all, with their states
}

// update is a node's addition to the state. What is nil stays.
type update struct {
	Run, Red, Again, Reviewed, Tip, Stop *string    `json:",omitempty"`
	Plan                                 *plan.Plan `json:",omitempty"`
	Approved, Partial                    *bool      `json:",omitempty"`
	Round, Clean                         *int       `json:",omitempty"`
	Tasks                                []plan.Task
	Results                              []result
	Review                               *review   `json:",omitempty"` // one more of this round
	Judged                               bool      `json:",omitempty"` // the round has ended
	Open                                 []finding `json:",omitempty"`
	Output                               *Output   `json:",omitempty"`
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func reduce(s state, u update) state {
	set(&s.Run, u.Run)
	set(&s.Red, u.Red)
	set(&s.Again, u.Again)
	set(&s.Reviewed, u.Reviewed)
	set(&s.Tip, u.Tip)
	set(&s.Stop, u.Stop)
	set(&s.Plan, u.Plan)
	set(&s.Approved, u.Approved)
	set(&s.Partial, u.Partial)
	set(&s.Round, u.Round)
	set(&s.Clean, u.Clean)
	set(&s.Output, u.Output)
	s.Tasks = slices.Clone(s.Tasks)
	for _, t := range u.Tasks {
		if i := slices.IndexFunc(s.Tasks, func(o plan.Task) bool { return o.ID == t.ID }); i >= 0 {
			s.Tasks[i] = t
		} else {
			s.Tasks = append(s.Tasks, t)
		}
	}
	s.Results = slices.Clone(s.Results)
	for _, res := range u.Results {
		if i := slices.IndexFunc(s.Results, func(o result) bool { return o.ID == res.ID }); i >= 0 {
			s.Results[i] = res
		} else {
			s.Results = append(s.Results, res)
		}
		if i := slices.IndexFunc(s.Tasks, func(t plan.Task) bool { return t.ID == res.ID }); i >= 0 {
			s.Tasks[i].Status = res.Status
		}
	}
	s.Reviews = slices.Clone(s.Reviews)
	if u.Judged {
		s.Reviews = nil
	}
	if u.Review != nil {
		s.Reviews = append(s.Reviews, *u.Review)
	}
	s.Open = append(slices.Clone(s.Open), u.Open...)
	return s
}

// flow returns the graph of a run.
func (r *runner) flow() (*graph.Flow[state, update], error) {
	g := graph.New(Name, reduce)
	retry := &graph.Retry{Attempts: 3, If: temporary}
	for _, n := range []graph.Node[state, update]{
		{Name: "begin", Run: r.begin},
		{Name: "planner", Run: r.planner, Retry: retry, Kind: "agent"},
		{Name: "approve", Run: r.approve},
		{Name: "work", Run: r.work, Kind: "sub"},
		{Name: "review", Run: r.review, Retry: retry, Kind: "agent", OnError: graph.Skip, Instead: unreviewed},
		{Name: "judge", Run: r.judge},
		{Name: "finish", Run: r.finish},
	} {
		g.AddNode(n)
	}
	g.Edge(graph.Start, "begin")
	g.Edge("begin", "planner")
	g.Fan("planner", r.next, "approve", "work", "review", "finish")
	g.Fan("approve", r.next, "planner", "work", "finish")
	g.Edge("work", "planner") // which hears what the user has said meanwhile
	g.Edge("review", "judge")
	g.Edge("judge", "planner") // the user may have said something
	g.Edge("finish", graph.End)
	return g.Compile()
}

// next decides what follows. It is pure.
func (r *runner) next(s state) []graph.Send {
	to := func(name string) []graph.Send { return []graph.Send{{To: name}} }
	waiting := slices.ContainsFunc(plan.Ready(s.Tasks), func(t plan.Task) bool { return s.result(t.ID) == nil })
	switch {
	case s.Again != "":
		return to("planner")
	case !s.Approved:
		return to("approve")
	case s.Stop != "" || r.in.PlanOnly:
		return to("finish")
	case waiting:
		return to("work")
	case s.Tip == "": // nothing was merged
		return to("finish")
	}
	var out []graph.Send
	for _, name := range r.in.reviewers() {
		out = append(out, graph.Send{To: "review", Key: name, Arg: name})
	}
	return out
}

// forked reports whether the run with these branches began as a fork.
func (s *state) forked(run string) bool { return s.Run != "" && s.Run != run }

func (s *state) result(id string) *result {
	if i := slices.IndexFunc(s.Results, func(o result) bool { return o.ID == id }); i >= 0 {
		return &s.Results[i]
	}
	return nil
}

// ids returns the IDs that are taken.
func (s *state) ids() []string {
	var out []string
	for _, t := range s.Tasks {
		out = append(out, t.ID)
	}
	return out
}

// summary returns what a run has come to, in Markdown.
func (r *runner) summary(s *state, run string) Output {
	out := Output{Branch: gitwork.Branch(run, ""), Stop: s.Stop, Tasks: s.Results}
	var b, commits, left strings.Builder
	var merged []plan.Task
	for _, t := range s.Tasks {
		res := cmp.Or(s.result(t.ID), &result{ID: t.ID, Title: t.Title, Status: plan.Pending})
		if res.Merged != "" {
			merged = append(merged, t)
			fmt.Fprintf(&commits, "- %.10s %s: %s\n", res.Merged, t.ID, t.Title)
			continue
		}
		fmt.Fprintf(&left, "- %s: %s (%s", t.ID, t.Title, map[string]string{plan.Failed: "failed"}[res.Status]+map[string]string{plan.Pending: "not begun"}[res.Status])
		if res.Branch != "" {
			out.Unmerged = append(out.Unmerged, res.Branch)
			fmt.Fprintf(&left, ", its work is in %s", res.Branch)
		}
		fmt.Fprintf(&left, "): %s\n", firstLine(res.Error))
	}
	fmt.Fprintf(&b, "%d of %s merged into %s after %s", len(merged), inwords.Plural(len(s.Tasks), "task"), out.Branch, inwords.Plural(s.Round, "review"))
	if s.Stop != "" {
		b.WriteString("; " + s.Stop)
	}
	b.WriteString(".\n")
	if n := unchecked(&s.Plan, merged); n > 0 {
		fmt.Fprintf(&b, "%s merged without a check: any change passed.\n", inwords.Plural(n, "task"))
	}
	if len(merged) > 0 {
		fmt.Fprintf(&b, "\nTake it: git merge %s\n\n%s", out.Branch, commits.String())
	}
	if left.Len() > 0 {
		b.WriteString("\nNot done:\n" + left.String())
	}
	for i, f := range s.Open {
		if i == 0 {
			b.WriteString("\nFindings that are left:\n")
		}
		out.Findings = append(out.Findings, f.String())
		b.WriteString("- " + f.String() + "\n")
	}
	out.Text = b.String()
	return out
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}
