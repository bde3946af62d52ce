package research

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/docindex"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/toolnames"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// These are the numbers of passages used from a search for the question, and from a search for a
// direction.
const (
	broadPassages  = 10
	narrowPassages = 4
)

// queries returns the question itself and the names in it, if any: words written like identifiers or paths.
func queries(question string) []string {
	var names []string
	words := strings.Fields(question)
	for i, w := range words {
		w = strings.TrimFunc(w, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		inner := strings.IndexFunc(w, func(r rune) bool { return strings.ContainsRune("._/:", r) }) > 0
		if upper := strings.IndexFunc(w[min(1, len(w)):], unicode.IsUpper) >= 0; inner || upper || strings.ContainsRune(words[i], '`') {
			names = append(names, w)
		}
	}
	return plan{[]string{question, strings.Join(names, " ")}}.clean()
}

// A look is the record of a search.
type look struct {
	Text     string    `json:"text"` // for users: the places found
	Findings []finding `json:"findings,omitempty"`
	Missing  []string  `json:"missing,omitempty"`
	Answered bool      `json:"answered,omitempty"`
	Files    int       `json:"files,omitempty"`  // that were searched
	Left     string    `json:"left,omitempty"`   // what was left out of them
	Said     string    `json:"said,omitempty"`   // the search service's own answer
	Failed   string    `json:"failed,omitempty"` // why the web could not be searched
}

// look searches, as an effect of the task, with the tool of that name: the documents, but for one file, or the web.
func (r *researcher) look(ctx context.Context, t *graph.Task, s *state, name, query string, limit int, but string) (look, error) {
	hash, err := journal.Hash(query)
	if err != nil {
		return look{}, err
	}
	e := &journal.Effect{
		Key: name + " " + hash, Kind: "tool", Name: name, Hash: hash, Input: map[string]string{"query": query},
		Repeat: journal.RepeatFreely, Cost: runlog.Amount{Calls: 1},
	}
	return journal.Do(ctx, t.Scope().Reuse(), e, func(ctx context.Context, _ string) (l look, err error) {
		if name == "web_search" {
			l, err = r.lookOnWeb(ctx, t, query)
		} else {
			l, err = r.lookInDocs(ctx, t, s, query, limit, but)
		}
		var places []string
		for i := range l.Findings {
			l.Findings[i].Query = query
			places = append(places, l.Findings[i].place())
		}
		l.Text = strings.Join(places, "\n")
		return l, err
	})
}

func (r *researcher) lookInDocs(ctx context.Context, t *graph.Task, s *state, query string, limit int, but string) (look, error) {
	docs, _, err := r.open(ctx, t, s)
	if err != nil {
		return look{}, err
	}
	reads, err := r.reads(s)
	if err != nil {
		return look{}, err
	}
	may := reads("search_docs", "")
	found, err := docs.Search(ctx, query, limit, func(path string) bool { return path != but && may(path).Decision == tool.Allow })
	if err != nil {
		return look{}, err
	}
	l := look{Missing: found.Missing, Answered: found.Answered, Files: docs.Stats().Files, Left: leftOut(docs.Stats().Left)}
	for _, p := range found.Passages {
		l.Findings = append(l.Findings, finding{Score: p.Score, Passage: passage(p)})
	}
	return l, nil
}

// passage returns one that the index found, without lines at its ends that only mark a comment, and
// without the heading of a group of declarations, which says nothing.
func passage(p docindex.Passage) Passage {
	lines := make([]string, p.End-p.Start+1)
	for _, line := range p.Lines {
		lines[line.N-p.Start] = line.Text
	}
	for len(lines) > 1 && !strings.ContainsFunc(lines[len(lines)-1], telling) {
		lines = lines[:len(lines)-1]
	}
	for len(lines) > 1 && !strings.ContainsFunc(lines[0], telling) {
		p.Start, lines = p.Start+1, lines[1:]
	}
	switch p.Heading {
	case "var", "const", "type", "import":
		p.Heading = ""
	}
	return Passage{p.Path, p.Start, p.Start + len(lines) - 1, p.Heading, strings.Join(lines, "\n"), p.Copies}
}

// telling reports whether a character is neither white space nor part of a comment or heading mark.
func telling(r rune) bool { return !strings.ContainsRune(" \t/*#", r) }

// mostOfPage is how many bytes of a page are quoted.
const mostOfPage = 600

// lookOnWeb searches the web.
func (r *researcher) lookOnWeb(ctx context.Context, t *graph.Task, query string) (look, error) {
	web, err := r.web(t)
	if web == nil || err != nil {
		return look{}, err
	}
	args, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		return look{}, err
	}
	text, err := web.Run(ctx, &tool.Call{Args: args, Run: t.Scope().Run()})
	if err != nil && ctx.Err() == nil {
		return look{Failed: err.Error()}, nil
	}
	return pages(query, text), err
}

