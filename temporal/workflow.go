package temporal

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/runlog"
)

const (
	heartbeat = 15 * time.Second // without a sign of life, another worker takes the segment; as long as a lease of the stores
	longest   = 24 * time.Hour   // of a segment
	mostRuns  = 200              // segments of a history, before it continues as new
	mostKids  = 500              // child workflows at once, of the 2,000 that a server allows
	gather    = time.Second      // how long a run that waits for child runs waits for more to end
	again     = 15 * time.Second // until a child workflow that could not end its run is started again
)

// host is what a worker registers.
type host struct {
	Options
	engine *superstep.Engine
}

// supervise is the workflow: it executes segments of a run until the run has ended. It holds no state of the run.
func (h *host) supervise(ctx workflow.Context, in input) (*Output, error) {
	s := &supervisor{in: in, base: h.Queue, status: runlog.Queued, kids: map[string]bool{}}
	s.family, s.orphan = workflow.WithCancel(ctx)
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	firm, _ := workflow.NewDisconnectedContext(ctx) // a segment ends by itself, soon after its run was cancelled
	workflow.Go(firm, func(firm workflow.Context) {
		ctx.Done().Receive(firm, nil)
		s.cancelled = true
		_ = s.post(firm, &message{Cancel: true}) // the run may have ended
		s.woken = true
	})
	for n := 1; ; n++ {
		s.woken, s.status, s.waits, s.until = false, runlog.Running, "", time.Time{}
		var out outcome
		if err := workflow.ExecuteActivity(s.activity(firm, longest), activitySegment, s.in).Get(firm, &out); err != nil {
			return nil, err
		}
		s.in = input{Run: s.in.Run, Place: s.in.Place, Segment: s.in.Segment + 1} // the rest is in the log now
		s.status, s.waits, s.until = out.Status, out.Waits, out.Until
		if out.Status.Ended() || out.Status == runlog.Failed {
			if err := s.end(firm); err != nil {
				return nil, err
			}
			return out.result()
		}
		s.adopt(out.Children)
		if err := s.rest(firm); err != nil {
			return nil, err
		}
		if !s.cancelled && s.running == 0 && (full(ctx) || n >= mostRuns) {
			if err := workflow.Await(firm, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
				return nil, err
			}
			return nil, workflow.NewContinueAsNewError(ctx, Workflow, s.in)
		}
	}
}

// A supervisor is one execution of the workflow.
type supervisor struct {
	in        input
	base      string // of the queues
	status    runlog.Status
	waits     string
	until     time.Time
	woken     bool // something has happened since the segment began
	cancelled bool

	family  workflow.Context // of child workflows
	orphan  func()           // cancels those
	kids    map[string]bool  // the child runs that wait for a workflow or have one
	running int              // child workflows
	waiting []child          // child runs that wait for one
}

// listen registers the handlers.
func (s *supervisor) listen(ctx workflow.Context) error {
	poke, begun := workflow.GetSignalChannel(ctx, SignalPoke), workflow.GetSignalChannel(ctx, signalChildren)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			sel := workflow.NewSelector(ctx)
			sel.AddReceive(poke, func(c workflow.ReceiveChannel, _ bool) {
				c.Receive(ctx, nil)
				s.woken = true
			})
			sel.AddReceive(begun, func(c workflow.ReceiveChannel, _ bool) {
				var more []child
				c.Receive(ctx, &more)
				s.adopt(more)
			})
			sel.Select(ctx)
		}
	})
	return errors.Join(
		workflow.SetQueryHandler(ctx, QueryStatus, func() (Status, error) {
			return Status{s.in.Run, s.status, s.waits, s.until, s.in.Segment, s.running + len(s.waiting), s.cancelled}, nil
		}),
		update(ctx, s, UpdateAnswer, func(a Answer) (*message, string) {
			if a.Path == "" || a.Key == "" || !a.Denied && len(a.Value) == 0 && len(a.Output) == 0 {
				return nil, "an answer needs the path and the key of its question, and a value or denied"
			}
			return &message{Answer: &a}, ""
		}),
		update(ctx, s, UpdateBudget, func(b runlog.Budget) (*message, string) {
			if b == (runlog.Budget{}) {
				return nil, "a budget needs a limit"
			}
			return &message{Budget: &b}, ""
		}),
		update(ctx, s, UpdatePause, func(by string) (*message, string) { return &message{Pause: &by}, "" }),
		update(ctx, s, UpdateSteer, func(m Steer) (*message, string) {
			if strings.TrimSpace(m.Text) == "" {
				return nil, "there is nothing to say to the agent: give a text"
			}
			return &message{Steer: &m}, ""
		}),
	)
}

