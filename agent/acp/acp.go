// Package acp lets agents of other programs work in runs: opencode, Codex, Gemini, Qwen Code, Copilot, and every other that speaks the Agent Client
// Protocol, version 1.
//
// A Pool starts them. Pool.Model returns the model of an agent.Agent, which then works there, with the other program's own model and tools. Its turns
// and calls are recorded like those of other agents, and its permission requests are questions of the run.
package acp

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/external"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// Options are the settings of NewPool. Nil means the defaults.
type Options struct {
	Environ []string      // of the user, as NAME=value; agents are given the part of it that they need
	Silence time.Duration // after which the user is told that an agent is silent; defaults to 40 s
	Limit   time.Duration // of silence, after which a turn is cancelled; defaults to 15 minutes
	Turn    time.Duration // of work, after which a turn is cancelled; defaults to 2 hours. Waiting for the user does not count
	// Processes is how many agents run at once, 4 by default. Those that are idle are ended when others need their place, and after Idle, which is 5
	// minutes by default. Their sessions are loaded when they are continued.
	Processes int
	Idle      time.Duration
	// Sandbox opens the sandbox of a process that works in a folder; the pool closes it. If nil, or if it returns nil, the agent has the user's rights.
	Sandbox func(c *Command, dir string) (*sandbox.Sandbox, error)
	Notice  func(text string) // is told what an agent tried that the sandbox refused; from any goroutine
}

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

// Step implements external.Agent.
func (r *runner) Step(ctx context.Context, st *external.Step) (*external.Stepped, error) {
	p, release, err := r.pool.take(ctx, &r.cmd, r.dir, st)
	if err != nil {
		return nil, err
	}
	defer release()
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
	s.prompt(text, st.Mark, st.Trace)
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
	if made.ID == "" || len(made.ID) > mostTitle || p.session(made.ID) != nil {
		s.shut()
		return nil, fmt.Errorf("%s gave no session of its own (%q); use another version of it", r.cmd.Name, cut(made.ID, 60))
	}
	s.id, s.based = made.ID, true // at zero
	p.keep(s)
	if err := s.force(ctx, &made); err != nil {
		return nil, err
	}
	note := fmt.Sprintf("%s works with your rights, outside of the sandbox", r.cmd.Name)
	if p.box.Mode() != sandbox.None {
		note = fmt.Sprintf("%s works in the sandbox (%s); of the network it reaches %s", r.cmd.Name, p.box, reach(r.cmd.Needs.Network))
	}
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

// reach describes a network in words.
func reach(hosts []string) string {
	switch {
	case slices.Contains(hosts, "*"):
		return "all"
	case len(hosts) == 0:
		return "nothing"
	}
	return strings.Join(hosts, ", ")
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
	p, release, err := r.pool.take(ctx, &r.cmd, r.dir, st)
	if err != nil {
		return nil, err
	}
	defer release()
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
	var open []*session
	for _, pl := range r.pool.places {
		if pl.begun() && pl.p != nil && pl.p.cmd.Name == r.cmd.Name && (pl.user == "" || pl.user == place) { // others may have a session of the same ID
			if s := pl.p.session(id); s != nil {
				open = append(open, s)
			}
		}
	}
	r.pool.mu.Unlock()
	for _, s := range open {
		if s.cancel(); done {
			s.shut()
		}
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	for _, pl := range r.pool.places {
		if pl.user == place {
			pl.user = ""
			r.pool.tell()
		}
	}
}
