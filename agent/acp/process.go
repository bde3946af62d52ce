package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/procgroup"
)

const (
	protocolVersion = 1
	startTimeout    = 60 * time.Second // of the process until it answers, and of a session
	cancelTimeout   = 5 * time.Second  // for the end of a turn that was cancelled
	mostStderr      = 8 << 10          // bytes that are kept of what it writes there
	mostLine        = 64 << 20         // bytes of an update; a longer one is left out
	mostOther       = 9 << 20          // bytes of other messages; the SDK ends the connection at 10 MiB
)

// A process is one running agent. It serves any number of sessions.
type process struct {
	cmd    *Command
	dir    string
	exe    *exec.Cmd
	rpc    *sdk.Connection
	stdin  *os.File
	stderr *ring
	loads  bool // it can load sessions
	http   bool // it takes tools from servers on HTTP
	exited chan struct{}
	spoke  atomic.Int64 // when it last sent anything, in Unix nanoseconds

	mu       sync.Mutex
	sessions map[string]*session
	dead     error
	ending   sync.Once
}

// start starts an agent and greets it.
func start(ctx context.Context, c *Command, dir string, opt *Options) (_ *process, err error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() { // most agents accept a folder that is not there
		return nil, fmt.Errorf("%s: there is no folder %s to work in", c.Name, dir)
	}
	if len(c.Argv) == 0 {
		return nil, fmt.Errorf("agent %s has no command; give one", c.Name)
	}
	p := &process{cmd: c, dir: dir, stderr: &ring{}, exited: make(chan struct{}), sessions: map[string]*session{}}
	p.spoke.Store(time.Now().UnixNano())
	// The process lives longer than the step that starts it.
	p.exe = procgroup.Command(context.WithoutCancel(ctx), c.environ(opt.Environ), c.Argv[0], c.Argv[1:]...)
	if p.exe.Err != nil {
		return nil, fmt.Errorf("%s: %w; install it, or name another agent", c.Name, p.exe.Err)
	}
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), stdin.Close())
	}
	p.exe.Dir, p.exe.Stdin, p.exe.Stdout, p.exe.Stderr, p.stdin = dir, in, stdout, p.stderr, stdin
	err = p.exe.Start()
	err = errors.Join(err, in.Close(), stdout.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", c.Name, err), stdin.Close(), out.Close())
	}
	go func() {
		defer close(p.exited)
		_ = p.exe.Wait() // how it ended is told by what it left undone
		procgroup.Sweep(p.exe.Process, p.exe.Env)
		_ = out.Close() // also where a process that escaped holds the other end
	}()
	rest, feed := io.Pipe()
	go p.read(out, feed)
	p.rpc = sdk.NewConnection(p.handle, stdin, rest)
	p.rpc.SetLogger(slog.New(slog.DiscardHandler))
	if err := p.greet(ctx); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// greet negotiates the protocol.
func (p *process) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var hello struct {
		ProtocolVersion   int `json:"protocolVersion"`
		AgentCapabilities struct {
			LoadSession bool `json:"loadSession"`
			MCP         struct {
				HTTP bool `json:"http"`
			} `json:"mcpCapabilities"`
		} `json:"agentCapabilities"`
	}
	err := p.request(ctx, "initialize", map[string]any{
		"protocolVersion":    protocolVersion,
		"clientCapabilities": map[string]any{"fs": map[string]bool{"readTextFile": false, "writeTextFile": false}, "terminal": false},
		"clientInfo":         map[string]string{"name": "superstep", "version": "1"},
	}, &hello)
	if err != nil {
		return fmt.Errorf("%s does not start: %w", p.cmd.Name, err)
	}
	if hello.ProtocolVersion != protocolVersion {
		return fmt.Errorf("%s speaks version %d of the Agent Client Protocol, and Superstep version %d; use another version of it", p.cmd.Name,
			hello.ProtocolVersion, protocolVersion)
	}
	p.loads, p.http = hello.AgentCapabilities.LoadSession, hello.AgentCapabilities.MCP.HTTP
	return nil
}

// request sends a request and decodes its result.
func (p *process) request(ctx context.Context, method string, params, result any) error {
	raw, err := sdk.SendRequest[json.RawMessage](p.rpc, ctx, method, params)
	if err == nil {
		return json.Unmarshal(raw, result)
	}
	var refused *sdk.RequestError
	select {
	case <-p.rpc.Done():
		return p.gone()
	default:
	}
	const authRequired = -32000
	switch {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return fmt.Errorf("no answer to %s within %s%s", method, startTimeout, p.stderr.tail())
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &refused) && refused.Code == authRequired:
		return &signInError{p.cmd.Name, p.cmd.Login}
	case errors.As(err, &refused):
		return fmt.Errorf("%s: %s%s", method, clean.Text(refused.Message), detail(refused.Data))
	}
	return err
}

