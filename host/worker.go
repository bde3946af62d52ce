package host

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	delegate "github.com/superstep-dev/superstep/internal/builtin/agent"
	"github.com/superstep-dev/superstep/internal/builtin/ralph"
	"github.com/superstep-dev/superstep/internal/builtin/research"
	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
)

// A Worker bounds what this process does for the runs of its store, which others may have put there.
type Worker struct {
	Dirs string // the folders that it serves, absolute, one a line; "" for a process that is no worker
	// Shared means that others may answer permission requests. Their answers then permit nothing, unless the user's configuration says so.
	Shared bool
}

// workerSettings are the user's settings for workers in permissions.yaml:
//
//	workers:
//	  allow: ["bash(go test *)"]   # what runs may come with
//	  answers: true                # permission requests may be answered by whoever can write the store
type workerSettings struct {
	allow   []permit.Rule
	answers bool
}

func (r *reader) workers(f frontmatter.Field) {
	if f.Value.Kind != frontmatter.Map {
		r.wrong(f.Value.Line, f.Value.Col, "workers: want a map with allow and answers")
		return
	}
	known := []string{"allow", "answers"}
	for _, x := range f.Value.Fields {
		switch {
		case x.Key == "answers":
			on, ok := x.Value.Bool()
			if !ok {
				r.wrong(x.Value.Line, x.Value.Col, "workers: answers: want true or false")
			}
			r.f.workers.answers = on
		case x.Key != "allow":
			r.wrong(x.Line, x.Col, "workers: unknown setting %q%s; there are: %s", x.Key, suggest.Hint(x.Key, known), strings.Join(known, ", "))
		case x.Value.Kind != frontmatter.List:
			r.wrong(x.Value.Line, x.Value.Col, `workers: allow: want a list such as ["bash(go test *)"]`)
		default:
			for _, v := range x.Value.Items {
				rule, err := permit.Parse(tool.Allow, v.Text, clean.Place(r.f.path, v.Line, v.Col))
				if err != nil || rule.Outside() {
					r.wrong(v.Line, v.Col, "workers: allow: %s is no rule that a run may come with: write one such as bash(go test *), and neither unsandboxed nor net(*)", v.Text)
					continue
				}
				r.f.workers.allow = append(r.f.workers.allow, rule)
			}
		}
	}
}

// accepts returns why a worker does not execute a run. Nil if it does, or if this process is none.
func (h *Host) accepts(started *runlog.RunStarted) error {
	if h.cfg.Worker.Dirs == "" {
		return nil
	}
	type setting struct {
		Dir, Docs, Report string
		Rules             []string
	}
	var in setting
	var pinned struct{ Setting setting }
	if slices.Contains([]string{delegate.Name, ralph.Name, research.Name}, started.Workflow) {
		_ = json.Unmarshal(started.Inputs, &in) // what does not fit is refused when it runs
	}
	_ = json.Unmarshal(started.Pinned, &pinned) // of a recipe
	dirs, rules := []string{in.Dir, in.Docs, in.Report, pinned.Setting.Dir}, slices.Concat(in.Rules, pinned.Setting.Rules)
	if im := started.Imported; im != nil { // it has the rights of whoever imported it
		dirs, rules = []string{im.Dir}, nil
	}
	for _, dir := range dirs {
		if err := h.serves(dir, nil); err != nil {
			return err
		}
	}
	return h.serves("", rules)
}

// serves returns why a worker does not work in a folder, or under the rules of a run. Rules that deny or ask bind it in any case.
func (h *Host) serves(dir string, rules []string) error {
	w := h.cfg.Worker
	if w.Dirs == "" {
		return nil
	}
	if filepath.IsAbs(dir) && !slices.ContainsFunc(strings.Split(w.Dirs, "\n"), func(own string) bool { return within(trust.Resolved(own), dir) }) {
		return fmt.Errorf("its folder %s is none that this worker serves; start one there, or with --dir %s", dir, clean.Shell(dir))
	}
	set, err := readSettings("", h.ConfigDir())
	if err != nil {
		return err
	}
	var own []permit.Rule
	if set.user != nil {
		own = slices.Concat(set.user.rules, set.user.workers.allow)
	}
	for _, text := range rules {
		r, err := parseRule(text, "the run")
		switch {
		case err != nil:
			return fmt.Errorf("its rule %q: %w", text, err)
		case r.Decision != tool.Allow:
		case r.Outside():
			return fmt.Errorf("it comes with the rule allow %s, which no worker takes from a run; run it without a worker", r)
		case !slices.ContainsFunc(own, func(o permit.Rule) bool { return o.Decision == tool.Allow && o.Covers(r) }):
			return fmt.Errorf("it comes with the rule allow %s, which this worker does not take; to have it taken: workers: {allow: [%q]} in %s", r, r.String(),
				userSettings(h.ConfigDir()))
		}
	}
	return nil
}

// strict reports whether only rules permit calls, and no answer that is in the log of a run: others could have put it there.
func (h *Host) strict() bool {
	w := h.cfg.Worker
	if w.Dirs == "" || !w.Shared {
		return false
	}
	set, err := readSettings("", h.ConfigDir())
	return err != nil || set.user == nil || !set.user.workers.answers
}

// OwnStore reports whether the store is in the user's own folder of data, so that nobody else writes it.
func (h *Host) OwnStore() bool {
	place, err := h.Place()
	return err == nil && (place.Kind == "sqlite" || place.Kind == "file") && within(trust.Resolved(h.Home()), h.DataDir()) && within(trust.Resolved(h.DataDir()), place.Path)
}
