package docindex

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A document is a file ready to be stored. Without chunks it is one that is not text,
// kept so that it is not read again.
type document struct {
	file
	skipped bool
	chunks  []entry
}

type entry struct {
	chunk
	body, head []byte // terms, each followed by a space
}

// update removes files from the index and adds others. Reading and cutting them up
// keeps ahead of storing them.
func (b *builder) update(ctx context.Context, c *sqlite.Conn, add, remove []file) error {
	if err := b.remove(c, remove); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	docs := make(chan document, 16)
	g.Go(func() error {
		defer close(docs)
		tok := newTokenizer()
		for _, f := range add {
			select {
			case docs <- b.read(f, tok):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	err := b.store(c, docs)
	if err != nil {
		stop()
	}
	return cmp.Or(err, g.Wait())
}

func (b *builder) remove(c *sqlite.Conn, files []file) error {
	for _, f := range files {
		for _, q := range []string{
			`update meta set removed = removed + (select count(*) from chunks where file = ?)`,
			`delete from t where rowid in (select id from chunks where file = ?)`,
			`delete from chunks where file = ?`,
			`delete from files where id = ?`,
		} {
			if err := sqlitex.Execute(c, q, &sqlitex.ExecOptions{Args: []any{f.id}}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *builder) store(c *sqlite.Conn, docs <-chan document) error {
	insFile, err := c.Prepare(`insert into files(path, size, mtime, fresh, skipped, title) values(?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	insChunk, err := c.Prepare(`insert into chunks(file, first, last, off, size) values(?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	insText, err := c.Prepare(`insert into t(rowid, body, head) values(?, ?, ?)`)
	if err != nil {
		return err
	}
	var read int64
	for d := range docs {
		insFile.BindText(1, d.path)
		insFile.BindInt64(2, d.size)
		insFile.BindInt64(3, d.mtime)
		insFile.BindBool(4, d.fresh)
		insFile.BindBool(5, d.skipped)
		insFile.BindText(6, d.title)
		if err := step(insFile); err != nil {
			return err
		}
		id := c.LastInsertRowID()
		for _, e := range d.chunks {
			for i, n := range []int64{id, int64(e.start), int64(e.end), int64(e.off), int64(e.size)} {
				insChunk.BindInt64(i+1, n)
			}
			if err := step(insChunk); err != nil {
				return err
			}
			insText.BindInt64(1, c.LastInsertRowID())
			insText.BindBytes(2, e.body)
			insText.BindBytes(3, e.head)
			if err := step(insText); err != nil {
				return err
			}
		}
		read += d.size
		b.stats.Read++
		if b.progress != nil {
			b.progress(b.stats.Read, read)
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

// read reads a file and cuts it up. Its size and time are those before it was read,
// so a change meanwhile shows at the next look.
func (b *builder) read(f file, tok *tokenizer) document {
	now := time.Now()
	raw, info, err := slurp(b.root, f.path)
	if err != nil {
		return document{file: f, skipped: true}
	}
	f.size, f.mtime = info.Size(), info.ModTime().UnixNano()
	f.fresh = now.Sub(info.ModTime()) < racy
	if looksBinary(raw) {
		return document{file: f, skipped: true}
	}
	k := kindOf(f.path)
	text, headings := raw, []int(nil)
	if k == markup {
		text, headings = maskHTML(raw)
	}
	f.title = string(words([]byte(titleOf(text, k, headings)), k))
	d := document{file: f}
	where := appendTerms(appendTerms(nil, tok, []byte(f.path)), tok, []byte(f.title))
	for _, c := range split(text, k, headings) {
		e := entry{chunk: c}
		e.body = appendTerms(make([]byte, 0, c.size+c.size/4), tok, words(text[c.off:c.off+c.size], k))
		if len(e.body) == 0 {
			continue
		}
		e.head = appendTerms(bytes.Clone(where), tok, words([]byte(c.head), k))
		d.chunks = append(d.chunks, e)
	}
	return d
}

func appendTerms(b []byte, tok *tokenizer, text []byte) []byte {
	tok.each(text, func(term string, _ int, _ bool) { b = append(append(b, term...), ' ') })
	return b
}

// slurp reads a regular file that fits, confined to root.
func slurp(root *os.Root, name string) ([]byte, os.FileInfo, error) {
	f, err := openRegular(root, name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	raw := make([]byte, 0, min(info.Size(), maxFile)+512)
	buf := bytes.NewBuffer(raw)
	_, err = buf.ReadFrom(io.LimitReader(f, maxFile))
	return buf.Bytes(), info, err
}

func openRegular(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
