package file

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A shim is a disk that remembers what of it would survive a loss of power: the pages
// and sizes of files as of their last sync, and names as of the last sync of their
// directory. A sync that fails loses the pages, as Linux does: it takes them for clean.
// The real files below hold what processes see.
type shim struct {
	realDisk
	root string

	mu    sync.Mutex
	top   *node
	room  int64 // bytes that files may still grow by; negative for no limit
	syncs int   // how many there were, those of directories included
	hook  func(op, path string) error
	late  bool // a sync that fails has stored everything all the same
}

// A node is a file or a directory.
type node struct {
	dir          bool
	live, stable map[string]*node
	cur, synced  []byte
	dirty        map[int]bool
}

const page = 512

func newShim(root string) *shim {
	return &shim{root: root, top: newDir(), room: -1}
}

func newDir() *node {
	return &node{dir: true, live: map[string]*node{}, stable: map[string]*node{}}
}

func (d *shim) names(path string) []string {
	rel, err := filepath.Rel(d.root, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		return nil
	}
	if rel == "." {
		return []string{}
	}
	return strings.Split(filepath.ToSlash(rel), "/")
}

// find returns the directory that path is in, and the name there.
func (d *shim) find(path string) (*node, string) {
	names := d.names(path)
	at := d.top
	for _, name := range names[:len(names)-1] {
		if at.live[name] == nil {
			at.live[name] = newDir()
		}
		at = at.live[name]
	}
	return at, names[len(names)-1]
}

// watch sets a function that is asked before each access; its error is that of the access.
func (d *shim) watch(hook func(op, path string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hook = hook
}

func (d *shim) ask(op, path string) error {
	if d.hook == nil {
		return nil
	}
	return d.hook(op, path)
}

func (d *shim) open(path string, flag int) (tape, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ask("open", path); err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f, err := d.realDisk.open(path, flag)
	if err != nil {
		return nil, err
	}
	dir, name := d.find(path)
	n := dir.live[name]
	if n == nil {
		n = &node{dirty: map[int]bool{}}
		dir.live[name] = n
	}
	if flag&os.O_TRUNC != 0 {
		n.cur = nil
	}
	return &shimFile{f, d, n, path}, nil
}

func (d *shim) rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ask("rename", from); err != nil {
		return &fs.PathError{Op: "rename", Path: from, Err: err}
	}
	if err := d.realDisk.rename(from, to); err != nil {
		return err
	}
	dir, name := d.find(from)
	n := dir.live[name]
	delete(dir.live, name)
	dir, name = d.find(to)
	dir.live[name] = n
	return nil
}

func (d *shim) link(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ask("link", from); err != nil {
		return &fs.PathError{Op: "link", Path: from, Err: err}
	}
	if err := d.realDisk.link(from, to); err != nil {
		return err
	}
	dir, name := d.find(from)
	n := dir.live[name]
	dir, name = d.find(to)
	dir.live[name] = n
	return nil
}

func (d *shim) remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ask("remove", path); err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	if err := d.realDisk.remove(path); err != nil {
		return err
	}
	dir, name := d.find(path)
	delete(dir.live, name)
	return nil
}

func (d *shim) syncDir(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs++
	if err := d.ask("sync", path); err != nil {
		return &fs.PathError{Op: "fsync", Path: path, Err: err}
	}
	names := d.names(path)
	if names == nil {
		return nil
	}
	at := d.top
	for _, name := range names {
		if at.live[name] == nil {
			at.live[name] = newDir()
		}
		at = at.live[name]
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries { // folders are not made through the disk
		if e.IsDir() && at.live[e.Name()] == nil {
			at.live[e.Name()] = newDir()
		}
	}
	at.stable = map[string]*node{}
	for name, n := range at.live {
		at.stable[name] = n
	}
	return nil
}

type shimFile struct {
	tape
	d    *shim
	n    *node
	path string
}

func (f *shimFile) WriteAt(b []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	err := f.d.ask("write", f.path)
	if err != nil {
		b = b[:len(b)/2]
	}
	if grown := at + int64(len(b)) - int64(len(f.n.cur)); f.d.room >= 0 && grown > 0 {
		if grown > f.d.room {
			b = b[:max(0, int64(len(b))-(grown-f.d.room))]
			err = syscall.ENOSPC
			f.d.room = 0
		} else {
			f.d.room -= grown
		}
	}
	n, werr := f.tape.WriteAt(b, at)
	if werr != nil {
		return n, werr
	}
	if end := int(at) + len(b); end > len(f.n.cur) {
		f.n.cur = append(f.n.cur, make([]byte, end-len(f.n.cur))...)
	}
	copy(f.n.cur[at:], b)
	for p := int(at) / page; p*page < int(at)+len(b); p++ {
		f.n.dirty[p] = true
	}
	if err != nil {
		return n, &fs.PathError{Op: "write", Path: f.path, Err: err}
	}
	return n, nil
}

func (f *shimFile) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.ask("truncate", f.path); err != nil {
		return &fs.PathError{Op: "truncate", Path: f.path, Err: err}
	}
	if err := f.tape.Truncate(size); err != nil {
		return err
	}
	if freed := int64(len(f.n.cur)) - size; f.d.room >= 0 && freed > 0 {
		f.d.room += freed
	}
	f.n.cur = append(f.n.cur[:min(int(size), len(f.n.cur))], make([]byte, max(0, int(size)-len(f.n.cur)))...)
	return nil
}

