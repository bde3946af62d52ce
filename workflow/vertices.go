package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/vertex"
)

// A Computation is a vertex program with the graph that one run computes on.
type Computation[V, E, M, Out any] struct {
	Graph   *vertex.Graph[E]
	Program *vertex.Program[V, E, M]
	Values  []V     // that the vertices begin with, which become the run's own; nil stands for zero values
	Entries []int32 // the vertices that are active first, every vertex if there are none
	// Result returns the output of the run, given the vertices after the last superstep.
	Result func(*vertex.Run[V, E, M]) (Out, error)
}

// VerticesOptions are the settings of Vertices. Nil means the defaults.
type VerticesOptions struct {
	Every       int           // supersteps from one checkpoint to the next; defaults to 10
	Interval    time.Duration // about how long it takes from one checkpoint to the next, instead of Every; defaults to none
	MaxSteps    int           // supersteps before the run fails with a *vertex.StepLimitError; defaults to no limit
	Parallelism int           // goroutines that compute; defaults to GOMAXPROCS
	Version     string        // changes whenever the program comes to mean something else, so that old runs are not resumed with it
}

// Vertices creates a workflow that runs a vertex program. In is a struct, as in New. Load returns the program and its graph; it is called again when a
// run is resumed, and must return the same.
//
// The run is a graph of one node, which computes some supersteps at a time and then records a checkpoint: the vertices that have changed, or all of them
// if more than half have. A crash loses the supersteps after the last checkpoint, and the resumed run reaches the same result, bit by bit. While a
// checkpoint is being recorded, the next supersteps are computed. A checkpoint cannot be larger than a record, see [runlog.MaxFrame].
func Vertices[In, V, E, M, Out any](name, description string, load func(ctx context.Context, in In) (*Computation[V, E, M, Out], error), opt *VerticesOptions) (*Workflow, error) {
	var o VerticesOptions
	if opt != nil {
		o = *opt
	}
	if o.Every <= 0 {
		o.Every = 10
	}
	if err := errors.Join(encodes[V]("a value"), encodes[E]("the value of an edge"), encodes[M]("a message")); err != nil {
		return nil, fmt.Errorf("workflow %q: %w", name, err)
	}
	reading, err := (&computing[V, E, M, Out]{opt: &o}).flow(name)
	if err != nil {
		return nil, fmt.Errorf("workflow %q: %w", name, err)
	}
	w, err := Func(name, description, func(ctx context.Context, in In, e *Exec) (out Out, err error) {
		ctx, cancel := context.WithCancel(ctx)
		c := &computing[V, E, M, Out]{opt: &o, ctx: ctx, load: func() (*Computation[V, E, M, Out], error) { return load(ctx, in) }}
		defer c.discard()
		defer cancel()
		flow, err := c.flow(name)
		if err != nil {
			return out, err
		}
		last, err := flow.Run(ctx, checkpoint[V, E, M]{}, &e.Graph)
		if err == nil {
			err = c.restore(&last)
		}
		if err != nil {
			return out, err
		}
		return c.of.Result(c.run)
	})
	if err != nil {
		return nil, err
	}
	w.NoModel = true
	w.Flow = func(json.RawMessage) (graph.Reading, error) { return reading, nil }
	return w, nil
}

// A checkpoint is the state of a run between two supersteps, and its update.
type checkpoint[V, E, M any] struct {
	Step       int                        `json:"superstep"` // the next one
	Vertices   int                        `json:"vertices"`
	Active     int                        `json:"active"`
	Messages   int                        `json:"messages"` // sent since the checkpoint before
	Aggregates map[string]json.RawMessage `json:"aggregates,omitempty"`
	Next       int                        `json:"next,omitempty"` // how many supersteps until the next checkpoint
	Data       packed[V, E, M]            `json:"data"`

	Err error `json:"-"` // why Data could not be merged
}

