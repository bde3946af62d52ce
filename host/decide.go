package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/catalog/trust"
)

// Trusted is the state of a Decision that was made.
const Trusted = "trusted"

// A Decision is an item of the project, and whether the user trusts it.
type Decision struct {
	Kind   string `json:"kind"` // workflow, agent, skill, "mcp", "mcp tools", …
	Name   string `json:"name"`
	Path   string `json:"path"`
	State  string `json:"state"` // Trusted, "changed" or "not trusted"
	Digest string `json:"digest"`
	Was    string `json:"was,omitempty"` // the digest that was trusted
	Detail string `json:"detail,omitempty"`
	Diff   string `json:"diff,omitempty"` // what changed since
	Text   string `json:"text,omitempty"` // of a recipe that was never trusted; "" if it is too long to be compared later
	File   string `json:"-"`              // the absolute path of a recipe; only of what Untrusted returns, and only if it can be run by that

	Added, Removed int `json:"-"` // lines of the Diff
	item           trust.Item
}

// Called returns the name of the item for users: the tools of a server have the name of their
// server.
func (d *Decision) Called() string {
	if d.item.Kind == trust.MCPTools {
		return strings.TrimSuffix(d.Name, " tools")
	}
	return d.Name
}

// Decisions returns the items of the project that need the user's trust. Without names, it returns
// all of them.
func (h *Host) Decisions(names ...string) ([]Decision, error) {
	p, err := h.project()
	if err != nil {
		return nil, err
	}
	var all, out []Decision
	for _, s := range p.Items() {
		d := Decision{
			Kind: string(s.Item.Kind), Name: s.Item.Name, Path: s.Item.Path, State: string(catalog.Untrusted), Digest: s.Item.Digest, Was: s.Old,
			Detail: s.Item.Detail, Diff: s.Diff(), item: s.Item,
		}
		d.Added, d.Removed = s.Lines()
		switch s.State {
		case trust.Trusted:
			d.State = Trusted
		case trust.Changed:
			d.State = string(catalog.Changed)
		case trust.New:
			if files := trust.Files(s.Item.Content); s.Item.Kind == trust.Workflow && len(files) == 1 && !files[0].Bare {
				d.Text = files[0].Text
			}
		}
		all = append(all, d)
	}
	for _, name := range names {
		n := len(out)
		for _, d := range all {
			if slices.Contains([]string{d.Called(), d.Kind + "/" + d.Called(), d.Name, d.Path}, name) {
				out = append(out, d)
			}
		}
		if len(out) == n {
			return nil, mistake(fmt.Sprintf("the project brings nothing along that is called %q", name))
		}
	}
	if len(names) == 0 {
		out = all
	}
	return out, nil
}

// OwnServer reports whether the user's own configuration has an MCP server of this name.
func (h *Host) OwnServer(name string) bool {
	p, err := h.project()
	return err == nil && slices.ContainsFunc(p.tools(), func(e catalog.Item) bool {
		return e.Kind == "mcp" && e.Source == catalog.User && e.Name == "mcp__"+name+"__*"
	})
}

// Trust marks the items as trusted, with the content they had when Decisions returned them.
func (h *Host) Trust(list []Decision) error {
	p, err := h.project()
	if err != nil {
		return err
	}
	items := make([]trust.Item, len(list))
	for i := range list {
		items[i] = list[i].item
	}
	defer h.Refresh()
	return p.Trust(items)
}

// Revoke removes the decisions on the named items and returns these decisions. Without names, it
// removes all. Tools that were seen on servers stay refused.
func (h *Host) Revoke(names ...string) ([]Decision, error) {
	p, err := h.project()
	if err != nil {
		return nil, err
	}
	list, err := h.Decisions(names...)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(d Decision) bool { return d.item.Kind == trust.MCPTools })
	if len(names) > 0 && len(list) == 0 {
		return nil, mistake(fmt.Sprintf("%s is not trusted, and there is nothing to take back", names[0]))
	}
	var items []string
	for i := range list {
		if list[i].State = string(catalog.Untrusted); len(names) > 0 {
			items = append(items, list[i].Name)
		}
	}
	defer h.Refresh()
	return list, p.Revoke(items...)
}
