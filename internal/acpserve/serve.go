// Package acpserve is Superstep as an agent of the Agent Client Protocol, version 1: editors start it and talk to it over standard input and output.
//
// A session is a chat, and each workflow that is started in it by a slash command is a run beside it. The chat has the ID of the session; further runs have
// that ID with a number behind it, so a session is found again without any file of its own. Runs execute in processes of their own: an editor that goes
// away changes none of them.
package acpserve

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
)

// A Folder is what the server needs of the program in one folder; see tui.Backend. Its methods may run at the same time.
type Folder interface {
	Catalog(ctx context.Context) (*tui.Catalog, error)
	Start(ctx context.Context, s *tui.Start) (run string, err error)
	Command(ctx context.Context, args ...string) (output string, err error)
}

// Options configure a server. Engine and Open are required.
type Options struct {
	Name, Version string
	// Engine returns an engine that reads runs and sends requests to them.
	Engine func(ctx context.Context) (*superstep.Engine, error)
	// Open returns an existing folder, by its absolute path. It is called once for each.
	Open func(dir string) (Folder, error)
}

// Serve serves one client until its end of in, or until ctx ends. Goroutines that write to a client which reads nothing may outlive it.
func Serve(ctx context.Context, in io.Reader, out io.Writer, opt *Options) error {
	engine, err := opt.Engine(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := &server{ctx: ctx, opt: *opt, engine: engine, seen: make(chan struct{}, 1), sessions: map[string]*session{}, folders: map[string]Folder{}}
	s.methods = s.understood()
	lines, feed := io.Pipe()
	s.conn = sdk.NewConnection(s.handle, out, lines)
	s.conn.SetLogger(slog.New(slog.DiscardHandler)) // it would log what is said
	go func() {
		_ = feed.CloseWithError(shorten(in, func(line []byte) error { return s.read(feed, line) }))
	}()
	select {
	case <-s.conn.Done():
	case <-ctx.Done():
	}
	return nil
}

// mostLine is how many bytes a message of the client may have: the connection would end at 10 MiB.
const mostLine = 8 << 20

// offerDelay lets a client learn the ID of a new session before the first update of it: clients drop updates of others.
const offerDelay = 100 * time.Millisecond

// shorten passes lines on, and cuts those that are too long, which are no messages then.
func shorten(in io.Reader, out func(line []byte) error) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for line := []byte(nil); ; {
		part, err := r.ReadSlice('\n')
		line = append(line, part[:min(len(part), mostLine-1-len(line))]...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err == nil && !bytes.HasSuffix(line, []byte("\n")) {
			line = append(line, '\n')
		}
		if werr := out(line); werr != nil {
			return werr
		}
		if line = line[:0]; err != nil {
			return err
		}
	}
}

// read passes on a line. The connection handles requests side by side, so it waits until one that is handled has its place in its session.
func (s *server) read(out io.Writer, line []byte) error {
	var m struct {
		ID     *json.RawMessage
		Method string
		Error  *sdk.RequestError
	}
	waits := json.Unmarshal(line, &m) == nil && s.methods[m.Method] != nil
	select {
	case <-s.seen:
	default:
	}
	if _, err := out.Write(line); err != nil || !waits {
		return err
	}
	select {
	case <-s.seen:
	case <-s.conn.Done():
	case <-time.After(time.Second): // it is no request for the connection
	}
	return nil
}

type server struct {
	ctx    context.Context
	opt    Options
	engine *superstep.Engine
	conn   *sdk.Connection

	methods map[string]func(context.Context, *params) (any, error)
	seen    chan struct{} // is full once a request has its place

	mu       sync.Mutex
	forms    bool // the client shows forms
	sessions map[string]*session
	folders  map[string]Folder
}

// params are the parameters of all requests that are understood. Those of a block of an unknown kind have no text.
type params struct {
	ProtocolVersion    int
	ClientCapabilities struct {
		Elicitation *struct{ Form *struct{} }
	}
	SessionID  string `json:"sessionId"`
	Cwd        string
	Cursor     string
	ModeID     string `json:"modeId"`
	ConfigID   string `json:"configId"`
	Value      any
	MCPServers []json.RawMessage `json:"mcpServers"`
	Prompt     []block
	place      *place // among those to its session, nil if that is not open
}

// understood returns the requests and notifications that are understood, by their methods.
func (s *server) understood() map[string]func(context.Context, *params) (any, error) {
	return map[string]func(context.Context, *params) (any, error){
		sdk.AgentMethodInitialize:   s.initialize,
		sdk.AgentMethodAuthenticate: func(context.Context, *params) (any, error) { return struct{}{}, nil },
		sdk.AgentMethodSessionNew:   s.begin,
		sdk.AgentMethodSessionLoad:  func(ctx context.Context, p *params) (any, error) { return s.load(ctx, p, true) },
		sdk.AgentMethodSessionResume: func(ctx context.Context, p *params) (any, error) {
			return s.load(ctx, p, false)
		},
		sdk.AgentMethodSessionList:            s.list,
		sdk.AgentMethodSessionClose:           within((*session).end),
		sdk.AgentMethodSessionPrompt:          within((*session).prompt),
		sdk.AgentMethodSessionCancel:          within((*session).cancel),
		sdk.AgentMethodSessionSetMode:         within((*session).setMode),
		sdk.AgentMethodSessionSetConfigOption: within((*session).setOption),
	}
}

// handle answers a request, or takes a notification.
func (s *server) handle(ctx context.Context, method string, raw json.RawMessage) (any, *sdk.RequestError) {
	do := s.methods[method]
	if do == nil {
		return nil, sdk.NewMethodNotFound(method)
	}
	var p params
	var err error
	if len(raw) > 0 {
		err = json.Unmarshal(raw, &p)
	}
	s.mu.Lock()
	x := s.sessions[p.SessionID]
	s.mu.Unlock()
	if x != nil && err == nil {
		p.place = x.enter(method == sdk.AgentMethodSessionCancel || method == sdk.AgentMethodSessionClose)
		defer p.place.leave()
	}
	select {
	case s.seen <- struct{}{}:
	default: // nobody waits
	}
	if err != nil {
		return nil, refused(-32602, method+": "+err.Error())
	}
	out, err := do(ctx, &p)
	if request, ok := errors.AsType[*sdk.RequestError](err); ok {
		return nil, request
	}
	if err != nil {
		return nil, refused(-32603, transcript.Clean(err.Error()))
	}
	return out, nil
}

// refused returns the error of a request with a text for people.
func refused(code int, text string) *sdk.RequestError {
	return &sdk.RequestError{Code: code, Message: text}
}

// within returns the handler of a request to an open session.
func within(do func(*session, context.Context, *params) (any, error)) func(context.Context, *params) (any, error) {
	return func(ctx context.Context, p *params) (any, error) {
		if p.place == nil {
			return nil, refused(-32602, fmt.Sprintf("session %q is not open here; load it first", p.SessionID))
		}
		return do(p.place.session, ctx, p)
	}
}

func (s *server) initialize(_ context.Context, p *params) (any, error) {
	s.mu.Lock()
	s.forms = p.ClientCapabilities.Elicitation != nil && p.ClientCapabilities.Elicitation.Form != nil
	s.mu.Unlock()
	return &sdk.InitializeResponse{
		ProtocolVersion: sdk.ProtocolVersionNumber, AuthMethods: []sdk.AuthMethod{},
		AgentInfo: &sdk.Implementation{Name: s.opt.Name, Title: sdk.Ptr("Superstep"), Version: s.opt.Version},
		AgentCapabilities: sdk.AgentCapabilities{
			LoadSession: true, PromptCapabilities: sdk.PromptCapabilities{EmbeddedContext: true},
			SessionCapabilities: sdk.SessionCapabilities{
				List: &sdk.SessionListCapabilities{}, Resume: &sdk.SessionResumeCapabilities{}, Close: &sdk.SessionCloseCapabilities{},
			},
		},
	}, nil
}

// folder returns a folder by its path.
func (s *server) folder(dir string) (Folder, error) {
	if info, err := os.Stat(dir); !filepath.IsAbs(dir) || err != nil || !info.IsDir() {
		return nil, refused(-32602, fmt.Sprintf("cwd: there is no folder %q; give the absolute path of one", dir))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.folders[dir]; f != nil {
		return f, nil
	}
	f, err := s.opt.Open(dir)
	if err == nil {
		s.folders[dir] = f
	}
	return f, err
}

// open opens a session, in the place of one of that ID.
func (s *server) open(id, dir string) (*session, error) {
	f, err := s.folder(dir)
	if err != nil {
		return nil, err
	}
	x := &session{server: s, id: id, dir: dir, folder: f, changed: make(chan struct{}), asking: make(chan struct{}, 1)}
	x.ctx, x.close = context.WithCancel(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.sessions[id]; was != nil {
		was.close()
	}
	s.sessions[id] = x
	return x, nil
}

// opened is the answer to the requests that open a session.
type opened struct {
	Meta          map[string]any            `json:"_meta"`
	SessionID     string                    `json:"sessionId,omitempty"`
	Modes         sdk.SessionModeState      `json:"modes"`
	ConfigOptions []sdk.SessionConfigOption `json:"configOptions,omitempty"`
}

func (x *session) opened(ctx context.Context) *opened {
	return &opened{Meta: meta(x.id), Modes: x.modes(), ConfigOptions: x.options(ctx)}
}

// meta names the run that an answer is about.
func meta(run string) map[string]any {
	return map[string]any{"superstep": map[string]string{"run": run}}
}

func (s *server) begin(ctx context.Context, p *params) (any, error) {
	x, err := s.open(fmt.Sprintf("%08x", rand.Uint32()), p.Cwd)
	if err != nil {
		return nil, err
	}
	x.unused = len(p.MCPServers)
	out := x.opened(ctx)
	out.SessionID = x.id
	time.AfterFunc(offerDelay, x.offer)
	return out, nil
}

// runs returns the runs of a session, the oldest first.
func (s *server) runs(ctx context.Context, id string) ([]runlog.Info, error) {
	if runlog.CheckID(id) != nil {
		return nil, nil
	}
	infos, err := s.engine.Runs(ctx, &runlog.Filter{Prefix: id})
	infos = slices.DeleteFunc(infos, func(i runlog.Info) bool { return i.ID != id && base(i.ID) != id || i.Head == 0 })
	slices.SortFunc(infos, func(a, b runlog.Info) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return infos, err
}

var numbered = regexp.MustCompile(`^([0-9a-f]{8})-[0-9]{1,4}$`)

// base returns the ID of the session that a further run was begun in, "" for other runs.
func base(id string) string {
	if m := numbered.FindStringSubmatch(id); m != nil {
		return m[1]
	}
	return ""
}

// load opens a session with the runs that it has, and tells all that was said, if replay is set.
func (s *server) load(ctx context.Context, p *params, replay bool) (any, error) {
	infos, err := s.runs(ctx, p.SessionID)
	if err == nil && len(infos) == 0 {
		err = refused(-32002, fmt.Sprintf("there is no session %q in this store", p.SessionID))
	}
	if err != nil {
		return nil, err
	}
	x, err := s.open(p.SessionID, p.Cwd)
	if err != nil {
		return nil, err
	}
	x.unused = len(p.MCPServers)
	for i := range infos {
		v := x.view(infos[i].ID)
		v.mute = !replay
		if err := x.catchUp(ctx, v, &infos[i]); err != nil {
			return nil, err
		}
	}
	go x.offer()
	return x.opened(ctx), nil
}

// page is how many sessions one answer lists.
const page = 50

// list lists the chats of the store, the newest first. Cursor is how many were listed before.
func (s *server) list(ctx context.Context, p *params) (any, error) {
	infos, err := s.engine.Runs(ctx, nil)
	if err != nil {
		return nil, err
	}
	from, _ := strconv.Atoi(p.Cursor) // "" is the first
	out := &sdk.ListSessionsResponse{Sessions: []sdk.SessionInfo{}}
	for i := max(0, from); i < len(infos); i++ {
		info := &infos[i]
		if info.Workflow != chatWorkflow || info.Head == 0 || base(info.ID) != "" {
			continue
		}
		var in struct{ Dir string }
		for rec, err := range s.engine.Follow(ctx, info.ID, 0) {
			var d runlog.RunStarted
			if err == nil && json.Unmarshal(rec.Data, &d) == nil {
				_ = json.Unmarshal(d.Inputs, &in) // else it is nowhere
			}
			break
		}
		if in.Dir == "" || p.Cwd != "" && in.Dir != p.Cwd {
			continue
		}
		if len(out.Sessions) == page {
			out.NextCursor = sdk.Ptr(strconv.Itoa(i))
			break
		}
		out.Sessions = append(out.Sessions, sdk.SessionInfo{
			SessionId: sdk.SessionId(info.ID), Cwd: in.Dir, Title: sdk.Ptr(transcript.Line(info.Title)),
			UpdatedAt: sdk.Ptr(info.Updated.UTC().Format(time.RFC3339)), Meta: meta(info.ID),
		})
	}
	return out, nil
}
