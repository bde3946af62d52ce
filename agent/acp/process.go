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
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

const (
	protocolVersion = 1
	startTimeout    = 2 * time.Minute // of the process until it answers, and of a session
	cancelTimeout   = 5 * time.Second // for the end of a turn that was cancelled
	mostStderr      = 8 << 10         // bytes that are kept of what it writes there
	mostLine        = 16 << 20        // bytes of an update; a longer one is left out
	mostOther       = 9 << 20         // bytes of other messages; the SDK ends the connection at 10 MiB
)

// A process is one running agent. It serves any number of sessions.
type process struct {
	cmd    *Command
	dir    string
	box    *sandbox.Sandbox // of this process, nil if it works with the user's rights
	exe    *sandbox.Cmd
	kill   context.CancelFunc
	rpc    *sdk.Connection
	stdin  *os.File
	stderr *procgroup.Tail
	loads  bool // it can load sessions
	http   bool // it takes tools from servers on HTTP
	exited chan struct{}
	broken atomic.Bool  // it takes no input any more
	spoke  atomic.Int64 // when it last sent anything, in Unix nanoseconds
	dead   atomic.Bool  // it is of no more use

	mu       sync.Mutex // held while the lock of a session is taken, never the reverse; the pool's lock comes before both
	sessions map[string]*session
	ending   sync.Once
}

// start starts an agent and greets it. One that ends meanwhile is tried again: several at once fight for the files they share.
func start(ctx context.Context, c *Command, dir string, opt *Options) (*process, error) {
	pauses := []time.Duration{200 * time.Millisecond, time.Second}
	for {
		p, err := startOnce(ctx, c, dir, opt)
		var ended *endedError
		if err == nil || len(pauses) == 0 || !errors.As(err, &ended) {
			return p, err
		}
		select {
		case <-time.After(pauses[0]):
			pauses = pauses[1:]
		case <-ctx.Done():
			return nil, err
		}
	}
}

func startOnce(ctx context.Context, c *Command, dir string, opt *Options) (_ *process, err error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() { // most agents accept a folder that is not there
		return nil, fmt.Errorf("%s: there is no folder %s to work in", c.Name, dir)
	}
	if len(c.Argv) == 0 {
		return nil, fmt.Errorf("agent %s has no command; give one", c.Name)
	}
	path, err := procgroup.Look(opt.Environ, c.Argv[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; install it, or name another agent", c.Name, err)
	}
	p := &process{cmd: c, dir: dir, stderr: &procgroup.Tail{Limit: mostStderr}, exited: make(chan struct{}), sessions: map[string]*session{}}
	p.spoke.Store(time.Now().UnixNano())
	if opt.Sandbox != nil && !c.Needs.Off {
		if p.box, err = opt.Sandbox(c, dir); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	if err := p.launch(ctx, path, opt); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", c.Name, err), p.box.Close())
	}
	if err := p.greet(ctx); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// launch starts the program.
func (p *process) launch(ctx context.Context, path string, opt *Options) (err error) {
	bounds, env, err := p.box.Declaring(Prefix+p.cmd.Name, true, p.cmd.Needs, append([]string{path}, p.cmd.Argv[1:]...), p.cmd.environ(opt.Environ))
	if err != nil {
		return err
	}
	var pipes [3][2]*os.File
	for i := range pipes {
		if pipes[i][0], pipes[i][1], err = os.Pipe(); err != nil {
			break
		}
	}
	theirs, ours := []*os.File{pipes[0][0], pipes[1][1], pipes[2][1]}, []*os.File{pipes[0][1], pipes[1][0], pipes[2][0]}
	if err == nil {
		ctx, p.kill = context.WithCancel(context.WithoutCancel(ctx)) // it lives longer than the step that starts it
		p.exe = bounds.Command(ctx, env, path, p.cmd.Argv[1:]...)
		p.exe.Dir, p.exe.Stdin, p.exe.Stdout, p.exe.Stderr = p.dir, theirs[0], theirs[1], theirs[2]
		if err = p.exe.Start(); err != nil {
			p.kill()
		}
	}
	for _, f := range theirs {
		_ = f.Close() // it is the other process's, or nil
	}
	if err != nil {
		for _, f := range ours {
			_ = f.Close()
		}
		return err
	}
	p.stdin = ours[0]
	rest, feed := io.Pipe()
	go p.read(ours[1], feed)
	go p.reap(ours[1], ours[2], opt.Notice)
	p.rpc = sdk.NewConnection(p.handle, writer{p}, rest)
	p.rpc.SetLogger(slog.New(slog.DiscardHandler))
	return nil
}

// A writer is the standard input of a process; it notes that the process reads no more.
type writer struct{ p *process }

func (w writer) Write(b []byte) (int, error) {
	n, err := w.p.stdin.Write(b)
	if err != nil {
		w.p.broken.Store(true)
	}
	return n, err
}

// reap waits until nothing of the process is left.
func (p *process) reap(stdout, stderr *os.File, notice func(string)) {
	defer close(p.exited)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(p.stderr, stderr) // until all that have it open are gone
	}()
	err := p.exe.Wait() // how it ended is told by what it left undone
	select {
	case <-drained:
	case <-time.After(100 * time.Millisecond):
	}
	_, _ = stdout.Close(), stderr.Close() // also where a process that escaped holds the other end
	<-drained
	p.kill()
	if tool.Stops(err) && notice != nil {
		notice(p.cmd.Name + ": " + err.Error())
	}
	for _, text := range p.exe.Refusals() {
		if notice != nil {
			notice(p.cmd.Name + ": " + text)
		}
	}
	_ = p.box.Close() // what is left there is removed by a later one
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
		_ = json.Unmarshal(raw, result) // what does not fit is as if it were not there
		return nil
	}
	var refused *sdk.RequestError
	if p.broken.Load() {
		return p.gone() // a broken pipe is no reason
	}
	select {
	case <-p.rpc.Done():
		return p.gone()
	default:
	}
	const authRequired = -32000
	switch {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return fmt.Errorf("no answer to %s within %s%s", method, startTimeout, p.said())
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
	state := "closed the connection"
	select {
	case <-p.exited:
		state = "ended (" + p.exe.ProcessState.String() + ")"
	case <-time.After(procgroup.Grace):
	}
	return &endedError{fmt.Sprintf("%s has %s%s", p.cmd.Name, state, p.said())}
}

// An endedError says that a process works no more.
type endedError struct{ text string }

func (e *endedError) Error() string { return e.text }

// said returns the last lines of its standard error, and what the sandbox may have refused it, for the end of an error.
func (p *process) said() string {
	text := strings.TrimSpace(clean.Text(p.stderr.Text(mostStderr)))
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	out := strings.Join(lines[max(0, len(lines)-3):], " | ")
	if out = out[max(0, len(out)-500):]; out != "" {
		out = ": " + out
	}
	if p.box.Mode() != sandbox.None {
		if hint := p.exe.Missing(p.cmd.Name, p.cmd.Needs, "agents.yaml", text); hint != "" {
			out += "; " + hint
		}
	}
	return out
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
	p.dead.Store(true)
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

// end ends the process: its turns are cancelled and its input is closed; after procgroup.Grace its group is told
// to end, and after another it is killed.
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
		select {
		case <-p.exited:
		case <-time.After(procgroup.Grace):
			p.kill()
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