func (f *shimFile) sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.syncs++
	err := f.d.ask("sync", f.path)
	if err != nil {
		err = &fs.PathError{Op: "fdatasync", Path: f.path, Err: err}
	}
	if err != nil && !f.d.late {
		f.n.dirty = map[int]bool{}
		return err
	}
	was := f.n.synced
	f.n.synced = make([]byte, len(f.n.cur))
	copy(f.n.synced, was)
	for p := range f.n.dirty {
		if p*page < len(f.n.cur) {
			end := min((p+1)*page, len(f.n.cur))
			copy(f.n.synced[p*page:end], f.n.cur[p*page:end])
		}
	}
	f.n.dirty = map[int]bool{}
	return err
}

// cut writes to dir what a loss of power leaves: all that is stable, and any of the rest.
// With a nil source of chance nothing of the rest.
func (d *shim) cut(t testing.TB, dir string, rnd *rand.Rand) {
	t.Helper()
	if err := errors.Join(d.keep(d.top, dir, rnd), d.keepHolds(dir, rnd)); err != nil {
		t.Fatal(err)
	}
}

func (d *shim) keep(n *node, path string, rnd *rand.Rand) error {
	if !n.dir {
		return os.WriteFile(path, n.remains(rnd), 0o600)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	names := map[string]bool{}
	for name := range n.live {
		names[name] = true
	}
	for name := range n.stable {
		names[name] = true
	}
	for _, name := range sorted(names) {
		child := n.stable[name]
		if live := n.live[name]; live != child && rnd != nil && rnd.IntN(2) == 0 {
			child = live
		}
		if child == nil {
			continue
		}
		if err := d.keep(child, filepath.Join(path, name), rnd); err != nil {
			return err
		}
	}
	return nil
}

func sorted(set map[string]bool) (names []string) {
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// remains is a file's content after the loss of power: of the pages that were not
// synced any may have been stored, and so may the size.
func (n *node) remains(rnd *rand.Rand) []byte {
	b := slices.Clone(n.synced)
	if rnd == nil || len(n.dirty) == 0 && len(n.cur) == len(b) {
		return b
	}
	if rnd.IntN(2) == 0 {
		b = append(b, make([]byte, max(0, len(n.cur)-len(b)))...)
		b = b[:len(n.cur)]
	}
	for p := range n.dirty {
		if rnd.IntN(2) == 0 && p*page < min(len(b), len(n.cur)) {
			copy(b[p*page:], n.cur[p*page:min((p+1)*page, len(n.cur))])
		}
	}
	return b
}

// keepHolds does with the files that are never synced what may happen to them.
func (d *shim) keepHolds(dir string, rnd *rand.Rand) error {
	runs, err := os.ReadDir(filepath.Join(dir, "runs"))
	if err != nil || rnd == nil {
		return nil //nolint:nilerr // there is none
	}
	for _, run := range runs {
		b, err := os.ReadFile(filepath.Join(d.root, "runs", run.Name(), holdName))
		if err != nil {
			continue
		}
		switch rnd.IntN(4) {
		case 0:
			continue
		case 1:
			b = b[:rnd.IntN(len(b)+1)]
		case 2:
			clear(b[rnd.IntN(len(b)):])
		}
		if err := os.WriteFile(filepath.Join(dir, "runs", run.Name(), holdName), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}
