// Package temporal runs Superstep's workflows under Temporal. A Temporal workflow supervises a run: it decides when and where the run executes, waits for
// answers, rate limits and child runs, and survives the loss of every worker. The engine executes the run, in activities that may take hours, and the
// run's log is the only state. So every graph and recipe runs unchanged, and no change of one can make a history fail to replay.
//
//	w := worker.New(c, temporal.Queue("", nil), worker.Options{})
//	temporal.Register(w, engine, nil)
//	...
//	id, err := temporal.Start(ctx, c, "review", inputs, nil)
package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/runlog"
)

// The names under which workers and clients of any language find a run.
const (
	Workflow = "superstep.run/1" // the type of the workflow; its ID is that of the run

	UpdateAnswer = "answer" // Answer, answers a question
	UpdateBudget = "budget" // runlog.Budget, changes the budget as Engine.Budget does
	UpdatePause  = "pause"  // string, who pauses the run; SignalPoke resumes it
	UpdateSteer  = "steer"  // Steer, sends a message to an agent
	SignalPoke   = "poke"   // without an argument, makes a run that waits look at its log
	QueryStatus  = "status" // returns a Status
)

const (
	activitySegment = "superstep.segment/1"
	activityPost    = "superstep.post/1"
	signalChildren  = "superstep.children"
)

// Options are the settings of a worker. Nil means the defaults.
type Options struct {
	// Queue is the name with which task queues begin, see Queue. It must be the same for all workers and clients. The default is "superstep".
	Queue string
	// Answer answers questions while a run executes. The default leaves them to updates.
	Answer superstep.Answering
	// Rest is the shortest rate limit that frees the worker: the run stops and a timer of Temporal waits. The default is 1 minute.
	Rest time.Duration
	// Grace is how long running tasks may go on when the worker stops. It must be less than the worker's WorkerStopTimeout. The default is 0.
	Grace time.Duration
}

// An Answer is the argument of UpdateAnswer.
type Answer struct {
	Path string `json:"path"` // of the task that asks
	runlog.Answer
}

// A Steer is the argument of UpdateSteer.
type Steer struct {
	Agent string `json:"agent,omitempty"` // its path; "" for the first running one
	Text  string `json:"text"`
}

// Output is the result of the workflow. A failed run is a failed workflow, whose error has the code of the run's failure as its type.
type Output struct {
	Status  runlog.Status   `json:"status"` // completed or partial
	Output  json.RawMessage `json:"output,omitempty"`
	Large   bool            `json:"large,omitempty"` // the output has more than 2 KB and is only in the store
	Skipped []string        `json:"skipped,omitempty"`
}

// Status is what QueryStatus returns.
type Status struct {
	Run       string        `json:"run"`
	Status    runlog.Status `json:"status"`          // after the last segment; running while one executes
	Waits     string        `json:"waits,omitempty"` // for what a paused run waits, as in runs list
	Until     time.Time     `json:"until,omitzero"`  // when the next segment begins at the latest
	Segment   int           `json:"segment"`         // segments in all
	Children  int           `json:"children"`        // child workflows that have not ended
	Cancelled bool          `json:"cancelled,omitempty"`
}

// Queue returns the name of the task queue for runs that need a worker with these labels. Base is Options.Queue.
func Queue(base string, place []string) string {
	if base == "" {
		base = "superstep"
	}
	if len(place) == 0 {
		return base
	}
	place = slices.Clone(place)
	slices.Sort(place)
	return base + "-" + strings.Join(slices.Compact(place), "+")
}

// Queues returns the task queues that a worker with these labels polls, at most 4: runs that need no other label are its own.
func Queues(base string, labels []string) ([]string, error) {
	if err := (&runlog.Queue{Place: labels}).Check(); err != nil {
		return nil, err
	}
	labels = slices.Clone(labels)
	slices.Sort(labels)
	labels = slices.Compact(labels)
	if len(labels) > 4 {
		return nil, fmt.Errorf("a worker of Temporal has %d labels, and polls a queue for each set of them: use at most 4", len(labels))
	}
	var out []string
	for set := range 1 << len(labels) {
		var place []string
		for i, label := range labels {
			if set>>i&1 == 1 {
				place = append(place, label)
			}
		}
		out = append(out, Queue(base, place))
	}
	return out, nil
}

