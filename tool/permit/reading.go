package permit

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/superstep-dev/superstep/tool"
)

// readings returns the units of a call that reads a path or reveals that it is there: what rules on
// the tool allow, and what rules on read_file allow. A file that may not be read unasked is not
// revealed unasked by any other tool.
func (p *Policy) readings(name string, paths []location) []unit {
	own := unit{paths: paths}
	if name == "search_docs" {
		own.paths = nil // its rules are not about paths
	}
	reading := unit{paths: paths, reads: true, named: name == "ls" || name == "glob"}
	last := &reading
	if name == "read_file" {
		last = &own
	}
	if !reading.named && p.opt.Linked != nil && paths[0].abs != "" && p.opt.Linked(filepath.FromSlash(paths[0].abs)) {
		last.linked, last.what = true, "reading a hard link: the file has another name, which may be outside of the folder"
	}
	if name == "read_file" {
		return []unit{own}
	}
	return []unit{own, reading}
}

// Reads returns a function that decides whether a tool may reveal a file it came upon: its text, or for ls and glob its path.
// Files are named from the root, with slashes and without symbolic links. From is the path that the call names and that a
// gate has decided on, so what the rules ask about that path is not asked again for the files below it; "" if no gate has.
// Answers are rules that a person has allowed. A verdict that is not Allow names its rule even if that is a default.
// It implements tool.Reader.
func (p *Policy) Reads(name, from string, answers []string) func(file string) tool.Verdict {
	with := p
	for _, text := range answers {
		if r, err := Parse(tool.Allow, text, ""); err == nil {
			if more, err := with.With(Granted, r); err == nil {
				with = more
			}
		}
	}
	start := &facts{tool: name}
	if from != "" {
		start.units = p.readings(name, p.locations(from))
	}
	q := with.keep(func(r *compiled) bool {
		if !glob(r.Tool, "read_file") && !glob(r.Tool, name) {
			return false
		}
		return r.Decision != tool.Ask || !slices.ContainsFunc(start.units, func(u unit) bool {
			return u.match(start, r) == yes && (!r.Otherwise || !with.excepted(start, &u, r))
		})
	})
	// Where no rule was about the path, as with a hard link, the answer was to that.
	open := slices.ContainsFunc(start.units, func(u unit) bool { got := with.unit(start, &u); return got.decision == tool.Ask && got.rule == nil })
	return func(file string) tool.Verdict {
		if !fs.ValidPath(file) {
			return tool.Verdict{Decision: tool.Deny, Reason: "its path cannot be read"}
		}
		return q.reveal(&facts{tool: name, units: q.readings(name, q.around([]location{q.locate(file)}))}, open)
	}
}

// Secret decides whether the path of a file may be revealed: Deny or Ask if a rule on read_file with a pattern, or a default,
// denies or asks about reading it, else Allow. The file is named from the root, with slashes and without symbolic links. It
// costs a few microseconds.
func (p *Policy) Secret(file string) tool.Verdict {
	return p.reveal(&facts{tool: "read_file", units: []unit{{paths: p.around([]location{p.locate(file)}), reads: true, named: true}}}, false)
}

// In returns the policy for another folder that the user has named to be read, such as a folder of documents: relative
// patterns hold from it, and where it lies in the root of p, from there as well.
func (p *Policy) In(dir string) *Policy {
	out := *p
	out.opt.Root = dir
	if _, ok := inside(filepath.ToSlash(p.opt.Root), path.Clean(filepath.ToSlash(dir))); ok && p.opt.Root != "" && dir != p.opt.Root {
		out.outer = p.opt.Root
	}
	return &out
}

// keep returns a policy with only some of the rules.
func (p *Policy) keep(f func(*compiled) bool) *Policy {
	out := *p
	out.rules = slices.DeleteFunc(slices.Clone(p.rules), func(r *compiled) bool { return !f(r) })
	return &out
}

// reveal decides on units that are files. Open is whether what no rule is about is allowed.
func (p *Policy) reveal(f *facts, open bool) tool.Verdict {
	out := tool.Verdict{Decision: tool.Allow}
	for i := range f.units {
		got := p.unit(f, &f.units[i])
		if got.decision == tool.Allow || open && got.rule == nil || out.Decision == tool.Deny || out.Decision == got.decision {
			continue
		}
		out = got.verdict()
		if got.rule != nil {
			out.Rule = got.rule.String()
		}
	}
	return out
}
