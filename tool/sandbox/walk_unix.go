//go:build linux || darwin

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A scanner finds hidden and protected files below a folder. It remembers unchanged folders, so that a second
// look costs little more than one stat per folder.
//
// It goes by descriptors: a path has no greatest length or depth, and a folder that is replaced by a link
// meanwhile leads nowhere.
type scanner struct {
	top *folder
}

// A folder is what a scanner remembers of one.
type folder struct {
	name    string
	id      fileID
	changed unix.Timespec // which no program can set
	looked  time.Time
	repo    repository
	heads   []string // what it has of those that make a repository of a folder
	inner   bool     // it is protected as a whole,
	secret  bool     // or hidden
	finds   []find
	sub     []*folder // that are looked through
}

// A fileID tells a file from all others.
type fileID struct{ dev, ino uint64 }

func identityOf(st *unix.Stat_t) fileID { return fileID{uint64(st.Dev), st.Ino} } //nolint:gosec,unconvert // 32 bits on some systems

// A find is an entry of a folder that needs special treatment.
type find struct {
	name                    string
	hidden, protected, link bool
}

// settled is how long a folder must be unchanged before its scan is trusted, since file systems
// have a coarse clock, which stands still for longer on a busy virtual machine.
const settled = time.Second

const (
	remembered = 200_000  // folders; of larger trees nothing is remembered
	openLevels = 64       // folders that are open at a time
	findBytes  = 64 << 20 // of paths that are found
)

const openFolder = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// A walk is one look.
type walk struct {
	looker
	until  time.Time
	root   string
	path   []byte  // of the folder that is looked at
	plain  []byte  // the same, with other names for protected folders: what is protected in them by itself
	levels []level // the folders from the top to it
	n      int     // folders so far
	bytes  int
	buffer []byte // for the entries of a folder
	user   func() []setting
	found  finding
}

type level struct {
	fd     int // -1 if it was closed meanwhile
	id     fileID
	mode   uint32 // to restore
	opened bool
}

// look returns the hidden and protected paths below root.
func (sc *scanner) look(root string, l looker, until time.Time) (finding, error) {
	if sc.top == nil {
		sc.top = &folder{name: root}
	}
	w := &walk{looker: l, until: until, root: root, path: []byte(root), plain: []byte(root), buffer: make([]byte, 32<<10), user: sync.OnceValue(func() []setting { return userSettings(l.home, l.environ) })}
	if root == "/" {
		w.path, w.plain = nil, nil
	}
	defer w.close()
	err := w.enter(sc.top, unix.AT_FDCWD, root, false, false)
	if w.n > remembered {
		sc.top = nil
	}
	return w.found, err
}

func (w *walk) close() {
	for _, l := range w.levels {
		if l.fd >= 0 {
			_ = unix.Close(l.fd)
		}
	}
}

// enter looks at a folder, by its name in the one that dir is. Inside means that it is protected as a whole, and secret
// that it is hidden.
func (w *walk) enter(f *folder, dir int, name string, inside, secret bool) error {
	if w.n++; w.n&0xff == 0 && time.Now().After(w.until) {
		return errLate
	}
	if !f.looked.IsZero() && len(f.sub) == 0 { // most are unchanged and hold no folder
		var st unix.Stat_t
		if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && f.unchanged(&st) && listable(&st) {
			return w.tell(f, inside, secret)
		}
	}
	l, err := w.openAt(dir, name)
	switch {
	case errors.Is(err, errClosed):
		if len(w.levels) == 0 {
			return fmt.Errorf("the folder cannot be listed, so nothing in it can be protected; run: chmod u+rwx %s", shellQuote(w.root))
		}
		return w.shut(secret)
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP):
		f.looked = time.Time{}
		return nil // gone by now
	case err != nil:
		return &os.PathError{Op: "open", Path: string(w.path), Err: err}
	}
	if n := len(w.levels) - openLevels; n >= 0 && w.levels[n].fd >= 0 {
		_ = unix.Close(w.levels[n].fd)
		w.levels[n].fd = -1
	}
	w.levels = append(w.levels, l)
	at := len(w.levels) - 1
	err = w.inside(f, at, inside, secret)
	l = w.levels[at]
	w.levels = w.levels[:at]
	if err == nil && at > 0 {
		err = w.reopen(at-1, l.fd)
	}
	if l.opened {
		err = errors.Join(err, unix.Fchmod(l.fd, l.mode))
		f.looked = time.Time{} // its change time is another
	}
	_ = unix.Close(l.fd)
	return err
}