// pages selects from each found page the paragraph with the most significant words of the query, and puts the page with the best paragraph first. A
// paragraph counts as an answer if it has half of these words, and at least two if there are two.
func pages(query, text string) (l look) {
	words := docindex.Words(query)
	head, _, _ := strings.Cut("\n"+text, "\n## ")
	if said, ok := strings.CutPrefix(strings.TrimSpace(head), toolnames.ServiceAnswer); ok {
		l.Said = oneLine(said)
	}
	for page := range strings.SplitSeq("\n"+text, "\n## ") {
		lines := strings.Split(page, "\n")
		if len(lines) < 3 || !strings.Contains(lines[0], "://") {
			continue
		}
		best, most := "", 0
		for p := range strings.SplitSeq(strings.Join(lines[2:], "\n"), "\n\n") {
			if n := shared(words, p); n > most {
				best, most = oneLine(p), n
			}
		}
		l.Answered = l.Answered || most > 0 && 2*most >= len(words) && most >= min(2, len(words))
		if len(best) > mostOfPage {
			best = strings.ToValidUTF8(best[:mostOfPage], "")
			best = best[:max(strings.LastIndexByte(best, ' '), 0)]
		}
		if best != "" {
			p := Passage{Path: strings.TrimSpace(lines[0]), Heading: oneLine(lines[1]), Text: best}
			l.Findings = append(l.Findings, finding{Score: float64(most) / float64(len(words)), Passage: p})
		}
	}
	slices.SortStableFunc(l.Findings, func(a, b finding) int { return cmp.Compare(b.Score, a.Score) })
	return l
}

// shared returns how many words of a query occur in a text. The words are in the form of
// docindex.Words.
func shared(query []string, text string) (n int) {
	has := docindex.Words(text)
	for _, w := range query {
		if slices.Contains(has, w) {
			n++
		}
	}
	return n
}

// scout returns the explorer without a language model: its findings become the directions. A
// question that the documents do not answer has none.
func (r *researcher) scout(ctx context.Context, t *graph.Task, s *state) (update, error) {
	var u update
	add := func(name, query string) error {
		l, err := r.look(ctx, t, s, name, query, broadPassages, "")
		if u.Searches++; u.Searches == 1 || !u.Answered {
			u.Answered, u.Missing, u.Files = l.Answered, append(u.Missing, l.Missing...), u.Files+l.Files
			u.Left = cmp.Or(u.Left, l.Left)
		}
		u.Findings, u.Said, u.Failed = append(u.Findings, l.Findings...), l.Said, l.Failed
		return err
	}
	if s.Docs != "" {
		for _, q := range s.Queries[:min(len(s.Queries), s.Max-1)] {
			if err := add("search_docs", q); err != nil {
				return update{}, err
			}
			if !u.Answered {
				break
			}
		}
	}
	u.Checked = u.Searches
	if u.Answered {
		return u.directed(), nil
	}
	u.Enough = true
	if web, err := r.web(t); err != nil {
		return update{}, err
	} else if web != nil { // one search, which costs money
		near := u.Findings
		u.Findings = nil
		if err := add("web_search", s.Queries[0]); err != nil {
			return update{}, err
		}
		if u.Web = u.Failed == ""; u.Findings == nil {
			u.Findings = near
		}
	}
	if !u.Answered {
		return u, nil
	}
	return u.directed(), nil
}

// directed returns the update with its findings as directions.
func (u update) directed() update {
	for i := range u.Findings {
		f := &u.Findings[i]
		topic := f.topic()
		if bare.MatchString(topic) {
			continue
		}
		if len(u.Directions) < mostDirections && !slices.ContainsFunc(u.Directions, func(d direction) bool { return strings.EqualFold(d.Topic, topic) }) {
			f.Direction = key(len(u.Directions), topic)
			u.Directions = append(u.Directions, direction{Key: f.Direction, Topic: topic, Path: f.Path})
		}
	}
	return u
}

