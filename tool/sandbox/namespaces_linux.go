//go:build linux && (amd64 || arm64)

package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/superstep-dev/superstep/internal/procgroup"
)

func mechanisms() []mechanism {
	return []mechanism{{Namespaces, probeNamespaces}, {Landlock, probeLandlock}}
}

// probe starts a command that does nothing, to test the mechanism.
func (s *Sandbox) probe() error {
	trial := &Sandbox{opt: Options{Home: s.opt.Home, Environ: s.opt.Environ}, shared: s.shared}
	c := trial.Command(context.Background(), nil, "/bin/sh", "-c", ":")
	c.Dir = "/"
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

func probeNamespaces(s *Sandbox) (string, error) {
	s.shared.mode = Namespaces
	return "", s.probe()
}

// confined starts a command within bounds.
func (c *Cmd) confined() (err error) {
	defer func() {
		if err == nil {
			return
		}
		if c.own != nil {
			_ = c.own.close()
		}
		err = errors.Join(err, c.leave(nil))
	}()
	for _, v := range slices.Concat(c.args, c.env, []string{c.path, c.Dir}) {
		if strings.IndexByte(v, 0) >= 0 {
			return fmt.Errorf("sandbox: %q: a command and its environment cannot hold a NUL", v)
		}
	}
	if _, err := os.Stat(c.s.opt.Root); c.s.opt.Root != "" && err != nil {
		return fmt.Errorf("sandbox: the project: %w", err)
	}
	found, err := c.begin()
	if err != nil {
		return err
	}
	var k *child
	if c.s.shared.mode == Namespaces {
		k, err = c.namespaces(found)
	} else {
		k, err = c.landlocked(found)
	}
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	files := append([]*os.File{c.Stdin, c.Stdout, c.Stderr}, c.ExtraFiles...)
	if slices.Contains(files, nil) {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer null.Close()
		for i := range files {
			if files[i] == nil {
				files[i] = null
			}
		}
	}
	defer k.release()
	pid, err := k.start(cmp.Or(c.Dir, "/"), c.path, append([]string{c.path}, c.args...), c.env, files)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("sandbox: %w; what is not in the project, the system's folders or a toolchain's is not seen there", err)
		}
		return fmt.Errorf("sandbox: %w", err)
	}
	if c.Process, err = os.FindProcess(pid); err != nil {
		return err
	}
	if err := c.attach(k); err != nil {
		procgroup.Kill(c.Process)
		_, _ = c.Process.Wait() // it was killed
		return fmt.Errorf("sandbox: take what the command has sent: %w", err)
	}
	if k.domain {
		c.end = endAll
	}
	c.ended, c.watched = make(chan struct{}), make(chan struct{})
	go c.watch()
	return nil
}

// release closes the files that only the child needs.
func (c *child) release() {
	for _, v := range c.keep {
		if f, ok := v.(*os.File); ok {
			f.Close()
		}
	}
	if c.socket != nil {
		c.socket.Close()
	}
}

