package cli

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// screen is what the command reads and writes, and the run that is shown there.
type screen struct {
	set  settings
	env  func(string) string
	beat time.Duration // between the signs of life of plain progress

	in   *input
	out  *output // results
	err  *output // everything else
	term terminal

	shown atomic.Pointer[session] // nil for none
}

// notify says something on standard error, through the view of the run if there is one.
func (c *screen) notify(text string) {
	if s := c.shown.Load(); s == nil || !s.notify(text) {
		c.err.line(text)
	}
}

// programs reports whether the output is for programs.
func (c *screen) programs() bool { return c.set.output != "text" }

// asks reports whether there is somebody to ask.
func (c *screen) asks() bool { return c.term.inTTY && c.term.errTTY && !c.set.noInput && !c.programs() }

// warn says something that changes nothing.
func (c *screen) warn(s string) {
	if !c.programs() {
		c.notify("warning: " + s)
	}
}

func (c *screen) session(after uint64, streamText bool) *session {
	s := &session{after: after, named: make(chan struct{}), now: time.Now}
	s.closed = func() { c.shown.CompareAndSwap(s, nil) }
	if c.set.output == "jsonl" {
		s.views = append(s.views, &events{s: s, out: c.out, text: streamText})
	}
	switch {
	case c.set.quiet:
	case c.term.live && !(c.programs() && c.term.outTTY):
		s.views = append(s.views, newLive(c, s))
	case !c.programs():
		s.views = append(s.views, newPlain(c, s))
	}
	c.shown.Store(s)
	return s
}

// stoppable returns a context that the first signal ends, for which it calls then, or that nobody reads the output any
// more, until done is called.
func (c *screen) stoppable(ctx context.Context, then func()) (_ context.Context, done func()) {
	ctx, stop := context.WithCancelCause(ctx)
	c.out.broken = func() { stop(errPipe) }
	end := onSignal(func(why *signalError) {
		stop(why)
		then()
	})
	return ctx, func() {
		end()
		stop(nil)
	}
}

// terminal is what the streams are and may be sent.
type terminal struct {
	errTTY, outTTY, inTTY bool
	errColor, outColor    bool // escape sequences may be sent
	live                  bool // lines on standard error may be redrawn
	plain                 bool // no decoration
	fd                    int  // of standard error
}

func isTerminal(stream any) (fd int, ok bool) {
	f, ok := stream.(*os.File)
	if !ok {
		return -1, false
	}
	return int(f.Fd()), term.IsTerminal(int(f.Fd()))
}

// look finds out about the streams, once the flags are known.
func (c *screen) look() {
	t := &c.term
	c.out.format, c.err.format = c.set.output, c.set.output
	t.fd, t.errTTY = isTerminal(c.err.w)
	_, t.outTTY = isTerminal(c.out.w)
	if fd, ok := isTerminal(c.in.r); ok {
		t.inTTY, c.in.fd = true, fd
	}
	t.plain = c.set.plain || c.env("ACCESSIBLE") == "1"
	t.errColor, t.outColor = c.colored(t.errTTY), c.colored(t.outTTY)
	t.live = t.errTTY && !c.set.noColor && c.set.color != "never" && !t.plain && c.env("TERM") != "dumb" // NO_COLOR is about colors alone
}

func (c *screen) colored(tty bool) bool {
	set := func(name string) bool { v := c.env(name); return v != "" && v != "0" }
	switch {
	case c.set.noColor || c.set.color == "never":
		return false
	case c.set.color == "always" || set("FORCE_COLOR") || set("CLICOLOR_FORCE"):
		return true
	case c.env("NO_COLOR") != "" || c.env("TERM") == "dumb":
		return false
	}
	return tty
}

// size is that of the terminal behind standard error, in cells.
func (t *terminal) size() (width, height int) {
	w, h, err := term.GetSize(t.fd)
	if err != nil || w <= 0 || h <= 0 {
		return 80, 24
	}
	return w, h
}

// wrap breaks the lines of a result between words where standard output is a terminal.
// Programs, and people who redirect it, get it as it is.
func (t *terminal) wrap(s string) string {
	if !t.outTTY {
		return s
	}
	return t.broken(s)
}

// broken is a text whose lines are broken between words at the width of the terminal.
func (t *terminal) broken(s string) string {
	width, _ := t.size()
	return ansi.Wordwrap(s, width, "")
}
