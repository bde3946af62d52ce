package offline

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/model"
)

// Limits of one agent's work, and of the size of an answer.
const (
	mostSearches = 2
	mostResults  = 8
	mostWindows  = 3 // parts of files that are read around what grep found
	windowLines  = 60
	windowLead   = 20 // of them before the hit
	mostFound    = 3  // passages of a search
	mostKept     = 30 // passages of material
)

// searchers returns the tools that are used for searching. Other tools may do anything with an
// argument named query.
func searchers() []string { return []string{"search_docs", "search_files", "search"} }

// worker is this model acting as an agent.
type worker struct {
	*task
	req  *model.Request
	made []attempt
	told bool // something was said to it after its task: it has to come to an end
}

// An attempt is a call, with its result.
type attempt struct {
	name, path, result string
	failed             bool
}

// turn returns what the model says next: calls, or its answer.
func turn(req *model.Request) ([]model.Part, error) {
	if req.Schema != nil {
		if err := Quotable(req.Schema); err != nil {
			return nil, err
		}
	}
	w := &worker{req: req}
	prompt, byID := "", map[string]int{}
	for i, m := range req.Messages {
		for _, p := range m.Parts {
			switch {
			case m.Role == model.User && i == 0:
				prompt += p.Text
			case m.Role == model.User:
				w.told = true
			case p.Kind == model.ToolCall && p.Call != nil:
				var in struct{ Path string }
				_ = json.Unmarshal(p.Call.Args, &in) // its own, or somebody else's
				byID[p.Call.ID] = len(w.made)
				w.made = append(w.made, attempt{name: p.Call.Name, path: in.Path, failed: true})
			case p.Kind == model.Result && p.Call != nil:
				if k, ok := byID[p.Call.ID]; ok {
					w.made[k].result, w.made[k].failed = p.Text, p.Error
				}
			}
		}
	}
	w.task = read(prompt)
	if req.Choice == "" && !w.told {
		if calls := w.next(); len(calls) > 0 {
			return calls, nil
		}
	}
	text, err := w.answer()
	return []model.Part{{Kind: model.Text, Text: text}}, err
}

// offered returns a tool by one of its names.
func (w *worker) offered(names ...string) *model.ToolSpec {
	for _, n := range names {
		for i := range w.req.Tools {
			if t := &w.req.Tools[i]; t.Name == n && t.Input != nil {
				return t
			}
		}
	}
	return nil
}

func (w *worker) called(names ...string) []attempt {
	var out []attempt
	for _, m := range w.made {
		if slices.Contains(names, m.name) {
			out = append(out, m)
		}
	}
	return out
}

func (w *worker) call(k int, t *model.ToolSpec, args map[string]any) model.Part {
	maps.DeleteFunc(args, func(name string, _ any) bool { return t.Input.Properties[name] == nil })
	b, _ := json.Marshal(args) // texts, numbers and truths always encode
	return model.Part{Kind: model.ToolCall, Call: &model.Call{ID: fmt.Sprintf("offline-%d", len(w.made)+k+1), Name: t.Name, Args: b}}
}

// next returns the calls to make, none if there is nothing more to find.
func (w *worker) next() []model.Part {
	if len(w.given) > 0 && !w.asked {
		return nil
	}
	reader := w.offered("read_file")
	if reader != nil && len(w.files) > 0 && len(w.made) == 0 {
		var calls []model.Part
		for i, f := range w.files {
			calls = append(calls, w.call(i, reader, map[string]any{"path": f}))
		}
		return calls
	}
	if glob := w.offered("glob"); w.here && reader != nil && glob != nil && len(w.found(false)) == 0 { // there is no README
		switch last := w.made[len(w.made)-1]; {
		case len(w.called("glob")) == 0:
			return []model.Part{w.call(0, glob, map[string]any{"pattern": "**/*.{md,markdown,txt,rst}"})}
		case last.name == "glob" && !last.failed:
			if first := shallow(last.result); first != "" {
				return []model.Part{w.call(0, reader, map[string]any{"path": first})}
			}
		}
	}
	if len(w.words) == 0 || len(w.found(reader == nil)) > 0 && !(w.here && len(w.called(append(searchers(), "grep")...)) == 0) {
		return nil
	}
	if search := w.offered(searchers()...); search != nil {
		switch before := w.called(search.Name); {
		case len(before) == 0:
			return []model.Part{w.call(0, search, map[string]any{"query": w.topic, "limit": mostResults})}
		case len(before) < mostSearches && !before[0].failed:
			return []model.Part{w.call(0, search, map[string]any{"query": strings.Join(w.words, " "), "limit": mostResults})}
		}
	}
	grep := w.offered("grep")
	switch {
	case grep == nil:
		return nil
	case len(w.called("grep")) == 0:
		return []model.Part{w.call(0, grep, map[string]any{"pattern": `\b(` + strings.Join(quoteAll(w.words), "|") + `)`, "ignore_case": true, "max": 1000})}
	case reader != nil && w.made[len(w.made)-1].name == "grep":
		return w.windows(reader)
	}
	return nil
}

