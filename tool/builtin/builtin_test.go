package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "the secret outside"

// tree makes a folder of files given as name and content, and beside it one of secrets.
func tree(t testing.TB, files map[string]string) (dir, outside string) {
	t.Helper()
	top := t.TempDir()
	dir, outside = filepath.Join(top, "root"), filepath.Join(top, "outside")
	for _, d := range []string{dir, outside} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(outside, "secret.txt"), secret+"\n")
	for name, content := range files {
		write(t, filepath.Join(dir, filepath.FromSlash(name)), content)
	}
	return dir, outside
}

func write(t testing.TB, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Skip("no symbolic links here:", err)
	}
}

// fileTools is the set of tools over dir.
func fileTools(t testing.TB, dir string) *tool.Set {
	t.Helper()
	root, err := builtin.OpenRoot(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	s, err := tool.NewSet(builtin.Think(), builtin.ReadFile(root), builtin.WriteFile(root), builtin.Ls(root), builtin.Glob(root), builtin.Grep(root))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func use(t testing.TB, s *tool.Set, name string, args map[string]any) tool.Result {
	t.Helper()
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return s.Call(context.Background(), name, &tool.Call{Args: b})
}

type args = map[string]any

func TestThink(t *testing.T) {
	s := fileTools(t, t.TempDir())
	r := use(t, s, "think", args{"reflection": "one\ntwo"})
	if r.Error || !strings.HasPrefix(r.Text, "Reflection recorded") || !strings.HasSuffix(r.Text, "> one\n> two") {
		t.Errorf("%+v", r)
	}
}

func TestReadAndFind(t *testing.T) {
	files := map[string]string{
		"a.go":                "package a\n\nfunc A() int { return 1 }\n",
		"docs/guide.md":       "# Guide\nThe needle is here.\n",
		"docs/deep/x.txt":     "needle two\n",
		".git/config":         "needle\n",
		"node_modules/m/i.js": "needle\n",
		"empty":               "",
	}
	files["bin"] = "needle\x00\x01"
	files["crlf.txt"] = "one needle\r\ntwo\r\n"
	files["long.txt"] = strings.Repeat("é", 3000) + "needle" + strings.Repeat("x", 3000)
	files["many.txt"] = strings.Repeat("line\n", 5000)
	dir, outside := tree(t, files)
	link(t, "docs/guide.md", filepath.Join(dir, "inside.md"))
	link(t, filepath.Join(dir, "docs"), filepath.Join(dir, "absdocs"))
	link(t, filepath.Join(outside, "secret.txt"), filepath.Join(dir, "leak.txt"))
	link(t, "../outside", filepath.Join(dir, "leakdir"))
	link(t, "loop", filepath.Join(dir, "loop"))
	s := fileTools(t, dir)

	for _, tc := range []struct {
		tool string
		args args
		want string // whole output if it ends in a newline, else part of it
		bad  bool
	}{
		{tool: "read_file", args: args{"path": "a.go"}, want: "1\tpackage a\n2\t\n3\tfunc A() int { return 1 }\n"},
		{tool: "read_file", args: args{"path": "a.go", "offset": 3}, want: "3\tfunc A() int { return 1 }\n"},
		{tool: "read_file", args: args{"path": "a.go", "limit": 1}, want: "1\tpackage a\n[the file goes on; read it with offset 2]\n"},
		{tool: "read_file", args: args{"path": "a.go", "offset": 9}, want: "has 3 lines", bad: true},
		{tool: "read_file", args: args{"path": filepath.Join(dir, "docs/guide.md")}, want: "1\t# Guide\n2\tThe needle is here.\n"},
		{tool: "read_file", args: args{"path": "docs/../a.go", "limit": 1}, want: "package a"},
		{tool: "read_file", args: args{"path": "inside.md"}, want: "1\t# Guide\n2\tThe needle is here.\n"},
		{tool: "read_file", args: args{"path": "absdocs/guide.md"}, want: "1\t# Guide\n2\tThe needle is here.\n"},
		{tool: "read_file", args: args{"path": "empty"}, want: "empty is empty"},
		{tool: "read_file", args: args{"path": "crlf.txt"}, want: "1\tone needle\n2\ttwo\n"},
		{tool: "read_file", args: args{"path": "long.txt"}, want: "7006 more bytes in this line"},
		{tool: "read_file", args: args{"path": "many.txt"}, want: "[the file goes on; read it with offset 1901]"},
		{tool: "read_file", args: args{"path": "bin"}, want: "is a binary file", bad: true},
		{tool: "read_file", args: args{"path": "docs"}, want: "is a directory", bad: true},
		{tool: "read_file", args: args{"path": "docs/giude.md"}, want: "did you mean docs/guide.md?", bad: true},
		{tool: "read_file", args: args{"path": "../outside/secret.txt"}, want: "is outside " + dir, bad: true},
		{tool: "read_file", args: args{"path": "docs/../../outside/secret.txt"}, want: "is outside " + dir, bad: true},
		{tool: "read_file", args: args{"path": outside + "/secret.txt"}, want: "is outside " + dir, bad: true},
		{tool: "read_file", args: args{"path": "leak.txt"}, want: "leaves " + dir + " by a symbolic link", bad: true},
		{tool: "read_file", args: args{"path": "leakdir/secret.txt"}, want: "leaves " + dir + " by a symbolic link", bad: true},
		{tool: "read_file", args: args{"path": "loop"}, want: "too many symbolic links", bad: true},
		{tool: "read_file", args: args{"path": "a\x00b"}, want: "NUL", bad: true},
		{tool: "read_file", args: args{"path": "a.go", "offset": -1}, want: "must not be negative", bad: true},
		{tool: "ls", args: args{"path": "docs"}, want: "deep/\nguide.md\t28\n"},
		{tool: "ls", args: args{}, want: "inside.md -> docs/guide.md\n"[:26]},
		{tool: "ls", args: args{"path": "a.go"}, want: "is a file", bad: true},
		{tool: "ls", args: args{"path": "leakdir"}, want: "symbolic link", bad: true},
		{tool: "glob", args: args{"pattern": "**/*.{md,go}"}, want: "a.go\ndocs/guide.md\ninside.md\n"},
		{tool: "glob", args: args{"pattern": "*.txt", "path": "docs/deep"}, want: "docs/deep/x.txt\n"},
		{tool: "glob", args: args{"pattern": "docs/**"}, want: "docs/deep/x.txt\ndocs/guide.md\n"},
		{tool: "glob", args: args{"pattern": dir + "/docs/*.md"}, want: "docs/guide.md\n"},
		{tool: "glob", args: args{"pattern": "node_modules/**"}, want: "node_modules/m/i.js\n"},
		{tool: "glob", args: args{"pattern": "*.nope"}, want: "no file matches"},
		{tool: "glob", args: args{"pattern": "["}, want: "not valid", bad: true},
		{tool: "glob", args: args{"pattern": "../**"}, want: "is outside", bad: true},
		{tool: "glob", args: args{"pattern": "leakdir/*"}, want: "symbolic link", bad: true},
		{tool: "grep", args: args{"pattern": "needle", "include": "*.{md,txt}", "path": "docs"}, want: "docs/deep/x.txt:1:needle two\ndocs/guide.md:2:The needle is here.\n"},
		{tool: "grep", args: args{"pattern": "NEEDLE t", "ignore_case": true}, want: "docs/deep/x.txt:1:needle two\n"},
		{tool: "grep", args: args{"pattern": "return 1 }", "literal": true}, want: "a.go:3:func A() int { return 1 }\n"},
		{tool: "grep", args: args{"pattern": "^needle$"}, want: "no match in"},
		{tool: "grep", args: args{"pattern": "needle", "path": "docs/guide.md"}, want: "docs/guide.md:2:The needle is here.\n"},
		{tool: "grep", args: args{"pattern": "line", "max": 2}, want: "many.txt:1:line\nmany.txt:2:line\n[there are more matches; narrow the pattern, path or include]\n"},
		{tool: "grep", args: args{"pattern": "two$", "include": "crlf.txt"}, want: "crlf.txt:2:two\n"},
		{tool: "grep", args: args{"pattern": "needlex", "include": "long.txt"}, want: "éneedlexxx"},
		{tool: "grep", args: args{"pattern": "("}, want: "set literal", bad: true},
		{tool: "grep", args: args{"pattern": "x", "path": "leakdir"}, want: "symbolic link", bad: true},
		{tool: "grep", args: args{"pattern": secret}, want: "no match"},
		{tool: "write_file", args: args{"path": "leak.txt", "content": "x"}, want: "symbolic link", bad: true},
		{tool: "write_file", args: args{"path": "leakdir/new", "content": "x"}, want: "symbolic link", bad: true},
		{tool: "write_file", args: args{"path": "docs", "content": "x"}, want: "is a directory", bad: true},
		{tool: "write_file", args: args{"path": ".", "content": "x"}, want: "is a directory", bad: true},
		{tool: "write_file", args: args{"path": "a.go/b", "content": "x"}, want: "not a directory", bad: true},
		{tool: "write_file", args: args{"path": "../x", "content": "x"}, want: "is outside", bad: true},
	} {
		t.Run(fmt.Sprint(tc.tool, tc.args), func(t *testing.T) {
			r := use(t, s, tc.tool, tc.args)
			if r.Error != tc.bad {
				t.Fatalf("error %v: %s", r.Error, r.Text)
			}
			if strings.HasSuffix(tc.want, "\n") && r.Text != tc.want || !strings.Contains(r.Text, tc.want) {
				t.Errorf("got  %q\nwant %q", r.Text, tc.want)
			}
			if strings.Contains(r.Text, secret) && tc.tool != "grep" {
				t.Error("leaked")
			}
		})
	}
}

func TestWriteFile(t *testing.T) {
	dir, _ := tree(t, map[string]string{"run.sh": "old", "docs/a": "old"})
	if err := os.Chmod(filepath.Join(dir, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	link(t, "docs/a", filepath.Join(dir, "la"))
	s := fileTools(t, dir)
	for _, tc := range []struct {
		path, real string
		mode       os.FileMode
	}{{"new/deep/f.txt", "new/deep/f.txt", 0o644}, {"run.sh", "run.sh", 0o755}, {"la", "docs/a", 0o644}} {
		for range 2 { // a second call changes nothing more
			r := use(t, s, "write_file", args{"path": tc.path, "content": "hello\nworld"})
			if r.Error || r.Text != "wrote "+tc.path+": 2 lines, 11 bytes" {
				t.Fatalf("%+v", r)
			}
		}
		real := filepath.Join(dir, tc.real)
		b, err := os.ReadFile(real)
		if err != nil || string(b) != "hello\nworld" {
			t.Errorf("%s: %q %v", tc.path, b, err)
		}
		if info, err := os.Lstat(real); err != nil || info.Mode() != tc.mode {
			t.Errorf("%s: mode %v, want %v (%v)", tc.path, info.Mode(), tc.mode, err)
		}
	}
	err := filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		if strings.Contains(name, ".tmp") {
			t.Errorf("left behind: %s", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestWriteRace swaps a folder for a link that leaves the root, back and forth, while
// files are written into it: none may arrive outside.
func TestWriteRace(t *testing.T) {
	dir, outside := tree(t, map[string]string{"d/f": "x"})
	link(t, outside, filepath.Join(dir, "evil"))
	s := fileTools(t, dir)
	d, aside, evil := filepath.Join(dir, "d"), filepath.Join(dir, "aside"), filepath.Join(dir, "evil")
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			_ = os.Rename(d, aside)
			_ = os.Rename(evil, d)
			_ = os.Rename(d, evil)
			_ = os.Rename(aside, d)
		}
	})
	wrote := 0
	for i := range 300 {
		if r := use(t, s, "write_file", args{"path": fmt.Sprintf("d/f%d", i%7), "content": "escaped"}); !r.Error {
			wrote++
		}
		if r := use(t, s, "read_file", args{"path": "d/secret.txt"}); strings.Contains(r.Text, secret) {
			t.Fatal("read outside")
		}
	}
	stop.Store(true)
	wg.Wait()
	list, err := os.ReadDir(outside)
	if err != nil || len(list) != 1 {
		t.Errorf("outside holds %v %v", list, err)
	}
	t.Logf("%d of 300 writes succeeded", wrote)
}

// A link that changes between what is decided on and what is read shows nothing that may not be read.
func TestReadRace(t *testing.T) {
	dir, _ := tree(t, map[string]string{"key": "the key\n", "open/f": "harmless\n", "closed/f": "the key\n"})
	root, err := builtin.OpenRoot(dir, &builtin.RootOptions{Reads: func(string, string) func(string) tool.Verdict {
		return func(file string) tool.Verdict {
			if file == "key" || strings.HasPrefix(file, "closed") {
				return tool.Verdict{Decision: tool.Deny, Reason: "a key"}
			}
			return tool.Verdict{Decision: tool.Allow}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s, err := tool.NewSet(builtin.ReadFile(root), builtin.Grep(root))
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		put := func(name, target string) {
			_ = os.Symlink(target, filepath.Join(dir, "new"))
			_ = os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, name))
		}
		for !stop.Load() {
			put("x", "open/f")
			put("d", "open")
			put("x", "key")
			put("d", "closed")
		}
	})
	read := 0
	for range 3000 {
		for _, r := range []tool.Result{
			use(t, s, "read_file", args{"path": "x"}), use(t, s, "read_file", args{"path": "d/f"}), use(t, s, "grep", args{"pattern": "key", "path": "x"}),
		} {
			if strings.Contains(r.Text, "the key") {
				stop.Store(true)
				wg.Wait()
				t.Fatal(r.Text)
			}
			if strings.Contains(r.Text, "harmless") {
				read++
			}
		}
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d of 6000 reads succeeded", read)
	if read == 0 {
		t.Error("nothing was read")
	}
}

func TestFIFO(t *testing.T) {
	dir, _ := tree(t, nil)
	if err := mkfifo(filepath.Join(dir, "pipe")); err != nil {
		t.Skip(err)
	}
	s := fileTools(t, dir)
	if r := use(t, s, "read_file", args{"path": "pipe"}); !r.Error || !strings.Contains(r.Text, "not a regular file") {
		t.Errorf("%+v", r)
	}
	if r := use(t, s, "grep", args{"pattern": "x"}); r.Error {
		t.Errorf("%+v", r)
	}
}

func TestCancelled(t *testing.T) {
	files := map[string]string{}
	for i := range 50 {
		files[fmt.Sprintf("f%d.txt", i)] = strings.Repeat("text\n", 1000)
	}
	dir, _ := tree(t, files)
	root, err := builtin.OpenRoot(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, w := range []*tool.Tool{builtin.Grep(root), builtin.Glob(root)} {
		if _, err := w.Run(ctx, &tool.Call{Args: json.RawMessage(`{"pattern":"**"}`)}); err == nil {
			t.Errorf("%s did not stop", w.Name)
		}
	}
}

func TestGrepIsDeterministic(t *testing.T) {
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("d%d/f%d.txt", i%7, i)] = strings.Repeat("no\n", i) + "hit\n"
	}
	dir, _ := tree(t, files)
	s := fileTools(t, dir)
	want := use(t, s, "grep", args{"pattern": "hit", "max": 60})
	if strings.Count(want.Text, "\n") != 61 {
		t.Fatal(want.Text)
	}
	for range 20 {
		if got := use(t, s, "grep", args{"pattern": "hit", "max": 60}); got != want {
			t.Fatalf("got %s\nwant %s", got.Text, want.Text)
		}
	}
}

func TestOddNames(t *testing.T) {
	dir, outside := tree(t, map[string]string{"a\x01b": "x", "a\nb": "x", "ab": "x"})
	link(t, outside, filepath.Join(dir, "abs"))
	s := fileTools(t, dir)
	use(t, s, "write_file", args{"path": "ab\x7fs", "content": "w"})
	want := "\"a\\x01b\"\n\"a\\nb\"\nab\n\"ab\\x7fs\"\n"
	if got := use(t, s, "glob", args{"pattern": "a*"}); got.Text != want {
		t.Fatalf("got %swant %s", got.Text, want)
	}
	if got := use(t, s, "ls", args{}); !strings.Contains(got.Text, "\"a\\nb\"\t1\n") {
		t.Fatal(got.Text)
	}
	if got := use(t, s, "grep", args{"pattern": "x"}); !strings.Contains(got.Text, "\n\"a\\nb\":1:x\n") {
		t.Fatal(got.Text)
	}
}

func FuzzPath(f *testing.F) {
	dir, outside := tree(f, map[string]string{"a/b/c.txt": "inside", "x": "inside"})
	for name, target := range map[string]string{
		"up": "..", "upup": "../..", "abs": outside, "file": filepath.Join(outside, "secret.txt"), "rel": "../outside", "a/up": "../..",
		"a/b/out": "../../../outside", "self": ".", "loop": "loop", "chain": "a/b/out", "slash": "/", "ok": "a/b",
	} {
		link(f, target, filepath.Join(dir, name))
	}
	for _, p := range []string{
		"x", "a/b/c.txt", "ok/c.txt", "up/outside/secret.txt", "../outside/secret.txt", "abs/secret.txt", "file", "chain/secret.txt",
		"slash" + outside + "/secret.txt", outside + "/secret.txt", "a/./b/../../rel/secret.txt", "self/self/rel/secret.txt", "a/up/root/../outside/secret.txt",
		"", ".", "/", "//", "a//b", "x/", "\x00", "ok/../../outside/secret.txt", "new/deep/file", "abs/new", "chain/new", "**/secret.txt", "rel/*",
	} {
		f.Add(p)
	}
	s := fileTools(f, dir)
	f.Fuzz(func(t *testing.T, p string) {
		for name, a := range map[string]args{
			"read_file":  {"path": p},
			"write_file": {"path": p, "content": "w"},
			"ls":         {"path": p},
			"glob":       {"pattern": p},
			"grep":       {"pattern": "secret outside", "path": p},
		} {
			r := use(t, s, name, a)
			if strings.Contains(r.Text, secret) || strings.Contains(r.Text, fmt.Sprintf("secret.txt\t%d", len(secret)+1)) {
				t.Fatalf("%s %q leaked: %s", name, p, r.Text)
			}
			if name == "glob" && !r.Error {
				for line := range strings.Lines(r.Text) {
					name := strings.TrimSuffix(line, "\n")
					if odd, err := strconv.Unquote(name); err == nil && name[0] == '"' {
						name = odd
					}
					real, err := filepath.EvalSymlinks(filepath.Join(dir, name))
					if err == nil && real != dir && !strings.HasPrefix(real, dir+"/") {
						t.Fatalf("glob %q left the root: %s", p, line)
					}
				}
			}
		}
		list, err := os.ReadDir(outside)
		if err != nil || len(list) != 1 {
			t.Fatalf("%q: outside holds %v %v", p, list, err)
		}
		if b, err := os.ReadFile(filepath.Join(outside, "secret.txt")); err != nil || string(b) != secret+"\n" {
			t.Fatalf("%q: the secret is now %q %v", p, b, err)
		}
		if top, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(top) != 2 {
			t.Fatalf("%q: beside the root are %v %v", p, top, err)
		}
	})
}
