package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/recipe"
)

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

This project is a place to try recipes in. A recipe is a workflow of
agents in one YAML file: it says who does what, and what waits for what.

## How it is used

Run the recipe with a question, and it is answered from the documents of
this folder, each quote with its file and line. The model offline needs no
key and no network: it finds sentences and quotes them, and writes none of
its own.

A run survives a crash: it resumes where it stopped, and no finished work
is repeated.
`

// First describes the starting files of a folder.
type First struct {
	Recipe string      // its name
	There  bool        // the recipe was there before
	Dir    string      // the folder
	Files  []FirstFile // in it
}

// A FirstFile is one of the starting files of a folder.
type FirstFile struct {
	Path    string `json:"path"` // relative to the folder
	What    string `json:"what"`
	Written bool   `json:"written"` // it was not there before
}

// WriteFirst writes a first recipe into a folder, and a document if the folder has no document. It does not change
// existing files.
func (h *Host) WriteFirst(dir string) (*First, error) {
	w := &First{Recipe: "hello", Dir: dir}
	for slices.Contains(h.Taken(), w.Recipe) {
		w.Recipe += "-recipe"
	}
	w.expect(".superstep/workflows/"+w.Recipe+".yaml", "the recipe")
	w.expect(".superstep/schema/workflow.json", "by which editors complete and check recipes")
	_, err := h.AddRecipe(dir, []byte(recipe.Renamed(helloRecipe, "hello", w.Recipe)), false)
	if w.There = errors.As(err, new(*ExistsError)); w.There || err == nil {
		err = w.document()
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return nil, &Error{Code: "init", Err: err, Message: fmt.Sprintf("cannot write %s in %s: %v; run init in a folder that you can write",
			path.Path, dir, path.Err)}
	}
	return w, err
}

// expect adds a file to the list of files to write, unless the file exists.
func (w *First) expect(name, what string) {
	_, err := os.Lstat(filepath.Join(w.Dir, filepath.FromSlash(name)))
	w.Files = append(w.Files, FirstFile{name, what, errors.Is(err, fs.ErrNotExist)})
}

// HasDocuments reports whether a folder has documents to quote from.
func HasDocuments(dir string) bool {
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

// document writes a document to quote from if the folder has no document.
func (w *First) document() error {
	if HasDocuments(w.Dir) {
		return nil
	}
	const name = "docs/hello.md"
	w.expect(name, "a document to quote, since there was none")
	root, err := os.OpenRoot(w.Dir)
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
