package ralph

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/gitwork"
	"github.com/superstep-dev/superstep/internal/plan"
	"github.com/superstep-dev/superstep/model"
)

const (
	attempts   = 3  // of a task, where a model fails for a moment
	mostFixes  = 3  // of a red check
	mostSame   = 3  // times that a check may fail in the same way
	mostMerges = 12 // rounds of one task
)

// unchanged is what a worker is told that has changed nothing.
const unchanged = "No file was changed. A task is done when its work is in the files of this folder."

// todo is an item of the event "tasks", see package transcript.
type todo struct {
	ID        string   `json:"id"`
	Content   string   `json:"content,omitempty"`
	Status    string   `json:"status"`
	BlockedBy []string `json:"blockedBy,omitempty"`
}

// todos is the data of the event "tasks": the whole list, or items of it that changed.
type todos struct {
	Whole bool   `json:"whole,omitempty"`
	Todos []todo `json:"todos"`
}

// done holds the results of tasks by ID. It is the state of the graph of tasks.
type done map[string]result

func merged(s done, u result) done {
	out := maps.Clone(s)
	if out == nil {
		out = done{}
	}
	out[u.ID] = u
	return out
}

// work runs the tasks that are open: as a graph in which each reads its blockers and so begins the moment they are done.
func (r *runner) work(ctx context.Context, t *graph.Task, s state) (u update, err error) {
	list := todos{Whole: true}
	for _, p := range s.Tasks {
		list.Todos = append(list.Todos, todo{p.ID, p.Title, p.Status, p.BlockedBy})
	}
	if err := t.Emit(ctx, "tasks", list); err != nil {
		return u, err
	}
	run := s.name(t)
	flow, begin, err := s.graph(run, func(ctx context.Context, t *graph.Task, p plan.Task, d done) (result, error) {
		return r.task(ctx, t, &s, run, p, d)
	})
	if err != nil {
		return u, err
	}
	o := t.Nested("")
	o.Parallelism = r.in.Workers
	o.Ended = func(_ int, skipped []string) { t.PassOver(skipped...) }
	final, err := flow.Run(ctx, begin, o)
	if err != nil {
		return u, err
	}
	if s.forked(run) {
		if err := t.Scope().Afresh(func() error { return r.complete(ctx, &s, run, final) }); err != nil {
			return u, err
		}
	}
	for _, p := range s.Tasks {
		if res, new := final[p.ID]; new && s.result(p.ID) == nil {
			u.Results = append(u.Results, res)
			if res.Merged != "" {
				u.Tip = &res.Merged // any: reviewers look at the branch
			}
		}
	}
	return u, nil
}

// complete fails if the branch of a fork lacks work that was merged before, for its commits are gone.
func (r *runner) complete(ctx context.Context, s *state, run string, all done) error {
	tree, err := r.trunk(ctx, s, run)
	if err != nil {
		return err
	}
	for _, p := range s.Tasks {
		sha := all[p.ID].Merged
		if sha == "" {
			continue
		}
		if in, err := r.repo.Merged(ctx, sha, tree.Branch); err != nil || !in {
			return errors.Join(err, fmt.Errorf("task %s was merged as %s by a run before this one, and %s has no such commit: bring it back with `git merge %s` there", p.ID, sha, tree.Branch, sha))
		}
	}
	return nil
}

