// Package skill reads the skills that people have written down in the public Agent Skills format.
//
// A skill is a folder with a file SKILL.md, and any other files beside it. A model is told the names and
// descriptions of all of them (Set.Prompt), reads the text of one when a task calls for it (Skill.Load),
// and the files beside it when the text sends it there (Skill.ReadFile). The package never runs
// anything.
package skill

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
)

// File is the name of the file that every skill folder contains.
const File = "SKILL.md"

// A Skill describes a skill before its text is read. It is a value: never change a Skill that a
// catalog returned.
type Skill struct {
	Name        string // [a-z0-9-]{1,64}
	Description string // what it does and when to use it
	// Manual is set if only a user may ask for the skill: it is not in the prompt.
	Manual bool
	Source Source
	// Digest covers the names and contents of all files of the folder: sha256:hex.
	Digest string
	Files  []HelperFile // all but SKILL.md, by path
	// Warnings are about SKILL.md, and about files that are odd. Their paths are relative to the folder.
	Warnings []Finding
	// Overrides are the other skills of this name, over which this skill takes precedence, in order
	// of precedence.
	Overrides []Source
}

// A HelperFile is a file that lies beside SKILL.md, or deeper.
type HelperFile struct {
	Path string // relative to the folder, with slashes
	Size int64
	sum  string
}

// A Source is the origin of a skill.
type Source struct {
	Scope string // project or user
	Path  string // the folder, absolute
	Place string // the folder of skills that it was found in, such as .claude/skills
	Line  int    // of its name in SKILL.md
}

// A Finding is an error or warning about a skill, with its position. Line and Col are 0 if it is
// about the whole.
type Finding struct {
	Code      string // what it is about
	Path      string
	Line, Col int
	Text      string
	fatal     bool // to a skill that is to be used, and not only checked
	err       bool // to one that is checked
}

func (f Finding) String() string { return clean.Place(f.Path, f.Line, f.Col) + ": " + f.Text }

// The limits of the format, in characters.
const (
	maxName          = 64
	maxDescription   = 1024
	maxCompatibility = 500
)

var namePattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// reserved lists the names that have another meaning on the command line.
var reserved = []string{"help", "version"}

// CheckName returns why a name is not valid for a skill, or nil.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name is empty; choose one such as pdf-forms")
	case len(name) > maxName:
		return fmt.Errorf("the name has %d characters; %d are allowed", len(name), maxName)
	case !namePattern.MatchString(name):
		return fmt.Errorf("the name %s may only have a-z, 0-9 and single hyphens between them, such as pdf-forms", clean.Quote(name))
	}
	for _, r := range reserved {
		if name == r {
			return fmt.Errorf("the name %s is reserved; choose another", name)
		}
	}
	return nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
