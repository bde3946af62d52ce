package permit

import (
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// netTool is the tool name in rules about the hosts that commands may reach.
const netTool = "net"

// exactText is a pattern without wildcards.
type exactText string

func (e exactText) match(u *unit, _ bool) answer {
	if string(e) == u.text {
		return yes
	}
	return no
}

// Network returns the hosts that rules let commands reach, sorted: those of net rules that allow,
// less those in which a rule denies or asks about any, since nobody can be asked while a command
// runs. "*" means any host. It is removed if any rule denies, since such a rule would not stop
// access by address.
func (p *Policy) Network() []string {
	var out, not []string
	for _, r := range p.rules {
		switch {
		case r.Ignored != "" || !glob(r.Tool, netTool) || r.Tool != netTool && r.Decision == tool.Allow:
		case r.Decision == tool.Allow:
			out = append(out, r.Pattern)
		default:
			not = append(not, r.Pattern)
		}
	}
	out = slices.DeleteFunc(out, func(allow string) bool {
		return slices.ContainsFunc(not, func(deny string) bool {
			if deny == "" || deny == "*" || allow == "*" {
				return true
			}
			host, port := sandbox.SplitPort(allow)
			n, only := sandbox.SplitPort(deny)
			if port != "" && only != "" && port != only {
				return false
			}
			below, wide := strings.CutPrefix(n, "*.")
			if around, is := strings.CutPrefix(host, "*."); is && (strings.HasSuffix(strings.ToLower(n), "."+strings.ToLower(around))) {
				return true // nothing is taken out of what is allowed
			}
			return strings.EqualFold(n, host) || wide && strings.HasSuffix(strings.ToLower(host), "."+strings.ToLower(below))
		})
	})
	slices.Sort(out)
	return slices.Compact(out)
}
