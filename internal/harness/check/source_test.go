package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plant writes files of a module into a folder of the test.
func plant(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Each form of concurrency is found, alone, and nothing else is taken for it.
func TestConcurrent(t *testing.T) {
	files := map[string]string{
		"tested/a.go": "package tested\n", "tested/a_test.go": "package tested_test\n\nfunc f() { go f() }\n",
		"quiet/testdata/a.go": "package a\n\nfunc f() { go f() }\n", "internal/e2e/a.go": "package a\n\nfunc f() { go f() }\n",
	}
	want := []string{"./tested"}
	for name, body := range map[string]string{
		"statement": "func f() { go f() }",
		"literal":   "func f() {\n\tgo func() {}()\n}",
		"generic":   "func f[T any]() {\n\tgo f[int]()\n}",
		"called":    "func f() func() {\n\tgo f()()\n\treturn nil\n}",
		"group":     "func f(g interface{ Go(func()) }) { g.Go(nil) }",
		"later":     "import \"time\"\n\nfunc f() { time.AfterFunc(0, nil) }",
		"channel":   "func f(<-chan int) {}",
		"lock":      "import \"sync\"\n\ntype f struct{ sync.Mutex }",
		"atomic":    "import \"sync/atomic\"\n\ntype f struct{ atomic.Bool }",
		"quiet":     "func f() string { return \"in golang, go vet says it\" }",
	} {
		files[name+"/a.go"] = "package " + name + "\n\n" + body + "\n"
		if name != "quiet" {
			want = append(want, "./"+name)
		}
	}
	slices.Sort(want)
	got, err := concurrent(plant(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A test belongs to a lane by what it does itself, and by what it calls.
func TestReaching(t *testing.T) {
	const imports = "package a\n\nimport \"testing\"\n\n"
	dir := plant(t, map[string]string{
		"a/a.go": "package a\n", "b/b.go": "package b\n",
		"a/a_test.go": imports + "func TestSame(t *testing.T) {\n\t// not testing.Short() nor rounds(t)\n}\n\n" +
			"func TestFewer(t *testing.T) {\n\tif testing.Short() {\n\t\tt.Log(1)\n\t}\n}\n\n" +
			"func TestShort(t *testing.T) {\n\tif testing.Short() {\n\t\tt.Skip()\n\t}\n}\n\n" +
			"func (k *kind) rounds(t *testing.T) int {\n\tif testing.Short() || k == nil {\n\t\tt.Skipf(\"\")\n\t}\n\treturn 1\n}\n\n" +
			"var table = []int{\n\t(*kind)(nil).rounds(nil),\n}\n",
		"a/more_test.go": imports + "func TestTable(t *testing.T) {\n\tfor range table {\n\t}\n}\n\nfunc TestTabled(t *testing.T) {}\n\n" +
			"func FuzzRounds(f *testing.F) {\n\tnew(kind).rounds(nil)\n}\n",
		"b/b_test.go": "package b\n\nfunc TestAnyOfB(t *testing.T) {}\n",
	})
	got, err := reaching(dir, skipsShort)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string][]string{"./a": {"FuzzRounds", "TestShort", "TestTable"}}, got); d != "" {
		t.Error(d)
	}
}
