//go:build unix

package ralph_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/internal/acptest"
	"github.com/superstep-dev/superstep/internal/modeltest"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "superstep" {
		os.Exit(command())
	}
	acptest.Main(map[string]*acptest.Script{"worker": {Prompt: acpWorker}})
	code := m.Run()
	if binary, err := siteBinary(); err == nil && code == 0 {
		_ = os.RemoveAll(filepath.Dir(binary)) // a temporary folder
	}
	os.Exit(code)
}

// acpWorker is an external agent that does a task in the folder where it was started.
func acpWorker(a *acptest.Agent, text string) string {
	m := titled.FindStringSubmatch(text)
	if m == nil {
		return "end_turn"
	}
	word := "good "
	if m[1] == "2" && !strings.Contains(text, "check does not pass") {
		word = "bad "
	}
	a.Begin("c1", "write", "edit", map[string]string{"path": "src/" + m[1]})
	if err := os.WriteFile(filepath.Join("src", m[1]), []byte(word+m[1]+"\n"), 0o600); err != nil {
		a.Say(err.Error())
	}
	a.End("c1", "written")
	a.Say("Done.")
	return "end_turn"
}

// pair is a plan of two tasks, one after the other.
func pair() []siteTask {
	return []siteTask{{ID: "1", Title: "Task 1"}, {ID: "2", Title: "Task 2", BlockedBy: []string{"1"}}}
}

// TestPlaces runs in the repositories that users have. Nothing of them is changed, and the work is merged.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(s *site) []string // flags
		base string                 // what the run begins with
	}{
		"detached": {func(s *site) []string { s.git("checkout", "-q", "--detach"); return nil }, "main"},
		"dirty": {func(s *site) []string {
			s.write("src/0", "the user's\n")
			s.write("new", "the user's\n")
			return []string{"--include-uncommitted"}
		}, "main"},
		"base": {func(s *site) []string {
			s.git("tag", "old")
			s.write("src/0", "newer\n")
			s.git("commit", "-qam", "newer")
			return []string{"--base", "old"}
		}, "old"},
		"empty": {func(s *site) []string {
			if err := os.RemoveAll(filepath.Join(s.dir, ".git")); err != nil {
				s.t.Fatal(err)
			}
			s.git("init", "-q", "-b", "main", s.dir)
			return []string{"--include-uncommitted"}
		}, ""},
		"linked worktree": {func(s *site) []string {
			s.git("worktree", "add", "-q", s.dir+"-linked", "--detach")
			return nil
		}, "main"},
		"hooks and filters": {func(s *site) []string {
			evil := filepath.Join(s.home, "evil")
			if err := os.MkdirAll(s.home, 0o700); err != nil {
				s.t.Fatal(err)
			}
			if err := os.WriteFile(evil, []byte("#!/bin/sh\ntouch '"+s.home+"/ran'\ncat\n"), 0o700); err != nil { //nolint:gosec // it is to be run
				s.t.Fatal(err)
			}
			s.write(".gitattributes", "* filter=evil diff=evil merge=evil\n")
			s.git("add", ".")
			s.git("commit", "-qm", "attributes")
			for _, h := range []string{"pre-commit", "post-checkout", "post-commit", "post-merge", "reference-transaction", "post-index-change", "commit-msg"} {
				if err := os.Symlink(evil, filepath.Join(s.dir, ".git", "hooks", h)); err != nil {
					s.t.Fatal(err)
				}
			}
			f, err := os.OpenFile(filepath.Join(s.dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				s.t.Fatal(err)
			}
			_, err = fmt.Fprintf(f, "[filter \"evil\"]\n\tclean = %s\n\tsmudge = %s\n\trequired\n[diff \"evil\"]\n\ttextconv = %s\n[merge \"evil\"]\n\tdriver = %s\n[core]\n\tfsmonitor = %s\n",
				evil, evil, evil, evil, evil)
			if err != nil || f.Close() != nil {
				s.t.Fatal(err)
			}
			return nil
		}, "main"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, pair()[:1])
			flags := c.make(s)
			same := s.filesGuard(name != "hooks and filters")
			if out, code := s.superstep("", siteRun(flags...)...); code != 0 {
				t.Fatalf("exit code %d: %s", code, lastOf(out))
			}
			same()
			if _, err := os.Stat(filepath.Join(s.home, "ran")); err == nil {
				t.Error("a hook or filter ran")
			}
			run, _ := s.run()
			if name == "hooks and filters" {
				if err := os.RemoveAll(filepath.Join(s.dir, ".git", "config")); err != nil { // for git below
					t.Fatal(err)
				}
				for _, h := range s.glob(".git/hooks/*") {
					if err := os.Remove(h); err != nil {
						t.Fatal(err)
					}
				}
			}
			if c.base == "" { // main has no commit
				s.git("branch", "-q", "main", s.git("rev-list", "--max-parents=0", "superstep/"+run))
			}
			s.merged(run)
			if name == "dirty" {
				if got := s.git("show", "superstep/"+run+":src/0"); got != "the user's" {
					t.Errorf("the uncommitted change is %q", got)
				}
			}
			if name == "base" {
				if got := s.git("show", "superstep/"+run+":src/0"); got != "nothing" {
					t.Errorf("the base was %q", got)
				}
			}
		})
	}
}

