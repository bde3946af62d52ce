package builtin

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/tool"
)

// A sight decides which files of a folder a call may see. It counts the hidden ones.
type sight struct {
	may    func(file string) tool.Verdict // nil for everything
	asks   []string                       // files that a person would be asked about
	rules  []string                       // that make it ask
	denied int
}

// sight returns the sight of a call. From is the path in its arguments.
func (r *Root) sight(c *tool.Call, name, from string) *sight { return newSight(c, r.reads, name, from) }

// newSight returns the sight of a call by the rules of its gate. If no gate has decided on the call, it may see the files that the tool's own rules
// allow to read without asking.
func newSight(c *tool.Call, reads func(name, from string) func(string) tool.Verdict, name, from string) *sight {
	switch {
	case c != nil && c.Reads != nil:
		return &sight{may: c.Reads(name, from)}
	case reads != nil:
		return &sight{may: reads(name, "")}
	}
	return &sight{}
}

// sees reports whether a file may be seen. The names are all of the same file: its own, and where it leads if it is a link.
func (s *sight) sees(names ...string) bool {
	v, _ := s.judge(names...)
	switch v.Decision {
	case tool.Allow:
		return true
	case tool.Deny:
		s.denied++
	default:
		s.asks = append(s.asks, names[0])
		if v.Rule != "" && !slices.Contains(s.rules, v.Rule) {
			s.rules = append(s.rules, v.Rule)
		}
	}
	return false
}

// judge returns the verdict on a file, and the name it is about.
func (s *sight) judge(names ...string) (worst tool.Verdict, about string) {
	worst.Decision = tool.Allow
	if s.may == nil {
		return worst, names[0]
	}
	for _, name := range names {
		if v := s.may(name); v.Decision == tool.Deny || v.Decision != tool.Allow && worst.Decision == tool.Allow {
			worst, about = v, name
		}
	}
	return worst, about
}

// openFor opens a regular file that a call may read, by the name it is given and by where links lead: what is opened is what
// was decided on.
func (r *Root) openFor(c *tool.Call, name string) (*os.File, fs.FileInfo, error) {
	local, err := r.local(name)
	if err != nil {
		return nil, nil, err
	}
	rel, err := r.resolve(name)
	if err != nil {
		return nil, nil, err
	}
	if err := r.sight(c, "read_file", name).check(local, rel); err != nil {
		return nil, nil, err
	}
	f, info, err := r.root.Exact(rel)
	if err != nil {
		return nil, nil, r.explain(name, err)
	}
	return f, info, nil
}

// check returns an error if a file may not be read.
func (s *sight) check(names ...string) error {
	v, about := s.judge(names...)
	switch v.Decision {
	case tool.Allow:
		return nil
	case tool.Deny:
		return fmt.Errorf("path %s: may not be read: %s", about, v.Reason)
	}
	return fmt.Errorf("path %s: may not be read unasked: %s; allow it with a rule such as read_file(%s)", about, v.Reason, about)
}

const toldAbout = 5 // names and rules of what was left out

// note returns a line about omitted files, "" if there are none. For denied files it states only their number.
func (s *sight) note() string {
	var parts []string
	if n := len(s.asks); n > 0 {
		by := ""
		if len(s.rules) > 0 {
			by = " (" + some(s.rules) + ")"
		}
		names := make([]string, n)
		for i, name := range s.asks {
			names[i] = shown(name)
		}
		parts = append(parts, fmt.Sprintf("%d that need permission to be read%s: %s; call read_file on one to ask for it", n, by, some(names)))
	}
	if s.denied > 0 {
		parts = append(parts, fmt.Sprintf("%d that may not be read", s.denied))
	}
	if parts == nil {
		return ""
	}
	return "[left out: " + strings.Join(parts, "; ") + "]\n"
}

// some returns a list, of which the first are named.
func some(list []string) string {
	if n := len(list) - toldAbout; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:toldAbout], ", "), n)
	}
	return strings.Join(list, ", ")
}
