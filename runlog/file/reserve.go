package file

import (
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
)

// reserveSize is enough disk space for the last batches of some dozens of runs.
const reserveSize = 256 << 10

// A reserve is a file that occupies disk space. If the disk is full, it is emptied so that a run
// can record that it waits for storage. It is filled again as soon as there is space; until then
// this store accepts no other writes.
type reserve struct {
	path string
	disk disk

	mu    sync.Mutex
	spent atomic.Bool
}

// fill fills the reserve to its full size.
func (r *reserve) fill() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.spent.Store(err != nil) }()
	if info, err := os.Stat(r.path); err == nil && info.Size() == reserveSize {
		return nil
	}
	f, err := r.disk.open(r.path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	// It is filled with random data, since a file system may not allocate space for zeros.
	noise := make([]byte, reserveSize)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	_, err = f.WriteAt(noise, 0)
	if err == nil {
		err = f.sync()
	}
	if err != nil {
		err = errors.Join(err, f.Truncate(0))
	}
	return errors.Join(err, f.Close())
}

// spend frees the reserved space. It reports whether there was any.
func (r *reserve) spend() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spent.Store(true)
	info, err := os.Stat(r.path)
	if err != nil || info.Size() == 0 {
		return false
	}
	f, err := r.disk.open(r.path, os.O_RDWR)
	if err != nil {
		return false
	}
	err = f.Truncate(0)
	if err == nil {
		err = f.sync() // some file systems free disk space only then
	}
	return errors.Join(err, f.Close()) == nil
}
