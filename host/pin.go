package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// pin trusts the first list of tools that a server offers, and refuses a changed list. It records
// the changed list, so that the user can review and trust it.
func (p *project) pin(server string, now *mcp.Offer) (*mcp.Offer, error) {
	item := pinItem(server, now)
	statuses, err := p.trust.Status(p.folder, []trust.Item{item})
	if err != nil {
		return nil, err
	}
	switch s := statuses[0]; s.State {
	case trust.Trusted:
		return now, p.trust.Saw(p.folder, item)
	case trust.Changed:
		if err := p.trust.Saw(p.folder, item); err != nil {
			return nil, err
		}
		agreed := unpin(s.OldContent)
		if agreed == nil {
			return nil, fmt.Errorf("they differ from those that were trusted, which were not kept")
		}
		agreed.Digest = s.Old
		return agreed, fmt.Errorf("they changed since they were trusted:\n%s", agreed.Diff(now))
	}
	return now, p.trust.Trust(p.folder, []trust.Item{item})
}

// pinItem returns the record of a list of tools.
func pinItem(server string, now *mcp.Offer) trust.Item {
	names := make([]string, len(now.Tools))
	files := make([]trust.File, 0, len(now.Tools)+1)
	if now.Instructions != "" {
		files = append(files, trust.File{Name: instructions, Text: now.Instructions, Digest: fingerprint(now.Instructions)})
	}
	for i, t := range now.Tools {
		names[i] = t.Name
		files = append(files, trust.File{Name: t.Name, Text: pinText(&t), Digest: t.Digest})
	}
	return trust.Item{
		Kind: trust.MCPTools, Name: catalog.ListName(server), Path: catalog.ListName(server), Digest: now.Digest,
		Detail: "offers " + strings.Join(names, ", "), Content: trust.Content(files, 1<<20),
	}
}

// instructions is the name under which a server's general instructions are recorded. Digests tell
// it from a tool of that name.
const instructions = "(instructions)"

// pinned returns the recorded description of a tool, in lines that can be compared.
type pinned struct {
	Description []string `json:"description"`
	Input       any      `json:"input,omitempty"`
	Output      any      `json:"output,omitempty"`
	Annotations any      `json:"annotations,omitempty"`
}

func pinText(s *mcp.Summary) string {
	value := func(raw json.RawMessage) (v any) {
		if json.Unmarshal(raw, &v) != nil {
			return nil
		}
		return v
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if e.Encode(pinned{strings.Split(s.Description, "\n"), value(s.Input), value(s.Output), value(s.Annotations)}) != nil {
		return ""
	}
	return b.String()
}

// unpin returns the list in a record, or nil if the record has no list.
func unpin(content string) *mcp.Offer {
	files := trust.Files(content)
	if files == nil {
		return nil
	}
	out := new(mcp.Offer)
	for i, f := range files {
		if i == 0 && f.Name == instructions && f.Digest == fingerprint(f.Text) {
			out.Instructions = f.Text
			continue
		}
		s := mcp.Summary{Name: f.Name, Digest: f.Digest}
		var t pinned
		if json.Unmarshal([]byte(f.Text), &t) == nil {
			raw := func(v any) json.RawMessage {
				if b, err := json.Marshal(v); err == nil && v != nil {
					return b
				}
				return nil
			}
			s.Description, s.Input, s.Output, s.Annotations = strings.Join(t.Description, "\n"), raw(t.Input), raw(t.Output), raw(t.Annotations)
		}
		out.Tools = append(out.Tools, s)
	}
	return out
}
