package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// A lines is a connection of the SDK that exchanges messages line by line over two streams.
type lines struct {
	in    *bufio.Reader
	out   io.Writer
	write chan struct{} // holds one token: who has it writes
	stop  func()        // ends the streams; may be called again
	eof   chan struct{} // closed when nothing more is read
	fault *faultOnce
	open  open
	noise func(line string) // is told the first line that is no message; nil if such a line ends the connection
	loud  int               // how many there were
}

// maxNoise is how many lines of a server that are no messages are skipped.
const maxNoise = 1000

// A faultOnce keeps the first error, which explains all later ones.
type faultOnce struct{ first atomic.Pointer[wireError] }

func (f *faultOnce) set(err *wireError) { f.first.CompareAndSwap(nil, err) }
func (f *faultOnce) get() *wireError    { return f.first.Load() }

func newLines(in io.Reader, out io.Writer, stop func()) *lines {
	l := &lines{in: bufio.NewReaderSize(in, 64<<10), out: out, write: make(chan struct{}, 1), stop: stop, eof: make(chan struct{}), fault: new(faultOnce)}
	l.write <- struct{}{}
	return l
}

// Connect turns lines into a transport of the SDK, of one connection.
func (l *lines) Connect(context.Context) (sdk.Connection, error) { return l, nil }

// SessionID is "": there is one session.
func (*lines) SessionID() string { return "" }

// Read is called from one goroutine, and not again after an error. Close makes it return.
func (l *lines) Read(context.Context) (jsonrpc.Message, error) {
	for {
		line, err := readLine(l.in)
		if err != nil {
			close(l.eof)
			if wire, ok := errors.AsType[*wireError](err); ok {
				l.fault.set(wire)
			}
			return nil, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if line = bytes.TrimPrefix(line, []byte("\ufeff")); l.noise != nil && isNoise(line) && l.loud < maxNoise {
			if l.loud++; l.loud == 1 {
				l.noise(clean.Quote(oneLine(string(line[:min(len(line), 400)]), 80)))
			}
			continue
		}
		msg, wire := decodeMessage(line)
		if wire == nil {
			wire = l.open.read(msg)
		}
		if wire != nil {
			close(l.eof)
			l.fault.set(wire)
			return nil, wire
		}
		return msg, nil
	}
}

// isNoise reports whether a line is something else than a message, such as a banner or what somebody printed to look for a fault.
func isNoise(line []byte) bool {
	line = bytes.TrimSpace(line)
	return utf8.Valid(line) && !bytes.HasPrefix(line, []byte("{")) && (!bytes.HasPrefix(line, []byte("[")) || !json.Valid(line))
}

// readLine reads a line of bounded length. Text after the last newline is ignored.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > maxMessage {
			return nil, errTooLarge
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err == io.EOF && len(bytes.TrimSpace(line)) > 0 {
			return nil, io.ErrUnexpectedEOF
		}
		return line, err
	}
}

