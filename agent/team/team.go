// Package team runs sub-agents: a lead hands out tasks, and sub-agents do them in parallel, each with a separate conversation and a separate part of the
// log.
//
// The work of a sub-agent is as durable as that of its lead: a killed run resumes each of them in
// the middle of its conversation, and a finished result is not computed again. They share the
// budget of the run.
package team

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

// Info describes an agent to a lead.
type Info struct{ Name, Description string }

// Options are the settings of New.
type Options struct {
	// Agents creates the agent with a name. It is required. A sub-agent keeps its tools for starting further sub-agents (see Team.Actions), but only down
	// to Depth.
	Agents func(name string) (*agent.Agent, error)
	List   func() []Info // those there are, in the order in which a lead is told of them; must be given

	Limit    int // agents running at once, in each run; defaults to journal.DefaultAgents, and the run has a limit of its own
	Depth    int // how deep agents may have agents work that have agents work; defaults to 5
	BatchCap int // tasks of one call of task_batch; defaults to 20

	// Save is handed the result of each agent when it has ended, to keep it in the folder of
	// the run. It may be called again after a crash. An error of it is a note in the log.
	// Nil keeps it in the log alone.
	Save func(ctx context.Context, run string, r Result) error
	// Isolate confines the tools of an agent to a separate folder. It is called for every agent before it starts, and again when a run is resumed; it may
	// return the agent unchanged. If nil, no agent is isolated.
	Isolate func(run, id string, a *agent.Agent) (*agent.Agent, error)
	Clock   *agent.Clock // for Result.Duration; nil leaves it 0
}

// A Team runs sub-agents, in any number of runs. Its methods may be called from several goroutines.
type Team struct {
	opt    Options
	queues queues
	work   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	members map[*task]context.CancelCauseFunc // running and queued
	unnamed int                               // agents that have worked without a log
	replays map[string]*cancelling
}

var (
	// errClosed reports that the team accepts no more jobs.
	errClosed = fmt.Errorf("the team is closed: %w", pregel.ErrStopped)
	// errCancelled is why an agent ended that was cancelled, see [List]. Its result is a failure of these words.
	errCancelled = errors.New("cancelled")
)

// New creates a team, or reports what is wrong with the options.
func New(opt *Options) (*Team, error) {
	if opt == nil || opt.Agents == nil || opt.List == nil {
		return nil, errors.New("a team needs Agents and List: who is in it")
	}
	if opt.Clock != nil && opt.Clock.Now == nil {
		return nil, errors.New("the clock of the team has no Now")
	}
	t := &Team{opt: *opt, members: map[*task]context.CancelCauseFunc{}, replays: map[string]*cancelling{}}
	for n, standard := range map[*int]int{&t.opt.Limit: journal.DefaultAgents, &t.opt.Depth: 5, &t.opt.BatchCap: 20} {
		if *n <= 0 {
			*n = standard
		}
	}
	t.queues = queues{limit: t.opt.Limit, runs: map[string]*queue{}}
	return t, nil
}

// A Job is one assignment for an agent.
type Job struct {
	// ID names the job among the jobs of its agent within its scope. It must be the same when the task runs again. The default in SpawnAll is the
	// position in the list, from 1.
	ID     string
	Agent  string
	Prompt string

	State   func() ([]byte, error) // see agent.Work, like the next; may be nil
	Stopped <-chan struct{}
}

// A Result is the result of a job.
type Result struct {
	ID       string        `json:"id"` // of the agent in its run: where it is in the log
	Agent    string        `json:"agent"`
	Success  bool          `json:"success"`
	Output   string        `json:"output,omitempty"` // all it has to say; what it said last, if it failed
	Error    string        `json:"error,omitempty"`
	ToolUses int           `json:"tool_uses,omitempty"`
	Usage    model.Usage   `json:"usage,omitzero"`
	Duration time.Duration `json:"duration,omitempty"` // from when it began to work to its end, without its time in the queue but with pauses of the run
}

// Spawn runs one sub-agent and returns its result; a failure of the agent is a result too. Spawn returns an error only if a question is open, the budget
// is used up, the context has ended, or the team was closed. The task must return that error.
//
// Scope is the scope of the calling task, nil without a log. The result of a job is recorded there, and a later attempt of the task returns it again. A
// second job of the same agent and ID in one attempt is a *journal.UsedError.
func (t *Team) Spawn(ctx context.Context, scope *journal.Scope, j Job) (Result, error) {
	results, err := t.spawnAll(ctx, scope, nil, []Job{j})
	return results[0], err
}

