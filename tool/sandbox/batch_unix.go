//go:build linux || darwin

package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A batch is what commands of one project have in common that run at the same time, in whatever processes of Superstep: what had been there when
// the first of them started. So none can hide what it makes behind another that started later.
type batch struct {
	Began  time.Time         // when that was; zero if none runs
	Known  []string          `json:",omitempty"` // protected files that were there then
	Links  map[string]string `json:",omitempty"` // those of them that are symbolic links, with what they held
	Heads  []string          `json:",omitempty"` // what repositories were there, by what makes them some
	Kept   []string          `json:",omitempty"` // files that Superstep's own tools wrote since
	Masks  []string          `json:",omitempty"` // empty folders that were made to be mounted over
	Closed []string          `json:",omitempty"` // protected files that commands made and that could not be moved aside; it outlasts the batch
}

// A turn is the part of one command in a batch.
type turn struct {
	files   batchFiles
	running *os.File // locked shared as long as the command runs
}

// batchFiles are the files of the batches of a project. Gate is locked while one begins or ends.
type batchFiles struct{ root, gate, running, state string }

// batchFiles returns where the batch of this view is kept: in the cache of the project, which all processes share, else in the
// temporary folder.
func (s *Sandbox) batchFiles() batchFiles {
	dir, name := s.shared.temp, digest(s.opt.Root)
	if s.opt.Cache != "" {
		dir = s.opt.Cache
	}
	at := func(end string) string { return filepath.Join(dir, "running-"+name+end) }
	return batchFiles{s.opt.Root, at(".gate"), at(".lock"), at(".json")}
}

func lockFile(name string, how int) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), how) //nolint:gosec // a descriptor
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// change changes the state of the batch, which is read and written under its lock. Alone says that no command runs: f then ends the batch.
func (b batchFiles) change(running *os.File, f func(now *batch, alone bool) error) (err error) {
	gate, err := lockFile(b.gate, unix.LOCK_EX)
	if err != nil {
		return fmt.Errorf("lock the state of running commands: %w", err)
	}
	defer gate.Close()
	alone := false
	if running != nil {
		alone = unix.Flock(int(running.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil //nolint:gosec // a descriptor
	}
	var now batch
	text, err := os.ReadFile(b.state)
	if err == nil {
		_ = json.Unmarshal(text, &now) // what cannot be read is none
	}
	if alone { // also after those that were killed
		for _, name := range slices.Backward(now.Masks) {
			_ = removeEmpty(b.root, name) // unless somebody has put something in it
		}
		now.Masks = nil
	}
	now.Closed = existing(now.Closed)
	err = f(&now, alone)
	if changed, inner := json.Marshal(now); inner != nil {
		err = errors.Join(err, inner)
	} else if !bytes.Equal(changed, text) {
		err = errors.Join(err, b.write(changed))
	}
	return err
}

func (b batchFiles) write(text []byte) error {
	if err := os.WriteFile(b.state+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(b.state+".new", b.state)
}

// begin looks for what the command must not read or write, and joins the batch.
func (c *Cmd) begin() (finding, error) {
	s := c.s
	if s.opt.Root == "" || s.reads {
		found, err := s.look(nil)
		c.remember(found, found.protected, nil, linksOf(found.protected))
		return found, err
	}
	if s.opt.Cache != "" {
		if err := os.MkdirAll(s.opt.Cache, 0o700); err != nil {
			return finding{}, fmt.Errorf("the state of running commands: %w", err)
		}
	}
	t := &turn{files: s.batchFiles()}
	var err error
	if t.running, err = os.OpenFile(t.files.running, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600); err != nil {
		return finding{}, fmt.Errorf("the state of running commands: %w", err)
	}
	var found finding
	err = t.files.change(t.running, func(now *batch, alone bool) (err error) {
		if len(now.Closed) > 0 {
			return &ClosedError{Folder: s.opt.Root, Paths: now.Closed, Why: "an earlier command"}
		}
		if err := s.afterKill(t.running, now, alone); err != nil {
			return err
		}
		if found, err = s.look(nil); err != nil {
			return err
		}
		notMask := func(name string) bool { return !slices.Contains(now.Masks, name) }
		found.protected = keep(found.protected, notMask)
		if alone || now.Began.IsZero() {
			now.Began, now.Known, now.Heads, now.Kept = time.Now().Add(-settled), existing(found.protected), found.heads, nil
			now.Links = linksOf(now.Known)
		}
		t.beat()
		found.heads = now.Heads
		c.remember(found, now.Known, now.Kept, now.Links)
		if s.Mode() == Namespaces {
			c.mask(now, found)
			if err := c.makeMasks(t.files, now); err != nil {
				return err
			}
		}
		return unix.Flock(int(t.running.Fd()), unix.LOCK_SH) //nolint:gosec // a descriptor
	})
	if err != nil {
		return finding{}, errors.Join(err, t.running.Close())
	}
	c.turn = t
	return found, nil
}

// leave ends the part of a command in its batch. Closed are files that could not be moved aside.
func (c *Cmd) leave(closed []string) error {
	t := c.turn
	if t == nil {
		return nil
	}
	c.turn = nil
	err := t.files.change(t.running, func(now *batch, alone bool) error {
		if alone {
			now.end()
		}
		now.Closed = slices.Compact(slices.Sorted(slices.Values(append(now.Closed, closed...))))
		return unix.Flock(int(t.running.Fd()), unix.LOCK_UN) //nolint:gosec // a descriptor; before the next one may begin
	})
	return errors.Join(err, t.running.Close())
}

// kept returns the files that Superstep's own tools have written by now.
func (t *turn) kept() []string {
	var now batch
	if text, err := os.ReadFile(t.files.state); err == nil {
		_ = json.Unmarshal(text, &now) // it is replaced as a whole
	}
	return now.Kept
}

// keepFile notes a file that Superstep itself writes in the batch.
func (s *Sandbox) keepFile(path string) {
	dir := path
	for s.opt.Protect != nil && within(s.opt.Root, dir) && dir != s.opt.Root && !s.opt.Protect(dir) {
		dir = filepath.Dir(dir)
	}
	if s.opt.Protect == nil || dir == s.opt.Root || !within(s.opt.Root, dir) || s.opt.Root == "" {
		return
	}
	b := s.batchFiles()
	if _, err := os.Stat(b.state); err != nil {
		return // no command has run
	}
	_ = b.change(nil, func(now *batch, _ bool) error { // a failure has the file moved aside, which is said
		now.Kept = append(now.Kept, path)
		return nil
	})
}

// mostMasks bounds the mounts over what is missing.
const mostMasks = 200

// mask plans mounts over protected names that are missing at the top of the project and in folders that hold a repository.
func (c *Cmd) mask(now *batch, found finding) {
	s := c.s
	c.masks = map[string]fileID{}
	places := slices.Compact(append([]string{s.opt.Root}, keep(found.repos, func(dir string) bool { return within(s.opt.Root, dir) && dir != s.opt.Root })...))
	closed := func(dir string) bool {
		return slices.ContainsFunc(found.hidden, func(h string) bool { return within(h, dir) })
	}
	for _, dir := range places {
		if len(dir) > longest || closed(dir) || s.opt.Protect != nil && dir != s.opt.Root && s.opt.Protect(dir) {
			continue
		}
		var names []string
		for _, name := range s.opt.Masks {
			names = append(names, filepath.Join(dir, name))
		}
		if info, err := os.Lstat(filepath.Join(dir, ".git")); err == nil && info.IsDir() {
			names = append(names, filepath.Join(dir, ".git", "hooks"))
		}
		for _, name := range names {
			_, err := os.Lstat(name)
			if ours := slices.Contains(now.Masks, name); len(c.masks) < mostMasks && (ours || errors.Is(err, fs.ErrNotExist)) {
				if !ours {
					now.Masks = append(now.Masks, name)
				}
				c.masks[name] = fileID{}
			}
		}
	}
}

// makeMasks makes the folders that are mounted over.
func (c *Cmd) makeMasks(files batchFiles, now *batch) error {
	text, err := json.Marshal(now) // so that they are removed after a kill
	if err == nil {
		err = files.write(text)
	}
	if err != nil || len(c.masks) == 0 {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.masks)) {
		if err := os.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // an empty folder
			if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
				delete(c.masks, name) // nor can the command make it
				continue
			}
			return err
		}
		st, err := statAt(files.root, name)
		if err != nil {
			return err
		}
		c.masks[name] = identityOf(&st)
	}
	return nil
}

