package superstep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/pregel"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// ReplayOptions are the settings of Replay. Nil means the defaults.
type ReplayOptions struct {
	// Wait is how long the workflow may take from one record to the next before that
	// counts as a divergence: what waits for something that will not come looks like what
	// computes for long. Defaults to a minute.
	Wait time.Duration
}

// A ReplayReport says how a replay compares with the record.
type ReplayReport struct {
	Records  int // how many were written again and are equal, byte for byte
	Executed int // how many of them came from the workflow; the others are about executions, see Replay
	Epochs   int // how often the run was taken up
	Hash     runlog.FrameHash
	Diverged *Divergence // the first difference, nil for none
}

// A Divergence is where a replay and the record differ.
type Divergence struct {
	Seq      uint64         // of the record that was due
	Path     string         // of the task that differs, "" for the run itself
	Why      string         // in words
	Recorded *runlog.Record // nil if there is no more
	Replayed *runlog.Record // nil if the workflow wrote nothing; without Data if it was not its turn
}

func (d *Divergence) Error() string {
	at := "the run"
	if d.Path != "" {
		at = d.Path
	}
	return fmt.Sprintf("record %d: %s: %s", d.Seq, at, d.Why)
}

// Replay executes a run again from its own log, in memory, and compares what it writes
// with what is recorded, frame by frame and with the hashes that chain them. No effect is
// done: no model or tool is called, each gives what is recorded. What tasks do side by
// side is put into the recorded order, and a process that died dies again at the same
// record. Records have the recorded times.
//
// What the world did to the run is taken from the record as it is: that it was started,
// taken up, paused and cancelled, the answers to questions, where a process died or was
// stopped, and the beginning of a fork. The rest the workflow has to write itself, from
// the inputs on, with the same code: its own reading of files, clocks and chance outside
// of effects is not recorded, and shows as a divergence if it differs. A run that has not
// ended is replayed as far as it is.
func (e *Engine) Replay(ctx context.Context, id string, opt *ReplayOptions) (*ReplayReport, error) {
	leave, err := e.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	started, err := e.started(ctx, id)
	if err != nil {
		return nil, err
	}
	w, err := e.workflowOf(&started)
	if err != nil {
		return nil, err
	}
	p := &replay{id: id, workflow: w, inputs: started.Inputs, fork: started.Parent != "", every: started.Every, nested: e.Workflows().Nested, wait: time.Minute, script: newScript()}
	if opt != nil && opt.Wait > 0 {
		p.wait = opt.Wait
	}
	for r, err := range runlog.Records(ctx, e.store, id, 0) {
		if err != nil {
			return nil, err
		}
		p.script.add(r)
	}
	p.store = &replayStore{Memory: runlog.NewMemory(nil), script: p.script}
	if err := p.run(ctx); err != nil {
		return nil, err
	}
	s := p.script
	return &ReplayReport{Records: s.cursor, Executed: s.cursor - p.injected, Epochs: p.epochs, Hash: s.hash, Diverged: s.diverged}, nil
}

// replay is one replay under way.
type replay struct {
	id       string
	workflow *workflow.Workflow
	inputs   json.RawMessage
	fork     bool
	every    int
	digest   string // of the graph, by the last snapshot
	nested   func(name string) (graph.Nested, error)
	wait     time.Duration
	script   *script
	store    runlog.Store
	epochs   int
	injected int
}

// run replays one epoch after the other.
func (p *replay) run(ctx context.Context) error {
	recs := p.script.recs
	for from := 0; from < len(recs); {
		to := from
		for to < len(recs) && recs[to].Epoch == recs[from].Epoch {
			to++
		}
		p.epochs++
		if seam := p.seam(recs[from:to]); seam != nil {
			p.script.diverge(seam.Path, "from here on the run goes on with another version of its graph")
			return nil
		}
		if err := p.epoch(ctx, to); err != nil || p.script.divergence() != nil {
			return err
		}
		from = to
	}
	return nil
}

// seam finds the record at which another version of the graph has taken the run over, nil if
// there is none among them.
func (p *replay) seam(recs []runlog.Record) *runlog.Record {
	for i := range recs {
		if recs[i].Kind != runlog.KindSnapshot {
			continue
		}
		var s struct {
			Digest string `json:"digest"`
		}
		if json.Unmarshal(recs[i].Data, &s) != nil {
			return nil // the workflow will say what is wrong with it
		}
		if p.digest != "" && s.Digest != p.digest {
			return &recs[i]
		}
		p.digest = s.Digest
	}
	return nil
}

// epoch replays what one process did, up to a record.
func (p *replay) epoch(ctx context.Context, to int) (err error) {
	opt := &runlog.JournalOptions{Director: p.script, Quarantined: true}
	if p.epochs == 1 {
		opt.Create = &runlog.NewRun{Workflow: p.workflow.Name}
	}
	outer := ctx
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	defer context.AfterFunc(outer, p.script.abandon)()
	p.script.open(to, cut)
	j, err := runlog.OpenJournal(ctx, p.store, p.id, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close(context.WithoutCancel(ctx))) }()
	for p.ahead(p.fork && p.epochs == 1, runlog.KindRunStarted, runlog.KindRunResumed, runlog.KindRunCancelled, runlog.KindAnswered) {
		if err := p.inject(ctx, j); err != nil {
			return err
		}
	}
	if p.script.next() == nil {
		return nil
	}
	stop := p.answers(ctx, j)
	err = p.execute(ctx, j)
	stop()
	if outer.Err() != nil {
		return context.Cause(outer)
	}
	if err != nil || p.script.divergence() != nil {
		return err
	}
	for p.ahead(p.script.wasCut(), runlog.KindRunPaused) {
		if err := p.inject(context.WithoutCancel(ctx), j); err != nil {
			return err
		}
	}
	if next := p.script.next(); next != nil {
		p.script.diverge(next.Path, "the workflow is over, and the record goes on")
	}
	return nil
}

