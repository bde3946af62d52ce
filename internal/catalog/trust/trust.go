// Package trust remembers which parts of a project its user trusts: which tools, servers, agents,
// skills, recipes and settings may run, each in the form that the user has seen.
//
// Decisions are stored in one file of the user, outside every project, so that a project cannot
// change them. An item is trusted by the digest of all that would run: when that changes, the user
// is asked again and shown what changed. For this purpose, trusted texts are stored in a folder
// next to the file. They do not affect trust.
package trust

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/clean"
)

// A Kind is the type of an item.
type Kind string

// The kinds of items.
const (
	Tool     Kind = "tool"      // a script
	MCP      Kind = "mcp"       // a server: its command, or its address
	MCPTools Kind = "mcp-tools" // the tools a server offers
	Agent    Kind = "agent"
	Skill    Kind = "skill"
	Config   Kind = "config"
	Workflow Kind = "workflow" // a recipe
	Run      Kind = "run"      // an imported run
)

// Runs is used in place of a project for imported runs, which belong to no project.
const Runs = "imported runs"

func kinds() []Kind { return []Kind{Tool, MCP, MCPTools, Agent, Skill, Config, Workflow, Run} }

const (
	longestName   = 256
	longestDetail = 64 << 10 // bytes; what is longer is cut
	mostItems     = 2000     // of a project
)

// An Item is a part of a project that can be trusted.
type Item struct {
	Kind   Kind   `json:"kind"`
	Name   string `json:"name"`
	Path   string `json:"path"`   // of its file, relative to the project, with slashes
	Digest string `json:"digest"` // "sha256:" and 64 hexadecimal digits, of all that would run
	Detail string `json:"detail,omitempty"`
	// Content is compared with later versions; see the function Content. It is stored in a separate
	// file.
	Content string `json:"-"`
}

// String returns the name of the item for users.
func (i Item) String() string {
	return fmt.Sprintf("%s %s (%s)", i.Kind, clean.Text(i.Name), clean.Text(i.Path))
}

// same reports whether two items have the same identity, regardless of their content.
func (i Item) same(o Item) bool { return i.Kind == o.Kind && i.Name == o.Name && i.Path == o.Path }

func (i Item) check() error {
	switch {
	case !slices.Contains(kinds(), i.Kind):
		return fmt.Errorf("%.40q is no kind of item", i.Kind)
	case i.Name == "" || len(i.Name) > longestName || clean.Text(i.Name) != i.Name || strings.Contains(i.Name, "\n"):
		return fmt.Errorf("%s: %.40q is no name", i.Kind, i.Name)
	case len(i.Path) > 4096 || clean.Text(i.Path) != i.Path || !filepath.IsLocal(filepath.FromSlash(i.Path)):
		return fmt.Errorf("%s %s: %.80q is no path inside the project", i.Kind, i.Name, i.Path)
	case !digest.MatchString(i.Digest):
		return fmt.Errorf("%s %s: %.80q is no digest", i.Kind, i.Name, i.Digest)
	}
	return nil
}

var digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// A State describes whether an item is known and trusted.
type State string

// The states of an item.
const (
	Trusted State = "trusted"
	Changed State = "changed" // trusted once, and different now
	New     State = "new"     // never trusted, or not any more
)

// A Status holds an item's state and the details recorded about it. Only a Trusted item may run.
type Status struct {
	Item      Item
	State     State
	Old       string // the digest that was trusted, if it changed
	OldDetail string // and what was shown of it
	// OldContent is the content that was trusted, if it has changed; "" if it was not stored.
	OldContent string
	When       time.Time // it was trusted, zero if never
}

// Diff returns the changes since the item was trusted, in the format of diff -u: of the files of
// its content, or else of its detail. If nothing changed, it is "". Changes that cannot be shown
// are only mentioned.
func (s Status) Diff() string {
	text, _, _ := s.diff()
	return text
}

// Lines returns how many added and removed lines Diff has.
func (s Status) Lines() (added, removed int) {
	_, added, removed = s.diff()
	return added, removed
}

