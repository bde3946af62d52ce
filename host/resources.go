package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// Resources holds the agents, tools and models that nodes of the program's own workflows find by name. They are the ones that the
// user has when the run starts. Each is started on first use.
type Resources struct {
	host *Host
	ctx  context.Context //nolint:containedctx // of the run, which ends what was started

	mu       sync.Mutex
	project  *project
	sessions map[string]*Session // by what they were started for
}

// ResourcesOf returns the resources of a task's run. If the run belongs to another host, it returns
// nil.
func ResourcesOf(t *graph.Task) *Resources {
	c, _ := t.Host().(*Resources)
	return c
}

var errNoResources = errors.New("there are no agents and tools: the run has no host; start it with package host")

// equipped returns a workflow whose runs have resources.
func (h *Host) equipped(w *workflow.Workflow) *workflow.Workflow {
	own := *w
	own.Run = func(ctx context.Context, e *workflow.Exec) (*workflow.Result, error) {
		c := &Resources{host: h, ctx: ctx, sessions: map[string]*Session{}}
		exec := *e
		exec.Graph.Host = c
		res, err := w.Run(ctx, &exec)
		return res, errors.Join(err, c.close())
	}
	return &own
}

// close stops all started resources.
func (c *Resources) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, s := range c.sessions {
		errs = append(errs, s.Close())
	}
	clear(c.sessions)
	return errors.Join(errs...)
}

// session returns the session that an agent or a tool needs. The caller holds mu.
func (c *Resources) session(agent, tool string) (s *Session, err error) {
	key := agent + "\n" + tool
	if s := c.sessions[key]; s != nil {
		return s, nil
	}
	if c.project == nil && !c.host.cfg.Replay {
		if c.project, err = c.host.projectOf(c.host.Dir(), nil, "", c.host.stepModel); err != nil {
			return nil, err
		}
	}
	if c.project == nil {
		s, err = replaying()
	} else {
		s, err = c.project.start(c.ctx, c.host.cfg.Model, &needs{agents: []string{agent}, tools: []string{tool}})
	}
	if err == nil {
		c.sessions[key] = s
	}
	return s, err
}

// Agent returns the agent of a name, with its model and its tools.
func (c *Resources) Agent(name string) (*agent.Agent, error) {
	if c == nil {
		return nil, errNoResources
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.session(name, "")
	if err != nil {
		return nil, err
	}
	return s.Agent(name, c.host.cfg.Model)
}

// Tools returns a set that has the tool of a name, whose calls the rules of the user and the project decide on.
func (c *Resources) Tools(name string) (*tool.Set, error) {
	if c == nil {
		return nil, errNoResources
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.host.cfg.Replay {
		return tool.NewSet(&tool.Tool{Name: name, Input: &jsonschema.Schema{Type: "object"},
			Run: func(context.Context, *tool.Call) (string, error) { return "", errReplay }})
	}
	s, err := c.session("", name)
	if err != nil {
		return nil, err
	}
	if _, ok := s.Tools().Get(name); !ok {
		return nil, errors.New(s.unknown(name))
	}
	return s.Tools().Select(name)
}

// Model returns the model of a name, and the one to use for "".
func (c *Resources) Model(name string) (model.Model, error) {
	if c == nil {
		return nil, errNoResources
	}
	return c.host.model(cmp.Or(name, c.host.cfg.Model), shortWait)
}

// Headless reports whether no user can be asked, see agent.Agent.
func (c *Resources) Headless() bool { return c.host.headless(c.host.cfg.OnAsk) }

// Notice shows the user a message that is not recorded in the run's log.
func (c *Resources) Notice(text string) { c.host.cfg.Notice(text) }

// Agent is like node.Agent, but finds the agent by name: in the user's or the project's files, or among the built-in ones. It
// is found when the node runs, so that the graph can be drawn and forked without it.
func Agent[S, U any](name, which string, prompt func(S) (string, error), update func(S, *agent.Outcome) (U, error)) graph.Node[S, U] {
	n := graph.Node[S, U]{Name: name, Kind: "agent", Agents: 1}
	if which == "" || prompt == nil || update == nil {
		n.Err = fmt.Errorf("node %s: it needs the name of an agent, a prompt and an update", name)
	}
	n.Run = func(ctx context.Context, t *graph.Task, s S) (u U, err error) {
		a, err := ResourcesOf(t).Agent(which)
		if err != nil {
			return u, err
		}
		return node.Agent(name, a, prompt, update).Run(ctx, t, s)
	}
	return n
}

// Tool is node.Tool for the tool of a name, as Agent is for agents.
func Tool[S, U any](name, which string, args node.Args[S], update func(S, string) (U, error)) graph.Node[S, U] {
	n := graph.Node[S, U]{Name: name, Kind: "tool"}
	if which == "" || update == nil {
		n.Err = fmt.Errorf("node %s: it needs the name of a tool and an update", name)
	}
	n.Run = func(ctx context.Context, t *graph.Task, s S) (u U, err error) {
		set, err := ResourcesOf(t).Tools(which)
		if err != nil {
			return u, err
		}
		return node.Tool(name, set, which, args, update).Run(ctx, t, s)
	}
	return n
}