// ahead reports whether the next record of the epoch is to be taken as it is.
func (p *replay) ahead(any bool, kinds ...runlog.Kind) bool {
	next := p.script.next()
	return next != nil && p.script.divergence() == nil && (any || slices.Contains(kinds, next.Kind))
}

// inject writes the next record as it is recorded.
func (p *replay) inject(ctx context.Context, j *runlog.Journal) error {
	next := p.script.next()
	p.injected++
	return j.Append(ctx, "", runlog.Record{Kind: next.Kind, Path: next.Path, Time: next.Time, Data: next.Data})
}

// answers gives the recorded answers when it is their turn, and sees to it that the
// workflow does not take for ever, until stop is called.
func (p *replay) answers(ctx context.Context, j *runlog.Journal) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		limit := time.NewTimer(p.wait)
		defer limit.Stop()
		late := false // the answer came before the question was asked again
		for {
			moved := p.script.move()
			if next := p.script.due(late); next != nil {
				late = false
				var a runlog.Answered
				if err := json.Unmarshal(next.Data, &a); err != nil {
					p.script.diverge(next.Path, err.Error())
				} else if err := j.Answer(ctx, next.Path, &a); err != nil && ctx.Err() == nil {
					p.script.diverge(next.Path, "the recorded answer is not taken: "+err.Error())
				} else {
					p.injected++
				}
			}
			select {
			case <-moved:
				limit.Reset(p.wait)
			case <-limit.C:
				if next := p.script.next(); next != nil && next.Kind == runlog.KindAnswered && !late {
					late = true
					limit.Reset(p.wait)
					continue
				}
				p.script.stalled(p.wait)
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// execute runs the workflow until the epoch is over.
func (p *replay) execute(ctx context.Context, j *runlog.Journal) error {
	exec := &workflow.Exec{
		Inputs: p.inputs, Journal: j,
		Graph: graph.RunOptions{Journal: j, Parallelism: math.MaxInt32, MaxSteps: math.MaxInt32, Workflows: p.nested, SnapshotEvery: p.every},
	}
	before := -1
	for {
		res, err := runWorkflow(ctx, p.workflow, exec)
		if p.script.divergence() != nil || p.script.wasCut() {
			return nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		var waits *pregel.WaitingError
		if !errors.As(err, &waits) {
			return p.end(ctx, j, res, err)
		}
		at, next := p.script.answered(ctx)
		switch {
		case next == nil || next.Kind == runlog.KindRunPaused || p.script.divergence() != nil:
			return nil
		case at == before:
			p.script.diverge(waits.Paths[0], "it waits for an answer, which was not so")
			return nil
		}
		before = at
	}
}

// end writes how the workflow ended.
func (p *replay) end(ctx context.Context, j *runlog.Journal, res *workflow.Result, err error) error {
	next := p.script.next()
	switch {
	case next == nil:
		return nil // the process died before it could say so
	case err == nil:
		d := runlog.RunFinished{Output: res.Output, Steps: res.Steps, Skipped: res.Skipped}
		if next.Kind != runlog.KindRunFinished {
			p.script.diverge(next.Path, "the workflow has ended, and the record goes on")
			return nil
		}
		return p.script.differs(j.Write(ctx, "", runlog.KindRunFinished, "", d))
	case next.Kind != runlog.KindRunFailed:
		p.script.diverge(next.Path, "the workflow fails, which was not so: "+err.Error())
		return nil
	}
	d := failure(err)
	var replayed *runlog.ReplayedError
	var was runlog.RunFailed
	if errors.As(err, &replayed) && json.Unmarshal(next.Data, &was) == nil {
		d.Code = was.Code // which depends on more than the text of the failure
	}
	return p.script.differs(j.Write(ctx, "", runlog.KindRunFailed, "", d))
}

// replayStore is where a replay writes. It takes nothing but what is recorded.
type replayStore struct {
	*runlog.Memory
	script *script
}

func (s *replayStore) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	log, info, err := s.Memory.Acquire(ctx, id, opt)
	if err != nil {
		return nil, info, err
	}
	return &replayLog{log, s.script}, info, nil
}

type replayLog struct {
	runlog.Log
	script *script
}

func (l *replayLog) Append(ctx context.Context, b *runlog.Batch) error {
	if err := l.script.match(b.Records); err != nil {
		return err
	}
	if err := l.Log.Append(ctx, b); err != nil {
		return err
	}
	return l.script.take(b.Records)
}

// equal reports whether a record, given the recorded place, is the recorded one byte for
// byte, and the hash of its frame.
func equal(prev runlog.FrameHash, recorded, replayed *runlog.Record) (bool, runlog.FrameHash, error) {
	r := *replayed
	r.Seq, r.Epoch, r.Time = recorded.Seq, recorded.Epoch, recorded.Time
	a, hash, err := runlog.AppendFrame(nil, prev, recorded)
	if err != nil {
		return false, hash, err
	}
	b, _, err := runlog.AppendFrame(nil, prev, &r)
	return bytes.Equal(a, b), hash, err
}
