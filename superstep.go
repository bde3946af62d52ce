// Package superstep runs workflows that survive a crash. An [Engine] holds a store of runs and a list of workflows; it starts and resumes runs, and lets
// any number of readers follow them.
package superstep

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/agent/team"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/hook"
	"github.com/superstep-dev/superstep/internal/live"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/internal/traceid"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/internal/waitlist"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
	"github.com/superstep-dev/superstep/workflow"
)

// Version is the version of this module.
const Version = "0.1.0-dev"

// Options are the settings of an Engine. Nil means the defaults.
type Options struct {
	Workflows []*workflow.Workflow
	// Restore rebuilds the workflow pinned by a run, even if no workflow of that name exists any longer. If nil, the current workflow of that name
	// rebuilds it, see workflow.Workflow.
	Restore     func(name string, pinned json.RawMessage) (*workflow.Workflow, error)
	Parallelism int               // tasks of one run running at once; defaults to 16
	Agents      int               // agents of one run that work at once, whatever began them; defaults to 5
	MaxSteps    int               // supersteps of a run; defaults to the graph's own default
	Timeout     time.Duration     // of one run, from its start or resumption; defaults to none
	Now         func() time.Time  // stamps records; defaults to time.Now
	Cache       graph.Cache       // where nodes find work that was done before; defaults to none
	NewID       func() string     // names runs, [a-z0-9-]{1,64}; defaults to 8 random hexadecimal digits
	Failpoint   func(name string) // see journal.Options; defaults to nothing
	Hooks       []hook.Hook       // around the model calls, tool calls and nodes of runs, the outermost first
	// Project is the folder that new runs belong to. Find counts its runs alone. If "", runs belong to no folder, and all are counted.
	Project string
	// Sandbox returns the name of the sandbox for the commands of runs; the logs record it. If nil, the sandbox is recorded as unknown.
	Sandbox func() string
	// Folder returns the folder in which the engine keeps the files of an executing run up to date, and what redacts them; a nil Redactor is one that
	// knows the shapes of credentials. If
	// Folder is nil or returns "", no files are written.
	Folder func(id string) (dir string, redactor *redact.Redactor)
	// Sockets returns the paths of the Unix socket of a run, over which other processes of this user follow it. Follow looks there for runs of other
	// processes. The first path at which a socket can be created is used; paths of more than 100 bytes are skipped. If nil, there is no socket, and other
	// processes follow the store.
	Sockets func(id string) []string
	// Observe, if non-nil, is called with every stored record of every run that executes here, from the run's first on, and with the live-only records of
	// the execution. Live reports whether the record was written by this execution. The run does not wait for it, but its outcome does.
	Observe func(id string, r runlog.Record, live bool)
	// Propagate passes the place of an effect in the trace of its run on to the effect, see journal.Scope.Traceparent: models, MCP servers and external
	// agents get it.
	Propagate bool
	// Trusted reports whether an imported run may be continued here. The default is no: such a
	// run can be read and replayed, and every call that would continue it returns *UntrustedError.
	Trusted func(*runlog.Imported) (bool, error)
	// Accept returns why this engine does not resume a run, by what the run began with; the run then waits, and listings tell why. If nil, it resumes any.
	Accept func(*runlog.RunStarted) error
}

// A RefusedError reports that an engine does not execute a run; see Options.Accept. Another one may.
type RefusedError struct {
	ID  string
	Err error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("run %s waits: %v", e.ID, e.Err) }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Err }

// FailureCode is the code of runs that fail with the error.
func (e *RefusedError) FailureCode() string { return "refused" }

// accepts returns *RefusedError if this engine does not execute a run.
func (e *Engine) accepts(ctx context.Context, id string) error {
	if e.opt.Accept == nil {
		return nil
	}
	started, err := e.started(ctx, id)
	if err != nil {
		return &unreadError{err}
	}
	if err := e.opt.Accept(&started); err != nil {
		return &RefusedError{id, err}
	}
	return nil
}

// An UntrustedError reports that an imported run cannot be continued, since nobody has trusted
// what it would execute.
type UntrustedError struct{ ID string }

func (e *UntrustedError) Error() string {
	return fmt.Sprintf("run %s was imported from a file, and what it would execute is not trusted", e.ID)
}

// FailureCode is the code of runs that fail with the error.
func (e *UntrustedError) FailureCode() string { return "untrusted" }

