// Package docs tests what the documentation shows: its Go code compiles, and the
// commands in it exist.
package docs

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

const module = "github.com/superstep-dev/superstep"

var (
	fence  = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	quoted = regexp.MustCompile(`"[^"]*"`)
	word   = regexp.MustCompile(`^[a-z-]+$`)
)

// blocks returns the code of a language in a file of the module's root.
func blocks(t *testing.T, file string, languages ...string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		for _, l := range languages {
			if m[1] == l {
				found = append(found, m[2])
			}
		}
	}
	return found
}

// frame is what the blocks of Go in the README take for granted.
const frame = `package p

import (
	"context"

	"` + module + `/graph"
	"` + module + `/runlog"
	"` + module + `/runlog/sqlite"
)

type State struct{ Topic string }

type Update struct{}

var (
	reduce func(State, Update) State
	search func(context.Context, State) (Update, error)
	write  func(context.Context, State) (Update, error)
	enough func(State) string
	_      = sqlite.Open
	_      *runlog.Journal
	_      graph.RunOptions
)

func _(ctx context.Context) {
%s
}
`

func TestGoInReadme(t *testing.T) {
	t.Parallel()
	exports := exported(t, module+"/graph", module+"/runlog", module+"/runlog/sqlite")
	code := blocks(t, "README.md", "go")
	if len(code) == 0 {
		t.Fatal("there is none")
	}
	all := strings.Join(code, "") // each goes on from the one before
	for _, err := range check(all, exports) {
		t.Errorf("%v in\n%s", err, all)
	}
	if errs := check(all+"flow.Walk(ctx)", exports); len(errs) != 1 {
		t.Errorf("a call of what there is not gives %v", errs)
	}
}

// What the page about graphs shows is in the example, word for word, and so it compiles and is tested.
func TestGoInGraphs(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile(filepath.Join("..", "..", "examples", "review", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	code := blocks(t, "docs/graphs.md", "go")
	if len(code) < 5 {
		t.Fatalf("there are %d blocks", len(code))
	}
	for _, block := range code {
		if !bytes.Contains(example, []byte(block)) {
			t.Errorf("this is not in examples/review:\n%s", block)
		}
	}
}

// exported finds the compiled packages and all that they import.
func exported(t *testing.T, packages ...string) map[string]string {
	t.Helper()
	list := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"}, packages...)...)
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		exports[name] = file
	}
	return exports
}

// check type-checks a block within the frame. That something is not used is no error.
func check(block string, exports map[string]string) (errs []error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "README.go", fmt.Sprintf(frame, block), 0)
	if err != nil {
		return []error{err}
	}
	conf := &types.Config{
		Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }),
		Error: func(err error) {
			if e := (types.Error{}); !errors.As(err, &e) || !e.Soft {
				errs = append(errs, err)
			}
		},
	}
	_, _ = conf.Check("p", fset, []*ast.File{f}, nil) // Error has heard of them
	return errs
}

func TestCommandsInDocumentation(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "superstep")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	if out, err := exec.Command("go", "build", "-o", binary, module+"/cmd/superstep").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	commands := 0
	for _, file := range []string{"README.md", "CONTRIBUTING.md", "docs/agents.md", "docs/models.md", "docs/recipes.md"} {
		for _, block := range blocks(t, file, "console", "sh") {
			for line := range strings.Lines(block) {
				line, ok := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(line), "$ "), "superstep ")
				if !ok {
					if line, ok = strings.CutPrefix(line, "go run ./cmd/superstep "); !ok {
						continue
					}
				}
				commands++
				if err := help(binary, line); err != nil {
					t.Errorf("%s: superstep %s: %v", file, line, err)
				}
			}
		}
	}
	if commands == 0 {
		t.Error("there are none")
	}
	for _, line := range []string{"walk research", "runs walk", "runs list --walk"} {
		if help(binary, line) == nil {
			t.Errorf("superstep %s passes for a command", line)
		}
	}
}

// help asks for the help of a command line, and so for all of its words.
func help(binary, line string) error {
	line, _, _ = strings.Cut(quoted.ReplaceAllString(line, "X"), " #")
	args := strings.Fields(line)
	out, err := exec.Command(binary, append(args, "--help")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	_, usage, _ := strings.Cut(string(out), "\nUsage:\n  superstep")
	usage, _, _ = strings.Cut(usage, "\nFlags:")
	known := strings.Fields(usage)
	for i, a := range args {
		if !word.MatchString(a) || strings.HasPrefix(a, "-") {
			break
		}
		if i < len(known) && known[i] == a {
			continue
		}
		if strings.Contains(usage, " COMMAND") { // of which it is none
			return fmt.Errorf("its help does not know %q:\n%s", a, out)
		}
		break // an argument
	}
	return nil
}
