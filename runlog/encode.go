package runlog

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"time"
)

// The limits of a stored record.
const (
	MaxFrame = 64 << 20 // bytes of a whole frame, the length field included
	maxKind  = 64       // bytes of a kind
	MaxPath  = 4096     // bytes of a path
)

const (
	frameVersion = 2                                 // the newest; 1 is that of records without an attachment
	frameHead    = 4 + 4                             // length, checksum
	frameFixed   = frameHead + 1 + 32                // and version, hash of the previous frame
	frameSmall   = frameFixed + 1 + 1 + 1 + 1 + 1    // and the shortest of everything else
	frameExtra   = 5*binary.MaxVarintLen64 + MaxPath // room that is worth asking for at once
)

var errDamaged = errors.New("the frame is damaged")

// A VersionError reports that a frame is intact but of a version this program does not know.
type VersionError struct {
	Version byte // what the frame says
	Known   byte // the newest this program reads
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("frame version %d was written by a newer superstep (this one reads up to %d); update superstep to open it", e.Version, e.Known)
}

// A FrameHash is the SHA-256 of a frame from its version byte on. The zero value stands
// for "no frame before this one".
type FrameHash [sha256.Size]byte

// AppendFrame appends the stored form of r to dst and returns the longer slice and
// the hash that the next frame of the run carries as prev. On an error dst comes
// back as it was. It allocates only if dst is too short.
//
// A frame is, in this order, without padding:
//
//	length    u32 little-endian   bytes that follow this field
//	checksum  u32 little-endian   CRC-32C (Castagnoli) of all that follows this field
//	version   u8                  1, or 2 with an attachment
//	prev      32 bytes            hash of the run's previous frame, zeros in the first
//	seq       uvarint             at least 1
//	epoch     uvarint
//	time      varint              Unix time in nanoseconds
//	kind      uvarint length, then that many bytes (1 to maxKind)
//	path      uvarint length, then that many bytes (0 to MaxPath)
//	data      the rest            a JSON object, or nothing for nil
//
// With an attachment, the length of data as a uvarint comes before data, and the attachment behind them. It has at least one byte.
//
// Varints are those of encoding/binary in their shortest spelling, so a record has
// exactly one frame. No type names are stored. The checksum finds accidents; the
// hash, which is the SHA-256 of all from version on, chains a run's frames together, so
// that a record which is missing, moved or replaced is found too. Length and
// checksum keep this place and meaning in all future versions.
func AppendFrame(dst []byte, prev FrameHash, r *Record) ([]byte, FrameHash, error) {
	nanos, err := checkRecord(r)
	if err != nil {
		return dst, FrameHash{}, err
	}
	start := len(dst)
	b := dst
	b = slices.Grow(b, frameSmall+frameExtra+r.Size())
	version := byte(1)
	if len(r.Attachment) > 0 {
		version = 2
	}
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, version)
	b = append(b, prev[:]...)
	b = binary.AppendUvarint(b, r.Seq)
	b = binary.AppendUvarint(b, r.Epoch)
	b = binary.AppendVarint(b, nanos)
	b = binary.AppendUvarint(b, uint64(len(r.Kind)))
	b = append(b, r.Kind...)
	b = binary.AppendUvarint(b, uint64(len(r.Path)))
	b = append(b, r.Path...)
	if version == 2 {
		b = binary.AppendUvarint(b, uint64(len(r.Data)))
	}
	b = append(append(b, r.Data...), r.Attachment...)
	frame := b[start:]
	if len(frame) > MaxFrame {
		return dst, FrameHash{}, fmt.Errorf("record %d (%s) takes %d bytes, more than the %d a record may have; store the large value on its own "+
			"and refer to it", r.Seq, r.Kind, len(frame), MaxFrame)
	}
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-4))
	binary.LittleEndian.PutUint32(frame[4:], checksum(frame[frameHead:]))
	return b, sha256.Sum256(frame[frameHead:]), nil
}

