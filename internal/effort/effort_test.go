package effort_test

import (
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/effort"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][4]string{ // base, effort, with low, low instead
		"openai/gpt-5.4":       {"openai/gpt-5.4", "", "openai/gpt-5.4#low", "openai/gpt-5.4#low"},
		"openai/gpt-5.4#high":  {"openai/gpt-5.4", "high", "openai/gpt-5.4#high", "openai/gpt-5.4#low"},
		"openai/gpt-5.4# MAX ": {"openai/gpt-5.4", "max", "openai/gpt-5.4# MAX ", "openai/gpt-5.4#low"},
		"lab/a#b#medium":       {"lab/a#b", "medium", "lab/a#b#medium", "lab/a#b#low"},
		"acp:a#high":           {"acp:a#high", "", "acp:a#high", "acp:a#high"},
		"offline":              {"offline", "", "offline", "offline"},
		"":                     {"", "", "", ""},
	} {
		base, word := effort.Split(name)
		if got := [4]string{base, word, effort.With(name, "low"), effort.Instead(name, "low")}; got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
		if err := effort.Check(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"openai/gpt-5.4#fast":                    `"fast" is no effort of a model; want low, medium, high, xhigh or max, as in openai/gpt-5.4#high`,
		"openai/gpt-5.4#":                        `"" is no effort of a model; want low, medium, high, xhigh or max`,
		"#high":                                  "names an effort without a model",
		"offline#high":                           "the model offline has no effort",
		"a#" + strings.Repeat("x", 500) + "\x1b": "…",
	} {
		if err := effort.Check(name); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 300 {
			t.Errorf("%q: error %v, want %q in it", name, err, want)
		}
	}
}
