package offline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// preamble is how answers in text begin.
const preamble = "Offline model:"

// A brief is what an agent is told, taken apart: what it is to do, and the material that comes
// with it. Material is what stands between fences or tags, below headings and below lines that
// end with a colon, and whatever has the form of quotes with their places.
type brief struct {
	asked []string // the question, where it has a section of its own before the material
	head  []string // what is to be done: the lines before the first material
	rest  []string // and those after it, which may be of the material: nothing is searched or read for them
	given []string // the pieces of the material
	known []string // those that are not to be found again
	gaps  []string // what failed before, as the engine says it
	whole bool     // some material stands between fences or tags: it is what to work with
}

var (
	fenceLine   = regexp.MustCompile("^(`{3,}|~{3,})")
	tagLine     = regexp.MustCompile(`^<([A-Za-z][\w-]*)(?: [^<>]*)?>(.*)$`)
	headingLine = regexp.MustCompile(`^#{1,6} +(.+)$`)
	placeHead   = regexp.MustCompile(`^## \S.*:\d+-\d+$`)
	taskHead    = regexp.MustCompile(`(?i)^\W*(?:your |the )?(?:task|instructions?|goals?|what to do|job)\b`)
	askHead     = regexp.MustCompile(`(?i)^\W*(?:your |the )?(?:question|topic|subject|query)\W*$`)
	knownHead   = regexp.MustCompile(`(?i)^(?:known|already.*|before|seen|previous.*|found-before|so-far)$`)
	asideHead   = regexp.MustCompile(`(?i)^\W*(?:your |the )?(?:output|format|style|answer|report|rules?|requirements?|constraints?|limits)\b[^:]*$`)
	labelStart  = regexp.MustCompile(`^[\pL][\pL\pN _-]{0,40}: *(.*)$`)
	failedLine  = regexp.MustCompile(`^Error: step '[^']*' failed: `)
)

// What is read of a prompt, and of the topic in it.
const (
	mostPrompt = 256 << 10 // bytes
	mostLines  = 10000
	mostTags   = 200 // that may be the beginning of a block
	mostAsked  = 500 // bytes
)

// briefOf takes a prompt apart.
func briefOf(prompt string) *brief {
	p := &splitter{brief: &brief{}}
	lines := firstN(strings.Split(strings.ReplaceAll(firstOf(prompt, mostPrompt), "\r\n", "\n"), "\n"), mostLines)
	for i, l := range lines {
		p.line(l, lines[i+1:])
	}
	p.tail = p.fence == "" && p.tag == "" && len(p.open) > 0
	p.flush()
	p.settle()
	return p.brief
}

// splitter goes through the lines of a prompt.
type splitter struct {
	*brief
	fence   string   // what closes the block that is open
	tag     string   // likewise
	old     bool     // what is in it is known
	task    bool     // the tag or the heading is about what to do
	marked  bool     // below a label or a heading: what follows is material
	ask     bool     // below one of the question: what follows is that
	aside   bool     // below one of the form: what follows says little of the subject
	begun   bool     // there was material
	open    []string // the material that is being read
	loose   [][]string
	para    []string // the paragraph that is being read, which is not marked
	certain bool     // some of the material is no accident: fenced, tagged, or quotes
	tags    int      // how many were looked at
	tail    bool     // the last of it goes to the end of the prompt
}

func (p *splitter) line(raw string, rest []string) {
	t := strings.TrimSpace(raw)
	switch {
	case p.fence != "":
		if strings.HasPrefix(t, p.fence) && strings.Trim(t, p.fence[:1]) == "" {
			p.fence = ""
			p.flush()
			return
		}
		p.keep(raw)
	case p.tag != "":
		if t == p.tag {
			p.flush()
			p.tag, p.task, p.ask, p.old = "", false, false, false
			return
		}
		if p.task {
			p.say(t)
			return
		}
		p.keep(raw)
	case p.opens(t, rest):
	case failedLine.MatchString(t):
		p.gaps = append(p.gaps, t)
		p.begun = true
	case strings.HasPrefix(t, preamble): // what this model said in a step before
		p.flush()
		p.marked, p.begun, p.certain = true, true, true
	case cited.MatchString(t), isJSON(t):
		p.certain = true
		p.keep(raw)
	case p.heading(t):
	case strings.HasSuffix(t, ":") && len(t) > 1:
		p.flush()
		p.aside = false
		if p.ask = askHead.MatchString(t); p.ask {
			p.marked = false
			return
		}
		if short := len(strings.Fields(t)) <= 3 && len(p.head) > 0 && !instructs(t); !p.marked && !short {
			p.say(t)
		}
		p.flush()
		p.marked = true
	case p.value(t):
	case p.marked:
		p.open = append(p.open, raw)
	case t == "":
		p.flush()
	default:
		p.say(t)
	}
}

