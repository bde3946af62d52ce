// Package tui shows a run on a terminal while it happens, and puts its questions to the person there. It knows runs and
// streams, and no commands.
//
//	screen := tui.New(os.Stdin, os.Stdout, os.Stderr, os.Getenv)
//	screen.Look(&tui.Settings{})
//	session := screen.Follow(0, nil)
//	session.Ask(ctx, &tui.AskOptions{Give: give})
//	run, err := engine.Start(ctx, "brief", inputs, &superstep.StartOptions{Answer: session.Answer, Observe: session.Observe})
//	session.Begin(run.ID())
package tui

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
)

// Settings are the user's settings of a screen.
type Settings struct {
	Color    string // auto, always or never; "" means auto
	NoColor  bool   // send no escape sequences
	Plain    bool   // no spinners and no decoration
	Quiet    bool   // no progress
	Verbose  bool   // with what tasks do
	NoInput  bool   // never read the input
	NoBell   bool   // do not ring when a question waits
	Programs bool   // the output is for programs

	Heartbeat time.Duration // between the signs of life of plain progress; defaults to 30 s
	Patience  time.Duration // how long a question waits before its first option is taken, 0 for ever
}

// A Screen is the terminal of a program, and the run that is shown there.
type Screen struct {
	InTTY  bool    // the input is a terminal
	OutTTY bool    // standard output is one
	Live   bool    // lines on standard error may be redrawn
	Plain  bool    // without decoration
	Out    Palette // of standard output
	Err    Palette // of standard error

	set      Settings
	env      func(string) string
	in       *input
	out, err io.Writer
	errTTY   bool
	shown    atomic.Pointer[Session] // nil for none
}

// New creates a screen from three streams: it writes results to out and everything else to err. A stream with a method Fd may be a terminal; Look finds
// out. Env returns variables of the environment.
func New(in io.Reader, out, err io.Writer, env func(string) string) *Screen {
	return &Screen{in: &input{r: in, fd: -1}, out: out, err: err, env: env}
}

// terminal returns the descriptor of a stream that is a terminal.
func terminal(stream any) (fd int, ok bool) {
	f, ok := stream.(interface{ Fd() uintptr })
	if !ok {
		return -1, false
	}
	return int(f.Fd()), term.IsTerminal(int(f.Fd()))
}

// Look finds out about the streams, once the settings are known.
func (c *Screen) Look(set *Settings) {
	c.set = *set
	c.set.Heartbeat = cmp.Or(set.Heartbeat, 30*time.Second)
	_, c.errTTY = terminal(c.err)
	_, c.OutTTY = terminal(c.out)
	if fd, ok := terminal(c.in.r); ok {
		c.InTTY, c.in.fd = true, fd
	}
	c.Plain = set.Plain || c.env("ACCESSIBLE") == "1"
	c.Err, c.Out = c.colored(c.errTTY), c.colored(c.OutTTY)
	c.Live = c.errTTY && !set.NoColor && set.Color != "never" && !c.Plain && c.env("TERM") != "dumb" // NO_COLOR is about colors alone
}

func (c *Screen) colored(tty bool) Palette {
	set := func(name string) bool { v := c.env(name); return v != "" && v != "0" }
	switch {
	case c.set.NoColor || c.set.Color == "never":
		return ""
	case c.set.Color == "always" || set("FORCE_COLOR") || set("CLICOLOR_FORCE"):
		return Usual
	case c.env("NO_COLOR") != "" || c.env("TERM") == "dumb":
		return ""
	}
	if tty {
		return Usual
	}
	return ""
}

// Notify shows a text on standard error, through the view of the run if there is one.
func (c *Screen) Notify(text string) {
	if s := c.shown.Load(); s == nil || !s.notify(text) {
		fmt.Fprintln(c.err, transcript.Clean(text))
	}
}

// Warn shows a person something that changes nothing.
func (c *Screen) Warn(text string) {
	if !c.set.Programs {
		c.Notify("warning: " + text)
	}
}

// Asks reports whether there is a user to ask.
func (c *Screen) Asks() bool { return c.InTTY && c.errTTY && !c.set.NoInput && !c.set.Programs }

// Fresh waits until a user can have read the screen, and discards all earlier input, which is no answer.
func (c *Screen) Fresh(ctx context.Context) { _ = c.in.fresh(ctx) }

