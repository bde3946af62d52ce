package sqlite

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"sync"

	zsqlite "zombiezen.com/go/sqlite"
)

const (
	crowd         = 8        // runs in a transaction from which on they share rows of the table recent
	maxBatch      = 3 << 10  // bytes of an append that shares a row; more would gain nothing
	maxRecentRow  = 32 << 10 // bytes from which on a row is full
	maxRecentRows = 256      // that are there before they are moved
	maxMovedRow   = 8 << 10  // bytes of what becomes one row of the table records when it is moved
)

// A row of the table recent has batches, each behind a head:
//
//	run       u64 little-endian   runs.no
//	last      u32                 the sequence number of its last record
//	length    u32                 bytes of the frames that follow the head
//	checksum  u32                 CRC-32C (Castagnoli) of the fields above
const batchHead = 8 + 4 + 4 + 4

// A part is a batch in a row of the table recent.
type part struct {
	run    int64
	last   uint64
	at     int // where its frames begin
	frames []byte
}

func appendBatch(b []byte, run int64, last uint64, frames []byte) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(run))
	b = binary.LittleEndian.AppendUint32(b, uint32(last))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(frames)))
	b = binary.LittleEndian.AppendUint32(b, headSum(b[start:]))
	return append(b, frames...)
}

func headSum(head []byte) uint32 {
	return crc32.Checksum(head[:16], crc32.MakeTable(crc32.Castagnoli))
}

// eachBatch returns the batches of a row, and reports whether the whole row could be read. After a damaged head, it continues with the next intact one.
func eachBatch(row []byte, fn func(b part)) (whole bool) {
	whole = true
	for at := 0; at < len(row); {
		rest := row[at:]
		if len(rest) < batchHead {
			return false
		}
		size := int(binary.LittleEndian.Uint32(rest[12:]))
		if headSum(rest) != binary.LittleEndian.Uint32(rest[16:]) || size > len(rest)-batchHead {
			whole = false
			at++
			continue
		}
		at += batchHead
		fn(part{
			run: int64(binary.LittleEndian.Uint64(rest)), last: uint64(binary.LittleEndian.Uint32(rest[8:])),
			at: at, frames: rest[batchHead : batchHead+size : batchHead+size],
		})
		at += size
	}
	return whole
}

// crowded reports whether enough runs append at the same time to share rows.
func (w *writer) crowded() bool { return max(w.runs, w.before) >= crowd }

// share puts a batch into a row of the table recent.
func (w *writer) share(run int64, last uint64, frames []byte) error {
	w.row = appendBatch(w.row, run, last, frames)
	if len(w.row) >= maxRecentRow {
		return w.flush()
	}
	return nil
}

// flush writes the row that is being filled. The table is not read before that.
func (w *writer) flush() error {
	if len(w.row) == 0 {
		return nil
	}
	err := w.c.exec("INSERT INTO recent (batches) VALUES (?1)", func(st *zsqlite.Stmt) { st.BindBytes(1, w.row) })
	w.row = w.row[:0]
	w.recent++
	return err
}

// gather moves the rows of recent to records, where each run has separate pages. Readers find the same records before and after.
func (w *writer) gather() error {
	if err := w.flush(); err != nil {
		return err
	}
	all, last, err := w.allBatches()
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b part) int { return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.last, b.last)) })
	var joined []byte
	for i := 0; i < len(all); {
		run := all[i].run
		there, err := w.c.integer("SELECT count(*) FROM runs WHERE no = ?1", func(st *zsqlite.Stmt) { st.BindInt64(1, run) })
		if err != nil {
			return err
		}
		for i < len(all) && all[i].run == run {
			joined = append(joined[:0], all[i].frames...)
			for i++; i < len(all) && all[i].run == run && len(joined)+len(all[i].frames) <= maxMovedRow && follows(&all[i-1], &all[i]); i++ {
				joined = append(joined, all[i].frames...)
			}
			if there == 0 {
				continue // it was deleted
			}
			if err := w.insert(run, all[i-1].last, joined); err != nil {
				return err
			}
		}
	}
	w.s.fail("sqlite.mid-gather")
	err = w.c.exec("DELETE FROM recent", nil)
	if err == nil {
		err = w.c.exec("INSERT INTO recent (no, batches) VALUES (?1, x'')", func(st *zsqlite.Stmt) { st.BindInt64(1, last+1) })
	}
	w.recent = 0
	return err
}

// follows reports whether nothing is between two batches of a run: it may be in records.
func follows(a, b *part) bool { return b.last-a.last == uint64(countFrames(b.frames)) }

// allBatches reads the table recent, and puts rows that are damaged aside.
func (w *writer) allBatches() (all []part, last int64, err error) {
	var damaged []int64
	err = w.c.query("SELECT no, batches FROM recent ORDER BY no", nil, func(st *zsqlite.Stmt) bool {
		last = st.ColumnInt64(0)
		if !eachBatch(blob(st, 1), func(b part) { all = append(all, b) }) {
			damaged = append(damaged, last)
		}
		return true
	})
	for _, no := range damaged {
		if err == nil {
			err = w.c.exec("INSERT OR REPLACE INTO damaged SELECT no, batches FROM recent WHERE no = ?1", func(st *zsqlite.Stmt) { st.BindInt64(1, no) })
		}
	}
	return all, last, err
}

