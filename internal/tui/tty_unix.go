//go:build linux || darwin

package tui

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// keys has a terminal pass on every key as it is typed and not show it, until restore is called. Keys that make
// signals still do, and output is as ever.
func keys(fd int) (restore func(), err error) {
	was, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	now := *was
	now.Lflag &^= unix.ICANON | unix.ECHO
	now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, setTermios, &now); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, was) }, nil // if it is gone, so is the need
}

// foreground reports whether the terminal listens to this process: it is not one that a shell has in the background.
func foreground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// stopSignal returns a channel that receives something when the process is to stop for a while, as with Ctrl-Z. Who has it
// calls stopHere then.
func stopSignal() (stops <-chan os.Signal, end func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGTSTP)
	return c, func() { signal.Stop(c) }
}

// stopHere stops the process, and returns once it continues. A process that no shell looks after is not stopped, as nobody
// would continue it.
func stopHere() {
	session, err := unix.Getsid(0)
	group := unix.Getpgrp()
	if err != nil || group == session {
		return
	}
	if above, err := unix.Getpgid(unix.Getppid()); err != nil || above != group {
		if s, err := unix.Getsid(unix.Getppid()); err != nil || s != session {
			return
		}
	}
	on := make(chan os.Signal, 1)
	signal.Notify(on, unix.SIGCONT)
	defer signal.Stop(on)
	if unix.Kill(unix.Getpid(), unix.SIGSTOP) == nil { // a signal that was asked for once has no default any more
		<-on
	}
}