// graph compiles the open tasks to a graph whose nodes call do. The first state has the results of the others.
func (s *state) graph(run string, do func(context.Context, *graph.Task, plan.Task, done) (result, error)) (*graph.Flow[done, result], done, error) {
	g := graph.New("tasks", merged)
	begin, leaf := done{}, map[string]bool{}
	for _, res := range s.Results {
		begin[res.ID] = res
	}
	node := func(id string) string { return "task-" + id }
	var open []plan.Task
	for _, p := range plan.Order(s.Tasks) {
		if _, ended := begin[p.ID]; !ended {
			open, leaf[p.ID] = append(open, p), true
		}
	}
	for _, p := range open {
		n := graph.Node[done, result]{
			Name: node(p.ID), Kind: "agent", Agents: 1, Reads: []string{}, OnError: graph.Skip, Retry: &graph.Retry{Attempts: attempts, If: temporary},
			Instead: func(_ done, err error) result {
				res := result{ID: p.ID, Title: p.Title, Status: plan.Failed, Error: err.Error()}
				if !errors.As(err, new(*idleError)) {
					res.Branch = gitwork.Branch(run, p.ID)
				}
				return res
			},
			Run: func(ctx context.Context, t *graph.Task, d done) (result, error) { return do(ctx, t, p, d) },
		}
		for _, b := range p.BlockedBy {
			if _, ended := begin[b]; !ended {
				n.Reads, n.Join = append(n.Reads, node(b)), graph.All
				g.Edge(node(b), n.Name)
				leaf[b] = false
			}
		}
		if len(n.Reads) == 0 {
			g.Edge(graph.Start, n.Name)
		}
		g.AddNode(n)
	}
	for _, p := range open {
		if leaf[p.ID] {
			g.Edge(node(p.ID), graph.End)
		}
	}
	flow, err := g.Compile()
	return flow, begin, err
}

// job is a task that is worked on.
type job struct {
	*runner
	plan.Task
	s    *state
	t    *graph.Task
	run  string // whose branch it is merged into
	from string // the commit that it began with
	path string // of its worktree
	crew *Crew
	open *gitwork.Tree // once it is needed
}

// task works on a task until it is merged or has failed.
func (r *runner) task(ctx context.Context, t *graph.Task, s *state, run string, p plan.Task, d done) (res result, err error) {
	res = result{ID: p.ID, Title: p.Title, Status: plan.Completed}
	for _, b := range p.BlockedBy {
		if d[b].Status != plan.Completed {
			return result{ID: p.ID, Title: p.Title, Status: plan.Pending, Error: "it waits for " + b + ", which is not done"}, nil
		}
	}
	j := &job{runner: r, Task: p, s: s, t: t, run: run}
	if err := j.tell(ctx, p.ID, "", plan.InProgress); err != nil {
		return res, err
	}
	defer func() {
		if j.crew != nil {
			err = errors.Join(err, j.crew.Close())
		}
		if err != nil && (agent.OfRun(err) || ctx.Err() != nil || temporary(err) && t.Attempt() < attempts) {
			return // it is not over
		}
		if err != nil {
			some, failed := j.keep(ctx)
			if err = errors.Join(err, failed); !some {
				err = &idleError{err}
			}
		}
		status := plan.Completed
		if err != nil {
			status = plan.Failed
		}
		err = errors.Join(err, j.tell(context.WithoutCancel(ctx), p.ID, "", status))
	}()
	if err := j.begin(ctx); err != nil {
		return res, err
	}
	if res.Attempts, err = j.do(ctx); err == nil {
		res.Merged, err = j.merge(ctx)
	}
	return res, err
}

// An idleError is why a task failed that leaves no work on its branch.
type idleError struct{ error }

// Unwrap returns the reason.
func (e *idleError) Unwrap() error { return e.error }

// tell shows users the state of an item of the list of tasks.
func (j *job) tell(ctx context.Context, id, content, status string) error {
	item := todo{ID: id, Content: content, Status: status}
	if id != j.ID {
		item.BlockedBy = []string{}
	}
	return j.t.Emit(ctx, "tasks", todos{Todos: []todo{item}})
}

// tree opens the worktree of the task.
func (j *job) tree(ctx context.Context) (*gitwork.Tree, error) {
	if j.open != nil {
		return j.open, nil
	}
	repo, err := j.repository(ctx)
	if err == nil {
		j.open, err = repo.Tree(ctx, j.run, j.ID, j.from)
	}
	return j.open, err
}

