package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/tool"
)

// mostUncollected is how many workflows may be in the background before their results are
// collected.
const mostUncollected = 16

// A desk is where the agent of one task has workflows run in the background: side by side with its
// conversation, each in its own place of the log, as parts of the task. Each start is recorded, and
// an unfinished workflow resumes when the task is run again. None outlives the task.
//
// The messages to the agent about them depend on time and are therefore recorded: when the task is
// run again, and in a replay, the agent receives the same messages at the same turns.
type desk struct {
	flows   *delegate
	task    *graph.Task
	journal *journal.Journal        // nil without a log
	ctx     context.Context         // of all that is under way, the agent too
	stop    context.CancelCauseFunc // ends it
	work    sync.WaitGroup

	mu      sync.Mutex
	runs    []*background // in the order in which they were started
	busy    int           // of them, how many neither wait nor have ended
	closed  bool          // nothing goes on any more
	failure error         // of the run itself, which ends the task
	changed chan struct{} // closed at any change, and replaced
	tally   tally
}

// started is the record of a background workflow's start.
type started struct {
	Handle   string          `json:"handle"`
	Workflow string          `json:"workflow"`
	Inputs   json.RawMessage `json:"inputs"` // settled
	Call     string          `json:"call"`   // which has started it
	After    uint64          `json:"after"`  // the record before it
}

