package file

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/superstep-dev/superstep/runlog"
)

// A reel is the log of a run, open for writing. The writer holds the run's lock.
type reel struct {
	s    *store
	dir  string // of the run
	f    tape   // nil after an error that left it unknown what is in the file
	h    *header
	size int64 // of what counts
}

const logName, holdName, lockName = "log", "hold", "lock"

func (r *reel) path() string { return filepath.Join(r.dir, logName) }

func (r *reel) close() error {
	if r.f == nil {
		return nil
	}
	err := r.f.Close()
	r.f = nil
	return err
}

// length returns how long the file is.
func (r *reel) length() (int64, error) {
	if r.f == nil {
		return 0, fs.ErrClosed
	}
	info, err := r.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// append writes b to the end of the log and makes it durable. On an error b was not appended,
// unless the error wraps ErrUnknown.
func (r *reel) append(b []byte) error {
	if r.f == nil {
		return fs.ErrClosed
	}
	err := r.write(b)
	synced := false
	if err == nil {
		r.s.fail("file.before-sync")
		err, synced = r.f.sync(), true
	}
	if err == nil {
		r.s.fail("file.after-sync")
		r.size += int64(len(b))
		return nil
	}
	if undo := r.cut(synced); undo != nil {
		_ = r.close()
		return fmt.Errorf("writing store %s: %w: the write failed (%w), and so did taking it back (%w); check the disk, then resume the run",
			r.s.dir, runlog.ErrUnknown, err, undo)
	}
	return fmt.Errorf("nothing was stored: %w", r.s.explain("writing", err))
}

func (r *reel) write(b []byte) error {
	r.s.fail("file.before-write")
	at := r.size
	if r.s.halves {
		n := len(b) / 2
		if _, err := r.f.WriteAt(b[:n], at); err != nil {
			return err
		}
		r.s.fail("file.mid-write")
		b, at = b[n:], at+int64(n)
	}
	_, err := r.f.WriteAt(b, at)
	return err
}

// cut removes what was written behind the end. If a sync failed, it opens the file again, since the
// old handle reports the error only once.
func (r *reel) cut(synced bool) error {
	if synced {
		_ = r.close()
		f, err := r.s.disk.open(r.path(), os.O_RDWR)
		if err != nil {
			return err
		}
		r.f = f
	}
	if err := r.f.Truncate(r.size); err != nil || !synced {
		return err
	}
	if err := r.f.sync(); err != nil {
		return err
	}
	h, data, err := r.load()
	if err != nil {
		return err
	}
	if h.nonce != r.h.nonce {
		return errors.New("another log is in its place")
	}
	sc := h.scan(data)
	if sc.end != r.size {
		return errors.Join(errors.New("the log cannot be read back"), sc.why)
	}
	return nil
}

// load reads the log.
func (r *reel) load() (*header, []byte, error) {
	size, err := r.length()
	if err != nil {
		return nil, nil, err
	}
	data := make([]byte, size)
	if n, err := r.f.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	} else if n < len(data) {
		data = data[:n]
	}
	h, err := decodeHeader(data)
	return h, data, err
}

// vouch records how far the log is durable, and until when the run is held. If that fails, readers
// determine it themselves.
func (r *reel) vouch(st *state, until int64) {
	o := hold{h: *r.h, st: *st, durable: r.size, until: until}
	path := filepath.Join(r.dir, holdName)
	if err := writeSmall(path, o.encode()); err != nil {
		os.Remove(path)
	}
}

// readHold reads the hold of a run. It may be changing while it is read.
func readHold(dir string) (*hold, bool) {
	path := filepath.Join(dir, holdName)
	buf := make([]byte, 2048)
	for range 3 {
		b, err := readSmall(path, buf)
		if err != nil {
			return nil, false
		}
		if o, ok := decodeHold(b); ok {
			return o, true
		}
		buf = make([]byte, holdMost) // a long title
	}
	return nil, false
}

// shelve gives the log the name of a former one too, and reports whether it did. It does not where a file can have only one name.
func (r *reel) shelve() (bool, error) {
	if err := r.f.sync(); err != nil { // the log may have been cut since the last append
		return false, err
	}
	if r.s.disk.link(r.path(), filepath.Join(r.dir, plainName(r.h.base))) != nil {
		return false, nil
	}
	r.s.fail("file.after-link")
	return true, r.s.disk.syncDir(r.dir)
}

// compress puts a compressed copy of the log beside it.
func (r *reel) compress(st *state) error {
	h, data, err := r.load()
	if err != nil {
		return err
	}
	if sc := h.scan(data); sc.end != r.size || sc.st != *st {
		return errors.New("the log is damaged") // and is kept as it is
	}
	old, err := r.s.packer.pack(data[:r.size])
	if err != nil {
		return err
	}
	path := filepath.Join(r.dir, packName(h.base))
	return r.s.put(path, path+".tmp", old)
}

// rotate puts the log away as it is, and begins a new one. Whoever calls it compresses the former one later, see [store.squeeze]. On an error the log
// is as before, unless the error wraps ErrUnknown.
func (r *reel) rotate(st *state) error {
	next := *r.h
	if st.Seq >= r.h.base { // else it has no records, and the next one has its number
		_ = r.s.disk.remove(filepath.Join(r.dir, plainName(r.h.base))) // of a process that died here
		if plain, err := r.shelve(); err != nil {
			return err
		} else if plain {
			next.version = shelved
		} else if err := r.compress(st); err != nil {
			return err
		}
	}
	next.base, next.prev = st.Seq+1, st.Hash
	if _, err := rand.Read(next.nonce[:]); err != nil {
		return err
	}
	b := next.encode()
	b = next.appendMark(b, 0, next.size, st)
	tmp := r.path() + ".tmp"
	if err := write(r.s.disk, tmp, b); err != nil {
		return err
	}
	f, err := r.s.disk.open(tmp, os.O_RDWR)
	if err != nil {
		return err
	}
	r.s.fail("file.before-rename")
	if err := r.s.disk.rename(tmp, r.path()); err != nil {
		_ = f.Close()
		os.Remove(tmp)
		return err
	}
	r.s.fail("file.after-rename")
	_ = r.close()
	r.f, r.h, r.size = f, &next, int64(len(b))
	if err := r.s.disk.syncDir(r.dir); err != nil {
		_ = r.close()
		return fmt.Errorf("writing store %s: %w: a new log could not be made durable (%w); check the disk, then resume the run", r.s.dir, runlog.ErrUnknown, err)
	}
	return nil
}