// Line asks for a line outside of a run. It returns "" at the end of the input.
func (c *Screen) Line(ctx context.Context, prompt string) string {
	_, _ = io.WriteString(c.err, prompt)
	line, _ := c.in.line(ctx)
	return strings.TrimSpace(line)
}

// Read asks for a line. It is not ok at the end of the input, and when ctx ends.
func (c *Screen) Read(ctx context.Context, prompt string) (line string, ok bool) {
	_, _ = io.WriteString(c.err, prompt)
	return c.in.line(ctx)
}

// Confirm asks a question that only y and yes affirm.
func (c *Screen) Confirm(ctx context.Context, prompt string) bool {
	answer := strings.ToLower(c.Line(ctx, prompt+" [y/N] "))
	return answer == "y" || answer == "yes"
}

// Width returns the width of standard output, 0 if it is no terminal.
func (c *Screen) Width() int {
	fd, ok := terminal(c.out)
	if !ok {
		return 0
	}
	width, _, _ := term.GetSize(fd)
	return width
}

// size returns the size of the terminal behind standard error, in cells.
func (c *Screen) size() (width, height int) {
	fd, _ := terminal(c.err)
	w, h, err := term.GetSize(fd)
	if err != nil || w <= 0 || h <= 0 {
		return 80, 24
	}
	return w, h
}

// Wrap breaks the lines of a text between words where standard error is a terminal.
func (c *Screen) Wrap(s string) string {
	if !c.errTTY {
		return s
	}
	width, _ := c.size()
	return inwords.Wrap(s, width)
}

func (c *Screen) broken(s string, tty bool) string {
	if !tty {
		return s
	}
	width, _ := c.size()
	return ansi.Wordwrap(s, width, "")
}

// Result formats the output of a run for users: a text, the text of an object that has one, or else JSON. If the object also names a folder of
// documents, citations of files in that folder become links. Redirected output is the unchanged text.
func (c *Screen) Result(output json.RawMessage) string {
	if len(output) == 0 || string(output) == "null" {
		return ""
	}
	var o struct{ Text, Answer, Docs string }
	if json.Unmarshal(output, &o.Text) != nil {
		_ = json.Unmarshal(output, &o) // what is no such object is shown as it is
	}
	if said := strings.TrimRight(cmp.Or(o.Text, o.Answer), "\n"); said != "" {
		return c.markdown(said, o.Docs)
	}
	var b bytes.Buffer
	switch {
	case output[0] == '"': // an empty text
		return ""
	case json.Indent(&b, output, "", "  ") != nil:
		b.Write(output)
	}
	return c.broken(transcript.Clean(b.String()), c.OutTTY)
}

// A Palette styles text in the 16 colors of every terminal: one of the Themes, or none if it is "".
type Palette string

// Themes are the palettes, each with what it is for: the usual one, one of bright colors for dark screens, one without yellow and faint text for light
// screens, and one in which all that is styled is bold.
const (
	Usual    Palette = "default"
	Dark     Palette = "dark"
	Light    Palette = "light"
	Contrast Palette = "contrast"
)

// Themes lists the names of the palettes.
func Themes() []string { return []string{string(Usual), string(Dark), string(Light), string(Contrast)} }

// codes are the escape codes of the colors for faint text, failures, successes and what wants attention.
func (p Palette) codes() (dim, red, green, yellow string) {
	switch p {
	case Dark:
		return "37", "91", "92", "93"
	case Light:
		return "", "31", "32", "35"
	case Contrast:
		return "", "1;31", "1;32", "1;7"
	}
	return "2", "31", "32", "33"
}

func (p Palette) sgr(code, s string) string {
	if p == "" || s == "" || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Bold returns a text in bold type.
func (p Palette) Bold(s string) string { return p.sgr("1", s) }

// Dim returns a text in a dim color.
func (p Palette) Dim(s string) string {
	code, _, _, _ := p.codes()
	return p.sgr(code, s)
}

// Red returns the text of a failure.
func (p Palette) Red(s string) string {
	_, code, _, _ := p.codes()
	return p.sgr(code, s)
}

// Green returns the text of a success.
func (p Palette) Green(s string) string {
	_, _, code, _ := p.codes()
	return p.sgr(code, s)
}

// Yellow returns a text that wants attention.
func (p Palette) Yellow(s string) string {
	_, _, _, code := p.codes()
	return p.sgr(code, s)
}
