package archive

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// maxLine is the most bytes a line may have: those of the largest record in base64.
const maxLine = runlog.MaxFrame/3*4 + 64<<10

// maxHeader is the most bytes the first line may have.
const maxHeader = 1 << 20

// How much is appended at once.
const (
	batchRecords = 256
	batchBytes   = 1 << 20
)

// A FormatError reports that a file is not what Export writes.
type FormatError struct {
	Line int
	Why  string
}

func (e *FormatError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Why) }

// ImportOptions are the settings of Import. Nil means the defaults.
type ImportOptions struct {
	ID  string           // of the new run; the default is the one in the file
	Dir string           // the folder that the run will work in, absolute; the default is none
	Now func() time.Time // stamps the mark; the default is time.Now
}

// Import creates a run from what Export has written: with the same records at their times, the
// same status and the same title. It is a run that nobody holds. One that was running,
// interrupted, quarantined or waiting for storage is paused: an import is executed when
// somebody resumes it, and no worker takes it up before. What one process wrote is in an
// epoch of its own, as it was, though epochs without records are left out. The run was
// created and changed now, and is listed without a parent, which is a run of another store.
//
// The first record is marked, see runlog.Imported, whatever the file has in that place. No
// rights come with the file: an engine continues the run only if it is trusted, in Dir.
//
// The file is read twice: all of it is checked before anything is written.
//
// An ID that begins with - is refused, since commands take it for a flag, and so is that of a mailbox, which another run would obey.
//
// The error is a *FormatError for a file that is not whole or not right, and wraps
// runlog.ErrExists if there is a run of that ID. After any error there is no such run. If the
// process dies meanwhile, what it has written is not listed, and the next import of that
// ID replaces it.
//
// Effects that are done again after the import have the keys of the run's new ID.
func Import(ctx context.Context, store runlog.Store, r io.ReadSeeker, opt *ImportOptions) (runlog.Info, error) {
	var o ImportOptions
	if opt != nil {
		o = *opt
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	start, err := r.Seek(0, io.SeekCurrent)
	if err != nil {
		return runlog.Info{}, fmt.Errorf("the file cannot be read twice: %w", err)
	}
	h, im, err := survey(ctx, r)
	if err != nil {
		return runlog.Info{}, err
	}
	im.Time, im.Dir, im.Nonce = o.Now().UTC(), o.Dir, rand.Text()
	id := cmp.Or(o.ID, h.Run.ID)
	if strings.HasPrefix(id, "-") {
		return runlog.Info{}, fmt.Errorf("run ID %q begins with -, as flags do; import it under another ID", id)
	}
	if unlisted.Reserved(id) {
		return runlog.Info{}, fmt.Errorf("run ID %q is for requests, schedules and workers; import it under another ID", id)
	}
	if _, err := r.Seek(start, io.SeekStart); err != nil {
		return runlog.Info{}, fmt.Errorf("the file cannot be read twice: %w", err)
	}
	w := &importing{store: store, id: id, mark: im}
	in := newLines(r)
	if _, err := in.header(); err != nil {
		return runlog.Info{}, err
	}
	if err := w.create(ctx, runlog.NewRun{Workflow: h.Run.Workflow, Title: h.Run.Title}); err != nil {
		return runlog.Info{}, err
	}
	if err := w.run(ctx, in, imported(h.Run.Status)); err != nil {
		return runlog.Info{}, errors.Join(err, w.remove(context.WithoutCancel(ctx)))
	}
	return find(ctx, store, id)
}

// survey reads a whole file and returns what it says of the run, and the mark that its content gives.
func survey(ctx context.Context, r io.Reader) (*header, *runlog.Imported, error) {
	in := newLines(r)
	h, err := in.header()
	if err != nil {
		return nil, nil, err
	}
	for {
		_, end, err := in.next()
		if err == nil {
			err = ctx.Err()
		}
		switch {
		case err != nil:
			return nil, nil, err
		case end:
			return h, &runlog.Imported{Digest: in.digest, Records: in.seq}, nil
		}
	}
}

// imported returns the status that a run gets by the one in the file, "" for none.
func imported(s runlog.Status) runlog.Status {
	switch s {
	case runlog.Queued, runlog.Running, runlog.Interrupted, runlog.Quarantined, runlog.WaitingStorage:
		return runlog.Paused
	case runlog.Paused, runlog.Completed, runlog.Partial, runlog.Failed, runlog.Cancelled:
		return s
	}
	return ""
}

// importing is a run during its import. Its status is Importing until it is complete, so that no listing shows a partial run.
type importing struct {
	store  runlog.Store
	id     string
	mark   *runlog.Imported
	log    runlog.Log
	epoch  uint64 // of the file
	epochs uint64 // of the run
	head   uint64
	batch  []runlog.Record
	bytes  int
}

// create creates the run, and replaces the remains of a crashed import.
func (w *importing) create(ctx context.Context, run runlog.NewRun) error {
	var err error
	if w.log, _, err = unlisted.Create(ctx, w.store, w.id, run); errors.Is(err, runlog.ErrExists) {
		return fmt.Errorf("%w; import it under another ID", err)
	}
	w.epochs = 1
	return err
}

func (w *importing) run(ctx context.Context, in *lines, status runlog.Status) error {
	for {
		r, end, err := in.next()
		switch {
		case err != nil:
			return err
		case end && in.digest != w.mark.Digest:
			return errors.New("the file was changed while it was imported; import it again")
		case end:
			if err := w.flush(ctx, status); err != nil {
				return err
			}
			return w.log.Release(ctx)
		}
		if r.Seq == 1 {
			if err := w.sign(r); err != nil {
				return err
			}
		}
		if err := w.add(ctx, r); err != nil {
			return err
		}
	}
}

// sign puts the mark into the first record. What is not part of that record, by its exact name,
// does not stay in it.
func (w *importing) sign(r *runlog.Record) error {
	started, err := first(r)
	if err != nil {
		return err
	}
	started.Imported = w.mark
	r.Data, err = json.Marshal(started)
	return err
}

// first decodes the first record of a run.
func first(r *runlog.Record) (*runlog.RunStarted, error) {
	var started runlog.RunStarted
	if r.Kind != runlog.KindRunStarted {
		return nil, fmt.Errorf("the first record is %q and should be %q", r.Kind, runlog.KindRunStarted)
	}
	if err := json.Unmarshal(r.Data, &started); err != nil {
		return nil, fmt.Errorf("the first record: %w", err)
	}
	return &started, nil
}

func (w *importing) add(ctx context.Context, r *runlog.Record) error {
	if w.epoch != 0 && r.Epoch != w.epoch {
		if err := w.flush(ctx, ""); err != nil {
			return err
		}
		if err := w.log.Release(ctx); err != nil {
			return err
		}
		log, info, err := w.store.Acquire(ctx, w.id, nil)
		if err != nil {
			return err
		}
		w.log = log
		if w.epochs++; info.Status != runlog.Importing || info.Epoch != w.epochs || info.Head != w.head {
			return fmt.Errorf("run %s: somebody else imports a run of that ID; import it under another ID", w.id)
		}
	}
	w.epoch = r.Epoch
	if len(w.batch) == batchRecords || w.bytes+r.Size() > batchBytes && len(w.batch) > 0 {
		if err := w.flush(ctx, ""); err != nil {
			return err
		}
	}
	w.batch = append(w.batch, *r)
	w.bytes += r.Size()
	return nil
}

func (w *importing) flush(ctx context.Context, status runlog.Status) error {
	b := &runlog.Batch{Records: w.batch, Status: status}
	w.head += uint64(len(w.batch))
	w.batch, w.bytes = nil, 0
	return w.log.Append(ctx, b)
}

// remove removes the partial run.
func (w *importing) remove(ctx context.Context) error {
	err := errors.Join(w.log.Release(ctx), w.store.Delete(ctx, w.id))
	if err != nil {
		return fmt.Errorf("part of run %s is still there, and is replaced when it is imported again: %w", w.id, err)
	}
	return nil
}

// lines reads a file line by line.
type lines struct {
	r      *bufio.Reader
	sum    hash.Hash // of the lines before the last one that was read
	n      int       // the number of that one
	last   []byte
	seq    uint64
	epoch  uint64
	digest string // of all but the last line, once that was read
}

func newLines(r io.Reader) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
}

