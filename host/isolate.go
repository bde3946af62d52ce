package host

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
)

// unfit matches characters that are not allowed in the name of a folder.
var unfit = regexp.MustCompile(`[^a-zA-Z0-9_.-]+`)

// isolate gives a sub-agent whose definition has "isolation: folder" an empty folder inside the run's folder instead of the project's. Its file tools
// and its shell can access only this folder.
func (s *Session) isolate(run, id string, a *agent.Agent) (*agent.Agent, error) {
	d, err := s.p.Agent(a.Name)
	if err != nil {
		return nil, err
	}
	if d.Extra["isolation"] != "folder" {
		return a, nil
	}
	if run == "" || s.p.h.results(run) == "" {
		return nil, fmt.Errorf("agent %s wants a folder of its own, and the run has none", a.Name)
	}
	dir := filepath.Join(filepath.Dir(s.p.h.results(run)), "work", strings.Trim(unfit.ReplaceAllString(id, "_"), "_"))
	root, err := s.rootOf(dir)
	if err != nil {
		return nil, err
	}
	o := &builtin.Options{Root: root, Write: true}
	if s.p.shell() {
		within, err := s.sandbox.In(dir)
		if err != nil {
			return nil, err
		}
		o.Bash = &builtin.BashOptions{Environ: s.p.h.cfg.Environ, Sandbox: within}
	}
	list, err := builtin.Tools(o)
	if err != nil {
		return nil, err
	}
	confined := *a
	var tools []*tool.Tool
	for _, t := range a.Tools.Tools() {
		if t.Name == "search_docs" {
			continue // it would see the project
		}
		if i := slices.IndexFunc(list, func(own *tool.Tool) bool { return own.Name == t.Name }); i >= 0 {
			list[i].Network = t.Network
			t = list[i]
		}
		tools = append(tools, t)
	}
	if confined.Tools, err = tool.NewSet(tools...); err != nil {
		return nil, err
	}
	confined.Prompt = strings.ReplaceAll(a.Prompt, workingFolder, "You work in a folder of your own, which is empty at first. Paths are relative to it.")
	return &confined, nil
}

// rootOf opens a folder once, and creates it if it is missing.
func (s *Session) rootOf(dir string) (*builtin.Root, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if root := s.own[dir]; root != nil {
		return root, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := builtin.OpenRoot(dir, &builtin.RootOptions{Protected: s.policy.Protected})
	if err != nil {
		return nil, err
	}
	if s.own == nil {
		s.own = map[string]*builtin.Root{}
	}
	s.own[dir] = root
	return root, nil
}
