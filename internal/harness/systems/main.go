// Command systems checks that modules, tests included, compile for systems that nobody here has: it checks the types of
// all packages from their source, without compiling them, which takes a seventh of the time.
//
//	systems -for darwin/arm64,linux/386 DIR...
//
// It prints what is wrong, and then ends with status 1.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

const everything = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
	packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo

func main() {
	targets := flag.String("for", "darwin/arm64,windows/amd64,linux/arm64,linux/386", "the systems, each as GOOS/GOARCH")
	flag.Parse()
	wrong := 0
	for _, target := range strings.Split(*targets, ",") {
		system, machine, _ := strings.Cut(target, "/")
		for _, dir := range flag.Args() {
			found, err := packages.Load(&packages.Config{
				Mode: everything, Tests: true, Dir: dir,
				Env: append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+machine),
			}, "./...")
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s: %s: %v\n", target, dir, err)
				os.Exit(1)
			}
			fmt.Printf("%s: %s: %d packages\n", target, dir, len(found))
			wrong += packages.PrintErrors(found)
		}
	}
	if wrong > 0 {
		os.Exit(1)
	}
}
