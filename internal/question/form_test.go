package question

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
)

const detailsForm = `{"type":"object","required":["tone","pages"],"properties":{
	"tone":{"type":"string","enum":["plain","formal"],"description":"how it sounds"},
	"pages":{"type":"integer"},"draft":{"type":"boolean","default":true},
	"tags":{"type":"array"},"level":{"type":"integer","enum":[10,20]},"score":{"type":"number"},"more":{"type":"object"}},"additionalProperties":false}`

func TestForm(t *testing.T) {
	t.Parallel()
	f := FormOf(json.RawMessage(detailsForm))
	var names []string
	for _, x := range f {
		names = append(names, x.Name)
	}
	if got := strings.Join(names, " "); got != "tone pages draft tags level score more" {
		t.Errorf("the order is lost: %s", got)
	}
	q := &runlog.Question{Key: "answer", Schema: json.RawMessage(detailsForm)}
	if _, err := Fit(q, f.Example()); err != nil {
		t.Errorf("the example %s does not fit: %v", f.Example(), err)
	}
	if got := f.Lines()[0]; got != "tone   one of plain, formal (required): how it sounds" {
		t.Errorf("%q", got)
	}
	if got := f.Lines()[2]; got != "draft  true or false (default true)" {
		t.Errorf("%q", got)
	}
	for answer, want := range map[string]string{
		`{"pages":"x"}`:                          `tone is missing; pages: want a whole number, got "x"`,
		`{"pages":2.5,"tone":"plain"}`:           `pages: want a whole number, got 2.5`,
		`{"pages":2,"tone":"loud"}`:              `tone: want one of plain, formal, got "loud"`,
		`{"pages":2,"tone":"plain","paegs":1}`:   `there is no field "paegs", did you mean "pages"?`,
		`{"pages":2,"tone":"plain","tags":"x"}`:  `tags: want a list, got "x"`,
		`{"pages":2,"tone":"plain","level":15}`:  `level: want one of 10, 20, got 15`,
		`{"pages":2,"tone":"plain","more":null}`: `more: want a JSON object, got null`,
		`three pages`:                            `want a JSON object such as {"tone":"plain","pages":1,"draft":true,"tags":[],"level":10,"score":1,"more":{}}, got "three pages"`,
		`[1]`:                                    `want a JSON object such as {"tone":"plain","pages":1,"draft":true,"tags":[],"level":10,"score":1,"more":{}}, got [1]`,
		`{"pages":"` + strings.Repeat("y", 100) + `","tone":"plain"}`: `pages: want a whole number, got "` + strings.Repeat("y", 60) + `…"`,
	} {
		if _, err := Fit(q, answer); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", answer, err, want)
		}
	}
	for _, none := range []string{``, `{}`, `{"type":"string"}`, `{"type":["object"],"properties":{"a":{}}}`, `{"type":"object","properties":{}}`, `{"type":"object","properties":[1]}`, `x`} {
		if got := FormOf(json.RawMessage(none)); len(got) > 0 {
			t.Errorf("%s: %v", none, got)
		}
	}
	if got := f.With(json.RawMessage(`{"pages":7}`))[1].Default; string(got) != "7" || len(f[1].Default) > 0 {
		t.Errorf("default %s, and of the form itself %s", got, f[1].Default)
	}
}

func TestFormFieldRead(t *testing.T) {
	t.Parallel()
	f := FormOf(json.RawMessage(detailsForm))
	for _, c := range []struct {
		field      int
		line, want string // "" for what is refused
	}{
		{0, "2", `"formal"`}, {0, "plain", `"plain"`}, {0, "3", ""}, {0, "loud", ""},
		{1, "7", "7"}, {1, "x", ""}, {1, "1.5", ""}, {1, `"7"`, ""},
		{2, "Yes", "true"}, {2, "n", "false"}, {2, "perhaps", ""},
		{3, "a, b", `["a","b"]`}, {3, `[1,2]`, `[1,2]`}, {3, `[1,`, ""},
		{4, "20", "20"}, {4, "2", "20"}, {4, "3", ""},
		{5, "1.5", "1.5"}, {5, "much", ""}, {6, `{"a":1}`, `{"a":1}`}, {6, "a", ""},
	} {
		v, err := f[c.field].Read(c.line)
		if string(v) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s %q: %s, %v", f[c.field].Name, c.line, v, err)
		}
	}
}

// A form of an MCP server is declined with a word, by whichever means, and what it needs counts only if it is accepted.
func TestFormDeclined(t *testing.T) {
	t.Parallel()
	const server = `{"type":"object","properties":{"decision":{"type":"string","enum":["accept","decline"]},"seat":{"type":"integer"},"meal":{"type":"string"}},"required":["decision"],
		"additionalProperties":false,"if":{"properties":{"decision":{"const":"accept"}}},"then":{"required":["seat"]}}`
	q := &runlog.Question{Schema: json.RawMessage(server)}
	for in, want := range map[string]string{
		"decline": `{"decision":"decline"}`, " Decline ": `{"decision":"decline"}`, `{"decision":"decline"}`: `{"decision":"decline"}`, `{"decision":"accept","seat":9}`: `{"decision":"accept","seat":9}`,
		`{"decision":"accept"}`: "seat is missing", `{"seat":9}`: "decision is missing", "accept": "want a JSON object", `{"decision":"decline","seat":"x"}`: `seat: want a whole number, got "x"`,
	} {
		got, err := Fit(q, in)
		if err != nil {
			got = json.RawMessage(err.Error())
		}
		if !strings.HasPrefix(string(got), want) {
			t.Errorf("%s gave %s, want %s", in, got, want)
		}
	}
	f := FormOf(q.Schema)
	if !f.Declinable() || !f[1].Needed || f[2].Needed || f[1].Label() != "seat (a whole number): " || f[1].About() != "a whole number (needed)" {
		t.Errorf("the form is %+v", f)
	}
	if got := string(f.Rest()); got != `{"properties":{"meal":{"type":"string"},"seat":{"type":"integer"}},"required":["seat"],"type":"object"}` {
		t.Errorf("the rest is %s", got)
	}
	own := `{"type":"object","required":["decision"],"properties":{"decision":{"enum":["accept","decline"]},"why":{"type":"string"}}}` // of a recipe
	if FormOf(json.RawMessage(own)).Declinable() || FormOf(json.RawMessage(detailsForm)).Declinable() || (Form)(nil).Declinable() {
		t.Error("every form can be declined")
	}
}
