package floors

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A tree is the source of a module. Tests share one and do not change it.
type tree struct {
	root     string
	fset     *token.FileSet
	packages map[string]*pkg // by directory
}

type pkg struct {
	dir          string
	files, tests []*file // tests are those within the package
	outside      []*file // tests in a package of their own

	info func() *types.Info // what the names in files mean, found out once
}

type file struct {
	name string // from the root of the module
	src  []byte
	*ast.File
}

// loaded reads the module this test belongs to, once.
var loaded = sync.OnceValues(func() (*tree, error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	m := &tree{root: root, fset: token.NewFileSet(), packages: map[string]*pkg{}}
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return m.enter(name, d.Name())
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		return m.add(filepath.ToSlash(rel), src)
	})
	if err == nil && len(m.packages) < 2 {
		err = fmt.Errorf("only %d packages found below %s", len(m.packages), root)
	}
	return m, err
})

func load(t *testing.T) *tree {
	t.Helper()
	m, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// enter returns fs.SkipDir for a directory that is not part of the module.
func (m *tree) enter(name, base string) error {
	if name == m.root {
		return nil
	}
	if base[0] == '.' || base[0] == '_' || base == "testdata" || base == "vendor" || base == "node_modules" {
		return fs.SkipDir
	}
	_, err := os.Stat(filepath.Join(name, "go.mod"))
	if err == nil {
		return fs.SkipDir
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (m *tree) add(name string, src []byte) error {
	f, err := parser.ParseFile(m.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ignored(f) {
		return nil
	}
	dir := path.Dir(name)
	p := m.packages[dir]
	if p == nil {
		p = &pkg{dir: dir}
		p.info = sync.OnceValue(func() *types.Info { return m.check(p) })
		m.packages[dir] = p
	}
	switch {
	case !strings.HasSuffix(name, "_test.go"):
		p.files = append(p.files, &file{name, src, f})
	case !strings.HasSuffix(f.Name.Name, "_test"):
		p.tests = append(p.tests, &file{name, src, f})
	default:
		p.outside = append(p.outside, &file{name, src, f})
	}
	return nil
}

// ignored tells whether f says //go:build ignore.
func ignored(f *ast.File) bool {
	for _, g := range f.Comments {
		for _, c := range g.List {
			if g.Pos() > f.Package || !constraint.IsGoBuild(c.Text) {
				continue
			}
			x, err := constraint.Parse(c.Text)
			if err == nil && !x.Eval(func(tag string) bool { return tag != "ignore" }) && x.Eval(func(string) bool { return true }) {
				return true
			}
		}
	}
	return false
}

func (m *tree) sorted() []*pkg {
	return slices.SortedFunc(maps.Values(m.packages), func(a, b *pkg) int { return cmp.Compare(a.dir, b.dir) })
}

// importsOf returns the paths that f imports.
func importsOf(f *file) []string {
	var paths []string
	for _, s := range f.Imports {
		p, err := strconv.Unquote(s.Path.Value)
		if err != nil {
			panic(err) // the parser lets no such literal pass
		}
		paths = append(paths, p)
	}
	return paths
}

// own returns the directory of an import path of this module.
func own(importPath string) (dir string, ok bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func matches(pattern, name string) bool {
	if dir, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == dir || strings.HasPrefix(name, dir+"/")
	}
	return pattern == name
}

func floorOf(dir string) (level int, ok bool) {
	for i, f := range floors {
		for _, p := range f.packages {
			if matches(p, dir) {
				return i, true
			}
		}
	}
	return 0, false
}

func (m *tree) imports() (problems []string) {
	for _, p := range m.sorted() {
		level, ok := floorOf(p.dir)
		if !ok {
			problems = append(problems, fmt.Sprintf("%s has no floor: add it to the table in internal/floors/floors_test.go, as low as its imports allow", p.dir))
			continue
		}
		for _, f := range slices.Concat(p.files, p.tests) {
			test := slices.Contains(p.tests, f)
			for _, imported := range importsOf(f) {
				dir, ok := own(imported)
				if !ok {
					continue
				}
				if problem := edge(p.dir, level, dir, test); problem != "" {
					problems = append(problems, f.name+": "+problem)
				}
			}
		}
	}
	return problems
}

// edge returns what is wrong with an import of dir by from, if anything.
func edge(from string, level int, dir string, test bool) string {
	below, ok := floorOf(dir)
	if !ok {
		return "" // said of dir itself, or by the compiler
	}
	family, _, _ := strings.Cut(from, "/")
	sameFamily := matches(family+"/...", dir) || suites[dir] == family
	suite := strings.HasSuffix(dir, "test")
	switch {
	case suite && !test && !strings.HasSuffix(from, "test"):
		return fmt.Sprintf("%s imports the test suite %s", from, dir)
	case suite && test && sameFamily:
		return ""
	case below > level, below == level && !matches(dir+"/...", from) && (!sameFamily || !strings.Contains(dir, "/internal/")) && !slices.Contains(siblings[from], dir):
		return fmt.Sprintf("%s (floor %s) imports %s (floor %s): move what both need below, take it as an argument, or reconsider the floors",
			from, floors[level].name, dir, floors[below].name)
	}
	if allowed, ok := hosts[dir]; ok && !test && !slices.ContainsFunc(allowed, func(a string) bool { return matches(a, from) }) {
		return fmt.Sprintf("%s names %s: take it as an argument; only %s name it", from, dir, strings.Join(allowed, ", "))
	}
	return ""
}

func (m *tree) banned(bans []ban) (problems []string) {
	for _, b := range bans {
		for _, in := range b.in {
			for _, p := range m.sorted() {
				if in != p.dir && path.Dir(in) != p.dir {
					continue
				}
				for _, f := range p.files {
					if in == p.dir || in == f.name {
						problems = append(problems, m.bannedIn(b, p, f)...)
					}
				}
			}
		}
	}
	return problems
}

func (m *tree) bannedIn(b ban, p *pkg, f *file) (problems []string) {
	refuse := func(pos token.Pos, what string) {
		if _, fine := b.except[f.name+": "+what]; !fine {
			problems = append(problems, fmt.Sprintf("%s uses %s: %s", m.fset.Position(pos), what, b.why))
		}
	}
	for _, s := range f.Imports {
		imported, _ := strconv.Unquote(s.Path.Value)
		for _, w := range b.what {
			if matches(w, imported) {
				refuse(s.Pos(), imported)
			}
		}
	}
	info := p.info()
	ast.Inspect(f.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if slices.Contains(b.what, "go statement") {
				refuse(n.Pos(), "go statement")
			}
		case *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
			if slices.Contains(b.what, "channel") {
				refuse(n.Pos(), "channel")
			}
		case *ast.SelectorExpr:
			if what := qualified(n, info); what != "" && slices.Contains(b.what, what) {
				refuse(n.Pos(), what)
			}
		}
		return true
	})
	return problems
}

// check resolves the names in the files of p. It knows nothing of what p imports
// and the same name may be there for several platforms, so types are incomplete and
// errors expected; the scopes are right all the same.
func (m *tree) check(p *pkg) *types.Info {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: blank{}, Error: func(error) {}}
	var files []*ast.File
	for _, f := range p.files {
		files = append(files, f.File)
	}
	_, _ = conf.Check(p.dir, m.fset, files, info)
	return info
}

// blank imports every path as an empty package.
type blank struct{}

func (blank) Import(importPath string) (*types.Package, error) {
	name := path.Base(importPath)
	if regexp.MustCompile(`^v[0-9]+$`).MatchString(name) {
		name = path.Base(path.Dir(importPath))
	}
	p := types.NewPackage(importPath, name)
	p.MarkComplete()
	return p, nil
}

func (m *tree) packageState() (problems []string) {
	for _, p := range m.sorted() {
		info := p.info()
		written := writes(p, info)
		for _, f := range p.files {
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Recv == nil && d.Name.Name == "init" {
						problems = append(problems, fmt.Sprintf("%s: func init: importing a package must change nothing; let the host call it", m.fset.Position(d.Pos())))
					}
				case *ast.GenDecl:
					for _, s := range d.Specs {
						if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.VAR {
							problems = append(problems, m.variable(p, info, d, v, written)...)
						}
					}
				}
			}
		}
	}
	return problems
}

