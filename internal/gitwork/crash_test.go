//go:build unix

package gitwork_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/gitwork"
)

// work does the git work of a run: it includes what the user has not committed, does three tasks of which two conflict, merges them, and removes them.
func work(ctx context.Context, u *user, run string) error {
	r, err := gitwork.Open(ctx, u.dir, &gitwork.Options{Data: u.home, Environ: u.environ()})
	if err != nil {
		return err
	}
	if err := r.IncludeUncommitted(ctx, run, "What was not committed", []string{"Superstep-Run: " + run}); err != nil {
		return err
	}
	whole, err := r.Tree(ctx, run, "", "HEAD")
	if err != nil {
		return err
	}
	tasks := []string{"a", "b", "c"}
	for _, task := range tasks {
		key := []string{"Superstep-Run: " + run, "Superstep-Task: " + task}
		if found, err := r.Find(ctx, run, key); err != nil || len(found) > 0 { // recorded in the log of the run, so it is not done again
			if err != nil {
				return err
			}
			continue
		}
		tree, err := r.Tree(ctx, run, task, whole.Branch)
		if err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(tree.Path, "a.txt")); err != nil {
			return fmt.Errorf("a worktree without its files: %w", err)
		}
		if _, err := tree.Reset(ctx); err != nil {
			return err
		}
		if err := errors.Join(os.WriteFile(filepath.Join(tree.Path, "shared"), []byte(task+"\n"), 0o600),
			os.WriteFile(filepath.Join(tree.Path, task), []byte(task+"\n"), 0o600)); err != nil {
			return err
		}
		if _, changed, err := tree.Commit(ctx, "Do "+task, key); err != nil || !changed {
			return fmt.Errorf("commit of %s: %v, %w", task, changed, err)
		}
	}
	for _, task := range tasks {
		key := []string{"Superstep-Run: " + run, "Superstep-Merge: " + task}
		found, err := r.Find(ctx, run, []string{"Superstep-Run: " + run, "Superstep-Task: " + task})
		if err != nil || len(found) != 1 {
			return fmt.Errorf("commits of %s: %q, %w", task, found, err)
		}
		m, err := whole.Merge(ctx, found[0], "Merge "+task, key)
		if err != nil {
			return err
		}
		if m.Commit == "" {
			if err := os.WriteFile(filepath.Join(whole.Path, "shared"), []byte("up to "+task+"\n"), 0o600); err != nil {
				return err
			}
			if m, err = whole.Continue(ctx, found[0], "Merge "+task, key); err != nil || m.Commit == "" {
				return fmt.Errorf("continue %s: %+v, %w", task, m, err)
			}
		}
		if err := r.Remove(ctx, run, task, whole.Branch); err != nil {
			return err
		}
	}
	return r.Remove(ctx, run, "", "")
}

// done checks what work leaves.
func (u *user) done(t *testing.T, run string) {
	t.Helper()
	log := u.git("log", "--format=%B", "--all")
	for _, key := range []string{"Task", "Merge"} {
		for _, task := range []string{"a", "b", "c"} {
			if n := strings.Count(log, "Superstep-Run: "+run+"\nSuperstep-"+key+": "+task+"\n"); n != 1 {
				t.Errorf("%d commits of %s %s", n, key, task)
			}
		}
	}
	args := []string{"show"}
	for _, name := range []string{"shared", "a", "b", "c", "new.txt", "a.txt"} {
		args = append(args, "superstep/"+run+":"+name)
	}
	if got := u.git(args...); got != "up to c\na\nb\nc\nuntracked\nchanged" {
		t.Errorf("the files are %q", got)
	}
	if refs := u.git("for-each-ref", "--format=%(refname)", "refs/heads/superstep/"+run+"_*", "refs/superstep/base/"+run+"_*"); refs != "" {
		t.Errorf("left %s", refs)
	}
	if left, err := filepath.Glob(filepath.Join(u.home, "worktrees", "*", run+"*")); err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
	if left, err := filepath.Glob(filepath.Join(u.dir, ".git", "worktrees", run+"*")); err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
}

// unfinished returns a user with a commit and changes.
func unfinished(t *testing.T) *user {
	t.Helper()
	u := newUser(t)
	u.write("a.txt", "one\n")
	u.write("shared", "\n")
	u.commit("first")
	u.write("a.txt", "changed\n")
	u.write("new.txt", "untracked\n")
	u.guard()
	return u
}

const workerVariable = "GITWORK_WORKER" // DIR:HOME:RUN

