package gitwork_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/gitwork"
)

// sides returns a repository and a run's tree in which branch "theirs" conflicts with the tip. Each function changes a tree; base, if any, the checkout.
func sides(t *testing.T, base, ours, theirs func(dir string)) (u *user, r *gitwork.Repo, whole, task *gitwork.Tree) {
	t.Helper()
	u = newUser(t)
	base(u.dir)
	u.commit("first")
	u.guard()
	r = u.open()
	var err error
	for _, side := range []struct {
		task string
		edit func(string)
		to   **gitwork.Tree
	}{{"", ours, &whole}, {"theirs", theirs, &task}} {
		if *side.to, err = r.Tree(t.Context(), "1", side.task, "main"); err != nil {
			t.Fatal(err)
		}
		side.edit((*side.to).Path)
		if _, changed, err := (*side.to).Commit(t.Context(), "Change", []string{"Superstep-Task: " + side.task + "x"}); err != nil || !changed {
			t.Fatal(changed, err)
		}
	}
	return u, r, whole, task
}

func put(t *testing.T, name, text string) func(string) {
	return func(dir string) { writeIn(t, dir, name, text) }
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	remove := func(name string) func(string) {
		return func(dir string) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name               string
		base, ours, theirs func(string)
		path, resolve      string // what a resolver writes, if it does not take a side
		want               [2]string
	}{
		{"text", put(t, "f", "a\nb\nc\n"), put(t, "f", "a\nours\nc\n"), put(t, "f", "a\ntheirs\nc\n"), "f", "a\nboth\nc\n", [2]string{"a\nours\nc\n", "a\ntheirs\nc\n"}},
		{"both add", put(t, "x", ""), put(t, "f", "ours\n"), put(t, "f", "theirs\n"), "f", "both\n", [2]string{"ours\n", "theirs\n"}},
		{"binary", put(t, "f", "\x00a"), put(t, "f", "\x00ours"), put(t, "f", "\x00theirs"), "f", "\x00both", [2]string{"\x00ours", "\x00theirs"}},
		{"ours deletes", put(t, "f", "a\n"), remove("f"), put(t, "f", "theirs\n"), "f", "both\n", [2]string{"", "theirs\n"}},
		{"theirs deletes", put(t, "f", "a\n"), put(t, "f", "ours\n"), remove("f"), "f", "both\n", [2]string{"ours\n", ""}},
		{"odd name", put(t, "x", ""), put(t, "-a\nb *é", "ours\n"), put(t, "-a\nb *é", "theirs\n"), "-a\nb *é", "both\n", [2]string{"ours\n", "theirs\n"}},
	} {
		for _, how := range []string{"resolve", "ours", "theirs"} {
			if how != "resolve" && c.name != "text" && !strings.HasSuffix(c.name, "deletes") {
				continue // as for text
			}
			t.Run(c.name+"/"+how, func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				u, r, whole, task := sides(t, c.base, c.ours, c.theirs)
				key := []string{"Superstep-Merge: theirs"}
				m, err := whole.Merge(ctx, task.Branch, "Merge", key)
				if err != nil || m.Commit != "" || len(m.Conflicts) != 1 || m.Conflicts[0].Path != c.path || len(m.Notes) == 0 {
					t.Fatalf("%+v, %v", m, err)
				}
				f := m.Conflicts[0]
				for i, id := range []string{f.Ours, f.Theirs} {
					var text string
					if id != "" {
						if text, _, err = r.Blob(ctx, id, 1000); err != nil {
							t.Fatal(err)
						}
					}
					if text != c.want[i] {
						t.Errorf("side %d is %q, want %q", i, text, c.want[i])
					}
				}
				if status := u.gitIn(whole.Path, "status"); !strings.Contains(status, "unmerged") && !strings.Contains(status, "Unmerged") {
					t.Errorf("git status in the worktree: %s", status)
				}
				if _, _, err := whole.Commit(ctx, "Not now", []string{"Superstep-Task: other"}); err == nil {
					t.Error("a commit during a merge")
				}
				again := map[bool]int{true: 2, false: 1}[c.name == "text"]
				for range again { // nobody did anything
					if m, err = whole.Continue(ctx, task.Branch, "Merge", key); err != nil || m.Commit != "" || len(m.Conflicts) != 1 {
						t.Fatalf("untouched: %+v, %v", m, err)
					}
				}
				want := c.resolve
				switch how {
				case "resolve":
					writeIn(t, whole.Path, c.path, c.resolve)
				case "ours":
					want, err = c.want[0], whole.Take(ctx, f, false)
				case "theirs":
					want, err = c.want[1], whole.Take(ctx, f, true)
				}
				if err != nil {
					t.Fatal(err)
				}
				var last string
				for i := range again + 1 {
					do := whole.Continue
					if i == again {
						do = whole.Merge
					}
					m, err := do(ctx, task.Branch, "Merge", key)
					if err != nil || m.Commit == "" || last != "" && m.Commit != last {
						t.Fatalf("%+v, %v; before %s", m, err, last)
					}
					last = m.Commit
				}
				if b, _ := os.ReadFile(filepath.Join(whole.Path, c.path)); string(b) != want { // none is ""
					t.Errorf("%q, want %q", b, want)
				}
				if parents := u.git("rev-list", "--parents", "-1", last); len(strings.Fields(parents)) != 3 {
					t.Errorf("parents %q", parents)
				}
				if status := u.gitIn(whole.Path, "status", "--porcelain"); status != "" {
					t.Errorf("left: %s", status)
				}
				if kept := u.git("for-each-ref", "refs/superstep/kept"); kept != "" {
					t.Errorf("kept %s", kept)
				}
			})
		}
	}
}