// Register adds the workflow and its activities to a worker. The engine executes the runs; its store must be the same for all workers, such as a Postgres
// database. The caller stops the worker before it closes the engine.
func Register(w worker.Registry, e *superstep.Engine, opt *Options) {
	h := &host{engine: e}
	if opt != nil {
		h.Options = *opt
	}
	if h.Rest <= 0 {
		h.Rest = time.Minute
	}
	w.RegisterWorkflowWithOptions(h.supervise, workflow.RegisterOptions{Name: Workflow, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade})
	w.RegisterActivityWithOptions(h.segment, activity.RegisterOptions{Name: activitySegment})
	w.RegisterActivityWithOptions(h.post, activity.RegisterOptions{Name: activityPost})
}

// StartOptions are the settings of Start. Nil means the defaults.
type StartOptions struct {
	ID     string         // of the run and of the workflow, [a-z0-9-]{1,64}; defaults to 8 random hexadecimal digits
	Title  string         // see superstep.StartOptions
	Place  []string       // the labels that its worker must have
	Budget *runlog.Budget // see superstep.StartOptions
	Trace  string         // see superstep.StartOptions
	Queue  string         // see Options
	// Engine, if non-nil, creates the run in its store, and only the ID of the run goes through Temporal. If nil, the first worker creates the run, and
	// the inputs are at most 128 KB.
	Engine *superstep.Engine
}

// maxInputs is the largest size of inputs that go through Temporal, half of the size at which it warns.
const maxInputs = 128 << 10

// Start starts a run and returns its ID, which is also that of the workflow. If a run of that ID executes or has completed, Start does nothing. If the run
// failed, or its workflow was terminated or lost, the run resumes.
func Start(ctx context.Context, c client.Client, name string, inputs json.RawMessage, opt *StartOptions) (id string, err error) {
	var o StartOptions
	if opt != nil {
		o = *opt
	}
	if o.ID == "" {
		o.ID = fmt.Sprintf("%08x", rand.Uint32())
	}
	if err := errors.Join(runlog.CheckID(o.ID), (&runlog.Queue{Place: o.Place}).Check()); err != nil {
		return "", err
	}
	in := input{Run: o.ID, Workflow: name, Inputs: inputs, Title: o.Title, Place: o.Place, Budget: o.Budget, Trace: o.Trace}
	if o.Engine != nil {
		if err := in.create(ctx, o.Engine); err != nil {
			return "", err
		}
		in = input{Run: o.ID, Place: o.Place}
	}
	if len(in.Inputs) > maxInputs {
		return "", fmt.Errorf("the inputs have %d bytes, and %d may go through Temporal: set StartOptions.Engine", len(in.Inputs), maxInputs)
	}
	_, err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: o.ID, TaskQueue: Queue(o.Queue, o.Place),
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY, WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, Workflow, in)
	if errors.As(err, new(*serviceerror.WorkflowExecutionAlreadyStarted)) {
		err = nil // it has completed
	}
	return o.ID, err
}

// input is the argument of the workflow and of a segment.
type input struct {
	Run      string          `json:"run"`
	Workflow string          `json:"workflow,omitempty"` // "" for a run that is in the store
	Inputs   json.RawMessage `json:"inputs,omitempty"`
	Title    string          `json:"title,omitempty"`
	Place    []string        `json:"place,omitempty"`
	Budget   *runlog.Budget  `json:"budget,omitempty"`
	Trace    string          `json:"trace,omitempty"`
	Segment  int             `json:"segment,omitempty"` // those before this one
}

// create creates the run, or finds it.
func (in *input) create(ctx context.Context, e *superstep.Engine) error {
	_, err := e.Enqueue(ctx, in.Workflow, in.Inputs, &superstep.StartOptions{
		ID: in.Run, Title: in.Title, Budget: in.Budget, Trace: in.Trace, Queue: &runlog.Queue{Place: in.Place},
	})
	return err
}
