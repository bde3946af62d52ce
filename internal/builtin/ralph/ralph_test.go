package ralph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/builtin/ralph"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/internal/plan"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/workflow"
)

// A script answers for the model. Every role has a function of its first message and of how many turns it has had; nil says "done".
type script struct {
	planner, worker, fixer, resolver, reviewer func(prompt string, turn int) []model.Part

	mu    sync.Mutex
	asked map[string][]string // the first messages, by role
}

func (s *script) role(prompt string) string {
	for _, r := range [][2]string{{"Plan this work.", "planner"}, {"Do this task.", "worker"}, {"the check does not pass", "fixer"},
		{"changed the same lines", "resolver"}, {"Acceptance criteria:", "reviewer"}} {
		if strings.Contains(prompt, r[0]) {
			return r[1]
		}
	}
	return "?"
}

func (s *script) answer(r *modeltest.ParsedRequest) modeltest.Reply {
	turn, prompt := 0, r.Messages[0].Text()
	for _, m := range r.Messages {
		if m.Role == model.Assistant {
			turn++
		}
	}
	role := s.role(prompt)
	s.mu.Lock()
	if turn == 0 {
		s.asked[role] = append(s.asked[role], prompt)
	}
	s.mu.Unlock()
	f := map[string]func(string, int) []model.Part{"planner": s.planner, "worker": s.worker, "fixer": s.fixer, "resolver": s.resolver, "reviewer": s.reviewer}[role]
	if f == nil && role == "reviewer" {
		return modeltest.Reply{Parts: say(`{"findings": []}`)}
	}
	if f == nil {
		return modeltest.Reply{Parts: say("done")}
	}
	return modeltest.Reply{Parts: f(prompt, turn)}
}

func (s *script) prompts(role string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked[role])
}

func say(text string) []model.Part { return []model.Part{{Kind: model.Text, Text: text}} }

func write(path, content string) []model.Part {
	args, err := json.Marshal(map[string]string{"path": path, "content": content})
	if err != nil {
		panic(err)
	}
	return []model.Part{{Kind: model.ToolCall, Call: &model.Call{Name: "write_file", Args: args}}}
}

// title returns the task that a prompt is about.
func title(prompt string) string {
	_, rest, _ := strings.Cut(prompt, "\n# ")
	t, _, _ := strings.Cut(rest, "\n")
	return t
}

// writes is a worker that writes a file named after its task, once.
func writes(prompt string, turn int) []model.Part {
	if turn > 0 {
		return say("done")
	}
	return write(title(prompt)+".txt", title(prompt)+"\n")
}

// planOf is a planner with a plan.
func planOf(tasks ...plan.Task) func(string, int) []model.Part {
	return func(string, int) []model.Part {
		b, err := json.Marshal(plan.Plan{Acceptance: []string{"it works"}, Tasks: tasks})
		if err != nil {
			panic(err)
		}
		return say(string(b))
	}
}

func task(id string, blockedBy ...string) plan.Task {
	return plan.Task{ID: id, Title: "t" + id, Prompt: "do " + id, BlockedBy: blockedBy}
}

// world is a repository with a workflow that works on it.
type world struct {
	t         *testing.T
	dir       string
	trees     string
	script    *script
	model     model.Model
	store     runlog.Store
	w         *workflow.Workflow
	id        string
	run       func(ctx context.Context, dir, command string) (string, bool, error) // in place of a shell
	published []ralph.PullRequest
	skip      []string // of the tasks
	budget    *runlog.Budget
	other     func(r *modeltest.ParsedRequest) (modeltest.Reply, bool) // in place of the script
}

// repository is a checkout with one commit of the file README.
var repository = sync.OnceValues(func() (fs.FS, error) {
	dir, err := os.MkdirTemp("", "ralph-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	err = os.WriteFile(filepath.Join(dir, "README"), []byte("hello\n"), 0o600)
	for _, args := range [][]string{{"init", "-q", "-b", "main", "--template="}, {"add", "."}, {"-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "first"}} {
		if err == nil {
			err = exec.Command("git", append([]string{"-C", dir}, args...)...).Run()
		}
	}
	all := fstest.MapFS{}
	return all, errors.Join(err, fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		f := &fstest.MapFile{Mode: d.Type() | 0o755}
		if !d.IsDir() {
			f.Mode = 0o644
			f.Data, err = os.ReadFile(filepath.Join(dir, name))
		}
		all[name] = f
		return err
	}))
})