func TestMain(m *testing.M) {
	if v := os.Getenv(workerVariable); v != "" {
		p := strings.Split(v, ":")
		if err := work(context.Background(), &user{dir: p[0], home: p[1]}, p[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// worker returns the process that does the work of a run. Variables come before those of this process.
func (u *user) worker(run string, environ ...string) *exec.Cmd {
	cmd := exec.CommandContext(u.t.Context(), os.Args[0])
	cmd.Env = append(environ, workerVariable+"="+u.dir+":"+u.home+":"+run)
	if len(environ) == 0 {
		cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"))
	}
	return cmd
}

// killer returns a folder with a git that kills its parent at its n-th command: before, or after it did it.
func killer(t *testing.T, n int, after bool) (dir string) {
	t.Helper()
	dir = t.TempDir()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	run := ""
	if after {
		run = "'" + program + "' \"$@\" >/dev/null; "
	}
	writeIn(t, dir, "count", "0\n")
	writeIn(t, dir, "git", fmt.Sprintf("#!/bin/sh\nread n <'%s/count'\nn=$((n+1))\necho $n >'%s/count'\nif [ $n -eq %d ]; then %s kill -9 $PPID; exit 1; fi\nexec '%s' \"$@\"\n",
		dir, dir, n, run, program))
	if err := os.Chmod(filepath.Join(dir, "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A process killed at any git command, before or after it, is followed by one that does the rest: each commit and merge is there once, and nothing is left.
// SUPERSTEP_FAULTS=full kills at each, else at a sample.
func TestKill(t *testing.T) {
	t.Parallel()
	every := 89
	if faults.Full() {
		every = 1
	}
	counted := unfinished(t)
	dir := killer(t, 1_000_000, false)
	if out, err := counted.worker("1", "PATH="+dir+":"+os.Getenv("PATH")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	counted.done(t, "1")
	commands, err := strconv.Atoi(strings.TrimSpace(readIn(t, dir, "count")))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d commands", commands)
	for n := 1; n <= commands; n++ {
		for _, after := range []bool{false, true} {
			if (2*n+len(strconv.FormatBool(after)))%every != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%d/%v", n, after), func(t *testing.T) {
				t.Parallel()
				u := unfinished(t)
				out, err := u.worker("1", "PATH="+killer(t, n, after)+":"+os.Getenv("PATH")).CombinedOutput()
				if err == nil || !strings.Contains(err.Error(), "killed") {
					t.Fatalf("not killed: %v: %s", err, out)
				}
				if out, err := u.worker("1").CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				u.done(t, "1")
			})
		}
	}
}

// A process killed at any time, again and again, with git in the middle of something.
func TestKillAnyTime(t *testing.T) {
	t.Parallel()
	for round := range faults.N(10) {
		t.Run(fmt.Sprint(round), func(t *testing.T) { killAnyTime(t, 11*round) })
	}
}

func killAnyTime(t *testing.T, shift int) {
	u := unfinished(t)
	wait := 120.0 // milliseconds; on a slow machine it needs more
	for i := range 200 {
		wait *= 1.1
		cmd := u.worker("1")
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(time.Duration(wait+float64((shift+i*17)%230))*time.Millisecond, func() { _ = cmd.Process.Kill() }) // it may have ended
		err := cmd.Wait()
		kill.Stop()
		if said.Len() > 0 {
			t.Fatal(said.String())
		}
		if err == nil {
			t.Logf("killed %d times", i)
			u.done(t, "1")
			return
		}
	}
	t.Error("it does not get on")
}

// Processes of several runs, and two of one, work in one repository at once.
func TestProcessesAtOnce(t *testing.T) {
	t.Parallel()
	u := unfinished(t)
	runs := []string{"1", "2", "3"}
	ended := make(chan error, len(runs))
	for _, run := range runs {
		go func() {
			out, err := u.worker(run).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			ended <- err
		}()
	}
	for range runs {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for _, run := range runs {
		u.done(t, run)
	}
}

// A git that outlives the process that was killed keeps the lock of the repository, so nobody works beside it.
func TestGitOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	u := unfinished(t)
	dir := t.TempDir()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	writeIn(t, dir, "git", "#!/bin/sh\ncase $1 in worktree) trap '' TERM; echo x >'"+dir+"/begun'; sleep 2; '"+program+"' \"$@\"; echo x >'"+dir+"/ended';; *) exec '"+program+"' \"$@\";; esac\n")
	if err := os.Chmod(filepath.Join(dir, "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := u.worker("1", "PATH="+dir+":"+os.Getenv("PATH"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for !exists(filepath.Join(dir, "begun")) {
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	tree, err := u.open().Tree(t.Context(), "1", "", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if !exists(filepath.Join(dir, "ended")) {
		t.Error("it did not wait for the git of the killed process")
	}
	if readIn(t, tree.Path, "new.txt") != "untracked\n" {
		t.Error("the worktree lacks its files")
	}
}
