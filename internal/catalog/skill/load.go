package skill

import (
	"fmt"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/suggest"
)

// A NotFoundError reports that no skill has this name.
type NotFoundError struct {
	Name  string
	Known []string // those there are
}

func (e *NotFoundError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("there is no skill %s, and no other", clean.Quote(e.Name))
	}
	return fmt.Sprintf("there is no skill %s%s", clean.Quote(e.Name), suggest.Hint(e.Name, e.Known))
}

// A ChangedError reports that the files of a skill have changed since the skill was found, so the
// user has not trusted their current content.
type ChangedError struct {
	Name string
	Path string // of the file that differs, relative to the folder; "" if it may be any
	Was  string // the digest of the skill when it was found
	Is   string // and now; "" if only the one file was looked at
}

func (e *ChangedError) Error() string {
	what := "its files"
	if e.Path != "" {
		what = clean.Quote(e.Path)
	}
	return fmt.Sprintf("the skill %s has changed since it was found (%s); look at it and load the skills anew", e.Name, what)
}

// A Set is skills by name.
type Set []*Skill

// Find returns the skill of that name, or a *NotFoundError.
func (l Set) Find(name string) (*Skill, error) {
	e := &NotFoundError{Name: name}
	for _, s := range l {
		if s.Name == name {
			return s, nil
		}
		e.Known = append(e.Known, s.Name)
	}
	return nil, e
}

// Load reads the instructions of a skill. It returns a *ChangedError if any of its files has
// changed since the skill was found.
func (s *Skill) Load() (string, error) {
	f, err := frontmatter.OpenFolder(s.Source.Path)
	if err != nil {
		return "", fmt.Errorf("skill %s: %w", s.Name, err)
	}
	defer f.Close()
	c, err := look(f)
	if err != nil {
		return "", fmt.Errorf("skill %s: %w", s.Name, err)
	}
	if c.digest != s.Digest {
		return "", &ChangedError{Name: s.Name, Was: s.Digest, Is: c.digest}
	}
	return read(c.main, filepath.Base(s.Source.Path)).body, nil
}

// maxRead is the number of bytes of a file that a model may read.
const maxRead = 1 << 20

// ReadFile reads a file that lies beside the instructions of a skill: text of at most 1 MiB. The
// path is relative to the folder of the skill. Files outside the folder are never read. It returns
// a *ChangedError if the file has changed since the skill was found.
func (s *Skill) ReadFile(rel string) (string, error) {
	rel = path.Clean(strings.ReplaceAll(rel, `\`, "/"))
	if rel == File {
		return s.Load()
	}
	var file *HelperFile
	var paths []string
	for i := range s.Files {
		if s.Files[i].Path == rel {
			file = &s.Files[i]
		}
		paths = append(paths, s.Files[i].Path)
	}
	if file == nil {
		return "", fmt.Errorf("the skill %s has no file %s%s", s.Name, clean.Quote(rel), suggest.Hint(rel, paths))
	}
	f, err := frontmatter.OpenFolder(s.Source.Path)
	if err != nil {
		return "", fmt.Errorf("skill %s: %w", s.Name, err)
	}
	defer f.Close()
	b, err := f.Read(rel, maxRead)
	if err != nil {
		return "", fmt.Errorf("skill %s: %s: %w", s.Name, clean.Quote(rel), err)
	}
	if digest(b) != file.sum {
		return "", &ChangedError{Name: s.Name, Path: rel, Was: s.Digest}
	}
	if !utf8.Valid(b) {
		return "", fmt.Errorf("skill %s: %s is no text", s.Name, clean.Quote(rel))
	}
	return clean.Text(string(b)), nil
}

const (
	maxPrompt = 16 << 10 // bytes
	leastText = 30       // characters of a description, before some are left out altogether
)

// Prompt returns the description of all skills for a model: names and descriptions, and how to read
// one with the tool skill. It has at most 16 KiB. If the skills do not fit, descriptions are
// shortened, then omitted, and then names are omitted. Without skills it is "".
func (l Set) Prompt() string {
	var list []*Skill
	for _, s := range l {
		if !s.Manual {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return ""
	}
	const head = "## Skills\n\nA skill is a set of instructions for one kind of work. When a task fits the description of one, read it " +
		"with the tool `skill` before you begin, and follow it. If it names other files, read those that you need with the same tool.\n\n"
	room := maxPrompt - len(head) - 80
	lines := func(most int) string {
		var b strings.Builder
		for _, s := range list {
			b.WriteString("- " + s.Name)
			if most > 0 {
				b.WriteString(": " + short(s.Description, most))
			}
			b.WriteByte('\n')
		}
		return b.String()
	}
	// The longest descriptions that fit.
	if text := lines(maxDescription); len(text) <= room {
		return head + text
	}
	least := sort.Search(maxDescription-leastText, func(i int) bool { return len(lines(leastText+i)) > room })
	if least > 0 {
		return head + lines(leastText+least-1)
	}
	if text := lines(0); len(text) <= room {
		return head + text
	}
	var b strings.Builder
	for i, s := range list {
		if b.Len()+len(s.Name)+3 > room {
			fmt.Fprintf(&b, "- and %d more, which the tool lists\n", len(list)-i)
			break
		}
		b.WriteString("- " + s.Name + "\n")
	}
	return head + b.String()
}

// short returns a text on one line of at most that many characters.
func short(s string, most int) string {
	s = oneLine(s)
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	cut := string([]rune(s)[:most-1])
	if i := strings.LastIndexByte(cut, ' '); i > most/2 {
		cut = cut[:i]
	}
	return cut + "…"
}
