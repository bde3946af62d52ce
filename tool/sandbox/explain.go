package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Explain describes for users what commands of s may do, one line per item.
func (s *Sandbox) Explain() (string, error) {
	var b strings.Builder
	line := func(head, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", head, fmt.Sprintf(format, args...))
	}
	line("sandbox", "%s", s)
	if s.Mode() == None {
		line("", "commands are not confined")
		return b.String(), nil
	}
	found, err := s.look(nil)
	if err != nil {
		return "", err
	}
	l := (&Cmd{s: s}).layout()
	list := func(title string, names []string) {
		for i, name := range names {
			if i == 20 {
				line("", "… %d more", len(names)-i)
				return
			}
			if i > 0 {
				title = ""
			}
			line(title, "%s", name)
		}
	}
	var read, write []string
	for _, name := range l.sorted() {
		if l.trees[name] {
			write = append(write, name)
		} else {
			read = append(read, name)
		}
	}
	list("write", append(write, s.tempSeen()+" (a temporary folder of its own)"))
	list("read", read)
	list("read-only", existing(found.protected))
	switch {
	case s.opt.Root == "" || s.reads:
	case s.Mode() == Namespaces:
		list("masked", keep(s.opt.Masks, func(name string) bool { _, err := os.Lstat(filepath.Join(s.opt.Root, name)); return err != nil }))
	case s.Mode() == Landlock:
		line("new", "nothing at the top of the project, in .git, and beside what is read-only or hidden; no mechanism masks there")
	}
	list("hidden", slices.Concat(existing(l.hide), found.hidden))
	switch p := s.policy(); {
	case p.anyNetwork():
		line("network", "any")
	case len(p.Network) == 0:
		line("network", "none")
	default:
		line("network", "%s", strings.Join(slices.Compact(slices.Sorted(slices.Values(p.Network))), ", "))
	}
	return b.String(), nil
}
