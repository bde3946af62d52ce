//go:build unix

package ralph_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog/stores"
)

// site is a user at a terminal with the command, a repository, and a model on a socket.
type site struct {
	t      *testing.T
	binary string
	dir    string // the checkout
	home   string
	path   string // before that of the environment
	server *modeltest.Server
	tasks  []siteTask
	wait   map[string]string // a worker whose first turn is answered when that of another was asked for

	plan func(prompt string) []siteTask // what the planner answers, nil for all tasks

	mu    sync.Mutex
	begun map[string]chan struct{} // closed when a worker is asked for the first time
}

// siteTask is a task of the plan. Its work is the file src/ID with the text "good ID".
type siteTask struct {
	ID        string   `json:"id"`
	Title     string   `json:"title"`
	BlockedBy []string `json:"blocked_by"`
	fails     bool     // the first work of it does not pass the check
	list      bool     // it writes its name into the file list, too
}

// dozen is a plan of 12 tasks, 2 of which fail first and 2 conflict.
func dozen() []siteTask {
	list := []siteTask{{ID: "1"}, {ID: "2"}, {ID: "3"}, {ID: "4", BlockedBy: []string{"1"}, fails: true}, {ID: "5", BlockedBy: []string{"1", "2"}, list: true},
		{ID: "6", BlockedBy: []string{"2"}, list: true}, {ID: "7", BlockedBy: []string{"3"}, fails: true}, {ID: "8", BlockedBy: []string{"4", "5"}},
		{ID: "9", BlockedBy: []string{"6", "7"}}, {ID: "10", BlockedBy: []string{"8"}}, {ID: "11", BlockedBy: []string{"9"}}, {ID: "12", BlockedBy: []string{"10", "11"}}}
	for i := range list {
		list[i].Title = "Task " + list[i].ID
	}
	return list
}

// few is a plan of 4 tasks, one of which fails first and 2 conflict.
func few() []siteTask {
	return []siteTask{{ID: "1", Title: "Task 1", fails: true}, {ID: "5", Title: "Task 5", list: true}, {ID: "6", Title: "Task 6", list: true},
		{ID: "4", Title: "Task 4", BlockedBy: []string{"1", "5"}}}
}

// siteCheck passes if all work that is there is good, nothing that it was blocked by is missing, and the list has all names.
func siteCheck(tasks []siteTask) string {
	var b strings.Builder
	b.WriteString("cd \"$(dirname \"$0\")\"\nif grep -rq '<<<<''<<<' src list; then echo a marker is left; exit 1; fi\n")
	for _, t := range tasks {
		fmt.Fprintf(&b, "if [ -e src/%s ]; then\n[ \"$(cat src/%s)\" = 'good %s' ] || { echo src/%s is wrong; exit 1; }\n", t.ID, t.ID, t.ID, t.ID)
		for _, blocker := range t.BlockedBy {
			fmt.Fprintf(&b, "[ -e src/%s ] || { echo src/%s needs src/%s; exit 1; }\n", blocker, t.ID, blocker)
		}
		if t.list {
			fmt.Fprintf(&b, "grep -q %s list || { echo the list lacks %s; exit 1; }\n", t.ID, t.ID)
		}
		b.WriteString("fi\n")
	}
	return b.String() + "echo all is well\n"
}

// siteBinary is the command: this test's own binary by that name, see TestMain.
var siteBinary = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "superstep-e2e-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "superstep")
	if os.Link(self, path) == nil {
		return path, nil
	}
	b, err := os.ReadFile(self) // of another file system
	if err == nil {
		err = os.WriteFile(path, b, 0o700) //nolint:gosec // it is to be run
	}
	return path, err
})

// command is the main function of the command. SUPERSTEP_FAILPOINT=NAME:N kills it at the n-th time that it is there.
func command() int {
	name, count, _ := strings.Cut(os.Getenv("SUPERSTEP_FAILPOINT"), ":")
	n, _ := strconv.ParseInt(count, 10, 64)
	var hits atomic.Int64
	return cli.Main(&host.Config{Name: "superstep", Stores: stores.All(), Failpoint: func(at string) {
		if at == name && hits.Add(1) == n {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // until it arrives
		}
	}}, nil)
}

