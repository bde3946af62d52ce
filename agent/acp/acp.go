// Package acp lets agents of other programs work in runs: opencode, Codex, Gemini, Qwen Code, Copilot, and every other that speaks the Agent Client
// Protocol, version 1.
//
// A Pool starts them. Pool.Model returns the model of an agent.Agent, which then works there, with the other program's own model and tools. Its turns
// and calls are recorded like those of other agents, and its permission requests are questions of the run.
package acp

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/internal/external"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// Options are the settings of NewPool. Nil means the defaults.
type Options struct {
	Environ []string      // of the agents' processes, as NAME=value
	Silence time.Duration // after which the user is told that an agent is silent; defaults to 40 s
	Limit   time.Duration // of silence, after which a turn is cancelled; defaults to 15 minutes
	Notice  func(text string)
}

// A Pool starts agents when they are first needed, and keeps their processes for further work: a start costs seconds. Its methods may be called from
// several goroutines.
type Pool struct {
	opt Options

	mu     sync.Mutex
	slots  map[string]*slot // by command and folder
	closed bool
}

// slot is the place of one process.
type slot struct {
	user string // the only place that uses it, if it offers our tools; guarded by the pool's mu

	mu sync.Mutex
	p  *process
}

// NewPool returns a pool without processes.
func NewPool(opt *Options) *Pool {
	pool := &Pool{slots: map[string]*slot{}}
	if opt != nil {
		pool.opt = *opt
	}
	if pool.opt.Silence <= 0 {
		pool.opt.Silence = 40 * time.Second
	}
	if pool.opt.Limit <= 0 {
		pool.opt.Limit = 15 * time.Minute
	}
	return pool
}

// Close ends all processes. Their turns are cancelled.
func (pool *Pool) Close() {
	pool.mu.Lock()
	pool.closed = true
	slots := pool.slots
	pool.mu.Unlock()
	var work sync.WaitGroup
	for _, sl := range slots {
		work.Go(func() {
			sl.mu.Lock()
			defer sl.mu.Unlock()
			if sl.p != nil {
				sl.p.end()
				sl.p.shut()
			}
		})
	}
	work.Wait()
}

// Model returns the agent of a command that works in a folder, as the Model of an agent.Agent. Nothing is started before it is needed. Dir is absolute.
func (pool *Pool) Model(c Command, dir string) model.Model { return &runner{pool, c, dir} }

// runner is one agent in one folder.
type runner struct {
	pool *Pool
	cmd  Command
	dir  string
}

// Name implements model.Model.
func (r *runner) Name() string { return Prefix + r.cmd.Name }

// Generate implements model.Model. It fails: an agent is no model.
func (r *runner) Generate(context.Context, *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		yield(model.Part{}, fmt.Errorf("%s is an agent and not a model: it can do the work of agents only, name a model for this", r.Name()))
	}
}

// process returns the running process, or starts one.
func (r *runner) process(ctx context.Context, st *external.Step) (*process, error) {
	pool, cmd := r.pool, r.cmd
	ours := len(st.Tools.Names()) > 0
	if ours {
		cmd.Env = slices.Concat(cmd.Env, cmd.withOurs)
	}
	sl, err := pool.slot(fmt.Sprintf("%q %q %q", cmd.Argv, cmd.Env, r.dir), ours, st)
	if err != nil {
		return nil, err
	}
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if sl.p != nil && sl.p.alive() {
		return sl.p, nil
	}
	if sl.p != nil {
		sl.p.end()
		sl.p.shut()
		sl.p = nil
	}
	stop := said(st, "starting "+r.cmd.Name)
	defer stop()
	sl.p, err = start(ctx, &cmd, r.dir, &pool.opt)
	return sl.p, err
}

