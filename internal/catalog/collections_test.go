package catalog

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/internal/npm"
)

// TestCollections reads what people really publish, whole.
func TestCollectionsOfAgents(t *testing.T) {
	t.Parallel()
	const (
		flow = "sha512-qaONGM4PdXHstuoXWUjVHlhJdFoNrn9TfWSVT7msEod8By5yMZpc86ww0a9l1qppyYqCG4TvsVaV7XvWnFJd/g=="
		ecc  = "sha512-Dj7vsfOiuBD58OSvRJX8w9vHbyyIS6DxvtSs2LWnUBR2Wn/UeuJ0vwpISfk10VwLpFc6KPIfzdmkPQjPy9QJMw=="
		gsd  = "sha512-3sQoRYFl7v7dju3LXq7sE3pnufGHF7R6xfDU1DaH2+YYe4V6+dhoaUo4KoBHvjtLQ8UATUX3hWofHg+tAUUALQ=="
		bmad = "sha512-gbbHo32TxCPwo4Yy70kqykFRwN5UdYqfnDKTsKAsF9m5qtLeoiCgEawj/LuzLBHLrYA0WTOyL/XWtXpgyDonMQ=="
	)
	type counts struct {
		Agents, Problems, Overridden int
		Lenient                      int // not quite YAML
		Renamed                      int
		Unknown                      int // fields
		Tools                        int // that have no counterpart, or are none
		Limited                      int // agents with a list of tools
		MCP                          int // agents with tools of MCP servers
	}
	for _, c := range []struct {
		spec, integrity, from string
		want                  counts
	}{
		{"claude-flow@3.43.0", flow, ".claude/agents", counts{Agents: 97, Overridden: 11, Lenient: 2, Renamed: 6, Unknown: 2, Limited: 13, MCP: 13}},
		{"ecc-universal@2.0.0", ecc, "agents", counts{Agents: 64, Limited: 64, MCP: 1}},
		{"ecc-universal@2.0.0", ecc, "docs/ja-JP/agents", counts{Agents: 60, Lenient: 1, Limited: 60, MCP: 1}},
		{"get-shit-done-cc@1.42.3", gsd, "agents", counts{Agents: 33, Limited: 33, MCP: 8}},
		{"bmad-method@6.12.0", bmad, "src/bmm-skills", counts{Problems: 37}},
	} {
		t.Run(c.spec+"/"+c.from, func(t *testing.T) {
			t.Parallel()
			project := t.TempDir()
			from := os.DirFS(filepath.Join(npm.Package(t, c.spec, c.integrity), filepath.FromSlash(c.from)))
			if err := os.CopyFS(filepath.Join(project, ".claude", "agents"), from); err != nil {
				t.Fatal(err)
			}
			lib := find(t, &Options{Dir: project, bare: true})
			got := counts{Agents: len(lib.List()), Problems: len(lib.Problems())}
			for _, p := range lib.Problems() {
				if !strings.Contains(p.Text, "there is no front matter") && !strings.Contains(p.Text, "there is no name") && !strings.Contains(p.Text, "is a skill and no agent") {
					t.Errorf("problem %s", p)
				}
			}
			for _, d := range lib.List() {
				got.Overridden += len(d.Overrides)
				for _, w := range d.Warnings {
					for what, n := range map[string]*int{"taken as plain text": &got.Lenient, "the agent is called": &got.Renamed, "unknown field": &got.Unknown, "counterpart": &got.Tools, "there is no tool": &got.Tools} {
						if strings.Contains(w.Text, what) {
							*n++
						}
					}
				}
				if d.Tools != nil {
					got.Limited++
				}
				if slices.ContainsFunc(d.Tools, func(s string) bool { return strings.HasPrefix(s, "mcp__") }) {
					got.MCP++
				}
				if d.Prompt == "" || d.Description == "" && c.from != "src/bmm-skills" {
					t.Errorf("%s has no prompt or description", d.Name)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
