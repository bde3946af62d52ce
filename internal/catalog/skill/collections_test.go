package skill_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/catalog/skill"
	"github.com/superstep-dev/superstep/internal/npm"
)

// TestCollections reads what people really publish, whole.
func TestCollections(t *testing.T) {
	t.Parallel()
	const (
		flow = "sha512-qaONGM4PdXHstuoXWUjVHlhJdFoNrn9TfWSVT7msEod8By5yMZpc86ww0a9l1qppyYqCG4TvsVaV7XvWnFJd/g=="
		ecc  = "sha512-Dj7vsfOiuBD58OSvRJX8w9vHbyyIS6DxvtSs2LWnUBR2Wn/UeuJ0vwpISfk10VwLpFc6KPIfzdmkPQjPy9QJMw=="
		bmad = "sha512-gbbHo32TxCPwo4Yy70kqykFRwN5UdYqfnDKTsKAsF9m5qtLeoiCgEawj/LuzLBHLrYA0WTOyL/XWtXpgyDonMQ=="
	)
	type codes = map[string]int
	type counts struct {
		Skills, Problems, Overridden int
		Lenient                      int // not quite YAML
		Renamed                      int // whose name the format forbids
		Errors                       codes
	}
	for _, c := range []struct {
		spec, integrity, from, to string
		want                      counts
	}{
		{"claude-flow@3.43.0", flow, ".claude/skills", ".claude/skills", counts{Skills: 38, Renamed: 21, Errors: codes{"InvalidName": 21, "NameMismatch": 21}}},
		{"claude-flow@3.43.0", flow, "node_modules/@claude-flow/codex/.agents/skills", ".agents/skills", counts{Skills: 6}},
		{"ecc-universal@2.0.0", ecc, "skills", "skills", counts{Skills: 197, Errors: codes{"NameMismatch": 5}}},
		{"ecc-universal@2.0.0", ecc, ".agents/skills", ".agents/skills", counts{Skills: 33}},
		{"ecc-universal@2.0.0", ecc, "docs/ja-JP/skills", ".github/skills", counts{Skills: 227, Problems: 2, Lenient: 5, Errors: codes{"MissingFrontMatter": 2, "NameMismatch": 5}}},
		{"bmad-method@6.12.0", bmad, "src", "skills", counts{Skills: 50}},
		{"bmad-method@6.12.0", bmad, "web-bundles", "skills", counts{Problems: 6, Errors: codes{"MissingFrontMatter": 6}}},
	} {
		t.Run(c.spec+"/"+c.from, func(t *testing.T) {
			t.Parallel()
			project := t.TempDir()
			from := os.DirFS(filepath.Join(npm.Package(t, c.spec, c.integrity), filepath.FromSlash(c.from)))
			if err := os.CopyFS(filepath.Join(project, filepath.FromSlash(c.to)), from); err != nil {
				t.Fatal(err)
			}
			lib := find(t, &catalog.Options{Dir: project})
			got := counts{Skills: len(lib.List()), Problems: len(lib.Problems())}
			for _, p := range lib.Problems() {
				if !strings.Contains(p.Text, "there is no front matter") {
					t.Errorf("problem %s", p)
				}
			}
			for _, s := range lib.List() {
				got.Overridden += len(s.Overrides)
				for _, w := range s.Warnings {
					if strings.Contains(w.Text, "taken as plain text") {
						got.Lenient++
					}
					if strings.Contains(w.Text, "may only have") {
						got.Renamed++
					}
				}
				if l, err := lib.Load(s.Name); err != nil || l == "" {
					t.Errorf("%s: %v", s.Name, err)
				}
				for _, f := range s.Files {
					if f.Size > 1<<20 {
						continue
					}
					if _, err := lib.ReadFile(s.Name, f.Path); err != nil && !strings.Contains(err.Error(), "is no text") {
						t.Error(err)
					}
				}
			}
			if p := lib.Prompt(); len(p) > 16<<10 || strings.Count(p, "\n- ") != got.Skills {
				t.Errorf("the prompt has %d bytes and %d skills", len(p), strings.Count(p, "\n- "))
			}
			report := skill.Validate(project)
			for _, e := range report.Errors {
				if got.Errors == nil {
					got.Errors = codes{}
				}
				got.Errors[e.Code]++
			}
			if want := got.Skills + got.Problems + got.Overridden; report.Skills != want {
				t.Errorf("%d skills were checked, %d found", report.Skills, want)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
