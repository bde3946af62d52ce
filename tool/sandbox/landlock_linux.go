//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// leastABI is the oldest useful version of Landlock: earlier ones do not prevent truncating files.
const leastABI = 3

// Rights of Landlock.
const (
	llRead     = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	llReadTree = llRead | unix.LANDLOCK_ACCESS_FS_READ_DIR
	llWrite    = llRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	llTree     = llReadTree | llWrite | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_REFER
	llAll = llTree | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK
)

const firstExtra = 3 // the number of the first of ExtraFiles

const ruleNetPort = 2 // LANDLOCK_RULE_NET_PORT

// landlockABI returns the version of Landlock that the system has, 0 for none.
func landlockABI() int {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(n)
}

func probeLandlock(s *Sandbox) (string, error) {
	abi := landlockABI()
	switch {
	case abi == 0:
		return "", errors.New("the system has no Landlock, or it is turned off")
	case abi < leastABI:
		return "", fmt.Errorf("the system has ABI %d, and %d is the oldest that is of use", abi, leastABI)
	}
	s.shared.mode = Landlock
	return "ABI " + strconv.Itoa(abi), s.probe()
}

// landlocked returns a child that Landlock restricts.
func (c *Cmd) landlocked(found finding) (*child, error) {
	s := c.s
	policy := s.policy()
	k := &child{ruleset: -1}
	abi := landlockABI()
	rule, port, proxyURL := socketsNone, 0, ""
	switch {
	case policy.anyNetwork():
		rule = socketsFree
	default:
		// A proxy would also report refusals if no host is allowed, but then no command could reach
		// it.
		if len(policy.Network) == 0 {
			break
		}
		if abi < 4 {
			return nil, fmt.Errorf("hosts can be allowed from Landlock ABI 4 on, and this system has %d; allow the network as it is, net(*), or none", abi)
		}
		var err error
		if port, err = c.listen(policy.Network); err != nil {
			return nil, err
		}
		rule, proxyURL = socketsStream, c.own.url()
	}
	ruleset, gate, err := c.ruleset(abi, found, policy, port)
	if err != nil {
		return nil, err
	}
	defer ruleset.Close()
	// Not where the files of the command will be.
	fd, err := unix.FcntlInt(ruleset.Fd(), unix.F_DUPFD_CLOEXEC, firstExtra+len(c.ExtraFiles))
	if err != nil {
		return nil, err
	}
	k.keep = append(k.keep, os.NewFile(uintptr(fd), "landlock"))
	k.ruleset, k.gate = fd, gate
	k.separate()
	if abi >= 6 {
		attr := unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_SIGNAL}
		scope, err := makeRuleset(&attr, unsafe.Offsetof(attr.Quiet_access_fs))
		if err != nil {
			return nil, err
		}
		k.keep = append(k.keep, scope)
		k.init, k.domain = true, true
		k.before(must, "be told when its parent dies", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(endAll), 0, 0, 0)
		k.before(must, "adopt what is left", unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
		k.before(must, "no new privileges", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		k.before(must, "restrict by landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, scope.Fd(), 0)
	}
	if err := k.lower(rule, firstExtra+len(c.ExtraFiles)); err != nil {
		return nil, err
	}
	c.env = s.environ(c.env, proxyURL)
	return k, nil
}

// ruleset lists the file access of the command, also for the gate.
func (c *Cmd) ruleset(abi int, found finding, policy Policy, port int) (*os.File, *gate, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: llAll}
	if abi >= 4 && !policy.anyNetwork() {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	size := unsafe.Offsetof(attr.Quiet_access_fs)
	if abi < 6 {
		size = unsafe.Offsetof(attr.Scoped)
	}
	if abi < 4 {
		size = unsafe.Offsetof(attr.Handled_access_net)
	}
	ruleset, err := makeRuleset(&attr, size)
	if err != nil {
		return nil, nil, err
	}
	fd := ruleset.Fd()
	r := rules{set: int(fd), hidden: map[string]bool{}, protected: map[string]bool{}, split: map[string]bool{}}
	l := c.layout()
	for _, name := range slices.Concat(l.hide, found.hidden, found.secrets, []string{c.s.shared.temp}) {
		r.hidden[name] = true
		r.around(&l, name)
	}
	for _, name := range c.protect {
		r.protected[name] = true
		r.around(&l, name)
	}
	if c.s.opt.Root != "" {
		r.split[c.s.opt.Root] = true // nothing new is made where it might be protected
	}
	for _, name := range l.sorted() {
		r.tree(name, l.trees[name])
	}
	temp := c.s.own(tempFiles)
	r.add(temp, llTree)
	for _, name := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"} {
		r.add(name, llWrite)
	}
	r.add("/proc", llReadTree)
	if port != 0 && r.err == nil {
		p := struct{ access, port uint64 }{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, uint64(port)} //nolint:gosec // a port
		if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, ruleNetPort, uintptr(unsafe.Pointer(&p)), 0, 0, 0); errno != 0 {
			r.err = fmt.Errorf("allow the port of the proxy: %w", errno)
		}
	}
	if r.err != nil {
		ruleset.Close()
		return nil, nil, r.err
	}
	return ruleset, &gate{port: port, trees: l.trees, hidden: r.hidden, protected: r.protected, temp: temp, changes: changes()}, nil
}

func makeRuleset(attr *unix.LandlockRulesetAttr, size uintptr) (*os.File, error) {
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(attr)), size, 0)
	if errno != 0 {
		return nil, fmt.Errorf("make a ruleset of Landlock: %w", errno)
	}
	return os.NewFile(fd, "landlock"), nil
}

// rules adds rules to a set. Landlock grants whole trees and cannot exclude a part of one. So a
// folder with an excluded entry is split: its other entries are granted separately, and nothing new
// can be created in the folder.
type rules struct {
	set               int
	hidden, protected map[string]bool
	split             map[string]bool
	err               error
}

// around splits the folders around a path up to the tree that holds it.
func (r *rules) around(l *layout, name string) {
	if !l.holds(name) {
		return
	}
	for dir := filepath.Dir(name); l.holds(dir); dir = filepath.Dir(dir) {
		r.split[dir] = true
		if dir == filepath.Dir(dir) {
			return
		}
	}
}

func (r *rules) tree(name string, write bool) {
	if r.hidden[name] || r.err != nil {
		return
	}
	if r.protected[name] {
		write = false
	}
	if !r.split[name] {
		if write {
			r.add(name, llTree)
		} else {
			r.add(name, llReadTree)
		}
		return
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return // gone, or closed to the command, too
	}
	r.add(name, unix.LANDLOCK_ACCESS_FS_READ_DIR)
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			r.tree(filepath.Join(name, e.Name()), write)
		}
	}
}

// add grants rights on a path. If it is not a folder, rights for folders are left out. A path
// through a link, which may have been created meanwhile, grants nothing.
func (r *rules) add(name string, access uint64) {
	if r.err != nil {
		return
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFSOCK, unix.S_IFLNK:
		return
	default:
		access &= llWrite
	}
	if access == 0 {
		return
	}
	p := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)} //nolint:gosec // a descriptor
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.set), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&p)),
		0, 0, 0); errno != 0 {
		r.err = fmt.Errorf("grant %s by Landlock: %w", name, errno)
	}
}
