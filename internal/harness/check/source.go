package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"
)

// sources calls a function for each file of Go in the module of a folder, without test data and modules of their own.
func sources(root string, each func(dir string, f *ast.File, test bool)) error {
	set := token.NewFileSet()
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			rel, err := filepath.Rel(root, path)
			if d.Name() == "testdata" || path != root && d.Name()[0] == '.' || slices.Contains(apart(), filepath.ToSlash(rel)) {
				return filepath.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		each("./"+filepath.ToSlash(rel), f, strings.HasSuffix(path, "_test.go"))
		return err
	})
}

// concurrent returns the packages that start goroutines or are made for them, in their code or in their tests: they have a go statement, a channel, a call of
// Go or AfterFunc, or something of sync.
func concurrent(root string) (dirs []string, err error) {
	err = sources(root, func(dir string, f *ast.File, _ bool) {
		found := slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"sync"` || i.Path.Value == `"sync/atomic"` })
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.ChanType:
				found = true
			case *ast.CallExpr:
				found = found || calls(n, "", "Go") || calls(n, "", "AfterFunc")
			}
			return !found
		})
		if found && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	})
	slices.Sort(dirs)
	return dirs, err
}

// calls reports whether a node is a call of a method or function of a package; of any package if pkg is "".
func calls(n ast.Node, pkg, name string) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return pkg == "" || ok && x.Name == pkg
}

// reaching returns, by package, the tests, fuzz targets and examples that do something of which hit knows the form: themselves or in a function of the
// tests of their package that they name.
func reaching(root string, hit func(ast.Node) bool) (map[string][]string, error) {
	hits := map[string]map[string]bool{}             // the functions, by package
	names := map[string]map[string]map[string]bool{} // what functions name
	err := sources(root, func(dir string, f *ast.File, test bool) {
		if !test {
			return
		}
		if hits[dir] == nil {
			hits[dir], names[dir] = map[string]bool{}, map[string]map[string]bool{}
		}
		for at, n := range declared(f) {
			ast.Inspect(n, func(n ast.Node) bool {
				if n != nil && hit(n) {
					hits[dir][at] = true
				}
				if id, ok := n.(*ast.Ident); ok {
					if names[dir][id.Name] == nil {
						names[dir][id.Name] = map[string]bool{}
					}
					names[dir][id.Name][at] = true
				}
				return true
			})
		}
	})
	found := map[string][]string{}
	for dir, hit := range hits {
		for _, name := range reach(hit, names[dir]) {
			if isTest(name) {
				found[dir] = append(found[dir], name)
			}
		}
	}
	return found, err
}

// declared yields the functions and variables of a file with their names.
func declared(f *ast.File) iter.Seq2[string, ast.Node] {
	return func(yield func(string, ast.Node) bool) {
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && !yield(d.Name.Name, d) {
				return
			}
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				v, ok := s.(*ast.ValueSpec)
				if !ok {
					continue
				}
				for _, name := range v.Names {
					if !yield(name.Name, v) {
						return
					}
				}
			}
		}
	}
}

// reach returns the names in hit and those that reach them through names of functions that are no tests.
func reach(hit map[string]bool, namedIn map[string]map[string]bool) []string {
	var todo, all []string
	for name := range hit {
		todo = append(todo, name)
	}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		all = append(all, name)
		if isTest(name) {
			continue
		}
		for by := range namedIn[name] {
			if !hit[by] {
				hit[by] = true
				todo = append(todo, by)
			}
		}
	}
	slices.Sort(all)
	return all
}

// isTest reports whether go test calls a function of that name.
func isTest(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example")
}

// skipsShort reports whether a statement skips the test when -short is set.
func skipsShort(n ast.Node) bool {
	s, ok := n.(*ast.IfStmt)
	if !ok {
		return false
	}
	short, skip := false, false
	ast.Inspect(s.Cond, func(n ast.Node) bool { short = short || n != nil && calls(n, "testing", "Short"); return true })
	ast.Inspect(s.Body, func(n ast.Node) bool {
		skip = skip || n != nil && (calls(n, "", "Skip") || calls(n, "", "Skipf"))
		return true
	})
	return short && skip
}