// opens begins a block between fences or tags.
func (p *splitter) opens(t string, rest []string) bool {
	if m := fenceLine.FindString(t); m != "" {
		p.flush()
		p.fence, p.certain, p.whole = m, true, true
		return true
	}
	m := tagLine.FindStringSubmatch(t)
	if m == nil {
		return false
	}
	end := "</" + m[1] + ">"
	asks := askHead.MatchString(m[1])
	about := asks || taskHead.MatchString(m[1])
	if inner, ok := strings.CutSuffix(m[2], end); ok {
		p.flush()
		if about {
			p.ask = asks
			p.say(strings.TrimSpace(inner))
		} else {
			p.certain, p.whole = true, true
			p.keep(inner)
		}
		p.flush()
		return true
	}
	if p.tags++; m[2] != "" || p.tags > mostTags || !slices.ContainsFunc(rest, func(l string) bool { return strings.TrimSpace(l) == end }) {
		return false
	}
	p.flush()
	p.tag, p.task, p.ask, p.old = end, about, asks, knownHead.MatchString(m[1])
	p.certain, p.whole = p.certain || !about, p.whole || !about && !p.old
	return true
}

// heading begins a section, of what to do or of material.
func (p *splitter) heading(t string) bool {
	if placeHead.MatchString(t) { // places as search tools give them
		p.certain, p.marked = true, true
		p.keep(t)
		return true
	}
	m := headingLine.FindStringSubmatch(t)
	if m == nil {
		return false
	}
	p.flush()
	p.ask, p.aside = askHead.MatchString(m[1]), asideHead.MatchString(m[1])
	p.marked = !p.ask && !p.aside && !taskHead.MatchString(m[1]) && (p.marked || len(p.head)+len(p.loose) > 0)
	return true
}

// value takes a line "Label: value" apart whose value is material.
func (p *splitter) value(t string) bool {
	m := labelStart.FindStringSubmatch(t)
	if m == nil || p.marked {
		return false
	}
	v := m[1]
	if !isJSON(v) && !cited.MatchString(v) && !strings.HasPrefix(v, preamble) {
		return false
	}
	p.flush()
	p.marked, p.certain = true, true
	if p.begun = true; !strings.HasPrefix(v, preamble) {
		p.keep(v)
	}
	return true
}

// keep takes a line for material.
func (p *splitter) keep(l string) {
	if len(p.para) > 0 {
		p.flush()
	}
	p.begun = true
	p.open = append(p.open, l)
}

// say takes a line for a part of what is to be done.
func (p *splitter) say(l string) {
	if len(p.open) > 0 {
		p.flush()
	}
	switch {
	case p.ask && !p.begun && l != "":
		if p.asked = append(p.asked, l); p.tag == "" {
			p.ask = false
		}
		return
	case p.ask && l != "":
		l, p.ask = "Question: "+l, false
	}
	p.para = append(p.para, l)
}

func (p *splitter) flush() {
	if text := strings.Trim(strings.Join(p.open, "\n"), "\n"); strings.TrimSpace(text) != "" {
		if p.begun = true; p.old {
			p.known = append(p.known, text)
		} else {
			p.given = append(p.given, text)
		}
	}
	p.open = nil
	switch {
	case len(p.para) == 0:
	case p.begun, p.aside:
		p.rest = append(p.rest, p.para...)
	case len(p.head)+len(p.loose) == 0 || instructs(p.para[0]) || topicLine.MatchString(p.para[0]) || taskLine.MatchString(p.para[0]):
		p.head = append(p.head, p.para...)
	default:
		p.loose = append(p.loose, p.para)
	}
	p.para = nil
}

// The least that is material by its size alone, and what is taken for a topic if it is shorter.
const (
	leastLoose = 400
	mostTopic  = 160
)

// settle decides about what could be either: paragraphs that are not marked, a few words below a
// label, and a last paragraph that tells what to do with what stands above it.
func (p *splitter) settle() {
	size := 0
	for _, l := range p.loose {
		size += len(strings.Join(l, "\n"))
	}
	for _, l := range p.loose {
		if size >= leastLoose {
			p.given = append(p.given, strings.Join(l, "\n"))
		} else {
			p.head = append(p.head, l...)
		}
	}
	if len(p.given) == 0 {
		return
	}
	last := p.given[len(p.given)-1]
	if i := strings.LastIndex(last, "\n\n"); i >= 0 && p.tail && instructs(strings.TrimSpace(last[i:])) {
		p.given[len(p.given)-1] = strings.TrimSpace(last[:i])
		p.rest = append(p.rest, strings.TrimSpace(last[i:]))
	}
	all := strings.Join(p.given, "\n")
	if !p.certain && len(all) <= mostTopic && len((&passage{path: "x.md", lines: numbered(all)}).sentences()) == 0 {
		p.head = append(p.head, strings.Split(all, "\n")...)
		p.given = nil
	}
}