// checkRecord refuses what a frame cannot hold and returns the record's time.
func checkRecord(r *Record) (nanos int64, err error) {
	switch {
	case r.Seq == 0:
		return 0, fmt.Errorf("record (%s) has no sequence number; live-only records are not stored", r.Kind)
	case r.Kind == "":
		return 0, fmt.Errorf("record %d has no kind", r.Seq)
	case len(r.Kind) > maxKind:
		return 0, fmt.Errorf("record %d has a kind of %d bytes, at most %d are allowed", r.Seq, len(r.Kind), maxKind)
	case len(r.Path) > MaxPath:
		return 0, fmt.Errorf("record %d (%s) has a path of %d bytes, at most %d are allowed", r.Seq, r.Kind, len(r.Path), MaxPath)
	case r.Size() > MaxFrame:
		return 0, fmt.Errorf("record %d (%s) has %d bytes of data, more than the %d a record may have; store the large value on its own and refer to it",
			r.Seq, r.Kind, r.Size(), MaxFrame)
	}
	// UnixNano is undefined outside the years 1678 to 2262, and so for a zero Time.
	const most = math.MaxInt64/int64(time.Second) - 1
	if s := r.Time.Unix(); s < -most || s > most {
		return 0, fmt.Errorf("record %d (%s) has the time %s; set Time to when it was written", r.Seq, r.Kind, r.Time.Format(time.RFC3339))
	}
	return r.Time.UnixNano(), nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// DecodeFrame reads the frame at the start of b, which may be longer. It returns the record, the
// hash of the previous frame as stored in this one, the hash of the frame itself, and its length.
// The record's Data and Attachment alias b; nothing else does. What DecodeFrame accepts, AppendFrame writes
// again byte for byte.
//
// The error is io.EOF if b is empty, wraps io.ErrUnexpectedEOF if b ends before
// the frame does, is a *VersionError if a newer program wrote an intact frame, and
// says otherwise what is damaged. A damaged length can look like a frame that ends too
// early.
func DecodeFrame(b []byte) (r Record, prev, self FrameHash, n int, err error) {
	body, err := frameBody(b)
	if err != nil {
		return Record{}, FrameHash{}, FrameHash{}, 0, err
	}
	d := decoder{b: body[1+len(prev):]}
	r.Seq = d.uvarint("sequence number")
	r.Epoch = d.uvarint("epoch")
	r.Time = time.Unix(0, d.varint("time")).UTC()
	r.Kind = internKind(d.bytes("kind", 1, maxKind))
	r.Path = string(d.bytes("path", 0, MaxPath))
	if d.err == nil && r.Seq == 0 {
		d.fail("sequence number", "is zero")
	}
	if data := d.b; body[0] == 2 && d.err == nil {
		if data = d.bytes("data", 0, MaxFrame); len(data) > 0 {
			r.Data = data[:len(data):len(data)]
		}
		if r.Attachment = d.b[:len(d.b):len(d.b)]; len(d.b) == 0 {
			d.fail("attachment", "is missing")
		}
	} else if len(data) > 0 {
		r.Data = data[:len(data):len(data)]
	}
	if d.err == nil {
		// The span AppendFrame accepts is a little narrower than an int64.
		_, d.err = checkRecord(&r)
		if d.err != nil {
			d.err = fmt.Errorf("%w: %w", errDamaged, d.err)
		}
	}
	if d.err != nil {
		return Record{}, FrameHash{}, FrameHash{}, 0, d.err
	}
	copy(prev[:], body[1:])
	return r, prev, sha256.Sum256(body), frameHead + len(body), nil
}

// frameBody checks length, checksum and version, and returns what the hash covers.
func frameBody(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, io.EOF
	}
	if len(b) < 4 {
		return nil, fmt.Errorf("the frame ends after %d bytes: %w", len(b), io.ErrUnexpectedEOF)
	}
	size := uint64(binary.LittleEndian.Uint32(b)) + 4
	if size < frameHead+1 || size > MaxFrame {
		return nil, fmt.Errorf("%w: its length field says %d bytes", errDamaged, size)
	}
	if uint64(len(b)) < size {
		return nil, fmt.Errorf("the frame ends after %d of %d bytes: %w", len(b), size, io.ErrUnexpectedEOF)
	}
	body := b[frameHead:size]
	if want, got := binary.LittleEndian.Uint32(b[4:]), checksum(body); want != got {
		return nil, fmt.Errorf("%w: its checksum is %08x and should be %08x", errDamaged, got, want)
	}
	switch v := body[0]; {
	case v > frameVersion:
		return nil, &VersionError{Version: v, Known: frameVersion}
	case v < 1:
		return nil, fmt.Errorf("%w: it says version %d", errDamaged, v)
	}
	if size < frameSmall {
		return nil, fmt.Errorf("%w: it has only %d bytes", errDamaged, size)
	}
	return body, nil
}

