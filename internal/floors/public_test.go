package floors

import (
	"go/ast"
	"go/doc"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// hidden lists the exported declarations that name something of an internal package, with it. It only gets shorter.
//
// All but one are of package host, which serves the faces of this program: what a command or a page prints of recipes, models, runs and the items of a
// project is the value that the package of the language, of providers, of transcripts or of the catalog makes, with dozens of fields; a copy of each here
// would be a second place for every field. Programs need none of them: what they hand to a host, and what they get back to decide, is public.
var hidden = []string{
	"host.Distilled.Cut: distil.Cut",
	"host.Distilled.Loose: distil.Reason",
	"host.Item: catalog.Item",
	"host.Item.Judgements: recipe.Judgement",
	"host.Judgements: recipe.Judgement",
	"host.LintText: recipe.Problems",
	"host.List: recipe.Problems",
	"host.ModelList.Providers: providers.Found",
	"host.ModelList.Use: providers.Choice",
	"host.Plan.Judgements: recipe.Judgement",
	"host.Problems: recipe.Problems",
	"host.Recipe: recipe.Recipe",
	"host.RecipeError.Problems: recipe.Problems",
	"host.Report.Problems: recipe.Problems",
	"host.RunItem.Cost: transcript.Cost",
	"host.Transcript: transcript.Run",
	"tool/builtin.Docs: docindex.Index", // programs only open it, hand it to SearchDocs and close it
}

// A reader of a public package cannot look up what lies in an internal one: `go doc` shows neither its fields nor its methods.
func TestPublicTypes(t *testing.T) {
	t.Parallel()
	found := load(t).internalNames()
	for name, where := range found {
		if !slices.Contains(hidden, name) {
			t.Errorf("%s: %s: readers of the package cannot look that up; declare it there, with its fields", where, name)
		}
	}
	for _, name := range hidden {
		if found[name] == "" {
			t.Errorf("%s is gone: take it off the list", name)
		}
	}
}

func TestPublicTypesRuleBites(t *testing.T) {
	t.Parallel()
	m := &tree{packages: map[string]*pkg{}, fset: token.NewFileSet()}
	for name, src := range map[string]string{
		"tool/a.go": `package tool
import (
	"` + module + `/internal/clean"
	in "` + module + `/internal/cover"
)
type (
	A = clean.A
	B struct { X, y []clean.B; z in.B; in.E }
	C interface { M(map[string]*in.C); n(clean.C) }
	D[T clean.T] struct{ d clean.D }
	e struct { X clean.A }
)
func F(a int, f func(clean.F) error) { clean.Text("a") }
func (D[T]) M() (out in.M) { return out }
func (e) M(clean.A) {}
func f(clean.A) {}
var V, w = clean.V, clean.Make()
var W clean.W
var ok error = clean.Err
const K, L string = clean.K, "l"
const N = in.N
`,
		"internal/manual/a.go":  `package manual; import "` + module + `/internal/clean"; type A = clean.A`,
		"cmd/superstep/main.go": `package main; import "` + module + `/internal/clean"; type A = clean.A`,
	} {
		if err := m.add(name, []byte(src)); err != nil {
			t.Fatal(err)
		}
	}
	got := slices.Sorted(maps.Keys(m.internalNames()))
	want := []string{"A: clean.A", "B.X: clean.B", "B: in.E", "C.M: in.C", "D: clean.T", "F: clean.F", "M: in.M", "N: in.N", "V: clean.V", "W: clean.W"}
	for i := range want {
		want[i] = "tool." + want[i]
	}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// elsewhere lists the packages whose example needs more than go test gives one, with what runs it. It only gets shorter.
var elsewhere = map[string]string{
	"graph/graphtest": "it is part of a test, as those of examples/patterns are",
	"runlog/postgres": "it needs a server, with which the tests of the package run what it does",
	"runlog/redis":    "it needs a server, with which TestExample runs it",
}

// Every public package has an example that runs, as docs/packages.md says.
func TestPublicExamples(t *testing.T) {
	t.Parallel()
	for _, p := range load(t).sorted() {
		if len(p.files) == 0 || p.files[0].Name.Name == "main" || strings.Contains("/"+p.dir+"/", "/internal/") || matches("examples/...", p.dir) {
			continue
		}
		switch _, listed := elsewhere[p.dir]; {
		case listed && p.shown():
			t.Errorf("%s has an example that runs: take it off the list", p.dir)
		case !listed && !p.shown():
			t.Errorf("%s has no example with an output: add one, in %s/example_test.go", p.dir, p.dir)
		}
	}
}

func TestPublicExamplesRuleBites(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]bool{
		"package tool_test\n\nfunc Example() {\n\tprint()\n\t// Output: a\n}\n": true,
		"package tool_test\n\nfunc ExampleA() {\n\t// Output:\n}\n":             true,
		"package tool_test\n\nfunc ExampleA() {\n\tprint()\n}\n":                false,
		"package tool_test\n\nfunc TestA() {\n\t// Output: a\n}\n":              false,
	} {
		m := &tree{packages: map[string]*pkg{}, fset: token.NewFileSet()}
		if err := m.add("tool/a_test.go", []byte(src)); err != nil {
			t.Fatal(err)
		}
		if got := m.packages["tool"].shown(); got != want {
			t.Errorf("%s: %v", src, got)
		}
	}
}

// shown reports whether a package has an example that go test runs.
func (p *pkg) shown() bool {
	for _, f := range slices.Concat(p.tests, p.outside) {
		if slices.ContainsFunc(doc.Examples(f.File), func(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput }) {
			return true
		}
	}
	return false
}

// internalNames returns the exported declarations of public packages that name something of an internal package, with it, and where that is.
func (m *tree) internalNames() map[string]string {
	found := map[string]string{}
	for _, p := range m.sorted() {
		if strings.Contains("/"+p.dir+"/", "/internal/") || matches("examples/...", p.dir) {
			continue
		}
		for _, f := range p.files {
			if f.Name.Name == "main" {
				continue
			}
			inside := map[string]bool{} // the names of imported internal packages
			for _, s := range f.Imports {
				if dir := strings.Trim(s.Path.Value, `"`); strings.Contains("/"+dir+"/", "/internal/") {
					name := dir[strings.LastIndex(dir, "/")+1:]
					if s.Name != nil {
						name = s.Name.Name
					}
					inside[name] = true
				}
			}
			for name, parts := range declared(f.File) {
				for _, part := range parts {
					ast.Inspect(part, func(n ast.Node) bool {
						if x, ok := n.(*ast.SelectorExpr); ok {
							if id, ok := x.X.(*ast.Ident); ok && inside[id.Name] {
								found[p.dir+"."+name+": "+id.Name+"."+x.Sel.Name] = m.fset.Position(x.Pos()).String()
							}
						}
						return true
					})
				}
			}
		}
	}
	return found
}

// declared returns what each exported declaration of a file shows to its readers: types, the values of constants, and no bodies.
func declared(f *ast.File) map[string][]ast.Node {
	found := map[string][]ast.Node{}
	show := func(name string, n ast.Node) {
		if f, ok := n.(*ast.FieldList); n != nil && (!ok || f != nil) {
			found[name] = append(found[name], n)
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
				show(d.Name.Name, d.Type)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						show(s.Name.Name, s.TypeParams)
						visible(s.Name.Name, s.Type, show)
					}
				case *ast.ValueSpec:
					if !slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
						continue
					}
					if s.Type != nil {
						show(s.Names[0].Name, s.Type)
						continue
					}
					for _, v := range s.Values {
						if _, made := v.(*ast.SelectorExpr); made || d.Tok == token.CONST {
							show(s.Names[0].Name, v)
						}
					}
				}
			}
		}
	}
	return found
}

// visible shows of a type what its readers see: of a struct the exported fields, and of an interface the exported methods.
func visible(name string, x ast.Expr, show func(string, ast.Node)) {
	var fields *ast.FieldList
	switch x := x.(type) {
	case *ast.StructType:
		fields = x.Fields
	case *ast.InterfaceType:
		fields = x.Methods
	default:
		show(name, x)
		return
	}
	for _, f := range fields.List {
		if len(f.Names) == 0 {
			show(name, f.Type) // embedded
		}
		for _, id := range f.Names {
			if id.IsExported() {
				visible(name+"."+id.Name, f.Type, show)
			}
		}
	}
}

// receiver returns the name of the type that a method belongs to.
func receiver(d *ast.FuncDecl) string {
	x := d.Recv.List[0].Type
	for {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.IndexListExpr:
			x = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}
