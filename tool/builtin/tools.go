package builtin

import (
	"context"
	"errors"
	"fmt"

	"github.com/superstep-dev/superstep/tool"
)

// Options of Tools. Nil means the defaults.
type Options struct {
	// Root is the folder of the tools on files: read_file, ls, glob and grep. Nil means none of them.
	Root *Root
	// Write adds write_file and edit_file.
	Write bool
	// Bash adds bash, if it is not nil.
	Bash *BashOptions
	// Docs adds search_docs, if it is not nil.
	Docs *Docs
	// Fetch adds web_fetch, if it is not nil.
	Fetch *FetchOptions
	// Search adds web_search, if it is not nil.
	Search Searcher
}

// Tools returns the built-in tools: think and todo, and those the options ask for. A gate decides which of them may be used without asking.
func Tools(opts *Options) ([]*tool.Tool, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	out := []*tool.Tool{Think(), todoList()}
	var errs []error
	add := func(t *tool.Tool, err error) {
		if err != nil {
			errs = append(errs, err)
			return
		}
		out = append(out, t)
	}
	if o.Root != nil {
		out = append(out, ReadFile(o.Root), Ls(o.Root), Glob(o.Root), Grep(o.Root))
	}
	if o.Root == nil && (o.Write || o.Bash != nil) {
		errs = append(errs, errors.New("write_file, edit_file and bash need a folder; give a root"))
	} else {
		if o.Write {
			out = append(out, WriteFile(o.Root), editFile(o.Root))
		}
		if o.Bash != nil {
			add(Bash(o.Root, o.Bash))
		}
	}
	if o.Root != nil {
		for _, t := range out[2:] {
			t.Dir = o.Root.Dir()
		}
	}
	if o.Docs != nil {
		out = append(out, SearchDocs(o.Docs.Dir(), func(context.Context, bool) (*Docs, error) { return o.Docs, nil }, nil))
	}
	if o.Fetch != nil {
		add(webFetch(o.Fetch))
	}
	if o.Search != nil {
		add(WebSearch(o.Search))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("built-in tools: %w", err)
	}
	return out, nil
}
