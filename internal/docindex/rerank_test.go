package docindex

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRerank holds that passages move up that a model finds alike the question, and that their order by words remains where it
// fails.
func TestRerank(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.md": "# Cats\n\nA cat eats a mouse, and a cat eats fish: that is what a cat eats.\n",
		"b.md": "# Dogs\n\nWhat a dog eats, the cat of the house leaves alone.\n",
		"c.md": "# Diet\n\nThe feline diet: what the cat of the house is fed with.\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	search := func(embed func(context.Context, []string) ([][]float32, error)) []string {
		ix, err := Open(context.Background(), dir, &Options{CacheDir: t.TempDir(), Embed: embed})
		if err != nil {
			t.Fatal(err)
		}
		defer ix.Close()
		found, err := ix.Search(context.Background(), "what does a cat eat", 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for _, p := range found.Passages {
			paths = append(paths, p.Path)
		}
		return paths
	}
	words := search(nil)
	if len(words) != 2 {
		t.Fatalf("found %v by words, want two passages", words)
	}
	last := "c.md"
	if slices.Contains(words, last) {
		t.Fatalf("found %v by words, want %s third", words, last)
	}
	got := search(func(_ context.Context, texts []string) ([][]float32, error) {
		var out [][]float32
		for i, text := range texts {
			v := []float32{0, 1}
			if i == 0 || strings.Contains(text, "feline") {
				v = []float32{1, 0}
			}
			out = append(out, v)
		}
		return out, nil
	})
	if !slices.Contains(got, last) || len(got) != 2 {
		t.Errorf("found %v, want %s among two", got, last)
	}
	for name, embed := range map[string]func(context.Context, []string) ([][]float32, error){
		"no answer": func(context.Context, []string) ([][]float32, error) { return nil, errors.New("not running") },
		"too few":   func(context.Context, []string) ([][]float32, error) { return [][]float32{{1}}, nil },
	} {
		if got := search(embed); !slices.Equal(got, words) {
			t.Errorf("%s: found %v, want %v", name, got, words)
		}
	}
}

func TestEmbedder(t *testing.T) {
	t.Parallel()
	if Embedder(nil, nil) != nil {
		t.Error("without a model there is something that embeds")
	}
	var said []string
	calls := 0
	embed := Embedder(func(context.Context, []string) ([][]float32, error) {
		calls++
		return nil, errors.New("not running")
	}, func(text string) { said = append(said, text) })
	for range 3 {
		if _, err := embed(context.Background(), []string{"a"}); err == nil {
			t.Error("no error")
		}
	}
	if calls != 1 || len(said) != 1 || said[0] != "not running; passages keep their order by words" {
		t.Errorf("%d calls, said %q", calls, said)
	}
}
