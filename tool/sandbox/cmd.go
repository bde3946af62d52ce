package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
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
	turn    *turn                // its part in the batch, nil for none
	before  map[string]bool      // what is protected and is not its work
	heads   map[string]bool      // of repositories, that are not its work
	protect []string             // what is protected and existed when it started
	links   map[string]string    // those of them that are symbolic links, with what they held
	shut    map[string]bool      // folders that could not be listed when it started
	masks   map[string]fileID    // empty folders that are mounted over
	indexes map[string][]byte    // of Git, as they were
	own     *proxy               // serves this command alone
	gate    interface{ close() } // to the proxy, under Landlock

	end os.Signal // tells its init to end all, without a process namespace

	mu     sync.Mutex
	notes  []string
	closed error // why the sandbox refuses further commands
	told   int   // of the refused hosts, those that Missing has told of
}

// Start starts the command. Call Wait when it has returned nil.
func (c *Cmd) Start() error {
	if err := c.ctx.Err(); err != nil {
		return context.Cause(c.ctx)
	}
	if c.s.Mode() == None {
		return c.startPlain(c.path, c.args)
	}
	c.s.shared.mu.Lock()
	err := c.s.shared.refuses
	c.s.shared.mu.Unlock()
	if err != nil {
		return err
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
		return cmp.Or(c.closed, err)
	}
	state, err := c.Process.Wait()
	close(c.ended)
	<-c.watched
	if c.s.Mode() != Namespaces && c.end == nil { // or all ended with their init
		procgroup.Sweep(c.Process, c.env)
	}
	c.ProcessState = state
	c.finish()
	if err := cmp.Or(c.closed, err); err != nil {
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
	if ends(c, c.ctx.Done()) {
		return
	}
	procgroup.Terminate(c.Process)
	if ends(c, time.After(procgroup.Grace)) {
		return
	}
	if c.end != nil { // it ends those that have left the group, too
		_ = c.Process.Signal(c.end)
		if ends(c, time.After(procgroup.Grace)) {
			return
		}
	}
	procgroup.Kill(c.Process)
}

// beats is how often it is noted that a command runs.
const beats = time.Second

// ends waits for the end of a command, and reports whether that came before something else did.
func ends[T any](c *Cmd, other <-chan T) bool {
	beat := time.NewTicker(beats)
	defer beat.Stop()
	for {
		select {
		case <-c.ended:
			return true
		case <-other:
			return false
		case <-beat.C:
			c.turn.beat()
		}
	}
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
	closed, err := c.settle()
	if inner := c.leave(closed); inner != nil {
		err = errors.Join(err, fmt.Errorf("sandbox: %w", inner))
	}
	if err != nil {
		c.s.shared.mu.Lock()
		c.s.shared.refuses = err
		c.s.shared.mu.Unlock()
		c.closed = err
		if c.s.opt.Warn != nil {
			c.s.opt.Warn(err.Error())
		}
	}
}

// settle moves aside what the command has made and is protected. It returns what stays in place nevertheless.
func (c *Cmd) settle() (closed []string, err error) {
	var repos []string
	for range 3 { // what was moved meanwhile is found at the next look
		found, err := c.s.look(c)
		if err != nil {
			return nil, &ClosedError{Folder: c.s.opt.Root, Why: err.Error()}
		}
		var why error
		closed, why, repos = nil, nil, found.repos
		gone := false
		for _, name := range slices.Backward(existing(found.protected)) { // what is in a folder before it
			if c.innocent(name) {
				continue
			}
			if c.s.reads { // what lasts as long as a session cannot be told from what the user made meanwhile
				c.note(fmt.Sprintf("%s, which is protected, was made while it ran", c.s.relative(name)))
				continue
			}
			moved, err := c.s.aside(name)
			if errors.Is(err, fs.ErrNotExist) { // or it is elsewhere by now
				gone = true
				continue
			}
			if err != nil {
				closed, why = append(closed, name), err
				continue
			}
			c.note(fmt.Sprintf("it made %s, which is protected; it was moved to %s", c.s.relative(name), c.s.relative(moved)))
		}
		if why == nil && !gone {
			break
		}
		if why == nil {
			continue
		}
		err = &ClosedError{Folder: c.s.opt.Root, Paths: closed, Why: why.Error()}
		c.closed = err
	}
	if len(closed) > 0 {
		return closed, c.closed
	}
	c.closed = nil
	for _, dir := range repos {
		if !c.s.reads {
			c.note(heal(filepath.Join(dir, ".git", "index"), c.indexes[dir])...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.links)) { // a link cannot be kept in place
		if err := c.s.restore(name, c.links[name]); err != nil {
			c.note(fmt.Sprintf("it took away %s, which is protected, and it cannot be made again: %v", c.s.relative(name), err))
		}
	}
	return nil, nil
}

// innocent reports whether a protected file is none that the command made.
func (c *Cmd) innocent(name string) bool {
	return c.known(name) || c.masked(name) || c.s.keeps(name) || gitKeeps(name) ||
		c.turn != nil && slices.ContainsFunc(c.turn.kept(), func(path string) bool { return within(name, path) })
}

// known reports whether a path was there before the command, by itself or in a folder that is protected as a whole, or no command may write it.
func (c *Cmd) known(name string) bool {
	top := c.s.top(name)
	if top == "" || c.heads[name] {
		return true
	}
	for at := name; at != top; at = filepath.Dir(at) {
		to, link := c.links[at]
		if now, err := os.Readlink(at); c.before[at] && (!link || err == nil && now == to) {
			return true
		}
	}
	return false
}

// A ClosedError says that a sandbox refuses all further commands, since something that decides what runs later, or what agents may do, could
// not be kept from one.
type ClosedError struct {
	Folder string   // of the project
	Paths  []string // what a command made and that could not be moved aside, nil if the folder could not be looked through
	Why    string
}

func (e *ClosedError) Error() string {
	if len(e.Paths) == 0 {
		return fmt.Sprintf("sandbox: no more commands are run in %s, since it cannot be told what a command left there: %s; look through what is new in it, "+
			"remove what no command should have made, and start again", e.Folder, e.Why)
	}
	remove := ""
	for _, name := range e.Paths[:min(len(e.Paths), 5)] {
		remove += " " + shellQuote(name)
	}
	return fmt.Sprintf("sandbox: no more commands are run in %s: a command made %s, which is protected, and it could not be moved aside (%s); unless you made it "+
		"yourself, remove it: rm -r --%s", e.Folder, short(e.Paths[0]), e.Why, remove)
}

// Stops reports that the error is about the whole run and not about one call.
func (e *ClosedError) Stops() bool { return true }

// remember notes the protected files before the command starts: those that were found, and those that are known to be nobody's work, with the links of them.
func (c *Cmd) remember(found finding, known, kept []string, links map[string]string) {
	c.protect, c.links = existing(found.protected), links
	c.before, c.heads, c.shut = map[string]bool{}, map[string]bool{}, map[string]bool{}
	if !c.s.reads {
		c.indexes = map[string][]byte{}
		for _, dir := range found.repos {
			c.indexes[dir], _ = os.ReadFile(filepath.Join(dir, ".git", "index")) // none is an empty one
		}
	}
	for _, name := range slices.Concat(known, kept) {
		c.before[name] = true
	}
	for _, name := range found.heads {
		c.heads[name] = true
	}
	for _, name := range found.closed {
		c.shut[name] = true
	}
}

// linksOf returns the symbolic links among paths, with what they hold.
func linksOf(all []string) map[string]string {
	links := map[string]string{}
	for _, name := range all {
		if to, err := os.Readlink(name); err == nil {
			links[name] = to
		}
	}
	return links
}

// top returns the folder that commands may write and that holds a path.
func (s *Sandbox) top(name string) string {
	for _, top := range s.writable() {
		if within(top, name) && top != name {
			return top
		}
	}
	return ""
}

// refusedName returns the name of what is moved aside. Nobody can have taken it before.
func refusedName(base string) string {
	end := ".refused-" + strings.ToLower(rand.Text()[:10])
	return strings.ToValidUTF8(base[:min(len(base), 200)], "") + end
}

// aside renames a file that the command was not allowed to create.
func (s *Sandbox) aside(name string) (string, error) {
	return moveAside(s.top(name), name)
}

// restore recreates a symbolic link that a command has removed.
func (s *Sandbox) restore(name, to string) error {
	if _, err := os.Lstat(name); err == nil {
		return nil
	}
	return linkAt(s.top(name), name, to)
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

// look finds the hidden and protected files in the folders that commands may write, and those that an earlier look has found and
// that are still there. After is the command that has ended, nil before one starts.
func (s *Sandbox) look(after *Cmd) (finding, error) {
	sh := s.shared
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var all finding
	tops := s.writable()
	for _, top := range tops {
		sc := sh.scans[top]
		if sc == nil {
			sc = &scanner{}
			sh.scans[top] = sc
		}
		l := looker{hide: s.opt.Hide, protect: s.opt.Protect, home: s.opt.Home, environ: s.opt.Environ, tops: tops}
		if after != nil {
			l.open, l.skip, l.known = true, after.shut, after.known
		}
		f, err := sc.find(top, l)
		if err != nil {
			return finding{}, err
		}
		all.hidden, all.protected = append(all.hidden, f.hidden...), append(all.protected, f.protected...)
		all.closed, all.repos, all.secrets = append(all.closed, f.closed...), append(all.repos, f.repos...), append(all.secrets, f.secrets...)
		all.heads = append(all.heads, f.heads...)
	}
	if after == nil {
		sh.hidden = grow(sh.hidden, &all.hidden, all.closed, tops)
		sh.protected = grow(sh.protected, &all.protected, nil, tops)
	}
	return all, nil
}

// grow adds to a list what was in earlier ones and still exists, and returns all that was ever found but for the exceptions.
func grow(ever map[string]bool, now *[]string, except, tops []string) map[string]bool {
	if ever == nil {
		ever = map[string]bool{}
	}
	has := map[string]bool{}
	for _, name := range *now {
		has[name] = true
	}
	for name := range ever {
		_, err := os.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			delete(ever, name)
		case !has[name] && slices.ContainsFunc(tops, func(top string) bool { return within(top, name) }):
			*now = append(*now, name)
		}
	}
	for name := range has {
		ever[name] = true
	}
	for _, name := range except {
		delete(ever, name)
	}
	slices.Sort(*now)
	return ever
}