// detail returns what an error says besides its message.
func detail(data any) string {
	b, err := json.Marshal(data)
	if err != nil || data == nil {
		return ""
	}
	text := clean.Text(string(b))
	return " " + text[:min(len(text), 300)]
}

// gone returns why the process does not answer any more.
func (p *process) gone() error {
	select {
	case <-p.exited:
	case <-time.After(procgroup.Grace):
	}
	state := "closed the connection"
	if s := p.exe.ProcessState; s != nil {
		state = "ended (" + s.String() + ")"
	}
	return fmt.Errorf("%s has %s%s", p.cmd.Name, state, p.stderr.tail())
}

// read hands updates to their sessions in the order in which they come, and everything else to the SDK. So a response never overtakes what was said
// before it, no number of updates is too large, and no update is too long.
func (p *process) read(from io.ReadCloser, to *io.PipeWriter) {
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		line, size, err := readLine(r, mostLine)
		if err != nil {
			_ = to.CloseWithError(err) // never fails
			p.fail()
			return
		}
		p.spoke.Store(time.Now().UnixNano())
		var msg struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		switch {
		case size > mostLine:
			p.everywhere(fmt.Sprintf("%s sent a message of %d MiB, which was left out", p.cmd.Name, size>>20))
		case json.Unmarshal(line, &msg) != nil: // such as what some library prints
		case msg.Method == "session/update" && msg.ID == nil:
			p.update(msg.Params)
		case size > mostOther:
			_ = to.CloseWithError(fmt.Errorf("a message of %d MiB is too long", size>>20)) // never fails
			p.fail()
			return
		default:
			if _, err := to.Write(append(line, '\n')); err != nil {
				p.fail()
				return
			}
		}
	}
}

// readLine reads a line. Of one that is longer than most it returns the size alone.
func readLine(r *bufio.Reader, most int) (line []byte, size int, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if size += len(part); size <= most {
			line = append(line, part...)
		} else {
			line = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), size, err
		}
	}
}

// handle answers the agent's requests.
func (p *process) handle(ctx context.Context, method string, params json.RawMessage) (any, *sdk.RequestError) {
	if method == "session/request_permission" {
		return p.permission(ctx, params)
	}
	return nil, sdk.NewMethodNotFound(method) // also for files: it was told that it has to do that itself
}

// fail tells all sessions that the process is of no more use.
func (p *process) fail() {
	p.mu.Lock()
	p.dead = errors.New("it has ended")
	p.mu.Unlock()
	err := p.gone()
	p.mu.Lock()
	all := make([]*session, 0, len(p.sessions))
	for _, s := range p.sessions {
		all = append(all, s)
	}
	p.mu.Unlock()
	for _, s := range all {
		s.push(event{kind: eventEnd, err: err})
	}
}

func (p *process) everywhere(note string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sessions {
		s.push(event{kind: eventNote, text: note})
	}
}

func (p *process) session(id string) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sessions[id]
}

func (p *process) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead == nil
}

// end ends the process: its turns are cancelled and its input is closed; after a moment its group is told to end, and then killed.
func (p *process) end() {
	p.ending.Do(func() {
		p.mu.Lock()
		for id, s := range p.sessions {
			if s.working() {
				go func() {
					_ = p.rpc.SendNotification(context.Background(), "session/cancel", map[string]string{"sessionId": id})
				}() // it may not read
			}
		}
		busy := len(p.sessions) > 0
		p.mu.Unlock()
		if busy {
			time.Sleep(20 * time.Millisecond) // for the cancellations to be written
		}
		_ = p.stdin.Close()
		for _, next := range []func(*os.Process){procgroup.Terminate, procgroup.Kill, func(*os.Process) {}} {
			select {
			case <-p.exited:
				return
			case <-time.After(procgroup.Grace):
				next(p.exe.Process)
			}
		}
	})
	<-p.exited
}

// A signInError reports that the user has to sign in to an agent.
type signInError struct{ agent, login string }

func (e *signInError) Error() string {
	how := "sign in to it"
	if e.login != "" {
		how = "sign in with: " + e.login
	}
	return fmt.Sprintf("%s is not signed in; %s", e.agent, how)
}

// FailureCode returns the code of runs that fail with the error.
func (e *signInError) FailureCode() string { return "not_signed_in" }

// ring keeps the end of what a process writes to its standard error.
type ring struct {
	mu   sync.Mutex
	kept []byte
}

// Write implements io.Writer.
func (r *ring) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(r.kept, b...)
	if n := len(r.kept) - mostStderr; n > 0 {
		r.kept = append(r.kept[:0:0], r.kept[n:]...)
	}
	return len(b), nil
}

// tail returns the last lines, for the end of an error.
func (r *ring) tail() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(clean.Text(string(r.kept))), "\n")
	text := strings.Join(lines[max(0, len(lines)-3):], " | ")
	if text == "" {
		return ""
	}
	return ": " + text[max(0, len(text)-500):]
}