// ended is the record of a background workflow's result.
type ended struct {
	Success bool            `json:"success"`
	Output  json.RawMessage `json:"output,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// phase is how far it is.
type phase uint8

const (
	running phase = iota
	waiting       // for a person, or something else that the run lacks
	over
)

// background is one background workflow. The desk guards the fields below started.
type background struct {
	started
	place     string // of its graph in the task, as graph.Task.Nested has it
	phase     phase
	result    ended // once it is over
	why       error // it waits
	collected bool
}

// sit opens the desk of a task, with the workflows that were started earlier.
func (d *delegate) sit(ctx context.Context, t *graph.Task) (*desk, error) {
	k := &desk{flows: d, task: t, journal: t.Nested("look").Journal, changed: make(chan struct{})}
	k.ctx, k.stop = context.WithCancelCause(ctx)
	for n := 1; ; n++ {
		raw, before := t.Scope().Done(startKey(n))
		if !before {
			return k, nil
		}
		var s started
		if err := json.Unmarshal(raw, &s); err != nil {
			k.close()
			return nil, fmt.Errorf("the record of background workflow %d: %w", n, err)
		}
		k.add(s)
	}
}

// close stops the running workflows without recording it, and waits until they have ended.
func (k *desk) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.stop(nil)
	k.work.Wait()
}

func startKey(n int) string { return fmt.Sprintf("background/%d", n) }

// resultKey has the form by which readers of the log know where something has ended.
func (b *background) resultKey() string { return "job/" + b.place }

func (b *background) collectedKey() string { return "collected/" + b.Handle }

// add adds a workflow that is recorded as started.
func (k *desk) add(s started) *background {
	b := &background{started: s, place: pregel.Path("~", s.Handle, 0)}
	_, b.collected = k.task.Scope().Done(b.collectedKey())
	k.mu.Lock()
	defer k.mu.Unlock()
	k.runs = append(k.runs, b)
	k.busy++
	k.work.Go(func() { k.attend(b) })
	return b
}

// start starts a workflow, once per call. With full, there are too many. It fails if the inputs are
// invalid, or with an error of the run.
func (k *desk) start(ctx context.Context, name string, settle func() (json.RawMessage, error), call string) (b *background, full bool, err error) {
	k.mu.Lock()
	n, open := len(k.runs)+1, 0
	for _, b := range k.runs {
		if b.Call == call { // the call was cut off after it had done that
			k.mu.Unlock()
			return b, false, nil
		}
		if !b.collected {
			open++
		}
	}
	k.mu.Unlock()
	if open >= mostUncollected {
		return nil, true, nil
	}
	e := &journal.Effect{Key: startKey(n), Kind: "note", Name: name}
	s, err := journal.Do(ctx, k.task.Scope().Reuse(), e, func(context.Context, string) (started, error) {
		settled, err := settle()
		s := started{Handle: fmt.Sprintf("%s-%d", name, n), Workflow: name, Inputs: settled, Call: call}
		if k.journal != nil {
			s.After = k.journal.Head()
		}
		return s, err
	})
	if err != nil {
		return nil, false, err
	}
	return k.add(s), false, nil
}

// attend runs a workflow to its end. While the workflow waits for a user, attend releases it, and continues when there is an answer.
func (k *desk) attend(b *background) {
	scope := k.task.Scope().Inner(b.place)
	answered, deaf := scope.Listen() // from before it asks, so that no answer is missed
	defer deaf()
	for {
		head := scope.Head()
		r, err := k.run(b)
		if parked := k.left(b, r, err); !parked {
			return
		}
		for open := true; open; open = !scope.News(head) {
			select {
			case <-answered:
			case <-k.ctx.Done():
				return
			}
		}
		if !k.resume(b) {
			return
		}
	}
}

// run runs a workflow, or returns its recorded result.
func (k *desk) run(b *background) (ended, error) {
	e := &journal.Effect{Key: b.resultKey(), Kind: "job", Name: b.Workflow, Inside: true}
	return agent.Do(k.ctx, k.task.Scope().Reuse(), e, func(ctx context.Context, _ string) (ended, error) {
		out, err := k.execute(ctx, b)
		switch {
		case err == nil:
			return ended{Success: true, Output: out}, nil
		case ctx.Err() != nil || agent.OfRun(err):
			return ended{}, err
		}
		return ended{Error: err.Error()}, nil
	})
}

func (k *desk) execute(ctx context.Context, b *background) (out json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("it panicked: %v", v)
		}
	}()
	w, err := k.task.Workflow(b.Workflow)
	if err != nil {
		return nil, err
	}
	return w.RunNested(ctx, b.Inputs, k.task.Nested(b.Handle))
}

// left records the result of a workflow, and reports whether the workflow waits.
func (k *desk) left(b *background, r ended, err error) (parked bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy--
	k.change()
	switch {
	case err == nil:
		b.phase, b.result = over, r
		return false
	case k.ctx.Err() == nil && !journal.Waits(err) && !errors.Is(err, pregel.ErrStopped):
		k.failure = errors.Join(k.failure, err)
		k.stop(err)
	}
	b.phase, b.why = waiting, err
	return true
}

// resume resumes a workflow, unless it is too late.
func (k *desk) resume(b *background) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.busy++
	b.phase, b.why = running, nil
	k.change()
	return true
}

// change wakes all who wait. The caller holds mu.
func (k *desk) change() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// await waits until a condition, which is asked while nothing changes, holds.
func (k *desk) await(holds func() bool) error {
	for {
		k.mu.Lock()
		is, changed := holds(), k.changed
		k.mu.Unlock()
		if is {
			return nil
		}
		select {
		case <-changed:
		case <-k.ctx.Done():
			return cmp.Or(k.failed(), context.Cause(k.ctx))
		}
	}
}

// failed is how the run itself has failed in the background, nil if it has not.
func (k *desk) failed() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failure
}

// idle reports whether nothing is running in the background. If so, nothing begins any more:
// the task is about to end. The caller holds mu.
func (k *desk) idle() bool {
	k.closed = k.closed || k.busy == 0
	return k.busy == 0
}

// converse runs the agent. If the agent waits for a user, it continues when the answer comes, as long as a workflow is running in the background.
func (k *desk) converse(lead *agent.Agent, w *agent.Work) (*agent.Outcome, error) {
	for {
		answered, deaf := k.task.Scope().Listen()
		head := k.task.Scope().Head()
		out, err := lead.Run(k.ctx, k.task.Scope().Attempt().Reuse(), w)
		again := false
		switch {
		case err == nil:
		case k.ctx.Err() != nil:
			err = cmp.Or(k.failed(), err)
		case journal.Waits(err):
			again = k.pause(head, answered)
		case errors.Is(err, pregel.ErrStopped): // what is running may come to the end of its step
			err = errors.Join(err, k.await(k.idle))
		}
		deaf()
		if !again {
			return out, err
		}
	}
}

// pause waits for the answer that an agent waits for, and reports whether it came while
// something was running.
func (k *desk) pause(head uint64, answered <-chan struct{}) bool {
	for {
		k.mu.Lock()
		idle, changed := k.idle(), k.changed
		k.mu.Unlock()
		if idle {
			return false
		}
		select {
		case <-answered:
			if k.task.Scope().News(head) {
				return true
			}
		case <-changed:
		case <-k.ctx.Done():
			return false
		}
	}
}

// wait waits until a workflow has ended. If it waits itself, and nothing else is running, the
// error is why.
func (k *desk) wait(b *background) (ended, error) {
	if err := k.await(func() bool { return b.phase == over || b.phase == waiting && k.busy == 0 }); err != nil {
		return ended{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return b.result, b.why
}

// collect records that the agent is given a result.
func (k *desk) collect(ctx context.Context, b *background) error {
	e := &journal.Effect{
		Key: b.collectedKey(), Kind: "note", Name: b.Workflow, Inside: true,
		Do: func(context.Context, string) (json.RawMessage, error) { return json.RawMessage("{}"), nil },
	}
	if _, err := k.task.Scope().Reuse().Do(ctx, e); err != nil {
		return err
	}
	k.mu.Lock()
	b.collected = true
	k.mu.Unlock()
	return nil
}

// rest waits for the results that the agent has not collected when it has ended, and returns them.
func (k *desk) rest() ([]*background, error) {
	if err := k.await(k.idle); err != nil {
		return nil, err
	}
	var errs []error
	for _, b := range k.runs { // nothing changes any more
		errs = append(errs, b.why)
	}
	uncollected := slices.DeleteFunc(slices.Clone(k.runs), func(b *background) bool { return b.collected })
	return uncollected, errors.Join(errs...)
}

// find returns a workflow by its handle, or nil, and all handles.
func (k *desk) find(handle string) (*background, []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	handles := make([]string, len(k.runs))
	for i, b := range k.runs {
		if b.Handle == handle {
			return b, nil
		}
		handles[i] = b.Handle
	}
	return nil, handles
}

// told returns the result of a workflow as an agent is told it.
func (b *background) told(r *ended) tool.Result {
	if r.Success {
		return tool.Result{Text: text(r.Output)}
	}
	return tool.Failed(fmt.Sprintf("%s failed: %s", b.Handle, r.Error))
}

// handOver starts one more turn of the agent, with the results that it has not collected, and returns the agent's reply. It sees only its prompt and
// its last text, not the rest of its conversation.
func (k *desk) handOver(lead *agent.Agent, w *agent.Work, before string, rest []*background) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "You were asked:\n\n%s\n\nYou ended with:\n\n%s\n\nWorkflows that you had started in the background have ended since, and "+
		"you have not seen their results:\n", w.Prompt, before)
	for _, r := range rest {
		text, _ := clean.Truncate(clean.Text(r.told(&r.result).Text))
		fmt.Fprintf(&b, "\n%s:\n%s\n", r.Handle, text)
	}
	b.WriteString("\nGive your final answer to what you were asked, with these results in it. You can call nothing any more.")
	once := *lead
	once.Finish, once.Limits.Single = "", true
	last := *w
	last.Key, last.Prompt = "results", b.String()
	out, err := k.converse(&once, &last)
	final, err := said(once.Name, out, err)
	return cmp.Or(final, before), err
}
