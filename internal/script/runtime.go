package script

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/inside"
	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// An engine is a program that runs modules, each request in a process of its own.
type engine struct {
	name string // node, bun or deno
	path string
}

// run runs a module once. The error is that of the engine or of ctx; what the tool did wrong is in
// the answer. Nothing of the run is left when it returns.
func (e *engine) run(ctx context.Context, m *module, r *request) (_ *answer, err error) {
	o := m.opts
	dir, err := os.MkdirTemp(o.Temp, "superstep-tool-") // for this user only
	if err != nil {
		return nil, fmt.Errorf("no temporary folder for the tool: %w", err)
	}
	defer func() {
		if e := os.RemoveAll(dir); err == nil && e != nil {
			err = e
		}
	}()
	if err := writeModules(dir, m.found.bundle.code); err != nil {
		return nil, err
	}
	req := *r
	req.Mark, req.File, req.Directory = rand.Text(), m.found.Path, o.Directory
	stdin, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	env := slices.Concat(procgroup.Base(o.Environ), pick(o.Environ, slices.Concat(o.Env, r.env)...), []string{"DENO_NO_UPDATE_CHECK=1"})
	bounds, env, err := o.within(m.found.Path, r.needs, []string{e.path}, env)
	if err == nil {
		bounds, err = bounds.With(sandbox.Policy{Read: []string{dir}})
	}
	if err != nil {
		return nil, err
	}
	var a *answer
	log := &procgroup.Tail{Limit: maxLog}
	answers := func(in io.Reader) { a = readAnswer(in, req.Mark, r.Limit, func(b []byte) { _, _ = log.Write(b) }) }
	j := &job{
		sandbox: bounds, name: e.path, dir: dir, stdin: stdin, env: env, // not in the project, whose bunfig.toml would be heeded
		stdout: into(log), stderr: into(log), answers: answers, refused: r.refused,
	}
	out := "3"
	if runtime.GOOS == "windows" {
		out, j.stdout, j.answers = "1", answers, nil
	}
	j.args = append(e.flags(o.Memory), filepath.Join(dir, "superstep-process.mjs"), out)
	state, err := j.do(ctx)
	if err != nil {
		if state == nil && ctx.Err() == nil {
			return nil, fmt.Errorf("%s cannot be started: %w", e.path, inside.Reason(err))
		}
		return nil, j.lacking(err, r.needs, m.found.Path)
	}
	if a == nil {
		a = &answer{failure: &thrown{Message: "its process ended without a result: " + stateText(state)}}
		if said := strings.TrimSpace(log.Text(2000)); said != "" {
			a.failure.Message += ": " + said
		}
	}
	if a.failure != nil {
		if a.hint = e.hint(a.failure.Message); a.hint == "" {
			a.hint = j.cmd.Missing("it", r.needs, m.found.Path, a.failure.Message)
		}
	}
	return a, nil
}

func (e *engine) flags(memory int64) []string {
	heap := fmt.Sprintf("--max-old-space-size=%d", max(16, memory>>20))
	switch e.name {
	case "bun":
		return []string{"run", "--no-install"}
	case "deno":
		return []string{"run", "--quiet", "--allow-all", "--no-prompt", "--no-config", "--no-lock", "--no-remote", "--no-npm", "--v8-flags=" + heap}
	}
	return []string{"--no-warnings", heap}
}

func (e *engine) hint(message string) string {
	for global, name := range map[string]string{"Bun": "bun", "Deno": "deno"} {
		if name != e.name && strings.Contains(message, global+" is not defined") {
			return fmt.Sprintf("the tool is written for %s, and runs in %s; install %s or set it as the runtime", name, e.name, name)
		}
	}
	return ""
}

//go:embed js/*.mjs
var sources embed.FS

const bundleName = "superstep-bundle.mjs"

// writeModules writes a bundle, and beside it our own modules.
func writeModules(dir string, code []byte) error {
	errs := []error{os.WriteFile(filepath.Join(dir, bundleName), code, 0o600)}
	ours, err := sources.ReadDir("js")
	for _, e := range ours {
		b, err := sources.ReadFile("js/" + e.Name())
		errs = append(errs, err, os.WriteFile(filepath.Join(dir, "superstep-"+e.Name()), b, 0o600))
	}
	return errors.Join(append(errs, err)...)
}
