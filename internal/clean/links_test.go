package clean_test

import (
	"slices"
	"testing"

	"github.com/superstep-dev/superstep/internal/clean"
)

func TestLinks(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                      nil,
		"http https:// http:// x":               nil,
		"see https://a.b/c, or http://d.e.":     {"https://a.b/c", "http://d.e"},
		"[x](https://a.b/c?d=e&f)[y](http://g)": {"https://a.b/c?d=e&f", "http://g"},
		"https://a.b/w_(x) (https://a.b/y_(z))": {"https://a.b/w_(x)", "https://a.b/y_(z)"},
		"## https://a.b/c#part\nhttps://a.b/c":  {"https://a.b/c"},
		`{"url":"https://a.b/c","n":1}`:         {"https://a.b/c"},
		"<https://a.b/ü>":                       {"https://a.b/ü"},
		"httphttps://a.b":                       {"https://a.b"},
	} {
		if got := clean.Links(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
