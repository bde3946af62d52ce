// Package archive carries runs from store to store: a run is written as one file of JSON
// Lines, and read back as a run.
//
// The first line says what the file is and of which run; one line per record follows; the
// last has the number of records and a digest of all before it, so that a file that was
// cut short or changed by accident is noticed. The hash chain of the store is not part of
// it: whoever imports a file makes a chain of their own.
package archive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
)

// version is that of the format this package writes, and the newest it reads.
const version = 1

const magic = "run"

// header is the first line of a file.
type header struct {
	Superstep string `json:"superstep"`
	Version   int    `json:"version"`
	Redacted  bool   `json:"redacted,omitempty"`
	Run       run    `json:"run"`
}

// run is a run as listings show it.
type run struct {
	ID       string        `json:"id"`
	Workflow string        `json:"workflow"`
	Title    string        `json:"title,omitempty"`
	Status   runlog.Status `json:"status"`
	Created  time.Time     `json:"created"`
	Updated  time.Time     `json:"updated"`
	Parent   string        `json:"parent,omitempty"`
}

// record is a line of the file for one record, without the field data, which is JSON as it
// is stored. Raw takes its place where that cannot be part of a line.
type record struct {
	Seq   uint64      `json:"seq"`
	Epoch uint64      `json:"epoch"`
	Time  time.Time   `json:"time"`
	Kind  runlog.Kind `json:"kind"`
	Path  string      `json:"path,omitempty"`
	Raw   []byte      `json:"raw,omitempty"`

	Attachment []byte `json:"attachment,omitempty"`
}

// trailer is the last line.
type trailer struct {
	End     bool   `json:"end"`
	Records uint64 `json:"records"`
	Digest  string `json:"digest"` // of all bytes before this line
}

func digest(h hash.Hash) string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }

// Export writes a run as it is now, up to the record that is its last at the beginning. It
// may be running. A log that is damaged anywhere is not exported: the error is that of
// reading it. Nothing is closed.
//
// A redactor, nil for none, takes secrets out of what is written, and the file says that it
// did: what was redacted is not the log that was, so a replay of it may differ.
func Export(ctx context.Context, store runlog.Store, id string, w io.Writer, redactor *redact.Redactor) error {
	info, err := find(ctx, store, id)
	if err != nil {
		return err
	}
	h := header{Superstep: magic, Version: version, Run: run{
		ID: info.ID, Workflow: info.Workflow, Title: info.Title, Status: info.Status, Created: info.Created, Updated: info.Updated, Parent: info.Parent,
	}}
	if redactor != nil {
		h.Redacted, h.Run.Workflow, h.Run.Title = true, redactor.Text(h.Run.Workflow), redactor.Text(h.Run.Title)
	}
	sum := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 64<<10)
	if err := line(out, h); err != nil {
		return unwritten(id, err)
	}
	var buf []byte
	n := uint64(0)
	for r, err := range runlog.Records(ctx, store, id, 1) {
		if err != nil {
			return err
		}
		if r.Seq > info.Head { // and on to the end, where damage shows
			continue
		}
		if redactor != nil {
			r.Path, r.Data = redactor.Text(r.Path), redactor.JSON(r.Data)
		}
		if buf, err = appendRecord(buf[:0], &r); err != nil {
			return fmt.Errorf("run %s, record %d: %w", id, r.Seq, err)
		}
		if _, err := out.Write(buf); err != nil {
			return unwritten(id, err)
		}
		n++
	}
	if err := out.Flush(); err != nil {
		return unwritten(id, err)
	}
	if n != info.Head {
		return fmt.Errorf("run %s: %d of %d records were there to be exported; it was deleted meanwhile", id, n, info.Head)
	}
	if err := line(w, trailer{true, n, digest(sum)}); err != nil {
		return unwritten(id, err)
	}
	return nil
}

func unwritten(id string, err error) error { return fmt.Errorf("writing run %s: %w", id, err) }

func find(ctx context.Context, store runlog.Store, id string) (runlog.Info, error) {
	infos, err := store.Runs(ctx, &runlog.Filter{ID: id})
	if err != nil {
		return runlog.Info{}, err
	}
	if len(infos) == 0 {
		return runlog.Info{}, &runlog.NotFoundError{ID: id, Store: "the store"}
	}
	return infos[0], nil
}

func line(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// appendRecord appends the line of a record. Its data stay as they are byte for byte.
func appendRecord(dst []byte, r *runlog.Record) ([]byte, error) {
	if !utf8.ValidString(r.Path) || !utf8.ValidString(string(r.Kind)) {
		return dst, errors.New("its kind or path is not UTF-8, which JSON cannot carry")
	}
	l := record{Seq: r.Seq, Epoch: r.Epoch, Time: r.Time.UTC(), Kind: r.Kind, Path: r.Path, Attachment: r.Attachment}
	plain := len(r.Data) == 0 || inLine(r.Data)
	if !plain {
		l.Raw = r.Data
	}
	b, err := json.Marshal(&l)
	if err != nil {
		return dst, err
	}
	if len(r.Data) > 0 && plain {
		dst = append(append(dst, b[:len(b)-1]...), `,"data":`...)
		return append(append(dst, r.Data...), '}', '\n'), nil
	}
	return append(append(dst, b...), '\n'), nil
}

// inLine reports whether data can be part of a line and be found there again as they are.
func inLine(data []byte) bool {
	return !bytes.ContainsAny(data, "\n\r") && data[0] > ' ' && data[len(data)-1] > ' ' && utf8.Valid(data) && json.Valid(data)
}