var symbol = regexp.MustCompile(`^(?:func|type|const|var) (?:\([^)]*\) )?([\pL_][\pL\pN_]*)`)

// bare are topics that every file of code has.
var bare = regexp.MustCompile(`^(?:package [\pL_][\pL\pN_]*|const|var|type|import|func|class|def|main)$`)

// topic returns the symbol or section that contains a passage, or else the file.
func (p *Passage) topic() string {
	if m := symbol.FindStringSubmatch(p.Heading); m != nil {
		return m[1]
	}
	return cmp.Or(p.Heading, p.Path)
}

// lookInto returns a researcher without a language model. It searches other files once for the
// terms shared by the question and the direction.
func (r *researcher) lookInto(ctx context.Context, t *graph.Task, s *state, job *assignment) (update, error) {
	d := job.Direction
	u := update{Directions: []direction{{Key: d.Key}}}
	q := oneLine(s.Question) + " " + d.Topic
	if s.searched(q) {
		return u, nil
	}
	l, err := r.look(ctx, t, s, "search_docs", q, narrowPassages, d.Path)
	u.Searches, u.Directions[0].Searched = 1, []string{q}
	for _, f := range l.Findings {
		f.Direction = d.Key
		u.Findings = append(u.Findings, f)
	}
	return u, err
}

const (
	mostMore  = 4  // passages besides the answer
	mostNext  = 3  // places to look next
	moreLines = 8  // of a passage besides the answer
	fewLines  = 3  // for less a passage is not cut
	mostLines = 40 // of all passages, with what stands around them
)

// extract writes the brief without a language model, from unchanged passages.
func (s *state) extract() (string, []Passage) {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", oneLine(s.Question))
	if !s.Answered || len(s.Findings) == 0 {
		return s.abstain(&b)
	}
	quoted, rest := s.choose()
	if s.Web && s.Docs != "" {
		b.WriteString("The documents do not answer this; the web does:\n\n")
	}
	b.WriteString("## Answer\n\n")
	quoted[0].quote(&b, 1)
	b.WriteString(s.agreement(&quoted[0].Passage))
	s.unverified(&b)
	var out []Passage
	for i := range quoted {
		if i == 1 {
			b.WriteString("## More\n\n")
		}
		if i > 0 {
			quoted[i].quote(&b, i+1)
		}
		out = append(out, quoted[i].Passage)
	}
	if len(rest) > 0 {
		b.WriteString("## Where to look next\n\n")
		for _, f := range rest {
			fmt.Fprintf(&b, "- %s%s\n", f.at(), about(&f.Passage))
		}
		b.WriteByte('\n')
	}
	b.WriteString("## Sources\n\n")
	for i := range out {
		b.WriteString(out[i].source(i + 1))
	}
	s.foot(&b)
	return b.String(), out
}

// abstain returns the answer that the sources do not answer the question, with the searched sources.
func (s *state) abstain(b *strings.Builder) (string, []Passage) {
	failed := ""
	if s.Failed != "" {
		failed = "The web could not be searched: " + shown(strings.TrimRight(s.Failed, ".\n")) + "."
	}
	switch {
	case s.Docs == "" && failed != "":
		b.WriteString(failed)
		failed = ""
	case s.Docs == "":
		b.WriteString(none(s) + "\n\nSearched: the web.")
	default:
		fmt.Fprintf(b, "%s\n\nSearched: %s in %s", none(s), inwords.Plural(s.Files, "file"), shown(s.Docs))
		if s.Web {
			b.WriteString(" and the web")
		}
		b.WriteString(s.Left + ".")
	}
	if failed != "" {
		b.WriteString(" " + failed)
	}
	if len(s.Missing) > 0 {
		fmt.Fprintf(b, " No document has: %s.", strings.Join(s.Missing, ", "))
	}
	b.WriteString("\n\n")
	var near []Passage
	if len(s.Findings) > 0 {
		f := s.Findings[0]
		b.WriteString("## Nearest passage\n\nIt does not answer the question.\n\n")
		f.quote(b, 0)
		near = []Passage{f.Passage}
	}
	s.unverified(b)
	s.foot(b)
	return b.String(), near
}

// unverified writes the search service's own answer.
func (s *state) unverified(b *strings.Builder) {
	if s.Said != "" {
		fmt.Fprintf(b, "*Not verified*, the search service's own answer:\n> %s\n\n", shown(s.Said))
	}
}