// begin creates the worktree, from a commit that has the results of the blockers, and sets it up.
func (j *job) begin(ctx context.Context) error {
	type place struct{ Path, From string }
	at, err := git(ctx, j.t, "worktree", "worktree", func(ctx context.Context) (p place, err error) {
		trunk, err := j.trunk(ctx, j.s, j.run)
		if err != nil {
			return p, err
		}
		if j.from, err = trunk.Tip(ctx); err != nil {
			return p, err
		}
		tree, err := j.tree(ctx)
		if err != nil {
			return p, err
		}
		return place{tree.Path, j.from}, nil
	})
	if err != nil {
		return err
	}
	j.path, j.from = at.Path, at.From
	if err := j.t.Scope().Afresh(func() error { _, err := j.tree(ctx); return err }); err != nil {
		return err
	}
	if j.crew, err = j.opt.Open(ctx, j.in, "worker", j.path); err != nil || j.in.Setup == "" {
		return err
	}
	res, err := j.command(ctx, j.t, j.crew, "setup", "setup", j.in.Setup)
	if err == nil && res.Error {
		err = fmt.Errorf("the setup failed: %s", tail(res.Text, 2000))
	}
	return err
}

// do has the worker do the task until the check passes, and commits it. It returns how often it was checked.
func (j *job) do(ctx context.Context) (attempts int, err error) {
	if err := j.agent(ctx, "work", j.prompt()); err != nil {
		return 0, err
	}
	return j.green(ctx, "work", true)
}

// agent has a worker do something. It counts three quarters of the model's window as all of it: at 45 % of the window old results are cut down, and at
// 60 % a summary takes the place of the conversation.
func (j *job) agent(ctx context.Context, key, prompt string) error {
	a := *j.crew.Agent
	if m, ok := a.Model.(model.Sized); ok && a.Limits.Window == 0 {
		if n, known := m.Window(); known {
			a.Limits.Window = n * 3 / 4
		}
	}
	_, err := a.Run(ctx, j.t.Scope(), &agent.Work{Key: key, Prompt: prompt, Stopped: j.t.Stopped()})
	return err
}

// green has the check decide. While it fails, a worker mends what it says, up to a limit. Then everything is committed. With changed, the task must have
// changed something.
func (j *job) green(ctx context.Context, key string, changed bool) (attempts int, err error) {
	seen := map[string]int{}
	for n := 1; ; n++ {
		red, err := j.check(ctx, fmt.Sprintf("%s/check-%d", key, n), changed)
		if err != nil {
			return n, err
		}
		if red == "" {
			_, err := git(ctx, j.t, key+"/commit", "commit", func(ctx context.Context) (string, error) {
				return j.commit(ctx, j.Title, fmt.Sprintf("%s-%d", key, n))
			})
			return n, err
		}
		same := hash(red, j.path)
		seen[same]++
		switch {
		case seen[same] == mostSame && red == unchanged:
			return n, fmt.Errorf("the worker changed no file, %d times", mostSame)
		case seen[same] == mostSame:
			return n, fmt.Errorf("the check failed %d times in the same way: %s", mostSame, lastLine(red))
		case n > mostFixes:
			return n, fmt.Errorf("the check fails after %d fixes: %s", mostFixes, lastLine(red))
		}
		id, title := fmt.Sprintf("fix-%d:%s", n, j.ID), fmt.Sprintf("mend the check of %s: %s", j.ID, lastLine(red))
		if red == unchanged {
			title = "work again on " + j.ID + ": no file was changed"
		}
		if key != "work" {
			id = key + "-" + id
		}
		if err := j.tell(ctx, id, title, plan.InProgress); err != nil {
			return n, err
		}
		if err := j.agent(ctx, fmt.Sprintf("%s/fix-%d", key, n), j.fix(red)); err != nil {
			return n, err
		}
		if err := j.tell(ctx, id, title, plan.Completed); err != nil {
			return n, err
		}
	}
}

// check returns what is wrong with the work, "" if nothing is.
func (j *job) check(ctx context.Context, key string, changed bool) (red string, err error) {
	if changed {
		some, err := git(ctx, j.t, key+"/status", "status", func(ctx context.Context) (bool, error) {
			tree, err := j.tree(ctx)
			if err != nil {
				return false, err
			}
			list, err := tree.Changes(ctx)
			if err != nil || len(list) > 0 {
				return true, err
			}
			tip, err := tree.Tip(ctx)
			return tip != j.from, err
		})
		if err != nil {
			return "", err
		}
		if !some {
			return unchanged, nil
		}
	}
	var commands []string
	for _, c := range []string{j.s.Plan.Check, j.Check} {
		if strings.TrimSpace(c) != "" {
			commands = append(commands, c)
		}
	}
	for i, c := range commands {
		if i > 0 {
			key += "/own"
		}
		res, err := j.command(ctx, j.t, j.crew, key, "check", c)
		if err != nil {
			return "", err
		}
		if res.Error {
			return "$ " + c + "\n" + res.Text, nil
		}
	}
	return "", nil
}

