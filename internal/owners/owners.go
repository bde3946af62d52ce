// Package owners tells which processes that share a folder are alive.
package owners

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// Owners names which holders of runs are alive. Each store that holds runs keeps an exclusive lock
// on a file of its own in Dir, and the operating system drops the lock when the process ends,
// however it ends. So if a file is missing or can be locked, its owner is dead. Names are random
// and never reused, so it is safe to remove the file of a dead owner. Only an owner that has
// created its file but not locked it yet could be affected, and it checks afterwards whether the
// file still exists.
type Owners struct {
	Dir string // made when it is needed

	mu   sync.Mutex
	lock *flock.Flock
	name string // what runs.holder says of this store, "" before Join
}

// Join ensures that this store has its file, and returns its name.
func (o *Owners) Join() (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.name != "" {
		return o.name, nil
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return "", unlocked(o.Dir, err)
	}
	o.sweep()
	for range 10 {
		name := strings.ToLower(rand.Text())
		path := filepath.Join(o.Dir, name)
		l := flock.New(path, flock.SetPermissions(0o600))
		ok, err := l.TryLock()
		if err != nil {
			return "", unlocked(path, err)
		}
		if ok && Same(l, path) {
			o.lock, o.name = l, name
			return name, nil
		}
		_ = l.Close() // somebody swept the file away before it was locked
	}
	return "", fmt.Errorf("locking a file in %s: others keep removing it; is another program cleaning that directory up?", o.Dir)
}

// unlocked explains why a file of locks cannot be made or locked.
func unlocked(path string, err error) error {
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("the folder %s cannot be written, and who executes a run keeps a lock there: %w; make it writable, or copy the store to a folder that is", filepath.Dir(path), err)
	}
	for _, short := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, short) {
			return fmt.Errorf("locking %s: %w", path, err)
		}
	}
	return fmt.Errorf("locking %s: %w; superstep needs a file system with locks", path, err)
}

// Same reports whether path still names the file that is locked.
func Same(l *flock.Flock, path string) bool {
	locked, err := l.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(locked, there)
}

// Alive reports whether the owner of that name may still be there. When it is not, its file is
// removed. If in doubt, the owner counts as alive, and the lease decides.
func (o *Owners) Alive(name string) bool {
	if name == "" || strings.ContainsFunc(name, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') }) {
		return false // not a name Join gives, and it becomes a path below
	}
	o.mu.Lock()
	own := o.name == name
	o.mu.Unlock()
	return own || probe(filepath.Join(o.Dir, name))
}

// Foreign reports whether the owner of that name is another one and may still be there.
func (o *Owners) Foreign(name string) bool {
	o.mu.Lock()
	own := o.name == name
	o.mu.Unlock()
	return !own && o.Alive(name)
}

func probe(path string) bool {
	// A shared lock, so that two processes that check at the same time do not take each other for
	// the owner.
	l := flock.New(path, flock.SetFlag(os.O_RDONLY))
	ok, err := l.TryRLock()
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err != nil || !ok {
		return true
	}
	_ = os.Remove(path) // whether or not this works, nobody holds the lock
	_ = l.Close()
	return false
}

// sweep removes what dead owners left behind.
func (o *Owners) sweep() {
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return // it only leaves files lying about
	}
	for _, e := range entries {
		probe(filepath.Join(o.Dir, e.Name()))
	}
}

// Leave gives up this store's file.
func (o *Owners) Leave() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lock == nil {
		return nil
	}
	path := o.lock.Path()
	os.Remove(path)
	err := o.lock.Close()
	os.Remove(path) // where a locked file cannot be removed
	o.lock = nil
	return err
}

// Name returns the name of this store, or "" before Join.
func (o *Owners) Name() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.name
}

// A Claim names who holds a run, and until when unless the lease is renewed, in Unix nanoseconds.
type Claim struct {
	Holder string // "" for nobody
	Until  int64
}

// A Liveness answers whether claims hold at a moment, and asks for each holder once.
type Liveness struct {
	owners *Owners
	now    int64

	mu    sync.Mutex
	known map[string]bool
}

// Liveness returns answers as of now.
func (o *Owners) Liveness(now time.Time) *Liveness {
	return &Liveness{owners: o, now: now.UnixNano(), known: map[string]bool{}}
}

// Alive is Owners.Alive.
func (v *Liveness) Alive(holder string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	alive, known := v.known[holder]
	if !known {
		alive = v.owners.Alive(holder)
		v.known[holder] = alive
	}
	return alive
}

// Held reports whether the claim holds.
func (v *Liveness) Held(c Claim) bool {
	return c.Holder != "" && v.now < c.Until && v.Alive(c.Holder)
}

// A Doubt reports that a lease has ended though its holder's lock is still there: the holder hangs,
// or the clock has jumped.
type Doubt struct{ claim Claim }

func (d *Doubt) Error() string { return "the lease of a holder that seems to be alive has ended" }

// Free returns nil if a run may be taken from its claimant, and busy if not. If that is in doubt,
// it returns a *Doubt, unless the caller has already waited for that same doubt.
func (o *Owners) Free(now time.Time, c Claim, seen *Doubt, busy error) error {
	live := o.Liveness(now)
	switch {
	case live.Held(c):
		return busy
	case live.now < c.Until || !o.Foreign(c.Holder):
		return nil
	case seen == nil:
		return &Doubt{c}
	case seen.claim != c: // somebody is alive
		return busy
	}
	return nil
}

// Patiently calls f. If f returns a *Doubt about a holder, it calls f once more after a third of a
// lease, in which a live holder renews its lease. Leases use the wall clock; this wait does not. It
// returns closed when closing is closed.
func Patiently(ctx context.Context, lease time.Duration, closing <-chan struct{}, closed error, f func(seen *Doubt) error) error {
	err := f(nil)
	var seen *Doubt
	if !errors.As(err, &seen) {
		return err
	}
	wait := time.NewTimer(lease / 3)
	defer wait.Stop()
	select {
	case <-wait.C:
		return f(seen)
	case <-ctx.Done():
		return ctx.Err()
	case <-closing:
		return closed
	}
}
