package archive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// maxLine is the most bytes a line may have: those of the largest record in base64.
const maxLine = runlog.MaxFrame/3*4 + 64<<10

// How much is appended at once.
const (
	batchRecords = 256
	batchBytes   = 1 << 20
)

// A FormatError says that a file is not what Export writes.
type FormatError struct {
	Line int
	Why  string
}

func (e *FormatError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Why) }

// ImportOptions are the settings of Import. Nil means the defaults.
type ImportOptions struct {
	ID string // of the new run; defaults to the one in the file
}

// Import makes a run of what Export has written: with the same records at their times, the
// same status and the same title. It is a run that nobody holds. One that was running,
// interrupted, quarantined or waiting for storage is paused: an import is executed when
// somebody resumes it, and no worker takes it up before. What one process wrote is in an
// epoch of its own, as it was, though epochs without records are left out. The run was
// created and changed now.
//
// An ID that begins with - is refused, since commands take it for a flag.
//
// The error is a *FormatError for a file that is not whole or not right, and wraps
// runlog.ErrExists if there is a run of that ID. After any error there is no such run; if
// the process dies meanwhile, part of one stays behind, as paused.
//
// Effects that are done again after the import have the keys of the run's new ID.
func Import(ctx context.Context, store runlog.Store, r io.Reader, opt *ImportOptions) (runlog.Info, error) {
	in := &lines{r: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	h, err := in.header()
	if err != nil {
		return runlog.Info{}, err
	}
	id := h.Run.ID
	if opt != nil && opt.ID != "" {
		id = opt.ID
	}
	if strings.HasPrefix(id, "-") {
		return runlog.Info{}, fmt.Errorf("run ID %q begins with -, as flags do; import it under another ID", id)
	}
	w := &importing{store: store, id: id}
	create := &runlog.NewRun{Workflow: h.Run.Workflow, Title: h.Run.Title, Parent: h.Run.Parent}
	w.log, _, err = store.Acquire(ctx, id, &runlog.AcquireOptions{Create: create})
	if errors.Is(err, runlog.ErrExists) {
		return runlog.Info{}, fmt.Errorf("%w; import it under another ID", err)
	}
	if err != nil {
		return runlog.Info{}, err
	}
	if err := w.run(ctx, in, imported(h.Run.Status)); err != nil {
		return runlog.Info{}, errors.Join(err, w.remove(context.WithoutCancel(ctx)))
	}
	return find(ctx, store, id)
}

// imported is the status that a run gets by the one in the file, "" for none.
func imported(s runlog.Status) runlog.Status {
	switch s {
	case runlog.Running, runlog.Interrupted, runlog.Quarantined, runlog.WaitingStorage:
		return runlog.Paused
	case runlog.Paused, runlog.Completed, runlog.Partial, runlog.Failed, runlog.Cancelled:
		return s
	}
	return ""
}

// importing is a run that is being written.
type importing struct {
	store runlog.Store
	id    string
	log   runlog.Log
	epoch uint64 // of the file
	batch []runlog.Record
	bytes int
}

func (w *importing) run(ctx context.Context, in *lines, status runlog.Status) error {
	for {
		r, end, err := in.next()
		switch {
		case err != nil:
			return err
		case end:
			if err := w.flush(ctx, status); err != nil {
				return err
			}
			return w.log.Release(ctx)
		}
		if err := w.add(ctx, r); err != nil {
			return err
		}
	}
}

func (w *importing) add(ctx context.Context, r *runlog.Record) error {
	if w.epoch != 0 && r.Epoch != w.epoch {
		if err := w.flush(ctx, runlog.Paused); err != nil {
			return err
		}
		if err := w.log.Release(ctx); err != nil {
			return err
		}
		log, _, err := w.store.Acquire(ctx, w.id, nil)
		if err != nil {
			return err
		}
		w.log = log
	}
	w.epoch = r.Epoch
	if len(w.batch) == batchRecords || w.bytes+len(r.Data) > batchBytes && len(w.batch) > 0 {
		if err := w.flush(ctx, runlog.Paused); err != nil { // so that nobody takes it up
			return err
		}
	}
	w.batch = append(w.batch, *r)
	w.bytes += len(r.Data)
	return nil
}

func (w *importing) flush(ctx context.Context, status runlog.Status) error {
	b := &runlog.Batch{Records: w.batch, Status: status}
	w.batch, w.bytes = nil, 0
	return w.log.Append(ctx, b)
}

// remove takes back what was written.
func (w *importing) remove(ctx context.Context) error {
	err := errors.Join(w.log.Release(ctx), w.store.Delete(ctx, w.id))
	if err != nil {
		return fmt.Errorf("part of run %s is still there and should be removed: %w", w.id, err)
	}
	return nil
}

// lines reads a file line by line.
type lines struct {
	r     *bufio.Reader
	sum   hash.Hash // of the lines before the last one that was read
	n     int       // the number of that one
	last  []byte
	seq   uint64
	epoch uint64
}

func (in *lines) fail(format string, args ...any) error {
	return &FormatError{in.n, fmt.Sprintf(format, args...)}
}

// read gives the next line, without its end. It is valid until the next call.
func (in *lines) read() ([]byte, error) {
	in.sum.Write(in.last)
	in.n++
	in.last = in.last[:0]
	for {
		part, err := in.r.ReadSlice('\n')
		if len(in.last)+len(part) > maxLine {
			return nil, in.fail("it has more than %d bytes", maxLine)
		}
		in.last = append(in.last, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(in.last) == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			return nil, in.fail("the file ends in the middle of it")
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", in.n, err)
		}
		return in.last[:len(in.last)-1], nil
	}
}

func (in *lines) header() (*header, error) {
	b, err := in.read()
	if errors.Is(err, io.EOF) {
		return nil, in.fail("the file is empty")
	}
	if err != nil {
		return nil, err
	}
	// What it is comes before whether it is right in all.
	var what struct {
		Superstep string
		Version   int
	}
	if json.Unmarshal(b, &what) != nil || what.Superstep != magic {
		return nil, in.fail(`it is not the beginning of an exported run, which is {"superstep":"run",…`)
	}
	if what.Version > Version {
		return nil, in.fail("version %d was written by a newer superstep (this one reads up to %d); update superstep to import it", what.Version, Version)
	}
	if what.Version < 1 {
		return nil, in.fail("there is no version %d", what.Version)
	}
	h := &header{}
	var raw json.RawMessage
	if err := object(b, map[string]any{"superstep": &h.Superstep, "version": &h.Version, "redacted": &h.Redacted, "run": &raw}, "superstep", "version", "run"); err != nil {
		return nil, in.fail("%v", err)
	}
	err = object(raw, map[string]any{
		"id": &h.Run.ID, "workflow": &h.Run.Workflow, "title": &h.Run.Title, "status": &h.Run.Status,
		"created": &h.Run.Created, "updated": &h.Run.Updated, "parent": &h.Run.Parent,
	}, "id", "workflow", "status")
	if err == nil {
		err = runlog.CheckID(h.Run.ID)
	}
	if err == nil && h.Run.Parent != "" {
		err = runlog.CheckID(h.Run.Parent)
	}
	if err != nil {
		return nil, in.fail("run: %v", err)
	}
	if imported(h.Run.Status) == "" {
		return nil, in.fail("run: there is no status %q", h.Run.Status)
	}
	return h, nil
}

// next gives the next record, or end if the last line comes, and is right.
func (in *lines) next() (r *runlog.Record, end bool, err error) {
	b, err := in.read()
	if errors.Is(err, io.EOF) {
		return nil, false, in.fail("the file ends before it is whole: its last line is missing; export the run again")
	}
	if err != nil {
		return nil, false, err
	}
	if bytes.HasPrefix(b, []byte(`{"end"`)) {
		return nil, true, in.end(b)
	}
	r = &runlog.Record{}
	var raw []byte
	err = object(b, map[string]any{
		"seq": &r.Seq, "epoch": &r.Epoch, "time": &r.Time, "kind": &r.Kind, "path": &r.Path, "data": &r.Data, "raw": &raw,
	}, "seq", "epoch", "time", "kind")
	r.Time = r.Time.UTC()
	switch {
	case err != nil:
		return nil, false, in.fail("%v", err)
	case r.Seq != in.seq+1:
		return nil, false, in.fail("it is record %d where record %d is due", r.Seq, in.seq+1)
	case r.Epoch == 0 || r.Epoch < in.epoch:
		return nil, false, in.fail("epoch %d comes after epoch %d", r.Epoch, in.epoch)
	case r.Data != nil && raw != nil:
		return nil, false, in.fail("it has both data and raw")
	case raw != nil:
		r.Data = raw
	}
	// What no store would take.
	whole := *r
	if _, _, err := runlog.AppendFrame(nil, runlog.FrameHash{}, &whole); err != nil {
		return nil, false, in.fail("%v", err)
	}
	in.seq, in.epoch = r.Seq, r.Epoch
	return r, false, nil
}

func (in *lines) end(b []byte) error {
	var t trailer
	if err := object(b, map[string]any{"end": &t.End, "records": &t.Records, "digest": &t.Digest}, "end", "records", "digest"); err != nil {
		return in.fail("%v", err)
	}
	switch sum := digest(in.sum); {
	case !t.End:
		return in.fail("it says that it is not the end")
	case t.Records != in.seq:
		return in.fail("the file has %d records and should have %d; export the run again", in.seq, t.Records)
	case t.Digest != sum:
		return in.fail("the file was changed since it was written: its digest is %s and should be %s", sum, t.Digest)
	}
	if _, err := in.read(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = in.fail("there is something behind the end")
		}
		return err
	}
	return nil
}