// Detach implements graph.Attacher.
func (c *checkpoint[V, E, M]) Detach() (small checkpoint[V, E, M], part []byte, err error) {
	part, err = c.Data.MarshalBinary()
	small = *c
	small.Data = packed[V, E, M]{}
	return small, part, err
}

// Attach implements graph.Attacher.
func (c *checkpoint[V, E, M]) Attach(part []byte) error { return c.Data.UnmarshalBinary(part) }

// merge is the reducer.
func (c checkpoint[V, E, M]) merge(u checkpoint[V, E, M]) checkpoint[V, E, M] {
	was := c.Data.snapshot
	if was == nil {
		was = new(vertex.Snapshot[V, E, M])
	}
	if u.Data.snapshot == nil {
		u.Err = errors.New("a checkpoint has no data")
		return u
	}
	whole, err := was.Merge(u.Data.snapshot)
	if u.Err = err; whole != u.Data.snapshot {
		u.Data = packed[V, E, M]{snapshot: whole}
	}
	return u
}

// computing is a vertex program within one execution of its run.
type computing[V, E, M, Out any] struct {
	opt  *VerticesOptions
	ctx  context.Context // of the execution
	load func() (*Computation[V, E, M, Out], error)

	of    *Computation[V, E, M, Out]
	run   *vertex.Run[V, E, M]
	under chan error // receives the end of the supersteps under way, nil if there are none; the fields below belong to them
	until int        // the superstep before which they end
	sent  int        // their messages
	took  time.Duration
	watch atomic.Pointer[func(vertex.Stats)]
}

func (c *computing[V, E, M, Out]) flow(name string) (*graph.Flow[checkpoint[V, E, M], checkpoint[V, E, M]], error) {
	g := graph.New(name, checkpoint[V, E, M].merge)
	g.AddNode(graph.Node[checkpoint[V, E, M], checkpoint[V, E, M]]{Name: "compute", Version: c.opt.Version, Run: c.compute})
	g.Edge(graph.Start, "compute")
	g.Branch("compute", func(s checkpoint[V, E, M]) string {
		if s.Active == 0 {
			return graph.End
		}
		return "compute"
	}, "compute", graph.End)
	g.MaxSteps(math.MaxInt32)
	return g.Compile()
}

// restore makes run the run at a checkpoint, unless it is there.
func (c *computing[V, E, M, Out]) restore(s *checkpoint[V, E, M]) (err error) {
	if s.Err != nil || c.run != nil {
		return s.Err
	}
	if c.of, err = c.load(); err != nil {
		return err
	}
	switch {
	case s.Data.snapshot != nil:
	case s.Step > 0:
		return fmt.Errorf("the checkpoint before superstep %d has no data; fork the run from an earlier one", s.Step)
	default:
		c.run, err = vertex.NewRun(c.of.Graph, c.of.Program, c.of.Values, c.of.Entries...)
		return err
	}
	snapshot := *s.Data.snapshot
	snapshot.Step, snapshot.Aggregates = s.Step, s.Aggregates
	// What its values point to is shared with the state until the first checkpoint, which has all of them.
	c.run, err = vertex.Restore(c.of.Graph, c.of.Program, &snapshot)
	return err
}

// begin begins supersteps beside the caller.
func (c *computing[V, E, M, Out]) begin(steps int) {
	c.until, c.sent, c.under = c.run.Step()+steps, 0, make(chan error, 1)
	o := &vertex.Options[V, E, M]{Parallelism: c.opt.Parallelism, MaxSteps: c.until}
	if c.opt.MaxSteps > 0 {
		o.MaxSteps = min(o.MaxSteps, c.opt.MaxSteps)
	}
	began := time.Now()
	o.Trace = func(s vertex.Stats) {
		c.sent, c.took = c.sent+s.Messages, time.Since(began)
		if watch := c.watch.Load(); watch != nil {
			(*watch)(s)
		}
	}
	go func(under chan<- error) { under <- c.run.Run(c.ctx, o) }(c.under)
}