func newSite(t *testing.T, tasks []siteTask) *site {
	t.Helper()
	faults.Unraced(t)
	binary, err := siteBinary()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	s := &site{t: t, binary: binary, dir: filepath.Join(root, "project"), home: filepath.Join(root, "home"), tasks: tasks, wait: map[string]string{}, begun: map[string]chan struct{}{}}
	for _, task := range tasks {
		s.begun[task.ID] = make(chan struct{})
	}
	s.server = modeltest.NewServer(t, s.think, nil)
	s.git("init", "-q", "-b", "main", s.dir)
	s.write("check.sh", siteCheck(tasks))
	s.write("list", "names: none\n")
	s.write("src/0", "nothing\n")
	s.git("add", ".")
	s.git("commit", "-qm", "first")
	return s
}

func (s *site) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// environ is the environment of git and the command.
func (s *site) environ(more ...string) []string {
	return append([]string{"PATH=" + s.path + os.Getenv("PATH"), "HOME=" + s.home, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=U", "GIT_AUTHOR_EMAIL=u@example.org",
		"GIT_COMMITTER_NAME=U", "GIT_COMMITTER_EMAIL=u@example.org", "OPENAI_BASE_URL=" + s.server.URL, "OPENAI_API_KEY=none", "SUPERSTEP_MODEL=openai/crash", "GOGC=400"}, more...)
}

func (s *site) git(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "git", args...)
	cmd.Env = s.environ()
	if _, err := os.Stat(s.dir); err == nil {
		cmd.Dir = s.dir
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// superstep runs the command, which a failpoint may kill.
func (s *site) superstep(failpoint string, args ...string) (stdout string, code int) {
	s.t.Helper()
	stdout, stderr, code := s.outputs(failpoint, args...)
	if code > 0 {
		s.t.Logf("%s: exit code %d: %s", args, code, stderr)
	}
	return stdout, code
}

// outputs is superstep with what it prints to standard error.
func (s *site) outputs(failpoint string, args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	if err := os.MkdirAll(s.home, 0o700); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), s.binary, append(args, "--no-input")...)
	cmd.Dir, cmd.Env = s.dir, s.environ("SUPERSTEP_FAILPOINT="+failpoint)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

var titled = regexp.MustCompile(`(?m)^# Task (\S+)$`)

// think is the model: a planner, workers, resolvers and a reviewer. What it answers depends on the conversation alone.
func (s *site) think(r *modeltest.ParsedRequest) modeltest.Reply {
	prompt, turn := r.Messages[0].Text(), 0
	for _, m := range r.Messages {
		if m.Role == model.Assistant {
			turn++
		}
	}
	write := func(name, text string) modeltest.Reply {
		args, err := json.Marshal(map[string]string{"command": "echo '" + text + "' >" + name})
		if err != nil {
			return modeltest.Failure(500, "")
		}
		return modeltest.Call("bash", string(args))
	}
	var task *siteTask
	if m := titled.FindStringSubmatch(prompt); m != nil {
		if i := slices.IndexFunc(s.tasks, func(t siteTask) bool { return t.ID == m[1] }); i >= 0 {
			task = &s.tasks[i]
		}
	}
	switch {
	case strings.Contains(prompt, "Acceptance criteria:"):
		return modeltest.Text(`{"findings": []}`)
	case task == nil:
		tasks := s.tasks
		s.mu.Lock()
		plan := s.plan
		s.mu.Unlock()
		if plan != nil {
			tasks = plan(prompt)
		}
		b, err := json.Marshal(map[string]any{"tasks": tasks})
		if err != nil {
			return modeltest.Failure(500, "")
		}
		return modeltest.Text("The plan:\n\n```json\n" + string(b) + "\n```\n")
	case strings.Contains(prompt, "changed the same lines"), strings.Contains(prompt, "check does not pass"):
		switch turn {
		case 0:
			return write("src/"+task.ID, "good "+task.ID)
		case 1:
			if task.list {
				return write("list", "names: 5 6")
			}
		}
	default:
		if turn == 0 {
			s.ask(task.ID)
			if task.fails {
				return write("src/"+task.ID, "bad "+task.ID)
			}
			return write("src/"+task.ID, "good "+task.ID)
		}
		if turn == 1 && task.list {
			return write("list", "names: "+task.ID)
		}
	}
	return modeltest.Text("done")
}

// ask notes that a worker began, and waits for another one.
func (s *site) ask(id string) {
	s.mu.Lock()
	begun := s.begun[id]
	select {
	case <-begun:
	default:
		close(begun)
	}
	other, ok := s.wait[id]
	s.mu.Unlock()
	if ok {
		select {
		case <-s.begun[other]:
		case <-time.After(time.Minute):
			s.t.Errorf("task %s has not begun while %s was worked on", other, id)
		}
	}
}

