package offline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/porter"
	"github.com/superstep-dev/superstep/model"
)

// What an agent's work may take. Every kind of call is made once at most, whatever comes of it,
// so that a conversation ends after a few turns.
const (
	mostQueries = 2
	mostWindows = 5  // parts of files that are read around what grep found
	windowLines = 60 // of each
	windowLead  = 20 // of them before the hit
	mostWhole   = 4  // files that are read when nobody says what to look for
	grepHits    = 1000
)

// searchers are the tools that are searched with. Others may do anything with what they call a query.
func searchers() []string { return []string{"search_docs", "search_files", "search"} }

// worker is this model in the place of an agent: somebody gave it a system prompt, tools and a
// task, and it does of that what can be done by searching, reading and quoting.
type worker struct {
	req   *model.Request
	brief *brief
	topic string
	late  bool // the topic is said behind the material
	most  int
	given []sentence // of the prompt
	made  []attempt
	told  bool // something was said to it since: it is to come to an end
}

// attempt is a call it made, with what came of it.
type attempt struct {
	name, result string
	path         string
	query        string
	offset       int
	failed       bool
}

// work is what the model says when it is an agent: calls, or the end.
func work(req *model.Request) ([]model.Part, error) {
	w := newWorker(req)
	if req.Schema != nil {
		if err := w.dry(); err != nil {
			return nil, err
		}
	}
	if req.Choice == "" && !w.told {
		if calls := w.next(); len(calls) > 0 {
			return calls, nil
		}
	}
	if req.Schema != nil {
		text, err := w.json()
		return []model.Part{{Kind: model.Text, Text: text}}, err
	}
	return []model.Part{{Kind: model.Text, Text: w.say()}}, nil
}

func newWorker(req *model.Request) *worker {
	w := &worker{req: req}
	prompt := ""
	byID := map[string]int{}
	for i, m := range req.Messages {
		for _, p := range m.Parts {
			switch {
			case m.Role == model.User && i == 0:
				prompt += p.Text
			case m.Role == model.User:
				w.told = true
			case p.Kind == model.ToolCall && p.Call != nil:
				var in struct {
					Path, Query string
					Offset      int
				}
				_ = json.Unmarshal(p.Call.Args, &in) // its own, or somebody else's
				byID[p.Call.ID] = len(w.made)
				w.made = append(w.made, attempt{name: p.Call.Name, path: in.Path, query: in.Query, offset: in.Offset, failed: true})
			case p.Kind == model.Result && p.Call != nil:
				if k, ok := byID[p.Call.ID]; ok {
					w.made[k].result, w.made[k].failed = p.Text, p.Error
				}
			}
		}
	}
	w.brief = briefOf(prompt)
	w.topic, w.late = w.brief.topic()
	w.topic = firstOf(w.topic, mostAsked)
	w.most, w.given = w.brief.many(), w.brief.units()
	return w
}

// offered is a tool by one of its names.
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

// next are the calls to make, none if there is nothing more to find.
func (w *worker) next() []model.Part {
	if len(w.given) > 0 && (len(words(w.topic)) == 0 || len(w.fitting(w.given)) > 0) {
		return nil // it was given what to work with
	}
	read := w.offered("read_file")
	if files := w.brief.files(); read != nil && len(files) > 0 && len(w.called("read_file")) == 0 {
		return w.reads(read, files)
	}
	if len(w.named()) > 0 && (len(words(w.topic)) == 0 || len(w.fitting(w.named())) > 0) {
		return nil
	}
	switch {
	case len(w.given) > 0 && (w.brief.whole || w.late), w.late && len(w.brief.given) > 0:
		return nil // it is about that, and that does not say it
	case len(words(w.topic)) == 0:
		return w.browse(read)
	}
	if search := w.offered(searchers()...); search != nil {
		if q := w.query(search.Name); q != "" {
			args := map[string]any{"query": q, "limit": mostResults, "max_results": mostResults} // reading costs nothing here
			return []model.Part{w.call(0, search, args)}
		}
	}
	grep := w.offered("grep")
	switch {
	case grep == nil:
	case len(w.called("grep")) == 0 && len(w.quotes()) == 0:
		return w.grep(grep)
	case len(w.called("grep")) > 0 && read != nil && !w.readSince("grep"):
		var calls []model.Part
		for _, p := range w.windows() {
			calls = append(calls, w.call(len(calls), read, map[string]any{"path": p.path, "offset": max(1, p.line-windowLead), "limit": windowLines}))
		}
		return calls
	}
	return nil
}

