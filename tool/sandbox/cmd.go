package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/internal/procgroup"
)

// A Cmd is a command to start. Set its fields before Start.
type Cmd struct {
	Dir                   string     // where it starts; with a Sandbox it must be a folder that it may read
	Stdin, Stdout, Stderr *os.File   // nil is an empty input, and output that is dropped
	ExtraFiles            []*os.File // its descriptors from 3 on

	Process      *os.Process      // set by Start; in namespaces, the init of the command's own
	ProcessState *os.ProcessState // set by Wait

	ctx  context.Context //nolint:containedctx // of this one command, as in os/exec
	s    *Sandbox
	env  []string
	path string
	args []string

	plain   *exec.Cmd // if it is started by os/exec
	ended   chan struct{}
	watched chan struct{}
	before  []string             // what was protected and existed when it started
	links   map[string]string    // those of them that are symbolic links, with what they held
	own     *proxy               // serves this command alone
	gate    interface{ close() } // to the proxy, under Landlock

	end os.Signal // tells its init to end all, without a process namespace

	mu    sync.Mutex
	notes []string
	told  int // of the refused hosts, those that Missing has told of
}

// Start starts the command. Call Wait when it has returned nil.
func (c *Cmd) Start() error {
	if err := c.ctx.Err(); err != nil {
		return context.Cause(c.ctx)
	}
	if c.s.Mode() == None {
		return c.startPlain(c.path, c.args)
	}
	return c.confined()
}

// startPlain starts it by os/exec.
func (c *Cmd) startPlain(path string, args []string) error {
	c.plain = procgroup.Command(c.ctx, c.env, path, args...)
	c.plain.Dir, c.plain.ExtraFiles = c.Dir, c.ExtraFiles
	// A nil *os.File is not a nil reader.
	if c.Stdin != nil {
		c.plain.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		c.plain.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		c.plain.Stderr = c.Stderr
	}
	err := c.plain.Start()
	c.Process = c.plain.Process
	return err
}

// Wait waits until the command and all processes that it started have ended. A failure of the
// command is an *exec.ExitError. If the command had an init and was ended by a signal, the exit
// code is 128 plus the signal number.
func (c *Cmd) Wait() error {
	if c.plain != nil {
		err := c.plain.Wait()
		c.ProcessState = c.plain.ProcessState
		procgroup.Sweep(c.plain.Process, c.plain.Env)
		c.finish()
		return err
	}
	state, err := c.Process.Wait()
	close(c.ended)
	<-c.watched
	if c.s.Mode() != Namespaces && c.end == nil { // or all ended with their init
		procgroup.Sweep(c.Process, c.env)
	}
	c.ProcessState = state
	c.finish()
	if err != nil {
		return err
	}
	if !state.Success() {
		return &exec.ExitError{ProcessState: state}
	}
	return nil
}

// watch ends the group when the context ends.
func (c *Cmd) watch() {
	defer close(c.watched)
	select {
	case <-c.ended:
		return
	case <-c.ctx.Done():
	}
	procgroup.Terminate(c.Process)
	late := time.NewTimer(procgroup.Grace)
	defer late.Stop()
	select {
	case <-c.ended:
		return
	case <-late.C:
	}
	if c.end != nil { // it ends those that have left the group, too
		_ = c.Process.Signal(c.end)
		late.Reset(procgroup.Grace)
		select {
		case <-c.ended:
			return
		case <-late.C:
		}
	}
	procgroup.Kill(c.Process)
}

