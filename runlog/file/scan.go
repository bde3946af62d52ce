package file

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"path/filepath"

	"github.com/superstep-dev/superstep/runlog"
)

// An entry is what the bytes at a place of a log are: a frame or a mark.
type entry struct {
	size  int
	mark  bool
	st    state // of a mark
	since int64 // of a mark
}

// entry looks at the start of b, which is at that offset of the log. It checks
// checksums, and leaves the chain of a frame's hash to whoever reads it.
func (h *header) entry(b []byte, at int64) (e entry, err error) {
	if isMark(b) {
		e.mark = true
		e.st, e.since, e.size, err = h.decodeMark(b, at)
		return e, err
	}
	e.size, err = frameSize(b)
	if err == nil && checksum(b[8:e.size]) != binary.LittleEndian.Uint32(b[4:]) {
		err = fmt.Errorf("the checksum of a frame is wrong")
	}
	return e, err
}

// frameSize returns the size of the frame at the start of b, which has all of it. Length
// and checksum of a frame have their place in all versions.
func frameSize(b []byte) (int, error) {
	if len(b) < 8 {
		return 0, fmt.Errorf("a frame ends after %d bytes", len(b))
	}
	size := uint64(binary.LittleEndian.Uint32(b)) + 4
	switch {
	case size < 9 || size > runlog.MaxFrame:
		return 0, fmt.Errorf("a frame cannot have %d bytes", size)
	case size > uint64(len(b)):
		return 0, fmt.Errorf("a frame ends after %d of %d bytes", len(b), size)
	}
	return int(size), nil
}

// A scan is the result of reading a whole log.
type scan struct {
	st  state // as of the last whole batch
	end int64 // where that ends, 0 if there is none
	pos int64 // where the first entry is that cannot be read, the size of the log if there is none
	seq uint64
	why error // of the entry at pos
}

// scan goes through a log, whose header h is, up to what cannot be read.
func (h *header) scan(data []byte) (sc scan) {
	sc.pos, sc.seq = h.size, h.base-1
	sc.st.Seq, sc.st.Hash = sc.seq, h.prev
	for sc.pos < int64(len(data)) {
		e, err := h.entry(data[sc.pos:], sc.pos)
		if err == nil && e.mark && e.st.Seq != sc.seq {
			err = fmt.Errorf("a mark says %d records, there are %d", e.st.Seq, sc.seq)
		}
		if err == nil && e.mark && (e.st.epoch < sc.st.epoch || e.st.epoch == 0) {
			err = fmt.Errorf("a mark of epoch %d follows one of epoch %d", e.st.epoch, sc.st.epoch)
		}
		if err != nil {
			sc.why = err
			return sc
		}
		sc.pos += int64(e.size)
		if e.mark {
			e.st.summary = cmp.Or(e.st.summary, sc.st.summary)
			sc.st, sc.end = e.st, sc.pos
		} else {
			sc.seq++
		}
	}
	return sc
}

// damage decides whether what a scan could not use is damage, or what a crash may leave
// behind: part of the last write, which nobody was told had succeeded. It is damage if a
// later write is there, since each begins only when the one before it is durable, or if
// it was acknowledged, as far as durable says.
func (h *header) damage(id, path string, data []byte, sc *scan, durable int64) error {
	size := int64(len(data))
	switch {
	case sc.end == size && durable <= size:
		return nil
	case sc.end == size:
		return located(runlog.NewChain(id, sc.st.Seq+1), path, size, fmt.Sprintf("the file is shorter than the %d bytes that were acknowledged", durable))
	case sc.end == 0, sc.end < durable, h.later(data, sc.pos):
		why := sc.why
		if why == nil {
			why = fmt.Errorf("the file ends within a batch")
		}
		return located(runlog.NewChain(id, sc.seq+1), path, sc.pos, why.Error())
	}
	return nil
}

// later reports whether data has the mark of a write that began behind pos.
func (h *header) later(data []byte, pos int64) bool {
	magic := binary.LittleEndian.AppendUint32(nil, markMagic)
	for at := pos + 1; ; at++ {
		if at >= int64(len(data)) {
			return false
		}
		i := bytes.Index(data[at:], magic)
		if i < 0 {
			return false
		}
		at += int64(i)
		if _, since, _, err := h.decodeMark(data[at:], at); err == nil && since > pos {
			return true
		}
	}
}

// located returns the error for the next record of a chain, and where it should be.
func located(c *runlog.Chain, path string, offset int64, why string) *runlog.CorruptError {
	return c.Damaged(fmt.Sprintf("%s; %s in the folder of the run, offset %d", why, filepath.Base(path), offset))
}