func (w *worker) reads(read *model.ToolSpec, files []string) []model.Part {
	var calls []model.Part
	for _, f := range files {
		calls = append(calls, w.call(len(calls), read, map[string]any{"path": f}))
	}
	return calls
}

// readSince reports whether something was read after the last call of a tool.
func (w *worker) readSince(name string) bool {
	since := false
	for _, m := range w.made {
		switch m.name {
		case name:
			since = false
		case "read_file":
			since = true
		}
	}
	return since
}

// browse reads what is there, when nothing says what to look for.
func (w *worker) browse(read *model.ToolSpec) []model.Part {
	glob := w.offered("glob")
	if glob == nil || read == nil {
		return nil
	}
	if len(w.called("glob")) == 0 {
		return []model.Part{w.call(0, glob, map[string]any{"pattern": "**/*.{md,markdown,txt,rst,adoc}"})}
	}
	if w.readSince("glob") {
		return nil
	}
	var files []string
	for _, m := range w.called("glob") {
		for l := range strings.Lines(m.result) {
			if l = strings.TrimSpace(l); !m.failed && filePath(l) && !hidden(l) {
				files = append(files, l)
			}
		}
	}
	slices.SortStableFunc(files, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(later(a), later(b)), strings.Compare(a, b))
	})
	return w.reads(read, firstN(files, mostWhole))
}

func later(path string) int {
	if strings.HasPrefix(strings.ToUpper(path[strings.LastIndexByte(path, '/')+1:]), "README") {
		return 0
	}
	return 1
}

// query is what to search for next, "" for nothing. A second search is made only if the first
// one did not bring enough.
func (w *worker) query(tool string) string {
	before := w.called(tool)
	if len(before) >= mostQueries || slices.ContainsFunc(before, func(m attempt) bool { return m.failed }) || len(before) > 0 && len(w.quotes()) >= w.most {
		return ""
	}
	wanted := w.brief.queries()
	if len(wanted) == 0 {
		wanted = queries(w.topic, "")
	}
	for _, q := range wanted {
		if strings.TrimSpace(q) != "" && !slices.ContainsFunc(before, func(m attempt) bool { return m.query == q }) {
			return q
		}
	}
	return ""
}

// grep looks through documents, and through all files.
func (w *worker) grep(grep *model.ToolSpec) []model.Part {
	p := pattern(w.topic)
	if p == "" {
		return nil
	}
	args := func(include string) map[string]any {
		a := map[string]any{"pattern": p, "ignore_case": true, "max": grepHits}
		if include != "" {
			a["include"] = include
		}
		return a
	}
	calls := []model.Part{w.call(0, grep, args("*.{md,mdx,markdown,txt,rst,adoc,html}"))}
	return append(calls, w.call(1, grep, args("")))
}