// vouch is like trusts, for a run that this process does not hold, so that a refused run stays unchanged.
func (e *Engine) vouch(ctx context.Context, id string) error {
	im, err := runlog.Origin(ctx, e.store, id)
	if err != nil {
		return err
	}
	return e.trusts(id, im)
}

// trusts returns *UntrustedError if a run with that import mark must not be continued. A nil mark belongs to a run that was not imported.
func (e *Engine) trusts(id string, im *runlog.Imported) error {
	if im == nil {
		return nil
	}
	ok, err := e.opt.Trusted(im)
	if ok && err == nil {
		return nil
	}
	return errors.Join(&UntrustedError{ID: id}, err)
}

// An Engine runs workflows. Its methods may be called from several goroutines.
type Engine struct {
	store runlog.Store
	opt   Options

	mu     sync.Mutex
	runs   map[string]*Run    // those that are executing here
	active int                // how many execute, with those that were fenced off and have not ended yet
	deaf   context.CancelFunc // ends listen, which runs while any is active
	later  map[string]later   // those that Recover leaves alone for a while
	closed bool
	work   sync.WaitGroup // runs, and calls that may start one

	tend    tending
	serving atomic.Bool       // Serve executes what nobody executes, children too
	taking  sync.Mutex        // guards list
	list    waitlist.List     // the runs that wait for a worker, as far as Recover knows them
	load    Load              // guarded by mu
	freed   chan struct{}     // receives a value when a run that Recover has taken has ended
	skips   map[string]string // guarded by mu; see unlisted.Worker
	skipped chan struct{}     // receives a value when skips has changed
}

// New creates an engine. It reports every mistake in its workflows at once. The caller must close the store after the engine.
func New(store runlog.Store, opt *Options) (*Engine, error) {
	e := &Engine{
		store: unlisted.Visible(store, nil), runs: map[string]*Run{}, later: map[string]later{}, freed: make(chan struct{}, 1), skips: map[string]string{}, skipped: make(chan struct{}, 1), tend: tending{make(chan struct{}, 1)},
	}
	if opt != nil {
		e.opt = *opt
	}
	if e.opt.Now == nil {
		e.opt.Now = time.Now
	}
	if e.opt.NewID == nil {
		e.opt.NewID = func() string { return fmt.Sprintf("%08x", rand.Uint32()) }
	}
	if e.opt.Sandbox == nil {
		e.opt.Sandbox = func() string { return "" }
	}
	if e.opt.Folder == nil {
		e.opt.Folder = func(string) (string, *redact.Redactor) { return "", nil }
	}
	if e.opt.Sockets == nil {
		e.opt.Sockets = func(string) []string { return nil }
	}
	if e.opt.Trusted == nil {
		e.opt.Trusted = func(*runlog.Imported) (bool, error) { return false, nil }
	}
	return e, workflow.Set(e.opt.Workflows).Validate()
}

// Workflows returns the workflows of the engine.
func (e *Engine) Workflows() workflow.Set { return e.opt.Workflows }

// Answering answers an open question when the run can make no other progress. It returns an answer, or false to leave the question open, and may block
// until ctx ends. Ctx ends when the run must stop, and when another question of the run has been answered, so that the task that asked it continues; the
// first question is asked again later.
type Answering func(ctx context.Context, q runlog.Question) (*runlog.Answer, bool)

// StartOptions are the settings of one run. Nil means the defaults.
type StartOptions struct {
	// ID names the run, so that a repeated Start does not run it twice: if a run with the same ID, workflow and inputs (after Settle) exists, Start does
	// the same as Resume. If a different run has the ID, Start returns a *ConflictError. The default comes from NewID.
	ID     string
	Title  string    // one line about the run, for listings; defaults to the first required input
	Answer Answering // defaults to leaving every question open, which pauses the run
	// Budget limits the usage of the run over all of its executions. At a limit, the run pauses until it is resumed with a larger one. The default is no
	// limits.
	Budget *runlog.Budget
	// SnapshotEvery is the number of supersteps between snapshots, in all executions of the run. If 0, snapshots are written when the log has grown
	// enough, which suffices for recovery.
	SnapshotEvery int
	// Queue is what a run needs of the worker that takes it, see Enqueue. Start ignores it.
	Queue *runlog.Queue
	// Trace is the traceparent (W3C Trace Context) of the caller: the run's spans belong to that trace. Anything that is not one is ignored.
	Trace string
	// Observe, if non-nil, is called with every record of the run from its first on, including the live-only ones of this execution, in order and on one
	// goroutine. The run does not wait for it, but its outcome does.
	Observe func(runlog.Record, error)
}

