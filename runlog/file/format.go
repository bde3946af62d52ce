package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// What a store consists of; see the package comment for what it means. All numbers are
// little-endian, and varints are those of encoding/binary.
//
//	header   magic "sstplog\n", version u32, size u32, checksum u32, nonce 16 bytes, fields
//	frame    as runlog.AppendFrame writes it
//	mark     magic u32, size u32, checksum u32, offset u64, since u64, state, size u32
//	hold     magic "ssthold\n", size u32, checksum u32, nonce 16 bytes, durable uvarint,
//	         until varint, fields, state
//
// A log is a header and then batches. A batch is any number of frames and a mark, which
// says what the run has come to with it; the summary at the end of its state is left out where it is as before. Checksums are CRC-32C of what follows them; that
// of a header begins with what is before it, that of a mark with the nonce of its file, which no writer of records knows, so that
// no record can hold the likeness of a mark.
const (
	logMagic  = "sstplog\n"
	holdMagic = "ssthold\n"
	version   = 1 // of a store, and of a log
	shelved   = 2 // of a log whose former ones may not be compressed

	headerFixed = 8 + 4 + 4 + 4 + nonceSize
	holdFixed   = 8 + 4 + 4
	nonceSize   = 16

	markMagic = 0x4b4d53ff // no length of a frame is as large
	markFixed = 4 + 4 + 4 + 8 + 8
	markMost  = 1 << 16 // no mark is as long
	metaMost  = 1 << 20 // no header is as long
	holdMost  = 1 << 17 // no hold is as long: fields and state are in a mark's bounds
)

// A header begins a log and says what never changes about its run.
type header struct {
	version  uint32 // 0 for the first
	nonce    [nonceSize]byte
	id       string
	no       uint64 // the creation number
	workflow string
	title    string
	parent   string
	created  int64
	base     uint64           // the number of the first record of this file
	prev     runlog.FrameHash // of the record before that

	size int64 // of the header itself
}

// A state holds the changing properties of a run, as of a mark.
type state struct {
	storekit.Tail
	epoch           uint64
	updated         int64
	cancel, deleted bool
	owner, holder   string // "" when nobody holds the run
	takeovers       int
	summary         string // "" for none; in the mark of a batch without one: as before
}

// A hold is what is known of a run while somebody uses it, and what listings read. It
// is not synced: after a crash it only counts as a hint.
type hold struct {
	h       header // without prev and size
	st      state
	durable int64 // how long the log is, as far as it was acknowledged
	until   int64 // when the lease ends
}

func (h *header) info(st *state) runlog.Info {
	return runlog.Info{
		ID: h.id, Workflow: h.workflow, Title: h.title, Parent: h.parent, Created: moment(h.created),
		Status: st.Status, Updated: moment(st.updated), Head: st.Seq, Snapshot: st.Snapshot, Epoch: st.epoch,
		Owner: st.owner, Cancel: st.cancel, Takeovers: st.takeovers, Summary: st.summary,
	}
}

func moment(nanos int64) time.Time { return time.Unix(0, nanos).UTC() }

func checksum(parts ...[]byte) uint32 {
	var sum uint32
	table := crc32.MakeTable(crc32.Castagnoli)
	for _, p := range parts {
		sum = crc32.Update(sum, table, p)
	}
	return sum
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func (h *header) appendFields(b []byte) []byte {
	b = appendString(b, h.id)
	b = binary.AppendUvarint(b, h.no)
	b = appendString(b, h.workflow)
	b = appendString(b, h.title)
	b = appendString(b, h.parent)
	b = binary.AppendVarint(b, h.created)
	return binary.AppendUvarint(b, h.base)
}

// encode returns the header's stored form and sets its size.
func (h *header) encode() []byte {
	b := append([]byte(logMagic), make([]byte, 12)...)
	b = append(b, h.nonce[:]...)
	b = h.appendFields(b)
	b = append(b, h.prev[:]...)
	binary.LittleEndian.PutUint32(b[8:], max(h.version, version))
	binary.LittleEndian.PutUint32(b[12:], uint32(len(b)))
	binary.LittleEndian.PutUint32(b[16:], checksum(b[:16], b[20:]))
	h.size = int64(len(b))
	return b
}

// A versionError reports that a newer program wrote a log.
type versionError struct{ version uint32 }

func (e *versionError) Error() string {
	return fmt.Sprintf("version %d was written by a newer superstep (this one reads up to %d); update superstep to open it", e.version, shelved)
}

var errFormat = errors.New("it is damaged")

// decodeHeader reads the header at the start of b.
func decodeHeader(b []byte) (*header, error) {
	if len(b) < headerFixed || string(b[:8]) != logMagic {
		return nil, fmt.Errorf("%w: it does not begin as a log", errFormat)
	}
	size := binary.LittleEndian.Uint32(b[12:])
	if size < headerFixed || size > metaMost || int(size) > len(b) {
		return nil, fmt.Errorf("%w: its header cannot have %d bytes", errFormat, size)
	}
	if checksum(b[:16], b[20:size]) != binary.LittleEndian.Uint32(b[16:]) {
		return nil, fmt.Errorf("%w: the checksum of its header is wrong", errFormat)
	}
	v := binary.LittleEndian.Uint32(b[8:])
	if v > shelved {
		return nil, &versionError{v}
	} else if v < version {
		return nil, fmt.Errorf("%w: its header has version %d", errFormat, v)
	}
	h := &header{size: int64(size), version: v}
	copy(h.nonce[:], b[20:])
	d := decoder{b: b[headerFixed:size]}
	h.decodeFields(&d)
	copy(h.prev[:], d.take(len(h.prev)))
	if d.bad || h.base == 0 {
		return nil, fmt.Errorf("%w: its header cannot be read", errFormat)
	}
	return h, nil
}

func (h *header) decodeFields(d *decoder) {
	h.id = d.text()
	h.no = d.uvarint()
	h.workflow = d.text()
	h.title = d.text()
	h.parent = d.text()
	h.created = d.varint()
	h.base = d.uvarint()
}

const (
	flagCancel  = 1
	flagDeleted = 2
)

func (st *state) append(b []byte) []byte {
	var flags byte
	if st.cancel {
		flags |= flagCancel
	}
	if st.deleted {
		flags |= flagDeleted
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, st.epoch)
	b = binary.AppendUvarint(b, st.Seq)
	b = binary.AppendUvarint(b, st.Snapshot)
	b = append(b, st.Hash[:]...)
	b = appendString(b, string(st.Status))
	b = binary.AppendVarint(b, st.updated)
	b = appendString(b, st.owner)
	b = appendString(b, st.holder)
	b = binary.AppendUvarint(b, uint64(st.takeovers))
	if st.summary == "" { // the form before there were summaries
		return b
	}
	return appendString(b, st.summary)
}

func (st *state) decode(d *decoder) {
	flags := d.take(1)
	if d.bad {
		return
	}
	st.cancel, st.deleted = flags[0]&flagCancel != 0, flags[0]&flagDeleted != 0
	st.epoch = d.uvarint()
	st.Seq = d.uvarint()
	st.Snapshot = d.uvarint()
	copy(st.Hash[:], d.take(len(st.Hash)))
	st.Status = runlog.Status(d.text())
	st.updated = d.varint()
	st.owner = d.text()
	st.holder = d.text()
	st.takeovers = int(d.uvarint() & math.MaxInt32)
	if len(d.b) > 0 {
		st.summary = d.text()
	}
}

// appendMark ends a batch: at is where b[0] is in the file, since where its write begins.
func (h *header) appendMark(b []byte, at, since int64, st *state) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint32(b, markMagic)
	b = append(b, make([]byte, 8)...)
	b = binary.LittleEndian.AppendUint64(b, uint64(at)+uint64(start))
	b = binary.LittleEndian.AppendUint64(b, uint64(since))
	b = st.append(b)
	size := uint32(len(b) - start + 4)
	b = binary.LittleEndian.AppendUint32(b, size)
	binary.LittleEndian.PutUint32(b[start+4:], size)
	binary.LittleEndian.PutUint32(b[start+8:], checksum(h.nonce[:], b[start+12:]))
	return b
}