func newWorld(t *testing.T, s *script) *world {
	t.Helper()
	base := t.TempDir()
	w := &world{t: t, dir: filepath.Join(base, "repo"), trees: filepath.Join(base, "trees"), script: s, id: "run1"}
	s.asked = map[string][]string{}
	begun, err := repository()
	if err == nil {
		err = os.CopyFS(w.dir, begun)
	}
	if err != nil {
		t.Fatal(err)
	}
	server := modeltest.NewServer(t, func(r *modeltest.ParsedRequest) modeltest.Reply {
		if w.other != nil {
			if reply, ok := w.other(r); ok {
				return reply
			}
		}
		return s.answer(r)
	}, nil)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	w.model, err = openai.New(&openai.Options{Model: "test", APIKey: "key", BaseURL: server.URL, HTTPClient: &http.Client{Transport: transport}, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	w.store = runlog.NewMemory(nil)
	w.w, err = ralph.New(&ralph.Options{
		Prepare: func(in *ralph.Inputs) error { in.Model = "test"; return nil }, Open: w.open,
		Publish: func(_ context.Context, _ string, p *ralph.PullRequest) (string, error) {
			w.published = append(w.published, *p)
			return "https://example.org/1", nil
		},
		Dir: func() string { return w.dir }, Here: filepath.Join(w.dir, "sub"), Trees: func() string { return w.trees },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) git(args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.org"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (w *world) file(name, content string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) open(_ context.Context, _ *ralph.Inputs, role, dir string) (*ralph.Crew, error) {
	root, err := builtin.OpenRoot(dir, nil)
	if err != nil {
		return nil, err
	}
	list, err := builtin.Tools(&builtin.Options{Root: root, Write: role == "worker"})
	if err != nil {
		return nil, err
	}
	set, err := tool.NewSet(list...)
	if err != nil {
		return nil, err
	}
	shell, err := builtin.Bash(root, &builtin.BashOptions{Environ: os.Environ()})
	if err != nil {
		return nil, err
	}
	return &ralph.Crew{
		Agent: &agent.Agent{Name: role, Prompt: "You are a " + role + ".", Model: w.model, Tools: set, Clock: &agent.Clock{Now: time.Now, After: time.After}},
		Run: func(ctx context.Context, command string, _ time.Duration) (string, bool, error) {
			if w.run != nil {
				return w.run(ctx, dir, command)
			}
			args, err := json.Marshal(map[string]string{"command": command})
			if err != nil {
				return "", false, err
			}
			out, err := shell.Run(ctx, &tool.Call{Args: args})
			if err != nil {
				return err.Error(), true, nil
			}
			return out, false, nil
		},
		Close: root.Close,
	}, nil
}

// start runs the workflow, or resumes it, and returns its output.
func (w *world) start(in map[string]any) (out ralph.Output, err error) {
	w.t.Helper()
	in = maps.Clone(in)
	yes, _ := in["yes"].(bool)
	delete(in, "yes")
	if out, err = w.once(in); yes { // the user says so
		if paused, ok := errors.AsType[*graph.Paused](err); ok && paused.Questions[0].Path == "approve" {
			w.answer(&paused.Questions[0], "approve")
			return w.once(in)
		}
	}
	return out, err
}

// once is start without answers.
func (w *world) once(in map[string]any) (out ralph.Output, err error) {
	w.t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		w.t.Fatal(err)
	}
	if raw, err = w.w.Settle(raw); err != nil {
		return out, err
	}
	j, err := journal.Open(w.t.Context(), w.store, w.id, &journal.Options{Create: &runlog.NewRun{Workflow: ralph.Name}, Reopen: true, Budget: w.budget, Agents: 64})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() {
		if err := j.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
	}()
	res, err := w.w.Run(w.t.Context(), &workflow.Exec{Inputs: raw, Journal: j, Graph: graph.RunOptions{Journal: j}})
	if err != nil {
		return out, err
	}
	w.skip = res.Skipped
	return out, json.Unmarshal(res.Output, &out)
}

// must is start for a run that ends.
func (w *world) must(in map[string]any) ralph.Output {
	w.t.Helper()
	out, err := w.start(in)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// fold returns what views show of the run.
func (w *world) fold() *transcript.Run {
	w.t.Helper()
	r := &transcript.Run{}
	for rec, err := range runlog.Records(w.t.Context(), w.store, w.id, 0) {
		if err != nil {
			w.t.Fatal(err)
		}
		r.Apply(rec)
	}
	return r
}

// status is the states of tasks by ID.
func status(out ralph.Output) map[string]string {
	m := map[string]string{}
	for _, t := range out.Tasks {
		m[t.ID] = t.Status
	}
	return m
}

// leaked returns the worktrees besides the user's checkout.
func (w *world) leaked() string {
	w.t.Helper()
	lines := strings.Split(w.git("-C", w.dir, "worktree", "list"), "\n")
	return strings.Join(lines[1:], "\n")
}

func TestPlanWorkMergeReview(t *testing.T) {
	t.Parallel()
	s := &script{planner: planOf(task("1"), task("2"), task("3", "#1", "2")), worker: writes}
	w := newWorld(t, s)
	w.file("dirty", "mine\n")
	before := w.git("-C", w.dir, "status", "--porcelain")
	out := w.must(map[string]any{"prompt": "build it", "check": "ls; test ! -e t3.txt -o -e t1.txt", "yes": true})
	if diff := cmp.Diff(map[string]string{"1": "completed", "2": "completed", "3": "completed"}, status(out)); diff != "" {
		t.Error(diff)
	}
	if out.Stop != "2 reviews in a row found nothing" || out.Branch != "superstep/run1" || out.Unmerged != nil || w.skip != nil {
		t.Errorf("%+v %v", out, w.skip)
	}
	if got := w.git("-C", w.dir, "ls-tree", "--name-only", "superstep/run1"); got != "README\nt1.txt\nt2.txt\nt3.txt" {
		t.Error(got)
	}
	log := w.git("-C", w.dir, "log", "--format=%B", "superstep/run1")
	for _, id := range []string{"1", "2", "3"} {
		if strings.Count(log, "Superstep-Task: "+id+"\nSuperstep-Attempt: work-1") != 1 || strings.Count(log, "Merge task "+id+": t"+id) != 1 {
			t.Errorf("task %s:\n%s", id, log)
		}
	}
	if got := w.git("-C", w.dir, "status", "--porcelain"); got != before || w.git("-C", w.dir, "branch", "--show-current") != "main" {
		t.Error(got)
	}
	if got := w.leaked(); got != "" {
		t.Error(got)
	}
	if !strings.Contains(out.Text, "git merge superstep/run1") {
		t.Error(out.Text)
	}
	for _, p := range s.prompts("reviewer") {
		if !strings.Contains(p, "- it works") || !strings.Contains(p, "+t3") || strings.Contains(p, "build it") || strings.Contains(p, "do 3") {
			t.Errorf("a reviewer is told:\n%s", p)
		}
	}
	if n := len(s.prompts("reviewer")); n != 2 {
		t.Errorf("%d reviews", n)
	}
	for _, x := range w.fold().Tasks {
		if x.Node == "work" {
			for _, d := range x.Todos {
				if d.Status != "completed" {
					t.Errorf("%+v", d)
				}
			}
			if len(x.Todos) != 3 {
				t.Errorf("%+v", x.Todos)
			}
		}
	}
}

// A worker that fails is not called again, and what waits for its task stays pending.
func TestWorkerFails(t *testing.T) {
	t.Parallel()
	s := &script{planner: planOf(task("1"), task("2", "1"), task("3"))}
	w := newWorld(t, s)
	w.run = func(_ context.Context, dir, _ string) (string, bool, error) {
		if strings.HasSuffix(dir, "1") && !strings.HasSuffix(dir, "run1") {
			return "", false, errors.New("the disk is gone")
		}
		return "", false, nil
	}
	s.worker = writes
	out := w.must(map[string]any{"prompt": "x", "check": "true", "yes": true})
	if diff := cmp.Diff(map[string]string{"1": "error", "2": "pending", "3": "completed"}, status(out)); diff != "" {
		t.Error(diff)
	}
	n := 0
	for _, p := range s.prompts("worker") {
		if title(p) == "t1" {
			n++
		}
	}
	if n != 1 || w.skip == nil {
		t.Errorf("called %d times; skipped %v", n, w.skip)
	}
	if diff := cmp.Diff([]string{"superstep/run1_1"}, out.Unmerged); diff != "" {
		t.Error(diff)
	}
	if got := w.git("-C", w.dir, "show", "superstep/run1_1:t1.txt"); got != "t1" { // nothing is lost
		t.Error(got)
	}
	if got := w.leaked(); got != "" {
		t.Error(got)
	}
}

func TestEmptyPlan(t *testing.T) {
	t.Parallel()
	s := &script{planner: planOf()}
	w := newWorld(t, s)
	out := w.must(map[string]any{"prompt": "x", "yes": true})
	if len(s.prompts("worker"))+len(s.prompts("reviewer")) != 0 || out.Tasks != nil || w.skip != nil {
		t.Errorf("%+v", out)
	}
	if got := w.git("-C", w.dir, "branch", "--list", "superstep/*"); got != "" {
		t.Error(got)
	}
}

// A red check is mended with its output; the same failure three times ends the branch.
func TestRedCheck(t *testing.T) {
	t.Parallel()
	s := &script{planner: planOf(task("1"), task("2")), worker: writes}
	s.fixer = func(prompt string, turn int) []model.Part {
		if title(prompt) == "t1" && turn == 0 {
			if !strings.Contains(prompt, "missing fixed.txt") {
				t.Error(prompt)
			}
			return write("fixed.txt", "x")
		}
		return say("done")
	}
	w := newWorld(t, s)
	check := `if [ -e t1.txt ] && [ ! -e fixed.txt ]; then echo "missing fixed.txt"; exit 1; fi; if [ -e t2.txt ]; then echo "took 0.$$ s: never"; exit 1; fi`
	out := w.must(map[string]any{"prompt": "x", "check": check, "yes": true})
	if diff := cmp.Diff(map[string]string{"1": "completed", "2": "error"}, status(out)); diff != "" {
		t.Error(diff)
	}
	if out.Tasks[0].Attempts != 2 || !strings.Contains(out.Tasks[1].Error, "failed 3 times in the same way") {
		t.Errorf("%+v", out.Tasks)
	}
	if n := len(s.prompts("fixer")); n != 3 { // one for 1, two for 2
		t.Errorf("%d fixes", n)
	}
}

// "Done" without a change is a failure.
func TestNothingChanged(t *testing.T) {
	t.Parallel()
	s := &script{planner: planOf(task("1"))}
	w := newWorld(t, s)
	out := w.must(map[string]any{"prompt": "x", "yes": true})
	if out.Tasks[0].Status != "error" || out.Tasks[0].Error != "the worker changed no file, 3 times" || out.Tasks[0].Branch != "" {
		t.Errorf("%+v", out.Tasks)
	}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	rounds := 0
	var mu sync.Mutex
	s := &script{planner: planOf(task("1")), worker: writes}
	s.reviewer = func(string, int) []model.Part {
		mu.Lock()
		defer mu.Unlock()
		rounds++
		if rounds == 1 {
			return say("```json\n" + `{"findings":[{"title":"leak","body":"close it","priority":"P1","file":"t1.txt","lines":"1"},{"title":"nit","priority":3}],"verdict":"patch is correct"}` + "\n```")
		}
		return say(`{"findings": [{"title":"nit","priority":3}]}`)
	}
	w := newWorld(t, s)
	out := w.must(map[string]any{"prompt": "x", "yes": true})
	if diff := cmp.Diff(map[string]string{"1": "completed", "review-1-1": "completed"}, status(out)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"[P3] nit"}, out.Findings); diff != "" || rounds != 3 || w.skip != nil {
		t.Errorf("%s, %d rounds, %v", diff, rounds, w.skip)
	}
}

// What stops the loop, besides two clean reviews.
func TestStops(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, review, stop string
		loops, rounds      int
		partial            bool
	}{
		{"limit", `[{"title":"more","priority":1}]`, "it was reviewed 3 times, which is the limit", 3, 3, true},
		{"unreadable", "I do not like it.", "it was reviewed 2 times, which is the limit", 2, 2, true},
		{"empty", "", "review incomplete: agent reviewer: openai/test ended 3 times without an answer or a call; try another model", 10, 3, true},
		{"none", "[]", "2 reviews in a row found nothing", 10, 2, false},
		{"reviewer's own error", `{"reviewer_error":"I cannot read it"}`, "review incomplete: I cannot read it", 10, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &script{planner: planOf(task("1"))}
			n := 0
			s.worker = func(prompt string, turn int) []model.Part {
				if turn > 0 {
					return say("done")
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				n++
				return write(fmt.Sprintf("f%d.txt", n), "x")
			}
			s.reviewer = func(string, int) []model.Part { return say(c.review) }
			w := newWorld(t, s)
			out := w.must(map[string]any{"prompt": "x", "yes": true, "max_loops": c.loops})
			if out.Stop != c.stop || len(s.prompts("reviewer")) != c.rounds || (w.skip != nil) != c.partial {
				t.Errorf("%q after %d reviews, skipped %v", out.Stop, len(s.prompts("reviewer")), w.skip)
			}
		})
	}
}

// Findings whose tasks change nothing end the run.
func TestNoProgress(t *testing.T) {
	t.Parallel()
	s := &script{planner: planOf(task("1"))}
	s.worker = func(prompt string, turn int) []model.Part {
		if title(prompt) == "t1" {
			return writes(prompt, turn)
		}
		return say("it is fine as it is")
	}
	s.reviewer = func(string, int) []model.Part { return say(`[{"title":"wrong","priority":0}]`) }
	w := newWorld(t, s)
	out := w.must(map[string]any{"prompt": "x", "yes": true})
	if out.Stop != "nothing has changed since the last review" || len(out.Findings) != 1 {
		t.Errorf("%+v", out)
	}
}

// Tasks that change the same lines: the resolver is told both sides, and each commit is merged once.
func TestConflicts(t *testing.T) {
	t.Parallel()
	n := 6
	if faults.Full() {
		n = 20
	}
	var tasks []plan.Task
	for i := range n {
		tasks = append(tasks, task(fmt.Sprint(i+1)))
	}
	s := &script{planner: planOf(tasks...)}
	var all sync.WaitGroup // they begin with the same commit
	all.Add(n)
	s.worker = func(prompt string, turn int) []model.Part {
		if turn > 0 {
			return say("done")
		}
		all.Done()
		all.Wait()
		return write("shared", title(prompt)+"\n")
	}
	s.resolver = func(prompt string, turn int) []model.Part {
		if turn > 0 {
			return say("done")
		}
		_, theirs, _ := strings.Cut(prompt, "Theirs:\n```\n")
		theirs, _, _ = strings.Cut(theirs, "```")
		return write("shared", strings.TrimRight(theirs, "\n")+"\n"+title(prompt)+"\n")
	}
	w := newWorld(t, s)
	w.must(map[string]any{"prompt": "x", "yes": true, "workers": n})
	lines := strings.Fields(w.git("-C", w.dir, "show", "superstep/run1:shared"))
	slices.Sort(lines)
	var want []string
	for _, task := range tasks {
		want = append(want, task.Title)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("%s\n%s", diff, w.git("-C", w.dir, "log", "--graph", "-p", "-m", "--format=%h %s", "superstep/run1"))
	}
	log := w.git("-C", w.dir, "log", "--format=%s", "--first-parent", "superstep/run1")
	for i := range n {
		if strings.Count(log, fmt.Sprintf("Merge task %d:", i+1)) != 1 {
			t.Error(log)
		}
	}
}

// A conflict that the resolver leaves is a question, and its answer decides.
func TestConflictQuestion(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{"keep this task's": "t2", "keep the others'": "t1", "drop this task": "t1"} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			s := &script{planner: planOf(task("1"), task("2"))}
			s.worker = func(prompt string, turn int) []model.Part {
				if turn > 0 {
					return say("done")
				}
				return write("shared", title(prompt)+"\n")
			}
			w := newWorld(t, s)
			w.run = func(_ context.Context, dir, _ string) (string, bool, error) { // 1 is merged before 2 is checked
				if strings.HasSuffix(dir, "2") {
					ref := filepath.Join(w.dir, ".git", "refs", "heads", "superstep", "run1")
					begun := w.git("-C", w.dir, "rev-parse", "main") + "\n"
					for b, err := os.ReadFile(ref); err == nil && string(b) == begun; b, err = os.ReadFile(ref) {
						time.Sleep(10 * time.Millisecond)
					}
				}
				return "", false, nil
			}
			in := map[string]any{"prompt": "x", "check": "true", "yes": true}
			_, err := w.start(in)
			paused, ok := errors.AsType[*graph.Paused](err)
			if !ok || len(paused.Questions) != 1 || !strings.Contains(paused.Questions[0].Text, "Task 2 (t2) conflicts") {
				t.Fatal(err)
			}
			w.answer(&paused.Questions[0], answer)
			out := w.must(in)
			if got := w.git("-C", w.dir, "show", "superstep/run1:shared"); got != want {
				t.Error(got)
			}
			if dropped := answer == "drop this task"; (status(out)["2"] == "error") != dropped || (out.Unmerged != nil) != dropped {
				t.Errorf("%+v", out)
			}
			if got := w.leaked(); got != "" {
				t.Error(got)
			}
		})
	}
}

