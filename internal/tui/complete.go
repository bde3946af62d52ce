package tui

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/transcript"
)

const (
	offeredAtOnce = 8
	mostOffered   = 100
	freshFor      = 2 * time.Second // how long the catalog and the list of files are not read again
)

// An offer is a word that may complete what is typed.
type offer struct {
	text  string // that is inserted, with its sign
	name  string // that is matched
	kind  string // command, workflow, agent, skill or file
	about string
	ready bool // nothing needs to follow: Enter carries it out
}

// popup is the list of completions above the composer.
type popup struct {
	from   int // where the completed word begins, in bytes of the text before the cursor
	word   string
	offers []offer
	sel    int
	closed string // the word for which it was closed
}

// token returns the word before the cursor that can be completed, with its sign, and where it begins.
func token(before string) (word string, from int) {
	from = strings.LastIndexAny(before, " \t\n") + 1
	word = before[from:]
	switch {
	case strings.HasPrefix(word, "@"):
		return word, from
	case strings.HasPrefix(word, "/") && strings.TrimSpace(before[:from]) == "" && !strings.Contains(word[1:], "/"):
		return word, from
	}
	return "", 0
}

// score rates how well a word fits a name, higher is better, 0 if it does not.
func score(word, name string) int {
	word, name = strings.ToLower(word), strings.ToLower(name)
	base := path.Base(name)
	switch {
	case word == "":
		return 1
	case name == word:
		return 7
	case strings.HasPrefix(name, word):
		return 6
	case strings.HasPrefix(base, word):
		return 5
	case strings.Contains(base, word):
		return 4
	case strings.Contains(name, word):
		return 3
	}
	rest := word
	for _, r := range name {
		first := []rune(rest)[0]
		if r == first {
			if rest = rest[len(string(first)):]; rest == "" {
				return 2
			}
		}
	}
	return 0
}

// match returns the offers that fit a word, the best first. Offers of one rating keep their order.
func match(word string, all []offer) []offer {
	type rated struct {
		offer
		score int
	}
	var out []rated
	for _, o := range all {
		if s := score(word, o.name); s > 0 {
			out = append(out, rated{o, s})
		}
	}
	slices.SortStableFunc(out, func(a, b rated) int { return b.score - a.score })
	list := make([]offer, 0, min(len(out), mostOffered))
	for _, o := range out[:min(len(out), mostOffered)] {
		list = append(list, o.offer)
	}
	return list
}

// named lists what a slash can be followed by: commands before workflows, agents and skills. Of several with one name the first is meant, and its
// description names the others.
func (t *Terminal) named() []offer {
	var out []offer
	at := map[string]int{}
	add := func(o offer) {
		key := strings.ToLower(o.name)
		if i, taken := at[key]; taken {
			if out[i].kind != o.kind {
				out[i].about += " (there is also the " + o.kind + " " + o.name + ")"
			}
			return
		}
		at[key] = len(out)
		o.text = "/" + o.name
		out = append(out, o)
	}
	for _, c := range commands() {
		add(offer{name: c.name, kind: "command", about: strings.TrimSpace(c.args + "  " + c.about), ready: c.args == "" || strings.HasPrefix(c.args, "[")})
	}
	if t.catalog == nil {
		return out
	}
	for _, x := range []struct {
		kind  string
		items []host.Item
	}{{"workflow", t.catalog.Workflows}, {"agent", t.catalog.Agents}, {"skill", t.catalog.Skills}} {
		for i := range x.items {
			if item := &x.items[i]; usable(item) {
				add(offer{name: item.Name, kind: x.kind, about: transcript.Line(item.Description)})
			}
		}
	}
	for _, line := range t.prompts {
		if name, about, _ := strings.Cut(line, " "); strings.HasPrefix(name, "/mcp__") {
			add(offer{name: name[1:], kind: "prompt", about: transcript.Line(about)})
		}
	}
	return out
}

// usable reports whether an item can be started or named.
func usable(i *host.Item) bool { return i.State == "" || i.State == "usable" }

