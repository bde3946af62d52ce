package tui

import (
	"fmt"
	"io"
	"os/exec"
)

// pausing is a command that has the whole terminal, and keeps what it printed on the screen until the user presses Enter.
type pausing struct{ *exec.Cmd }

func (p *pausing) SetStdin(r io.Reader)  { p.Stdin = r }
func (p *pausing) SetStdout(w io.Writer) { p.Stdout = w }
func (p *pausing) SetStderr(w io.Writer) { p.Stderr = w }

// Run implements tea.ExecCommand.
func (p *pausing) Run() error {
	err := p.Cmd.Run()
	_, _ = fmt.Fprint(p.Stdout, "\nEnter goes back. ")
	var b [1]byte
	for {
		if n, rerr := p.Stdin.Read(b[:]); rerr != nil || n == 1 && b[0] == '\n' {
			return err
		}
	}
}
