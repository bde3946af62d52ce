//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Neither os/exec nor package syscall can mount between fork and exec, an unprivileged process with
// several threads cannot enter a user namespace by itself, and starting this program again takes
// longer than the commands that it would confine. So the work of a child before exec is a list of
// system calls that is prepared beforehand; between fork and exec nothing else is executed.

// An op is a system call of a child.
type op struct {
	nr   uintptr
	args [6]uintptr
	mode opMode
}

type opMode uint8

const (
	must opMode = iota // a failure ends the child
	may                // a failure is ignored
	save               // the result is what lastResult stands for in the calls that follow; a failure ends the child
)

// lastResult, as an argument, is the result of the last op that saves.
const lastResult = ^uintptr(0x5a5a)

// A child is a process to be made.
type child struct {
	flags uintptr // of clone
	setup []op    // before it splits, if it is the init of its namespace
	init  bool    // it splits in two: one waits as the init of the process namespace, the other goes on
	last  []op    // of the one that goes on; the last of them is execve

	domain bool // it has no process namespace, but a Landlock domain that its signals do not leave
	names  []string
	keep   []any // what the arguments point to

	ruleset int      // of Landlock, -1 for none
	socket  *os.File // where it sends its listener, nil if it has none
	gate    *gate    // makes calls for it, nil for none
}

// pointer keeps v alive as long as c and returns its address.
func pointer[T any](c *child, v *T) uintptr {
	c.keep = append(c.keep, v)
	return uintptr(unsafe.Pointer(v))
}

// text returns the address of s with a NUL.
func (c *child) text(s string) uintptr {
	b := append([]byte(s), 0)
	return pointer(c, &b[0])
}

// bytes returns the address of a copy of b.
func (c *child) bytes(b []byte) uintptr {
	if len(b) == 0 {
		return 0
	}
	b = bytes.Clone(b)
	return pointer(c, &b[0])
}

// list returns the address of a vector of strings that ends with nil.
func (c *child) list(all []string) uintptr {
	v := make([]uintptr, len(all)+1)
	for i, s := range all {
		v[i] = c.text(s)
	}
	return pointer(c, &v[0])
}

func newOp(mode opMode, nr uintptr, args []uintptr) op {
	o := op{nr: nr, mode: mode}
	copy(o.args[:], args)
	return o
}

// before adds a call to the setup. The name is for errors.
func (c *child) before(mode opMode, what string, nr uintptr, args ...uintptr) {
	c.setup = append(c.setup, newOp(mode, nr, args))
	c.names = append(c.names, what)
}

// after adds a call that is made right before the command runs.
func (c *child) after(mode opMode, what string, nr uintptr, args ...uintptr) {
	c.last = append(c.last, newOp(mode, nr, args))
	c.names = append(c.names, what)
}

// A stepError is a call of a child that failed.
type stepError struct {
	What string
	Err  syscall.Errno
}

func (e *stepError) Error() string { return e.What + ": " + e.Err.Error() }
func (e *stepError) Unwrap() error { return e.Err }

// copies are descriptors of files above those that a command will have.
type copies struct {
	above int
	fds   []int
}

func (h *copies) of(f *os.File) (int, error) {
	fd := -1
	var inner error
	raw, err := f.SyscallConn()
	if err == nil {
		err = raw.Control(func(n uintptr) { fd, inner = unix.FcntlInt(n, unix.F_DUPFD_CLOEXEC, h.above) })
	}
	if err := errors.Join(err, inner); err != nil {
		return -1, err
	}
	h.fds = append(h.fds, fd)
	return fd, nil
}

func (h *copies) close() {
	for _, fd := range h.fds {
		_ = unix.Close(fd)
	}
	h.fds = nil
}