// update registers an update that posts a message to the run. Read returns the message, or why it is none; then the history has nothing of it.
func update[T any](ctx workflow.Context, s *supervisor, name string, read func(T) (*message, string)) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, name, func(ctx workflow.Context, arg T) error {
		m, _ := read(arg)
		err := s.post(ctx, m)
		if m.Budget != nil || m.Answer != nil && s.waits != summary.Operator {
			s.woken = true // after an error as well: a worker may have died when the log had it
		}
		return err
	}, workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, arg T) error {
		m, why := read(arg)
		if m == nil {
			return errors.New(why)
		}
		return nil
	}})
}

// post carries out something for the run, whichever worker executes it.
func (s *supervisor) post(ctx workflow.Context, m *message) error {
	m.Run = s.in.Run
	return workflow.ExecuteActivity(s.activity(ctx, 10*time.Minute), activityPost, m).Get(ctx, nil)
}

func (s *supervisor) activity(ctx workflow.Context, limit time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: limit, HeartbeatTimeout: heartbeat,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 1}, // after a dead worker; errors have delays of their own
	})
}

// rest waits until the run can continue.
func (s *supervisor) rest(ctx workflow.Context) error {
	if s.status == runlog.Interrupted && s.until.IsZero() { // its worker stops
		return nil
	}
	ready := func() bool { return s.woken }
	if s.until.IsZero() {
		if err := workflow.Await(ctx, ready); err != nil {
			return err
		}
	} else if _, err := workflow.AwaitWithTimeout(ctx, s.until.Sub(workflow.Now(ctx)), ready); err != nil {
		return err
	}
	if s.waits == summary.Run && s.running > 0 && !s.cancelled { // others end about now
		return workflow.Sleep(ctx, gather)
	}
	return nil
}

// end lets updates finish and cancels child workflows that the ended run did not wait for.
func (s *supervisor) end(ctx workflow.Context) error {
	s.orphan()
	return workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
}

// full reports whether the history is about to become too long.
func full(ctx workflow.Context) bool { return workflow.GetInfo(ctx).GetContinueAsNewSuggested() }

// adopt has workflows supervise child runs, each on the queue of its place.
func (s *supervisor) adopt(more []child) {
	for _, c := range more {
		if !s.kids[c.Run] {
			s.kids[c.Run] = true
			s.waiting = append(s.waiting, c)
		}
	}
	for s.running < mostKids && len(s.waiting) > 0 && !s.cancelled && !full(s.family) {
		c := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.running++
		workflow.Go(s.family, func(ctx workflow.Context) {
			s.child(ctx, &c)
			delete(s.kids, c.Run)
			s.woken = true
			s.running--
			s.adopt(nil)
		})
	}
}

// child supervises a child run until it has ended. How it has is in its log.
func (s *supervisor) child(ctx workflow.Context, c *child) {
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: c.Run, TaskQueue: Queue(s.base, c.Place),
		// A cancelled run cancels its child runs itself, and one that is lost finds them again.
		ParentClosePolicy: enums.PARENT_CLOSE_POLICY_ABANDON, WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	})
	err := workflow.ExecuteChildWorkflow(ctx, Workflow, input{Run: c.Run, Place: c.Place}).Get(ctx, nil)
	// Another workflow supervises it, or it needs a person: it has not ended for its parent, which asks for it again.
	if errors.As(err, new(*temporal.ActivityError)) || temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		_ = workflow.Sleep(ctx, again)
	}
}

// A child is a child run.
type child struct {
	Run   string   `json:"run"`
	Place []string `json:"place,omitempty"`
}

// An outcome is how a segment ended.
type outcome struct {
	Status   runlog.Status   `json:"status"`
	Waits    string          `json:"waits,omitempty"`
	Until    time.Time       `json:"until,omitzero"` // when to continue at the latest
	Children []child         `json:"children,omitempty"`
	Output   json.RawMessage `json:"output,omitempty"`
	Large    bool            `json:"large,omitempty"`
	Skipped  []string        `json:"skipped,omitempty"`
	Error    string          `json:"error,omitempty"`
	Code     string          `json:"code,omitempty"`
}

// result returns that of the workflow.
func (o *outcome) result() (*Output, error) {
	switch o.Status {
	case runlog.Failed:
		return nil, temporal.NewApplicationErrorWithOptions(o.Error, o.Code, temporal.ApplicationErrorOptions{NonRetryable: true})
	case runlog.Cancelled:
		return nil, temporal.NewCanceledError()
	}
	return &Output{o.Status, o.Output, o.Large, o.Skipped}, nil
}

// A message is something that the run, or whoever holds it, is told. One field is set besides Run.
type message struct {
	Run    string         `json:"run"`
	Answer *Answer        `json:"answer,omitempty"`
	Budget *runlog.Budget `json:"budget,omitempty"`
	Pause  *string        `json:"pause,omitempty"`
	Steer  *Steer         `json:"steer,omitempty"`
	Cancel bool           `json:"cancel,omitempty"`
}
