package research

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/docindex"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/tool/permit"
)

// researcher holds the data that the nodes of the workflow share within one process. Everything in it is derived from the state when it is first needed,
// so that a resumed run opens the same sources.
type researcher struct {
	opt *Options

	mu    sync.Mutex
	root  *builtin.Root
	docs  *builtin.Docs
	model model.Model
	rules *permit.Policy
	noWeb sync.Once // the note that it may not be searched
}

func (r *researcher) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.docs != nil {
		_ = r.docs.Close()
	}
	if r.root != nil {
		_ = r.root.Close()
	}
}

// noModel is the model name that means "none": the nodes then search by themselves.
const noModel = "offline"

// modelFor returns the model of the run, nil if it has no language model.
func (r *researcher) modelFor(t *graph.Task, s *state) (model.Model, error) {
	if s.Model == noModel {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.model == nil {
		name := s.Model
		if t.Scope().Imported() != nil {
			name = "" // which model is asked, and paid for, is for whoever imported the run to say
		}
		m, err := r.opt.Model(name)
		if err != nil {
			return nil, err
		}
		r.model = m
	}
	if r.model.Name() == noModel {
		return nil, nil
	}
	return r.model, nil
}

// reads decides in which files a tool may read, by the rules of the policy.
func (r *researcher) reads(s *state) (func(name, from string) func(string) tool.Verdict, error) {
	policy, err := r.policy()
	if err != nil {
		return nil, err
	}
	docs := policy.In(evaluated(s.Docs))
	return func(name, from string) func(string) tool.Verdict { return docs.Reads(name, from, nil) }, nil
}

// open opens the index of the documents and their folder.
func (r *researcher) open(ctx context.Context, t *graph.Task, s *state) (*builtin.Docs, *builtin.Root, error) {
	if err := imported(t.Scope().Imported(), s.Docs); err != nil {
		return nil, nil, err
	}
	if err := r.within(s.Guest || r.opt.Guest, s.Docs); err != nil {
		return nil, nil, err
	}
	reads, err := r.reads(s)
	if err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.docs == nil {
		say := func(text string) { t.Scope().Live("note", note{text}) }
		say("opening the index of " + s.Docs)
		docs, err := r.openDocs(ctx, s.Docs, reads("search_docs", ""), say, func(text string, done, all int) {
			t.Scope().Live("progress", progress{text, done, all})
		})
		if err != nil {
			return nil, nil, err
		}
		r.docs = docs
		if n := docs.Stats(); n.Read > 0 {
			say(fmt.Sprintf("the index has %s, %s%s", inwords.Plural(n.Files, "file"), inwords.Bytes(n.Bytes), leftOut(n.Left)))
		}
	}
	if r.docs.Stats().Files == 0 {
		return nil, nil, noDocs(s.Docs)
	}
	if r.root == nil {
		if r.root, err = builtin.OpenRoot(s.Docs, &builtin.RootOptions{Reads: reads}); err != nil {
			return nil, nil, err
		}
	}
	return r.docs, r.root, nil
}

func noDocs(dir string) error {
	return &DocsError{fmt.Sprintf("there is nothing to read in %s: no Markdown, text, HTML or source files; give another folder with --docs", dir)}
}

// tools returns the tools with which an agent searches and reads. A replay needs none.
func (r *researcher) tools(ctx context.Context, t *graph.Task, s *state) (tools []*tool.Tool, err error) {
	err = t.Scope().Afresh(func() error { tools, err = r.allTools(ctx, t, s); return err })
	return tools, err
}

func (r *researcher) allTools(ctx context.Context, t *graph.Task, s *state) ([]*tool.Tool, error) {
	tools := []*tool.Tool{builtin.Think()}
	if s.Docs != "" {
		docs, root, err := r.open(ctx, t, s)
		if err != nil {
			return nil, err
		}
		reads, err := r.reads(s)
		if err != nil {
			return nil, err
		}
		open := func(context.Context, bool) (*builtin.Docs, error) { return docs, nil }
		tools = append(tools, builtin.SearchDocs(docs.Dir(), open, reads), builtin.ReadFile(root), builtin.Grep(root))
	}
	web, err := r.web(t)
	if web != nil {
		tools = append(tools, web)
	}
	return tools, err
}

// web returns the tool that searches the web, or nil if there is none or the rules would ask first:
// no user is asked here. The first time, it emits a note about that.
func (r *researcher) web(t *graph.Task) (*tool.Tool, error) {
	if r.opt.SearchWeb == nil {
		return nil, nil
	}
	policy, err := r.policy()
	if err != nil {
		return nil, err
	}
	v := policy.Check(&tool.Tool{Name: "web_search"}, &tool.Call{Args: json.RawMessage(`{"query":"x"}`)})
	if v.Decision == tool.Allow {
		return r.opt.SearchWeb, nil
	}
	if t != nil {
		r.noWeb.Do(func() {
			t.Scope().Live("note", note{"the web is not searched: " + v.Reason + "; " + allowWeb})
		})
	}
	return nil, nil
}

const allowWeb = "allow it with --allow web_search"

// normal returns a query in a normal form, to compare it with others.
func normal(query string) string { return strings.ToLower(oneLine(query)) }

// policy returns the rules on reading.
func (r *researcher) policy() (_ *permit.Policy, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.rules != nil:
	case r.opt.Policy != nil:
		r.rules, err = r.opt.Policy()
	default:
		r.rules, err = permit.New(nil)
	}
	return r.rules, err
}

// openDocs opens the index of the documents that may be read.
func (r *researcher) openDocs(ctx context.Context, dir string, may func(string) tool.Verdict, say func(string),
	progress func(string, int, int)) (*builtin.Docs, error) {
	// The rules may allow an index beyond the usual limits.
	large := r.rules.Check(&tool.Tool{Name: "search_docs"}, &tool.Call{Args: json.RawMessage(`{"query":"","large":true}`)}).Decision == tool.Allow
	docs, err := builtin.OpenDocs(ctx, dir, &builtin.DocsOptions{
		CacheDir: r.opt.CacheDir, Progress: docindex.Progress(dir, 100*time.Millisecond, progress), Embed: docindex.Embedder(r.opt.Embed, say),
		Excluded: func(file string) bool { return may(file).Decision != tool.Allow }, Large: large,
	})
	var limit *docindex.LimitError
	if errors.As(err, &limit) && !large {
		err = &DocsError{err.Error() + "; give a smaller folder with --docs, or allow it with --allow 'search_docs(large)'"}
	}
	return docs, err
}

// imported returns an error if the run was imported and one of the paths leads out of its folder, since these paths come from the imported file.
func imported(im *runlog.Imported, paths ...string) error {
	for _, p := range paths {
		if im != nil && p != "" && !inside(im.Dir, p) {
			return &DocsError{fmt.Sprintf("the run was imported, and %s lies outside the folder %s that it works in; start a new run with --docs and --report",
				p, im.Dir)}
		}
	}
	return nil
}

// inside reports whether a path leads to a place in a folder, or to one where something can be made.
func inside(dir, p string) bool {
	up := filepath.Clean(p)
	for _, err := os.Lstat(up); err != nil && filepath.Dir(up) != up; _, err = os.Lstat(up) {
		up = filepath.Dir(up)
	}
	real, err := filepath.EvalSymlinks(up) // of a link that leads nowhere there is none
	rel, rerr := filepath.Rel(evaluated(dir), real)
	return err == nil && rerr == nil && filepath.IsLocal(rel) && filepath.IsAbs(p) && !slices.Contains(strings.Split(filepath.ToSlash(p), "/"), "..")
}