// none returns the first line of a brief that does not answer.
func none(s *state) string {
	if s.Docs == "" {
		return "The web search does not answer this."
	}
	return "The documents do not answer this."
}

// choose divides the findings into quotes, the answer first, and places to look next. Of what the question itself found
// the order is kept for all but the last; one passage of a file is enough.
func (s *state) choose() (quoted, rest []finding) {
	all := slices.Clone(s.Findings)
	first := 0
	for i, f := range all {
		if f.Query == s.Queries[0] && first < mostMore && (first == 0 || !slices.ContainsFunc(all[:first], func(o finding) bool { return o.Path == f.Path })) {
			all = slices.Insert(slices.Delete(all, i, i+1), first, f)
			first++
		}
	}
	slices.SortStableFunc(all[first:], func(a, b finding) int { return cmp.Compare(b.Score, a.Score) })
	left := mostLines
	for _, f := range all {
		around := 3 // its place, an empty line, and the source
		if fenced(&f.Passage) != "" {
			around += 2
		}
		worse := f.Score < all[0].Score/2 && f.Score < 0.5
		known := func(o finding) bool { return o.Path == f.Path }
		switch {
		case len(quoted) == 0 || len(quoted) <= mostMore && left >= around+fewLines && !worse && !slices.ContainsFunc(quoted, known):
			if len(quoted) > 0 {
				f.Passage = f.cut(min(moreLines, left-around), s.Question)
			}
			left -= around + strings.Count(f.Text, "\n") + 1
			quoted = append(quoted, f)
		case len(rest) < mostNext && !slices.ContainsFunc(rest, func(o finding) bool { return o.Path == f.Path && o.Heading == f.Heading }):
			rest = append(rest, f)
		}
	}
	return quoted, rest
}

// cut returns the n lines of a passage with the most words of the question, starting at the beginning of a sentence or paragraph.
func (p Passage) cut(n int, question string) Passage {
	lines := strings.Split(p.Text, "\n")
	if len(lines) <= n {
		return p
	}
	best, most, words := 0, -1, docindex.Words(question)
	for i := 0; i+n/2 <= len(lines); i++ {
		begins := i == 0 || docindex.Ends(lines[i-1]) || !strings.ContainsFunc(lines[i-1], telling)
		if has := shared(words, strings.Join(lines[i:min(i+n, len(lines))], "\n")); begins && strings.ContainsFunc(lines[i], telling) && has > most {
			best, most = i, has
		}
	}
	lines = lines[best:min(best+n, len(lines))]
	for len(lines) > 1 && !strings.ContainsFunc(lines[len(lines)-1], telling) {
		lines = lines[:len(lines)-1]
	}
	p.Start += best
	p.End = p.Start + len(lines) - 1
	p.Text = strings.Join(lines, "\n")
	return p
}

// negation matches words that negate a text.
var negation = regexp.MustCompile(`(?i)\b(?:not|never|none|neither|nor|no|cannot|without)\b|n['’]t\b`)

// leastStatement is how many words beyond the question's own a passage needs to count as a statement.
const leastStatement = 4

// says reports whether another text is nearly the same statement: it has three fifths of its words but those of the question,
// its numbers, and denies something if this does.
func (s *state) says(answer, other string) bool {
	asked, has, all, both := docindex.Words(s.Question), docindex.Words(other), 0, 0
	for _, w := range docindex.Words(answer) {
		switch {
		case slices.Contains(asked, w):
		case slices.Contains(has, w):
			all, both = all+1, both+1
		case w[0] <= '9':
			return false
		default:
			all++
		}
	}
	return all >= leastStatement && 5*both >= 3*all && negation.MatchString(answer) == negation.MatchString(other)
}

// agreement names the other files that state nearly the same as the answer. Identical text in another file counts as a copy.
func (s *state) agreement(answer *Passage) string {
	var files []string
	for _, f := range s.Findings {
		if f.Path != answer.Path && f.Text != answer.Text && !slices.Contains(files, span(f.Path)) && s.says(answer.Text, f.Text) {
			files = append(files, span(f.Path))
		}
	}
	switch {
	case files != nil:
		return fmt.Sprintf("*Agreement*: stated in %s: %s.\n\n", inwords.Plural(len(files), "other file"), strings.Join(files, ", "))
	case len(answer.Copies) > 0:
		return "*Agreement*: only copies of the same text were found.\n\n"
	}
	return "*Agreement*: no other file found that says the same.\n\n"
}

