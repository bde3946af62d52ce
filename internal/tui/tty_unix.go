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

// foreground reports whether this process receives the terminal's input, because it is not a background job of a shell.
func foreground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// stopSignal returns a channel that receives a signal when the process must be suspended, as with Ctrl-Z. The receiver must then call stopHere.
func stopSignal() (stops <-chan os.Signal, end func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGTSTP)
	return c, func() { signal.Stop(c) }
}

// stopHere suspends the process, and returns once it continues. It does not suspend a process without a job-control shell, since nothing would continue
// it.
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