func (w *world) answer(q *runlog.Question, value string) {
	w.t.Helper()
	j, err := journal.Open(w.t.Context(), w.store, w.id, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := json.Marshal(value)
	if err == nil {
		err = j.Answer(w.t.Context(), q.Path, &runlog.Answer{Key: q.Key, Value: text})
	}
	if err := errors.Join(err, j.Close(context.Background())); err != nil {
		w.t.Fatal(err)
	}
}

// The gate: a reason makes another plan, an edited plan is taken as it is, and a wrong one is asked about again.
func TestGate(t *testing.T) {
	t.Parallel()
	s := &script{worker: writes}
	s.planner = func(prompt string, turn int) []model.Part {
		if strings.Contains(prompt, "The user wants another: smaller") {
			return planOf(task("b"))(prompt, turn)
		}
		return planOf(task("a"), task("b", "a"))(prompt, turn)
	}
	w := newWorld(t, s)
	in := map[string]any{"prompt": "x"}
	ask := func(want string) *runlog.Question {
		t.Helper()
		_, err := w.start(in)
		paused, ok := errors.AsType[*graph.Paused](err)
		if !ok || !strings.Contains(paused.Questions[0].Text, want) {
			t.Fatal(err)
		}
		return &paused.Questions[0]
	}
	w.answer(ask("b   tb (after a)"), "reject: smaller")
	w.answer(ask("b   tb\n"), "edit: tasks:\n- id: 1\n  title: tx\n  blocked_by: [nope]")
	w.answer(ask(`task 1 waits for "nope"`), "edit: tasks:\n- id: 1\n  title: tx\n")
	if out := w.must(in); len(out.Tasks) != 1 || out.Tasks[0].Title != "tx" {
		t.Errorf("%+v", out.Tasks)
	}
	w.id, s.planner = "run2", planOf(task("a"))
	w.answer(ask("a   ta"), "reject")
	if _, err := w.start(in); err == nil || !strings.Contains(err.Error(), "the plan was rejected") || len(s.prompts("worker")) != 1 {
		t.Error(err)
	}
}

func TestPlanFile(t *testing.T) {
	t.Parallel()
	s := &script{worker: writes}
	w := newWorld(t, s)
	w.file("plan.yaml", "tasks:\n- {id: 1, title: t1}\n- {id: 1, title: t2, blocked_by: '#1'}\n")
	out := w.must(map[string]any{"prompt": "plan.yaml", "plan_only": true})
	if p, err := plan.Read(out.Text); err != nil || len(p.Tasks) != 2 || p.Tasks[1].ID != "1-2" {
		t.Error(out.Text, err)
	}
	w.id = "run2"
	out = w.must(map[string]any{"prompt": "plan.yaml", "yes": true})
	if diff := cmp.Diff(map[string]string{"1": "completed", "1-2": "completed"}, status(out)); diff != "" || len(s.prompts("planner")) != 0 {
		t.Error(diff)
	}
	if raw, err := w.w.Settle(json.RawMessage(`{"prompt":"plan.yaml"}`)); err != nil || !strings.Contains(string(raw), `"prompt":"t1; t2"`) {
		t.Errorf("the run is called %s, %v", raw, err)
	}
	w.file("bad.yaml", "tasks:\n- {id: 1, title: a, blocked_by: 2}\n- {id: 2, title: b, blocked_by: 1}\n")
	if _, err := w.start(map[string]any{"prompt": "bad.yaml"}); err == nil || !strings.Contains(err.Error(), "in a circle: 1 ← 2 ← 1") {
		t.Error(err)
	}
	w.file("bad.yaml", "tasks:\n"+strings.Repeat("- {title: a}\n", 1001))
	if _, err := w.start(map[string]any{"prompt": "bad.yaml"}); err == nil || !strings.Contains(err.Error(), "it has 1001 tasks, and may have 1000") {
		t.Error(err)
	}
	w.file("spec.md", "Build a boat.\n")
	w.id, s.planner = "run3", planOf()
	w.must(map[string]any{"prompt": "spec.md", "yes": true})
	if p := s.prompts("planner"); len(p) != 1 || !strings.Contains(p[0], "Build a boat.") {
		t.Error(p)
	}
	if err := os.Mkdir(filepath.Join(w.dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.file("sub/own.md", "Build a kite.\n") // where the user stands
	w.file("sub/spec.md", "Build a raft.\n")
	for file, want := range map[string]string{"own.md": "Build a kite.", "spec.md": "Build a raft.", "bad.yaml": "it has 1001 tasks", "sub/own.md": "Build a kite.", "no/such": "there is no file no/such",
		"plan.md": "there is no file plan.md", "and/or this": "and/or this", "https://example.org/x.md": "https://example.org/x.md", "refactor": "refactor"} {
		raw, err := w.w.Settle(json.RawMessage(`{"prompt":"` + file + `"}`))
		if got := fmt.Sprint(string(raw), err); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}

// The planner is told what is wrong with its plan.
func TestUnusablePlan(t *testing.T) {
	t.Parallel()
	s := &script{worker: writes}
	s.planner = func(_ string, turn int) []model.Part {
		switch turn {
		case 0:
			return say("I would rather not.")
		case 1:
			return say(`{"tasks":[{"id":"1","title":"t1","blocked_by":["1x"]}]}`)
		}
		return say(`Then: [{"id":"1","title":"t1"}]`)
	}
	w := newWorld(t, s)
	if out := w.must(map[string]any{"prompt": "x", "yes": true}); len(out.Tasks) != 1 {
		t.Errorf("%+v", out)
	}
}

// The setup runs before any turn of a model, and its failure ends the run.
func TestSetupFails(t *testing.T) {
	t.Parallel()
	s := &script{planner: planOf(task("1"))}
	w := newWorld(t, s)
	_, err := w.start(map[string]any{"prompt": "x", "setup": "echo no network; exit 3", "yes": true})
	if err == nil || !strings.Contains(err.Error(), "no network") || !strings.Contains(err.Error(), "net(HOST)") || len(s.prompts("planner")) != 0 {
		t.Error(err)
	}
}

func TestInputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &script{})
	for want, in := range map[string]map[string]any{
		"is empty":            {"prompt": " "},
		"want 1 to 64":        {"prompt": "x", "workers": -1},
		"base":                {"prompt": "x", "base": "nowhere"},
		"belong to HEAD":      {"prompt": "x", "base": "other", "include_uncommitted": true},
		`unknown input "dir"`: {"prompt": "x", "dir": t.TempDir()},
	} {
		if want == "belong to HEAD" {
			w.git("-C", w.dir, "checkout", "-qb", "other")
			w.file("more", "x")
			w.git("-C", w.dir, "add", ".")
			w.git("-C", w.dir, "commit", "-qm", "other")
			w.git("-C", w.dir, "checkout", "-q", "main")
		}
		if _, err := w.start(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// What a killed write_file left is not committed.
func TestLeftover(t *testing.T) {
	t.Parallel()
	s := &script{planner: planOf(task("1")), worker: writes}
	w := newWorld(t, s)
	w.run = func(_ context.Context, dir, _ string) (string, bool, error) {
		return "", false, os.WriteFile(filepath.Join(dir, ".superstep-ABC.tmp"), []byte("half"), 0o600)
	}
	w.must(map[string]any{"prompt": "x", "check": "true", "yes": true})
	if got := w.git("-C", w.dir, "ls-tree", "--name-only", "superstep/run1"); got != "README\nt1.txt" {
		t.Error(got)
	}
}

// Uncommitted changes are the beginning of the branch, and stay what they are.
func TestIncludeUncommitted(t *testing.T) {
	t.Parallel()
	s := &script{planner: planOf(task("1")), worker: writes}
	w := newWorld(t, s)
	w.file("README", "changed\n")
	w.file("new", "mine\n")
	w.must(map[string]any{"prompt": "x", "yes": true, "include_uncommitted": true})
	if got := w.git("-C", w.dir, "show", "superstep/run1:README") + w.git("-C", w.dir, "show", "superstep/run1:new"); got != "changedmine" {
		t.Error(got)
	}
	if got := w.git("-C", w.dir, "status", "--porcelain"); got != "M README\n?? new" {
		t.Errorf("%q", got)
	}
}

// The planner adds what the user has said meanwhile.
func TestSteer(t *testing.T) {
	t.Parallel()
	s := &script{worker: writes}
	s.planner = func(prompt string, turn int) []model.Part {
		if strings.Contains(prompt, "also cover IPv6") {
			return planOf(task("v6", "#1"))(prompt, turn)
		}
		if strings.Contains(prompt, "and IPv7") {
			return planOf(task("v7"))(prompt, turn)
		}
		return planOf(task("1"))(prompt, turn)
	}
	w := newWorld(t, s)
	rounds := 0
	s.reviewer = func(string, int) []model.Part {
		if rounds++; rounds == 2 { // it is the last one, if nothing is found
			w.steer("planner", "and IPv7")
		}
		return say(`{"findings": []}`)
	}
	in := map[string]any{"prompt": "x"}
	_, err := w.start(in)
	paused, ok := errors.AsType[*graph.Paused](err)
	if !ok {
		t.Fatal(err)
	}
	w.answer(&paused.Questions[0], "approve")
	w.steer("planner", "also cover IPv6")
	out := w.must(in)
	if diff := cmp.Diff(map[string]string{"1": "completed", "v6": "completed", "v7": "completed"}, status(out)); diff != "" {
		t.Error(diff)
	}
}

func (w *world) steer(path, text string) {
	w.t.Helper()
	data, err := json.Marshal(text)
	if err == nil {
		err = unlisted.Post(w.t.Context(), w.store, w.id, &unlisted.Request{Kind: unlisted.KindSteer, Path: path, Time: time.Now(), Data: data})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// A pull request is opened once, and only if the user says so.
func TestPullRequest(t *testing.T) {
	t.Parallel()
	s := &script{planner: planOf(task("1")), worker: writes}
	w := newWorld(t, s)
	in := map[string]any{"prompt": "# Build it\n\nwell", "yes": true, "pr": true}
	_, err := w.start(in)
	paused, ok := errors.AsType[*graph.Paused](err)
	if !ok || len(w.published) != 0 || !strings.Contains(paused.Questions[0].Text, "gh pr create") {
		t.Fatal(err)
	}
	w.answer(&paused.Questions[0], "open it")
	out := w.must(in)
	if out.PR != "https://example.org/1" || len(w.published) != 1 || w.published[0].Branch != "superstep/run1" || w.published[0].Base != "main" || w.published[0].Title != "Build it" {
		t.Errorf("%+v %+v", out, w.published)
	}
}

// Within another workflow, each use of ralph has a branch of its own.
func TestTwiceInOneRun(t *testing.T) {
	t.Parallel()
	s := &script{planner: planOf(task("1"))}
	n := 0
	s.worker = func(_ string, turn int) []model.Part {
		if turn > 0 {
			return say("done")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		n++
		return write(fmt.Sprintf("f%d.txt", n), "x")
	}
	w := newWorld(t, s)
	inputs, err := w.w.Settle(json.RawMessage(`{"prompt":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	var branches []string
	g := graph.New("outer", func(s int, u int) int { return s + u })
	for _, name := range []string{"a", "b"} {
		g.AddNode(graph.Node[int, int]{Name: name, Run: func(ctx context.Context, t *graph.Task, _ int) (int, error) {
			b, err := w.w.RunNested(ctx, inputs, t.Nested(""))
			var out ralph.Output
			if err == nil {
				err = json.Unmarshal(b, &out)
			}
			if err == nil {
				branches = append(branches, out.Branch)
			}
			return 1, err
		}})
	}
	g.Edge(graph.Start, "a")
	g.Edge("a", "b")
	g.Edge("b", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w.id = "outer"
	for range 3 {
		_, err = flow.Run(t.Context(), 0, &graph.RunOptions{Store: w.store, ID: w.id})
		if paused, ok := errors.AsType[*graph.Paused](err); ok { // the plan of each
			w.answer(&paused.Questions[0], "approve")
		}
	}
	if err != nil || len(branches) != 2 {
		t.Fatal(branches, err)
	}
	for i, b := range branches {
		if got := w.git("-C", w.dir, "ls-tree", "--name-only", b); got != fmt.Sprintf("README\nf%d.txt", i+1) {
			t.Errorf("%s: %s", b, got)
		}
	}
}
