package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/recipe"
)

func (a *app) initCommand() *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Write a first recipe into this folder", Args: a.none,
		Long: `Write a first recipe into this folder

It answers a question from the documents of the folder, also with the model offline, which needs no key and no network.
A folder without documents gets one to quote. Nothing that is there already is changed.`,
		Example: examples(a.cfg.Name, "init", ""),
		RunE:    func(*cobra.Command, []string) error { return a.initialize() },
	}
}

const helloRecipe = `name: hello
description: Answers a question from the documents of this folder, with quotes and where they stand.

# Each of these is an option of the command: run hello --question "How is it built?"
inputs:
  - name: question
    description: What you want to know
    default: What is this project, and how is it used?

# Steps that wait for nothing run side by side.
steps:
  - id: documents
    tool: glob
    args:
      pattern: "**/*.{md,txt,rst}"

  - id: answer
    subagent: explorer
    prompt: |
      {{inputs.question}}

      Search the documents of this folder. Quote the sentences that answer the question, each with its file and line.

output: |
  {{steps.answer.output}}

  Documents here:
  {{steps.documents.output}}
`

const helloDocument = `# Hello

This project is a place to try recipes in. A recipe is a workflow of agents in one YAML file: it says who does
what, and what waits for what.

## How it is used

Run the recipe with a question, and it is answered from the documents of this folder, each quote with its file and
line. The model offline needs no key and no network: it finds sentences and quotes them, and writes none of its own.

A run survives a crash: it is taken up where it was, and nothing that was done is done again.
`

// initialize writes what a folder needs to begin with.
func (a *app) initialize() error {
	here, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	name := "hello"
	for slices.Contains(a.host().Taken(), name) {
		name += "-recipe"
	}
	w := &starting{dir: here}
	w.expect(".superstep/workflows/"+name+".yaml", "the recipe")
	w.expect(".superstep/schema/workflow.json", "by which editors complete and check recipes")
	var there *host.ExistsError
	if _, err := a.host().AddRecipe(here, []byte(recipe.Renamed(helloRecipe, "hello", name)), false); err != nil && !errors.As(err, &there) {
		return w.unwritable(err)
	}
	if err := w.document(); err != nil {
		return w.unwritable(err)
	}
	if a.programs() {
		return a.out.value(w.files)
	}
	a.out.line(w.tree())
	if there != nil {
		a.err.line("  Look   " + a.hint("workflows", "list"))
		return nil
	}
	a.err.line("  Next   " + a.hint("run", name, "--model", "offline"))
	return nil
}

// starting is what a folder gets.
type starting struct {
	dir   string
	files []startingFile
}

type startingFile struct {
	Path    string `json:"path"` // relative to the folder
	What    string `json:"what"`
	Written bool   `json:"written"` // it was not there before
}

// expect notes a file that is about to be written unless it is there.
func (w *starting) expect(name, what string) {
	_, err := os.Lstat(filepath.Join(w.dir, filepath.FromSlash(name)))
	w.files = append(w.files, startingFile{name, what, errors.Is(err, fs.ErrNotExist)})
}

// unwritable names the folder in an error of the system.
func (w *starting) unwritable(err error) error {
	var path *fs.PathError
	if !errors.As(err, &path) {
		return err
	}
	return &Error{Exit: ExitFailed, Code: "init", Err: err, Message: fmt.Sprintf("cannot write %s in %s: %v; run init in a folder that you can write",
		path.Path, w.dir, path.Err)}
}

// hasDocuments reports whether there is anything in a folder to quote from.
func hasDocuments(dir string) bool {
	errFound, n := errors.New("found"), 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		n++
		switch {
		case err != nil:
			return nil //nolint:nilerr // what cannot be read is no document
		case d.IsDir() && path != dir && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return fs.SkipDir
		case !d.IsDir() && slices.Contains([]string{".md", ".txt", ".rst"}, strings.ToLower(filepath.Ext(path))), n > 20_000:
			return errFound
		}
		return nil
	})
	return errors.Is(err, errFound)
}

// document writes one to quote from if the folder has none.
func (w *starting) document() error {
	if hasDocuments(w.dir) {
		return nil
	}
	const name = "docs/hello.md"
	w.expect(name, "a document to quote, since there was none")
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll("docs", 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(helloDocument)
	return errors.Join(err, f.Close())
}

// tree shows the files, each with what it is for.
func (w *starting) tree() string {
	var b strings.Builder
	b.WriteString(w.dir)
	var open []string
	for _, f := range slices.SortedFunc(slices.Values(w.files), func(x, y startingFile) int { return strings.Compare(x.Path, y.Path) }) {
		parts := strings.Split(f.Path, "/")
		for i, part := range parts {
			if i < len(open) && i < len(parts)-1 && open[i] == part {
				continue
			}
			open = parts[:i+1]
			line := "\n" + strings.Repeat("  ", i+1) + part
			if i == len(parts)-1 {
				line += "   " + f.What
				if !f.Written {
					line += " (was there, and was left as it is)"
				}
			} else {
				line += "/"
			}
			b.WriteString(line)
		}
	}
	return b.String()
}
