package transcript

import (
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
)

// Clean makes text of a model, a tool or a file harmless to a terminal: escape
// sequences go, and so do control characters (C0, C1, DEL), the marks that turn the
// direction of writing, and those nobody can see. Line feeds and tabs stay; other line
// ends become line feeds. Broken UTF-8 is replaced.
func Clean(s string) string { return clean.Text(s) }

// Line is Clean for a text that must stay on one line: every run of space is one space.
func Line(s string) string { return strings.Join(strings.Fields(Clean(s)), " ") }