// Start starts a run of a workflow and returns while it executes. The inputs are a value that encodes as a JSON object, such as the In of workflow.New, or
// that object itself, as json.RawMessage; nil is none. The run executes until it ends, pauses or fails, or until ctx ends; in the last case it can be resumed.
func (e *Engine) Start(ctx context.Context, name string, inputs any, opt *StartOptions) (*Run, error) {
	leave, err := e.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	n, err := e.prepare(name, inputs, opt)
	if err != nil {
		return nil, err
	}
	j, err := e.create(ctx, n.ID, n.journal())
	if err != nil {
		return nil, err
	}
	if j.Info().Head > 0 {
		return e.again(ctx, j, n)
	}
	if err := e.record(ctx, j, n, runlog.Running); err != nil {
		return nil, err
	}
	return e.launch(ctx, j, &launching{ResumeOptions{Answer: n.Answer, Observe: n.Observe}, n.w, n.inputs, n.SnapshotEvery, nil, traced(n.Trace)}), nil
}

// A beginning is a run that is about to be created.
type beginning struct {
	StartOptions
	w      *workflow.Workflow
	inputs json.RawMessage
	pinned json.RawMessage
}

func (n *beginning) journal() *journal.Options {
	return &journal.Options{Create: &runlog.NewRun{Workflow: n.w.Name, Title: n.Title}, Budget: n.Budget}
}

// prepare checks what a new run is made of. It has no effect.
func (e *Engine) prepare(name string, given any, opt *StartOptions) (*beginning, error) {
	w, err := e.Workflows().Find(name)
	if err != nil {
		return nil, err
	}
	var inputs json.RawMessage
	switch v := given.(type) {
	case json.RawMessage:
		inputs = v
	case []byte:
		inputs = v
	default:
		if inputs, err = json.Marshal(given); err != nil {
			return nil, fmt.Errorf("the inputs of %s cannot be encoded: %w", name, err)
		}
	}
	if inputs, err = w.Settle(inputs); err != nil {
		return nil, err
	}
	n := &beginning{w: w, inputs: inputs}
	if opt != nil {
		n.StartOptions = *opt
	}
	if n.Title == "" {
		n.Title = title(w, inputs)
	}
	if w.Pin != nil {
		if n.pinned, err = w.Pin(inputs); err != nil {
			return nil, err
		}
	}
	if w.Budget != nil {
		b := *w.Budget
		if n.Budget != nil {
			b = n.Budget.Over(b)
		}
		n.Budget = &b
	}
	return n, bounded(w, inputs, n.Budget)
}

// record writes the first record of a new run, which gives the run its status. If that fails, it closes the journal and removes the run.
func (e *Engine) record(ctx context.Context, j *journal.Journal, n *beginning, status runlog.Status) (err error) {
	n.inputs = j.Clean(n.inputs)
	if n.pinned != nil {
		n.pinned = j.Clean(n.pinned)
		if n.w, err = n.w.Restore(n.pinned); err != nil {
			return e.undo(ctx, j, err)
		}
	}
	started := runlog.RunStarted{Workflow: n.w.Name, Inputs: n.inputs, Pinned: n.pinned, Engine: Version, Sandbox: e.opt.Sandbox(), Title: n.Title, Timed: true,
		Budget: n.Budget, Every: n.SnapshotEvery, Folder: e.opt.Project, Trace: traced(n.Trace)}
	if status == runlog.Queued {
		if started.Queue = n.Queue; n.Queue == nil {
			started.Queue = &runlog.Queue{}
		}
	}
	if err := j.Write(ctx, status, runlog.KindRunStarted, "", started); err != nil {
		return e.undo(ctx, j, err)
	}
	return nil
}

// traced returns a traceparent, or "" for anything else.
func traced(parent string) string {
	if _, ok := traceid.Parse(parent); !ok {
		return ""
	}
	return parent
}

// undo removes a run that could not be started, and returns the reason.
func (e *Engine) undo(ctx context.Context, j *journal.Journal, err error) error {
	ctx = context.WithoutCancel(ctx)
	if cerr := j.Close(ctx); cerr != nil {
		return errors.Join(err, cerr)
	}
	if errors.Is(err, runlog.ErrUnknown) {
		return err // it may have begun
	}
	_ = e.store.Delete(ctx, j.ID()) // or else it is listed as interrupted, and says that it never began
	return notCreated(err)
}