// setup adds the calls with which both mechanisms begin.
func (c *child) separate() {
	c.before(must, "start a session", unix.SYS_SETSID)
	c.before(must, "die with its parent", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}

// lower drops all rights that the user does not have, and the means to gain any, after everything
// that needs them.
func (c *child) lower(network socketRule, files int) error {
	for n := range uintptr(64) {
		c.after(may, "drop capability", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, n, 0, 0, 0)
	}
	c.after(may, "drop ambient capabilities", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	header, none := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	c.after(must, "drop capabilities", unix.SYS_CAPSET, pointer(c, &header), pointer(c, &none))
	c.after(must, "no new privileges", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if c.ruleset >= 0 {
		c.after(must, "restrict by landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(c.ruleset), 0)
	}
	private := c.init && !c.domain
	filter := filterFor(network, private)
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	c.keep = append(c.keep, filter)
	if private {
		c.after(must, "filter system calls", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, pointer(c, &prog))
		return nil
	}
	theirs, own, err := c.channel(files)
	if err != nil {
		return err
	}
	c.after(save, "filter system calls", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, pointer(c, &prog))
	c.after(must, "keep the descriptor", unix.SYS_DUP3, lastResult, uintptr(own), unix.O_CLOEXEC)
	c.after(may, "close", unix.SYS_CLOSE, lastResult)
	c.send(c.after, theirs, own)
	return nil
}

// proxyPort is where commands in a network namespace find their proxy.
const proxyPort = 31280

// namespaces returns a child in namespaces of its own.
func (c *Cmd) namespaces(found finding) (*child, error) {
	s := c.s
	policy := s.policy()
	k := &child{init: true, ruleset: -1, flags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC}
	if !policy.anyNetwork() {
		k.flags |= unix.CLONE_NEWNET
	}
	write := func(mode opMode, name, text string) {
		k.before(save, "open "+name, unix.SYS_OPENAT, atCwd, k.text(name), unix.O_WRONLY, 0)
		k.before(mode, "write "+name, unix.SYS_WRITE, lastResult, k.bytes([]byte(text)), uintptr(len(text)))
		k.before(may, "close "+name, unix.SYS_CLOSE, lastResult)
	}
	write(may, "/proc/self/setgroups", "deny")
	write(must, "/proc/self/uid_map", fmt.Sprintf("%d %d 1\n", os.Geteuid(), os.Geteuid()))
	write(must, "/proc/self/gid_map", fmt.Sprintf("%d %d 1\n", os.Getegid(), os.Getegid()))
	k.separate()
	c.mounts(k, found)
	if !policy.anyNetwork() {
		if err := k.loopback(firstExtra + len(c.ExtraFiles)); err != nil {
			return nil, err
		}
	}
	if policy.anyNetwork() && landlockABI() >= 6 { // abstract sockets belong to the network
		attr := unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}
		scope, err := makeRuleset(&attr, unsafe.Offsetof(attr.Quiet_access_fs))
		if err != nil {
			return nil, err
		}
		defer scope.Close()
		above, err := unix.FcntlInt(scope.Fd(), unix.F_DUPFD_CLOEXEC, firstExtra+len(c.ExtraFiles))
		if err != nil {
			return nil, err
		}
		k.keep = append(k.keep, os.NewFile(uintptr(above), "landlock"))
		k.ruleset = above
	}
	if err := k.lower(socketsFree, firstExtra+len(c.ExtraFiles)); err != nil {
		return nil, err
	}
	proxyURL := ""
	if k.socket != nil {
		c.own = newProxy(policy.Network, "127.0.0.1:"+strconv.Itoa(proxyPort))
		proxyURL = c.own.url()
	}
	c.env = s.environ(c.env, proxyURL)
	return k, nil
}

const atCwd = ^uintptr(99) // AT_FDCWD, -100

// A tree builds the file system of a child.
type tree struct {
	k    *child
	root string // where it is put together
	l    layout
	made map[string]bool // folders
}

func (t *tree) mount(mode opMode, what, source, target, kind string, flags uintptr, data string) {
	var dataAt uintptr
	if data != "" {
		dataAt = t.k.text(data)
	}
	t.k.before(mode, what, unix.SYS_MOUNT, t.k.text(source), t.k.text(target), t.k.text(kind), flags, dataAt)
}

// attr changes how what is at a path below the root is mounted.
func (t *tree) attr(mode opMode, name string, flags uintptr, set, clr uint64) {
	a := unix.MountAttr{Attr_set: set, Attr_clr: clr}
	t.k.before(mode, "set how "+name+" is mounted", unix.SYS_MOUNT_SETATTR, atCwd, t.k.text(t.root+name), flags, pointer(t.k, &a), unsafe.Sizeof(a))
}

func (t *tree) mkdirs(name string) {
	var todo []string
	for dir := name; !t.made[dir]; dir = filepath.Dir(dir) {
		t.made[dir] = true
		todo = append(todo, dir)
	}
	for _, dir := range slices.Backward(todo) {
		t.k.before(may, "mkdir", unix.SYS_MKDIRAT, atCwd, t.k.text(t.root+dir), 0o755)
	}
}

func (t *tree) link(target, name string) {
	t.k.before(may, "link", unix.SYS_SYMLINKAT, t.k.text(target), atCwd, t.k.text(t.root+name))
}

// bind shows a file or folder at a path.
func (t *tree) bind(source, target string, folder bool) {
	k := t.k
	if folder {
		t.mkdirs(target)
	} else {
		t.mkdirs(filepath.Dir(target))
		k.before(may, "make a file", unix.SYS_MKNODAT, atCwd, k.text(t.root+target), unix.S_IFREG|0o600, 0)
	}
	if around, ok := t.l.around(source); !ok || !t.l.trees[around] {
		t.mount(must, "mount "+target, source, t.root+target, "", unix.MS_BIND|unix.MS_REC, "")
		return
	}
	// A running command may replace a folder in the path by a link.
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	k.before(save, "open "+source, unix.SYS_OPENAT2, atCwd, k.text(source), pointer(k, &how), unsafe.Sizeof(how))
	k.before(save, "open "+source, unix.SYS_OPEN_TREE, lastResult, k.text(""), unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	k.before(must, "mount "+target, unix.SYS_MOVE_MOUNT, lastResult, k.text(""), atCwd, k.text(t.root+target), unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// again turns an existing path into a mount.
func (t *tree) again(name string) {
	t.mount(must, "mount "+name, t.root+name, t.root+name, "", unix.MS_BIND|unix.MS_REC, "")
}

// mounts builds the file system of the child.
func (c *Cmd) mounts(k *child, found finding) {
	s, sh := c.s, c.s.shared
	t := &tree{k: k, root: filepath.Join(sh.temp, tempRoot), l: c.layout(), made: map[string]bool{"/": true}}
	t.mount(must, "make mounts private", "none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	t.mount(must, "mount a root", "tmpfs", t.root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=4m")
	// The usual folders come first, so that allowed paths within them stay visible.
	for _, name := range []string{"/dev", "/proc", "/dev/shm", "/dev/pts"} {
		t.mkdirs(name)
	}
	t.bind(s.own(tempFiles), "/tmp", true)
	writable := []string{"/tmp"}
	if home := s.opt.Home; home != "" && home != "/" && !within("/tmp", home) && !within(home, "/tmp") {
		t.bind(s.own(tempHome), home, true)
		writable = append(writable, home)
	}
	for _, name := range t.l.sorted() {
		if info, err := os.Lstat(name); err == nil {
			t.bind(name, name, info.IsDir())
		}
	}
	for link, target := range t.l.links {
		if !t.l.holds(link) {
			t.mkdirs(filepath.Dir(link))
			t.link(target, link)
		}
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		t.bind("/dev/"+name, "/dev/"+name, false)
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		t.link(target, "/dev/"+name)
	}
	t.attr(must, "", unix.AT_RECURSIVE, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID, 0)
	t.mount(must, "mount /proc", "proc", t.root+"/proc", "proc", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "") // or root could change the kernel
	t.mount(may, "mount /dev/shm", "tmpfs", t.root+"/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=64m")
	t.mount(may, "mount /dev/pts", "devpts", t.root+"/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
	for _, name := range append(writable, t.l.sorted()...) { // what is within another comes behind it, and counts
		if write, is := t.l.trees[name]; is && !write {
			t.attr(must, name, unix.AT_RECURSIVE, unix.MOUNT_ATTR_RDONLY, 0)
			continue
		}
		t.attr(may, name, 0, 0, unix.MOUNT_ATTR_RDONLY) // it stays read-only if it is so outside
		t.attr(may, name, unix.AT_RECURSIVE, 0, unix.MOUNT_ATTR_RDONLY)
	}
	c.except(t, found)
	k.before(must, "enter the root", unix.SYS_CHDIR, k.text(t.root))
	k.before(must, "change the root", unix.SYS_PIVOT_ROOT, k.text("."), k.text("."))
	k.before(must, "leave the old root", unix.SYS_UMOUNT2, k.text("."), unix.MNT_DETACH)
	k.before(must, "enter /", unix.SYS_CHDIR, k.text("/"))
}

// except removes hidden files from the tree, and write access to protected ones.
func (c *Cmd) except(t *tree, found finding) {
	temp := c.s.shared.temp
	hidden := []string{}
	for _, name := range found.hidden {
		hidden = append(hidden, short(name))
	}
	var protect []string
	for _, name := range c.protect {
		if at := short(name); at != name {
			hidden = append(hidden, at) // no mount reaches it
		} else {
			protect = append(protect, name)
		}
	}
	// A folder with a hidden or protected entry becomes a mount itself, so that it cannot be moved
	// away.
	pins := map[string]bool{}
	for _, name := range slices.Concat(hidden, protect) {
		for dir := filepath.Dir(name); t.l.holds(dir); dir = filepath.Dir(dir) {
			if _, is := t.l.trees[dir]; is {
				break
			}
			pins[dir] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pins)) {
		t.again(name)
	}
	for _, name := range protect {
		if _, link := c.links[name]; !link && t.l.holds(name) {
			t.again(name)
			t.attr(must, name, unix.AT_RECURSIVE, unix.MOUNT_ATTR_RDONLY, 0)
		}
	}
	for _, name := range found.secrets {
		if copied, err := c.withoutSecrets(name); err == nil && t.l.holds(name) {
			t.mount(must, "mount a copy of "+name, copied, t.root+name, "", unix.MS_BIND, "")
			t.attr(must, name, 0, unix.MOUNT_ATTR_RDONLY, 0)
		} else {
			hidden = append(hidden, name)
		}
	}
	from := "" // a mount that is read-only, as those are that are made of it
	for _, name := range slices.Sorted(maps.Keys(c.masks)) {
		t.mount(must, "mask "+name, cmp.Or(from, filepath.Join(temp, tempMask)), t.root+name, "", unix.MS_BIND, "")
		if from == "" {
			t.attr(must, name, 0, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC, 0)
			from = t.root + name
		}
	}
	gone := "" // the folder that was hidden last: nothing is found in it
	for _, name := range slices.Sorted(slices.Values(slices.Concat(t.l.hide, hidden, []string{temp}))) {
		info, err := os.Lstat(name)
		for errors.Is(err, fs.ErrPermission) && t.l.holds(name) { // a folder around it was closed since the look
			name = filepath.Dir(name)
			info, err = os.Lstat(name)
		}
		moved := errors.Is(err, fs.ErrNotExist) && slices.Contains(hidden, name) // since the look: the command does not start
		if !moved && (err != nil || info.Mode()&fs.ModeSymlink != 0) || !t.l.holds(name) || gone != "" && within(gone, name) {
			continue
		}
		empty := tempEmpty
		if !moved && info.IsDir() {
			empty, gone = tempHidden, name
		}
		t.mount(must, "hide "+name, filepath.Join(temp, empty), t.root+name, "", unix.MS_BIND, "")
		t.attr(must, name, 0, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC, 0)
	}
}

// withoutSecrets returns a copy of a configuration of Git without its credentials.
func (c *Cmd) withoutSecrets(name string) (string, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	text := withoutCredentials(string(b))
	at := filepath.Join(c.s.shared.temp, "config-"+digest(name+"\x00"+text))
	if _, err := os.Lstat(at); err == nil {
		return at, nil
	}
	if err := os.WriteFile(at+".new", []byte(text), 0o600); err != nil {
		return "", err
	}
	return at, os.Rename(at+".new", at)
}

// channel opens a socket pair by which the child sends a descriptor to the parent, away from the files of the command. Theirs is the child's end. Own is
// a descriptor number that is free in the child, which does not need the other end.
func (c *child) channel(files int) (theirs, own int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	for i, fd := range pair {
		if above, inner := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, files); inner != nil {
			err = inner
		} else if unix.Close(fd) == nil {
			pair[i] = above
		}
	}
	c.socket = os.NewFile(uintptr(pair[0]), "sandbox")
	c.keep = append(c.keep, os.NewFile(uintptr(pair[1]), "sandbox"))
	return pair[1], pair[0], err
}

// send adds the calls by which the child sends a descriptor.
func (c *child) send(add func(mode opMode, what string, nr uintptr, args ...uintptr), theirs, own int) {
	rights := unix.UnixRights(own)
	one := []byte{1}
	iov := unix.Iovec{Base: &one[0], Len: 1}
	msg := unix.Msghdr{Iov: &iov, Iovlen: 1, Control: &rights[0], Controllen: uint64(len(rights))}
	c.keep = append(c.keep, rights, one, &iov)
	add(must, "send a descriptor", unix.SYS_SENDMSG, uintptr(theirs), pointer(c, &msg), 0)
	add(may, "close", unix.SYS_CLOSE, uintptr(own))
}

// loopback brings the loopback interface of a new network namespace up, and opens a listener there that it sends to the parent.
func (c *child) loopback(files int) error {
	theirs, number, err := c.channel(files)
	if err != nil {
		return err
	}
	own := uintptr(number)
	type ifreq struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	up := ifreq{flags: unix.IFF_UP | unix.IFF_RUNNING}
	copy(up.name[:], "lo")
	c.before(save, "open a socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	c.before(must, "set up loopback", unix.SYS_IOCTL, lastResult, unix.SIOCSIFFLAGS, pointer(c, &up))
	c.before(may, "close", unix.SYS_CLOSE, lastResult)
	addr := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: proxyPort&0xff<<8 | proxyPort>>8, Addr: [4]byte{127, 0, 0, 1}}
	c.before(save, "open a socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	c.before(must, "keep the socket", unix.SYS_DUP3, lastResult, own, unix.O_CLOEXEC)
	c.before(may, "close", unix.SYS_CLOSE, lastResult)
	c.before(must, "bind", unix.SYS_BIND, own, pointer(c, &addr), unsafe.Sizeof(addr))
	c.before(must, "listen", unix.SYS_LISTEN, own, 128)
	c.send(c.before, theirs, number)
	return nil
}

// attach receives the descriptor that the child has sent: the listener for the proxy, or the
// notifications of its seccomp filter.
func (c *Cmd) attach(k *child) error {
	if k.socket == nil {
		return nil
	}
	one, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(k.socket.Fd()), one, rights, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	var fds []int
	if err == nil {
		var list []unix.SocketControlMessage
		if list, err = unix.ParseSocketControlMessage(rights[:n]); err == nil && len(list) == 1 {
			fds, err = unix.ParseUnixRights(&list[0])
		}
	}
	if err == nil && len(fds) == 1 && k.gate != nil {
		c.gate = k.gate
		return k.gate.open(fds[0])
	}
	if err == nil && len(fds) == 1 {
		f := os.NewFile(uintptr(fds[0]), "sandbox")
		defer f.Close()
		var l net.Listener
		if l, err = net.FileListener(f); err == nil {
			c.own.serve(l)
		}
	}
	return err
}