// object decodes a JSON object strictly: each of the fields at most once, those that are
// required at least once, no others, by their exact names.
func object(b []byte, fields map[string]any, required ...string) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("it is not a JSON object")
	}
	var seen []string
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return errors.New("it is not a JSON object")
		}
		into, known := fields[name]
		switch {
		case !known:
			return fmt.Errorf("there is no field %q", name)
		case slices.Contains(seen, name):
			return fmt.Errorf("field %q is there twice", name)
		}
		seen = append(seen, name)
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return fmt.Errorf("field %q: %w", name, err)
		}
		if string(raw) == "null" && name != "data" {
			return fmt.Errorf("field %q is null", name)
		}
		if err := decode(raw, into); err != nil {
			return fmt.Errorf("field %q: %w", name, err)
		}
	}
	if _, err := d.Token(); err != nil { // the brace
		return fmt.Errorf("it is not a JSON object: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind the object")
	}
	for _, name := range required {
		if !slices.Contains(seen, name) {
			return fmt.Errorf("field %q is missing", name)
		}
	}
	return nil
}

func decode(raw json.RawMessage, into any) error {
	switch into := into.(type) {
	case *json.RawMessage:
		*into = raw
		return nil
	case *time.Time:
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		t, err := time.Parse(time.RFC3339Nano, s)
		*into = t
		return err
	}
	return json.Unmarshal(raw, into)
}