// leftOut returns how many files an index left out, by why; "" if none.
func leftOut(left map[string]int) string {
	var out []string
	for _, why := range slices.Sorted(maps.Keys(left)) {
		if n := left[why]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, why))
		}
	}
	if out == nil {
		return ""
	}
	return "; left out: " + strings.Join(out, ", ")
}

// shown returns a name on one line, without what could drive a terminal.
func shown(name string) string {
	return strings.NewReplacer("\n", "�", "\t", " ").Replace(clean.Text(name))
}

// span returns a name as code, in which nothing is interpreted.
func span(name string) string {
	name = shown(name)
	if !strings.Contains(name, "`") {
		return "`" + name + "`"
	}
	fence := fence("``", name)
	return fence + " " + name + " " + fence
}

// fence returns a code fence that does not occur in a text, with a minimum length.
func fence(least, text string) string {
	for strings.Contains(text, least) {
		least += "`"
	}
	return least
}

var special = regexp.MustCompile("[\\\\`*_\\[\\]<>]")

// heading returns the heading of a passage: formatted as code for code, otherwise escaped.
func (p *Passage) heading() string {
	if lang := fenced(p); lang != "" && lang != "text" {
		return span(p.Heading)
	}
	return special.ReplaceAllString(shown(p.Heading), `\$0`)
}

// at returns the place of a passage as a brief writes it.
func (p *Passage) at() string {
	if p.Start == 0 {
		return shown(p.place()) // an address
	}
	return span(p.place())
}

// about returns the symbol or section of a passage, to be printed after its position.
func about(p *Passage) string {
	if p.Heading == "" {
		return ""
	}
	return " — " + p.heading()
}

// source returns the line of a passage in the list of sources.
func (p *Passage) source(n int) string {
	return fmt.Sprintf("[%d] %s%s%s\n", n, p.at(), about(p), p.also())
}

// also names the copies of a passage.
func (p *Passage) also() string {
	if len(p.Copies) == 0 {
		return ""
	}
	return fmt.Sprintf(" (also in %s)", shown(strings.Join(p.Copies, ", ")))
}

// quote writes a passage: its heading, its position, and its unchanged lines. Only Markdown in them is interpreted.
func (p *Passage) quote(b *strings.Builder, n int) {
	lang := fenced(p)
	if p.Heading != "" {
		h := p.heading()
		if lang == "" || lang == "text" {
			h = "**" + h + "**"
		}
		b.WriteString(h + " · ")
	}
	b.WriteString(p.at())
	if n > 0 {
		fmt.Fprintf(b, " [%d]", n)
	}
	b.WriteString("\n")
	if lang != "" {
		fence := fence("```", p.Text)
		fmt.Fprintf(b, "%s%s\n%s\n%s\n\n", fence, lang, p.Text, fence)
		return
	}
	for l := range strings.SplitSeq(p.Text, "\n") {
		b.WriteString(strings.TrimRight("> "+l, " ") + "\n")
	}
	b.WriteByte('\n')
}

// fenced returns the language in which a passage is put between fences: "text" for what is neither
// Markdown nor code, "" for Markdown, which is quoted as it is.
func fenced(p *Passage) string {
	name := strings.TrimSuffix(strings.ToLower(p.Path), ".gz")
	switch ext := path.Ext(name); ext {
	case ".md", ".markdown", ".mdx":
		if p.Start > 0 && !strings.Contains(p.Text, "\r") { // which ends a line, so that the next would be no quote
			return ""
		}
	case ".go", ".py", ".js", ".ts", ".rs", ".java", ".c", ".h", ".cpp", ".sh", ".rb", ".php", ".sql", ".json", ".yaml", ".toml", ".css":
		if p.Start > 0 {
			return ext[1:]
		}
	}
	return "text"
}

// foot writes the last line, a summary of the searches.
func (s *state) foot(b *strings.Builder) {
	fmt.Fprintf(b, "\n---\n\n%d of %d searches", s.Searches, s.Max)
	if s.Dropped > 0 {
		fmt.Fprintf(b, " · %s dropped, not found in its source", inwords.Plural(s.Dropped, "quote"))
	}
	fmt.Fprintf(b, " · model %s\n", s.Model)
}