// shallow returns the file of a listing that is in the fewest folders, "" for none.
func shallow(listing string) string {
	best := ""
	for f := range strings.Lines(listing) {
		if f = strings.TrimSpace(f); bareFile(f) == f && f != "" && !hidden(f) && (best == "" || strings.Count(f, "/") < strings.Count(best, "/")) {
			best = f
		}
	}
	return best
}

// quoteAll are stems as a regular expression has them.
func quoteAll(stems []string) []string {
	var out []string
	for _, s := range stems {
		out = append(out, regexp.QuoteMeta(strings.TrimSuffix(s, "i")))
	}
	return out
}

// windows reads around the best hits of grep, one in each file.
func (w *worker) windows(reader *model.ToolSpec) []model.Part {
	var near []passage // hits that stand together
	for _, g := range w.called("grep") {
		hits, _ := scan(g.result)
		for i := range hits {
			last := len(near) - 1
			switch h := &hits[i]; {
			case hidden(h.path) || g.failed:
			case last >= 0 && near[last].path == h.path && h.from < near[last].from+longest:
				near[last].lines = append(near[last].lines, h.lines...)
			default:
				near = append(near, *h)
			}
		}
	}
	var calls []model.Part
	var files []string
	for _, p := range rank(near, w.words) {
		if !slices.Contains(files, p.path) && len(calls) < mostWindows {
			files = append(files, p.path)
			calls = append(calls, w.call(len(calls), reader, map[string]any{"path": p.path, "offset": max(1, p.from-windowLead), "limit": windowLines}))
		}
	}
	return calls
}

// found returns the passages that the tools brought, the best first. Hits are the lines that grep
// found, if there are no others.
func (w *worker) found(hitsToo bool) []passage {
	var searched, hits, begin, rest []passage
	for _, m := range w.made {
		if m.failed {
			continue
		}
		switch all, _ := scan(m.result); {
		case slices.Contains(searchers(), m.name):
			searched = append(searched, all...)
		case m.name == "grep":
			hits = append(hits, all...)
		case m.name == "read_file":
			list := paragraphs(m.path, m.result)
			if named := slices.Contains(w.files, m.path) || w.here && len(begin) == 0; named && (w.here || len(w.words) == 0) {
				n := min(len(list), mostFound)
				if w.here && len(w.words) > 0 {
					n = min(len(list), 1) // what it is, and then what else is asked
				}
				begin, list = append(begin, list[:n]...), list[n:]
			}
			rest = append(rest, list...)
		}
	}
	out := slices.Concat(begin, searched, rank(rest, w.words))
	if len(out) == 0 && hitsToo {
		out = rank(hits, w.words)
	}
	return slices.DeleteFunc(once(append(slices.Clone(w.given), out...))[len(w.given):], func(p passage) bool { return hidden(p.path) })
}

// nowhere returns the words that no document has, according to the searches, or "".
func (w *worker) nowhere() string {
	for _, m := range w.called(searchers()...) {
		line, _, _ := strings.Cut(m.result, "\n")
		if strings.HasPrefix(line, "No document has: ") && !m.failed {
			return line
		}
	}
	return ""
}

// answer returns the passages there are, as a text or as the schema has it.
func (w *worker) answer() (string, error) {
	all, most := w.given, mostKept
	if len(w.given) == 0 || w.asked {
		all, most = w.found(true), mostFound
	}
	if len(all) == 0 {
		if err := w.lost(); err != nil {
			return "", err
		}
	}
	if w.req.Schema != nil {
		return fill(w.req.Schema, all, most)
	}
	parts := []string{preamble}
	if gone := w.nowhere(); gone != "" && len(w.given) == 0 {
		parts, most = append(parts, gone+" What comes nearest:"), 1
	}
	for i := range all[:min(len(all), most)] {
		parts = append(parts, all[i].String())
	}
	if len(all) == 0 {
		parts = append(parts, "Nothing was found for: "+w.topic)
	}
	for _, m := range w.missing {
		parts = append(parts, "Missing: "+m)
	}
	return strings.Join(parts, "\n\n"), nil
}

// lost returns why there is nothing to quote, or nil if documents were searched without a result.
func (w *worker) lost() error {
	worked := false
	why := ""
	for _, m := range w.made {
		if worked = worked || !m.failed; m.failed && why == "" {
			why, _, _ = strings.Cut(m.name+" failed: "+m.result, "\n")
		}
	}
	switch {
	case worked:
		return nil
	case why != "":
		return failure(why)
	case len(w.words) == 0 && len(w.files) == 0:
		return &CannotError{Why: "cannot be looked for: the task names no topic, file or material to quote"}
	case w.told || w.req.Choice != "":
		return failure("it has to end before it could search")
	}
	return &CannotError{Why: "cannot be looked for: the agent has no tool to search with"}
}