// SpawnAll runs sub-agents in parallel. Each runs to its end even if others fail; results are in the order of the jobs. If one asks the user, the others
// continue, and it continues too if the answer comes while they are running. SpawnAll returns the same errors as Spawn: then some results are missing,
// and the task gets them when it runs again.
func (t *Team) SpawnAll(ctx context.Context, scope *journal.Scope, jobs []Job) ([]Result, error) {
	return t.spawnAll(ctx, scope, nil, jobs)
}

// Close takes no more work, and ends that which is under way without a trace: a run that is
// resumed later continues with it. It waits until all of it has ended.
func (t *Team) Close() {
	t.mu.Lock()
	t.closed = true
	for _, cancel := range t.members {
		cancel(errClosed)
	}
	t.mu.Unlock()
	t.work.Wait()
}

// spawnAll runs sub-agents for the agent that holds the seat, nil for a lead without one.
func (t *Team) spawnAll(ctx context.Context, scope *journal.Scope, parent *seat, jobs []Job) ([]Result, error) {
	results, errs := make([]Result, len(jobs)), make([]error, len(jobs))
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return results, errClosed
	}
	t.work.Add(1)
	t.mu.Unlock()
	defer t.work.Done()
	tasks := make([]*task, 0, len(jobs))
	seen := map[string]bool{}
	for i, j := range jobs {
		if j.ID == "" && len(jobs) > 1 {
			j.ID = strconv.Itoa(i + 1)
		}
		k := t.task(scope, parent, &j)
		if seen[k.name] {
			results[i] = k.failed(fmt.Sprintf("there are two jobs %q of agent %s; give each an ID of its own", j.ID, j.Agent))
			tasks = append(tasks, nil)
			continue
		}
		seen[k.name] = true
		tasks = append(tasks, k)
	}
	if err := afford(scope, tasks); err != nil {
		return results, err
	}
	parent.rise()
	all, work := journal.NewBranches(len(tasks)), sync.WaitGroup{}
	for i, k := range tasks {
		if k == nil {
			all.End()
			continue
		}
		k.enter() // here, so that they come to the queue in order
		work.Go(func() { results[i], errs[i] = k.finish(ctx, all) })
	}
	work.Wait()
	err := errors.Join(errs...)
	return results, errors.Join(err, parent.back(ctx, err != nil))
}

// afford returns a [*runlog.BudgetError] if the budget of the run is too small for all agents of a fan-out, before the first of them asks
// a model.
func afford(scope *journal.Scope, tasks []*task) error {
	need := int64(0)
	for _, k := range tasks {
		if k != nil && strings.TrimSpace(k.job.Prompt) != "" {
			need++
		}
	}
	if need < 2 { // one is refused when it begins
		return nil
	}
	return scope.AffordsWithin("fan/agents", runlog.Amount{Agents: need})
}

// finish does a task. If the task waits for an answer that comes while others run, it continues with the answer. Its cancellation during the wait is recorded,
// because a replay cannot derive it from the clock.
func (k *task) finish(ctx context.Context, all *journal.Branches) (r Result, err error) {
	own, leave := k.begin(ctx)
	defer leave()
	var q *journal.WaitError
	err = all.Run(own, k.scope, k.job.Stopped, func(again bool) error {
		for ; ; again = true {
			if again {
				k.enter()
			}
			if r, err = k.do(ctx, own); !errors.As(err, &q) {
				return err
			}
			if next, werr := k.noted(ctx, q); werr != nil || next == "" {
				return errors.Join(err, werr)
			}
		}
	})
	if !k.over && journal.Waits(err) && errors.Is(context.Cause(own), errCancelled) && errors.As(err, &q) {
		if werr := k.noteNext(ctx, q, journal.Withdrawn, ""); werr != nil {
			return r, werr
		}
		k.over = true
		k.enter()
		return k.do(ctx, own)
	}
	return r, err
}

// unknown returns the error for an unknown agent, with the known ones.
func (t *Team) unknown(name string, err error) string {
	var names []string
	for _, i := range t.opt.List() {
		names = append(names, i.Name)
	}
	if slices.Contains(names, name) {
		return err.Error()
	}
	hint := ""
	if near := suggest.Closest(name, names); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	missing := fmt.Sprintf("there is no agent %q", name)
	text := fmt.Sprintf("%s%s The agents are: %s (%v)", missing, cmp.Or(hint, "."), cmp.Or(strings.Join(names, ", "), "none"), err)
	return strings.TrimSuffix(text, " ("+missing+")")
}
