package docindex

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/superstep-dev/superstep/internal/inside"
)

// A record is a file that is ready to be stored. A file without passages is stored too, so that it
// is not read again.
type record struct {
	file
	left  string // why it is left out
	rows  []row
	terms []byte // of the rows, each followed by a space
	where []byte // those of the path
}

// A row is the unit that the index finds: a passage, or several adjacent passages of code.
type row struct {
	first, last      int // lines, from 1
	body, head, next int // where in the terms of the record each begins
}

const (
	readAhead  = 32      // files
	bytesAhead = 8 << 20 // of them, roughly
)

// A reader reads files one after the other in the same memory.
type reader struct {
	*builder
	tok    *tokenizer
	raw    []byte
	lines  []line
	column int // at hand
	terms  int // different ones in it
}

// update removes files from the index and adds others. Readers keep ahead of storing them, in order.
func (b *builder) update(ctx context.Context, c *sqlite.Conn, add, remove []file) error {
	if err := b.remove(c, remove); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	type job struct {
		weight int64
		done   chan *record
	}
	ahead, order := semaphore.NewWeighted(bytesAhead), make(chan job, readAhead)
	readers := make(chan *reader, connections())
	for range cap(readers) {
		readers <- &reader{builder: b, tok: newTokenizer()}
	}
	var g errgroup.Group
	g.Go(func() error {
		defer close(order)
		for _, f := range add {
			j := job{max(f.size, 1), make(chan *record, 1)}
			if packed(f.path) {
				j.weight *= 8
			}
			j.weight = min(bytesAhead, j.weight)
			if err := ahead.Acquire(ctx, j.weight); err != nil {
				return err
			}
			select {
			case order <- j:
			case <-ctx.Done():
				return ctx.Err()
			}
			g.Go(func() error {
				r := <-readers
				j.done <- r.read(f)
				readers <- r
				return nil
			})
		}
		return nil
	})
	err := b.store(c, len(add), func(yield func(*record) bool) {
		for j := range order {
			if !yield(<-j.done) {
				return
			}
			ahead.Release(j.weight)
		}
	})
	stop()
	return cmp.Or(err, g.Wait())
}

const mostKept = 1 << 18 // bytes of a buffer that is used again