// mentions lists what an at sign can be followed by: the agents of the shown run, those of the catalog, and files.
func (t *Terminal) mentions() []offer {
	var out []offer
	seen := map[string]bool{}
	add := func(name, kind, about string) {
		if name != "" && !strings.ContainsAny(name, " \t\n") && !seen[name] {
			seen[name] = true
			out = append(out, offer{text: "@" + name, name: name, kind: kind, about: about})
		}
	}
	if t.run != nil {
		for _, task := range t.run.run.Active() {
			for _, a := range task.Agents {
				add(transcript.Line(a.Name), "agent", "runs: "+task.Label())
			}
		}
	}
	if t.catalog != nil {
		for i := range t.catalog.Agents {
			if item := &t.catalog.Agents[i]; usable(item) {
				add(item.Name, "agent", transcript.Line(item.Description))
			}
		}
	}
	for _, f := range t.compose.files {
		add(f, "file", "")
	}
	return out
}

// offer brings the list of completions up to date with what is typed, and has what it needs read anew.
func (c *composer) offer() tea.Cmd {
	before := c.before()
	word, from := token(before)
	p := &c.popup
	if word == "" || word == p.closed {
		if word == "" {
			p.closed = ""
		}
		p.offers = nil
		return nil
	}
	p.closed = ""
	if word != p.word || p.offers == nil {
		p.sel = 0
	}
	p.word, p.from = word, from
	if word[0] == '/' {
		p.offers = match(word[1:], c.t.named())
		if now := c.t.opt.Now(); now.Sub(c.lookedAt) > freshFor {
			c.lookedAt = now
			return c.t.lookCatalog()
		}
		return nil
	}
	p.offers = match(word[1:], c.t.mentions())
	return c.readFiles()
}

// readFiles lists the files of the folder in the background, unless that was done a moment ago.
func (c *composer) readFiles() tea.Cmd {
	t := c.t
	if t.catalog == nil || t.catalog.Files == nil || c.reading || t.opt.Now().Sub(c.filesAt) < freshFor {
		return nil
	}
	c.reading = true
	list := t.catalog.Files
	return func() tea.Msg {
		files, err := list(t.ctx)
		return doneMsg{func() {
			c.reading, c.filesAt = false, t.opt.Now()
			if err != nil && len(files) == 0 {
				t.fail(err)
				return
			}
			for i, f := range files {
				files[i] = transcript.Line(f)
			}
			c.files = files
			if c.completing() || strings.HasPrefix(c.popup.word, "@") {
				sel := c.popup.sel
				c.offer()
				c.popup.sel = min(sel, max(0, len(c.popup.offers)-1))
			}
		}}
	}
}

// accept inserts the selected completion, and reports whether nothing more needs to be typed.
func (c *composer) accept() (ready bool) {
	p := &c.popup
	o := p.offers[p.sel]
	before := c.before()
	text := c.area.Value()
	rest := text[len(before):]
	space := " "
	if strings.HasPrefix(rest, " ") {
		space = ""
	}
	c.area.SetValue(before[:p.from] + o.text + space)
	c.area.MoveToEnd()
	line, col := c.area.Line(), c.area.Column()
	if rest != "" {
		c.area.InsertString(rest)
		c.moveTo(line, col)
	}
	p.offers, p.word, p.closed = nil, "", ""
	return o.ready && strings.TrimSpace(rest) == "" && strings.TrimSpace(before[:p.from]) == ""
}

// exact reports whether the typed word is the selected completion already.
func (p *popup) exact() bool {
	return strings.EqualFold(p.offers[p.sel].text, p.word)
}

// moves selects another offer if the key does that.
func (p *popup) moves(k tea.KeyPressMsg) bool {
	n := len(p.offers)
	switch k.String() {
	case "up":
		p.sel = (p.sel + n - 1) % n
	case "down":
		p.sel = (p.sel + 1) % n
	default:
		return false
	}
	return true
}

// lines draws the offers, of which there is one at least, in at most h lines, of which there is one at least.
func (p *popup) lines(pal Palette, w, h int) []string {
	h = min(h, len(p.offers))
	first := max(0, min(p.sel-h/2, len(p.offers)-h))
	wide := 0
	for _, o := range p.offers[first : first+h] {
		wide = max(wide, ansi.StringWidth(o.text))
	}
	wide = min(wide, max(12, w*2/3))
	out := make([]string, 0, h)
	for i := first; i < first+h; i++ {
		o := p.offers[i]
		mark, name := "   ", padded(cut(o.text, wide), wide)
		about := cmp.Or(strings.TrimSpace(o.kind+"  "+o.about), o.kind)
		if i == p.sel {
			mark, name = " ▸ ", pal.Bold(name)
		}
		out = append(out, mark+name+"  "+pal.Dim(cut(about, max(0, w-wide-6))))
	}
	return out
}
