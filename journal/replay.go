package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/internal/cut"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/runlog"
)

// ReplayOptions say how a run is replayed.
type ReplayOptions struct {
	Started runlog.RunStarted // what the run began with
	// Wait is how long the workflow may take from one record to the next before that counts as a divergence: waiting for something that will never come
	// looks the same as a long computation. The default is a minute.
	Wait time.Duration
	// Run runs the workflow in a journal. It is called once per recorded execution, and again after each answer.
	Run func(ctx context.Context, j *Journal) (Ending, error)
}

// An Ending is how the workflow of a replay has ended, besides its error. One of its fields is set.
type Ending struct {
	Finished *runlog.RunFinished // without an error
	Failed   *runlog.RunFailed
	Waiting  []string // the paths of the tasks that wait for answers
}

// A Report describes how a replay compares with the record.
type Report struct {
	Records  int // how many were written again and are equal, byte for byte
	Executed int // how many of them came from the workflow; the others are about executions, see Replay
	Epochs   int // how often the run was resumed
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

// Replay re-executes a run from its log, in memory, and compares its new records with the recorded ones, frame by frame. It performs no effects and uses
// their recorded outcomes.
func Replay(ctx context.Context, store runlog.Store, id string, opt *ReplayOptions) (*Report, error) {
	p := &replay{id: id, opt: *opt, script: newScript()}
	if p.opt.Wait <= 0 {
		p.opt.Wait = time.Minute
	}
	for r, err := range runlog.Records(ctx, store, id, 0) {
		if err != nil {
			return nil, err
		}
		p.script.add(r)
	}
	p.store = &replayStore{Memory: runlog.NewMemory(nil), script: p.script}
	if r, ok := runlog.As[interface {
		Around(store runlog.Store) runlog.Store
	}](store); ok { // what is recorded was redacted
		p.store = r.Around(p.store)
	}
	if err := p.run(ctx); err != nil {
		return nil, err
	}
	s := p.script
	return &Report{Records: s.cursor, Executed: s.cursor - p.injected, Epochs: p.epochs, Hash: s.hash, Diverged: s.diverged}, nil
}

// replay is one replay under way.
type replay struct {
	id       string
	opt      ReplayOptions
	digest   string // of the graph, by the last snapshot
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
			p.script.diverge(seam.Path, "from here on the run continues with another version of its graph")
			return nil
		}
		if err := p.epoch(ctx, to); err != nil || p.script.divergence() != nil {
			return err
		}
		from = to
	}
	return nil
}

// seam returns the record at which another version of the graph took over the run, or nil if there is none among recs.
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

