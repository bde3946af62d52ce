package builtin_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
)

func edits(pairs ...string) []map[string]string {
	var out []map[string]string
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, map[string]string{"old_string": pairs[i], "new_string": pairs[i+1]})
	}
	return out
}

func editTools(t testing.TB, dir string, opts *builtin.RootOptions) *tool.Set {
	t.Helper()
	root, err := builtin.OpenRoot(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	s, err := tool.NewSet(builtin.EditFile(root), builtin.WriteFile(root), builtin.ReadFile(root))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEditFile(t *testing.T) {
	for _, tc := range []struct {
		name, before string
		edits        []map[string]string
		after, want  string
		bad          bool
	}{
		{"one", "a\nb\nc\n", edits("b", "x\ny"), "a\nx\ny\nc\n", "edited f: 1 lines became 2\n@@ line 2\n-b\n+x\n+y\n", false},
		{"many", "a\nb\nc\n", edits("a", "1", "c\n", "", "1", "2"), "2\nb\n", "", false},
		{"twice", "a a", edits("a", "b"), "a a", "more than once", true},
		{"overlapping", "aaa", edits("aa", "b"), "aaa", "more than once", true},
		{"none", "a", edits("b", "c"), "a", "is not in the file", true},
		{"indentation", "\tif x {\n\t\ty()\n\t}\n", edits("if x {\n  y()\n}", "z"), "\tif x {\n\t\ty()\n\t}\n", "with this indentation", true},
		{"all or none", "a b", edits("a", "x", "c", "y"), "a b", "edit 2", true},
		{"same", "a", edits("a", "a"), "a", "are the same", true},
		{"crlf", "a\r\nb\r\nc\r\n", edits("a\nb", "x\ny\nz"), "x\r\ny\r\nz\r\nc\r\n", "", false},
		{"crlf in the call", "a\r\nb\r\n", edits("a\r\nb\r\n", "x\r\n"), "x\r\n", "", false},
		{"mixed, LF in CR LF", "a\r\nb\r\nlf\nend", edits("lf\nend", "LF\nEND"), "a\r\nb\r\nLF\nEND", "", false},
		{"mixed, CR LF in LF", "a\nb\nc\r\nd\n", edits("c", "x\ny"), "a\nb\nx\r\ny\r\nd\n", "", false},
		{"mixed", "a\nb\r\nc\nd\n", edits("d", "e\nf"), "a\nb\r\nc\ne\nf\n", "", false},
		{"no last newline", "a", edits("a", "b"), "b", "", false},
		{"bom", "\ufeffa", edits("a", "b"), "\ufeffb", "", false},
		{"insertion", "a\nc\n", edits("a\n", "a\nb\n"), "a\nb\nc\n", "", false},
		{"exists", "a", edits("", "b"), "a", "exists", true},
		{"binary", "a\x00b", edits("a", "b"), "a\x00b", "is a binary file", true},
		{"no edits", "a", []map[string]string{}, "a", "edits", true},
		{"regexp signs", "a.*b $1", edits(".*b $1", "$0"), "a$0", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, _ := tree(t, map[string]string{"f": tc.before})
			if err := os.Chmod(filepath.Join(dir, "f"), 0o640); err != nil {
				t.Fatal(err)
			}
			s := editTools(t, dir, nil)
			r := use(t, s, "edit_file", args{"path": "f", "edits": tc.edits})
			if r.Error != tc.bad || !strings.Contains(r.Text, tc.want) {
				t.Fatalf("%+v", r)
			}
			check := func() {
				t.Helper()
				b, err := os.ReadFile(filepath.Join(dir, "f"))
				if err != nil || string(b) != tc.after {
					t.Fatalf("%q, want %q (%v)", b, tc.after, err)
				}
				if info, err := os.Stat(filepath.Join(dir, "f")); err != nil || info.Mode().Perm() != 0o640 {
					t.Error(info, err)
				}
			}
			check()
			use(t, s, "edit_file", args{"path": "f", "edits": tc.edits}) // the same call once more changes nothing
			check()
		})
	}
}

func TestEditTwice(t *testing.T) {
	dir, _ := tree(t, map[string]string{"f": "a\nc\n"})
	s := editTools(t, dir, nil)
	for i, want := range []string{"edited f", "holds the edits already"} {
		if r := use(t, s, "edit_file", args{"path": "f", "edits": edits("a\n", "a\nb\n")}); r.Error || !strings.Contains(r.Text, want) {
			t.Errorf("%d: %+v", i, r)
		}
	}
	for range 2 {
		if r := use(t, s, "edit_file", args{"path": "new/g", "edits": edits("", "hello\n")}); r.Error || !strings.Contains(r.Text, "+hello") {
			t.Errorf("%+v", r)
		}
	}
	if r := use(t, s, "edit_file", args{"path": "none", "edits": edits("a", "b")}); !r.Error {
		t.Errorf("%+v", r)
	}
	if err := os.Truncate(filepath.Join(dir, "f"), 9<<20); err != nil {
		t.Fatal(err)
	}
	if r := use(t, s, "edit_file", args{"path": "f", "edits": edits("a", "b")}); !r.Error || !strings.Contains(r.Text, "over 8 MiB") {
		t.Errorf("%+v", r)
	}
	if r := use(t, s, "write_file", args{"path": "g", "content": strings.Repeat("x", 9<<20)}); !r.Error || !strings.Contains(r.Text, "over 8 MiB") {
		t.Errorf("%+v", r)
	}
}

// TestProtectedPaths: what the host protects is not written, by any name and also where there is nothing yet.
func TestProtectedPaths(t *testing.T) {
	dir, outside := tree(t, map[string]string{"a": "x", ".git/config": "old"})
	link(t, ".git", filepath.Join(dir, "way"))
	link(t, "../.conf", filepath.Join(dir, ".git", "sub"))
	link(t, outside, filepath.Join(dir, "out"))
	s := editTools(t, dir, &builtin.RootOptions{Protected: func(p string) string {
		for _, bad := range []string{".git", ".conf"} {
			if p == bad || strings.HasPrefix(p, bad+"/") {
				return "it is " + bad
			}
		}
		return ""
	}})
	for _, p := range []string{".git/config", ".git/hooks/pre-commit", "way/config", "way/hooks/x", "./a/../.git/config", dir + "/.git/config", ".conf", ".conf/x", "way/sub/x", "way/../.git/x", "out/x", "out/secret.txt"} {
		for name, a := range map[string]args{"write_file": {"path": p, "content": "x"}, "edit_file": {"path": p, "edits": edits("", "x")}} {
			if r := use(t, s, name, a); !r.Error {
				t.Errorf("%s %s: %+v", name, p, r)
			}
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, ".git/config")); err != nil || string(b) != "old" {
		t.Errorf("%q %v", b, err)
	}
	for _, p := range []string{".conf", ".git/hooks"} {
		if _, err := os.Lstat(filepath.Join(dir, p)); err == nil {
			t.Errorf("%s was made", p)
		}
	}
	if r := use(t, s, "edit_file", args{"path": "a", "edits": edits("x", "y")}); r.Error {
		t.Error(r)
	}
}

// TestEditsTogether: edits of one file by several agents at once are all made.
func TestEditsTogether(t *testing.T) {
	var before strings.Builder
	for i := range 40 {
		fmt.Fprintf(&before, "line %d.\n", i)
	}
	dir, _ := tree(t, map[string]string{"f": before.String()})
	s := editTools(t, dir, nil)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if r := use(t, s, "edit_file", args{"path": "f", "edits": edits(fmt.Sprintf("line %d.", i), fmt.Sprintf("done %d.", i))}); r.Error {
				t.Error(r.Text)
			}
		})
	}
	wg.Wait()
	b, err := os.ReadFile(filepath.Join(dir, "f"))
	if err != nil || strings.Contains(string(b), "line") {
		t.Errorf("%s %v", b, err)
	}
}

