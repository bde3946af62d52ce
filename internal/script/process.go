package script

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// A job is one run of a foreign program.
type job struct {
	sandbox *sandbox.Sandbox // nil for none
	refused func(...string)  // is told what the sandbox refused, nil for nobody
	cmd     *sandbox.Cmd     // set by do
	name    string
	args    []string
	env     []string
	dir     string
	stdin   []byte // nil for an empty standard input, which is never a terminal
	// The readers of the outputs. Each reads to the end, whatever the size. Answers is a pipe of
	// its own for the program, as descriptor 3; nil for none.
	stdout, stderr, answers func(io.Reader)
}

// do runs a program to its end and kills what it left behind. It does not wait for processes that
// still hold a pipe after that. The state is nil if the program never started. The error is why it
// did not start or, if ctx has ended, the cause of that.
func (j *job) do(ctx context.Context) (*os.ProcessState, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	cmd := j.sandbox.Command(ctx, j.env, j.name, j.args...)
	cmd.Dir, j.cmd = j.dir, cmd
	var theirs, mine []*os.File
	closeAll := func(files []*os.File) {
		for _, f := range files {
			_ = f.Close() // the pipes are done with
		}
	}
	defer func() { closeAll(mine) }()
	var work sync.WaitGroup
	var start []func()
	reader := func(read func(io.Reader)) (*os.File, error) {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		theirs, mine = append(theirs, w), append(mine, r)
		start = append(start, func() { read(r) })
		return w, nil
	}
	var err error
	pipes := func() error {
		if cmd.Stdout, err = reader(j.stdout); err != nil {
			return err
		}
		if cmd.Stderr, err = reader(j.stderr); err != nil {
			return err
		}
		if j.answers != nil {
			w, err := reader(j.answers)
			if err != nil {
				return err
			}
			cmd.ExtraFiles = []*os.File{w}
		}
		if j.stdin == nil {
			return nil
		}
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		theirs, mine = append(theirs, r), append(mine, w)
		cmd.Stdin = r
		start = append(start, func() {
			_, _ = w.Write(j.stdin) // whether it reads all of it is the program's business
			_ = w.Close()
		})
		return nil
	}
	if err := pipes(); err != nil {
		closeAll(theirs)
		return nil, err
	}
	err = cmd.Start()
	closeAll(theirs)
	if err != nil {
		return nil, err
	}
	for _, f := range start {
		work.Go(f)
	}
	err = cmd.Wait()
	if j.refused != nil {
		j.refused(cmd.Refusals()...)
	}
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()
	late := time.NewTimer(procgroup.Grace)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C: // somebody who got away holds a pipe
		closeAll(mine)
		<-done
	}
	if ctx.Err() != nil {
		return cmd.ProcessState, context.Cause(ctx)
	}
	if cmd.ProcessState == nil || tool.Stops(err) {
		return nil, err
	}
	return cmd.ProcessState, nil
}

// within returns the sandbox of a program that declares what it needs in a file, and whose command
// line has these words.
func (o *Options) within(file string, needs sandbox.Needs, words, env []string) (*sandbox.Sandbox, []string, error) {
	s, env, err := o.Sandbox.Declaring(file, false, needs, words, env)
	if err != nil {
		return nil, nil, fmt.Errorf("what %s declares cannot be granted: %w", file, err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(file)) // tools of the user are in no project
	if err != nil {
		return nil, nil, err
	}
	s, err = s.With(sandbox.Policy{Read: []string{dir}})
	return s, env, err
}

// lacking adds to an error of a program the likely role of the sandbox.
func (j *job) lacking(err error, needs sandbox.Needs, file string) error {
	if text := j.cmd.Missing("it", needs, file, err.Error()); text != "" {
		return fmt.Errorf("%w; %s", err, text)
	}
	return err
}

// into reads until the program ends.
func into(w io.Writer) func(io.Reader) {
	return func(r io.Reader) { _, _ = io.Copy(w, r) }
}

// A head keeps the beginning of what it reads and counts the rest.
type head struct {
	limit   int
	kept    []byte
	dropped int64
}

// Write never fails.
func (h *head) Write(b []byte) (int, error) {
	k := min(len(b), h.limit-len(h.kept))
	h.kept = append(h.kept, b[:k]...)
	h.dropped += int64(len(b) - k)
	return len(b), nil
}

// text returns the kept text, without half a character at its end.
func (h *head) text() string {
	b := h.kept
	for n := 1; h.dropped > 0 && n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				b = b[:len(b)-n]
			}
			break
		}
	}
	return string(b)
}

// stateText describes for users how a program ended.
func stateText(s *os.ProcessState) string {
	if s == nil {
		return "it did not start"
	}
	return s.String()
}
