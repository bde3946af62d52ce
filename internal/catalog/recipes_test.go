package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/recipe"
)

// text is a recipe of a name with some more lines, and a step that runs others.
func text(name, more string, uses ...string) string {
	s := "name: " + name + "\n" + more + "steps:\n  - id: first\n    tool: glob\n"
	for i, u := range uses {
		s += fmt.Sprintf("  - id: use%d\n    workflow: %s\n", i, u)
	}
	return s
}

// world is a project, a home and a program, made of files; a value of "-> x" is a symbolic link.
func world(t *testing.T, files map[string]string) *Options {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	shipped := fstest.MapFS{}
	for name, text := range files {
		if base, ok := strings.CutPrefix(name, "builtin/"); ok {
			shipped[base] = &fstest.MapFile{Data: []byte(text)}
			continue
		}
		name = strings.Replace(name, "project/", "project/.superstep/workflows/", 1)
		name = strings.Replace(name, "user/", "home/.config/superstep/workflows/", 1)
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if to, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"project", "home"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	store, err := trust.Open(filepath.Join(t.TempDir(), "trust.json"))
	if err != nil {
		t.Fatal(err)
	}
	return &Options{Dir: filepath.Join(dir, "project"), Home: filepath.Join(dir, "home"), builtin: shipped, Trust: store.TrustAll()}
}

// brief is a line with the files in it as they are written down here.
func brief(line string) string {
	return strings.NewReplacer("~/.config/superstep/workflows/", "user/", ".superstep/workflows/", "project/").Replace(line)
}

func open(t *testing.T, opt *Options) *Catalog {
	t.Helper()
	l, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// lines is what a library has: a line for each file that goes before others.
func lines(l *Catalog) []string {
	var out []string
	for _, e := range l.recipes().effective() {
		line := e.Name + " " + e.File
		if e.Recipe == nil {
			line += " INVALID"
		}
		if also := l.recipes().also(e); len(also) > 0 {
			line += " also " + strings.Join(also, ",")
		}
		if len(e.Overrides) > 0 {
			line += " over " + strings.Join(e.Overrides, ",")
		}
		for _, p := range e.Problems {
			line += " " + p.Code
		}
		out = append(out, brief(line))
	}
	return out
}

func TestRecipePrecedence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		files map[string]string
		taken []string
		want  []string
	}{
		{"local over user over built in", map[string]string{
			"project/a.yaml": text("a", ""), "user/a.yaml": text("a", ""), "builtin/a.yaml": text("a", ""),
			"user/b.yml": text("b", ""), "builtin/b.yaml": text("b", ""), "builtin/c.yaml": text("c", ""),
		}, nil, []string{
			"a project/a.yaml over user user/a.yaml,built-in built-in/a.yaml", "b user/b.yml over built-in built-in/b.yaml", "c built-in/c.yaml",
		}},
		{"an invalid file goes before what lies below", map[string]string{"project/a.yaml": "name: a\n", "builtin/a.yaml": text("a", "")}, nil,
			[]string{"a project/a.yaml INVALID over built-in built-in/a.yaml no-steps"}},
		{"but not before one that has the name", map[string]string{"project/a.yaml": "name: a\n", "project/b.yaml": text("a", "")}, nil,
			[]string{"a project/a.yaml INVALID no-steps", "a project/b.yaml file-name"}},
		{"two of one name in one folder", map[string]string{"project/a.yaml": text("a", ""), "project/b.yaml": text("a", ""), "user/a.yaml": text("a", "")}, nil,
			[]string{"a project/a.yaml INVALID same-name", "a project/b.yaml INVALID file-name same-name"}},
		{"the file is called otherwise", map[string]string{"project/x.yaml": text("a", "")}, nil, []string{"a project/x.yaml file-name"}},
		{"the name of a workflow of the program", map[string]string{"project/research.yaml": text("research", "")}, []string{"research"},
			[]string{"research project/research.yaml INVALID taken-name"}},
		{"aliases", map[string]string{"project/a.yaml": text("a", "aliases: [x, b]\n"), "user/b.yaml": text("b", "aliases: [y]\n")}, nil,
			[]string{"a project/a.yaml also x alias-name", "b user/b.yaml also y"}},
		{"one alias of two", map[string]string{"project/a.yaml": text("a", "aliases: [x, y]\n"), "builtin/b.yaml": text("b", "aliases: [x]\n")}, nil,
			[]string{"a project/a.yaml also x,y", "b built-in/b.yaml"}},
		{"one alias of two in one folder", map[string]string{"project/a.yaml": text("a", "aliases: [x, y]\n"), "project/c.yaml": text("c", "aliases: [x]\n"), "builtin/b.yaml": text("b", "aliases: [x]\n")}, nil,
			[]string{"a project/a.yaml also y same-alias", "b built-in/b.yaml", "c project/c.yaml same-alias"}},
		{"an alias of what is overridden is gone", map[string]string{"project/a.yaml": text("a", ""), "builtin/a.yaml": text("a", "aliases: [x]\n"), "builtin/b.yaml": text("b", "aliases: [x]\n")}, nil,
			[]string{"a project/a.yaml over built-in built-in/a.yaml", "b built-in/b.yaml also x"}},
		{"what is no recipe, and drafts, are left unchanged", map[string]string{"project/notes.md": "x", "project/drafts/a.yaml": text("a", ""), "project/more/b.yaml": text("b", "")}, nil, nil},
		{"a link that leads out", map[string]string{"secret/a.yaml": text("a", ""), "project/a.yaml": "-> ../../../secret/a.yaml"}, nil, []string{"a project/a.yaml INVALID unreadable"}},
		{"a link inside", map[string]string{"project/lib/a.yaml": text("a", ""), "project/a.yaml": "-> lib/a.yaml"}, nil, []string{"a project/a.yaml"}},
		{"too large", map[string]string{"project/a.yaml": text("a", "") + strings.Repeat("# x\n", recipe.MaxBytes/4)}, nil, []string{"a project/a.yaml INVALID too-large"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			opt := world(t, c.files)
			opt.Taken = c.taken
			if diff := cmp.Diff(c.want, lines(open(t, opt))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFindRecipes(t *testing.T) {
	t.Parallel()
	l := open(t, world(t, map[string]string{
		"project/good.yaml": text("good", "aliases: [fine, both]\n"), "project/other.yaml": text("other", "aliases: [both]\n"), "user/far.yaml": text("far", "aliases: [fine]\n"), "project/bad.yaml": "name: bad\n",
		"project/d1.yaml": text("double", ""), "project/d2.yaml": text("double", ""), "project/drafts/draft.yaml": text("draft", ""),
	}))
	for _, name := range []string{"good", "fine"} {
		if e, err := l.recipes().find(name); err != nil || e.Name != "good" {
			t.Errorf("%s: %v %v", name, e, err)
		}
	}
	var invalid *InvalidError
	if e, err := l.recipes().find("bad"); !errors.As(err, &invalid) || e == nil || !strings.Contains(err.Error(), "steps") {
		t.Errorf("bad: %v %v", e, err)
	}
	var twice *ambiguousError
	if _, err := l.recipes().find("double"); !errors.As(err, &twice) || twice.Alias || len(twice.Files) != 2 {
		t.Errorf("double: %v", err)
	}
	if _, err := l.recipes().find("both"); !errors.As(err, &twice) || !twice.Alias {
		t.Errorf("both: %v", err)
	}
	var none *NotFoundError
	if _, err := l.recipes().find("goood"); !errors.As(err, &none) || !strings.Contains(err.Error(), `did you mean "good"`) {
		t.Errorf("goood: %v", err)
	}
	if _, err := l.recipes().find("draft"); !errors.As(err, &none) {
		t.Errorf("a draft is found by its name: %v", err)
	}
	if d := l.recipes().drafts; len(d) != 1 || d[0].Name != "draft" || !d[0].Draft {
		t.Errorf("drafts: %v", d)
	}
}

// Who looks again sees what is there now, also when neither size nor time tell.
func TestChangesAreSeen(t *testing.T) {
	t.Parallel()
	opt := world(t, map[string]string{"project/a.yaml": text("a", "description: one\n")})
	path := filepath.Join(opt.Dir, ".superstep", "workflows", "a.yaml")
	first := open(t, opt)
	first.recipes()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text("a", "description: two\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	second := open(t, opt)
	for l, want := range map[*Catalog]string{first: "one", second: "two"} {
		if e, err := l.recipes().find("a"); err != nil || e.Recipe.Description != want {
			t.Errorf("want %s: %v %v", want, e, err)
		}
	}
	a, _ := first.recipes().find("a")
	b, _ := second.recipes().find("a")
	if a.Digest == b.Digest || a.Digest != recipeDigest(a.Text) {
		t.Errorf("digests %s, %s", a.Digest, b.Digest)
	}
}

func TestBundle(t *testing.T) {
	t.Parallel()
	opt := world(t, map[string]string{
		"project/main.yaml": text("main", "", "left", "right", "research"), "project/left.yaml": text("left", "", "base"), "user/right.yaml": text("right", "", "ground"),
		"builtin/base.yaml": text("base", "aliases: [ground]\n"), "project/ring1.yaml": text("ring1", "", "ring2"), "project/ring2.yaml": text("ring2", "aliases: [two]\n", "ring3"),
		"project/ring3.yaml": text("ring3", "", "two"), "project/self.yaml": text("self", "", "self"), "project/lost.yaml": text("lost", "", "gone", "self"),
	})
	opt.Workflows = []string{"research"}
	l := open(t, opt)
	b, err := l.Bundle("main")
	if err != nil {
		t.Fatal(err)
	}
	var uses []string
	for _, r := range b.Uses {
		uses = append(uses, r.Name)
	}
	if diff := cmp.Diff([]string{"left", "base", "right"}, uses); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
	if b.Main.Name != "main" || !slices.Equal(b.Others, []string{"research"}) || b.Names["ground"] != b.Names["base"] || b.Names["ground"] == nil {
		t.Errorf("bundle: %v %v", b.Others, b.Names)
	}
	var circle *circleError
	for name, want := range map[string]string{"ring1": "ring2 → ring3 → ring2", "self": "self → self"} {
		if _, err := l.Bundle(name); !errors.As(err, &circle) || strings.Join(circle.Chain, " → ") != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	var use *UseError
	var none *NotFoundError
	if _, err := l.Bundle("lost"); !errors.As(err, &use) || use.Recipe != "lost" || !errors.As(err, &none) || !errors.As(err, &circle) {
		t.Errorf("lost: all that is wrong is to be said: %v", err)
	}
	// The digest is of all of it.
	path := filepath.Join(opt.Home, ".config", "superstep", "workflows", "right.yaml")
	if err := os.WriteFile(path, []byte(text("right", "description: new\n", "ground")), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := open(t, opt).Bundle("main")
	if err != nil || again.Digest == b.Digest || !strings.HasPrefix(b.Digest, "sha256:") {
		t.Errorf("digest %s, and %s after a change of what it uses: %v", b.Digest, again.Digest, err)
	}
	if same, err := l.Bundle("main"); err != nil || same.Digest != b.Digest {
		t.Errorf("digest %s, then %s: %v", b.Digest, same.Digest, err)
	}
}

// A recipe outside of every folder has its name within its bundle.
func TestBundleOfAFile(t *testing.T) {
	t.Parallel()
	opt := world(t, map[string]string{"project/a.yaml": text("a", "", "main"), "project/main.yaml": text("main", ""), "elsewhere/mine.yaml": text("main", "", "a")})
	file := filepath.Join(filepath.Dir(opt.Dir), "elsewhere", "mine.yaml")
	e, err := LoadRecipe(file, "mine.yaml")
	if err != nil || e.Recipe == nil || e.Name != "main" || e.File != "mine.yaml" || e.Path != file {
		t.Fatalf("%+v %v", e, err)
	}
	var circle *circleError
	if _, err := open(t, opt).BundleOf(e.Recipe); !errors.As(err, &circle) {
		t.Errorf("want a circle, since main is the file here: %v", err)
	}
}

func TestLoadRecipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := LoadRecipe(filepath.Join(dir, "none.yaml"), "none.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	if _, err := LoadRecipe(dir, "dir"); err == nil {
		t.Error("read a folder")
	}
	big := filepath.Join(dir, "big.yaml")
	if err := os.WriteFile(big, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err := LoadRecipe(big, "big.yaml"); err != nil || e.Recipe != nil || !strings.Contains(e.Problems.Error(), "over 1 MiB") {
		t.Errorf("big: %v %v", e, err)
	}
	if err := os.Symlink(big, filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	if e, err := LoadRecipe(filepath.Join(dir, "link.yaml"), "link.yaml"); err != nil || len(e.Problems) != 1 {
		t.Errorf("who names a link means what it leads to: %v %v", e, err)
	}
}

func TestRecipeOptions(t *testing.T) {
	t.Parallel()
	if _, err := Open(&Options{Dir: "here"}); err == nil {
		t.Error("took a relative folder")
	}
	l, err := Open(nil)
	if err != nil || len(l.recipes().effective()) < 10 {
		t.Fatalf("%v %v", l, err)
	}
	for _, e := range l.recipes().effective() {
		if e.Scope != BuiltIn || e.Path != "" || e.Recipe == nil || len(e.Problems) > 0 {
			t.Errorf("%s %s: %v", e.Scope, e.Name, e.Problems)
		}
	}
}

// Names of files that could deceive are made harmless.
func TestHostileRecipeNames(t *testing.T) {
	t.Parallel()
	l := open(t, world(t, map[string]string{"project/a\u202eb\x1b[2J\nc.yaml": "name: a\n"}))
	for _, e := range l.recipes().effective() {
		if strings.ContainsAny(e.Name+e.File+e.Problems.Error(), "\u202e\x1b") || strings.Contains(e.File, "\n") {
			t.Errorf("%q %q %q", e.Name, e.File, e.Problems)
		}
	}
}

// However much there is, only so much of it is read, and that is said.
func TestTooMuchOfRecipes(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i := range 12 {
		files[fmt.Sprintf("project/r%02d.yaml", i)] = text(fmt.Sprintf("r%02d", i), "") + "# " + strings.Repeat("x", recipe.MaxBytes-1000)
	}
	l := open(t, world(t, files))
	if n := len(l.recipes().entries); n < 8 || n > 9 || len(l.recipes().problems) != 1 || l.recipes().problems[0].Code != "too-many" {
		t.Errorf("%d entries, %v", n, l.recipes().problems)
	}
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		c, err := Open(nil)
		if err != nil {
			b.Fatal(err)
		}
		c.recipes()
	}
}

func Example_recipes() {
	l, err := Open(&Options{builtin: fstest.MapFS{
		"brief.yaml":  {Data: []byte("name: brief\naliases: [summary]\nsteps:\n  - {id: find, workflow: search}\n")},
		"search.yaml": {Data: []byte("name: search\nsteps:\n  - {id: find, tool: grep}\n")},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := l.Bundle("summary")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(b.Main.Name, "uses", b.Uses[0].Name)
	// Output: brief uses search
}