// finish checks the files that the command left.
func (c *Cmd) finish() {
	if c.s.Mode() == None {
		return
	}
	if c.gate != nil {
		c.gate.close()
	}
	if c.own != nil {
		c.note(c.own.refusals()...)
		_ = c.own.close()
	}
	found, err := c.s.look()
	if err != nil {
		c.note(err.Error())
		return
	}
	for _, name := range existing(found.protected) {
		to, link := c.links[name]
		if now, err := os.Readlink(name); slices.Contains(c.before, name) && (!link || err == nil && now == to) || c.s.keeps(name) || gitKeeps(name) {
			continue
		}
		if c.s.reads { // what lasts as long as a session cannot be told from what the user made meanwhile
			c.note(fmt.Sprintf("%s, which is protected, was made while it ran", c.s.relative(name)))
			continue
		}
		moved, err := c.s.aside(name)
		if err != nil {
			c.note(fmt.Sprintf("it made %s, which is protected, and it cannot be moved away: %v", name, err))
			continue
		}
		c.note(fmt.Sprintf("it made %s, which is protected; it was moved to %s", c.s.relative(name), c.s.relative(moved)))
	}
	for _, name := range slices.Sorted(maps.Keys(c.links)) { // a link cannot be kept in place
		if err := c.s.restore(name, c.links[name]); err != nil {
			c.note(fmt.Sprintf("it took away %s, which is protected, and it cannot be made again: %v", c.s.relative(name), err))
		}
	}
}

// remember notes the protected files before the command starts.
func (c *Cmd) remember(found finding) {
	c.before, c.links = existing(found.protected), map[string]string{}
	for _, name := range c.before {
		if to, err := os.Readlink(name); err == nil {
			c.links[name] = to
		}
	}
}

// parent opens the folder of a path below a writable folder, without a symbolic link on the way: a command that still runs may
// have put one there.
func (s *Sandbox) parent(name string) (*os.Root, error) {
	for _, top := range s.writable() {
		rel, err := filepath.Rel(top, filepath.Dir(name))
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		dir, err := os.OpenRoot(top)
		for _, part := range strings.Split(rel, string(filepath.Separator)) {
			if err != nil {
				return nil, err
			}
			dir, err = enter(dir, part)
		}
		return dir, err
	}
	return nil, fs.ErrNotExist
}

// enter opens a folder within another, which it closes.
func enter(dir *os.Root, name string) (*os.Root, error) {
	defer dir.Close()
	before, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	sub, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if now, err := sub.Stat("."); err != nil || !os.SameFile(before, now) {
		return nil, errors.Join(err, sub.Close(), fmt.Errorf("%s: it is a symbolic link", name))
	}
	return sub, nil
}

// aside renames a file that the command was not allowed to create.
func (s *Sandbox) aside(name string) (string, error) {
	dir, err := s.parent(name)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	for i := range 1000 {
		to := fmt.Sprintf("%s.refused-%d", name, i+1)
		if _, err := dir.Lstat(filepath.Base(to)); errors.Is(err, fs.ErrNotExist) {
			return to, dir.Rename(filepath.Base(name), filepath.Base(to))
		}
	}
	return "", errors.New("there are too many of its kind")
}

// restore recreates a symbolic link that a command has removed.
func (s *Sandbox) restore(name, to string) error {
	if _, err := os.Lstat(name); err == nil {
		return nil
	}
	dir, err := s.parent(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Symlink(to, filepath.Base(name))
}

func (s *Sandbox) relative(name string) string {
	if rel, err := filepath.Rel(s.opt.Root, name); err == nil && s.opt.Root != "" && filepath.IsLocal(rel) {
		return rel
	}
	return name
}

func (c *Cmd) note(all ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, all...)
}

// Refusals returns, after Wait, the known refusals of the sandbox, a sentence each: hosts that the
// command tried to reach, and protected files that it created.
func (c *Cmd) Refusals() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.notes)
}

// writable returns the folders that commands may write, except their caches.
func (s *Sandbox) writable() []string {
	var all []string
	if s.opt.Root != "" {
		all = append(all, s.opt.Root)
	}
	for _, name := range s.policy().Write {
		if real, err := filepath.EvalSymlinks(name); err == nil && real != "/" && !slices.ContainsFunc(all, func(top string) bool { return within(top, real) }) {
			all = append(all, real)
		}
	}
	return all
}

// look finds the hidden and protected files in the folders that commands may write.
func (s *Sandbox) look() (finding, error) {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	var all finding
	for _, top := range s.writable() {
		sc := s.shared.scans[top]
		if sc == nil {
			sc = &scanner{}
			s.shared.scans[top] = sc
		}
		f, err := sc.look(top, s.opt.Hide, s.opt.Protect)
		if err != nil {
			return finding{}, err
		}
		all.hidden = append(all.hidden, f.hidden...)
		all.protected = append(all.protected, f.protected...)
	}
	return all, nil
}
