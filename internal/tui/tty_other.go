//go:build !linux && !darwin && !windows

package tui

import (
	"errors"
	"os"
)

// flushInput cannot discard anything on this system. Lines that were typed too early are dropped by their time instead.
func flushInput(int) error { return errors.ErrUnsupported }

// keys is not supported here: questions are answered by lines.
func keys(int) (restore func(), err error) { return nil, errors.ErrUnsupported }

// foreground reports whether the terminal listens to this process.
func foreground(int) bool { return true }

// stopSignal returns a channel that receives nothing: there is no Ctrl-Z here.
func stopSignal() (stops <-chan os.Signal, end func()) { return nil, func() {} }

func stopHere() {}
