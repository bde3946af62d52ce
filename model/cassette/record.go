package cassette

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/model"
)

// A Recorder is a model that forwards requests to another one and records its answers. It is made
// by [Record]. Its fields may be set before its first use.
type Recorder struct {
	// Redact takes secrets out of what is recorded. If nil, text that looks like a well-known kind
	// of credential is redacted. A player of the cassette needs the same redactor.
	Redact Redactor
	// Now tells the time that parts take; defaults to time.Now.
	Now func() time.Time

	model model.Model

	mu     sync.Mutex
	w      io.Writer
	begun  bool            // the header is written
	pieces map[string]bool // that are written
	err    error           // of writing; nothing is written after it
}

var (
	_ model.Model  = (*Recorder)(nil)
	_ model.Priced = (*Recorder)(nil)
	_ model.Sized  = (*Recorder)(nil)
)

// Record returns a model that answers as m does and writes every turn to w when it is over, whole
// or with an error: one Write for each, and never two at once. A turn is not recorded if its
// context ended or its reader broke off before the stop. Nothing is written before the first turn
// is over.
//
// A turn that cannot be written fails, after all its parts, and so do the turns after it: a
// cassette has all turns that succeeded, or its recorder has an error.
func Record(m model.Model, w io.Writer) *Recorder {
	return &Recorder{model: m, w: w, pieces: map[string]bool{}}
}

// Name returns the name of the model.
func (r *Recorder) Name() string { return r.model.Name() }

// Price returns what the model says.
func (r *Recorder) Price() (p model.Price, known bool) {
	if m, ok := r.model.(model.Priced); ok {
		return m.Price()
	}
	return model.Price{}, false
}

// Window returns what the model says.
func (r *Recorder) Window() (tokens int, known bool) {
	if m, ok := r.model.(model.Sized); ok {
		return m.Window()
	}
	return 0, false
}

// Err returns why turns are no longer recorded, or nil while they are.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Generate streams the model's turn, as [model.Model] says.
func (r *Recorder) Generate(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	var ranged atomic.Bool
	return func(yield func(model.Part, error) bool) {
		if ranged.Swap(true) {
			yield(model.Part{}, r.fault(model.CodeRequest, errors.New("the stream was ranged over a second time; call Generate again")))
			return
		}
		if req == nil {
			yield(model.Part{}, r.fault(model.CodeRequest, errors.New("the request is nil")))
			return
		}
		turn, pieces, err := r.begin(req)
		if err != nil {
			yield(model.Part{}, r.fault(codeNotRecorded, err))
			return
		}
		var heard hearing
		save := func() error {
			turn.Parts = heard.whole()
			return r.write(turn, pieces)
		}
		last := r.now()
		for p, err := range r.model.Generate(ctx, req) {
			now := r.now()
			if err != nil {
				if ctx.Err() == nil && !canceled(err) {
					turn.Failure = describeFailure(err, r.redactor())
					_ = save() // the turns after this one will say so
				}
				yield(model.Part{}, err)
				return
			}
			heard.add(p, now.Sub(last))
			if !yield(p, nil) {
				if p.Kind == model.Stop {
					_ = save() // as above
				}
				return
			}
			last = r.now()
		}
		if err := save(); err != nil {
			yield(model.Part{}, r.fault(codeNotRecorded, err))
		}
	}
}

// A hearing is what was said so far in a turn.
type hearing struct {
	parts []part
	tail  strings.Builder // of the text of the last part, once there are many
}

// add adds a part. If a turn has very many deltas, later ones are merged.
func (h *hearing) add(p model.Part, took time.Duration) {
	last := len(h.parts) - 1
	if last+1 >= maxParts && (p.Kind == model.Text || p.Kind == model.Reasoning) && h.parts[last].Kind == p.Kind && h.parts[last].Opaque == nil &&
		p.Opaque == nil {
		h.tail.WriteString(p.Text)
		h.parts[last].MS += max(took.Milliseconds(), 0)
		return
	}
	h.parts = append(h.whole(), encodePart(p, took))
}

func (h *hearing) whole() []part {
	if h.tail.Len() > 0 {
		h.parts[len(h.parts)-1].Text += h.tail.String()
		h.tail.Reset()
	}
	return h.parts
}

func (r *Recorder) redactor() Redactor {
	if r.Redact == nil {
		return shapes{}
	}
	return r.Redact
}

func (r *Recorder) now() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}

func (r *Recorder) fault(code string, err error) *model.Error {
	provider, name := splitName(r.Name())
	return &model.Error{Provider: provider, Model: name, Code: code, Err: err}
}

// begin describes the request before anybody can change it.
func (r *Recorder) begin(req *model.Request) (*recordation, []piece, error) {
	if err := r.Err(); err != nil {
		return nil, nil, err
	}
	asked, pieces, err := describe(req, r.redactor())
	if err != nil {
		return nil, nil, fmt.Errorf("the request cannot be recorded: %w", err)
	}
	return &recordation{Digest: asked.digest(), Request: asked}, pieces, nil
}

func canceled(err error) bool {
	var e *model.Error
	return errors.As(err, &e) && e.Code == model.CodeCanceled
}

func describeFailure(err error, r Redactor) *failure {
	f := &failure{Text: r.Text(err.Error())}
	var e *model.Error
	if !errors.As(err, &e) {
		return f
	}
	*f = failure{
		Provider: e.Provider, Model: e.Model, URL: r.Text(e.URL), KeyFrom: e.KeyFrom, Status: e.Status, Code: r.Text(e.Code),
		RetryMS: e.RetryAfter.Milliseconds(), Temporary: e.Temporary,
	}
	if e.Err != nil {
		f.Text = r.Text(e.Err.Error())
	}
	return f
}

// write appends a turn, preceded by the pieces it needs.
func (r *Recorder) write(turn *recordation, pieces []piece) error {
	turn.Parts = redactParts(r.redactor(), turn.Parts)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	var lines []line
	if !r.begun {
		lines = append(lines, r.header())
	}
	written := map[string]bool{}
	for _, p := range pieces {
		if !r.pieces[p.ID] && !written[p.ID] {
			written[p.ID] = true
			p = p.preview()
			lines = append(lines, line{Piece: &p})
		}
	}
	var out []byte
	for _, l := range append(lines, line{Turn: turn}) {
		raw, err := encode(l)
		if err == nil && len(raw) > maxLine {
			err = fmt.Errorf("it takes %d MiB, more than %d", len(raw)>>20, maxLine>>20)
		}
		if err != nil { // of this turn; the others are none the worse
			return fmt.Errorf("the turn cannot be recorded: %w", err)
		}
		out = append(append(out, raw...), '\n')
	}
	if n, err := r.w.Write(out); err != nil || n < len(out) {
		if err == nil {
			err = io.ErrShortWrite
		}
		r.err = fmt.Errorf("the cassette cannot be written: %w", err)
		return r.err
	}
	r.begun = true
	for id := range written {
		r.pieces[id] = true
	}
	return nil
}

func (r *Recorder) header() line {
	l := line{Cassette: version, Model: r.Name()}
	if p, known := r.Price(); known {
		l.Price = &price{In: p.In, Out: p.Out, Cached: p.Cached, Written: p.Written}
	}
	if tokens, known := r.Window(); known {
		l.Window = tokens
	}
	return l
}