// reopen opens a folder again that was closed while others below it were looked at.
func (w *walk) reopen(at, below int) error {
	l := &w.levels[at]
	if l.fd >= 0 {
		return nil
	}
	fd, err := unix.Openat(below, "..", openFolder, 0)
	if err != nil {
		return errMoved
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || identityOf(&st) != l.id {
		return errors.Join(unix.Close(fd), errMoved)
	}
	l.fd = fd
	return nil
}

// errClosed says that a folder cannot be listed.
var errClosed = errors.New("it cannot be listed")

// listable reports whether the owner of a folder may list it and enter what is in it.
func listable(st *unix.Stat_t) bool {
	return os.Geteuid() == 0 || int(st.Uid) != os.Geteuid() || st.Mode&0o500 == 0o500
}

// openAt opens a folder. One of this user that cannot be listed is opened for the look if the walk may do so.
func (w *walk) openAt(dir int, name string) (l level, err error) {
	var st unix.Stat_t
	l.fd, err = unix.Openat(dir, name, openFolder, 0)
	if err == nil {
		if err = unix.Fstat(l.fd, &st); err == nil && listable(&st) {
			l.id = identityOf(&st)
			return l, nil
		}
		if inner := errors.Join(err, unix.Close(l.fd)); inner != nil {
			return level{}, inner
		}
	} else if !errors.Is(err, fs.ErrPermission) {
		return level{}, err
	}
	if !w.open || w.skip[string(w.path)] {
		return level{}, errClosed
	}
	mode, err := allow(dir, name)
	if err != nil {
		return level{}, err
	}
	if l.fd, err = unix.Openat(dir, name, openFolder, 0); err != nil {
		return level{}, err
	}
	if err := unix.Fstat(l.fd, &st); err != nil {
		return level{}, errors.Join(err, unix.Close(l.fd))
	}
	return level{fd: l.fd, id: identityOf(&st), mode: mode, opened: true}, nil
}

// allow gives this user all rights on a folder of its own, and returns the mode that it had. A folder of somebody else is errClosed:
// no command has made it.
func allow(dir int, name string) (mode uint32, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return 0, unix.ENOTDIR
	}
	if int(st.Uid) != os.Geteuid() {
		return 0, errClosed
	}
	mode = uint32(st.Mode) & 0o7777 //nolint:unconvert // 16 bits on some systems
	return mode, chmodAt(dir, name, mode|0o700)
}

// shut notes a folder that cannot be listed.
func (w *walk) shut(secret bool) error {
	name := string(w.path)
	if w.open || secret { // of somebody else, or hidden already
		return nil
	}
	w.found.closed, w.found.hidden = append(w.found.closed, name), append(w.found.hidden, name)
	return w.count(len(name))
}

func (w *walk) count(n int) error {
	if w.bytes += n; w.bytes > findBytes {
		return fmt.Errorf("over %d MiB of paths in it are secret or protected", findBytes>>20)
	}
	return nil
}

func (f *folder) unchanged(st *unix.Stat_t) bool {
	return identityOf(st) == f.id && st.Ctim == f.changed && f.looked.Sub(timeOf(st)) > settled
}

// timeOf returns when a file was changed, which no program can set.
func timeOf(st *unix.Stat_t) time.Time { return time.Unix(int64(st.Ctim.Sec), int64(st.Ctim.Nsec)) } //nolint:unconvert // 32 bits on some systems

// inside looks at the folder that is open.
func (w *walk) inside(f *folder, at int, inside, secret bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(w.levels[at].fd, &st); err != nil {
		return err
	}
	if f.looked.IsZero() || !f.unchanged(&st) {
		f.id, f.changed, f.looked = identityOf(&st), st.Ctim, time.Now()
		if err := w.list(f, at, inside, secret); err != nil {
			f.looked = time.Time{}
			return err
		}
	}
	if err := w.tell(f, inside, secret); err != nil {
		return err
	}
	length, plain := len(w.path), len(w.plain)
	for _, sub := range f.sub {
		w.path, w.plain = append(append(w.path, '/'), sub.name...), append(w.plain, '/')
		if sub.inner {
			w.plain = append(w.plain, '-')
		} else {
			w.plain = append(w.plain, sub.name...)
		}
		err := w.enter(sub, w.levels[at].fd, sub.name, inside || sub.inner, secret || sub.secret)
		w.path, w.plain = w.path[:length], w.plain[:plain]
		if err != nil {
			return err
		}
	}
	return nil
}

// list reads the folder that is open.
func (w *walk) list(f *folder, at int, inside, secret bool) error {
	known := make(map[string]*folder, len(f.sub))
	for _, sub := range f.sub {
		known[sub.name] = sub
	}
	f.finds, f.sub, f.repo, f.heads = nil, nil, noRepository, nil
	var heads int // of what makes a bare repository for Git, which also takes links, and what another folder has
	err := readFolder(w.levels[at].fd, w.buffer, func(name string, kind uint32) {
		path := string(w.path) + "/" + name
		isFolder, special := kind == unix.S_IFDIR, kind == unix.S_IFSOCK || kind == unix.S_IFBLK || kind == unix.S_IFCHR
		switch name {
		case "HEAD", "objects", "refs":
			heads, f.heads = heads+1, append(f.heads, name)
		case "commondir":
			heads, f.heads = heads+2, append(f.heads, name)
		}
		x := find{name: name, link: kind == unix.S_IFLNK}
		x.hidden = special || !secret && w.hide != nil && w.hide(path) // a socket leads out, whatever the network is
		x.protected = w.protect != nil && w.protect(string(w.plain)+"/"+name)
		switch {
		case name == ".git":
			f.repo = linkedRepository
			if isFolder {
				f.repo, f.heads = workRepository, append(f.heads, ".git/HEAD")
			}
			return
		case x.hidden || x.protected || x.link && inside:
			f.finds = append(f.finds, x)
		}
		if !isFolder || name == unsearched {
			return
		}
		sub := known[name]
		if sub == nil {
			sub = &folder{name: name}
		}
		sub.inner, sub.secret = x.protected, x.hidden
		f.sub = append(f.sub, sub)
	})
	if heads >= 3 && f.repo == noRepository {
		f.repo = bareRepository
	}
	return err
}