// TestAtOnce runs twice in one repository, while the user commits.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair())
	s.git("branch", "start")
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if out, code := s.superstep("", siteRun("--base", "start")...); code != 0 {
				t.Errorf("exit code %d: %s", code, lastOf(out))
			}
		})
	}
	for i := range 10 {
		s.write("own", fmt.Sprint(i))
		s.git("add", "own")
		s.git("commit", "-qm", "own")
	}
	all.Wait()
	branches := strings.Fields(s.git("for-each-ref", "--format=%(refname:short)", "refs/heads/superstep"))
	if len(branches) != 2 {
		t.Fatalf("branches %q", branches)
	}
	if got := s.git("log", "--format=%s", "-1"); got != "own" || s.git("status", "--porcelain") != "" {
		t.Errorf("the user's branch: %s", got)
	}
	for _, b := range branches {
		if out := s.git("log", "--first-parent", "--format=%s", "start.."+b); strings.Count(out, "Merge task ") != 2 {
			t.Errorf("%s:\n%s", b, out)
		}
	}
}

// TestOutside has a worker that tries to leave its worktree: each attempt is refused, what it may write does no harm, and the check decides about the rest.
func TestOutside(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair()[:1])
	same := s.guard()
	attacks := []string{
		"write_file " + filepath.Join(s.dir, "src", "0"),
		"echo evil >DIR/.git/config",
		"echo evil >HOME/escaped",
		"echo evil >../../../escaped",
		"ln -s DIR/src/0 link && echo evil >link",
		"write_file link",
		"ln DIR/src/0 hard && echo evil >hard",
		"mv DIR/src/0 taken",
		"git config core.fsmonitor 'touch HOME/escaped'",
		"git config core.hooksPath hooks",
		"git branch evil",
		"git update-ref -d refs/heads/main",
		"git hash-object -w check.sh",
		"echo evil >DIR/.git/objects/evil",
		"echo evil >DIR/.git/hooks-evil",
		`echo evil >"$(sed 's/gitdir: //' .git)/HEAD"`,
		"git commit -qam mine",
	}
	// Hooks and filters are nothing but files, and a repository within the worktree is not asked.
	const harmless = `mkdir hooks && printf '#!/bin/sh\ntouch HOME/escaped\n' >hooks/post-commit && chmod +x hooks/post-commit && echo '* filter=evil' >.gitattributes && echo 'good 1' >src/1`
	think := s.think
	var mu sync.Mutex
	said := map[int]string{}
	s.server = modeltest.NewServer(t, func(r *modeltest.ParsedRequest) modeltest.Reply {
		turn := len(r.Messages) / 2
		if !strings.Contains(r.Messages[0].Text(), "Do this task.") || turn > len(attacks)+1 {
			return think(r)
		}
		if turn > 0 {
			mu.Lock()
			said[turn-1] = r.Messages[len(r.Messages)-1].Parts[0].Text
			mu.Unlock()
		}
		if turn > len(attacks) {
			return modeltest.Text("done")
		}
		what := harmless
		if turn < len(attacks) {
			what = attacks[turn]
		}
		name, args := "bash", map[string]string{"command": strings.NewReplacer("DIR", s.dir, "HOME", s.home).Replace(what)}
		if path, ok := strings.CutPrefix(what, "write_file "); ok {
			name, args = "write_file", map[string]string{"path": path, "content": "evil"}
		}
		b, err := json.Marshal(args)
		if err != nil {
			return modeltest.Failure(500, "")
		}
		return modeltest.Call(name, string(b))
	}, nil)
	if out, code := s.superstep("", siteRun()...); code != 0 && code != 6 {
		t.Fatalf("exit code %d: %s", code, lastOf(out))
	}
	same()
	err := filepath.WalkDir(filepath.Dir(s.dir), func(path string, d fs.DirEntry, err error) error {
		if err == nil && (d.Name() == "escaped" || path == filepath.Join(s.dir, ".git", "objects", "evil")) {
			t.Errorf("%s was written", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	run, _ := s.run()
	s.merged(run)
	for i, what := range attacks {
		elsewhere := strings.HasSuffix(what, "escaped") // the home of the sandbox is a folder of its own
		if text := said[i]; !elsewhere && !strings.Contains(text, "[exit status") && !strings.Contains(text, "denied") || text == "" {
			t.Errorf("%s was not refused: %.300s", what, text)
		}
	}
	if text := said[len(attacks)]; text != "[no output]" {
		t.Errorf("what does no harm: %s", text)
	}
}

// TestRed has a task whose check never passes: the run ends partial, keeps its branch, and gc keeps it, too. Resumed after gc, and once more, the run
// begins with all that was merged before.
func TestRed(t *testing.T) {
	t.Parallel()
	s := newSite(t, []siteTask{{ID: "1", Title: "Task 1"}, {ID: "2", Title: "Task 2"}, {ID: "3", Title: "Task 3", BlockedBy: []string{"2"}}})
	same := s.guard()
	think := s.think
	var red atomic.Int64 // the task that fails
	red.Store(2)
	s.server = modeltest.NewServer(t, func(r *modeltest.ParsedRequest) modeltest.Reply {
		if m := titled.FindStringSubmatch(r.Messages[0].Text()); m != nil && m[1] == fmt.Sprint(red.Load()) && len(r.Messages) == 1 {
			return modeltest.Call("bash", `{"command":"echo never >src/`+m[1]+`"}`)
		}
		return think(r)
	}, nil)
	out, code := s.superstep("", siteRun()...)
	if code != 7 {
		t.Fatalf("exit code %d: %s", code, lastOf(out))
	}
	same()
	run, status := s.run()
	if status != "partial" || !strings.Contains(lastOf(out), "3 times in the same way") || !strings.Contains(lastOf(out), "superstep/"+run+"_2") {
		t.Errorf("it is %s: %s", status, lastOf(out))
	}
	if got := s.git("show", "superstep/"+run+"_2:src/2"); got != "never" {
		t.Errorf("the unmerged work is %q", got)
	}
	s.git("merge", "-q", "superstep/"+run)
	if out, code := s.superstep("", "ralph", "gc"); code != 0 || !strings.Contains(out, "removed superstep/"+run+"\n") || !strings.Contains(out, "kept superstep/"+run+"_2: not merged") {
		t.Errorf("exit code %d: %s", code, out)
	}
	for _, next := range []struct {
		red  int64
		code int
		has  string // of src
	}{{3, 7, "0 1 2"}, {0, 0, "0 1 2 3"}} {
		red.Store(next.red)
		if out, code := s.superstep("", "runs", "resume", run, "-o", "jsonl"); code != next.code {
			t.Fatalf("resumed: exit code %d: %s", code, lastOf(out))
		}
		run, _ = s.run()
		if has := s.git("ls-tree", "--name-only", "superstep/"+run+":src"); strings.Join(strings.Fields(has), " ") != next.has {
			t.Errorf("run %s has %q", run, has)
		}
	}
}

// TestHang has a check that hangs: it ends at its limit, and leaves no process.
func TestHang(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair()[:1])
	length := fmt.Sprint(10_000_000 + os.Getpid()) // seconds, of these processes alone
	s.write("check.sh", "[ -e src/1 ] || exit 0\n(setsid sleep "+length+" &)\nsleep "+length+"\n")
	s.git("commit", "-qam", "hangs")
	out, code := s.superstep("", siteRun("--check-minutes", "0.02")...)
	if code != 7 || !strings.Contains(lastOf(out), "failed 3 times in the same way") {
		t.Errorf("exit code %d: %s", code, out)
	}
	for _, f := range s.glob("/proc/[0-9]*/cmdline") {
		if b, err := os.ReadFile(f); err == nil && string(b) == "sleep\x00"+length+"\x00" {
			t.Errorf("%s is left", f)
		}
	}
}

// TestNoModel needs a model, and says so before anything starts.
func TestNoModel(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair())
	same := s.guard()
	for _, name := range []string{"offline", "none"} {
		if out, code := s.superstep("", siteRun("--model", name)...); code != 4 || strings.Contains(out, "run.started") {
			t.Errorf("%s: exit code %d: %s", name, code, out)
		}
	}
	same()
	if len(s.glob(".git/superstep*"))+len(s.glob(".git/worktrees")) > 0 || s.git("for-each-ref", "refs/heads/superstep") != "" {
		t.Error("something was begun")
	}
	if len(s.server.Requests()) > 0 {
		t.Error("a model was asked")
	}
}

// TestExternalAgent has an agent of another program as the worker.
func TestExternalAgent(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair())
	var config strings.Builder
	keeps := t.TempDir()
	fmt.Fprintf(&config, "lab:\n  command: [%q]\n  write: [%q]\n  env:\n", os.Args[0], keeps)
	for _, v := range acptest.Env("worker", keeps) {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&config, "    %s: %q\n", name, value)
	}
	path := filepath.Join(s.home, ".config", "superstep", "agents.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(config.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	same := s.guard()
	if out, code := s.superstep("", siteRun("--agent", "acp:lab")...); code != 0 {
		t.Fatalf("exit code %d: %s", code, lastOf(out))
	}
	same()
	run, _ := s.run()
	s.merged(run)
	for _, r := range s.server.Requests() {
		if strings.Contains(r.Messages[0].Text(), "Do this task.") {
			t.Error("the model was asked to do a task")
		}
	}
}

// filesGuard is guard, without git if its configuration is hostile.
func (s *site) filesGuard(git bool) func() {
	if git {
		return s.guard()
	}
	before := s.glob("*")
	index, err := os.ReadFile(filepath.Join(s.dir, ".git", "index"))
	if err != nil {
		s.t.Fatal(err)
	}
	return func() {
		if after, err := os.ReadFile(filepath.Join(s.dir, ".git", "index")); err != nil || string(after) != string(index) || len(s.glob("*")) != len(before) {
			s.t.Error("the checkout was changed")
		}
	}
}

// glob returns the files that match a pattern in the checkout.
func (s *site) glob(pattern string) []string {
	s.t.Helper()
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(s.dir, pattern)
	}
	all, err := filepath.Glob(pattern)
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}