// slot returns the slot for a step. A process that offers our tools works for one place at a time: opencode shows the MCP servers of one session to all
// sessions of its process.
func (pool *Pool) slot(key string, ours bool, st *external.Step) (*slot, error) {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if pool.closed {
		return nil, errors.New("no agents are started any more")
	}
	at, free := key, ""
	for n := 0; ours; n++ {
		at = fmt.Sprintf("%s, our tools %d", key, n)
		sl := pool.slots[at]
		if sl != nil && sl.user == st.Place {
			return sl, nil
		}
		if free == "" && (sl == nil || sl.user == "") {
			free = at
		}
		if sl == nil {
			at = free
			break
		}
	}
	sl := pool.slots[at]
	if sl == nil {
		sl = &slot{}
		pool.slots[at] = sl
	}
	if ours {
		sl.user = st.Place
	}
	return sl, nil
}

// said shows a message with the seconds that something takes, until the function it returns is called.
func said(st *external.Step, text string) (stop func()) {
	began, over, ended := time.Now(), make(chan struct{}), make(chan struct{})
	st.Note(text)
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				st.Note(fmt.Sprintf("%s… %d s", text, int(time.Since(began).Seconds())))
			case <-over:
				return
			}
		}
	}()
	return func() { close(over); <-ended; st.Note("") }
}

