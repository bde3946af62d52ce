package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/superstep-dev/superstep/agent/acp"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// A Check is the outcome of one check of [Host.Doctor], redacted.
type Check struct {
	Name  string `json:"name"`
	State string `json:"state"` // "ok", "warning" or "failed"
	Found string `json:"found"` // on one line
	Fix   string `json:"fix,omitempty"`
}

// Doctor checks the configuration, the data folder, the store, the project, the models, the sandbox and the agents on PATH. It
// contacts the store and servers of models on this machine, changes nothing, and returns a fix for everything that is not ok.
func (h *Host) Doctor(ctx context.Context, conf *Configuration) []Check {
	var out []Check
	add := func(name, found string, err error, fix string) {
		c := Check{Name: name, State: "ok", Found: found}
		if err != nil {
			c = Check{Name: name, State: "failed", Found: err.Error(), Fix: fix}
			if own := (*Error)(nil); errors.As(err, &own) && len(own.Next) > 0 {
				c.Fix = own.Next[0]
			}
		} else if fix != "" {
			c.State, c.Fix = "warning", fix
		}
		r := h.Redactor()
		c.Found, _, _ = strings.Cut(r.Text(c.Found), "\n")
		c.Fix = r.Text(c.Fix)
		out = append(out, c)
	}
	must := func(name, found string, err error, fix string) {
		if err == nil {
			fix = ""
		}
		add(name, found, err, fix)
	}
	at := conf.Path
	if _, missing := os.Stat(at); missing != nil && conf.Err == nil {
		at += ", not there: the defaults apply"
	}
	must("configuration", at, conf.Err, h.cfg.Name+" config edit")
	err := takesRuns(h.DataDir(), "--data-dir") // the first run creates it
	if _, homeless := h.Place(); homeless != nil && h.cfg.Store == "" {
		err = homeless
	}
	must("data folder", h.DataDir(), err, "")
	found, err := h.checkStore(ctx)
	must("store", found, err, "check the address in --store, and that its server runs")
	found, fix, err := h.checkProject()
	add("project", found, err, fix)
	if !h.cfg.NoModels {
		found, fix, err = h.checkModels(ctx)
		add("models", found, err, fix)
	}
	found, fix, err = h.checkSandbox()
	add("sandbox", found, err, fix)
	found, fix, err = h.checkAgents()
	add("coding agents", found, err, fix)
	return out
}

func (h *Host) checkStore(ctx context.Context) (found string, err error) {
	place, err := h.Place()
	if err != nil {
		return "", err
	}
	if place.Path != "" {
		if err := takesRuns(place.Path, "--store"); err != nil {
			return "", err
		}
	}
	if h.Absent() {
		return place.String() + ", created by the first run", nil
	}
	store, err := h.Store(ctx, true)
	if err != nil {
		return "", err
	}
	if _, err := store.Runs(ctx, &runlog.Filter{Limit: 1}); err != nil {
		return "", err
	}
	return place.String(), nil
}

// firstWrites is how many bytes of disk space are checked for: more than any store writes before the first record of a run.
const firstWrites = 1 << 20

// takesRuns checks that the directory of a store can be written and has space, as a run needs it. It creates no directory: where there is none yet, the
// next one above counts. The flag moves it.
func takesRuns(path, flag string) error {
	dir := path
	for info, err := os.Stat(dir); dir != filepath.Dir(dir) && (errors.Is(err, fs.ErrNotExist) || dir == path && err == nil && !info.IsDir()); info, err = os.Stat(dir) {
		dir = filepath.Dir(dir)
	}
	if err := tryWrite(dir, firstWrites); err != nil {
		return &Error{
			Code: "data_dir", Err: err, Message: fmt.Sprintf("cannot write %s: %v", dir, pathless(err)),
			Next: []string{"make the folder writable, free disk space there, or set " + flag + " to another place"},
		}
	}
	return nil
}

func (h *Host) checkProject() (found, fix string, err error) {
	problems, err := h.Problems()
	if err != nil {
		return "", h.cfg.Name + " lint", err
	}
	if len(problems) > 0 {
		return "", "correct that line", problems[0]
	}
	decisions, err := h.Decisions()
	if err != nil {
		return "", h.cfg.Name + " trust", err
	}
	open := 0
	for i := range decisions {
		if decisions[i].State != Trusted {
			open++
		}
	}
	if open > 0 {
		return h.Dir() + ": not trusted and not used: " + inwords.Plural(open, "item"), h.cfg.Name + " trust", nil
	}
	return h.Dir(), "", nil
}

func (h *Host) checkModels(ctx context.Context) (found, fix string, err error) {
	s := h.Settings()
	s.Model = ""
	list, err := h.With(s).ListModels(ctx)
	if err != nil {
		return "", h.cfg.Name + " models list", err
	}
	if list.Use.Name == Offline {
		fix = "set a key, such as OPENAI_API_KEY, or start Ollama"
	}
	return list.Use.Name + " (" + list.Use.Why + ")", fix, nil
}

// checkAgents describes the agents of other programs, without starting one.
func (h *Host) checkAgents() (found, fix string, err error) {
	agents, err := h.modelAgents()
	if err != nil {
		return "", "correct that line", err
	}
	var list []string
	for i := range agents {
		a := &agents[i]
		list = append(list, fmt.Sprintf("%s (%s: %s)", a.Name, a.Command, a.State()))
		switch {
		case fix != "" || !a.Allowed: // nobody wants to use it yet
		case !a.Installed:
			fix = "install " + a.Command + ", or remove " + strings.TrimPrefix(a.Name, acp.Prefix) + " from " + agentsFile
		case a.SignedIn == "no" && a.Login != "":
			fix = a.Login
		}
	}
	if len(list) == 0 {
		return "none on PATH", "", nil
	}
	return strings.Join(list, ", "), fix, nil
}

func (h *Host) checkSandbox() (found, fix string, err error) {
	fix = "allow unprivileged user namespaces, or use a kernel with Landlock; see " + h.cfg.Name + " sandbox explain"
	s, err := h.Sandbox()
	if err != nil {
		return "", fix, err
	}
	if s.Mode() != sandbox.None {
		fix = ""
	} else if s == nil {
		fix = "remove `sandbox: off` from permissions.yaml"
	}
	found = s.String()
	if s.Mode() != sandbox.None {
		found += "; " + h.cfg.Name + " sandbox attack tries whether it holds"
	}
	return found, fix, s.Close()
}
