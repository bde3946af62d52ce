package permit

import (
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/tool"
)

// parts returns what the rules say of each simple command of a call, and of each file that a command writes. It is
// nil for a call that has one part.
func (p *Policy) parts(f *facts) []tool.Part {
	var out []tool.Part
	for i := range f.units {
		u := &f.units[i]
		text := u.what
		if u.words != nil {
			text = clean.Text(readable(u.words))
		}
		if text == "" {
			continue
		}
		v := p.unit(f, u).verdict()
		out = append(out, tool.Part{Text: text, Decision: v.Decision, Rule: v.Rule, Origin: v.Origin, Reason: v.Reason})
	}
	if len(out) < 2 {
		return nil
	}
	return out
}
