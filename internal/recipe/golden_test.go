package recipe_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/superstep-dev/superstep/internal/recipe"
)

// shown is all problems as a person sees them.
func shown(source []byte, ps recipe.Problems) string {
	var b strings.Builder
	for _, p := range ps {
		fmt.Fprintf(&b, "%s [%s]\n", p.Error(), p.Code)
		if e := p.Excerpt(source); e != "" {
			for line := range strings.Lines(e + "\n") {
				b.WriteString("    | " + line)
			}
		}
	}
	return b.String()
}

func TestProblems(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("testdata/problems/*.txtar")
	odd, _ := filepath.Glob("testdata/warnings/*.txtar")
	if len(files) < 5 || len(odd) < 1 {
		t.Fatal("no fixtures")
	}
	files = append(files, odd...)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := &txtar.Archive{Comment: a.Comment}
			for _, f := range a.Files {
				if !strings.HasSuffix(f.Name, ".yaml") {
					continue
				}
				_, ps := recipe.Parse(f.Name, f.Data)
				got.Files = append(got.Files, f, txtar.File{Name: strings.TrimSuffix(f.Name, ".yaml") + ".problems", Data: []byte(shown(f.Data, ps))})
				if warned := filepath.Base(filepath.Dir(file)) == "warnings"; (ps.Err() == nil) != warned || len(ps) == 0 {
					t.Errorf("%s: %v", f.Name, ps)
				}
				for _, p := range ps {
					inFile(t, f.Data, p)
				}
			}
			want := txtar.Format(a)
			if have := txtar.Format(got); !bytes.Equal(have, want) {
				if os.Getenv("SUPERSTEP_UPDATE") != "" {
					if err := os.WriteFile(file, have, 0o600); err != nil {
						t.Fatal(err)
					}
					return
				}
				t.Error(cmp.Diff(string(want), string(have)))
			}
		})
	}
}

// inFile checks that a problem is at a place of the text, or about all of it.
func inFile(t interface{ Errorf(string, ...any) }, text []byte, p *recipe.Problem) {
	if p.Pos == (recipe.Pos{}) {
		return
	}
	if p.Pos.Line < 1 || p.Pos.Col < 1 {
		t.Errorf("%v: no place", p)
		return
	}
	if e := p.Excerpt(text); e == "" || !strings.HasSuffix(e, "^") {
		t.Errorf("%v: outside of the file", p)
	}
	if p.End != 0 && p.End <= p.Pos.Col {
		t.Errorf("%v: ends at %d, before it starts", p, p.End)
	}
}

func TestValid(t *testing.T) {
	t.Parallel()
	for _, file := range validFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, ps := recipe.Parse(file, text)
		if r == nil {
			t.Errorf("%v", ps)
		}
	}
}

func validFiles(t testing.TB) []string {
	files, _ := filepath.Glob("testdata/valid/*.yaml")
	if len(files) < 5 {
		t.Fatal("no fixtures")
	}
	return files
}