// start creates the process and returns once it runs path, or has failed to. Files become its descriptors from 0
// on.
func (c *child) start(dir, path string, args, env []string, files []*os.File) (pid int, err error) {
	report, theirs, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer report.Close()
	closeTheirs := theirs.Close
	defer func() { _ = closeTheirs() }()
	high := copies{above: len(files)}
	defer high.close()
	reportFD, err := high.of(theirs)
	if err != nil {
		return 0, err
	}
	restrictions := c.last // that come after everything else but execve
	afterNames := c.names[len(c.setup):]
	c.names, c.last = c.names[:len(c.setup):len(c.setup)], nil
	for i, f := range files {
		fd, err := high.of(f)
		if err == nil {
			err = unix.SetNonblock(fd, false) // as programs expect; a pipe of ours is not
		}
		if err != nil {
			return 0, err
		}
		c.after(must, "give it its files", unix.SYS_DUP3, uintptr(fd), uintptr(i), 0)
	}
	c.after(must, "close what else is open", unix.SYS_CLOSE_RANGE, uintptr(len(files)), ^uintptr(0)>>32, unix.CLOSE_RANGE_CLOEXEC)
	c.after(must, "enter "+dir, unix.SYS_CHDIR, c.text(dir))
	c.last = append(c.last, restrictions...)
	c.names = append(c.names, afterNames...)
	var none [4]uint64 // a sigaction of SIG_DFL
	for sig := uintptr(1); sig <= 64; sig++ {
		c.after(may, "reset signals", unix.SYS_RT_SIGACTION, sig, pointer(c, &none), 0, 8)
	}
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^uint64(0)
	}
	c.after(must, "unblock signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, pointer(c, &old), 0, 8)
	c.after(must, "run "+path, unix.SYS_EXECVE, c.text(path), c.list(args), c.list(env))
	c.alone(high.fds)
	failure := new([2]uint64)
	unneeded, free, err := spare()
	if err != nil {
		return 0, err
	}
	defer free()

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	syscall.ForkLock.Lock()
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old); err != nil {
		syscall.ForkLock.Unlock()
		return 0, err
	}
	n, errno := split(c, uintptr(reportFD), failure, unneeded)
	restored := unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(c)
	runtime.KeepAlive(failure)
	if errno != 0 {
		return 0, &stepError{"clone", errno}
	}
	if restored != nil {
		return 0, restored
	}
	closeTheirs = func() error { return nil }
	theirs.Close()
	high.close()
	var got [16]byte
	if k, err := io.ReadFull(report, got[:]); err == io.EOF && k == 0 {
		return int(n), nil
	}
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(int(n), &status, 0, nil); err != unix.EINTR {
			break
		}
	}
	step, why := binary.NativeEndian.Uint64(got[:8]), binary.NativeEndian.Uint64(got[8:])
	if step < uint64(len(c.names)) {
		return 0, &stepError{c.names[step], syscall.Errno(why)}
	}
	return 0, fmt.Errorf("it ended before it began: %w", syscall.Errno(why))
}

// alone makes the child, before anything else, die with its parent and close the files it does not
// need: it must not hold locks of a parent that is killed meanwhile.
func (c *child) alone(fds []int) {
	fds = slices.Clone(fds)
	for _, v := range c.keep {
		if f, ok := v.(*os.File); ok {
			fds = append(fds, int(f.Fd()))
		}
	}
	if c.socket != nil { // whose number another takes
		fds = append(fds, int(c.socket.Fd()))
	}
	slices.Sort(fds)
	first := []op{newOp(may, unix.SYS_PRCTL, []uintptr{unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL)})}
	from := 0
	for _, fd := range fds {
		if from < fd {
			first = append(first, newOp(may, unix.SYS_CLOSE_RANGE, []uintptr{uintptr(from), uintptr(fd - 1), 0}))
		}
		from = fd + 1
	}
	first = append(first, newOp(may, unix.SYS_CLOSE_RANGE, []uintptr{uintptr(from), ^uintptr(0) >> 32, 0}))
	c.setup = append(first, c.setup...)
	c.names = append(slices.Repeat([]string{"close"}, len(first)), c.names...)
}

// split forks and runs the child's calls. In the child it must neither grow the stack nor allocate
// nor use anything that other threads may have locked, and it does not return.
//
//go:norace
//go:noinline
//go:nosplit
func split(c *child, report uintptr, failure *[2]uint64, unneeded *ranges) (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, c.flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	var saved uintptr
	ops, done := c.setup, uint64(0)
	for stage := 0; ; stage++ {
		for i := range ops {
			o := &ops[i]
			var a [6]uintptr
			for j := range o.args {
				a[j] = o.args[j]
				if a[j] == lastResult {
					a[j] = saved
				}
			}
			r, _, err := syscall.RawSyscall6(o.nr, a[0], a[1], a[2], a[3], a[4], a[5])
			if err != 0 && o.mode != may {
				failure[0], failure[1] = done, uint64(err)
				syscall.RawSyscall6(unix.SYS_WRITE, report, uintptr(unsafe.Pointer(failure)), 16, 0, 0, 0)
				for {
					syscall.RawSyscall6(unix.SYS_EXIT_GROUP, 127, 0, 0, 0, 0, 0)
				}
			}
			if o.mode == save {
				saved = r
			}
			done++
		}
		if stage == 1 {
			continue // execve returned without an error, which it never does
		}
		// Until exec, its memory and its environment are those of this process.
		syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0, 0)
		if c.init {
			inner, _, err := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if err != 0 || inner != 0 {
				reap(inner, unneeded, c.domain)
			}
		}
		ops = c.last
	}
}

