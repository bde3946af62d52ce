package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/evaluate"
	"github.com/superstep-dev/superstep/internal/inside"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// exportCase makes a case of a run, and adds it to a file with cases if one is named.
func (a *app) exportCase(ctx context.Context, info *runlog.Info, file string) error {
	if !info.Status.Ended() || info.Status == runlog.Cancelled {
		return usage(fmt.Sprintf("run %s is %s, and a case is made of a completed run", info.ID, info.Status))
	}
	run, err := a.host().Transcript(ctx, info)
	if err != nil {
		return err
	}
	redact := a.host().Redactor()
	r := &evaluate.Recorded{Run: info.ID, Title: info.Title, Workflow: info.Workflow, Output: redact.JSON(run.Output)}
	if err := json.Unmarshal(redact.JSON(run.Inputs), &r.Inputs); err != nil {
		return fmt.Errorf("the inputs of run %s: %w", info.ID, err)
	}
	if w, err := a.host().Find(info.Workflow); err == nil {
		callersOnly(r, w)
	} else if _, name, err := a.host().At(info.Workflow + ".yaml"); err == nil && name == info.Workflow { // it was run by its path, probably by this one
		if at, err := filepath.Rel(filepath.Dir(a.host().Abs(cmp.Or(file, name))), a.host().Abs(name+".yaml")); err == nil {
			r.Workflow = at
		}
	}
	var said struct{ Text *string }
	if info.Workflow == "agent" && json.Unmarshal(r.Output, &said) == nil && said.Text != nil { // the rest says which model it was
		r.Check = "output.text == expected"
		if r.Output, err = json.Marshal(*said.Text); err != nil {
			return err
		}
	}
	var text []byte
	if file != "" {
		if text, err = inside.ReadFile(a.host().Abs(file), recipe.MaxBytes); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return usage(fmt.Sprintf("cannot read the file: %v", err))
		}
	}
	out, err := evaluate.AddCase(transcript.Line(file), text, r)
	var problems recipe.Problems
	switch {
	case errors.As(err, &problems) && text != nil:
		return &host.RecipeError{File: transcript.Line(file), Text: text, Problems: problems}
	case err != nil:
		return usage(err.Error())
	case file == "":
		_, err = a.out.Write(out)
		return err
	}
	if err := replaceFile(a.host().Abs(file), out); err != nil {
		return usage(fmt.Sprintf("cannot write the file: %v", err))
	}
	return a.tell(map[string]string{"run": info.ID, "wrote": a.host().Abs(file)}, "wrote "+a.near(a.host().Abs(file)))
}

// callersOnly takes out the inputs that a run sets itself, and defaults.
func callersOnly(r *evaluate.Recorded, w *workflow.Workflow) {
	for name, value := range r.Inputs {
		i := slices.IndexFunc(w.List(), func(in workflow.Input) bool { return in.Name == name })
		switch {
		case i < 0, name == "model" && arguments.TakesModel(w), name == "dir" && w.Pin == nil, string(w.List()[i].Default) == string(value):
			delete(r.Inputs, name)
		}
	}
}