// discard waits for supersteps that nobody needs any more.
func (c *computing[V, E, M, Out]) discard() {
	if c.under != nil {
		<-c.under //nolint:errcheck // nobody needs its outcome
	}
	c.under, c.run = nil, nil
}

// compute is the node: it waits until the supersteps under way have ended, and begins the next ones.
func (c *computing[V, E, M, Out]) compute(ctx context.Context, t *graph.Task, s checkpoint[V, E, M]) (u checkpoint[V, E, M], err error) {
	if err := c.restore(&s); err != nil {
		return u, err
	}
	watch := func(now vertex.Stats) {
		t.Scope().Live("progress", progress{fmt.Sprintf("superstep %d: %d of %d vertices computed, %d messages", now.Step, now.Computed, now.Vertices, now.Messages),
			now.Vertices - now.Computed, now.Vertices})
	}
	c.watch.Store(&watch)
	defer c.watch.Store(nil)
	if c.under == nil {
		steps := s.Next
		if steps <= 0 { // the first ones
			if steps = c.opt.Every; c.opt.Interval > 0 {
				steps = 1
			}
		}
		c.begin(steps)
	}
	select {
	case err = <-c.under:
		c.under = nil
	case <-ctx.Done():
		return u, context.Cause(ctx)
	case <-t.Stopped():
		return u, graph.ErrStopped
	}
	if limit := (*vertex.StepLimitError)(nil); errors.As(err, &limit) && limit.Limit == c.until {
		err = nil
	}
	if err != nil {
		c.run = nil // to be restored, if it is tried again
		return u, err
	}
	snapshot, err := c.run.Changes()
	if err != nil {
		return u, err
	}
	var secrets bool
	if u.Data, secrets, err = pack(snapshot, t.Scope().Clean); err != nil {
		return u, err
	}
	u.Step, u.Vertices, u.Active, u.Messages, u.Aggregates = snapshot.Step, c.run.Vertices(), c.run.Active(), c.sent, snapshot.Aggregates
	aggregates, err := json.Marshal(u.Aggregates)
	if err != nil {
		return u, err
	}
	if secrets || !bytes.Equal(aggregates, t.Scope().Clean(aggregates)) {
		c.run = nil // it goes on from what is recorded, as after a crash
	}
	if u.Active == 0 {
		return u, note(ctx, t, &u)
	}
	if u.Next, err = c.next(ctx, u.Step-s.Step); err != nil {
		return u, err
	}
	if c.run != nil {
		c.begin(u.Next)
	}
	return u, note(ctx, t, &u)
}

// next returns how many supersteps the next checkpoint takes, given how many this one took.
func (c *computing[V, E, M, Out]) next(ctx context.Context, steps int) (int, error) {
	if c.opt.Interval <= 0 {
		return c.opt.Every, nil
	}
	return graph.Do(ctx, "supersteps", func(context.Context, string) (int, error) {
		fit := float64(steps) * float64(c.opt.Interval) / float64(max(c.took, 1))
		return max(1, int(min(fit, float64(2*steps)))), nil // times vary
	})
}

// progress is the data of a live event for followers.
type progress struct {
	Text      string
	Done, All int
}

// note records a line about a checkpoint.
func note[V, E, M any](ctx context.Context, t *graph.Task, u *checkpoint[V, E, M]) error {
	text := fmt.Sprintf("checkpoint before superstep %d: %d of %d vertices are active, %d messages sent", u.Step, u.Active, u.Vertices, u.Messages)
	if u.Active == 0 {
		text = fmt.Sprintf("ended after superstep %d: %d vertices, %d messages sent", u.Step-1, u.Vertices, u.Messages)
	}
	if b, err := json.Marshal(u.Aggregates); err == nil && len(u.Aggregates) > 0 {
		text += ", " + string(b)
	}
	return t.Scope().Emit(ctx, "note", map[string]string{"text": text})
}
