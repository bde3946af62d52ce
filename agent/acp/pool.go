package acp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/internal/external"
	"github.com/superstep-dev/superstep/model"
)

// A Pool starts agents when they are first needed, and keeps their processes for further work: a start costs seconds. Its methods may be called from
// several goroutines.
type Pool struct {
	opt Options

	mu      sync.Mutex
	places  map[string]*place // by command, with its settings, and folder
	changed chan struct{}     // closed when a place may have become free
	closed  bool
	ends    sync.WaitGroup // of processes that nobody waits for
}

// A place holds one process, from its start to its end.
type place struct {
	ready  chan struct{} // closed when p and err are set
	p      *process
	err    error
	user   string             // the only use of an agent that it serves, where it offers our tools; guarded by the pool, too
	stop   context.CancelFunc // of the start
	users  int                // steps that use it; the fields below are guarded by the pool, too
	rested time.Time          // since when it is idle
	ending bool
}

// NewPool returns a pool without processes.
func NewPool(opt *Options) *Pool {
	pool := &Pool{places: map[string]*place{}, changed: make(chan struct{})}
	if opt != nil {
		pool.opt = *opt
	}
	for _, d := range []struct {
		of  *time.Duration
		def time.Duration
	}{{&pool.opt.Silence, 40 * time.Second}, {&pool.opt.Limit, 15 * time.Minute}, {&pool.opt.Turn, 2 * time.Hour}, {&pool.opt.Idle, 5 * time.Minute}} {
		if *d.of <= 0 {
			*d.of = d.def
		}
	}
	if pool.opt.Processes <= 0 {
		pool.opt.Processes = 4
	}
	return pool
}

// Close ends all processes. Their turns are cancelled.
func (pool *Pool) Close() {
	pool.mu.Lock()
	pool.closed = true
	for key, pl := range pool.places {
		pool.end(key, pl)
	}
	pool.mu.Unlock()
	pool.ends.Wait()
}

// Model returns the agent of a command that works in a folder, as the Model of an agent.Agent. Nothing is started before it is needed. Dir is absolute.
func (pool *Pool) Model(c Command, dir string) model.Model { return &runner{pool, c, dir} }

// end ends a process, and frees its place after that. The caller holds mu.
func (pool *Pool) end(key string, pl *place) {
	if pl.ending {
		return
	}
	pl.ending = true
	pl.stop()
	pool.ends.Go(func() {
		<-pl.ready
		if pl.p != nil {
			pl.p.end()
			pl.p.shut()
		}
		pool.mu.Lock()
		defer pool.mu.Unlock()
		delete(pool.places, key)
		pool.tell()
	})
}

// tell wakes those that wait for a place. The caller holds mu.
func (pool *Pool) tell() {
	close(pool.changed)
	pool.changed = make(chan struct{})
}