// Step implements external.Agent.
func (r *runner) Step(ctx context.Context, st *external.Step) (*external.Stepped, error) {
	p, err := r.process(ctx, st)
	if err != nil {
		return nil, err
	}
	if st.Session == "" {
		return r.begin(ctx, p, st)
	}
	s := p.session(st.Session)
	if st.Prompt == "" {
		if s != nil && s.live() {
			s.answer(st)
			return s.step(ctx, st, &r.pool.opt)
		}
		return &external.Stepped{Lost: true, Unheard: !st.Again, Stop: model.StopEnd}, nil // its process has ended since, and its turn with it
	}
	text := st.Prompt
	if s == nil || st.Again {
		if s != nil {
			s.cancel()
		}
		if s, err = p.load(ctx, st.Session, st.Tools); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			out, nerr := r.begin(ctx, p, &external.Step{Note: st.Note, Tools: st.Tools})
			if nerr != nil {
				return nil, nerr
			}
			out.Fresh, out.Lost = true, true
			out.Notes = append(out.Notes, fmt.Sprintf("%s cannot continue its session (%v), and begins a new one", r.cmd.Name, err))
			return out, nil
		}
		if st.Again {
			if _, has := s.after(st.Mark); has {
				text = external.Continue
			}
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s.prompt(text, st.Mark)
	return s.step(ctx, st, &r.pool.opt)
}

// begin opens a session: the one before, if the agent can continue it, or a new one.
func (r *runner) begin(ctx context.Context, p *process, st *external.Step) (*external.Stepped, error) {
	stop := said(st, "opening a session of "+r.cmd.Name)
	defer stop()
	if st.Prior != "" {
		if p.session(st.Prior) != nil && len(st.Tools.Names()) == 0 {
			return &external.Stepped{Session: st.Prior, Stop: model.StopEnd}, nil
		}
		if _, err := p.load(ctx, st.Prior, st.Tools); err == nil {
			return &external.Stepped{Session: st.Prior, Stop: model.StopEnd}, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s := newSession(p, "")
	servers, err := s.serve(ctx, st.Tools)
	if err != nil {
		return nil, err
	}
	var made opened
	if err := p.request(ctx, "session/new", map[string]any{"cwd": p.dir, "mcpServers": servers}, &made); err != nil {
		s.shut()
		return nil, err
	}
	s.id, s.based = made.ID, true // at zero
	p.keep(s)
	if err := s.force(ctx, &made); err != nil {
		return nil, err
	}
	note := fmt.Sprintf("%s works with your rights, outside of the sandbox", r.cmd.Name)
	switch {
	case s.tools != nil && len(r.cmd.withOurs) > 0:
		note += "; it has Superstep's tools in place of its own"
	case s.tools != nil:
		note += "; it has Superstep's tools beside its own"
	case len(st.Tools.Names()) > 0:
		note += "; it has its own tools, since it takes none from a server on HTTP"
	case r.cmd.Asks:
		note += "; it asks before it changes files or runs commands"
	}
	return &external.Stepped{Session: made.ID, Fresh: true, Stop: model.StopEnd, Notes: []string{note}}, nil
}

// opened is the answer to the requests that open sessions.
type opened struct {
	ID    string `json:"sessionId"`
	Modes *struct {
		Current   string `json:"currentModeId"`
		Available []struct {
			ID string `json:"id"`
		} `json:"availableModes"`
	} `json:"modes"`
}

// force sets the mode of the command: some agents start in one in which a model approves their calls.
func (s *session) force(ctx context.Context, made *opened) error {
	mode := s.p.cmd.Mode
	if mode == "" || made.Modes != nil && made.Modes.Current == mode {
		return nil
	}
	var known []string
	if made.Modes != nil {
		for _, m := range made.Modes.Available {
			known = append(known, m.ID)
		}
	}
	if !slices.Contains(known, mode) {
		return fmt.Errorf("%s has no mode %q, in which it asks before it acts (it has: %q); use another version of it", s.p.cmd.Name, mode, known)
	}
	var done struct{}
	return s.p.request(ctx, "session/set_mode", map[string]string{"sessionId": s.id, "modeId": mode}, &done)
}

// keep makes a session one of the process, in place of an earlier one of its ID.
func (p *process) keep(s *session) {
	p.mu.Lock()
	was := p.sessions[s.id]
	p.sessions[s.id] = s
	p.mu.Unlock()
	if was != nil {
		was.shut()
	}
}

// shut ends what sessions offered to a process that has ended.
func (p *process) shut() {
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.sessions))
	p.mu.Unlock()
	for _, s := range all {
		s.shut()
	}
}

// load opens a session of an earlier process. What the agent tells of it is in its past.
func (p *process) load(ctx context.Context, id string, tools *tool.Set) (*session, error) {
	if !p.loads {
		return nil, errNoLoad
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s := newSession(p, id)
	s.loads = true
	servers, err := s.serve(ctx, tools)
	if err != nil {
		return nil, err
	}
	p.keep(s)
	var made opened
	err = p.request(ctx, "session/load", map[string]any{"sessionId": id, "cwd": p.dir, "mcpServers": servers}, &made)
	if err == nil {
		err = s.force(ctx, &made)
	}
	if err != nil {
		p.mu.Lock()
		delete(p.sessions, id)
		p.mu.Unlock()
		s.shut()
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads = false
	return s, nil
}

// Look implements external.Agent.
func (r *runner) Look(ctx context.Context, st *external.Step) (*external.Stepped, error) {
	p, err := r.process(ctx, st)
	if err != nil {
		return nil, err
	}
	if s := p.session(st.Session); s != nil {
		s.cancel()
	}
	s, err := p.load(ctx, st.Session, st.Tools)
	if err != nil {
		return nil, context.Cause(ctx) // nobody can know, and the user is asked
	}
	return s.look(st), nil
}

// Leave implements external.Agent.
func (r *runner) Leave(place, id string, done bool) {
	r.pool.mu.Lock()
	slots := make([]*slot, 0, len(r.pool.slots))
	defer func() {
		r.pool.mu.Lock()
		defer r.pool.mu.Unlock()
		for _, sl := range slots {
			if sl.user == place {
				sl.user = ""
			}
		}
	}()
	for _, sl := range r.pool.slots {
		slots = append(slots, sl)
	}
	r.pool.mu.Unlock()
	for _, sl := range slots {
		sl.mu.Lock()
		p := sl.p
		sl.mu.Unlock()
		if p == nil {
			continue
		}
		if s := p.session(id); s != nil {
			if s.cancel(); done {
				s.shut()
			}
		}
	}
}
