package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/superstep-dev/superstep/vertex"
)

// names are the ids of the vertices in the file: texts, numbers among them.
type names struct {
	ids   []string
	index map[string]int32
}

func (n *names) vertex(id string) int32 {
	v, ok := n.index[id]
	if !ok {
		id, v = strings.Clone(id), int32(len(n.ids)) // it is a part of its line
		n.ids, n.index[id] = append(n.ids, id), v
	}
	return v
}

// read reads the file of edges.
func read(in *inputs, undirected bool) (*vertex.Graph[float64], *names, error) {
	if now, err := digest(in.Edges); err != nil {
		return nil, nil, err
	} else if now != in.Digest {
		return nil, nil, fmt.Errorf("%s has changed since the run began; put it back to resume the run, or start another run", in.Edges)
	}
	f, err := os.Open(in.Edges)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	plain, err := uncompressed(f)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", in.Edges, err)
	}
	edges, ids := vertex.EdgeList[float64]{Undirected: undirected}, &names{index: map[string]int32{}}
	lines := bufio.NewScanner(plain)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || line[0] == '%' {
			continue
		}
		fields := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(",;\t ", r) })
		if len(fields) < 2 {
			return nil, nil, fmt.Errorf("%s, line %d: want two ids, and maybe a length, and got %.80q", in.Edges, n, line)
		}
		if n == 1 && (strings.EqualFold(fields[0], "from") || strings.EqualFold(fields[0], "source")) {
			continue // the names of the columns
		}
		length := 1.0
		if len(fields) > 2 {
			if length, err = strconv.ParseFloat(fields[2], 64); err != nil || !(length >= 0) {
				remedy := ""
				if n == 1 {
					remedy = "; names of columns begin with from or source"
				}
				return nil, nil, fmt.Errorf("%s, line %d: the length %.40q is no number from 0 on%s", in.Edges, n, fields[2], remedy)
			}
		}
		edges.Add(ids.vertex(fields[0]), ids.vertex(fields[1]), length)
	}
	if err := lines.Err(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", in.Edges, err)
	}
	if len(ids.ids) == 0 {
		return nil, nil, fmt.Errorf("%s has no edges", in.Edges)
	}
	g, err := edges.Build(len(ids.ids))
	return g, ids, err
}

// uncompressed returns what a file holds, whether it is compressed or not.
func uncompressed(f io.Reader) (io.Reader, error) {
	b := bufio.NewReaderSize(f, 1<<20)
	switch magic, _ := b.Peek(4); {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(b)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return zstd.NewReader(b, zstd.WithDecoderConcurrency(1))
	}
	return b, nil
}

func digest(path string) (string, error) {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("--edges: there is no file %s; name a file of edges", path)
	case err == nil && info.IsDir():
		return "", fmt.Errorf("--edges: %s is a folder; name a file of edges", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil)), nil
}