// A decoder reads fields from the front of b until one is invalid.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(field, why string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: its %s %s", errDamaged, field, why)
	}
}

func (d *decoder) uvarint(field string) uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.b)
	// A last byte of zero adds nothing: there is a shorter spelling.
	if n <= 0 || n > 1 && d.b[n-1] == 0 {
		d.fail(field, "is not a number in its shortest form")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint(field string) int64 {
	u := d.uvarint(field)
	v := int64(u >> 1)
	if u&1 != 0 {
		v = ^v
	}
	return v
}

func (d *decoder) bytes(field string, least, most uint64) []byte {
	n := d.uvarint(field)
	if d.err != nil {
		return nil
	}
	if n < least || n > most || n > uint64(len(d.b)) {
		d.fail(field, fmt.Sprintf("cannot be %d bytes long", n))
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

// internKind saves an allocation for the kinds there are.
func internKind(b []byte) Kind {
	for _, k := range [...]Kind{
		KindTaskDone, KindStepCommitted, KindSettled, KindIntended, KindEvent, KindSnapshot, KindTaskFailed, KindAsked, KindAnswered,
		KindInner, KindRunStarted, KindRunResumed, KindRunPaused, KindRunFailed, KindRunCancelled, KindRunFinished,
	} {
		if string(b) == string(k) {
			return k
		}
	}
	return Kind(b)
}

// A Chain checks the frames of one run as a store reads them back, in order: that each is intact,
// is the next one, and follows the frame before it. Seq and Hash belong to the last intact frame.
type Chain struct {
	ID   string
	Seq  uint64
	Hash FrameHash

	epoch  uint64
	rooted bool // Hash is known
}

// NewChain starts at record from of run id. All links are checked only if from is the first record.
// Otherwise the link of the first frame is not checked, since its predecessor is unknown: begin one
// record earlier to check it.
func NewChain(id string, from uint64) *Chain {
	return &Chain{ID: id, Seq: from - 1, rooted: from == 1}
}

// Next checks the frame that a store keeps for the next record. Bytes behind the
// frame count as damage. The record's Data and Attachment alias frame. The error is a
// *CorruptError, or wraps a *VersionError.
func (c *Chain) Next(frame []byte) (Record, error) {
	r, prev, self, n, err := DecodeFrame(frame)
	if v := (*VersionError)(nil); errors.As(err, &v) {
		return Record{}, fmt.Errorf("run %s, record %d: %w", c.ID, c.Seq+1, err)
	}
	switch {
	case err != nil:
		return Record{}, c.Damaged(err.Error())
	case n != len(frame):
		return Record{}, c.Damaged(fmt.Sprintf("%d bytes behind the frame", len(frame)-n))
	case r.Seq != c.Seq+1:
		return Record{}, c.Damaged(fmt.Sprintf("record %d is in its place", r.Seq))
	case r.Epoch < c.epoch:
		return Record{}, c.Damaged(fmt.Sprintf("epoch %d after epoch %d", r.Epoch, c.epoch))
	case c.rooted && prev != c.Hash:
		return Record{}, c.Damaged("it does not follow the record before it")
	}
	c.Seq, c.Hash, c.epoch, c.rooted = r.Seq, self, r.Epoch, true
	return r, nil
}

// Damaged returns the error for a next record that cannot be trusted, and why.
func (c *Chain) Damaged(why string) *CorruptError {
	return &CorruptError{ID: c.ID, Seq: c.Seq + 1, Good: c.Seq, Why: why}
}