// notCreated notes in the error of a store that can take no more that the run was not created.
func notCreated(err error) error {
	full, ok := errors.AsType[*runlog.StorageError](err)
	if !ok || errors.Is(err, runlog.ErrUnknown) {
		return err
	}
	return &runlog.StorageError{Store: full.Store, Err: full.Err, Unbegun: true} // the other one may be told to other runs, too
}

// create opens the journal of a new run, which is not listed until it has its first record. If an ID is given, the run may already exist.
func (e *Engine) create(ctx context.Context, id string, opt *journal.Options) (j *journal.Journal, err error) {
	if unlisted.Reserved(id) {
		return nil, fmt.Errorf("a run cannot have the ID %q, which is for requests, schedules and workers; use another ID", id)
	}
	if opt.Create.Status = runlog.Importing; id != "" {
		opt.Reopen = true
		j, err = e.open(ctx, id, opt)
		return j, notCreated(err)
	}
	for range 10 { // a short ID may be taken
		j, err = e.open(ctx, e.opt.NewID(), opt)
		if !errors.Is(err, runlog.ErrExists) {
			break
		}
	}
	return j, notCreated(err)
}

func (e *Engine) open(ctx context.Context, id string, opt *journal.Options) (*journal.Journal, error) {
	opt.Now, opt.Failpoint, opt.Agents = e.opt.Now, e.opt.Failpoint, e.opt.Agents
	return journal.Open(ctx, e.store, id, opt)
}

func title(w *workflow.Workflow, inputs json.RawMessage) string {
	var values map[string]any
	if json.Unmarshal(inputs, &values) != nil {
		return ""
	}
	for _, in := range w.List() {
		if s, ok := values[in.Name].(string); ok && in.Required {
			return strings.Join(strings.Fields(s), " ")
		}
	}
	return ""
}

// ResumeOptions are the settings of Resume. Nil means the defaults.
type ResumeOptions struct {
	Answer  Answering                  // defaults to leaving every question open
	Observe func(runlog.Record, error) // see StartOptions
	// Budget changes the budget of the run from now on, see runlog.Budget.Over. Earlier usage counts. If nil, the budget does not change.
	Budget *runlog.Budget
	// Quarantined allows resuming a quarantined run. If false, Resume returns *runlog.QuarantinedError for it.
	Quarantined bool
	// AllowChange resumes the run with the workflow's current graph if that still has the nodes that run next, see graph.RunOptions. If false, Resume
	// returns a *graph.ChangedError for a changed graph.
	AllowChange bool
	// Supervised means that another system decides what executes next, such as package temporal: child runs are left to it, a run that only waits for them
	// pauses after a few seconds, and a run whose graph has changed ends as Interrupted, for a process that has its version.
	Supervised bool

	recovers bool           // a worker takes it: what stands in the way leaves the run as it was
	adopted  bool           // its parent executes here
	ended    func(*Outcome) // called when the execution has ended
}

// Resume resumes a run that was interrupted, failed or paused, or that waits for storage. Nothing recorded in its log is repeated. For a completed run,
// the recorded outcome is there at once. The error is *runlog.BusyError if another process executes the run, and *runlog.EndedError if it was cancelled.
func (e *Engine) Resume(ctx context.Context, id string, opt *ResumeOptions) (*Run, error) {
	leave, err := e.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	info, err := e.find(ctx, id)
	if err != nil {
		return nil, err
	}
	var o ResumeOptions
	if opt != nil {
		o = *opt
	}
	switch {
	case o.recovers && !takes(&info):
		return nil, errTaken
	case info.Status.Ended():
		return e.finished(ctx, info)
	}
	if err := e.vouch(ctx, id); err != nil {
		return nil, err
	}
	if err := e.accepts(ctx, id); err != nil {
		return nil, err
	}
	if o.Budget != nil {
		if err := e.lend(ctx, &info, o.Budget); err != nil {
			return nil, err
		}
	}
	j, err := e.open(ctx, id, &journal.Options{Budget: o.Budget, Quarantined: o.Quarantined})
	if err != nil {
		return nil, err
	}
	now := j.Info()
	switch {
	case !o.recovers && now.Status.Ended(): // it ended while we looked
		if err := j.Close(context.WithoutCancel(ctx)); err != nil {
			return nil, err
		}
		return e.finished(ctx, now)
	case o.recovers && now.Status != runlog.Running && !takes(&now):
		err = errTaken
	case o.recovers && !now.Cancel:
		err = e.claim(ctx, j)
	}
	var r *Run
	if err == nil {
		r, err = e.resume(ctx, j, &o)
	}
	if err != nil {
		return nil, errors.Join(err, j.Close(context.WithoutCancel(ctx)))
	}
	return r, nil
}