func (b *builder) remove(c *sqlite.Conn, files []file) error {
	for _, f := range files {
		for _, q := range []string{
			`update meta set removed = removed + (select count(*) from rows where file = ?)`,
			`delete from t where rowid in (select id from rows where file = ?)`,
			`delete from rows where file = ?`,
			`delete from files where id = ?`,
		} {
			if err := sqlitex.Execute(c, q, &sqlitex.ExecOptions{Args: []any{f.id}}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *builder) store(c *sqlite.Conn, all int, records iter.Seq[*record]) error {
	insFile, err1 := c.Prepare(`insert into files(path, size, mtime, fresh, left) values(?, ?, ?, ?, ?)`)
	insRow, err2 := c.Prepare(`insert into rows(file, first, last) values(?, ?, ?)`)
	insText, err3 := c.Prepare(`insert into t(rowid, body, head, path) values(?, ?, ?, ?)`)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	var read int64
	for d := range records {
		insFile.BindText(1, d.path)
		insFile.BindInt64(2, d.size)
		insFile.BindInt64(3, d.mtime)
		insFile.BindBool(4, d.fresh)
		insFile.BindText(5, d.left)
		if err := step(insFile); err != nil {
			return err
		}
		id := c.LastInsertRowID()
		for _, r := range d.rows {
			for i, n := range []int64{id, int64(r.first), int64(r.last)} {
				insRow.BindInt64(i+1, n)
			}
			if err := step(insRow); err != nil {
				return err
			}
			insText.BindInt64(1, c.LastInsertRowID())
			insText.BindBytes(2, d.terms[r.body:r.head])
			insText.BindBytes(3, d.terms[r.head:r.next])
			insText.BindBytes(4, d.where)
			if err := step(insText); err != nil {
				return err
			}
		}
		read += d.size
		b.stats.Read++
		if b.progress != nil {
			b.progress(b.stats.Read, all, read)
		}
	}
	return nil
}

func step(s *sqlite.Stmt) error {
	_, err := s.Step()
	if rerr := s.Reset(); err == nil {
		err = rerr
	}
	return err
}

// read reads a file and cuts it up. Its size and time are taken before the read, so a concurrent
// change is detected next time.
func (r *reader) read(f file) *record {
	rec := &record{file: f}
	now := time.Now()
	raw, info, err := slurp(r.root, f.path, r.raw)
	if err != nil {
		rec.left = "unreadable"
		return rec
	}
	if r.raw = raw; cap(raw) > mostKept {
		r.raw = nil
	}
	rec.size, rec.mtime = info.Size(), info.ModTime().UnixNano()
	rec.fresh = now.Sub(info.ModTime()) < racy
	switch raw, err = unpacked(f.path, raw); {
	case errors.Is(err, errTooLarge):
		rec.left = tooLarge
	case err != nil:
		rec.left = "unreadable"
	case looksBinary(raw):
		rec.left = "binary"
	case IsBrief(raw):
		rec.left = "written by research"
	}
	if rec.left != "" {
		return rec
	}
	d := parse(kindOf(f.path), raw, r.lines)
	if r.lines = d.lines; cap(r.lines) > mostKept/32 {
		r.lines = nil
	}
	r.begin()
	rec.where = r.append(rec.where, []byte(whereabouts(f.path)), false)
	few := prior(f.path, false) < fewRows
	for i := 0; i < len(d.spans); {
		j := i + 1
		for j < len(d.spans) && d.spans[j].last-d.spans[i].first <= rowLines &&
			(few || !d.spans[i].prose && !d.spans[j].prose && d.spans[j].head == d.spans[i].head) {
			j++
		}
		row := row{first: d.spans[i].first + 1, last: d.spans[j-1].last, body: len(rec.terms)}
		r.begin()
		for _, l := range d.lines[row.first-1 : row.last] {
			rec.terms = r.append(rec.terms, l.text, few || !d.spans[i].prose) // in code, how often a word is there says little
		}
		row.head = len(rec.terms)
		r.begin()
		rec.terms = r.append(rec.terms, []byte(d.spans[i].head), false)
		row.next = len(rec.terms)
		rec.rows = append(rec.rows, row)
		i = j
	}
	return rec
}

// begin begins a column of a row.
func (r *reader) begin() {
	r.terms = 0
	r.column++
	if len(r.tok.stems) > maxStems {
		clear(r.tok.stems)
		clear(r.tok.words) // their stems are gone
	}
}

// append appends the terms of a text to a column, except terms that occur everywhere and, if once
// is set, terms that the column already has. Only data has more different terms than the limit.
func (r *reader) append(b, text []byte, once bool) []byte {
	if r.terms > maxStems {
		return b
	}
	r.tok.each(text[:min(len(text), longLine)], func(s *stem, _ int, _ bool) {
		if s.common {
			return
		}
		if s.column != r.column {
			s.column = r.column
			r.terms++
		} else if once {
			return
		}
		b = append(append(b, s.text...), ' ')
	})
	return b
}

// everywhere reports whether a term is too common to be indexed.
func everywhere(term string) bool {
	switch term {
	case "a", "an", "and", "are", "as", "be", "by", "from", "in", "is", "it", "of", "or", "that", "the", "thi", "to", "with":
		return true
	}
	return false
}

// whereabouts returns the last parts of a path, which tell what a file is about.
func whereabouts(name string) string {
	dir, base := path.Split(name)
	dir = strings.TrimSuffix(dir, "/")
	return path.Base(path.Dir(dir)) + "/" + path.Base(dir) + "/" + strings.TrimSuffix(base, path.Ext(base))
}

// slurp reads a regular file that fits, confined to root. It may use the memory of buf.
func slurp(root *os.Root, name string, buf []byte) ([]byte, os.FileInfo, error) {
	f, info, err := inside.Regular(root, name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	raw := slices.Grow(buf[:0], int(min(info.Size(), maxFile)))[:min(info.Size(), maxFile)]
	n, err := io.ReadFull(f, raw[:min(len(raw), sniffed)])
	if err == nil && n < len(raw) && (packed(name) || !looksBinary(raw[:n])) { // of what is no text the beginning will do
		var more int
		more, err = io.ReadFull(f, raw[n:])
		n += more
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return raw[:n], info, err
}
