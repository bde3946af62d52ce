package floors

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// The reasons of raises in several floors.
const (
	boundary = "taint of values, bounds of workers, and gates that only people pass: the allowance for the boundary"
	failing  = "a run that cannot succeed begins nothing new, and has handlers; tests of graphs"
	faces    = "what hurts in the faces now: states, answers and texts that are true everywhere: the allowance"
	servers  = "model servers outside the letter of their protocols: the allowance for the other end of the wire"
	promises = "nothing skipped, nothing stale: the allowance for effects, questions, graphs and values"
)

// The size of the product only falls. Code lines are those of Go, JavaScript, templates, SQL and Lua, without comments and blank lines; one of over 120
// columns counts as two. Tests, suites, examples, generated files and the modules of their own (temporal, internal/e2e, internal/harness) are not counted.
//
// Whoever takes code away lowers lines, packages or names of the row, which the test asks for as soon as a row allows much more than there is. They never
// rise. A floor that has to grow gets a raise, with its reason beside it: the allowance of the work that needs it, by its name, or an ADR. The whole is the
// sum of the floors, so what moves between two of them is a raise here and a lower number there. docs/adr/0058-code-has-a-limit-per-floor.md says why.
//
//	go test ./internal/floors -run TestSize -v # prints what each floor has left
var rows = []row{
	{floor: "-2", size: size{lines: 2800, packages: 17}, raises: []raise{{size{lines: 60}, boundary}, {size{lines: 30}, promises}}},
	{floor: "-1", size: size{lines: 7300, packages: 8}},
	{floor: "0", size: size{lines: 39000, packages: 36}, raises: []raise{{size{lines: 150}, servers}, {size{lines: 428}, faces}, {size{lines: 255}, boundary}, {size{lines: 40}, promises}, {size{lines: 1200}, "tool/sandbox: a boundary that holds over several commands and for an ordinary user"}, {size{lines: 170}, servers}}},
	{floor: "1", size: size{lines: 13800, packages: 9}, raises: []raise{{size{lines: 35}, servers}, {size{lines: 140}, faces}, {size{lines: 130}, boundary}, {size{lines: 365}, promises}, {size{lines: 135}, failing}, {size{lines: 400, packages: 1}, "internal/attack: the corpus that attacks the sandbox, which users run as well"}, {size{lines: 140}, "journal.Branches, in which what waits keeps its place, taken away from teams and background workflows; a run does not pause beside an answer"}}},
	{floor: "2", size: size{lines: 14600, packages: 8}, raises: []raise{{size{lines: 115}, servers}, {size{lines: 155}, faces}, {size{lines: 337}, boundary}, {size{lines: 200}, "graph: the engine below the types, which is compiled once for all graphs of a program"}, {size{lines: 200}, promises}, {size{lines: 405, packages: 1}, failing}}},
	{floor: "3", size: size{lines: 9800, packages: 4}, raises: []raise{{size{lines: 228}, boundary}, {size{lines: 195}, failing}, {size{lines: 82}, promises}, {size{lines: 15}, "a step that reads what has failed records that once, also if it waits"}}},
	{floor: "4", size: size{lines: 6930, packages: 4}, raises: []raise{{size{lines: 11}, servers}, {size{lines: 30}, faces}, {size{lines: 80}, boundary}}},
	{floor: "5", size: size{lines: 8700, packages: 3}, raises: []raise{{size{lines: 25}, servers}, {size{lines: 79}, faces}, {size{lines: 60}, boundary}, {size{lines: 80}, promises}}},
	{floor: "6", size: size{lines: 8300, packages: 2}, raises: []raise{{size{lines: 68}, faces}, {size{lines: 140}, boundary}}},
	{floor: "7", size: size{lines: 30400, packages: 6}, raises: []raise{{size{lines: 95}, servers}, {size{lines: 427}, faces}, {size{lines: 80}, boundary}, {size{lines: 40}, promises}, {size{lines: 50}, "cli: sandbox attack, which shows what held"}}},
	{floor: "8", size: size{lines: 100, packages: 1}},
	{floor: "whole", size: size{names: 755}, raises: []raise{{size{names: 1}, "host.Answer, in place of the rules of five faces"}, {size{names: 10}, boundary}, {size{names: 6}, "tool/sandbox: a sandbox that is closed says so; one function for addresses"}, {size{names: 2}, "journal.Branches, instead of the marks of who was woken"}}},
}