// errTaken reports that another process has taken a run, or that it has ended or is paused.
var errTaken = errors.New("the run waits for no worker any more")

// takes reports whether a worker takes runs of that status.
func takes(info *runlog.Info) bool {
	return info.Status == runlog.Queued || info.Status == runlog.Interrupted || info.Status == runlog.WaitingStorage
}

func (e *Engine) resume(ctx context.Context, j *journal.Journal, opt *ResumeOptions) (*Run, error) {
	cancelled := func() error {
		err := j.Write(ctx, runlog.Cancelled, runlog.KindRunCancelled, "", nil)
		if err == nil {
			info := j.Info()
			err = e.cancelChildren(ctx, &info)
		}
		return cmp.Or[error](err, &runlog.EndedError{ID: j.ID(), Status: runlog.Cancelled})
	}
	if j.Info().Cancel { // whoever held it then did not get to it
		return nil, cancelled()
	}
	started, err := e.started(ctx, j.ID())
	if err == nil && e.orphaned(ctx, started.Child) {
		return nil, cancelled()
	}
	if err == nil {
		err = e.trusts(j.ID(), j.Imported()) // it may be another run of that ID by now
	}
	if err != nil {
		return nil, err
	}
	w, err := e.workflowOf(&started)
	if err != nil {
		return nil, err
	}
	_ = j.Look(ctx) // what came while nobody executed it counts from the start; what cannot be read now is read later
	resumed := runlog.RunResumed{Sandbox: e.opt.Sandbox(), Timed: true}
	if opt.Budget != nil {
		b := j.Budget()
		resumed.Budget = &b
	}
	if err := j.Write(ctx, runlog.Running, runlog.KindRunResumed, "", resumed); err != nil {
		return nil, err
	}
	if len(j.Children()) > 0 { // those that were paused with it are resumed with it
		info := j.Info()
		err := e.downward(ctx, &info, func(child *runlog.Info) error {
			if sum := summary.Of(child); child.Status != runlog.Paused || sum == nil || sum.Waits != summary.Operator {
				return nil
			}
			return e.requeue(ctx, child.ID, nil)
		})
		if err != nil {
			return nil, err
		}
	}
	return e.launch(ctx, j, &launching{*opt, w, started.Inputs, started.Every, started.Child, started.Trace}), nil
}

// workflowOf returns the workflow that a run has pinned.
func (e *Engine) workflowOf(started *runlog.RunStarted) (*workflow.Workflow, error) {
	if started.Pinned != nil && e.opt.Restore != nil {
		return e.opt.Restore(started.Workflow, started.Pinned)
	}
	w, err := e.Workflows().Find(started.Workflow)
	if err != nil || started.Pinned == nil || w.Restore == nil {
		return w, err
	}
	return w.Restore(started.Pinned)
}

func unbegun(id string) error {
	return fmt.Errorf("run %s was cut off before it began; there is nothing to resume, so it may be removed", id)
}

// started reads how a run began.
func (e *Engine) started(ctx context.Context, id string) (runlog.RunStarted, error) {
	d, err := runlog.Started(ctx, e.store, id)
	switch {
	case err != nil:
		return runlog.RunStarted{}, err
	case d == nil:
		return runlog.RunStarted{}, unbegun(id)
	}
	return *d, nil
}

func (e *Engine) find(ctx context.Context, id string) (runlog.Info, error) {
	infos, err := e.store.Runs(ctx, &runlog.Filter{ID: id})
	if err != nil {
		return runlog.Info{}, err
	}
	if len(infos) == 0 {
		return runlog.Info{}, unlisted.Missing(ctx, e.store, id)
	}
	return infos[0], nil
}

// finished returns a run that has already ended, without executing anything. The error is *runlog.EndedError if it was cancelled.
func (e *Engine) finished(ctx context.Context, info runlog.Info) (*Run, error) {
	if info.Status == runlog.Cancelled {
		return nil, &runlog.EndedError{ID: info.ID, Status: info.Status}
	}
	r := &Run{id: info.ID, engine: e, done: make(chan struct{})}
	close(r.done)
	r.outcome = Outcome{Status: info.Status}
	for rec, err := range runlog.Records(ctx, e.store, info.ID, info.Head) {
		if err != nil {
			return nil, err
		}
		if rec.Kind == runlog.KindRunFinished {
			var d runlog.RunFinished
			if err := json.Unmarshal(rec.Data, &d); err != nil {
				return nil, fmt.Errorf("run %s: its last record: %w", info.ID, err)
			}
			r.outcome.Output, r.outcome.Steps, r.outcome.Skipped = d.Output, d.Steps, d.Skipped
		}
	}
	return r, nil
}