func isMark(b []byte) bool {
	return len(b) >= 4 && binary.LittleEndian.Uint32(b) == markMagic
}

// decodeMark reads the mark at the start of b, which is at that offset of the file, and
// returns where its write began and its length.
func (h *header) decodeMark(b []byte, at int64) (st state, since int64, n int, err error) {
	if len(b) < markFixed {
		return st, 0, 0, fmt.Errorf("a mark ends after %d bytes: %w", len(b), io.ErrUnexpectedEOF)
	}
	size := binary.LittleEndian.Uint32(b[4:])
	if size < markFixed || size > markMost {
		return st, 0, 0, fmt.Errorf("a mark cannot have %d bytes", size)
	}
	if int(size) > len(b) {
		return st, 0, 0, fmt.Errorf("a mark ends after %d of %d bytes: %w", len(b), size, io.ErrUnexpectedEOF)
	}
	b = b[:size]
	if checksum(h.nonce[:], b[12:]) != binary.LittleEndian.Uint32(b[8:]) {
		return st, 0, 0, errors.New("the checksum of a mark is wrong")
	}
	if binary.LittleEndian.Uint64(b[12:]) != uint64(at) {
		return st, 0, 0, errors.New("a mark is not in its place")
	}
	since = int64(binary.LittleEndian.Uint64(b[20:]))
	d := decoder{b: b[markFixed : size-4]}
	st.decode(&d) // what a later version adds behind is skipped
	if d.bad || since < 0 || since > at {
		return st, 0, 0, errors.New("a mark cannot be read")
	}
	return st, since, int(size), nil
}

func (o *hold) encode() []byte {
	b := append([]byte(holdMagic), make([]byte, 8)...)
	b = append(b, o.h.nonce[:]...)
	b = binary.AppendUvarint(b, uint64(o.durable))
	b = binary.AppendVarint(b, o.until)
	b = o.h.appendFields(b)
	b = o.st.append(b)
	binary.LittleEndian.PutUint32(b[8:], uint32(len(b)))
	binary.LittleEndian.PutUint32(b[12:], checksum(b[16:]))
	return b
}

// decodeHold reads a hold, which may have the remains of a longer one behind it.
func decodeHold(b []byte) (*hold, bool) {
	if len(b) < holdFixed || !bytes.HasPrefix(b, []byte(holdMagic)) {
		return nil, false
	}
	size := binary.LittleEndian.Uint32(b[8:])
	if size < holdFixed || int64(size) > int64(len(b)) || checksum(b[holdFixed:size]) != binary.LittleEndian.Uint32(b[12:]) {
		return nil, false
	}
	o := &hold{}
	d := decoder{b: b[holdFixed:size]}
	copy(o.h.nonce[:], d.take(nonceSize))
	o.durable = int64(d.uvarint() & math.MaxInt64)
	o.until = d.varint()
	o.h.decodeFields(&d)
	o.st.decode(&d)
	return o, !d.bad
}

// A decoder takes fields off the front of b until there is not what there should be.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n int) []byte {
	if d.bad || n > len(d.b) {
		d.bad = true
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if d.bad || n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if d.bad || n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) text() string {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.bad = true
	}
	if d.bad {
		return ""
	}
	return string(d.take(int(n)))
}