// A file with markers left is not resolved. A merge that was reset is not continued without the other side.
func TestContinueAfterReset(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	u, _, whole, task := sides(t, put(t, "f", "a\n"), put(t, "f", "ours\n"), put(t, "f", "theirs\n"))
	key := []string{"Superstep-Merge: theirs"}
	m, err := whole.Merge(ctx, task.Branch, "Merge", key)
	if err != nil || len(m.Conflicts) != 1 {
		t.Fatal(m, err)
	}
	writeIn(t, whole.Path, "f", "changed\n"+readIn(t, whole.Path, "f"))
	if m, err = whole.Continue(ctx, task.Branch, "Merge", key); err != nil || len(m.Conflicts) != 1 {
		t.Fatal(m, err)
	}
	kept, err := whole.Reset(ctx)
	if err != nil || !strings.Contains(u.git("show", kept+":f"), "changed\n<<<<<<<") {
		t.Fatal(kept, err)
	}
	if readIn(t, whole.Path, "f") != "ours\n" {
		t.Error("not reset")
	}
	if m, err = whole.Continue(ctx, task.Branch, "Merge", key); err != nil || len(m.Conflicts) != 1 {
		t.Fatal("continued a merge that was not in progress", m, err)
	}
	// The user resolves it in a shell.
	writeIn(t, whole.Path, "f", "by hand\n")
	u.gitIn(whole.Path, "commit", "-qam", "by hand")
	if m, err = whole.Continue(ctx, task.Branch, "Merge", key); err != nil || m.Commit != u.gitIn(whole.Path, "rev-parse", "HEAD") {
		t.Fatal(m, err)
	}
}

// Branches that all change the same line: each ends merged, and none is lost. SUPERSTEP_FAULTS=full has 20.
func TestManyConflicts(t *testing.T) {
	faults.Unraced(t)
	t.Parallel()
	u := newUser(t)
	u.write("f", "0\n")
	u.commit("first")
	u.guard()
	ctx, r := t.Context(), u.open()
	whole, err := r.Tree(ctx, "1", "", "main")
	if err != nil {
		t.Fatal(err)
	}
	var tasks []*gitwork.Tree
	n := max(faults.N(20), 6)
	for i := range n {
		task, err := r.Tree(ctx, "1", fmt.Sprint(i), "main")
		if err != nil {
			t.Fatal(err)
		}
		writeIn(t, task.Path, "f", fmt.Sprintf("task %d\n", i))
		if _, changed, err := task.Commit(ctx, "Change", []string{fmt.Sprintf("Superstep-Task: %d", i)}); err != nil || !changed {
			t.Fatal(changed, err)
		}
		tasks = append(tasks, task)
	}
	all := ""
	for i, task := range tasks {
		key := []string{fmt.Sprintf("Superstep-Merge: %d", i)}
		m, err := whole.Merge(ctx, task.Branch, "Merge", key)
		if err != nil {
			t.Fatal(err)
		}
		all += fmt.Sprintf("task %d\n", i)
		if i > 0 {
			if len(m.Conflicts) != 1 {
				t.Fatalf("%d: %+v", i, m)
			}
			writeIn(t, whole.Path, "f", all)
			if m, err = whole.Continue(ctx, task.Branch, "Merge", key); err != nil {
				t.Fatal(err)
			}
		}
		if m.Commit == "" {
			t.Fatalf("%d: %+v", i, m)
		}
	}
	if done, err := r.GC(ctx, func(string) string { return "" }, false); err != nil || len(done.Removed) != n || len(done.Kept) != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if got := u.git("show", whole.Branch+":f"); got+"\n" != all {
		t.Errorf("%q", got)
	}
	subjects := strings.Split(u.git("log", "--format=%s", "--no-merges", whole.Branch), "\n")
	if got := len(slices.DeleteFunc(subjects, func(s string) bool { return s != "Change" })); got != n {
		t.Errorf("%d commits of tasks", got)
	}
}
