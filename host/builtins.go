package host

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/internal/docindex"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/tool/permit"
)

// builtins creates the tools that come with this program, as far as they can be used here.
func (p *project) builtins(s *Session) ([]*tool.Tool, error) {
	o := &builtin.Options{Root: s.root, Write: s.root != nil}
	if s.root != nil && p.shell() {
		o.Bash = &builtin.BashOptions{Environ: p.h.cfg.Environ, Sandbox: s.sandbox}
	}
	if !p.h.cfg.Offline {
		web, _ := p.h.searcher() // what is wrong with it is told by research
		o.Fetch, o.Search = &builtin.FetchOptions{}, web
	}
	tools, err := builtin.Tools(o)
	if err != nil {
		return nil, err
	}
	for i, t := range tools {
		if (t.Name == "read_file" || t.Name == "grep") && !p.h.Sealed() {
			tools[i] = p.withResults(t)
		}
	}
	if s.root != nil {
		tools = append(tools, builtin.SearchDocs(p.dir, s.openDocs, s.reads))
	}
	notes, err := memory.Tools(p.h.notes)
	if err != nil {
		return nil, err
	}
	tools = append(tools, notes...)
	if len(p.UsableSkills()) > 0 {
		t, err := p.skillTool()
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	return tools, nil
}

// shell reports whether agents have a shell. They have one if the user's own rules mention bash
// without denying it, or allow commands without asking.
func (p *project) shell() bool {
	if p.sandboxed().auto {
		return true
	}
	rules := slices.Clone(p.rules)
	if p.settings.user != nil {
		rules = append(rules, p.settings.user.rules...)
	}
	if granted, err := p.granted(); err == nil {
		rules = append(rules, granted...)
	}
	return slices.ContainsFunc(rules, func(r permit.Rule) bool { return r.Tool == "bash" && r.Decision != tool.Deny })
}

// withResults returns a file tool that can also read its run's stored results, which were too large
// for a conversation.
func (p *project) withResults(t *tool.Tool) *tool.Tool {
	wide := *t
	wide.Run = func(ctx context.Context, c *tool.Call) (string, error) {
		var in struct {
			Path string `json:"path"`
		}
		if c.Run == "" || json.Unmarshal(c.Args, &in) != nil || !filepath.IsAbs(in.Path) {
			return t.Run(ctx, c)
		}
		dir := p.h.results(c.Run)
		if rel, err := filepath.Rel(dir, in.Path); err != nil || !filepath.IsLocal(rel) {
			return t.Run(ctx, c)
		}
		root, err := builtin.OpenRoot(dir, nil)
		if err != nil {
			return "", err
		}
		defer root.Close()
		own := *c
		own.Reads = nil // the rules are about the project's files
		c = &own
		if t.Name == "grep" {
			return builtin.Grep(root).Run(ctx, c)
		}
		return builtin.ReadFile(root).Run(ctx, c)
	}
	return &wide
}

// defaultRules are added to the rules of package permit: a lead may run workflows, whose agents
// have their own rules, and agents may read results that were too large for their conversation.
func (p *project) defaultRules() ([]permit.Rule, error) {
	texts := []string{"run_workflow", "collect_workflow", "save_workflow"} // what is saved waits for approval
	if !p.h.Sealed() {
		texts = append(texts, "read_file("+p.h.results("*")+"/**)", "grep("+p.h.results("*")+"/**)")
	}
	return parseRules(tool.Allow, "", texts...)
}

// docs is the index of the project's files, made when it is first searched.
type docs struct {
	mu    sync.Mutex
	index *builtin.Docs
}

// reads decides which files a call may read if no gate has decided on the call.
func (s *Session) reads(name, from string) func(file string) tool.Verdict {
	return s.policy.Reads(name, from, nil)
}

// mostFiles is how many files of a folder are listed for users to name.
const mostFiles = 20_000

// Files lists the files of the host's folder that agents may read unasked, for users to name in a message: at most 20,000, without those that are hidden
// or ignored by git.
func (h *Host) Files(ctx context.Context) ([]string, error) {
	p, err := h.project()
	if err != nil || p.dir == "" {
		return nil, err
	}
	policy, err := p.policy()
	if err != nil {
		return nil, err
	}
	reads := policy.Reads("read_file", "", nil)
	return docindex.Files(ctx, p.dir, mostFiles, func(file string) bool { return reads(file).Decision != tool.Allow })
}

// openDocs opens the index of the project's files when it is first searched. The index covers the
// files that may be read without asking by the rules of the user and the project. An agent's own
// rules decide which results it is shown.
func (s *Session) openDocs(ctx context.Context, large bool) (*builtin.Docs, error) {
	s.docs.mu.Lock()
	defer s.docs.mu.Unlock()
	if s.docs.index != nil {
		return s.docs.index, nil
	}
	reads := s.reads("search_docs", "")
	o := &builtin.DocsOptions{
		CacheDir: s.p.h.CacheDir(), Progress: docindex.Progress(s.p.dir, 3*time.Second, func(text string, _, _ int) { s.p.h.cfg.Notice(text) }),
		Excluded: func(file string) bool { return reads(file).Decision != tool.Allow },
		Large:    large,
	}
	index, err := builtin.OpenDocs(ctx, s.p.dir, o)
	if err != nil {
		return nil, err
	}
	s.docs.index = index
	return index, nil
}

func (d *docs) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.index == nil {
		return nil
	}
	return d.index.Close()
}
