// Package signals ends the work of a program when a signal requests it.
package signals

import (
	"os"
	"os/signal"
	"syscall"
)

// An Error is the cause of a context that a signal ended.
type Error struct{ Signal os.Signal }

func (e *Error) Error() string {
	switch e.Signal {
	case syscall.SIGTERM:
		return "terminated"
	case syscall.SIGHUP:
		return "hung up"
	}
	return "interrupted"
}

// Exit returns the exit code of a program that a signal ended.
func (e *Error) Exit() int {
	switch e.Signal {
	case syscall.SIGTERM:
		return 143
	case syscall.SIGHUP:
		return 129
	}
	return interrupted
}

const interrupted = 130

// On calls do for the first signal that wants the process to end. The second one ends the process
// at once, as by default: whatever a run is doing, its log is safe. The signal of ^\ is included
// and leaves no dump. The returned function restores the default.
func On(do func(why *Error)) func() {
	c, quit := make(chan os.Signal, 1), make(chan os.Signal, 2)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	signal.Notify(quit, syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(c, syscall.SIGHUP)
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-end:
		case sig := <-c:
			signal.Stop(c)
			if sig == syscall.SIGQUIT {
				<-quit
			}
			do(&Error{sig})
			select {
			case <-end:
			case <-quit:
				os.Exit(interrupted)
			}
		}
	}()
	return func() {
		signal.Stop(c)
		signal.Stop(quit)
		close(end)
		<-ended
	}
}

// IgnorePipe makes writes to a closed pipe fail instead of ending the process. The returned
// function undoes that. Children are not affected, as they would be by signal.Ignore.
func IgnorePipe() func() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}
