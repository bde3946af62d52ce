// Package wordvec holds a small table of word vectors: words that people use in the same surroundings have vectors that point
// the same way, so that text is found in other words than those of a question ("folder" and "directory", "cap" and "limit").
// The vectors were counted from general English and from documentation of software; make.py beside this file makes the table.
package wordvec

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
)

// Dims is the length of a vector.
const Dims = 64

// A Vector is the direction of a word, with length 1. The zero Vector has no direction.
type Vector [Dims]float32

// A Table maps words to vectors. It is read-only and safe for use from several goroutines.
type Table struct {
	words []string // sorted
	cells []byte   // Dims signed bytes for each word
}

//go:embed table.bin
var table []byte

var load = sync.OnceValues(func() (*Table, error) { return parse(table) })

// Load returns the table of the package. It is parsed at the first call, in a few milliseconds.
func Load() (*Table, error) { return load() }

// parse reads a table: the number of words, the words with a line feed each, and Dims signed bytes for each word.
func parse(data []byte) (*Table, error) {
	if len(data) < 4 {
		return nil, errors.New("wordvec: table.bin is empty; make it with make.py")
	}
	n, data := int(binary.LittleEndian.Uint32(data)), data[4:]
	size := len(data) - n*Dims
	if size < n || bytes.Count(data[:size], []byte("\n")) != n || data[size-1] != '\n' {
		return nil, errors.New("wordvec: table.bin is damaged; make it again with make.py")
	}
	words := strings.Split(string(data[:size-1]), "\n")
	if !slices.IsSorted(words) {
		return nil, errors.New("wordvec: the words of table.bin are not sorted; make it again with make.py")
	}
	return &Table{words: words, cells: data[size:]}, nil
}

// All iterates over the words and their vectors, in the order of the words.
func (t *Table) All() iter.Seq2[string, Vector] {
	return func(yield func(string, Vector) bool) {
		for i, w := range t.words {
			if !yield(w, t.at(i)) {
				return
			}
		}
	}
}

func (t *Table) at(i int) Vector {
	var v Vector
	var sum float64
	for d, c := range t.cells[i*Dims : (i+1)*Dims] {
		v[d] = float32(int8(c)) //nolint:gosec // the bytes are signed
		sum += float64(v[d]) * float64(v[d])
	}
	for d := range v {
		v[d] /= float32(math.Sqrt(max(sum, 1))) // 0 is no direction
	}
	return v
}
