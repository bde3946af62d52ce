// Package effort reads and writes the effort of a model, which follows the model's name: "openai/gpt-5.4#high".
package effort

import (
	"fmt"
	"slices"
	"strings"
)

// Words returns the efforts, the least first.
func Words() []string { return []string{"low", "medium", "high", "xhigh", "max"} }

// Known reports whether a word is an effort.
func Known(word string) bool { return slices.Contains(Words(), word) }

// Split returns a model's name without its effort, and the effort in small letters, which may be an unknown word. Without a suffix it is "". In the names
// of other programs ("acp:NAME") a # is like any letter.
func Split(name string) (base, word string) {
	i := strings.LastIndexByte(name, '#')
	if i < 0 || bare(name) {
		return name, ""
	}
	return strings.TrimSpace(name[:i]), strings.ToLower(strings.TrimSpace(name[i+1:]))
}

// Check returns an error if a model's name has a suffix that is no effort. It names the efforts.
func Check(name string) error {
	base, word := Split(name)
	switch {
	case base == name || base != "" && base != "offline" && Known(word):
		return nil
	case base == "":
		return fmt.Errorf("%q names an effort without a model; write it as provider/model#high", shorten(name))
	case base == "offline":
		return fmt.Errorf("the model offline has no effort; leave out what follows the #")
	}
	return fmt.Errorf("%q is no effort of a model; want %s, as in %s#high", shorten(word), List(), shorten(base))
}

// List returns the efforts as a text.
func List() string { return "low, medium, high, xhigh or max" }

// With returns a model's name with an effort, unless it has one already, or can have none.
func With(name, word string) string {
	if _, has := Split(name); has != "" {
		return name
	}
	return Instead(name, word)
}

// Instead works like With, but replaces the effort that the name has.
func Instead(name, word string) string {
	base, _ := Split(name)
	if word == "" || base == "" || base == "offline" || bare(base) {
		return name
	}
	return base + "#" + word
}

func bare(name string) bool {
	return strings.HasPrefix(name, "acp:")
}

func shorten(s string) string {
	if len(s) > 100 {
		s = strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}