// An index holds the positions of each run's batches in the table recent. It reads each row once. When the table has been emptied, a new index begins;
// transactions that still see the old rows keep the old index.
type index struct {
	mu     sync.Mutex
	lo, hi int64 // the rows it knows
	runs   map[int64][]place
}

// A place is the position of a batch.
type place struct {
	row, last int64
	at, size  int32
}

// A view is the part of the logs that a transaction sees.
type view struct {
	c    *conn
	mu   *sync.Mutex // of the index
	runs map[int64][]place
	hi   int64 // the last row of the table recent
}

// forget makes the index read everything again.
func (x *index) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lo, x.hi, x.runs = 0, 0, nil
}

// view brings the index up to date for the open transaction of a connection.
func (x *index) view(c *conn) (view, error) {
	var lo, hi int64
	err := c.query("SELECT (SELECT min(no) FROM recent), (SELECT max(no) FROM recent)", nil, func(st *zsqlite.Stmt) bool {
		lo, hi = st.ColumnInt64(0), st.ColumnInt64(1)
		return false
	})
	if err != nil {
		return view{}, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if lo < x.lo { // the transaction began before the table was emptied
		x = &index{}
		x.mu.Lock()
		defer x.mu.Unlock()
	}
	err = x.read(c, lo, hi)
	return view{c, &x.mu, x.runs, hi}, err
}

func (x *index) read(c *conn, lo, hi int64) error {
	if lo != x.lo {
		x.lo, x.hi, x.runs = lo, lo-1, map[int64][]place{}
	}
	if hi <= x.hi {
		return nil
	}
	return c.query("SELECT no, batches FROM recent WHERE no > ?1 ORDER BY no", func(st *zsqlite.Stmt) { st.BindInt64(1, x.hi) }, func(st *zsqlite.Stmt) bool {
		x.hi = st.ColumnInt64(0)
		eachBatch(blob(st, 1), func(b part) {
			x.runs[b.run] = append(x.runs[b.run], place{x.hi, int64(b.last), int32(b.at), int32(len(b.frames))})
		})
		return true
	})
}

// places returns the places of a run's batches whose last record is between from and to, in order.
func (v view) places(no int64, from, to uint64) []place {
	v.mu.Lock()
	all := v.runs[no]
	v.mu.Unlock()
	i, _ := slices.BinarySearchFunc(all, int64(from), func(p place, seq int64) int { return cmp.Compare(p.last, seq) })
	k := i
	for k < len(all) && all[k].last <= int64(to) && all[k].row <= v.hi {
		k++
	}
	return all[i:k]
}

// shared reports whether batches of the run are in the table recent.
func (v view) shared(no int64) bool { return len(v.places(no, 0, maxSeq)) > 0 }

// head returns the number of a run's last record, given its last record in the table records.
func (v view) head(no int64, moved uint64) uint64 {
	if ps := v.places(no, moved+1, maxSeq); len(ps) > 0 {
		return uint64(ps[len(ps)-1].last)
	}
	return moved
}

// lastBefore returns the last record of the row before the row that holds record seq of a run, or 0 if there is none.
func (v view) lastBefore(no int64, seq uint64) (last uint64, err error) {
	if seq <= 1 {
		return 0, nil
	}
	pos, err := v.c.integer("SELECT coalesce((SELECT pos FROM records WHERE pos > ?1 AND pos < ?2 ORDER BY pos DESC LIMIT 1), ?1)", func(st *zsqlite.Stmt) {
		st.BindInt64(1, first(no))
		st.BindInt64(2, first(no)+int64(seq))
	})
	if ps := v.places(no, 1, seq-1); len(ps) > 0 {
		last = uint64(ps[len(ps)-1].last)
	}
	return max(last, uint64(pos-first(no))), err
}

// eachRow calls fn, until it returns false, with the frames of each row of a run whose last record is between from and to, in order. Seq is a row's last
// record.
func (v view) eachRow(no int64, from, to uint64, fn func(seq uint64, frames []byte) bool) error {
	ps := v.places(no, from, to)
	// until returns the batches before a record.
	more, failed := true, error(nil)
	until := func(seq int64) {
		for more && len(ps) > 0 && ps[0].last < seq {
			var frames []byte
			frames, failed = v.at(ps[0])
			more = failed == nil && fn(uint64(ps[0].last), frames)
			ps = ps[1:]
		}
	}
	err := v.c.query("SELECT pos, frames FROM records WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos", func(st *zsqlite.Stmt) {
		st.BindInt64(1, first(no)+int64(from))
		st.BindInt64(2, first(no)+int64(to))
	}, func(st *zsqlite.Stmt) bool {
		seq := st.ColumnInt64(0) - first(no)
		until(seq)
		more = more && fn(uint64(seq), blob(st, 1))
		return more
	})
	if err == nil {
		until(maxSeq + 1)
	}
	return cmp.Or(err, failed)
}

// at reads the frames at a place.
func (v view) at(p place) (frames []byte, err error) {
	err = v.c.query("SELECT substr(batches, ?2, ?3) FROM recent WHERE no = ?1", func(st *zsqlite.Stmt) {
		st.BindInt64(1, p.row)
		st.BindInt64(2, int64(p.at)+1)
		st.BindInt64(3, int64(p.size))
	}, func(st *zsqlite.Stmt) bool {
		frames = blob(st, 0)
		return false
	})
	return frames, err
}