// masked reports whether a file is a folder that was mounted over for the command, so that it has not made it.
func (c *Cmd) masked(name string) bool {
	was, ok := c.masks[name]
	if !ok {
		return false
	}
	st, err := statAt(c.s.opt.Root, name)
	return err == nil && identityOf(&st) == was
}

func (b *batch) end() { *b = batch{Masks: b.Masks, Closed: b.Closed} }

// beat notes, by the time of a file, that a command runs.
func (t *turn) beat() {
	if t != nil {
		_ = os.Chtimes(t.files.running, time.Time{}, time.Now()) // else what it makes is taken for the user's after a kill
	}
}

// afterKill moves aside what the commands of a batch have made and is protected, if Superstep was killed while they ran. What was changed
// later is the user's.
func (s *Sandbox) afterKill(running *os.File, now *batch, alone bool) error {
	info, err := running.Stat()
	if err != nil || !alone || now.Began.IsZero() {
		return err
	}
	c := &Cmd{s: s}
	c.remember(finding{heads: now.Heads}, now.Known, now.Kept, now.Links)
	users := func(name string) bool { // what a look has opened has changed by that
		st, err := statAt(s.top(name), name)
		changed := timeOf(&st)
		return err == nil && (st.Mode&unix.S_IFMT != unix.S_IFDIR || listable(&st)) && (changed.Before(now.Began) || changed.After(info.ModTime().Add(2*beats)))
	}
	for again := true; again; { // what a link of the user's leads to is found once it is known to be the user's
		found, err := s.look(c)
		if err != nil {
			return &ClosedError{Folder: s.opt.Root, Why: err.Error()}
		}
		again = false
		for _, name := range found.protected {
			if !c.known(name) && users(name) {
				c.before[name], again = true, true
				delete(c.links, name)
			}
		}
	}
	maps.DeleteFunc(c.links, func(name, _ string) bool { return len(existing([]string{name})) == 0 && users(filepath.Dir(name)) })
	if now.Closed, err = c.settle(); err == nil {
		now.end()
	}
	for _, said := range c.Refusals() {
		if s.opt.Warn != nil {
			s.opt.Warn("sandbox: Superstep was killed while a command ran: " + said)
		}
	}
	return err
}

// unmask removes what a killed process has left of its masks, and what its commands have made and is protected.
func (s *Sandbox) unmask() {
	b := s.batchFiles()
	if _, err := os.Stat(b.state); err != nil || s.opt.Root == "" {
		return
	}
	if running, err := os.OpenFile(b.running, os.O_RDWR|unix.O_NOFOLLOW, 0); err == nil {
		_ = b.change(running, func(now *batch, alone bool) error { // if it fails, the next command tries again
			return s.afterKill(running, now, alone)
		})
		_ = running.Close()
	}
}