func (m *tree) variable(p *pkg, info *types.Info, d *ast.GenDecl, v *ast.ValueSpec, written map[types.Object]token.Pos) (problems []string) {
	for i, name := range v.Names {
		full := strings.TrimPrefix(p.dir+"."+name.Name, ".")
		if _, fine := state[full]; fine || name.Name == "_" {
			continue
		}
		refuse := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("%s: package variable %s %s: make it a field or an argument, or list it with the reason in internal/floors/floors_test.go",
				m.fset.Position(name.Pos()), full, fmt.Sprintf(format, args...)))
		}
		var value ast.Expr
		if i < len(v.Values) {
			value = v.Values[i]
		}
		made := madeBy(value, info)
		switch pos, isWritten := written[info.Defs[name]]; {
		case isWritten:
			refuse("is written to at %s", m.fset.Position(pos))
		case embedded(d, v), made == "errors.New", made == "fmt.Errorf":
		case holdsState(v.Type, info), holdsState(value, info):
			refuse("is a lock, an atomic or a channel, or holds one")
		case value == nil && len(v.Values) == 0:
			refuse("has no value")
		case name.IsExported() && made != "regexp.MustCompile":
			refuse("can be changed by any importer")
		}
	}
	return problems
}

// madeBy returns the function of another package that value is a call of, if it is.
func madeBy(value ast.Expr, info *types.Info) string {
	call, ok := value.(*ast.CallExpr)
	if !ok {
		return ""
	}
	return qualified(call.Fun, info)
}

