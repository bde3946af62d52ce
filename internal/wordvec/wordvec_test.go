package wordvec

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"testing"
)

func open(t testing.TB) *Table {
	t.Helper()
	table, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestTable holds the table to what make.py made, and to its size.
func TestTable(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256(table)
	if got, want := hex.EncodeToString(sum[:]), "ca0eeb559136b79e63ec10b5ea7f46a5b391d9bb9937a89cc51288203777dbff"; got != want {
		t.Errorf("SHA-256 of table.bin is %s, want %s", got, want)
	}
	if len(table) > 4<<20 {
		t.Errorf("table.bin has %d bytes, want 4 MiB at most", len(table))
	}
	if n := len(open(t).words); n < 20_000 {
		t.Errorf("the table has %d words, want 20000 at least", n)
	}
}

// TestNear holds that words of one meaning are nearer than words of another, words of software and of every day.
func TestNear(t *testing.T) {
	t.Parallel()
	table := open(t)
	for _, c := range []struct{ word, near, far string }{
		{"folder", "directory", "signature"},
		{"cap", "limit", "mutex"},
		{"panic", "crash", "folder"},
		{"goroutine", "thread", "certificate"},
		{"forbidden", "prohibited", "integer"},
		{"outgoing", "incoming", "sorted"},
		{"regexp", "pattern", "socket"},
		{"laptop", "computer", "comma"},
		{"mutex", "lock", "font"},
	} {
		word, near, far := vector(t, table, c.word), vector(t, table, c.near), vector(t, table, c.far)
		if n, f := cosine(word, near), cosine(word, far); n < 0.5 || n < f+0.3 {
			t.Errorf("%s: cosine of %s is %.2f, of %s %.2f", c.word, c.near, n, c.far, f)
		}
	}
}

func vector(t *testing.T, table *Table, word string) Vector {
	t.Helper()
	v, ok := lookup(table, word)
	if !ok {
		t.Fatalf("the table lacks %q", word)
	}
	if n := cosine(v, v); math.Abs(n-1) > 1e-6 {
		t.Fatalf("the vector of %q has no direction", word)
	}
	return v
}

func TestUnknown(t *testing.T) {
	t.Parallel()
	table := open(t)
	for _, word := range []string{"", "xyzzyplugh", "Folder", "folder\n", "\n"} {
		if v, ok := lookup(table, word); ok || v != (Vector{}) {
			t.Errorf("Vector(%q) = %v, %v; want none", word, v, ok)
		}
	}
	if near := nearest(table, "xyzzyplugh", 3); near != nil {
		t.Errorf("Nearest of an unknown word is %v, want nil", near)
	}
	if c := cosine(Vector{}, vector(t, table, "folder")); c != 0 {
		t.Errorf("cosine with the zero vector is %v, want 0", c)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	near := nearest(open(t), "directory", 5)
	if len(near) != 5 || !slices.ContainsFunc(near, func(n neighbor) bool { return n.word == "directories" }) {
		t.Errorf("nearest to directory: %v, want five with directories among them", near)
	}
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	good := append([]byte{2, 0, 0, 0}, "a\nb\n"...)
	good = append(good, make([]byte, 2*Dims)...)
	if _, err := parse(good); err != nil {
		t.Errorf("parse of a good table: %v", err)
	}
	unsorted := slices.Clone(good)
	unsorted[4], unsorted[6] = 'b', 'a'
	for name, data := range map[string][]byte{
		"empty": nil, "cut": good[:len(good)-1], "no words": good[:4], "many words": append([]byte{255, 255, 255, 255}, good[4:]...), "unsorted": unsorted,
	} {
		if _, err := parse(data); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := parse(table); err != nil {
			b.Fatal(err)
		}
	}
}

func TestNoDirection(t *testing.T) {
	data := append([]byte{1, 0, 0, 0, 'x', '\n'}, make([]byte, Dims)...)
	table, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := lookup(table, "x"); !ok || v != (Vector{}) {
		t.Errorf("%v %v, want the zero Vector", v, ok)
	}
}

// cosine returns the cosine of the angle between two vectors of any length: 1 for the same direction. It is 0 if one of them is zero.
func cosine(v, u Vector) float64 {
	var dot, vv, uu float64
	for i := range v {
		a, b := float64(v[i]), float64(u[i])
		dot, vv, uu = dot+a*b, vv+a*a, uu+b*b
	}
	if vv == 0 || uu == 0 {
		return 0
	}
	return dot / math.Sqrt(vv*uu)
}

// lookup returns the vector of a word, given in lower case and not stemmed, and whether the table has the word.
func lookup(t *Table, word string) (Vector, bool) {
	i, ok := slices.BinarySearch(t.words, word)
	if !ok {
		return Vector{}, false
	}
	return t.at(i), true
}

// A neighbor is a word with the cosine between its vector and that of another word.
type neighbor struct {
	word   string
	cosine float64
}

// nearest returns the k words nearest to word, the nearest first and without word itself, or nil if the table does not have word.
func nearest(t *Table, word string, k int) []neighbor {
	v, ok := lookup(t, word)
	if !ok {
		return nil
	}
	var near []neighbor
	for i, w := range t.words {
		if w != word {
			near = append(near, neighbor{w, cosine(v, t.at(i))})
		}
	}
	slices.SortStableFunc(near, func(a, b neighbor) int {
		switch {
		case a.cosine > b.cosine:
			return -1
		case a.cosine < b.cosine:
			return 1
		}
		return 0
	})
	return near[:min(k, len(near))]
}
