package file

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/superstep-dev/superstep/runlog"
)

// Read implements [runlog.Store]. A limit of 0 or less means all.
func (s *store) Read(ctx context.Context, id string, from uint64, limit int) ([]runlog.Record, error) {
	if err := s.alive(ctx); err != nil {
		return nil, err
	}
	g, err := s.look(ctx, id)
	if err != nil {
		return nil, s.explain("reading", err)
	}
	from = max(from, 1)
	if from > g.st.Seq && g.damage == nil {
		return nil, nil
	}
	start := max(from-1, 1) // one earlier, to check the link
	r := &reading{s: s, ctx: ctx, id: id, dir: s.runDir(id), from: from, most: limit, chain: runlog.NewChain(id, start)}
	err = r.all(g)
	return r.records, s.explain("reading", err)
}

// A reading goes through the frames of a run in order.
type reading struct {
	s       *store
	ctx     context.Context
	id, dir string
	from    uint64
	most    int
	chain   *runlog.Chain
	records []runlog.Record
	last    spot // of the last frame
}

func (r *reading) full() bool { return r.most > 0 && len(r.records) >= r.most }

func (r *reading) all(g *glance) error {
	f, err := os.Open(filepath.Join(r.dir, logName))
	if errors.Is(err, fs.ErrNotExist) && g.damage == nil {
		return r.s.notFound(r.id)
	}
	var h *header
	if err == nil {
		defer f.Close()
		h, err = readHeader(f)
	}
	if h != nil && h.id != r.id {
		return errors.Join(g.damage, err)
	}
	if err != nil && g.damage == nil {
		g.damage = readable(r.id, logName, err)
	}
	if h == nil || r.chain.Seq+1 < h.base {
		if err := r.former(h); err != nil || r.full() {
			return err
		}
	}
	if h != nil {
		limit := g.durable
		if h.nonce != g.h.nonce {
			// The log was begun since the look, or the look was at one that is put away by now.
			// Its first mark is durable, and there is nothing else yet that must be shown.
			limit = h.size
		}
		if err := r.log(f, h, limit); err != nil || r.full() {
			return err
		}
	}
	return g.damage
}

// readHeader reads the header of a log.
func readHeader(f io.ReaderAt) (*header, error) {
	b := make([]byte, 512)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	h, err := decodeHeader(b[:n])
	if err == nil || n < len(b) {
		return h, err
	}
	b = make([]byte, metaMost) // a long title
	n, err = f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return decodeHeader(b[:n])
}

// former reads the former logs of a run whose present one has the header h, nil if
// that is unknown.
func (r *reading) former(h *header) error {
	bases, err := formers(r.dir)
	if err != nil {
		return err
	}
	at := uint64(1)
	if i, found := slices.BinarySearch(bases, r.chain.Seq+1); found {
		at = bases[i]
	} else if i > 0 {
		at = bases[i-1]
	}
	// Each says where the next one begins, which may be missing from the list. One from the log's own base on was being made when its process died.
	for h == nil || at < h.base {
		was, data, path, err := r.s.loadFormer(r.dir, at)
		if h == nil && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if errors.Is(err, errFormat) || errors.Is(err, fs.ErrNotExist) {
			return located(r.chain, path, 0, err.Error())
		}
		if err != nil {
			return err
		}
		if was.id != r.id || was.base != at || was.base > r.chain.Seq+1 {
			return located(r.chain, path, 0, "it does not belong here")
		}
		next, err := r.frames(was, data[was.size:], was.size, at, path)
		if err != nil || r.full() {
			return err
		}
		if next == at {
			return located(r.chain, path, 0, "it has no records")
		}
		at = next
	}
	return nil
}

// log reads the present log up to limit.
func (r *reading) log(f io.ReaderAt, h *header, limit int64) error {
	at, seq := h.size, h.base
	if p, ok := r.s.cache.spot(r.id, h, r.chain.Seq+1); ok && p.at < limit {
		at, seq = p.at, p.seq
	}
	if at >= limit {
		return nil
	}
	data := make([]byte, limit-at)
	n, err := f.ReadAt(data, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err = r.frames(h, data[:n], at, seq, filepath.Join(r.dir, logName))
	if r.last.nonce == h.nonce {
		r.s.cache.keepSpot(r.id, r.last)
	}
	if err != nil || r.full() || n == len(data) {
		return err
	}
	return located(r.chain, logName, at+int64(n), "the file ends before what was acknowledged does")
}

// frames reads data, which is at that offset of a log and begins with the frame of a
// record, or with the mark before it. It returns the number of the record behind them.
func (r *reading) frames(h *header, data []byte, at int64, seq uint64, path string) (uint64, error) {
	for len(data) > 0 && !r.full() {
		var size int
		var err error
		mark := isMark(data)
		if mark {
			_, _, size, err = h.decodeMark(data, at)
		} else {
			size, err = frameSize(data)
		}
		if err != nil {
			return seq, located(r.chain, path, at, err.Error())
		}
		if !mark {
			if err := r.frame(h, data[:size:size], at, seq, path); err != nil {
				return seq, err
			}
			seq++
		}
		data, at = data[size:], at+int64(size)
	}
	return seq, nil
}

func (r *reading) frame(h *header, frame []byte, at int64, seq uint64, path string) error {
	if seq <= r.chain.Seq {
		return nil // skipped
	}
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if begun := seq == r.chain.Seq+1 && r.chain.Hash == (runlog.FrameHash{}); begun && seq == h.base && seq > 1 {
		// Begun here: the header says what the record follows.
		if _, prev, _, _, err := runlog.DecodeFrame(frame); err == nil && prev != h.prev {
			return located(r.chain, path, at, "it does not follow the record before it")
		}
	}
	rec, err := r.chain.Next(slices.Clone(frame))
	if damage := (*runlog.CorruptError)(nil); errors.As(err, &damage) {
		return located(r.chain, path, at, damage.Why)
	}
	if err != nil {
		return err
	}
	if rec.Seq >= r.from {
		r.records = append(r.records, rec)
	}
	r.last = spot{h.nonce, seq, at}
	return nil
}