func numbered(text string) []line {
	var out []line
	for l := range strings.SplitSeq(text, "\n") {
		out = append(out, line{len(out) + 1, l})
	}
	return out
}

// instructs reports whether a paragraph begins as an instruction, or is a question.
func instructs(s string) bool {
	if strings.HasSuffix(s, "?") {
		return true
	}
	for w := range strings.FieldsSeq(strings.ToLower(firstOf(s, 60))) {
		w = strings.Trim(w, ".,:;!*")
		if w == "now" || w == "then" || w == "please" || w == "finally" || w == "you" {
			continue
		}
		return imperative(w)
	}
	return false
}

func firstOf(s string, most int) string {
	if len(s) > most {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most]
	}
	return s
}

func isJSON(t string) bool {
	return len(t) > 2 && (t[0] == '[' && strings.ContainsAny(t[1:2], `"{[`) || t[0] == '{' && strings.ContainsAny(t[1:2], `"}`)) && json.Valid([]byte(t))
}

// imperative reports whether a word is a verb that instructions begin with.
func imperative(w string) bool {
	const list = " add advise analyse analyze answer apply argue ask assess avoid be begin browse call challenge check choose cite classify collect combine compare compile compose conclude consider consolidate cover critique deduplicate define describe determine dig discuss do don't draft draw emphasise enumerate evaluate examine explain explore extract fact-check file find focus format gather generate give go grep group hand identify improve include inspect investigate judge keep learn limit list locate look make map merge mention name need never note organise organize outline pick plan point prefer prepare present prioritise prioritize produce propose provide quote rank read reply report research respond retrieve return review revise rewrite save say scan score search see select shorten show sort state stay stick study suggest sum summarise summarize survey synthesise synthesize take tell think translate try use verify weigh work write "
	return strings.Contains(list, " "+w+" ")
}

// formal reports whether a word is about the form of an answer and not about its subject.
func formal(w string) bool {
	const list = " above account accurate angle angles answer answers article aspect aspects based below best bit brief briefing briefly broad bullet bullets citation citations cite cited claim claims clear clearly comprehensive concise concrete conclusion conclusions context couple deep deeply depth detail detailed details document documents draft each evidence exact excerpt excerpts fact facts few file-line final finding findings found following gap gaps good heading headings idea ideas important input insight insights interesting item items json key kind line lines link links list lists main markdown material materials memo most note notes number numbers output outputs overview page pages paragraph paragraphs phrase phrases plain point points precise precisely previous quick quotation quotations question questions quote quotes quoted reference references relevant report reports research result said says stated results section sections sentence sentences several short shortly significant single source sources step steps strong strongest structured sub-questions subagent summary text texts thing things thorough thoroughly three title top topic two four five six seven eight nine ten various word words bulleted numbered one sentence-long use using web "
	return strings.Contains(list, " "+w+" ")
}

// about is a clause about the form of the answer, as a whole.
func about(sentence string) bool {
	low := strings.ToLower(strings.TrimSpace(sentence))
	for _, p := range []string{
		"do not ", "don't ", "never ", "use ", "keep ", "cite ", "be ", "return ", "reply ", "respond ", "answer in ", "answer with ", "answer only", "format ", "say ", "you are ", "stay ",
		"write in ", "no more than ", "at most ", "include ", "quote ", "limit ", "avoid ", "prefer ", "output ",
	} {
		if strings.HasPrefix(low, p) {
			return true
		}
	}
	return false
}

var (
	topicLine = regexp.MustCompile(`(?i)\b(?:question|topic|subject|query)\b[^:]{0,60}:[*_]*\s+(\S.*)$`)
	taskLine  = regexp.MustCompile(`(?i)\b(?:task|goal|job|request)\b[^:]{0,60}:[*_]*\s+(\S.*)$`)
	citation  = regexp.MustCompile(`[(\[][^()\[\]\s]+:\d+(?:-\d+)?[)\]]`)
	clauseEnd = regexp.MustCompile(`[.!?;:](?:\s+|$)|\n`)
)

// topic is what a brief is about, "" if it does not say; and whether that is said behind the material,
// so that the material may have said it.
func (b *brief) topic() (topic string, behind bool) {
	if len(b.asked) > 0 {
		return citation.ReplaceAllString(strings.Join(b.asked, " "), ""), false
	}
	for i, lines := range [][]string{b.head, b.rest} {
		for _, l := range lines {
			if m := topicLine.FindStringSubmatch(l); m != nil {
				return citation.ReplaceAllString(m[1], ""), i > 0
			}
		}
		for _, l := range lines {
			if m := taskLine.FindStringSubmatch(l); m != nil && subject(m[1:]) != "" {
				return subject(m[1:]), i > 0
			}
		}
		if t := subject(lines); t != "" {
			return t, i > 0
		}
	}
	return "", false
}