// epoch replays the execution of one process, up to a record.
func (p *replay) epoch(ctx context.Context, to int) (err error) {
	opt := &Options{script: p.script, Quarantined: true}
	if p.epochs == 1 {
		opt.Create = &runlog.NewRun{Workflow: p.opt.Started.Workflow}
	}
	outer := ctx
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	defer context.AfterFunc(outer, p.script.abandon)()
	p.script.open(to, cut)
	j, err := Open(outer, p.store, p.id, opt) // ctx ends at once if the first record says that the run does
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close(context.WithoutCancel(ctx))) }()
	for p.ahead(p.opt.Started.Parent != "" && p.epochs == 1, runlog.KindRunStarted, runlog.KindRunResumed, runlog.KindRunCancelled, runlog.KindAnswered) {
		if err := p.inject(outer, j); err != nil {
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
	for p.ahead(p.script.wasCut(), runlog.KindRunPaused, runlog.KindEvent) {
		if err := p.inject(context.WithoutCancel(ctx), j); err != nil {
			return err
		}
	}
	if next := p.script.next(); next != nil {
		p.script.diverge(next.Path, "the workflow is over, and the record goes on")
	}
	return nil
}

// ahead reports whether the next record of the epoch must be copied from the log.
func (p *replay) ahead(any bool, kinds ...runlog.Kind) bool {
	next := p.script.next()
	return next != nil && p.script.divergence() == nil && (any || slices.Contains(kinds, next.Kind) || beside(next))
}

// inject copies the next record from the log.
func (p *replay) inject(ctx context.Context, j *Journal) error {
	next := p.script.next()
	p.injected++
	return j.Append(ctx, "", runlog.Record{Kind: next.Kind, Path: next.Path, Time: next.Time, Data: next.Data, Attachment: next.Attachment})
}

// beside reports whether a record was not written by the workflow, but beside it: a change of the budget or of a loan, the output of an interrupted
// effect, a question of a running one, or a mark. A replay copies it.
func beside(r *runlog.Record) bool {
	return mail.BudgetOf(r) != nil || mail.LoanOf(r) != nil || cut.Of(r) != nil || asksDuring(r) || marks(r)
}

// answers injects the recorded answers and the records beside the workflow when they are due, and ends the workflow if it takes too long, until stop is called.
func (p *replay) answers(ctx context.Context, j *Journal) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		limit := time.NewTimer(p.opt.Wait)
		defer limit.Stop()
		late := false // the answer came before the question was asked again
		for {
			moved := p.script.move()
			if next := p.script.due(late); next != nil {
				late = false
				var a runlog.Answer
				if beside(next) {
					if err := p.inject(ctx, j); err != nil && ctx.Err() == nil {
						p.script.diverge(next.Path, "the recorded event is not taken: "+err.Error())
					}
				} else if err := json.Unmarshal(next.Data, &a); err != nil {
					p.script.diverge(next.Path, err.Error())
				} else if err := j.Answer(ctx, next.Path, &a); err != nil && ctx.Err() == nil {
					p.script.diverge(next.Path, "the recorded answer is not taken: "+err.Error())
				} else {
					p.injected++
				}
			}
			select {
			case <-moved:
				limit.Reset(p.opt.Wait)
			case <-limit.C:
				if next := p.script.next(); next != nil && next.Kind == runlog.KindAnswered && !late {
					late = true
					limit.Reset(p.opt.Wait)
					continue
				}
				p.script.stalled(p.opt.Wait)
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// execute runs the workflow until the epoch is over.
func (p *replay) execute(ctx context.Context, j *Journal) error {
	before := -1
	for {
		end, err := p.opt.Run(ctx, j)
		if p.script.divergence() != nil || p.script.wasCut() {
			return nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if end.Waiting == nil {
			return p.end(ctx, j, end, err)
		}
		at, next := p.script.answered(ctx)
		switch {
		case next == nil || next.Kind == runlog.KindRunPaused || next.Kind == runlog.KindEvent && next.Path == "" || p.script.divergence() != nil:
			return nil
		case at == before:
			p.script.diverge(end.Waiting[0], "it waits for an answer, which was not so")
			return nil
		}
		before = at
	}
}

// end writes how the workflow ended.
func (p *replay) end(ctx context.Context, j *Journal, end Ending, err error) error {
	_, next := p.script.answered(ctx)
	switch {
	case next == nil:
		return nil // the process died before it could say so
	case err == nil:
		if next.Kind != runlog.KindRunFinished {
			p.script.diverge(next.Path, "the workflow has ended, and the record goes on")
			return nil
		}
		return p.script.differs(j.Write(ctx, "", runlog.KindRunFinished, "", end.Finished))
	case next.Kind != runlog.KindRunFailed:
		p.script.diverge(next.Path, "the workflow fails, which was not so: "+err.Error())
		return nil
	}
	d := *end.Failed
	var replayed *ReplayedError
	var was runlog.RunFailed
	if errors.As(err, &replayed) && json.Unmarshal(next.Data, &was) == nil {
		d.Code = was.Code // which depends on more than the text of the failure
	}
	return p.script.differs(j.Write(ctx, "", runlog.KindRunFailed, "", d))
}

// replayStore is the store that a replay writes to. It accepts only records that equal the recorded ones.
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

// sameQuestion reports whether two records ask the same question. It does not compare the asking agent, which depends on the recording version, or the
// text of a question about an unknown outcome. It compares nothing of a permission request, which depends on the current folder and rules.
func sameQuestion(recorded, replayed *runlog.Record) bool {
	var was, is runlog.Question
	return recorded.Kind == runlog.KindAsked && replayed.Kind == runlog.KindAsked &&
		json.Unmarshal(recorded.Data, &was) == nil && json.Unmarshal(replayed.Data, &is) == nil &&
		was.Key == is.Key && (was.Kind == is.Kind || was.Kind == "") && (is.Kind == runlog.QuestionPermission ||
		(was.Text == is.Text || is.Kind == runlog.QuestionUnknown) && slices.Equal(was.Options, is.Options) && bytes.Equal(was.Default, is.Default) &&
			bytes.Equal(was.Schema, is.Schema))
}

// equal reports whether a record, at the recorded position, equals the recorded one byte for byte, and returns the hash of its frame. See sameQuestion
// for the permitted differences.
func equal(prev runlog.FrameHash, recorded, replayed *runlog.Record) (bool, runlog.FrameHash, error) {
	r := *replayed
	if sameQuestion(recorded, replayed) || timed(recorded.Kind) && sameButTimes(recorded.Data, replayed.Data) {
		r.Data = recorded.Data
	}
	r.Seq, r.Epoch, r.Time = recorded.Seq, recorded.Epoch, recorded.Time
	a, hash, err := runlog.AppendFrame(nil, prev, recorded)
	if err != nil {
		return false, hash, err
	}
	b, _, err := runlog.AppendFrame(nil, prev, &r)
	return bytes.Equal(a, b), hash, err
}

// timed reports whether the data of records of a kind end with durations.
func timed(k runlog.Kind) bool {
	return k == runlog.KindTaskDone || k == runlog.KindTaskFailed || k == runlog.KindSettled
}

// withTimesOf returns a replayed record with the lengths of time that are recorded, which a replay does not repeat.
func withTimesOf(recorded, replayed *runlog.Record) *runlog.Record {
	r := *replayed
	if timed(r.Kind) && timed(recorded.Kind) {
		is, _ := untimed(r.Data)
		_, times := untimed(recorded.Data)
		r.Data = slices.Concat(is, times)
	}
	return &r
}

func sameButTimes(recorded, replayed json.RawMessage) bool {
	was, _ := untimed(recorded)
	is, _ := untimed(replayed)
	return bytes.Equal(was, is)
}

// untimed splits the data of a record in two: the part that a replay repeats, and the durations at its end, which it cannot repeat, with the closing
// brace.
func untimed(data json.RawMessage) (repeated, times json.RawMessage) {
	end := len(data) - 1
	if end < 0 || data[end] != '}' {
		return data, nil
	}
	for {
		at := end
		for at > 0 && data[at-1] >= '0' && data[at-1] <= '9' {
			at--
		}
		before, found := data[:at], false
		for _, field := range []string{`,"took_ms":`, `,"queued_ms":`, `,"next_ms":`, `,"first_ms":`} {
			if before, found = bytes.CutSuffix(data[:at], []byte(field)); found {
				break
			}
		}
		if at == end || !found {
			return data[:end], data[end:]
		}
		end = len(before)
	}
}