func (s Status) diff() (text string, added, removed int) {
	if s.State != Changed {
		return "", 0, 0
	}
	old, now := Files(s.OldContent), Files(s.Item.Content)
	if old != nil && now != nil {
		c := compare(old, now)
		if c.text != "" {
			if s.Item.Kind == MCPTools {
				c.text = c.names + c.text
			}
			return c.text, c.added, c.removed
		}
	}
	text = Diff(s.OldDetail, s.Item.Detail)
	_, added, removed = unified(detail(s.OldDetail), detail(s.Item.Detail))
	switch {
	case old != nil && now != nil:
		text += "contents differ, in files whose text is not kept\n"
	case text == "" || now != nil:
		text += fmt.Sprintf("contents differ; what %s was when it was trusted was not kept\n", clean.Text(s.Item.Path))
	}
	return text, added, removed
}

// A Store is the memory. It is safe for use from several goroutines and processes. Every call reads the file
// anew. If the file is damaged, has a newer version, or is writable by other users, each call fails and
// nothing is trusted.
type Store struct {
	path string
	all  bool
	now  func() time.Time
}

// Open opens the memory in a file, which need not exist. It creates no files and does not read the
// project.
func Open(path string) (*Store, error) {
	if path == "" {
		return nil, errors.New("trust: no file is given to remember in")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("trust: %w", err)
	}
	s := &Store{path: abs, now: time.Now}
	if _, err := s.load(); err != nil {
		return nil, err
	}
	return s, nil
}

// TrustAll returns a store that trusts everything and records nothing. It is meant for machines that run only
// reviewed projects. Only a flag set by the user may select it, never a project or an environment variable.
func (s *Store) TrustAll() *Store { return &Store{path: s.path, all: true, now: s.now} }

// Path returns the file.
func (s *Store) Path() string { return s.path }

// Status reports for each item whether it is trusted, in the order given. The project is its folder.
func (s *Store) Status(project string, items []Item) ([]Status, error) {
	id, err := s.identify(project)
	if err != nil {
		return nil, err
	}
	out := make([]Status, len(items))
	var m *memory
	if !s.all {
		if m, err = s.load(); err != nil {
			return nil, err
		}
	}
	for i, item := range items {
		if err := item.check(); err != nil {
			return nil, fmt.Errorf("trust: %w", err)
		}
		item.Detail = detail(item.Detail)
		out[i] = Status{Item: item, State: New}
		if s.all {
			out[i].State = Trusted
			continue
		}
		for _, e := range m.Projects[id] {
			switch {
			case !e.same(item):
			case e.Digest == item.Digest:
				out[i].State, out[i].When = Trusted, e.When
			default:
				out[i].State, out[i].When, out[i].Old, out[i].OldDetail = Changed, e.When, e.Digest, e.Detail
				out[i].OldContent = s.kept(e.Kept)
			}
		}
	}
	return out, nil
}

// Trust records the items as trusted and replaces their earlier records. An item without a content
// keeps its stored content if the digest is the same.
func (s *Store) Trust(project string, items []Item) error {
	id, err := s.identify(project)
	if err != nil {
		return err
	}
	for _, item := range items {
		if err := item.check(); err != nil {
			return fmt.Errorf("trust: %w", err)
		}
	}
	if s.all {
		return nil
	}
	return s.update(func(m *memory) error {
		list := m.Projects[id]
		for _, item := range items {
			e, err := s.entry(item)
			if err != nil {
				return err
			}
			for _, was := range list {
				if was.same(item) && was.Digest == item.Digest && e.Kept == "" {
					e.Kept = was.Kept
				}
			}
			list = append(without(list, item), e)
			m.setSeen(id, without(m.Seen[id], item))
		}
		if len(list) > mostItems {
			return fmt.Errorf("trust: over %d items of %s; revoke those that are not needed", mostItems, project)
		}
		slices.SortFunc(list, func(a, b entry) int {
			return strings.Compare(string(a.Kind)+"\x00"+a.Name+"\x00"+a.Path, string(b.Kind)+"\x00"+b.Name+"\x00"+b.Path)
		})
		m.Projects[id] = list
		return nil
	})
}

func (s *Store) entry(item Item) (entry, error) {
	item.Detail = detail(item.Detail)
	kept, err := s.keep(item.Content)
	item.Content = ""
	return entry{item, s.now().UTC().Truncate(time.Second), kept}, err
}

func without(list []entry, item Item) []entry {
	return slices.DeleteFunc(slices.Clone(list), func(e entry) bool { return e.same(item) })
}

func (m *memory) setSeen(id string, list []entry) {
	if m.Seen[id] = list; len(list) == 0 {
		delete(m.Seen, id)
	}
}