// reap is the init of a process namespace: it waits until the command has ended, and takes all that is left with it. It empties
// the memory that it has from this process, so that it takes no space and the command cannot learn from /proc
// how this program was started. Without a process namespace all that is left comes to it, and a
// signal to everybody reaches no more than its domain. The memory stays mapped, since the kernel writes to some of it (rseq).
//
//go:norace
//go:nosplit
func reap(command uintptr, unneeded *ranges, domain bool) {
	syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, 0, ^uintptr(0)>>32, 0, 0, 0, 0)
	var status uint32
	stack := uintptr(unsafe.Pointer(&status)) &^ (stackKept - 1)
	low, high := stack-stackKept, stack+2*stackKept
	for i := range unneeded {
		r := &unneeded[i]
		if r.end == 0 {
			break
		}
		if r.end <= low || r.start >= high {
			syscall.RawSyscall6(unix.SYS_MADVISE, r.start, r.end-r.start, unix.MADV_DONTNEED, 0, 0, 0)
			continue
		}
		if r.start < low {
			syscall.RawSyscall6(unix.SYS_MADVISE, r.start, low-r.start, unix.MADV_DONTNEED, 0, 0, 0)
		}
		if r.end > high {
			syscall.RawSyscall6(unix.SYS_MADVISE, high, r.end-high, unix.MADV_DONTNEED, 0, 0, 0)
		}
	}
	if domain {
		parent, _, _ := syscall.RawSyscall6(unix.SYS_GETPPID, 0, 0, 0, 0, 0, 0)
		_, _, err := syscall.RawSyscall6(unix.SYS_KILL, parent, 0, 0, 0, 0, 0)
		domain = err == unix.EPERM // else the signals below would be for all processes of the user
	}
	set := uint64(1)<<(unix.SIGCHLD-1) | uint64(1)<<(endAll-1)
	for {
		flags := uintptr(0)
		told := false
		if domain {
			sig, _, _ := syscall.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&set)), 0, 0, 8, 0, 0)
			flags, told = unix.WNOHANG, sig == uintptr(endAll)
		}
	again:
		pid, _, err := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&status)), flags, 0, 0, 0)
		if err == 0 && pid != 0 && pid != command {
			goto again
		}
		if !told && (err == unix.EINTR || err == 0 && pid == 0) {
			continue
		}
		if told && pid != command {
			status = uint32(unix.SIGKILL)
			err = 0
		}
		for domain {
			syscall.RawSyscall6(unix.SYS_KILL, ^uintptr(0), uintptr(unix.SIGKILL), 0, 0, 0, 0)
			var other uint32
			if _, _, none := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&other)), 0, 0, 0, 0); none == unix.ECHILD {
				break
			}
		}
		code := uintptr(status>>8) & 0xff
		if sig := uintptr(status & 0x7f); sig != 0 {
			code = 128 + sig
		}
		if err != 0 {
			code = 127
		}
		syscall.RawSyscall6(unix.SYS_EXIT_GROUP, code, 0, 0, 0, 0, 0)
	}
}

// endAll is the signal by which reap is told to end, which it also gets when the parent has ended.
const endAll = unix.SIGPWR

// ranges are parts of the memory. They are in memory of their own, since they are read while the rest is given up.
type ranges [4096]struct{ start, end uintptr }

const stackKept = 64 << 10 // bytes on both sides of where the stack is

// spare lists the memory that an init does not need: everything except program code.
func spare() (*ranges, func(), error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, nil, err
	}
	mem, err := unix.Mmap(-1, 0, int(unsafe.Sizeof(ranges{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, err
	}
	out := (*ranges)(unsafe.Pointer(&mem[0]))
	own, n := uintptr(unsafe.Pointer(out)), 0
	for line := range bytes.Lines(maps) {
		var start, end uintptr
		var mode string
		if _, err := fmt.Sscanf(string(line), "%x-%x %s", &start, &end, &mode); err != nil || len(mode) < 3 || mode[2] == 'x' || start <= own &&
			own < end || n == len(out) {
			continue
		}
		out[n].start, out[n].end = start, end
		n++
	}
	return out, func() { _ = unix.Munmap(mem) }, nil
}
