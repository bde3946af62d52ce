package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/toolnames"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// What an agent or a call has seen is recorded as marks of its scope (see journal.Scope.Mark), which others in the run find: whoever takes over its result,
// whoever works below it, and whoever reads a file that it wrote. The words of a mark are a kind and what follows.
const (
	markSeen    = "seen "    // a source of what comes of the scope
	markWithin  = "within "  // a source of what is done below the scope
	markLink    = "link "    // an address that stands somewhere word for word
	markWritten = "written " // a file, or everything
	markLoaded  = "loaded "  // the same, of a call that had seen nothing but has reached the network
	everything  = "*"
)

// begins records what the agent passes on from its beginning.
func (r *run) begins(ctx context.Context) error {
	r.inherit()
	if r.external() && slices.Contains(r.seen, tool.ExternalAgent) { // nobody sees what it writes
		if _, err := r.scope.Mark(ctx, r.prefix+"passes", append(words(markWithin, r.seen), markWritten+everything)); err != nil {
			return err
		}
	}
	return r.tell(ctx, "seen")
}

// Within returns the words of a mark of the scope of a task: what is done below it has seen what these names stand for. A run of its own may have written
// anything.
func Within(seen []string) []string {
	out := words(markWithin, seen)
	if slices.Contains(seen, "run_workflow") {
		out = append(out, markWritten+everything)
	}
	return out
}

// Seen returns the words of a mark of the scope of a task: what comes of it has seen what these names stand for.
func Seen(seen []string) []string { return words(markSeen, seen) }

// Saw returns what the tasks at a path and below it have seen of strangers, by the marks of a run.
func Saw(marks func(func(path string, words []string) bool), at string) (out []string) {
	marks(func(p string, words []string) bool {
		if p == at || at == "" || strings.HasPrefix(p, at+"/") {
			out = append(out, sources(words, markSeen)...)
			out = append(out, sources(words, markWithin)...)
		}
		return true
	})
	return out
}