// take returns the running process of a command in a folder, or starts one. Release lets the pool have it back.
func (pool *Pool) take(ctx context.Context, c *Command, dir string, st *external.Step) (p *process, release func(), err error) {
	key := fmt.Sprintf("%q %q %q %+v %q", c.Argv, c.Env, c.Keys, c.Needs, dir)
	ours := len(st.Tools.Names()) > 0
	if ours {
		with := *c
		with.Env = slices.Concat(c.Env, c.withOurs)
		c, key = &with, key+", our tools "
	}
	each := key
	waits := func() {}
	defer func() { waits() }()
	for told := false; ; {
		full := false
		pool.mu.Lock()
		if ours {
			key = pool.free(each, st.Place)
		}
		pl, changed := pool.places[key], pool.changed
		if pl != nil && ours {
			pl.user = st.Place
		}
		switch {
		case pool.closed:
			pool.mu.Unlock()
			return nil, nil, errors.New("no agents are started any more")
		case pl == nil && len(pool.places) < pool.opt.Processes:
			pl = &place{ready: make(chan struct{}), users: 1}
			if ours {
				pl.user = st.Place
			}
			var begin context.Context
			begin, pl.stop = context.WithCancel(ctx)
			pool.places[key] = pl
			pool.mu.Unlock()
			waits()
			waits = func() {}
			stop := said(st, "starting "+c.Name)
			pl.p, pl.err = start(begin, c, dir, &pool.opt)
			stop()
			close(pl.ready)
			if pl.err != nil {
				pool.release(key, pl)
				return nil, nil, pl.err
			}
			return pl.p, func() { pool.release(key, pl) }, nil
		case pl == nil:
			full = true
			pool.evict()
		case pl.ending:
		case pl.begun() && pl.p.dead.Load():
			pool.end(key, pl)
		default:
			pl.users++
			pool.mu.Unlock()
			select {
			case <-pl.ready:
			case <-ctx.Done():
			}
			if ctx.Err() == nil && pl.err == nil {
				return pl.p, func() { pool.release(key, pl) }, nil
			}
			pool.release(key, pl)
			if ctx.Err() != nil {
				return nil, nil, context.Cause(ctx)
			}
			if !errors.Is(pl.err, context.Canceled) { // else whoever started it has gone
				return nil, nil, pl.err
			}
			continue
		}
		pool.mu.Unlock()
		if full && !told {
			told = true
			waits = said(st, fmt.Sprintf("%s waits for a place: %d processes of agents may run at once", c.Name, pool.opt.Processes))
		}
		select {
		case <-changed:
		case <-time.After(restful):
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// free returns the key of the place of a use of an agent that gets our tools: its own, or one that is free. A process serves one use at a time then:
// opencode shows the MCP servers of one session to all sessions of its process. The caller holds mu.
func (pool *Pool) free(key, user string) string {
	free := ""
	for n := 0; ; n++ {
		at := fmt.Sprint(key, n)
		pl := pool.places[at]
		if pl != nil && pl.user == user {
			return at
		}
		if free == "" && (pl == nil || pl.user == "" && !pl.ending) {
			free = at
		}
		if pl == nil && n >= len(pool.places) { // others may come after one that has ended
			return free
		}
	}
}

// begun reports whether the start of a process has ended.
func (pl *place) begun() bool {
	select {
	case <-pl.ready:
		return true
	default:
		return false
	}
}

// release ends one use of a process. One that is idle for long enough is ended.
func (pool *Pool) release(key string, pl *place) {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if pl.users--; pl.users > 0 {
		return
	}
	if pl.err != nil {
		pool.end(key, pl)
		return
	}
	now := time.Now()
	pl.rested = now
	pool.tell()
	time.AfterFunc(pool.opt.Idle, func() {
		pool.mu.Lock()
		defer pool.mu.Unlock()
		if pl.users == 0 && pl.rested.Equal(now) && pl.p.loss() == 0 {
			pool.end(key, pl)
		}
	})
}

// restful is how long a process must be idle before another may have its place: between two steps of a session it is idle for a moment.
const restful = time.Second

// evict ends the idle process whose end costs least, and of these the one that is idle for longest. The caller holds mu.
func (pool *Pool) evict() {
	var keys []string
	loss := map[string]int{}
	for key, pl := range pool.places {
		if pl.ending {
			return // a place will be free
		}
		if pl.users == 0 && time.Since(pl.rested) >= restful {
			if loss[key] = pl.p.loss(); loss[key] < working {
				keys = append(keys, key)
			}
		}
	}
	if len(keys) > 0 {
		key := slices.MinFunc(keys, func(a, b string) int {
			return cmp.Or(cmp.Compare(loss[a], loss[b]), pool.places[a].rested.Compare(pool.places[b].rested))
		})
		pool.end(key, pool.places[key])
	}
}

// loss is what the end of a process costs: 0 nothing, 1 a conversation, 2 a turn that waits for a user and that another process continues, or working.
func (p *process) loss() int {
	if p.dead.Load() {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := 0
	if !p.loads && len(p.sessions) > 0 {
		out = 1
	}
	for _, s := range p.sessions {
		s.mu.Lock()
		switch {
		case s.busy && len(s.asks)+len(s.offers) == 0:
			out = working
		case s.busy:
			out = max(out, 2)
		}
		s.mu.Unlock()
	}
	return out
}

const working = 3

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