// tell adds what is in a folder to the finding.
func (w *walk) tell(f *folder, inside, secret bool) error {
	for _, x := range f.finds {
		name := string(w.path) + "/" + x.name
		var more []string
		if x.link {
			more = w.behind(name)
		}
		if x.hidden && !secret {
			w.found.hidden = append(append(w.found.hidden, name), more...)
		}
		if x.protected && (!inside || w.open) { // what is moved aside is not inside any more
			w.found.protected = append(w.found.protected, name)
		}
		if x.protected || inside {
			w.found.protected = append(w.found.protected, more...)
		}
		if err := w.count(len(name)); err != nil {
			return err
		}
	}
	var heads []string
	for _, name := range f.heads {
		if name = string(w.path) + "/" + name; w.known == nil || !w.known(name) {
			heads = append(heads, name)
		}
	}
	w.found.heads = append(w.found.heads, heads...)
	if f.repo == noRepository || inside && !w.open || len(w.path) > longest && !w.open {
		return nil
	}
	w.found.repos = append(w.found.repos, string(w.path))
	if f.repo == bareRepository && w.known != nil && len(heads) > 0 { // what else is there may be the user's
		w.found.protected = append(w.found.protected, heads...)
		return w.count(len(w.path))
	}
	r := executes(w.root, string(w.path), f.repo, w.user(), &w.looker)
	w.found.protected = append(w.found.protected, r.runs...)
	w.found.secrets = append(w.found.secrets, r.secrets...)
	return w.count(len(w.path))
}

// enterAt opens the folder of a path below a top folder, without a symbolic link on the way, and by descriptors: a command that still runs
// may have put a link there, and the path may be too long. Folders of this user that cannot be entered are opened; done restores them.
func enterAt(top, dir string) (fd int, done func(), err error) {
	rel, err := filepath.Rel(top, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return -1, nil, fs.ErrNotExist
	}
	var undo []func()
	done = func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}
	fd = unix.AT_FDCWD
	for _, part := range append([]string{top}, strings.Split(rel, "/")...) {
		if part == "." {
			continue
		}
		next, err := unix.Openat(fd, part, openFolder, 0)
		if errors.Is(err, fs.ErrPermission) || err == nil && unix.Faccessat(next, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS) != nil {
			if err == nil {
				_ = unix.Close(next)
			}
			var mode uint32
			if mode, err = allow(fd, part); err == nil {
				next, err = unix.Openat(fd, part, openFolder, 0)
			}
			if err == nil {
				n := next
				undo = append(undo, func() { _ = unix.Fchmod(n, mode) })
			}
		}
		if err != nil {
			done()
			return -1, nil, fmt.Errorf("open %s in %s: %w", part, top, err)
		}
		n := next
		undo = append([]func(){func() { _ = unix.Close(n) }}, undo...)
		fd = next
	}
	return fd, done, nil
}

// at does something with an entry of a folder.
func at(top, name string, do func(fd int, base string) error) error {
	fd, done, err := enterAt(top, filepath.Dir(name))
	if err != nil {
		return err
	}
	defer done()
	return do(fd, filepath.Base(name))
}

// moveAside renames an entry of a folder to a name that nobody can have guessed.
func moveAside(top, name string) (string, error) {
	to := refusedName(filepath.Base(name))
	err := at(top, name, func(fd int, base string) error { return unix.Renameat(fd, base, fd, to) })
	return filepath.Join(filepath.Dir(name), to), err
}

// linkAt makes a symbolic link.
func linkAt(top, name, to string) error {
	return at(top, name, func(fd int, base string) error { return unix.Symlinkat(to, fd, base) })
}

// statAt describes what is at a path.
func statAt(top, name string) (st unix.Stat_t, err error) {
	err = at(top, name, func(fd int, base string) error { return unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, err
}

// removeEmpty removes a folder if it is empty.
func removeEmpty(top, name string) error {
	return at(top, name, func(fd int, base string) error { return unix.Unlinkat(fd, base, unix.AT_REMOVEDIR) })
}

// ours reports whether a file is of this user.
func ours(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
