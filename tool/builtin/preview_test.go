package builtin_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
)

// A person who is asked about a change sees what will be written, and what was seen is what is written: a file that
// has changed since, in what the change is about, is left as it is.
func TestPreview(t *testing.T) {
	const text = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n"
	for name, tc := range map[string]struct {
		tool, args    string
		before, after string // "" for no file; after the question
		shown         []string
		fresh, fails  bool
		refused       bool
		want          string
	}{
		"an edit": {
			tool: "edit_file", args: `{"path":"d/f","edits":[{"old_string":"five","new_string":"FIVE"}]}`, before: text, after: text,
			shown: []string{"--- a/d/f\n+++ b/d/f\n@@ -2,7 +2,7 @@\n two\n three\n four\n-five\n+FIVE\n six\n"}, want: strings.Replace(text, "five", "FIVE", 1),
		},
		"an edit, and the file has changed elsewhere": {
			tool: "edit_file", args: `{"path":"d/f","edits":[{"old_string":"nine","new_string":"NINE"}]}`, before: text, after: "zero\n" + text,
			shown: []string{"-nine\n+NINE\n"}, want: "zero\n" + strings.Replace(text, "nine", "NINE", 1),
		},
		"an edit, and what is around it has changed": {
			tool: "edit_file", args: `{"path":"d/f","edits":[{"old_string":"nine","new_string":"NINE"}]}`, before: text, after: strings.Replace(text, "ten", "rm -rf", 1),
			refused: true, want: strings.Replace(text, "ten", "rm -rf", 1),
		},
		"an edit that is made already": {
			tool: "edit_file", args: `{"path":"d/f","edits":[{"old_string":"five","new_string":"FIVE"}]}`, before: text, after: strings.Replace(text, "five", "FIVE", 1),
			want: strings.Replace(text, "five", "FIVE", 1),
		},
		"an edit that cannot be made": {
			tool: "edit_file", args: `{"path":"d/f","edits":[{"old_string":"eleven","new_string":"11"}]}`, before: text, after: text + "eleven\n", fails: true, refused: true, want: text + "eleven\n",
		},
		"a new file in a new folder": {
			tool: "write_file", args: `{"path":"d/f","content":"x\ny"}`, shown: []string{"--- /dev/null\n+++ b/d/f\n@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline"}, fresh: true, want: "x\ny",
		},
		"a new file that somebody else has made": {
			tool: "write_file", args: `{"path":"d/f","content":"x\n"}`, after: "theirs\n", fresh: true, refused: true, want: "theirs\n",
		},
		"a file that is replaced": {
			tool: "write_file", args: `{"path":"d/f","content":"x\n"}`, before: "a\n", after: "a\n", shown: []string{"-a\n+x\n"}, want: "x\n",
		},
		"a file that is replaced, and has changed": {
			tool: "write_file", args: `{"path":"d/f","content":"x\n"}`, before: "a\n", after: "b\n", refused: true, want: "b\n",
		},
		"a file that is written already": {tool: "write_file", args: `{"path":"d/f","content":"x\n"}`, after: "x\n", fresh: true, want: "x\n"},
		"a binary file that is replaced": {
			tool: "write_file", args: `{"path":"d/f","content":"x\n"}`, before: "\x00\x01", after: "\x00\x01", shown: []string{"-(path d/f in ", "is a binary file", "+x\n"}, want: "x\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "d", "f")
			put := func(content string) {
				if content == "" {
					return
				}
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			put(tc.before)
			root, err := builtin.OpenRoot(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			set, err := tool.NewSet(builtin.WriteFile(root), builtin.EditFile(root))
			if err != nil {
				t.Fatal(err)
			}
			tl, _ := set.Get(tc.tool)
			change, err := tl.Preview(t.Context(), &tool.Call{Args: json.RawMessage(tc.args)})
			if (err != nil) != tc.fails {
				t.Fatal(err)
			}
			if tc.fails {
				change = &tool.Change{Sum: "none"}
			}
			for _, want := range tc.shown {
				if !strings.Contains(change.Diff, want) {
					t.Errorf("%q has no %q", change.Diff, want)
				}
			}
			if change.New != tc.fresh {
				t.Errorf("new is %v", change.New)
			}
			if _, err := os.Stat(filepath.Dir(file)); tc.before == "" && err == nil {
				t.Error("looking at the change made a folder")
			}
			put(tc.after)
			res := set.Call(t.Context(), tc.tool, &tool.Call{Args: json.RawMessage(tc.args), Approved: change.Sum})
			if res.Error != tc.refused || tc.refused && !strings.Contains(res.Text, "the permission does not hold; nothing was written") {
				t.Errorf("%+v", res)
			}
			if got, _ := os.ReadFile(file); string(got) != tc.want {
				t.Errorf("the file is %q, want %q", got, tc.want)
			}
		})
	}
}
