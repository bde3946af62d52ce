package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What docs/how-it-works.md names is there: files, packages, and every kind of record.
func TestHowItWorks(t *testing.T) {
	t.Parallel()
	text := pageOf(t, "docs/how-it-works.md")
	root := filepath.Join("..", "..")
	for _, m := range regexp.MustCompile("`([a-z][a-z/]*(?:\\.go)?)`").FindAllStringSubmatch(text, -1) {
		if name := m[1]; strings.Contains(name, "/") || strings.HasSuffix(name, ".go") {
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
				t.Errorf("there is no %s", name)
			}
		}
	}
	for _, m := range regexp.MustCompile("`([a-z]+)\\.([A-Z]\\w*)`").FindAllStringSubmatch(text, -1) {
		dir := m[1]
		switch dir {
		case "superstep":
			dir = "."
		case "pregel":
			dir = "internal/pregel"
		}
		if !slices.Contains(exportedOf(t, filepath.Join(root, dir)), m[2]) {
			t.Errorf("there is no %s.%s", m[1], m[2])
		}
	}
	_, table, _ := strings.Cut(text, "\n## Record kinds\n")
	table, _, _ = strings.Cut(table, "\n## ")
	told := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(table, -1) {
		for _, m := range regexp.MustCompile("`([a-z.]+)`").FindAllStringSubmatch(row[1], -1) {
			told[m[1]] = true
		}
	}
	kinds := recordKinds(t, filepath.Join(root, "runlog"))
	maps.Copy(kinds, recordKinds(t, filepath.Join(root, "internal", "carry")))
	maps.Copy(kinds, recordKinds(t, filepath.Join(root, "internal", "unlisted")))
	if !maps.Equal(told, kinds) {
		t.Errorf("the page has the kinds %v, runlog has %v", slices.Sorted(maps.Keys(told)), slices.Sorted(maps.Keys(kinds)))
	}
}

// declarations calls see with each top-level declaration of a package beside its tests.
func declarations(t *testing.T, dir string, see func(ast.Decl)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no package: %v", dir, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			see(d)
		}
	}
}

func exportedOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	declarations(t, dir, func(d ast.Decl) {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names = append(names, n.Name)
					}
				}
			}
		}
	})
	return names
}

// recordKinds are the values of the constants of type Kind.
func recordKinds(t *testing.T, dir string) map[string]bool {
	t.Helper()
	kinds := map[string]bool{}
	declarations(t, dir, func(d ast.Decl) {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			return
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			name := ""
			switch kind := v.Type.(type) {
			case *ast.Ident:
				name = kind.Name
			case *ast.SelectorExpr:
				name = kind.Sel.Name
			}
			if name != "Kind" || len(v.Values) != 1 {
				continue
			}
			if lit, ok := v.Values[0].(*ast.BasicLit); ok {
				name, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				kinds[name] = true
			}
		}
	})
	return kinds
}