func (in *lines) fail(format string, args ...any) error {
	return &FormatError{in.n, fmt.Sprintf(format, args...)}
}

// chunk is how much of a line is kept in one piece: one that turns out to be too long has not
// been copied from buffer to larger buffer by then.
const chunk = 1 << 20

// read returns the next line, without its end. It is valid until the next call.
func (in *lines) read(most int) ([]byte, error) {
	in.sum.Write(in.last)
	in.n++
	if in.last = in.last[:0]; cap(in.last) > chunk {
		in.last = nil
	}
	var full [][]byte
	size := 0
	for {
		part, err := in.r.ReadSlice('\n')
		if size += len(part); size > most {
			return nil, in.fail("it has more than %d bytes", most)
		}
		if len(in.last)+len(part) > chunk {
			full = append(full, in.last)
			in.last = make([]byte, 0, chunk)
		}
		in.last = append(in.last, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && size == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			return nil, in.fail("the file ends in the middle of it")
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", in.n, err)
		}
		if full != nil {
			in.last = slices.Concat(append(full, in.last)...)
		}
		return in.last[:len(in.last)-1], nil
	}
}

func (in *lines) header() (*header, error) {
	b, err := in.read(maxHeader)
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
	if what.Version > version {
		return nil, in.fail("version %d was written by a newer superstep (this one reads up to %d); update superstep to import it", what.Version, version)
	}
	if what.Version < 1 {
		return nil, in.fail("there is no version %d", what.Version)
	}
	h := &header{}
	var raw json.RawMessage
	if err := object(b, map[string]any{"superstep": &h.Superstep, "version": &h.Version, "redacted": &h.Redacted, "run": &raw}, "superstep",
		"version", "run"); err != nil {
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

// next returns the next record, or end if the last line comes, and is right.
func (in *lines) next() (r *runlog.Record, end bool, err error) {
	b, err := in.read(maxLine)
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
		"seq": &r.Seq, "epoch": &r.Epoch, "time": &r.Time, "kind": &r.Kind, "path": &r.Path, "data": &r.Data, "raw": &raw, "attachment": &r.Attachment,
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
	if _, err := first(r); r.Seq == 1 && err != nil {
		return nil, false, in.fail("%v", err)
	}
	if r.Seq > 1 && r.Kind == runlog.KindRunStarted {
		return nil, false, in.fail("a run starts once, with its first record")
	}
	in.seq, in.epoch = r.Seq, r.Epoch
	return r, false, nil
}

func (in *lines) end(b []byte) error {
	var t trailer
	if err := object(b, map[string]any{"end": &t.End, "records": &t.Records, "digest": &t.Digest}, "end", "records", "digest"); err != nil {
		return in.fail("%v", err)
	}
	sum := digest(in.sum)
	in.digest = sum
	switch {
	case !t.End:
		return in.fail("it says that it is not the end")
	case t.Records != in.seq:
		return in.fail("the file has %d records and should have %d; export the run again", in.seq, t.Records)
	case t.Digest != sum:
		return in.fail("the file was changed since it was written: its digest is %s and should be %s", sum, t.Digest)
	}
	if _, err := in.read(maxLine); !errors.Is(err, io.EOF) {
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