// pattern is a regular expression for the words of a topic, and those that stand for them.
func pattern(topic string) string {
	var alt []string
	add := func(word string) {
		stem := porter.Stem(word)
		n := 0
		for n < len(stem) && n < len(word) && stem[n] == word[n] {
			n++
		}
		for n > 0 && n < len(word) && !utf8.RuneStart(word[n]) {
			n--
		}
		p := regexp.QuoteMeta(word[:n])
		if n < 4 {
			p = regexp.QuoteMeta(word)
			if word[len(word)-1] < utf8.RuneSelf {
				p += `\b`
			}
		}
		if word[0] < utf8.RuneSelf {
			p = `\b` + p
		}
		if !slices.Contains(alt, p) {
			alt = append(alt, p)
		}
	}
	for _, c := range firstN(concepts(topic), 12) {
		add(c.word)
		for _, o := range firstN(c.others, 2) {
			add(o)
		}
	}
	return strings.Join(alt, "|")
}

// hits are the lines that grep found, each once.
func (w *worker) hits() []sentence {
	var out []sentence
	seen := map[place]bool{}
	for _, m := range w.called("grep") {
		if m.failed {
			continue
		}
		for l := range strings.Lines(m.result) {
			g := grepped.FindStringSubmatch(strings.TrimRight(l, "\r\n"))
			if len(g) == 0 || hidden(g[1]) {
				continue
			}
			n, err := strconv.Atoi(g[2])
			if at := (place{g[1], n}); err == nil && !seen[at] {
				seen[at] = true
				out = append(out, sentence{path: g[1], pieces: []line{{n, g[3]}}})
			}
		}
	}
	return out
}

// windows are the places to read: of each file the line that says most of what is asked, the
// files with the best of them first.
func (w *worker) windows() []place {
	asked := concepts(w.topic)
	type best struct {
		place
		cover int
		prose bool
	}
	var out []best
	for _, h := range w.hits() {
		b := best{place{h.path, h.pieces[0].n}, covers(asked, stems(h.String())), prose(h.String())}
		i := slices.IndexFunc(out, func(o best) bool { return o.path == b.path })
		switch {
		case i < 0:
			out = append(out, b)
		case b.cover > out[i].cover || b.cover == out[i].cover && b.prose && !out[i].prose:
			out[i] = b
		}
	}
	slices.SortStableFunc(out, func(a, b best) int {
		return cmp.Or(cmp.Compare(b.cover, a.cover), cmp.Compare(order(b.prose), order(a.prose)))
	})
	var places []place
	for _, b := range firstN(out, mostWindows) {
		places = append(places, b.place)
	}
	return places
}

func order(b bool) int {
	if b {
		return 1
	}
	return 0
}

// hidden reports whether a path leads through a folder that is not shown, or is such a file: what
// configures the agents is no document.
func hidden(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool { return len(part) > 1 && part[0] == '.' && part != ".." })
}

// named are the sentences of the files that the task names.
func (w *worker) named() []sentence {
	files := w.brief.files()
	return w.readings(func(path string) bool { return slices.Contains(files, path) })
}

// readings are the sentences of what was read.
func (w *worker) readings(of func(path string) bool) []sentence {
	var out []sentence
	for _, m := range w.called("read_file") {
		if m.failed || !of(m.path) {
			continue
		}
		p := passage{path: m.path}
		for l := range strings.Lines(m.result) {
			num, rest, ok := strings.Cut(strings.TrimRight(l, "\r\n"), "\t")
			if n, err := strconv.Atoi(num); ok && err == nil {
				p.lines = append(p.lines, line{n, rest})
			}
		}
		out = append(out, p.sentences()...)
	}
	return out
}

// found is all that was found by searching.
func (w *worker) found() []sentence {
	var out []sentence
	for _, m := range w.called(searchers()...) {
		if m.failed {
			continue
		}
		for _, p := range passages(m.result) {
			if !hidden(p.path) {
				out = append(out, p.sentences()...)
			}
		}
	}
	files := w.brief.files()
	out = append(out, w.readings(func(path string) bool { return !slices.Contains(files, path) })...)
	for _, h := range w.hits() {
		p := passage{path: h.path, lines: h.pieces}
		if !strings.Contains(h.String(), "…") { // grep cuts long lines
			out = append(out, p.sentences()...)
		}
	}
	known := units(w.brief.known)
	return slices.DeleteFunc(out, func(s sentence) bool {
		return slices.ContainsFunc(known, func(k sentence) bool { return k.String() == s.String() })
	})
}