// words puts the kind before each word of a stranger.
func words(kind string, seen []string) (out []string) {
	for _, s := range seen {
		if word := kind + s; tool.Stranger(s) && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

// sources returns what follows a kind.
func sources(words []string, kind string) (out []string) {
	for _, w := range words {
		if s, is := strings.CutPrefix(w, kind); is {
			out = append(out, s)
		}
	}
	return out
}

// inherit notes what the assignment comes from.
func (r *run) inherit() {
	if r.scope.Own("") != "" { // results in an imported run are what its file claims
		r.saw(tool.ImportedFile)
	}
	r.saw(r.work.Seen...)
	if r.scope.IsChild() { // its inputs are what another run gave it
		r.saw("run_workflow")
	}
	here := r.scope.Path()
	r.scope.Marks(func(p string, words []string) bool {
		if p == here || strings.HasPrefix(here, p+"/") {
			r.saw(sources(words, markWithin)...)
		}
		return true
	})
	for _, address := range r.work.Links {
		r.stand(address)
	}
	if !slices.ContainsFunc(r.seen, tool.Stranger) {
		r.know(r.work.Prompt)
	}
	if r.external() && (r.pinned == nil || slices.Contains(r.pinned.Network, everything)) {
		r.saw(tool.ExternalAgent)
	}
}

// neighbours returns what the tasks beside that of the agent have seen.
func (r *run) neighbours() []string {
	here := r.scope.Path()
	above, _ := path.Split(here)
	others := func(f func(string, []string) bool) {
		r.scope.Marks(func(p string, words []string) bool { return p == here || strings.HasPrefix(p, here+"/") || f(p, words) })
	}
	return Saw(others, strings.TrimSuffix(above, "/"))
}

// saw notes what the conversation comes from.
func (r *run) saw(names ...string) {
	for _, name := range names {
		if !slices.Contains(r.seen, name) {
			r.seen = append(r.seen[:len(r.seen):len(r.seen)], name) // calls hold what it was before
		}
	}
}

// took notes the result of a call.
func (r *run) took(c model.Call, result string, failed bool) {
	r.saw(c.Name)
	t, known := r.all.Get(c.Name)
	var in struct {
		Path        string
		Unsandboxed bool
	}
	_ = json.Unmarshal(c.Args, &in) // it has other arguments
	written := false
	switch {
	case known && t.Network || c.Name == "bash" && in.Unsandboxed:
		r.saw(c.Name + tool.Networked)
	case c.Name == "read_file":
		written = r.written(in.Path)
	case slices.Contains([]string{"grep", "glob", "ls", "search_docs", "bash"}, c.Name) || !slices.Contains(toolnames.Builtin(), c.Name) && r.acts[c.Name] == nil:
		written = r.written(everything)
	}
	if written {
		r.saw(tool.WrittenFile)
	}
	if r.acts[c.Name] != nil { // whoever worked below says which addresses stand somewhere
		return
	}
	if failed || written || !slices.Contains([]string{"web_search", "web_fetch", "read_file", "search_docs", "grep"}, c.Name) {
		return
	}
	said := text(c.Args)
	for _, address := range clean.Links(result) { // what it was asked for may only be repeated
		if _, rest, _ := strings.Cut(address, "://"); !strings.Contains(said, rest) {
			r.stand(address)
		}
	}
}

// know notes the addresses in a text of the user.
func (r *run) know(text string) {
	for _, address := range clean.Links(text) {
		r.stand(address)
	}
}

func (r *run) stand(address string) {
	if r.links == nil {
		r.links = map[string]bool{}
	}
	r.links[clean.Link(address)] = true
}

// stands reports whether an address stands word for word in what the agent was given, or others in the run were.
func (r *run) stands(address string) bool {
	address = clean.Link(address)
	return r.links[address] || r.scope.Marked(markLink+address)
}

// tell records, once, that strangers may have written what comes of the agent.
func (r *run) tell(ctx context.Context, key string) error {
	var mark []string
	if !r.told {
		mark = words(markSeen, r.seen)
	}
	told, err := r.scope.Mark(ctx, r.prefix+key, mark)
	r.told = r.told || told
	return err
}

// publish records which addresses of a text stand somewhere word for word, so that others in the run may use them.
func (r *run) publish(ctx context.Context, key, text string) error {
	var mark []string
	if slices.ContainsFunc(r.seen, tool.Stranger) {
		for _, address := range clean.Links(text) {
			if r.links[address] && !r.scope.Marked(markLink+address) {
				mark = append(mark, markLink+address)
			}
		}
	}
	_, err := r.scope.Mark(ctx, r.prefix+key, mark)
	return err
}

// beforeCall records what a call that is about to happen passes on: what works below it inherits what the agent has seen, and a file that it writes holds it.
func (r *run) beforeCall(ctx context.Context, key string, c model.Call) error {
	seen := words(markWithin, r.seen)
	t, known := r.all.Get(c.Name)
	var mark []string
	switch {
	case !known:
	case r.acts[c.Name] != nil:
		if mark = seen; r.within() {
			mark = nil
		}
		for _, address := range clean.Links(text(c.Args)) {
			if r.links[address] && !r.scope.Marked(markLink+address) {
				mark = append(mark, markLink+address)
			}
		}
		if c.Name == "run_workflow" { // which begins with the taint of a run of its own
			mark = append(mark, markWritten+everything)
		}
	case t.Effect == tool.Pure || seen == nil && !t.Network:
	case slices.Contains(toolnames.Builtin(), c.Name) && !slices.Contains([]string{"write_file", "edit_file", "bash", "save_workflow"}, c.Name): // no file
	default:
		var in struct{ Path string }
		kind, file := markWritten, everything
		if seen == nil {
			kind = markLoaded
		} else if json.Unmarshal(c.Args, &in) == nil && (c.Name == "write_file" || c.Name == "edit_file") {
			file = path.Clean(in.Path)
		}
		if !r.scope.Marked(kind+everything) && !r.scope.Marked(kind+file) {
			mark = []string{kind + file}
		}
	}
	_, err := r.scope.Mark(ctx, key+"/passes", mark)
	return err
}

// within reports whether it is recorded that what works below the agent inherits what it has seen.
func (r *run) within() (is bool) {
	here := r.scope.Path()
	r.scope.Marks(func(p string, words []string) bool {
		is = is || p == here && sources(words, markWithin) != nil
		return !is
	})
	return is
}

// uses returns what a call comes from: what the agent has seen, and for what may read or execute any file the files that were written in the run by
// whoever had seen what strangers wrote.
func (r *run) uses(name string) []string {
	out := r.seen
	if name != "bash" && (slices.Contains(toolnames.Builtin(), name) || r.acts[name] != nil) {
		return out
	}
	r.scope.Marks(func(_ string, words []string) bool {
		if sources(words, markWritten) == nil {
			return true
		}
		out = append(out[:len(out):len(out)], tool.WrittenFile)
		return false
	})
	return out
}

// written reports whether a file was written in the run by whoever had seen what strangers wrote, or holds what a command had from the network. For
// everything it reports whether any was.
func (r *run) written(file string) (is bool) {
	file = path.Clean(file)
	r.scope.Marks(func(_ string, words []string) bool {
		for _, f := range slices.Concat(sources(words, markWritten), sources(words, markLoaded)) {
			a, b := strings.ToLower(f), strings.ToLower(file)
			is = is || f == everything || file == everything || a == b || strings.HasSuffix(a, "/"+b) || strings.HasSuffix(b, "/"+a)
		}
		return !is
	})
	return is
}

// text returns the texts in a JSON value.
func text(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	var b strings.Builder
	var add func(any)
	add = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, x := range v {
				add(x)
			}
		case []any:
			for _, x := range v {
				add(x)
			}
		default:
			fmt.Fprintf(&b, "%v\n", v)
		}
	}
	add(v)
	return b.String()
}