// FuzzEdit: an edit changes exactly what it says, and the same edit again changes nothing.
func FuzzEdit(f *testing.F) {
	for _, s := range [][3]string{{"a\nb\nc", "b", "x"}, {"a\r\nb\r\n", "a\nb", "x\ny"}, {"aa", "a", "b"}, {"a", "a", "aa"}, {"a\r\nb\nc", "\n", "x"}, {"", "", "x"}, {"ab", "b", ""}, {"\r\r\n", "\r", "\n"}, {"x\r\ny", "\r\n", ""}} {
		f.Add(s[0], s[1], s[2])
	}
	dir, _ := tree(f, nil)
	s := editTools(f, dir, nil)
	f.Fuzz(func(t *testing.T, content, old, new string) {
		name := filepath.Join(dir, "f")
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		a := args{"path": "f", "edits": edits(old, new)}
		b, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		var back struct {
			Edits []map[string]string
		}
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		old, new = back.Edits[0]["old_string"], back.Edits[0]["new_string"]
		r := use(t, s, "edit_file", a)
		after, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if r.Error && string(after) != content {
			t.Fatalf("failed (%s) and changed %q to %q", r.Text, content, after)
		}
		if !r.Error && !strings.Contains(content, "\r") && !strings.Contains(r.Text, "already") && old != "" && (strings.Count(content, old) != 1 || string(after) != strings.Replace(content, old, new, 1)) {
			t.Fatalf("%q with %q for %q became %q", content, new, old, after)
		}
		if r.Error || new == "" {
			return
		}
		use(t, s, "edit_file", a)
		if again, err := os.ReadFile(name); err != nil || string(again) != string(after) && strings.Contains(new, old) {
			t.Fatalf("%q with %q for %q became %q and then %q", content, new, old, after, again)
		}
	})
}