// guard returns a check that nothing of the user was changed.
func (s *site) guard() func() {
	s.t.Helper()
	before := s.belongings()
	return func() {
		s.t.Helper()
		after := s.belongings()
		for name, b := range before {
			if a, ok := after[name]; !ok || a != b {
				s.t.Errorf("the user's %s was changed from\n%q to\n%q", name, b, a)
			}
		}
		for name := range after {
			if _, ok := before[name]; !ok {
				s.t.Errorf("%s was made", name)
			}
		}
	}
}

// belongings returns all files of the checkout and of its git directory, other than objects, and references that are ours.
func (s *site) belongings() map[string]string {
	s.t.Helper()
	all := map[string]string{"status": s.git("--no-optional-locks", "status", "--porcelain")}
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, s.dir+"/")
		switch {
		case slices.Contains([]string{".git/objects", ".git/worktrees", ".git/refs/heads/superstep", ".git/refs/superstep", ".git/logs/refs/heads/superstep"}, name):
			return filepath.SkipDir
		case d.Type().IsRegular() && name != ".git/superstep.lock":
			b, err := os.ReadFile(path)
			all[name] = string(b)
			return err
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// merged checks that a run has done all tasks, each once, and has left nothing but its branch.
func (s *site) merged(run string) {
	s.t.Helper()
	branch := "superstep/" + run
	if refs := s.git("for-each-ref", "--format=%(refname:short)", "refs/heads/superstep"); refs != branch {
		s.t.Errorf("branches %s", refs)
	}
	if strings.Contains(s.git("worktree", "list"), "/worktrees/") {
		s.t.Errorf("worktrees leaked: %s", s.git("worktree", "list"))
	}
	if left, err := filepath.Glob(filepath.Join(s.home, "*", "*", "*", "worktrees", "*", "*")); err != nil || len(left) > 0 {
		s.t.Errorf("folders leaked: %s, %v", left, err)
	}
	log := s.git("log", "--format=%H %(trailers:key=Superstep-Run,valueonly,separator=%x2C)/%(trailers:key=Superstep-Task,valueonly,separator=%x2C)/"+
		"%(trailers:key=Superstep-Attempt,valueonly,separator=%x2C)", "main.."+branch)
	for _, task := range s.tasks {
		for _, attempt := range []string{"work-\\d+", "merge"} {
			found := regexp.MustCompile(`(?m)^\w+ `+run+"/"+task.ID+"/"+attempt+"$").FindAllString(log, -1)
			if len(found) != 1 {
				s.t.Errorf("%d commits of task %s, attempt %s, in\n%s", len(found), task.ID, attempt, log)
			}
		}
	}
	if out := s.git("log", "--first-parent", "--format=%s", "main.."+branch); strings.Count(out, "Merge task ") != len(s.tasks) {
		s.t.Errorf("the history of the run:\n%s", out)
	}
	clone := filepath.Join(s.t.TempDir(), "clone")
	s.git("clone", "-q", "-b", branch, s.dir, clone)
	if out, err := exec.CommandContext(s.t.Context(), "sh", filepath.Join(clone, "check.sh")).CombinedOutput(); err != nil {
		s.t.Errorf("the merged work: %v: %s", err, out)
	}
	for _, task := range s.tasks {
		if b, err := os.ReadFile(filepath.Join(clone, "src", task.ID)); err != nil || string(b) != "good "+task.ID+"\n" {
			s.t.Errorf("task %s: %q, %v", task.ID, b, err)
		}
	}
}

// run returns the newest run and its status.
func (s *site) run() (id, status string) {
	s.t.Helper()
	out, _ := s.superstep("", "runs", "list", "-o", "json")
	var all []struct{ ID, Status string }
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) == 0 {
		s.t.Fatalf("runs %s, %v", out, err)
	}
	return all[0].ID, all[0].Status
}

// resume resumes a run until it has ended. Commands that were cut off are executed again.
func (s *site) resume(run string) {
	s.t.Helper()
	out, code := s.superstep("", "runs", "resume", run, "-o", "jsonl")
	for range len(s.tasks) {
		if code != 3 {
			break
		}
		var last struct {
			Data struct{ Questions []struct{ Path, Kind string } }
		}
		if err := json.Unmarshal([]byte(lastOf(out)), &last); err != nil || len(last.Data.Questions) == 0 || last.Data.Questions[0].Kind != "unknown" {
			break
		}
		out, code = s.superstep("", "runs", "resolve", run, last.Data.Questions[0].Path, "--again", "-o", "jsonl")
	}
	if code != 0 {
		s.t.Fatalf("resumed: exit code %d: %s", code, lastOf(out))
	}
}

