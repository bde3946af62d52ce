// Command systems checks that modules, tests included, compile for systems that nobody here has: it checks the types of
// all packages from their source, without compiling them, which takes a seventh of the time. Of what a module imports only the declarations count.
//
//	systems -for darwin/arm64,linux/386 DIR...
//
// It prints what is wrong, and then ends with status 1.
package main

import (
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

const everything = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
	packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedModule

func main() {
	targets := flag.String("for", "darwin/arm64,windows/amd64,linux/arm64,linux/386", "the systems, each as GOOS/GOARCH")
	flag.Parse()
	wrong := 0
	for _, target := range strings.Split(*targets, ",") {
		for _, dir := range flag.Args() {
			n, mistakes, err := check(target, dir)
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s: %s: %v\n", target, dir, err)
				os.Exit(1)
			}
			fmt.Printf("%s: %s: %d packages\n", target, dir, n)
			for _, m := range mistakes {
				fmt.Fprintln(os.Stderr, m)
				wrong++
			}
		}
	}
	if wrong > 0 {
		os.Exit(1)
	}
}

// check checks the module in a folder for a system. It returns the number of its packages and what is wrong in them.
func check(target, dir string) (n int, mistakes []error, err error) {
	own, err := written(dir)
	if err != nil {
		return 0, nil, err
	}
	system, machine, _ := strings.Cut(target, "/")
	found, err := packages.Load(&packages.Config{
		Mode: everything, Tests: true, Dir: dir,
		Env:       append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+machine),
		ParseFile: declarations(own),
	}, "./...")
	packages.Visit(found, nil, func(p *packages.Package) {
		if p.Module == nil && len(p.GoFiles) > 0 || p.Module != nil && !p.Module.Main { // without bodies it has unused imports
			return
		}
		for _, err := range p.Errors {
			mistakes = append(mistakes, err)
		}
	})
	return len(found), mistakes, err
}

// written returns the folders whose files are read with the bodies of their functions: the module's own, and the build cache, where the go command writes
// the main packages of tests.
func written(dir string) ([]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	cache, err := exec.CommandContext(context.Background(), "go", "env", "GOCACHE").Output()
	return []string{dir + string(filepath.Separator), strings.TrimSpace(string(cache)) + string(filepath.Separator)}, err
}

// declarations returns what parses files: those outside some folders without the bodies of their functions.
func declarations(own []string) func(*token.FileSet, string, []byte) (*ast.File, error) {
	return func(set *token.FileSet, name string, src []byte) (*ast.File, error) {
		f, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution|parser.ParseComments)
		if f != nil && !slices.ContainsFunc(own, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok {
					d.Body = nil
				}
			}
		}
		return f, err
	}
}