// Write writes a message whole. If ctx ends in the middle of a message, the connection ends, since
// the rest could not be parsed.
func (l *lines) Write(ctx context.Context, msg jsonrpc.Message) error {
	if _, ok := msg.(*jsonrpc.Response); ok {
		defer l.open.n.Add(-1)
	}
	b, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	select {
	case <-l.write:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { l.write <- struct{}{} }()
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := l.out.(interface{ SetWriteDeadline(time.Time) error }); ok {
		fired := make(chan struct{})
		release := context.AfterFunc(ctx, func() {
			defer close(fired)
			_ = deadline.SetWriteDeadline(time.Unix(1, 0)) // not all files can
		})
		defer func() {
			if !release() {
				<-fired
				_ = deadline.SetWriteDeadline(time.Time{})
			}
		}()
	}
	n, err := l.out.Write(append(b, '\n'))
	if err != nil && ctx.Err() != nil && n > 0 {
		l.fault.set(&wireError{what: "does not read what it is sent"})
		l.stop()
	}
	return err
}

// Close ends the streams.
func (l *lines) Close() error {
	l.stop()
	return nil
}

// A process is a server that was started.
type process struct {
	*lines
	cmd    *sandbox.Cmd
	stderr *procgroup.Tail
	exited chan struct{} // closed when the command ended
	done   chan struct{} // closed when nothing of it is left either
	exit   string        // how it ended, once exited is closed
	stdin  *os.File
	kill   context.CancelFunc
	wait   time.Duration // for it to end by itself
	ending sync.Once
}

// start runs the command of a server. Its variables must be replaced already.
func start(s *Server, d *Options) (*process, error) {
	dir := s.dir(d.Project)
	env := procgroup.Base(d.Environ)
	for k, v := range s.Env {
		env = append(env, k+"="+v)
	}
	command, err := findCommand(s.Command, dir, d.Environ)
	if err != nil {
		return nil, err
	}
	bounds, env, err := d.Sandbox.Reader().Declaring(s.Source.Path+"\x00"+s.Name, s.Source.Scope == scopeUser, s.Needs,
		append(append([]string{command}, s.Args...), dir), env)
	if err != nil {
		return nil, &wireError{what: "what it declares cannot be granted: " + err.Error(), fix: "correct it in " + s.Source.Path}
	}
	var pipes [3][2]*os.File
	closeAll := func() {
		for _, p := range pipes {
			for _, f := range p {
				if f != nil {
					f.Close()
				}
			}
		}
	}
	for i := range pipes {
		if pipes[i][0], pipes[i][1], err = os.Pipe(); err != nil {
			closeAll()
			return nil, err
		}
	}
	ctx, kill := context.WithCancel(context.Background()) // ends with the connection, not with whoever made it
	p := &process{cmd: bounds.Command(ctx, env, command, s.Args...), kill: kill, exited: make(chan struct{}), done: make(chan struct{}),
		stdin: pipes[0][1], wait: d.StopTimeout}
	p.stderr = &procgroup.Tail{Limit: maxStderr}
	p.cmd.Dir = dir
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = pipes[0][0], pipes[1][1], pipes[2][1]
	if err := p.cmd.Start(); err != nil {
		kill()
		closeAll()
		return nil, err
	}
	for _, f := range []*os.File{pipes[0][0], pipes[1][1], pipes[2][1]} {
		f.Close()
	}
	p.lines = newLines(pipes[1][0], p.stdin, p.end)
	p.noise = func(line string) {
		d.Warn(s.Name, "lines on its standard output that are no messages are skipped, such as "+line)
	}
	go p.reap(pipes[1][0], pipes[2][0])
	return p, nil
}

// reap waits for the end of a process, and makes sure that no process of it is left.
func (p *process) reap(stdout, stderr *os.File) {
	defer close(p.done)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(p.stderr, stderr) // until all that have it open are gone
	}()
	err := p.cmd.Wait()
	p.exit = "ended"
	if err != nil {
		p.exit = "ended (" + err.Error() + ")"
	}
	close(p.exited)
	// Its last output may still be in the pipe; processes that it started may hold the pipes open.
	const moment = 100 * time.Millisecond
	waitFor(drained, moment)
	p.stdin.Close()
	waitFor(p.eof, moment)
	waitFor(drained, moment)
	stdout.Close()
	stderr.Close()
	<-drained
	p.kill() // nothing is left of it; this ends what waits for the context
}

func waitFor(done <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// end ends a process: first by closing its input, then by a signal, then by killing it. It does not
// wait; done is closed when everything is gone.
func (p *process) end() {
	p.ending.Do(func() {
		p.stdin.Close()
		go func() {
			waitFor(p.done, p.wait)
			p.kill()
		}()
	})
}

// findCommand returns the path of a program. Nothing is looked for in the folder of the project
// unless the configuration says so by a slash.
func findCommand(name, dir string, environ []string) (string, error) {
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	path, err := procgroup.Look(environ, name)
	if err != nil {
		return "", fmt.Errorf("no program %s in PATH", clean.Quote(name))
	}
	return path, nil
}

// said returns the end of what a process wrote to its standard error, clean, from the beginning of
// a line.
func (p *process) said() string {
	text := p.stderr.Text(maxStderr)
	if strings.HasPrefix(text, "…") {
		if _, rest, ok := strings.Cut(text, "\n"); ok {
			text = rest
		}
	}
	return strings.TrimSpace(clean.Text(text))
}
