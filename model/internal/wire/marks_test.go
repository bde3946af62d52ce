package wire

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestMarks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ said, reasoning, text string }{
		{"plain", "", "plain"},
		{"  plain", "", "  plain"},
		{"", "", ""},
		{" \n", "", " \n"},
		{"\ufeff{\"n\": 3}", "", `{"n": 3}`},
		{"<think>hm {\"n\": 9}</think>\n{\"n\": 3}", `hm {"n": 9}`, `{"n": 3}`},
		{"\n<think>\nhm\n</think>\n\nyes", "\nhm\n", "yes"},
		{"<think></think>yes", "", "yes"},
		{"<think>it never ends </thin", "it never ends </thin", ""},
		{"<thinker> is a word", "", "<thinker> is a word"},
		{"<thi", "", "<thi"},
		{"a <think>b</think>", "", "a <think>b</think>"},
		{"<think>a</think><think>b</think>c", "ab", "c"},
		{`<|channel|>final<|message|>{"n": 3}`, "", `{"n": 3}`},
		{`<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes<|return|>`, "hm", "yes"},
		{"<|channel|>final<|message|>a <|return|> b<|ret", "", "a <|return|> b<|ret"},
		{"<|channel|> is a mark of " + strings.Repeat("x", 200), "", "<|channel|> is a mark of " + strings.Repeat("x", 200)},
	} {
		for range 50 { // however it is cut
			var m marks
			var reasoning, text string
			add := func(piece string, last bool) {
				r, x := m.split(piece, last)
				if r != "" && text != "" {
					t.Errorf("%q: reasoning behind the text", c.said)
				}
				reasoning, text = reasoning+r, text+x
			}
			for rest := []rune(c.said); len(rest) > 0; {
				n := 1 + rand.N(len(rest))
				add(string(rest[:n]), false)
				rest = rest[n:]
			}
			if add("", true); reasoning != c.reasoning || text != c.text {
				t.Fatalf("%q gives %q and %q", c.said, reasoning, text)
			}
		}
	}
}
