package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const threatsPage = "docs/threats.md"

// A proof is a test that the table of threats names, as DIR.TestName or DIR.TestName/case.
var proof = regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)[A-Z]\\w*)(?:/([^`]+))?`")

// exists reports whether a test, and its case if it has one, are in the tree: a script, a text in the tests of the package or
// in the suite of stores, or a bypass.
func exists(dir, name, part string) bool {
	root := filepath.Join("..", "..", filepath.FromSlash(dir))
	files, err := filepath.Glob(filepath.Join(root, "*_test.go"))
	if err != nil {
		return false
	}
	found := slices.ContainsFunc(files, func(file string) bool {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		return err == nil && slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
			fn, ok := d.(*ast.FuncDecl)
			return ok && fn.Recv == nil && fn.Name.Name == name
		})
	})
	if !found || part == "" {
		return found
	}
	if _, err := os.Stat(filepath.Join(root, "testdata", "script", part+".txtar")); err == nil {
		return true
	}
	bypasses, _ := filepath.Glob(filepath.Join(root, "testdata", "*.sh"))
	suite, _ := filepath.Glob(filepath.Join("..", "..", "runlog", "runlogtest", "*.go"))
	return slices.ContainsFunc(slices.Concat(files, bypasses, suite), func(file string) bool {
		b, err := os.ReadFile(file)
		return err == nil && (strings.Contains(string(b), strconv.Quote(part)) || strings.HasSuffix(file, ".sh") && regexp.MustCompile("(?m)^=== "+regexp.QuoteMeta(part)+"( |$)").Match(b))
	})
}

// Each threat names tests that exist, or says that there is nothing to test.
func TestThreats(t *testing.T) {
	t.Parallel()
	_, table, ok := strings.Cut(pageOf(t, threatsPage), "\n## Threats\n")
	if !ok {
		t.Fatal("there is no such section")
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) \|.*\| ([^|]+) \|$`).FindAllStringSubmatch(table, -1)
	if len(rows) != 30 {
		t.Errorf("%d threats, want 30", len(rows))
	}
	for i, row := range rows {
		if row[1] != strconv.Itoa(i+1) {
			t.Errorf("row %d is threat %s", i+1, row[1])
		}
		tests := proof.FindAllStringSubmatch(row[2], -1)
		if rest := strings.Trim(proof.ReplaceAllString(row[2], ""), ", "); rest != "" && (len(tests) > 0 || rest != "not protected" && rest != "surface does not exist yet") || rest == "" && len(tests) == 0 {
			t.Errorf("threat %s: %q is neither a test nor the word that there is none", row[1], rest)
		}
		for _, p := range tests {
			if !exists(p[1], p[2], p[3]) {
				t.Errorf("threat %s: there is no test %s", row[1], p[0])
			}
		}
	}
	for _, gone := range [][3]string{{"tool/permit", "TestGone", ""}, {"cli", "TestScripts", "no such script"}, {"runlog/file", "TestStore", "no such case"}, {"tool/sandbox", "TestBypasses", "no-such-bypass"}} {
		if exists(gone[0], gone[1], gone[2]) {
			t.Errorf("%v passes for a test", gone)
		}
	}
}