// Saw records the last seen state of an item that cannot be examined later. It does not trust the
// item. An item that equals its trusted form is removed from the list of Seen.
func (s *Store) Saw(project string, item Item) error {
	id, err := s.identify(project)
	if err != nil {
		return err
	}
	if err := item.check(); err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	if s.all {
		return nil
	}
	is := func(list []entry) bool {
		return slices.ContainsFunc(list, func(e entry) bool { return e.same(item) && e.Digest == item.Digest })
	}
	known := func(m *memory) bool {
		if is(m.Projects[id]) {
			return len(without(m.Seen[id], item)) == len(m.Seen[id])
		}
		return is(m.Seen[id])
	}
	if m, err := s.load(); err != nil || known(m) {
		return err
	}
	return s.update(func(m *memory) error {
		list := without(m.Seen[id], item)
		if !is(m.Projects[id]) {
			e, err := s.entry(item)
			if err != nil {
				return err
			}
			list = append(list, e)
		}
		if len(list) > mostItems {
			return fmt.Errorf("trust: over %d items of %s were seen; decide about them", mostItems, project)
		}
		m.setSeen(id, list)
		return nil
	})
}

// Seen returns the items that Saw remembers of a project, with their contents.
func (s *Store) Seen(project string) ([]Item, error) {
	id, err := s.identify(project)
	if err != nil || s.all {
		return nil, err
	}
	m, err := s.load()
	if err != nil {
		return nil, err
	}
	var out []Item
	for _, e := range m.Seen[id] {
		e.Content = s.kept(e.Kept)
		out = append(out, e.Item)
	}
	return out, nil
}

// Revoke removes the records of the named items and returns their number. Without names, it removes
// all records of the project. The project need not exist any more.
func (s *Store) Revoke(project string, names []string) (int, error) {
	id, err := s.identify(project)
	if err != nil {
		if id, err = filepath.Abs(project); err != nil {
			return 0, fmt.Errorf("trust: %w", err)
		}
	}
	gone := 0
	if s.all {
		return 0, nil
	}
	err = s.update(func(m *memory) error {
		before := m.Projects[id]
		named := func(e entry) bool { return len(names) == 0 || slices.Contains(names, e.Name) }
		left := slices.DeleteFunc(slices.Clone(before), named)
		m.setSeen(id, slices.DeleteFunc(slices.Clone(m.Seen[id]), named))
		gone = len(before) - len(left)
		m.Projects[id] = left
		if len(left) == 0 {
			delete(m.Projects, id)
		}
		return nil
	})
	return gone, err
}

// A Known is a project with trusted items.
type Known struct {
	Path  string
	Items []Item
}

// Projects returns the trusted items by the path of their project.
func (s *Store) Projects() ([]Known, error) {
	m, err := s.load()
	if err != nil {
		return nil, err
	}
	var out []Known
	for path, list := range m.Projects {
		k := Known{Path: path}
		for _, e := range list {
			k.Items = append(k.Items, e.Item)
		}
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b Known) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// identify returns the path of a project without symbolic links, which identifies it. It refuses a
// memory file inside the project, since the project could write it.
func (s *Store) identify(project string) (string, error) {
	if project == Runs {
		return Runs, nil
	}
	abs, err := filepath.Abs(project)
	if err != nil {
		return "", fmt.Errorf("trust: project %s: %w", project, err)
	}
	id, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", fmt.Errorf("trust: project %s: %w", project, err)
	}
	for _, place := range []string{s.path, Resolved(s.path)} {
		for _, dir := range []string{abs, id} {
			if rel, err := filepath.Rel(dir, place); err == nil && filepath.IsLocal(rel) {
				return "", fmt.Errorf("trust: %s lies inside the project %s, which could then say itself what is trusted of it; "+
					"keep the file elsewhere, or work in a folder below", s.path, dir)
			}
		}
	}
	return id, nil
}

// Resolved returns a path without symbolic links, as far as it exists.
func Resolved(path string) string {
	rest, links := "", 0
	for dir := path; ; {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if to, err := os.Readlink(dir); err == nil && links < 40 { // to what does not exist yet
			if !filepath.IsAbs(to) {
				to = filepath.Join(Resolved(filepath.Dir(dir)), to)
			}
			dir, links = to, links+1
			continue
		}
		up := filepath.Dir(dir)
		if up == dir {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
		dir = up
	}
}

// detail returns a text in the form that is stored and shown.
func detail(s string) string {
	s = clean.Text(s)
	if len(s) > longestDetail {
		s = strings.ToValidUTF8(s[:longestDetail-100], "") + "\n[the rest is not shown]"
	}
	return s
}