// subject is what is left of instructions without the words that tell what to do and in what form.
func subject(lines []string) string {
	var out []string
	for i, sentence := range clauseEnd.Split(strings.Join(lines, "\n"), -1) {
		if i > 0 && about(strings.TrimLeft(sentence, " -*•")) {
			continue
		}
		if s := bare(sentence); s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, ". ")
}

// bare is a clause without the words of instructions. What is left has gaps where they stood, so
// that words which were apart stay so.
func bare(clause string) string {
	var out []string
	start, some := true, false
	fields := strings.Fields(clause)
	for i, f := range fields {
		w := strings.ToLower(strings.Trim(f, ".,:;!?()[]\"“”'*_`"))
		_, number := count(w)
		quantity := number && i+1 < len(fields) && formal(strings.ToLower(strings.Trim(fields[i+1], ".,:;!?()[]\"“”'*_`")))
		switch {
		case w == "", start && imperative(w), formal(w), filePath(w), quantity, number && len(w) <= 2:
			out = append(out, "")
		default:
			if len(words(f)) > 0 {
				some = true
			}
			out = append(out, f)
		}
		start = start && (w == "please" || w == "now" || w == "then" || w == "you" || w == "should" || w == "must") || w == "and" || w == "then" || w == "to"
	}
	if !some {
		return ""
	}
	return strings.TrimSpace(strings.Join(out, " "))
}

var howMany = regexp.MustCompile(`(?i)\b(\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten)(?:\s*(?:-|–|—|to|or)\s*(\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten))?\s+(?:\pL+\s+){0,2}?(\pL+s|sentence|quote|point)\b`)

// Quotes in an answer, if nobody says how many, and at most.
const (
	fewQuotes  = 6
	mostQuotes = 20
)

// many is how many quotes a brief asks for.
func (b *brief) many() int {
	for _, m := range howMany.FindAllStringSubmatch(strings.Join(append(slices.Clone(b.head), b.rest...), "\n"), -1) {
		switch strings.ToLower(m[3]) {
		case "words", "minutes", "seconds", "hours", "days", "weeks", "months", "years", "percent", "characters", "tokens", "turns", "times", "pages", "paragraphs", "lines":
			continue
		}
		if !formal(strings.ToLower(m[3])) && !slices.Contains([]string{"risks", "reasons", "options", "questions", "problems", "issues", "examples", "candidates", "arguments", "topics", "directions"}, strings.ToLower(m[3])) {
			continue
		}
		n, _ := count(strings.ToLower(m[1]))
		if k, ok := count(strings.ToLower(m[2])); ok {
			n = max(n, k)
		}
		if n > 0 {
			return min(n, mostQuotes)
		}
	}
	return fewQuotes
}

func count(w string) (int, bool) {
	if i := slices.Index([]string{"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}, w); i >= 0 {
		return i + 1, true
	}
	if a, b, ok := strings.Cut(strings.ReplaceAll(w, "–", "-"), "-"); ok {
		_, x := strconv.Atoi(a)
		n, y := strconv.Atoi(b)
		return n, x == nil && y == nil
	}
	n, err := strconv.Atoi(w)
	return n, err == nil && n >= 0
}

// mostNamed bounds the files that are read because they are named.
const mostNamed = 3

var fileName = regexp.MustCompile(`^(?:[\pL\pN_@.-]+/)*(?:[\pL\pN_@.-]*[\pL\pN_]\.(?i:md|mdx|markdown|txt|text|rst|adoc|org|html?|tex|csv|json|ya?ml|toml|ini|cfg|conf|log|sql|proto|go|py|[jt]sx?|java|[ch]|cc|[ch]pp|cs|rs|rb|php|sh|swift|kt|lua|exs?)|README|LICENSE|CHANGELOG|Makefile|Dockerfile)$`)

func filePath(w string) bool {
	return fileName.MatchString(w) && !strings.Contains(w, "..") && !slices.Contains([]string{"node.js", "vue.js", "next.js", "three.js", "asp.net"}, strings.ToLower(w))
}

// files are those that the head of a brief names. What comes with the material never has a file read.
func (b *brief) files() []string {
	var out []string
	for f := range strings.FieldsSeq(strings.Join(b.head, " ")) {
		f = strings.Trim(f, ",:;!?()[]\"“”'*`")
		f = strings.TrimPrefix(strings.TrimSuffix(f, "."), "./")
		if filePath(f) && !slices.Contains(out, f) && len(out) < mostNamed {
			out = append(out, f)
		}
	}
	return out
}

// queries are the lines "Query: …" of the head, which are searched for as they stand.
func (b *brief) queries() []string { return labelled(strings.Join(b.head, "\n"), "Query:") }
