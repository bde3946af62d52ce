//go:build linux && (amd64 || arm64)

package sandbox

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// A socketRule tells which sockets may be created.
type socketRule int

const (
	socketsFree   socketRule = iota // those of the Internet, and Unix ones where only its own are in sight
	socketsNone                     // none
	socketsStream                   // TCP
)

// offsets in what a filter sees of a system call
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
)

const fsSetXattr = 0x401c5820 // FS_IOC_FSSETXATTR

// A filter is a program for seccomp that grows from its end, where it allows the call.
type filter []unix.SockFilter

func (f *filter) add(code uint16, k uint32, jt, jf uint8) {
	*f = append(*f, unix.SockFilter{Code: code, K: k, Jt: jt, Jf: jf})
}

func (f *filter) load(at uint32) { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, at, 0, 0) }
func (f *filter) ifEqual(k uint32, jt, jf uint8) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k, jt, jf)
}
func (f *filter) ifAnySet(k uint32, jt, jf uint8) {
	f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, k, jt, jf)
}
func (f *filter) fail(errno uint32) {
	f.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|errno, 0, 0)
}
func (f *filter) ask()  { f.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_USER_NOTIF, 0, 0) } // see gate
func (f *filter) pass() { f.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW, 0, 0) }

// filterFor returns the filter of a command. The refused calls either have no use in a sandbox or
// would lead out of it: other name spaces, mounts, keys of the user, typing into a terminal, and
// io_uring, which makes calls that no filter sees. Private is whether processes, memory that is
// shared by number, and Unix sockets of others are out of sight anyway.
func filterFor(sockets socketRule, private bool) []unix.SockFilter {
	var f filter
	f.load(atArch)
	f.ifEqual(auditArch, 1, 0)
	f.fail(uint32(unix.EPERM)) // calls in the way of another processor
	f.load(atNumber)
	if x32Bit != 0 {
		f.ifAnySet(x32Bit, 0, 1)
		f.fail(uint32(unix.ENOSYS))
	}
	refused := []uintptr{
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT,
		unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_SETNS, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_BPF,
		unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
		unix.SYS_QUOTACTL, unix.SYS_SYSLOG, unix.SYS_ACCT, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CHROOT,
	}
	if !private {
		refused = append(refused, unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
			unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK)
	}
	for _, nr := range refused {
		f.ifEqual(uint32(nr), 0, 1)
		f.fail(uint32(unix.EPERM))
	}
	// The arguments of clone3 are in memory, which a filter cannot read; programs fall back to
	// clone.
	f.ifEqual(unix.SYS_CLONE3, 0, 1)
	f.fail(uint32(unix.ENOSYS))
	for _, nr := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
		f.ifEqual(nr, 0, 4)
		f.load(atArgs)
		f.ifAnySet(unix.CLONE_NEWUSER|unix.CLONE_NEWNS|unix.CLONE_NEWNET|unix.CLONE_NEWPID|unix.CLONE_NEWIPC|unix.CLONE_NEWUTS|unix.CLONE_NEWCGROUP, 0, 1)
		f.fail(uint32(unix.EPERM))
		f.load(atNumber)
	}
	f.ifEqual(unix.SYS_IOCTL, 0, 5)
	f.load(atArgs + 8)
	f.ifEqual(unix.TIOCSTI, 1, 0)
	f.ifEqual(unix.TIOCLINUX, 0, 1)
	f.fail(uint32(unix.EPERM))
	f.load(atNumber)
	if !private {
		f.landlocked()
	}
	f.sockets(sockets, private)
	f.pass()
	return f
}

// landlocked refuses calls that Landlock does not restrict, or passes them to the gate.
func (f *filter) landlocked() {
	for _, nr := range slices.Sorted(maps.Keys(changes())) {
		f.ifEqual(nr, 0, 1)
		f.ask()
	}
	for _, nr := range unsupported() {
		f.ifEqual(nr, 0, 1)
		f.fail(uint32(unix.EOPNOTSUPP))
	}
	f.ifEqual(unix.SYS_IOCTL, 0, 5)
	f.load(atArgs + 8)
	f.ifEqual(unix.FS_IOC_SETFLAGS, 1, 0)
	f.ifEqual(fsSetXattr, 0, 1)
	f.fail(uint32(unix.EOPNOTSUPP))
	f.load(atNumber)
	f.ifEqual(unix.SYS_PRLIMIT64, 0, 4)
	f.load(atArgs)
	f.ifEqual(0, 1, 0)
	f.fail(uint32(unix.EPERM)) // limits of another process
	f.load(atNumber)
	f.ifEqual(unix.SYS_SOCKETPAIR, 0, 6)
	f.load(atArgs + 8)
	f.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xf, 0, 0)
	f.ifEqual(unix.SOCK_STREAM, 2, 0)
	f.ifEqual(unix.SOCK_SEQPACKET, 1, 0)
	f.fail(uint32(unix.EACCES)) // it could send to any Unix socket
	f.load(atNumber)
}

// sockets refuses sockets that lead out of the sandbox.
func (f *filter) sockets(sockets socketRule, private bool) {
	switch sockets {
	case socketsFree:
		families := []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
		if private {
			families = append(families, unix.AF_UNIX)
		}
		n := uint8(len(families)) //nolint:gosec // a few
		f.ifEqual(unix.SYS_SOCKET, 0, n+3)
		f.load(atArgs)
		for i, family := range families {
			f.ifEqual(family, n-uint8(i), 0) //nolint:gosec // a few
		}
		f.fail(uint32(unix.EACCES)) // AF_VSOCK, for one, is not bound to a network namespace
		f.load(atNumber)
	case socketsNone:
		f.ifEqual(unix.SYS_SOCKET, 0, 1)
		f.fail(uint32(unix.EACCES))
	case socketsStream:
		f.ifEqual(unix.SYS_SOCKET, 0, 8)
		f.load(atArgs)
		f.ifEqual(unix.AF_INET, 2, 0)
		f.ifEqual(unix.AF_INET6, 1, 0)
		f.fail(uint32(unix.EACCES))
		f.load(atArgs + 8)
		f.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xf, 0, 0)
		f.ifEqual(unix.SOCK_STREAM, 1, 0)
		f.fail(uint32(unix.EACCES))
		f.load(atNumber)
		f.ifEqual(unix.SYS_SOCKET, 0, 4)
		f.load(atArgs + 16)
		f.ifEqual(0, 2, 0)
		f.ifEqual(unix.IPPROTO_TCP, 1, 0)
		f.fail(uint32(unix.EACCES)) // Landlock knows no MPTCP and no SCTP
		f.load(atNumber)
		f.ifEqual(unix.SYS_CONNECT, 0, 1)
		f.ask()
		for _, call := range [][2]uint32{{unix.SYS_SENDTO, atArgs + 24}, {unix.SYS_SENDMSG, atArgs + 16}, {unix.SYS_SENDMMSG, atArgs + 24}} {
			f.ifEqual(call[0], 0, 4)
			f.load(call[1])
			f.ifAnySet(unix.MSG_FASTOPEN, 0, 1)
			f.fail(uint32(unix.EOPNOTSUPP)) // it connects without asking Landlock
			f.load(atNumber)
		}
	}
}
