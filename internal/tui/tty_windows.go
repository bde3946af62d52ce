package tui

import (
	"os"

	"golang.org/x/sys/windows"
)

// flushInput throws away what was typed on a terminal and not read yet.
func flushInput(fd int) error { return windows.FlushConsoleInputBuffer(windows.Handle(fd)) }

// keys has a terminal pass on every key as it is typed and not show it, until restore is called. Keys that make
// signals still do, and output is as ever.
func keys(fd int) (restore func(), err error) {
	var was uint32
	if err := windows.GetConsoleMode(windows.Handle(fd), &was); err != nil {
		return nil, err
	}
	if err := windows.SetConsoleMode(windows.Handle(fd), was&^(windows.ENABLE_LINE_INPUT|windows.ENABLE_ECHO_INPUT)); err != nil {
		return nil, err
	}
	return func() { _ = windows.SetConsoleMode(windows.Handle(fd), was) }, nil // if it is gone, so is the need
}

// foreground reports whether the terminal listens to this process.
func foreground(int) bool { return true }

// stopSignal returns a channel that receives nothing: there is no Ctrl-Z here.
func stopSignal() (stops <-chan os.Signal, end func()) { return nil, func() {} }

func stopHere() {}