// lastOf returns the last line of a text.
func lastOf(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

func siteRun(more ...string) []string {
	return append([]string{"run", "ralph", "Build all of it", "--check", "sh check.sh", "--yes", "--workers", "4", "-o", "jsonl"}, more...)
}

// TestEndToEnd does the 12 tasks, 2 of which fail first and 2 conflict, in a checkout with uncommitted changes.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t, dozen())
	s.mu.Lock()
	s.wait["5"], s.wait["6"] = "6", "5"
	s.mu.Unlock()
	s.write("list", "names: of the user\n")
	s.write("untracked", "x\n")
	same := s.guard()
	start := time.Now()
	out, code := s.superstep("", siteRun()...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, lastOf(out))
	}
	t.Logf("12 tasks in %s", time.Since(start).Round(time.Millisecond))
	same()
	run, status := s.run()
	if status != "completed" {
		t.Errorf("it is %s", status)
	}
	s.merged(run)
	roles := map[string]int{}
	for _, r := range s.server.Requests() {
		prompt := r.Messages[0].Text()
		for _, role := range []string{"Do this task.", "check does not pass", "changed the same lines", "Acceptance criteria:"} {
			if strings.Contains(prompt, role) && len(r.Messages) == 1 {
				roles[role]++
			}
		}
		if strings.Contains(prompt, "Acceptance criteria:") && (len(r.Messages) != 1 || len(r.Tools) != 0 || !strings.Contains(prompt, "+good 12") || strings.Contains(prompt, "Do this task")) {
			t.Errorf("a reviewer is asked with %d messages: %s", len(r.Messages), prompt)
		}
	}
	if roles["Do this task."] != 12 || roles["check does not pass"] != 2 || roles["changed the same lines"] != 1 || roles["Acceptance criteria:"] != 2 {
		t.Errorf("asked: %v", roles)
	}
	if out, code := s.superstep("", "runs", "replay", run); code != 0 {
		t.Errorf("replay: exit code %d: %s", code, out)
	}
}

// TestEager holds a slow task until what others wait for has begun: A, C and E one after the other beside B, then D. With batches E would wait for B.
func TestEager(t *testing.T) {
	t.Parallel()
	s := newSite(t, []siteTask{{ID: "a", Title: "Task a"}, {ID: "b", Title: "Task b"}, {ID: "c", Title: "Task c", BlockedBy: []string{"a"}},
		{ID: "d", Title: "Task d", BlockedBy: []string{"b"}}, {ID: "e", Title: "Task e", BlockedBy: []string{"c"}}})
	s.mu.Lock()
	s.wait["b"] = "e"
	s.mu.Unlock()
	if out, code := s.superstep("", siteRun()...); code != 0 {
		t.Fatalf("exit code %d: %s", code, lastOf(out))
	}
	run, _ := s.run()
	s.merged(run)
}

// TestKillAtEffects kills the command before or after the n-th effect, resumes it, and finds what a run has that was never killed.
// SUPERSTEP_FAULTS=full kills at every effect of 12 tasks, else it is one effect of 4 tasks.
func TestKillAtEffects(t *testing.T) {
	t.Parallel()
	for point, first := range map[string]int{"effect.before": 25, "effect.after": 40} {
		plan := few
		if faults.Full() {
			first, plan = 1, dozen
		}
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			failed := 0
			for n := first; n == first || faults.Full(); n++ {
				ended := false
				ok := t.Run(fmt.Sprint(n), func(t *testing.T) {
					s := newSite(t, plan())
					same := s.guard()
					out, code := s.superstep(fmt.Sprintf("%s:%d", point, n), siteRun()...)
					if ended = code == 0 && n > first; ended {
						return // it has fewer effects
					}
					if code != -1 {
						t.Fatalf("exit code %d: %s", code, lastOf(out))
					}
					run, _ := s.run()
					s.resume(run)
					same()
					s.merged(run)
				})
				if failed += map[bool]int{false: 1}[ok]; ended || failed == 5 {
					t.Logf("%s: killed at %d effects, %d failed", point, n-first, failed)
					return
				}
			}
		})
	}
}