// A row holds the most that a floor may have. Exported names are those of the whole: of packages that are not internal.
type row struct {
	floor string
	size
	raises []raise
}

// A raise is what a row has more, and why.
type raise struct {
	size
	why string
}

type size struct{ lines, packages, names int }

// room is how much more a row may allow than there is.
var room = size{lines: 300, names: 10}

// notProduct lists the packages that only tests use: suites, and the servers, models and programs that they run against. It does not grow.
var notProduct = []string{
	"internal/acptest", "internal/crash", "internal/docs", "internal/events/eventstest", "internal/faults", "internal/floors", "internal/golden", "internal/hosttest",
	"internal/modeltest", "internal/npm", "internal/pgserver", "internal/pregel/pregeltest", "internal/redisserver", "internal/transcript/recorded", "runlog/runlogtest",
}

const (
	longFile     = 800 // lines, with comments and blank ones
	longFunction = 100
)

// long lists the files and functions that are longer, tests left out. It only gets shorter.
var long = []string{
	"superstep.go",
	"console/run.go",
	"internal/acptest/words.go: words",
	"internal/hosttest/hosttest.go: cases",
	"internal/transcript/event.go: applyEvent",
	"internal/tui/cardview.go",
	"internal/tui/historypane.go",
	"internal/tui/runpane.go",
	"internal/tui/terminal.go",
	"runlog/runlogtest/protect.go: RunProtected",
}

func TestSize(t *testing.T) {
	t.Parallel()
	m := load(t)
	sizes, err := m.sizes()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range slices.Concat(tooLarge(rows, sizes), listing(long, m.overlong()), m.suites()) {
		t.Error(problem)
	}
	t.Log("\n" + left(rows, sizes))
}

// product reports whether code of a folder is counted.
func (m *tree) product(dir string) bool {
	return !matches("examples/...", dir) && !slices.ContainsFunc(notProduct, func(p string) bool { return matches(p+"/...", dir) })
}

// sizes measures each floor, and the whole.
func (m *tree) sizes() (map[string]size, error) {
	sizes := map[string]size{}
	add := func(dir string, n size) {
		level, ok := floorOf(dir)
		if !ok || !m.product(dir) {
			return // TestFloors reports what has no floor
		}
		floor, whole := sizes[floors[level].name], sizes["whole"]
		floor.lines, floor.packages, whole.names = floor.lines+n.lines, floor.packages+n.packages, whole.names+n.names
		sizes[floors[level].name], sizes["whole"] = floor, whole
	}
	for _, p := range m.sorted() {
		if len(p.files) == 0 {
			continue
		}
		n := size{packages: 1}
		for _, f := range p.files {
			n.lines += codeLines(".go", f.src)
			if !strings.Contains("/"+p.dir+"/", "/internal/") && p.files[0].Name.Name != "main" {
				n.names += len(exported(f.File))
			}
		}
		add(p.dir, n)
	}
	return sizes, filepath.WalkDir(m.root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return m.enter(name, d.Name())
		}
		if _, counted := uncommented(path.Ext(name), nil); !counted || path.Ext(name) == ".go" {
			return nil
		}
		rel, err := filepath.Rel(m.root, name)
		if err != nil {
			return err
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		add(m.owner(filepath.ToSlash(rel)), size{lines: codeLines(path.Ext(name), src)})
		return nil
	})
}

// owner returns the directory of the package in whose folder a file lies.
func (m *tree) owner(name string) string {
	dir := path.Dir(name)
	for dir != "." && (m.packages[dir] == nil || len(m.packages[dir].files) == 0) {
		dir = path.Dir(dir)
	}
	return dir
}

// exported returns the names that a file exports, without fields and methods.
func exported(f *ast.File) (names []string) {
	add := func(id *ast.Ident) {
		if id.IsExported() {
			names = append(names, id.Name)
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					add(s.Name)
				case *ast.ValueSpec:
					for _, id := range s.Names {
						add(id)
					}
				}
			}
		}
	}
	return names
}

// most returns what a row allows with its raises.
func (r *row) most() size {
	most := r.size
	for _, up := range r.raises {
		most.lines, most.packages, most.names = most.lines+up.lines, most.packages+up.packages, most.names+up.names
	}
	return most
}

const table = "internal/floors/size_test.go"

