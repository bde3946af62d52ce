// Package skill finds the skills that people have written down in the public Agent Skills format,
// and reads them when they are wanted.
//
// A skill is a folder with a file SKILL.md, and any other files beside it. A model is told the names and
// descriptions of all of them (Library.Prompt), reads the text of one when a task calls for it (Library.Load),
// and the files beside it when the text sends it there (Library.ReadFile). Nothing here runs anything.
package skill

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
)

// File is the name of the file that makes a folder a skill.
const File = "SKILL.md"

// A Skill is what is known of a skill before it is read. It is a value: never change one that a
// Library gave.
type Skill struct {
	Name          string // [a-z0-9-]{1,64}
	Description   string // what it does and when to use it
	License       string
	Compatibility string            // what it needs: programs, network, a product
	Metadata      map[string]string // nil if there is none
	// AllowedTools are the tools that it would like to use unasked, as they are written, such as
	// Bash(git:*). It is a wish: a host heeds it where the user trusts the skill. Nil if it says nothing.
	AllowedTools []string
	// Manual says that only a person may ask for it: it is not in the prompt.
	Manual bool
	// Extra has the fields that have no place above, as encoding/json would give them.
	Extra map[string]any

	Source Source
	// Digest covers the names and contents of all files of the folder: sha256:hex.
	Digest string
	Files  []HelperFile // all but SKILL.md, by path
	// Warnings are about SKILL.md, and about files that are odd.
	Warnings []Warning
	// Overrides are other skills of that name that this one comes before, the next one first.
	Overrides []Source
}

// A HelperFile is a file that lies beside SKILL.md, or deeper.
type HelperFile struct {
	Path string // relative to the folder, with slashes
	Size int64
	sum  string
}

// A Scope is whose a skill is.
type Scope string

// The scopes, the one that comes first first.
const (
	Project Scope = "project"
	User    Scope = "user"
)

// A Source is where a skill comes from.
type Source struct {
	Scope Scope
	Path  string // the folder, absolute
	Place string // the folder of skills that it was found in, such as .claude/skills
	Line  int    // of its name in SKILL.md
}

func (s Source) String() string { return fmt.Sprintf("%s (%s)", clean.Text(s.Path), s.Scope) }

// A Warning is something that was put up with. Path is relative to the folder of the skill. Line
// is 0 if it is about the whole file.
type Warning struct {
	Path      string
	Line, Col int
	Text      string
}

func (w Warning) String() string { return place(w.Path, w.Line, w.Col) + w.Text }

// A Problem is why a skill, or a part of a folder, is not in a library.
type Problem struct {
	Source    Source
	Line, Col int // in SKILL.md, 0 if it is about the whole
	Text      string
}

func (p Problem) String() string {
	if p.Line > 0 {
		return place(p.Source.Path+"/"+File, p.Line, p.Col) + p.Text
	}
	return place(p.Source.Path, 0, 0) + p.Text
}

func place(path string, line, col int) string {
	if line == 0 {
		return clean.Text(path) + ": "
	}
	return fmt.Sprintf("%s:%d:%d: ", clean.Text(path), line, col)
}

// The limits of the format, in characters.
const (
	maxName          = 64
	maxDescription   = 1024
	maxCompatibility = 500
)

var namePattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// reserved names mean something else to the command line.
var reserved = []string{"help", "version"}

// CheckName says why a name is none for a skill, or nil.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name is empty; choose one such as pdf-forms")
	case len(name) > maxName:
		return fmt.Errorf("the name has %d characters; %d are allowed", len(name), maxName)
	case !namePattern.MatchString(name):
		return fmt.Errorf("the name %s may only have a-z, 0-9 and single hyphens between them, such as pdf-forms", shown(name))
	}
	for _, r := range reserved {
		if name == r {
			return fmt.Errorf("the name %s is reserved; choose another", name)
		}
	}
	return nil
}

// shown is something from a file as it is put into a message.
func shown(s string) string {
	s = clean.Text(s)
	if r := []rune(s); len(r) > 70 {
		s = string(r[:70]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
