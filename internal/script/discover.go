package script

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/superstep-dev/superstep/internal/inside"
)

// Discover finds the tools of a folder, sorted by path, and what is wrong with others of it. It
// reads and runs nothing. A folder that does not exist holds no tools.
//
// Tools are the files NAME.ts, .tsx, .mts, .cts, .js, .mjs and .cjs, and the manifests
// NAME.tool.yaml, .tool.yml and .tool.json. Other files are not looked at, nor are folders, names
// that begin with a dot or an underscore, declarations (.d.ts) and tests (.test.ts, .spec.ts).
func Discover(dir string, scope Scope) ([]Found, []Problem) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, []Problem{{File: dir, Text: err.Error()}}
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, []Problem{{File: dir, Text: fmt.Sprintf("the folder of tools cannot be read: %v", err)}}
	}
	root, err := scope.realRoot(dir)
	if err != nil {
		return nil, []Problem{{File: dir, Text: fmt.Sprintf("the folder that tools may not leave cannot be found: %v", err)}}
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, []Problem{{File: dir, Text: err.Error()}}
	}
	if _, ok := inside.Rel(root, real); !ok {
		return nil, []Problem{{File: dir, Text: fmt.Sprintf("the folder of tools is a link to %s, outside of %s; nothing of it is used", real, root)}}
	}

	var names []string
	for _, e := range entries {
		if k, _ := kindOf(e.Name()); k != "" && !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	var problems []Problem
	if len(names) > maxFiles {
		problems = append(problems, Problem{File: dir, Text: fmt.Sprintf("holds %d tools; only the first %d are used", len(names), maxFiles)})
		names = names[:maxFiles]
	}
	found := make([]*Found, len(names))
	told := make([][]Problem, len(names))
	var readers errgroup.Group
	readers.SetLimit(min(4, runtime.GOMAXPROCS(0)))
	for i, name := range names {
		readers.Go(func() error {
			found[i], told[i] = read(root, real, name, scope)
			return nil
		})
	}
	_ = readers.Wait() // none fails
	var out []Found
	for i, f := range found {
		if f != nil {
			f.Path = filepath.Join(dir, names[i])
			out = append(out, *f)
		}
		problems = append(problems, told[i]...)
	}
	return out, problems
}

func read(root, dir, name string, scope Scope) (_ *Found, problems []Problem) {
	path := filepath.Join(dir, name)
	defer func() {
		if p := recover(); p != nil { // a bug in a parser costs one tool, not all
			problems = append(problems, Problem{File: path, Text: fmt.Sprintf("cannot be read: %v", p)})
		}
	}()
	kind, base := kindOf(name)
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, []Problem{{File: path, Text: err.Error()}}
	}
	if _, ok := inside.Rel(root, real); !ok {
		return nil, []Problem{{File: path, Text: fmt.Sprintf("is a link to %s, outside of %s", real, root)}}
	}
	if kind == Command {
		return discoverCommand(root, path, base, scope)
	}
	if text := nameProblem(base, nil); text != "" {
		return nil, []Problem{{File: path, Text: text + ": rename the file"}}
	}
	b, problems := bundleModule(root, real, path)
	if b == nil {
		return nil, problems
	}
	f := &Found{Kind: Module, Scope: scope, Digest: b.digest, Files: b.files, Open: b.open, Env: b.env, Needs: b.needs, root: root, bundle: b}
	for _, export := range b.exports {
		f.Names = append(f.Names, toolName(base, export))
	}
	return f, problems
}

// kindOf returns which kind of tool a file name stands for, "" if none, and its name without ending.
func kindOf(name string) (kind Kind, base string) {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return "", ""
	}
	for _, end := range []string{".tool.yaml", ".tool.yml", ".tool.json"} {
		if base, ok := strings.CutSuffix(name, end); ok {
			return Command, base
		}
	}
	ext := filepath.Ext(name)
	if !slices.Contains([]string{".ts", ".tsx", ".mts", ".cts", ".js", ".mjs", ".cjs"}, ext) {
		return "", ""
	}
	base = strings.TrimSuffix(name, ext)
	switch filepath.Ext(base) {
	case ".d", ".test", ".spec":
		return "", ""
	}
	return Module, base
}

// toolName returns what a tool is called: as its file if it is the default export.
func toolName(file, export string) string {
	if export == "default" {
		return file
	}
	return file + "_" + export
}

// sortProblems puts problems in the order of where they are.
func sortProblems(p []Problem) {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