// tooLarge returns which rows are exceeded, which allow much more than there is, and which rise without a reason.
func tooLarge(rows []row, sizes map[string]size) (problems []string) {
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, floor := range slices.Sorted(maps.Keys(sizes)) {
		if !slices.ContainsFunc(rows, func(r row) bool { return r.floor == floor }) {
			refuse("floor %s has no row in %s", floor, table)
		}
	}
	for _, r := range rows {
		is, most := sizes[r.floor], r.most()
		for _, up := range r.raises {
			if strings.TrimSpace(up.why) == "" || min(up.lines, up.packages, up.names) < 0 {
				refuse("floor %s: a raise in %s has a reason, and lowers nothing", r.floor, table)
			}
		}
		for _, x := range []struct {
			what                  string
			is, most, first, room int
		}{
			{"code lines", is.lines, most.lines, r.lines, room.lines},
			{"packages", is.packages, most.packages, r.packages, room.packages},
			{"exported names", is.names, most.names, r.names, room.names},
		} {
			switch {
			case x.is > x.most:
				refuse("floor %s has %d %s, %d more than its row in %s allows: take as many away, or add a raise to the row that says why: the allowance of the work, or an ADR",
					r.floor, x.is, x.what, x.is-x.most, table)
			case x.most-x.is > x.room:
				refuse("floor %s has %d %s, and its row in %s allows %d: lower the %s of the row from %d to %d", r.floor, x.is, x.what, table, x.most, x.what, x.first, x.first-(x.most-x.is)+x.room/3)
			}
		}
	}
	return problems
}

// overlong returns the files and functions that are too long, tests left out.
func (m *tree) overlong() (found []string) {
	for _, p := range m.sorted() {
		for _, f := range p.files {
			if m.fset.File(f.FileStart).LineCount() > longFile {
				found = append(found, f.name)
			}
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok && m.fset.Position(d.End()).Line-m.fset.Position(d.Pos()).Line >= longFunction {
					found = append(found, f.name+": "+d.Name.Name)
				}
			}
		}
	}
	return found
}

// listing returns what is too long and not listed, and what is listed and no longer too long.
func listing(listed, found []string) (problems []string) {
	for _, name := range found {
		if !slices.Contains(listed, name) {
			problems = append(problems, fmt.Sprintf("%s has become too long, over %d lines for a file or %d for a function: split it", name, longFile, longFunction))
		}
	}
	for _, name := range listed {
		if !slices.Contains(found, name) {
			problems = append(problems, fmt.Sprintf("%s is no longer too long, or is gone: take it off the list in %s", name, table))
		}
	}
	return problems
}

// suites returns what is wrong with the list of packages that are not counted: one that is gone, or that the product needs.
func (m *tree) suites() (problems []string) {
	for _, s := range notProduct {
		if m.packages[s] == nil {
			problems = append(problems, fmt.Sprintf("%s is gone: take it off the list in %s", s, table))
		}
	}
	for _, p := range m.sorted() {
		if !m.product(p.dir) || matches("examples/...", p.dir) {
			continue
		}
		for _, f := range p.files {
			for _, imported := range importsOf(f) {
				if dir, ok := own(imported); ok && !m.product(dir) {
					problems = append(problems, fmt.Sprintf("%s imports %s: it is part of the product and is counted; take it off the list in %s", f.name, dir, table))
				}
			}
		}
	}
	return problems
}

// left describes what each floor has left.
func left(rows []row, sizes map[string]size) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "floor\tcode lines\tmost\tleft\tpackages\tmost\tleft\t")
	var is, most size
	for _, r := range rows {
		n, up := sizes[r.floor], r.most()
		is.lines, is.packages, is.names = is.lines+n.lines, is.packages+n.packages, is.names+n.names
		most.lines, most.packages, most.names = most.lines+up.lines, most.packages+up.packages, most.names+up.names
		if r.floor != "whole" {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", r.floor, n.lines, up.lines, up.lines-n.lines, n.packages, up.packages, up.packages-n.packages)
		}
	}
	fmt.Fprintf(w, "whole\t%d\t%d\t%d\t%d\t%d\t%d\t\n", is.lines, most.lines, most.lines-is.lines, is.packages, most.packages, most.packages-is.packages)
	_ = w.Flush() // to memory
	return b.String() + fmt.Sprintf("exported names: %d, most %d, left %d\n", is.names, most.names, most.names-is.names)
}