func qualified(x ast.Expr, info *types.Info) string {
	sel, ok := x.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	name, ok := info.Uses[id].(*types.PkgName)
	if !ok {
		return ""
	}
	return name.Imported().Path() + "." + sel.Sel.Name
}

func embedded(d *ast.GenDecl, v *ast.ValueSpec) bool {
	for _, g := range []*ast.CommentGroup{d.Doc, v.Doc} {
		if g != nil && slices.ContainsFunc(g.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") }) {
			return true
		}
	}
	return false
}

// holdsState tells whether a type or a value names a lock, an atomic or a channel
// outside of function bodies. sync.OnceValue and its like are lazy constants.
func holdsState(x ast.Expr, info *types.Info) (found bool) {
	if x == nil {
		return false
	}
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ChanType:
			found = true
		case *ast.SelectorExpr:
			q := qualified(n, info)
			if strings.HasPrefix(q, "sync/atomic.") || strings.HasPrefix(q, "sync.") && !strings.HasPrefix(q, "sync.OnceValue") && q != "sync.OnceFunc" {
				found = true
			}
		}
		return !found
	})
	return found
}

// writes returns the objects that p assigns to, takes the address of, copies into,
// deletes from or clears, with a place where it does.
func writes(p *pkg, info *types.Info) map[types.Object]token.Pos {
	written := map[types.Object]token.Pos{}
	write := func(x ast.Expr) {
		if id := base(x); id != nil && info.Uses[id] != nil {
			written[info.Uses[id]] = x.Pos()
		}
	}
	for _, f := range p.files {
		ast.Inspect(f.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, x := range n.Lhs {
					write(x)
				}
			case *ast.IncDecStmt:
				write(n.X)
			case *ast.RangeStmt:
				write(n.Key)
				write(n.Value)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					write(n.X)
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 && slices.Contains([]string{"clear", "copy", "delete"}, f.Name) {
					write(n.Args[0])
				}
			}
			return true
		})
	}
	return written
}

// base returns the variable that x is, or is a part of.
func base(x ast.Expr) *ast.Ident {
	for {
		switch y := x.(type) {
		case *ast.Ident:
			return y
		case *ast.ParenExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		case *ast.SliceExpr:
			x = y.X
		case *ast.SelectorExpr:
			x = y.X
		case *ast.StarExpr:
			x = y.X
		default:
			return nil
		}
	}
}

var (
	explained = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^ |]+) ")
	required  = regexp.MustCompile(`(?m)^(?:require)?\s+([^\s()]+\.[^\s()]+/[^\s()]+) (v\S+)`)
)

func (m *tree) unexplained(doc, gomod string) (problems []string) {
	versions := map[string]string{}
	for _, r := range required.FindAllStringSubmatch(gomod, -1) {
		versions[r[1]] = r[2]
	}
	rows := map[string]string{}
	for _, r := range explained.FindAllStringSubmatch(doc, -1) {
		rows[r[1]] = r[2]
		if v := versions[r[1]]; v != "" && v != r[2] {
			problems = append(problems, fmt.Sprintf("docs/dependencies.md: %s is at %s there and at %s in go.mod", r[1], r[2], v))
		}
	}
	missing := map[string]string{}
	for _, p := range m.sorted() {
		for _, f := range slices.Concat(p.files, p.tests) {
			for _, imported := range importsOf(f) {
				first, _, _ := strings.Cut(imported, "/")
				_, mine := own(imported)
				if mine || !strings.Contains(first, ".") {
					continue
				}
				if !slices.ContainsFunc(slices.Collect(maps.Keys(rows)), func(row string) bool { return matches(row+"/...", imported) }) {
					missing[imported] = f.name
				}
			}
		}
	}
	for _, imported := range slices.Sorted(maps.Keys(missing)) {
		problems = append(problems, fmt.Sprintf("%s: %s has no row in docs/dependencies.md: say there why the module needs it", missing[imported], imported))
	}
	return problems
}
