// Package docs_test tests what the documentation shows: its Go code compiles, and the
// commands in it exist.
package docs_test

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
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/faults"
)

const module = "github.com/superstep-dev/superstep"

var (
	fence  = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	quoted = regexp.MustCompile(`"[^"]*"`)
	word   = regexp.MustCompile(`^[a-z-]+$`)
	values = regexp.MustCompile(`"[^"]*"|'[^']*'| (@|[a-z]*=|\d)\S*| +#.*| +`)
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
	"` + module + `/journal"
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
	_      *journal.Journal
	_      runlog.NewRun
	_      graph.RunOptions
)

func _(ctx context.Context) {
%s
}
`

func TestGoInReadme(t *testing.T) {
	t.Parallel()
	exports := exported(t, module+"/graph", module+"/journal", module+"/runlog", module+"/runlog/sqlite")
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

// What pages show is in a program that is compiled and tested, word for word.
func TestGoInPages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		page  string
		least int
		from  []string
	}{
		{"docs/graphs.md", 13, []string{"examples/first/first_test.go", "examples/patterns/swarm.go", "examples/review/main.go", "examples/review/main_test.go", "graph/example_input_test.go", "graph/node/example_test.go", "workflow/example_test.go", "agent/typed_test.go"}},
		{"docs/atomic.md", 1, []string{"graph/node/atomic_example_test.go"}},
		{"docs/cookbook.md", 1, []string{"examples/first/first_test.go"}},
		{"docs/agents.md", 3, []string{"agent/team/example_test.go", "hook/example_test.go"}},
	} {
		var all []byte
		for _, file := range c.from {
			b, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, b...)
		}
		code := blocks(t, c.page, "go")
		if len(code) < c.least {
			t.Errorf("%s: there are %d blocks", c.page, len(code))
		}
		for _, block := range code {
			if !bytes.Contains(all, []byte(block)) {
				t.Errorf("%s: this is not in %s:\n%s", c.page, strings.Join(c.from, ", "), block)
			}
		}
	}
}

// exported finds the compiled packages and all that they import. The result of the test is kept until one of their files changes.
func exported(t *testing.T, packages ...string) map[string]string {
	t.Helper()
	const format = `{{if not .Standard}}{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}} {{end}}{{end}}={{.ImportPath}}={{.Export}}`
	list := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", format}, packages...)...)
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		parts := strings.Split(strings.TrimSpace(line), "=")
		for _, source := range strings.Fields(parts[0]) {
			if _, err := os.Stat(source); err != nil { // the go command notes it
				t.Fatal(err)
			}
		}
		exports[parts[1]] = parts[2]
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
	faults.Unraced(t)
	dir := filepath.Dir(faults.Command(t))
	binary := filepath.Join(dir, "superstep")
	commands, asked := 0, map[string]bool{}
	for _, file := range append(pages(t), "../../CONTRIBUTING.md") {
		file = strings.TrimPrefix(filepath.ToSlash(file), "../../")
		for _, block := range blocks(t, file, "console", "sh", "ini", "dockerfile") {
			for line := range strings.Lines(block) {
				line = strings.TrimPrefix(strings.TrimPrefix(line, "ExecStart=/usr/local/bin/"), "CMD exec ") // of a unit, of a container
				line, ok := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(line), "$ "), "superstep ")
				if !ok {
					if line, ok = strings.CutPrefix(line, "go run ./cmd/superstep "); !ok {
						continue
					}
				}
				commands++
				key := values.ReplaceAllString(line, " ") // what it calls, with its flags
				if asked[key] {
					continue
				}
				asked[key] = true
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
	line, _, _ = strings.Cut(line, " -- ") // what is behind is another command
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
		takes := i < len(known) && strings.HasPrefix(known[i], "[") && known[i] != "[flags]"
		if strings.Contains(usage, " COMMAND") && !takes { // of which it is none
			return fmt.Errorf("its help does not know %q:\n%s", a, out)
		}
		break // an argument
	}
	return nil
}
