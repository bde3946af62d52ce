package recipe

import (
	"regexp"
	"strings"
)

// Renamed returns the text of a recipe under another name, without its aliases.
func Renamed(text, old, name string) string {
	var b strings.Builder
	skip := false
	body := false
	word := regexp.MustCompile(`(^|[^a-z0-9-])` + regexp.QuoteMeta(old) + `($|[^a-z0-9-])`)
	for line := range strings.Lines(text) {
		switch {
		case skip && (strings.HasPrefix(line, " ") || strings.HasPrefix(line, "-")):
			continue
		case strings.HasPrefix(line, "aliases:"):
			skip = true
			continue
		case strings.HasPrefix(line, "name:"):
			line = "name: " + name + "\n"
		case strings.HasPrefix(line, "#") && !body:
			line = word.ReplaceAllString(line, "${1}"+name+"${2}")
		}
		skip = false
		body = body || !strings.HasPrefix(line, "#")
		b.WriteString(line)
	}
	return b.String()
}
