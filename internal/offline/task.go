package offline

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/words"
)

// A task is a parsed prompt.
type task struct {
	topic   string   // what to look for, "" if the prompt does not say
	words   []string // of the topic
	here    bool     // it is about the folder as a whole
	files   []string // that it names
	asked   bool     // the topic stands between tags of its own, so that the material is what is known already
	given   []passage
	missing []string // earlier steps that failed
}

const (
	longTopic = 300 // bytes; what is longer is material
	mostFiles = 3
	mostTags  = 100
	mostGiven = 1 << 20 // bytes of a prompt that are looked at
)

var (
	openTag  = regexp.MustCompile(`(?m)^[ \t]*<([A-Za-z][\w-]*)>`)
	fence    = regexp.MustCompile("(?m)^(?:```|~~~).*$")
	below    = regexp.MustCompile(`:[*_]*[ \t]*\n\s*`)
	labelled = regexp.MustCompile(`(?im)\b(?:topic|question|subject|query)\b[^:\n]{0,40}:[*_]*[ \t]+(\S.*)$`)
	sentence = regexp.MustCompile(`[.!?](?:\s+|$)|\n\s*\n|\n#+ .*`)
	fileName = regexp.MustCompile(`^(?:[\pL\pN_@-][\pL\pN_@.-]*/)*(?:[\pL\pN_@.-]*[\pL\pN_]\.(?i:md|markdown|txt|rst|adoc|html?|csv|` +
		`json|ya?ml|toml|log|sql|go|py|[jt]sx?|java|[ch]|cc|cpp|cs|rs|rb|sh)|README|LICENSE|CHANGELOG)$`)
)

// read parses a prompt.
func read(prompt string) *task {
	if len(prompt) > mostGiven {
		prompt = strings.ToValidUTF8(prompt[:mostGiven], "")
	}
	t := &task{}
	for range mostTags {
		at := openTag.FindStringSubmatchIndex(prompt)
		if at == nil {
			break
		}
		name, inner, after := prompt[at[2]:at[3]], prompt[at[1]:], ""
		if end := strings.LastIndex(inner, "</"+name+">"); end >= 0 {
			inner, after = inner[:end], inner[end+len(name)+3:]
		}
		prompt = prompt[:at[0]] + "\n\n" + after
		if slices.Contains([]string{"question", "topic", "query", "subject"}, strings.ToLower(name)) && len(inner) <= longTopic {
			t.topic, t.asked = strings.TrimSpace(inner), true
			continue
		}
		t.take(inner)
	}
	if at := fence.FindAllStringIndex(prompt, -1); len(at) > 0 {
		first, last := at[0], at[len(at)-1]
		inner, after := prompt[first[1]:], ""
		if len(at) > 1 {
			inner, after = prompt[first[1]:last[0]], prompt[last[1]:]
		}
		t.take(inner)
		prompt = prompt[:first[0]] + "\n\n" + after
	}
	found, rest := scan(prompt)
	t.given = append(t.given, found...)
	if at := below.FindStringIndex(rest); at != nil && len(found) == 0 &&
		(len(rest)-at[1] > longTopic || strings.Contains(strings.TrimSpace(rest[at[1]:]), "\n\n")) {
		t.take(rest[at[1]:])
		rest = rest[:at[0]+1]
	}
	t.given = once(t.given)
	t.about(rest)
	return t
}

// take reads material: its passages, or else its paragraphs.
func (t *task) take(text string) {
	found, rest := scan(text)
	t.given = append(t.given, found...)
	for part := range strings.SplitSeq(rest, "\n\n") {
		var v any
		part = strings.TrimSpace(part)
		switch {
		case strings.HasPrefix(part, "Error: step "):
			t.missing = append(t.missing, part)
		case (strings.HasPrefix(part, "[") || strings.HasPrefix(part, "{")) && json.Unmarshal([]byte(part), &v) == nil:
			t.value(v)
		case len(found) == 0 && len(stems(part)) > 1 && !strings.HasPrefix(part, "#"):
			t.given = append(t.given, passage{lines: strings.Split(part, "\n")})
		}
	}
}

// value takes the texts out of JSON.
func (t *task) value(v any) {
	switch v := v.(type) {
	case string:
		t.take(strings.TrimLeft(v, "[{ \n")) // and no JSON in it again
	case []any:
		for _, e := range v {
			t.value(e)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			t.value(v[k])
		}
	}
}

// about finds what instructions are about: a labelled topic, else the first question, else the first sentence without the
// words that tell what to do.
func (t *task) about(text string) {
	for f := range strings.FieldsSeq(text) {
		if f = bareFile(f); f != "" && !slices.Contains(t.files, f) && len(t.files) < mostFiles {
			t.files = append(t.files, f)
		}
	}
	topic := t.topic
	if m := labelled.FindStringSubmatch(text); topic == "" && m != nil {
		topic = m[1]
	}
	if at := sentence.FindAllStringIndex(text, -1); topic == "" {
		from, first := 0, ""
		for _, x := range append(at, []int{len(text), len(text)}) {
			s := text[from:x[0]]
			if strings.HasPrefix(text[x[0]:], "?") {
				topic = strip(s, true) + "?"
				break
			}
			if from = x[1]; first == "" || strings.HasSuffix(first, ":") && strip(first, false) == "" {
				first = strings.TrimSpace(s)
			}
		}
		if topic == "" {
			topic = strip(first, false)
		}
	}
	t.topic = strings.Join(strings.Fields(topic), " ")
	if len(t.topic) > longTopic {
		t.topic = strings.ToValidUTF8(t.topic[:longTopic], "")
	}
	all := stems(t.topic)
	t.words = slices.DeleteFunc(slices.Clone(all), func(w string) bool { return slices.Contains(folderWords(), w) })
	if t.here = len(t.words) < len(all); t.here && len(t.files) == 0 {
		t.files = []string{"README.md"}
	}
}

// folderWords are stems that mean all that there is.
func folderWords() []string {
	return stems("project repository repo folder directory codebase documents documentation docs files")
}

func bareFile(word string) string {
	word = strings.Trim(word, ",:;!?()[]\"“”'*`")
	word = strings.TrimPrefix(strings.TrimSuffix(word, "."), "./")
	if !fileName.MatchString(word) || strings.Contains(word, "..") {
		return ""
	}
	return word
}

const instructing = " answer briefly brief cite cited cites collect describe detail details docs explain fact facts find for gather give " +
	"hand into known learn list look matters me please point points quote " +
	"quotes read report reports research say says search sentence sentences source sources summarise summarize summary show tell text write " +
	"page topic this question following below key main important two three four five bullet "

// strip removes instruction words from the beginning of a sentence, and file names anywhere in it.
func strip(s string, question bool) string {
	var out []string
	for f := range strings.FieldsSeq(s) {
		w := strings.ToLower(strings.Trim(f, ".,:;!?()[]\"“”'*_`#-"))
		if bareFile(f) != "" || len(out) == 0 && (w == "" || words.IsPlain(w) && !question || strings.Contains(instructing, " "+w+" ")) {
			continue
		}
		out = append(out, f)
	}
	return strings.Join(out, " ")
}