// The table refuses what grows, what could be lowered, and a raise without a reason.
func TestSizeRulesBite(t *testing.T) {
	t.Parallel()
	at := func(lines, packages, names int) map[string]size {
		return map[string]size{"0": {lines: lines, packages: packages}, "whole": {names: names}}
	}
	held := []row{{floor: "0", size: size{lines: 1000, packages: 5}}, {floor: "whole", size: size{names: 20}}}
	raised := []row{{floor: "0", size: size{lines: 900, packages: 4}, raises: []raise{{size{lines: 100, packages: 1}, "a reason"}}}, held[1]}
	for name, c := range map[string]struct {
		rows  []row
		sizes map[string]size
		want  string
	}{
		"as it is":         {held, at(1000, 5, 20), ""},
		"with room":        {held, at(700, 5, 10), ""},
		"raised":           {raised, at(1000, 5, 20), ""},
		"a line more":      {held, at(1001, 5, 20), "floor 0 has 1001 code lines, 1 more than"},
		"more than raised": {raised, at(1003, 5, 20), "floor 0 has 1003 code lines, 3 more than"},
		"a package more":   {held, at(1000, 6, 20), "floor 0 has 6 packages, 1 more than"},
		"a name more":      {held, at(1000, 5, 21), "floor whole has 21 exported names, 1 more than"},
		"lines to lower":   {held, at(699, 5, 20), "lower the code lines of the row from 1000 to 799"},
		"raise to lower":   {raised, at(699, 5, 20), "lower the code lines of the row from 900 to 699"},
		"package to lower": {held, at(1000, 4, 20), "lower the packages of the row from 5 to 4"},
		"names to lower":   {held, at(1000, 5, 9), "lower the exported names of the row from 20 to 12"},
		"no reason":        {[]row{{floor: "0", size: held[0].size, raises: []raise{{size{lines: 1}, " "}}}, held[1]}, at(1000, 5, 20), "a raise in"},
		"a raise lowers":   {[]row{{floor: "0", size: held[0].size, raises: []raise{{size{lines: -1}, "why"}}}, held[1]}, at(999, 5, 20), "lowers nothing"},
		"no row":           {held[1:], at(1000, 5, 20), "floor 0 has no row"},
	} {
		got := tooLarge(c.rows, c.sizes)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: problems %q, want one with %q", name, got, c.want)
		}
	}
	if got := listing([]string{"a.go", "b.go: f"}, []string{"a.go", "c.go"}); len(got) != 2 || !strings.Contains(got[0], "c.go has become too long") || !strings.Contains(got[1], "b.go: f is no longer") {
		t.Errorf("%q", got)
	}
}

// Code is counted where it lies, and a suite is none if the product needs it.
func TestSizeOfTree(t *testing.T) {
	t.Parallel()
	m := &tree{root: t.TempDir(), packages: map[string]*pkg{}, fset: token.NewFileSet()}
	files := map[string]string{
		"tool/a.go":                       "package tool\n\n// A is exported.\nfunc A() {}\n\ntype B int\n\nfunc (B) C() {}\n\nconst d, E = 1, 2\n",
		"tool/a_test.go":                  "package tool\n\nfunc F() {}\n",
		"internal/clean/a.go":             "package clean\n\nfunc G() {}\n",
		"internal/modeltest/a.go":         "package modeltest\n\nfunc H() {}\n",
		"examples/first/main.go":          "package main\n\nimport _ \"" + module + "/internal/modeltest\"\n\nfunc main() {}\n",
		"internal/script/a.go":            "package script\n\nimport _ \"" + module + "/internal/modeltest\"\n",
		"internal/script/js/a.mjs":        "// a\nlet b\n",
		"internal/script/testdata/c.mjs":  "let d\n",
		"internal/modeltest/pages/a.html": "<p>\n",
		"tool/long.go":                    "package tool\n\nfunc long() {\n" + strings.Repeat("\t_ = 1\n", longFunction-1) + "}\n",
		"tool/longfile.go":                "package tool\n" + strings.Repeat("\n", longFile),
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		src, file := files[name], filepath.Join(m.root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
		if path.Ext(name) == ".go" {
			if err := m.add(name, []byte(src)); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := m.sizes()
	if want := map[string]size{"0": {lines: 5 + longFunction + 2 + 1 + 2 + 1, packages: 2}, "-2": {lines: 2, packages: 1}, "whole": {names: 3}}; err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got := m.overlong(); !slices.Equal(got, []string{"tool/long.go: long", "tool/longfile.go"}) {
		t.Errorf("%q", got)
	}
	if got := m.suites(); !slices.ContainsFunc(got, func(p string) bool {
		return strings.HasPrefix(p, "internal/script/a.go imports internal/modeltest")
	}) {
		t.Errorf("%q", got)
	}
}
