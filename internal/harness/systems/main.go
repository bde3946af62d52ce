// Command systems checks that modules, tests included, compile for systems that nobody here has: it checks the types of
// all packages from their source, without compiling them, which takes a seventh of the time. Of what a module imports only the declarations count.
//
//	systems -for darwin/arm64,linux/386 DIR...
//
// It prints what is wrong, and then ends with status 1.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
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
		system, machine, _ := strings.Cut(target, "/")
		for _, dir := range flag.Args() {
			found, err := packages.Load(&packages.Config{
				Mode: everything, Tests: true, Dir: dir,
				Env:       append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+machine),
				ParseFile: declarations(dir),
			}, "./...")
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s: %s: %v\n", target, dir, err)
				os.Exit(1)
			}
			fmt.Printf("%s: %s: %d packages\n", target, dir, len(found))
			packages.Visit(found, nil, func(p *packages.Package) {
				if p.Module == nil && len(p.GoFiles) > 0 || p.Module != nil && !p.Module.Main { // without bodies it has unused imports
					return
				}
				for _, err := range p.Errors {
					fmt.Fprintln(os.Stderr, err)
					wrong++
				}
			})
		}
	}
	if wrong > 0 {
		os.Exit(1)
	}
}

// declarations returns what parses files: those outside a module's folder without the bodies of their functions.
func declarations(dir string) func(*token.FileSet, string, []byte) (*ast.File, error) {
	dir, err := filepath.Abs(dir)
	return func(set *token.FileSet, name string, src []byte) (*ast.File, error) {
		f, err2 := parser.ParseFile(set, name, src, parser.SkipObjectResolution|parser.ParseComments)
		if f != nil && err == nil && !strings.HasPrefix(name, dir+string(filepath.Separator)) && !strings.Contains(name, "go-build") {
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok {
					d.Body = nil
				}
			}
		}
		return f, err2
	}
}
