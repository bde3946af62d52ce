package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/internal/docindex"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
)

func TestSearchDocs(t *testing.T) {
	dir, _ := tree(t, map[string]string{
		"guide.md": "# Guide\n\nA run survives a crash because its log is durable.\n",
		"odd.txt":  "a crash with \x1b[31mcolour\x1b[0m and \u202ebidi \xff here\r\n",
	})
	ix, err := docindex.Open(t.Context(), dir, &docindex.Options{CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	w := builtin.SearchDocs(ix.Dir(), func(context.Context, bool) (*builtin.Docs, error) { return ix, nil }, nil)
	if !strings.Contains(w.Description, `"root"`) {
		t.Error(w.Description)
	}
	s, err := tool.NewSet(w)
	if err != nil {
		t.Fatal(err)
	}
	r := use(t, s, "search_docs", args{"query": "how does a run survive a crash?"})
	if !strings.HasPrefix(r.Text, "## guide.md:3-3  Guide\n3\tA run survives a crash because its log is durable.\n\n## odd.txt:1-1\n") {
		t.Errorf("%q", r.Text)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "odd.txt"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(r.Text[strings.Index(r.Text, "## odd"):], "\t")
	if text = strings.TrimRight(text, "\n"); text == "" || !strings.Contains(string(raw), text) {
		t.Errorf("%q is not in %q", text, raw)
	}
	for _, tc := range []struct {
		args args
		want string
		bad  bool
	}{
		{args{"query": "zebra"}, `no place in "root" fits "zebra"`, false},
		{args{"query": " "}, "is empty", true},
		{args{"query": "crash", "limit": 21}, "limit 21", true},
		{args{"query": "crash", "limit": 1}, "## ", false},
	} {
		if r := use(t, s, "search_docs", tc.args); r.Error != tc.bad || !strings.Contains(r.Text, tc.want) {
			t.Errorf("%v: %+v", tc.args, r)
		}
	}
}

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	root, err := builtin.OpenRoot(dir, nil)
	if err != nil {
		panic(err)
	}
	defer root.Close()
	set, err := tool.NewSet(builtin.WriteFile(root), builtin.ReadFile(root))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	fmt.Println(set.Call(ctx, "write_file", &tool.Call{Args: json.RawMessage(`{"path":"notes/a.md","content":"# Notes\n"}`)}).Text)
	fmt.Print(set.Call(ctx, "read_file", &tool.Call{Args: json.RawMessage(`{"path":"notes/a.md"}`)}).Text)
	// Output:
	// wrote notes/a.md: 1 lines, 8 bytes
	// 1	# Notes
}

// TestLargeDocs: a folder beyond the limits of an index is refused with what asks for permission.
func TestLargeDocs(t *testing.T) {
	dir, _ := tree(t, map[string]string{"a.md": "zebra\n", "b.md": "zebra\n"})
	cache := t.TempDir()
	s, err := tool.NewSet(builtin.SearchDocs(dir, func(ctx context.Context, large bool) (*builtin.Docs, error) {
		o := &docindex.Options{CacheDir: cache, Limits: &docindex.Limits{Files: 1, Bytes: 1000, Time: time.Minute}}
		if large {
			o.Limits = docindex.LargeLimits()
		}
		ix, err := docindex.Open(ctx, dir, o)
		if ix != nil {
			t.Cleanup(func() { ix.Close() })
		}
		return ix, err
	}, nil))
	if err != nil {
		t.Fatal(err)
	}
	r := use(t, s, "search_docs", args{"query": "zebra"})
	for _, want := range []string{"exceed the limit of 1 files", "2 files with 0 MB", `"large": true to ask for permission`, "search_docs(large)"} {
		if !r.Error || !strings.Contains(r.Text, want) {
			t.Errorf("%+v lacks %s", r, want)
		}
	}
	if r := use(t, s, "search_docs", args{"query": "zebra", "large": true}); r.Error || !strings.Contains(r.Text, "## a.md") {
		t.Errorf("%+v", r)
	}
}

func TestDocsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		progress := docindex.Progress("/docs", time.Second, func(text string, _, _ int) { told = append(told, text) })
		for n := range 10 {
			progress(n, 10, int64(n)*1e6)
			<-time.After(time.Second)
		}
		if len(told) != 9 || told[0] != "1 of 10 files, 1 MB: indexing /docs, the first time only" {
			t.Errorf("%q", told)
		}
	})
}
