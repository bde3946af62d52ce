package floors

import (
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The check runs the race detector where there are goroutines, which it finds by a pattern.
// The pattern misses no package that has them.
func TestConcurrentPackagesAreRaced(t *testing.T) {
	t.Parallel()
	m := load(t)
	raced := concurrent(t, m.root)
	for _, p := range m.sorted() {
		if why := p.concurrent(); why != "" && !slices.Contains(raced, p.dir) {
			t.Errorf("%s has %s, and ./check does not run its tests with the race detector: mend the pattern of concurrent in the script", p.dir, why)
		}
	}
}

// Each form of concurrency is found, alone, and nothing else is taken for it.
func TestConcurrentPattern(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script, err := os.ReadFile(filepath.Join("..", "..", "check"))
	if err != nil {
		t.Fatal(err)
	}
	plant := func(name, text string, mode os.FileMode) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	plant("check", string(script), 0o700)
	plant("go.mod", "module "+module+"\n", 0o600)
	var want []string
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
		plant(name+"/a.go", "package "+name+"\n\n"+body+"\n", 0o600)
		if name != "quiet" {
			want = append(want, name)
		}
	}
	plant("tested/a.go", "package tested\n", 0o600)
	plant("tested/a_test.go", "package tested_test\n\nfunc f() { go f() }\n", 0o600)
	plant("quiet/testdata/a.go", "package a\n\nfunc f() { go f() }\n", 0o600)
	want = append(want, "tested")
	slices.Sort(want)
	if got := concurrent(t, dir); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A test that skips itself under the race detector runs without it, whoever skips; the others do not.
func TestUnracedTests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script, err := os.ReadFile(filepath.Join("..", "..", "check"))
	if err != nil {
		t.Fatal(err)
	}
	calls := strings.NewReplacer("SHORT", "faults"+".Unraced(t)", "TIMES", "faults"+".Unraced(nil)") // not here, or this test were one
	for name, text := range map[string]string{
		"check": string(script), "go.mod": "module " + module + "\n", "a/a.go": "package a\n", "b/b.go": "package b\n",
		"a/a_test.go": "package a\n\nfunc TestSame(t *testing.T) {\n\t// not SHORT nor rounds(t)\n}\n\nfunc TestShort(t *testing.T) {\n\tSHORT\n}\n\n" +
			"func (k *kind) rounds() int { return TIMES }\n\nvar table = []int{\n\t(*kind)(nil).rounds(),\n}\n",
		"a/more_test.go": "package a\n\nfunc TestTable(t *testing.T) {\n\tfor range table {\n\t}\n}\n\nfunc TestTabled(t *testing.T) {}\n\nfunc FuzzRounds(f *testing.F) {\n\tnew(kind).rounds()\n}\n",
		"b/b_test.go":    "package b\n\nvar (\n\tn = TIMES\n)\n\nfunc TestAnyOfB(t *testing.T) {}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(calls.Replace(text)), 0o700); err != nil { //nolint:gosec // one is a script
			t.Fatal(err)
		}
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("the check is a bash script: ", err)
	}
	out, err := exec.CommandContext(t.Context(), bash, filepath.Join(dir, "check"), "unraced").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if lines := strings.Split(string(out), "\n"); lines[1] != "FuzzRounds|TestAnyOfB|TestShort|TestTable" {
		t.Errorf("%s", out)
	}
}

// concurrent is what the check found in a module, as directories.
func concurrent(t *testing.T, root string) (dirs []string) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("the check is a bash script: ", err)
	}
	out, err := exec.CommandContext(t.Context(), bash, filepath.Join(root, "check"), "concurrent").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if dir, ok := own(strings.TrimSpace(line)); ok {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// concurrent returns what of p starts goroutines or is made for them, "" if nothing is.
func (p *pkg) concurrent() (why string) {
	for _, f := range slices.Concat(p.files, p.tests, p.outside) {
		for _, imported := range importsOf(f) {
			if imported == "sync" || imported == "sync/atomic" {
				why = "an import of " + imported
			}
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				why = "a go statement"
			case *ast.ChanType:
				why = "a channel"
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "Go" || s.Sel.Name == "AfterFunc") {
					why = "a call of " + s.Sel.Name
				}
			}
			return true
		})
	}
	return why
}