var keyed = regexp.MustCompile(`^[a-z_][a-z0-9_-]*: `)

// fitting are those sentences that fit the topic, the best first, no two alike.
func (w *worker) fitting(all []sentence) []sentence {
	var each []sentence
	seen := map[string]bool{}
	for _, s := range all {
		if key := s.path + "\x00" + s.String(); !seen[key] {
			seen[key] = true
			each = append(each, s)
		}
	}
	each = slices.DeleteFunc(each, func(s sentence) bool { // the inside of an example whose beginning is out of sight
		return len(s.pieces) > 1 && !slices.ContainsFunc(s.pieces, func(l line) bool { return !keyed.MatchString(l.text) })
	})
	return diverse(newView(w.topic, "").rank(each), mostQuotes)
}

// quotes are what there is to answer with: of what was given, of the files that were named, or of
// what was found.
func (w *worker) quotes() []sentence {
	q, _ := w.evidence()
	return q
}

// evidence is quotes, and whether they are not of the words of the topic but only the first of what
// the agent was to work with.
func (w *worker) evidence() (quotes []sentence, leading bool) {
	about := len(words(w.topic)) > 0
	for _, all := range [][]sentence{w.given, w.named(), w.found()} {
		if fit := w.fitting(all); about && len(fit) > 0 {
			return fit, false
		}
	}
	lead := append(slices.Clone(w.given), w.named()...)
	if !about {
		lead = append(lead, w.found()...)
	}
	for i := range lead {
		lead[i].terms = stems(lead[i].String())
	}
	return diverse(lead, mostQuotes), about
}

// cite is the place of a sentence, "" if it has none.
func (s *sentence) cite() string {
	if s.path == "" || len(s.pieces) == 0 {
		return ""
	}
	from, to := s.pieces[0].n, max(s.to, s.pieces[len(s.pieces)-1].n)
	switch {
	case from == 0:
		return s.path
	case to > from:
		return fmt.Sprintf("%s:%d-%d", s.path, from, to)
	}
	return fmt.Sprintf("%s:%d", s.path, from)
}

// say answers in text: quotes with their places, or that there are none.
func (w *worker) say() string {
	quotes, leading := w.evidence()
	quotes = firstN(quotes, w.most)
	var b strings.Builder
	b.WriteString(preamble + " it quotes, and writes no prose.")
	switch {
	case len(quotes) == 0 && len(w.made) > 0:
		fmt.Fprintf(&b, " The documents say nothing about that in words of the question (%s).\n", strings.Join(firstN(words(w.topic), 10), " "))
	case len(quotes) == 0 && w.offered(append(searchers(), "grep", "read_file")...) != nil:
		b.WriteString(" The task does not say in words that can be searched for what it is about.\n")
	case len(quotes) == 0:
		b.WriteString(" Here it has neither documents to search nor material to quote from. Use --model with a language model for that.\n")
	case leading:
		fmt.Fprintf(&b, " Nothing it was given has the words of the task (%s); this is how that begins.\n", strings.Join(firstN(words(w.topic), 10), " "))
	default:
		b.WriteByte('\n')
	}
	if len(quotes) > 0 {
		b.WriteByte('\n')
	}
	for _, s := range quotes {
		fmt.Fprintf(&b, "- “%s”", s.String())
		if c := s.cite(); c != "" {
			fmt.Fprintf(&b, " (%s)", c)
		}
		b.WriteByte('\n')
	}
	if len(w.brief.gaps) > 0 {
		b.WriteString("\nMissing:\n\n")
		for _, g := range w.brief.gaps {
			b.WriteString("- " + firstOf(g, mostUnit) + "\n")
		}
	}
	return strings.TrimRight(b.String(), "\n")
}