// Cancel cancels a run and its child runs, whichever process executes it. If none does, the run is cancelled when Cancel returns; otherwise soon after. For a
// run that has ended it returns *runlog.EndedError, and cancels child runs that a crash has left.
func (e *Engine) Cancel(ctx context.Context, id string) error {
	leave, err := e.enter()
	if err != nil {
		return err
	}
	defer leave()
	info, err := e.find(ctx, id)
	if err != nil {
		return err
	}
	if info.Status.Ended() {
		if err := e.cancelChildren(ctx, &info); err != nil { // a process may have died before it did
			return err
		}
		return &runlog.EndedError{ID: id, Status: info.Status}
	}
	j, err := e.open(ctx, id, &journal.Options{Quarantined: true})
	if _, busy := errors.AsType[*runlog.BusyError](err); busy {
		err := e.store.RequestCancel(ctx, id) // first, for whoever resumes it if this process dies
		if r := e.executing(id); r != nil {
			r.stop(journal.ErrCancelRequested)
		} else {
			e.poke(ctx, id)
		}
		return err
	}
	if err != nil {
		return err
	}
	if now := j.Info(); now.Status.Ended() { // it ended while we looked
		err = &runlog.EndedError{ID: id, Status: now.Status}
	} else {
		err = j.Write(ctx, runlog.Cancelled, runlog.KindRunCancelled, "", nil)
	}
	if err := errors.Join(err, j.Close(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	if info.IsChild() {
		e.delivered(ctx, info.Parent)
	}
	return e.cancelChildren(ctx, &info)
}

// An unknownAgentError reports that a run has no such sub-agent that could be cancelled.
type unknownAgentError struct {
	Run    string
	Status runlog.Status
	Agent  string
	Known  []string // the IDs of those that run
}

func (e *unknownAgentError) Error() string {
	if e.Status != runlog.Running {
		return fmt.Sprintf("run %s is %s: only a sub-agent of a running run can be cancelled; those that had not ended are: %s", e.Run, e.Status,
			cmp.Or(strings.Join(e.Known, ", "), "none"))
	}
	hint := "."
	if near := suggest.Closest(e.Agent, e.Known); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return fmt.Sprintf("run %s runs no sub-agent %q%s Those that run are: %s", e.Run, e.Agent, hint, cmp.Or(strings.Join(e.Known, ", "), "none"))
}

// Pause pauses a run and its child runs until it is resumed, whichever process executes it: no new task starts, and Pause returns when the running ones
// have ended. If no process executes the run, no worker resumes it. By names the user who asks.
func (e *Engine) Pause(ctx context.Context, id, by string) error {
	leave, err := e.enter()
	if err != nil {
		return err
	}
	defer leave()
	if err := e.pause(ctx, id, by); err != nil {
		return err
	}
	info, err := e.find(ctx, id)
	if err != nil {
		return err
	}
	return e.downward(ctx, &info, func(child *runlog.Info) error { return e.Pause(ctx, child.ID, by) })
}

func (e *Engine) pause(ctx context.Context, id, by string) (err error) {
	paused := runlog.RunPaused{By: cmp.Or(by, "engine")}
	r := unlisted.Request{Kind: unlisted.KindPause, Time: e.opt.Now().UTC()}
	if r.Data, err = json.Marshal(paused); err != nil {
		return err
	}
	for {
		info, err := e.find(ctx, id)
		if err != nil {
			return err
		}
		if info.Status.Ended() {
			return &runlog.EndedError{ID: id, Status: info.Status}
		}
		if info.Status == runlog.Paused {
			return nil
		}
		if info.Status == runlog.Failed {
			return fmt.Errorf("run %s has failed: there is nothing to pause", id)
		}
		j, err := e.open(ctx, id, &journal.Options{})
		if err == nil {
			if now := j.Info(); !now.Status.Ended() && now.Status != runlog.Paused {
				err = j.Write(ctx, runlog.Paused, runlog.KindRunPaused, "", paused)
			}
			return errors.Join(err, j.Close(context.WithoutCancel(ctx)))
		}
		if !errors.As(err, new(*runlog.BusyError)) {
			return err
		}
		if paused.Request == "" {
			if err := e.post(ctx, id, &r); err != nil {
				return err
			}
			paused.Request = r.ID // if nobody carries it out
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Agents lists the sub-agents of a run.
func (e *Engine) Agents(ctx context.Context, id string) ([]team.Member, error) {
	return team.List(runlog.Records(ctx, e.store, id, 0))
}

// CancelAgent cancels one sub-agent of a running run, by its ID in Agents, whichever process executes the run. The sub-agent's lead gets the result
// "cancelled" soon after and continues. CancelAgent returns an error if there is no such agent.
func (e *Engine) CancelAgent(ctx context.Context, id, agent string) error {
	leave, err := e.enter()
	if err != nil {
		return err
	}
	defer leave()
	info, err := e.find(ctx, id)
	if err != nil {
		return err
	}
	members, err := e.Agents(ctx, id)
	if err != nil {
		return err
	}
	unknown := &unknownAgentError{Run: id, Status: info.Status, Agent: agent}
	for _, m := range members {
		if m.State == team.Running {
			unknown.Known = append(unknown.Known, m.ID)
		}
	}
	if info.Status != runlog.Running || !slices.Contains(unknown.Known, agent) {
		return unknown
	}
	err = e.post(ctx, id, &unlisted.Request{Kind: unlisted.KindCancel, Path: agent, Time: e.opt.Now().UTC()})
	if errors.As(err, new(*runlog.EndedError)) {
		return nil // and the agent with it
	}
	return err
}

// Answer answers a question of a run, whichever process executes it: that process continues with the answer at once. If no process executes the run, it
// continues when it is resumed; a run that began queued is queued again once no question is left. Each question is answered once, by an answer that fits it. Answer returns the errors of [journal.Journal.Answer].
func (e *Engine) Answer(ctx context.Context, id, path string, a *runlog.Answer) error {
	_, err := e.answer(ctx, id, path, a)
	return err
}

// answer is Answer. It also reports whether the run rests: no process executes it, and the answer is there for whoever resumes it.
func (e *Engine) answer(ctx context.Context, id, path string, a *runlog.Answer) (rests bool, err error) {
	leave, err := e.enter()
	if err != nil {
		return false, err
	}
	defer leave()
	if r := e.executing(id); r != nil {
		if err := r.journal.Answer(ctx, path, a); !errors.Is(err, runlog.ErrFenced) {
			return false, err
		}
		select {
		case <-r.free:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	if err := e.vouch(ctx, id); err != nil {
		return false, err
	}
	var from uint64
	for {
		j, err := e.open(ctx, id, &journal.Options{})
		if errors.As(err, new(*runlog.BusyError)) {
			if from == 0 {
				posted := *a
				posted.Request, a = fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()), &posted
				if from, err = journal.Post(ctx, e.store, id, path, a, e.opt.Now()); err != nil || from == 0 {
					return false, err
				}
				e.poke(ctx, id)
			}
			var done bool
			if from, done, err = e.answered(ctx, id, path, a, from); done || err != nil {
				return false, err
			}
			continue
		}
		if err != nil {
			return false, err
		}
		done := false
		if now := j.Info(); now.Status.Ended() {
			if from > 0 { // it may have ended with the answer
				_, done, err = e.answered(ctx, id, path, a, from)
			}
			if !done && err == nil {
				err = &runlog.EndedError{ID: id, Status: now.Status}
			}
		} else if err = e.trusts(id, j.Imported()); err == nil {
			err, rests = j.Answer(ctx, path, a), true
		}
		return rests, errors.Join(err, j.Close(context.WithoutCancel(ctx)))
	}
}

// answered reports whether the question that a answers has an answer in the records from a number on, and returns an *AnsweredError if that is not a. It
// waits a moment for such a record, and returns the number at which to continue the next time.
func (e *Engine) answered(ctx context.Context, id, path string, a *runlog.Answer, from uint64) (next uint64, done bool, err error) {
	return e.await(ctx, id, from, func(r *runlog.Record) (bool, error) {
		var got runlog.Answer
		if r.Kind != runlog.KindAnswered || r.Path != path || json.Unmarshal(r.Data, &got) != nil || got.Key != a.Key {
			return false, nil
		}
		if got.Request != a.Request {
			return true, &journal.AnsweredError{Path: path, Key: a.Key}
		}
		return true, nil
	})
}

// Runs lists runs, the newest first. Nil means all of them.
func (e *Engine) Runs(ctx context.Context, f *runlog.Filter) ([]runlog.Info, error) {
	return e.store.Runs(ctx, f)
}

// An AmbiguousError reports that a reference fits several runs.
type AmbiguousError struct {
	Ref     string
	Matches []runlog.Info
}

func (e *AmbiguousError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q fits %d runs:", e.Ref, len(e.Matches))
	for i, m := range e.Matches {
		if i == 10 {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Matches)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %s  %s  %s", m.ID, m.Workflow, m.Title)
	}
	return b.String()
}

func isChild(i runlog.Info) bool { return i.IsChild() }

// Find returns the run that a reference names: its ID, a unique prefix of its ID, "@last" for the newest run, "@-2" for the one before it, and so on.
// Child runs are named by IDs and prefixes that fit no other run.
func (e *Engine) Find(ctx context.Context, ref string) (runlog.Info, error) {
	if back, ok := strings.CutPrefix(ref, "@"); ok {
		n := 1
		if back != "last" {
			d, err := strconv.Atoi(back)
			if err != nil || d >= 0 {
				return runlog.Info{}, fmt.Errorf("%q is no run: use an ID, a prefix of one, @last, or @-2 for the one before", ref)
			}
			n = -d
		}
		not := func(i runlog.Info) bool { return isChild(i) || summary.Elsewhere(&i, e.opt.Project) } // which nobody has started by hand here
		infos, err := e.store.Runs(ctx, &runlog.Filter{Limit: n})
		if err == nil && slices.ContainsFunc(infos, not) {
			infos, err = e.store.Runs(ctx, nil)
		}
		if err != nil {
			return runlog.Info{}, err
		}
		here := slices.DeleteFunc(slices.Clone(infos), not)
		switch {
		case len(here) < n && len(infos) > len(here):
			return runlog.Info{}, fmt.Errorf("%q: %d runs are of this folder; name a run of another by its ID", ref, len(here))
		case len(here) < n:
			return runlog.Info{}, fmt.Errorf("%q: there are %d runs", ref, len(here))
		}
		return here[n-1], nil
	}
	infos, err := e.store.Runs(ctx, &runlog.Filter{Prefix: ref})
	if err != nil {
		return runlog.Info{}, err
	}
	for _, info := range infos {
		if info.ID == ref {
			return info, nil
		}
	}
	if tops := slices.DeleteFunc(slices.Clone(infos), isChild); len(tops) == 1 { // the others begin with its ID, perhaps
		return tops[0], nil
	}
	switch {
	case ref == "" || len(infos) == 0:
		return runlog.Info{}, unlisted.Missing(ctx, e.store, ref)
	case len(infos) > 1:
		return runlog.Info{}, &AmbiguousError{ref, infos}
	}
	return infos[0], nil
}

// Follow yields a run's records from a sequence number on (0 is the first) and then new ones, until no process executes the run any more. If the run
// executes in this engine, or in a process that answers at one of Options.Sockets, Follow yields live-only records too. If no socket of an executing run
// answers, a live-only event named "stored.only" reports it.
func (e *Engine) Follow(ctx context.Context, id string, from uint64) iter.Seq2[runlog.Record, error] {
	if r := e.executing(id); r != nil {
		return r.journal.Follow(ctx, from)
	}
	if paths := e.opt.Sockets(id); paths != nil {
		return live.Follow(ctx, e.store, paths, id, from)
	}
	return runlog.Follow(ctx, e.store, id, from)
}

// poke makes the process that executes the run look for requests at once, if it can be reached.
func (e *Engine) poke(ctx context.Context, id string) {
	if r := e.executing(id); r != nil {
		_ = r.journal.Look(ctx) // else it looks again
		return
	}
	live.Look(ctx, e.opt.Sockets(id), id)
}

// executing returns the run with that ID if it executes here, or else nil.
func (e *Engine) executing(id string) *Run {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runs[id]
}

// Close stops the runs that execute here, so that they can be resumed, and waits for them.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closed = true
	for _, r := range e.runs {
		r.stop(ErrClosed)
	}
	e.mu.Unlock()
	e.work.Wait()
}

// ErrClosed reports that the engine was closed and starts nothing any more.
var ErrClosed = errors.New("the engine was closed")

// enter lets Close wait for a call that may start something, until leave is called.
func (e *Engine) enter() (leave func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	e.work.Add(1)
	return e.work.Done, nil
}