// commit commits the worktree, without what a killed write_file left of a file that it had not finished.
func (j *job) commit(ctx context.Context, text, attempt string) (string, error) {
	tree, err := j.tree(ctx)
	if err != nil {
		return "", err
	}
	list, err := tree.Changes(ctx)
	if err != nil {
		return "", err
	}
	for _, c := range list {
		if name := path.Base(c.Path); c.Status == "??" && strings.HasPrefix(name, ".superstep-") && strings.HasSuffix(name, ".tmp") {
			if err := os.Remove(filepath.Join(tree.Path, filepath.FromSlash(c.Path))); err != nil {
				return "", err
			}
		}
	}
	sha, _, err := tree.Commit(ctx, text, trailers(j.run, j.ID, attempt))
	return sha, err
}

// keep commits what a failed task leaves, on its own branch, and reports whether there is anything. If not, the branch is removed.
func (j *job) keep(ctx context.Context) (some bool, err error) {
	if j.path == "" {
		return false, nil
	}
	sha, err := git(ctx, j.t, "keep", "commit", func(ctx context.Context) (string, error) {
		sha, err := j.commit(ctx, "Unfinished: "+j.Title, "unfinished")
		if err != nil && j.open != nil { // it is in the middle of a merge: the commits of the task are on its branch, the rest is kept aside
			_, err = j.open.Reset(ctx)
		}
		return sha, err
	})
	if err != nil {
		return true, err
	}
	if sha == j.from {
		return false, j.remove(ctx, j.from)
	}
	return true, j.remove(ctx, "") // the branch stays
}

// remove removes the worktree of the task, and its branch if it is merged into another. It is no effect, for a task that runs again after a crash begins
// with its worktree.
func (j *job) remove(ctx context.Context, into string) error {
	return j.t.Scope().Afresh(func() error {
		repo, err := j.repository(ctx)
		if err != nil {
			return err
		}
		j.open = nil
		return repo.Remove(ctx, j.run, j.ID, into)
	})
}

// prompt returns what the worker is told.
func (j *job) prompt() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Task %s: %s\n\nDo this task. Your folder is a copy of the repository for you alone; others do the other tasks elsewhere, at the same time.\n\n# %s\n\n%s\n", j.ID, j.Title, j.Title, j.Prompt)
	if len(j.Files) > 0 {
		fmt.Fprintf(&b, "\nFiles: %s\n", strings.Join(j.Files, ", "))
	}
	b.WriteString(j.rules())
	return b.String()
}

// rules returns what holds for all work on the task.
func (j *job) rules() string {
	var b strings.Builder
	for _, c := range []string{j.s.Plan.Check, j.Check} {
		if c != "" {
			fmt.Fprintf(&b, "\nDone is what this command says, run in this folder when you have ended: %s\n", c)
		}
	}
	b.WriteString("\nLeave the changes in the files. Do not commit, and do not touch .git: that is done for you. Never get the check to pass by weakening it.\n")
	return b.String()
}

// fix returns what a worker is told of a check that fails.
func (j *job) fix(red string) string {
	return fmt.Sprintf("Mend task %s: %s\n\nThis task was worked on in your folder, and the check does not pass. Find the cause and mend it.\n\n# %s\n\n%s\n\nThe check:\n\n%s\n%s",
		j.ID, lastLine(red), j.Title, j.Prompt, tail(red, 16_000), j.rules())
}

// Numbers, times and addresses differ between two failures of the same kind.
var varying = regexp.MustCompile(`0x[0-9a-fA-F]+|[0-9]+(\.[0-9]+)?`)

// hash identifies a failure. The path of the worktree is no part of it.
func hash(red, path string) string {
	if path != "" {
		red = strings.ReplaceAll(red, path, ".")
	}
	sum := sha256.Sum256([]byte(varying.ReplaceAllString(red, "0")))
	return hex.EncodeToString(sum[:8])
}
