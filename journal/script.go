package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/runlog"
)

// errCut ends an execution at the record at which the replayed process ended.
var errCut = errors.New("the recorded process ended here")

// script is the course of a replay: each writer waits until its record is due.
type script struct {
	recs  []runlog.Record
	lanes map[lane][]int  // where records stand, by what names them
	paths map[string]bool // of records, and those that they are within
	taken map[lane]taken  // effects that the first records of a fork carry over from its parent

	mu       sync.Mutex
	cursor   int // the next record
	end      int // of the epoch
	lost     int // those who wait for something that the epoch has no record of
	cutting  bool
	awaited  map[lane]bool    // answers, since the epoch began
	rests    bool             // the workflow waits for an answer as a whole
	limits   map[string]limit // of the attempts that have one, by the paths of their tasks
	missing  map[string]int   // how many wait for what the epoch has no record of, by path
	cut      context.CancelCauseFunc
	moved    chan struct{} // closed at any change
	hash     runlog.FrameHash
	diverged *Divergence
}

// limit is that of an attempt.
type limit struct {
	cut   func() // ends the attempt
	cause error  // with which it ends
}

// lane identifies records that differ only in their order.
type lane struct {
	kind runlog.Kind
	path string
	key  string
}

func newScript() *script {
	return &script{lanes: map[lane][]int{}, taken: map[lane]taken{}, paths: map[string]bool{}, moved: make(chan struct{}), limits: map[string]limit{}, missing: map[string]int{}}
}

// laneOf returns the lane of a record.
func laneOf(r *runlog.Record) lane {
	l := lane{kind: r.Kind, path: r.Path}
	var named struct{ Key, Name string }
	switch r.Kind {
	case runlog.KindIntended, runlog.KindSettled, runlog.KindAsked, runlog.KindAnswered, runlog.KindEvent:
		if json.Unmarshal(r.Data, &named) == nil {
			l.key = named.Key
		}
		if r.Kind == runlog.KindEvent {
			l.key = named.Name
		}
	}
	return l
}

func (s *script) add(r runlog.Record) {
	l := laneOf(&r)
	for path := r.Path; !s.paths[path]; path = path[:max(0, strings.LastIndexByte(path, '/'))] {
		s.paths[path] = true
	}
	s.lanes[l] = append(s.lanes[l], len(s.recs))
	s.recs = append(s.recs, r)
	if r.Kind == carry.Kind {
		s.carried(r.Data)
	}
}

// taken is an effect of which the record that follows a snapshot holds more than the records before it: those are in the parent of a fork.
type taken struct {
	settled *runlog.Settled
	intent  *carry.Intent
	n       int // intents that are not in this log
}

// carried keeps the effects of a carried record that this log has no records of.
func (s *script) carried(data json.RawMessage) {
	var d carry.Data
	if json.Unmarshal(data, &d) != nil {
		return
	}
	for _, of := range d.Scopes {
		for _, e := range of.Settled {
			l := lane{runlog.KindSettled, of.Path, e.Key}
			if t := s.taken[l]; len(s.lanes[l]) == 0 {
				t.settled = &e
				s.taken[l] = t
			}
		}
		for _, i := range of.Intents {
			if n := i.N - len(s.lanes[lane{runlog.KindIntended, of.Path, i.Key}]); n > 0 {
				l := lane{runlog.KindSettled, of.Path, i.Key}
				t := s.taken[l]
				t.intent, t.n = &i, n
				s.taken[l] = t
			}
		}
	}
}

// open begins an epoch that ends at a record.
func (s *script) open(end int, cut context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end, s.cut, s.cutting, s.lost, s.awaited = end, cut, false, 0, map[lane]bool{}
	s.change()
}

// next is the record that is due, nil at the end of the epoch.
func (s *script) next() *runlog.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cursor == s.end {
		return nil
	}
	return &s.recs[s.cursor]
}

func (s *script) move() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved
}

func (s *script) wasCut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cutting
}

func (s *script) divergence() *Divergence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.diverged
}

// answered waits until the due record is no answer and not beside the workflow, and returns its position and the record.
func (s *script) answered(ctx context.Context) (int, *runlog.Record) {
	s.rest(true)
	defer s.rest(false)
	for {
		moved := s.move()
		next := s.next()
		if next == nil {
			return 0, nil
		}
		if next.Kind != runlog.KindAnswered && !beside(next) || s.divergence() != nil {
			return int(next.Seq), next
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return 0, nil
		}
	}
}

// rest notes whether the workflow waits for an answer as a whole, so that no task will find the question open before it comes.
func (s *script) rest(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rests = is
	s.change()
}

// change wakes everybody who waits. The caller holds mu.
func (s *script) change() {
	close(s.moved)
	s.moved = make(chan struct{})
	s.check()
}

// check ends the execution where it ended. The caller holds mu.
func (s *script) check() {
	if s.diverged != nil {
		s.stop(s.diverged)
		return
	}
	if s.cursor == s.end {
		s.stop(errCut)
		return
	}
	switch s.recs[s.cursor].Kind {
	case runlog.KindRunCancelled:
		s.stop(errCut)
	case runlog.KindTaskFailed:
		var d runlog.TaskFailed
		r := &s.recs[s.cursor]
		if cut := s.limits[r.Path].cut; cut != nil && (s.misses(r.Path) || json.Unmarshal(r.Data, &d) == nil && d.Late) {
			cut()
		}
	case runlog.KindEvent:
		if s.lost > 0 && s.recs[s.cursor].Path == "" { // EventInterrupted
			s.stop(errCut)
		}
	case runlog.KindRunPaused:
		var d runlog.RunPaused
		if s.lost > 0 || json.Unmarshal(s.recs[s.cursor].Data, &d) == nil && d.By != "" {
			s.stop(errCut)
		}
	case runlog.KindRunFailed:
		if s.lost > 0 {
			s.stop(errCut) // a limit, or somebody, stopped the run before they were done
		}
	}
}

// misses reports whether anything inside a task waits for a record that the epoch does not have.
func (s *script) misses(path string) bool {
	for p, n := range s.missing {
		if n > 0 && (p == path || strings.HasPrefix(p, path+"/")) {
			return true
		}
	}
	return false
}

func (s *script) stop(why error) {
	s.cutting = true
	s.cut(why)
}

// abandon ends the execution, whatever the record says.
func (s *script) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop(context.Canceled)
	s.change()
}

// find returns the place of the first record of a lane from the cursor on, -1 for none.
func (s *script) find(l lane) int {
	for _, i := range s.lanes[l] {
		if i >= s.cursor {
			return i
		}
	}
	return -1
}

// turn implements course.
func (s *script) turn(ctx context.Context, kind runlog.Kind, path, key string) error {
	_, err := s.await(ctx, lane{kind, path, key}, true)
	return err
}

// perform implements course.
func (s *script) perform(ctx context.Context, of *Scope, e *Effect) (json.RawMessage, error) {
	if e.Inside && (e.Within == nil || s.paths[e.Within.path] || s.recorded(of.path, e.Key) == nil) {
		return e.Do(ctx, of.key(e.Key))
	}
	i, err := s.await(ctx, lane{runlog.KindSettled, of.path, e.Key}, false)
	if err != nil {
		return nil, err
	}
	var was runlog.Settled
	if err = json.Unmarshal(s.recs[i].Data, &was); err == nil && was.Error != "" {
		err = &ReplayedError{was.Error, was.Spent == nil, was.Partial}
	} else if err == nil && len(was.Interrupted) > 0 {
		err = &wasInterrupted{mail.ErrInterrupted, was.Output, was.Interrupted}
	}
	return was.Output, err
}

// appends implements course. What is due was written, so it is written though ctx has ended. Records that were stored together may have been stored apart
// where the recorded process was stopped.
func (s *script) appends(ctx context.Context, recs []runlog.Record) (int, context.Context, error) {
	if len(recs) == 0 {
		return 0, ctx, nil
	}
	if _, err := s.await(ctx, laneOf(&recs[0]), true); err != nil {
		return 0, ctx, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for ; n < len(recs) && s.cursor+n < s.end; n++ {
		due := &s.recs[s.cursor+n]
		if n > 0 && (due.Kind != recs[n].Kind || due.Path != recs[n].Path) {
			break
		}
		recs[n].Time = due.Time
	}
	return n, context.WithoutCancel(ctx), nil
}

// recorded implements course.
func (s *script) recorded(path, key string) *Recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, next := s.nearest(lane{runlog.KindIntended, path, key})
	settled, due := s.nearest(lane{runlog.KindSettled, path, key})
	before := s.taken[lane{runlog.KindSettled, path, key}]
	if i < 0 && settled < 0 && before.settled == nil && before.intent == nil {
		return nil
	}
	out := &Recorded{}
	var was runlog.Settled
	if settled < 0 && before.settled != nil {
		was = *before.settled
	} else if settled >= 0 {
		_ = json.Unmarshal(s.recs[settled].Data, &was)
	}
	out.Name, out.Hint, out.Input, out.Spent = was.Name, was.Hint, was.Input, was.Spent
	if i < 0 && before.intent != nil && before.intent.Open && settled < 0 {
		out.Hint, out.Cost = before.intent.Hint, before.intent.Cost
	}
	for n := range before.n + len(s.lanes[lane{runlog.KindIntended, path, key}]) {
		q := runlog.UnknownKey(key, n+1)
		out.Once = out.Once || len(s.lanes[lane{runlog.KindAsked, path, q}]) > 0
	}
	if i < 0 {
		return out
	}
	if due && (!next || settled < i) {
		return out
	}
	var d runlog.Intended
	if json.Unmarshal(s.recs[i].Data, &d) == nil {
		out.Name, out.Hint, out.Cost = d.Name, d.Hint, d.Cost
		out.Intended, out.Once = next, out.Once || next && d.Once
		if d.Input != nil {
			out.Input = d.Input
		}
	}
	return out
}

// nearest returns the place of the first record of a lane from the cursor on, or else of its last one; -1 for none. Next
// reports whether it is yet to come.
func (s *script) nearest(l lane) (i int, next bool) {
	if i = s.find(l); i >= 0 {
		return i, true
	}
	all := s.lanes[l]
	if len(all) == 0 {
		return -1, false
	}
	return all[len(all)-1], false
}

// timeout implements course. It cancels the attempt when its recorded failure is due and the attempt timed out, or waits for a record that does not
// exist.
func (s *script) timeout(ctx context.Context, path string, _ time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits[path] = limit{func() { cancel(cause) }, cause}
	s.change()
	return ctx, func() {
		s.mu.Lock()
		delete(s.limits, path)
		s.mu.Unlock()
		cancel(nil)
	}
}

// asked implements course.
func (s *script) asked(path, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaited[lane{runlog.KindAnswered, path, key}] = true
	s.change()
}

// waits implements course. When a replay runs the tasks again, more answers may be there than were. An agent that continues with one by a note has not
// seen it before.
func (s *script) waits(path, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for agent, at := path, strings.LastIndexByte(path, '/'); at > 0; at = strings.LastIndexByte(agent, '/') {
		for _, next := range []string{Resumed, Withdrawn} {
			note := (&Scope{path: agent}).NextKey(next, &runlog.Question{Path: path, Key: key})
			if i := s.find(lane{runlog.KindSettled, agent[:at], note}); i >= 0 && i < s.end {
				return true
			}
		}
		agent = agent[:at]
	}
	return false
}

// due returns the answer or record beside the workflow that is due. It holds an answer back until the task has found the question open: with the answer already
// there, the task would skip what it did before the answer.
func (s *script) due(late bool) *runlog.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cursor == s.end {
		return nil
	}
	r := &s.recs[s.cursor]
	if beside(r) {
		return r
	}
	if r.Kind != runlog.KindAnswered {
		return nil
	}
	var a runlog.Answer
	if json.Unmarshal(r.Data, &a) == nil && !late && !s.rests && !s.awaited[lane{r.Kind, r.Path, a.Key}] {
		return nil
	}
	return r
}

// late implements course.
func (s *script) late(limited context.Context, path string, attempt int) (late, noted bool) {
	if d := s.failed(path, attempt); d != nil && d.Late {
		return true, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(lane{runlog.KindSettled, path, LateKey(attempt)})
	noted = i >= 0 && i < s.end
	return noted || limited.Err() != nil, noted
}

// failed implements course.
func (s *script) failed(path string, attempt int) *runlog.TaskFailed {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(lane{kind: runlog.KindTaskFailed, path: path})
	if i < 0 || i >= s.end {
		return nil
	}
	var d runlog.TaskFailed
	if json.Unmarshal(s.recs[i].Data, &d) != nil || d.Attempt != attempt {
		return nil
	}
	return &d
}

// snapshot implements course. It follows the record, since the decision depended on concurrent work, which differs each time.
func (s *script) snapshot(path string, _ bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(lane{kind: runlog.KindStepCommitted, path: path})
	if i < 0 || i+1 >= s.end {
		return false
	}
	r := &s.recs[i+1]
	return r.Path == path && (r.Kind == runlog.KindSnapshot || r.Kind == runlog.KindInner)
}

// attaches implements course.
func (s *script) attaches(kind runlog.Kind, path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, after := kind, 0
	if kind != runlog.KindTaskDone { // it follows the commit of its superstep
		of, after = runlog.KindStepCommitted, 1
	}
	i := s.find(lane{kind: of, path: path})
	return i < 0 || i+after >= s.end || len(s.recs[i+after].Attachment) > 0
}

// await returns the position of the next record of a lane, and if asked for, waits until it is due. If the epoch has no such record, await returns only
// when ctx or the epoch ends.
func (s *script) await(ctx context.Context, l lane, turn bool) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.diverged != nil {
			return 0, s.diverged
		}
		i := s.find(l)
		if !turn && s.stopped(l, i) {
			i = s.end // as an outcome that comes later: others at the same path may go on
		}
		if i == s.cursor && i < s.end && turn {
			return i, nil
		}
		if s.cutting {
			return 0, errCut
		}
		if late := s.over(l.path); turn && late != nil {
			return 0, late
		}
		if i >= 0 && i < s.end && !turn {
			return i, nil
		}
		known := i >= 0 && i < s.end && !s.failsBefore(l, i) // otherwise it is for a later attempt
		due := &s.recs[s.cursor]
		late := due.Kind == runlog.KindTaskFailed && s.limits[l.path].cut != nil           // its time was up before that
		if i < 0 && due.Path == l.path && !late && !beside(due) && (turn || !s.begun(l)) { // its task is here and does something else
			return 0, s.differ(l.path, fmt.Sprintf("it comes to %s, which is not in the record", l), &runlog.Record{Kind: l.kind, Path: l.path})
		}
		if err := s.sleep(ctx, l.path, known); err != nil {
			return 0, err
		}
	}
}

// over returns with what an attempt with a limit ends, if a path is in it and the record that is due is its failure: nothing more of it was written.
func (s *script) over(path string) error {
	due := &s.recs[s.cursor]
	if due.Kind != runlog.KindTaskFailed || !strings.HasPrefix(path+"/", due.Path+"/") {
		return nil
	}
	return s.limits[due.Path].cause
}

// begun reports whether an effect has been announced, and has no outcome since: with others at the same path, it may have been lost in a crash. It may
// be announced again later.
func (s *script) begun(l lane) bool {
	announced := s.before(lane{runlog.KindIntended, l.path, l.key})
	return announced >= 0 && s.before(l) < announced
}

// before returns the place of the last record of a lane before the cursor, -1 for none.
func (s *script) before(l lane) int {
	all := s.lanes[l]
	if n, _ := slices.BinarySearch(all, s.cursor); n > 0 {
		return all[n-1]
	}
	return -1
}

// stopped reports whether an effect that has begun was stopped: it begins again, or its attempt fails, before it has the outcome at that position.
func (s *script) stopped(l lane, outcome int) bool {
	again := s.find(lane{runlog.KindIntended, l.path, l.key})
	return again >= 0 && again < outcome || s.failsBefore(l, outcome)
}

// failsBefore reports whether the attempt of a lane's task fails before the record at that position.
func (s *script) failsBefore(l lane, i int) bool {
	failed := s.find(lane{kind: runlog.KindTaskFailed, path: l.path})
	return failed >= 0 && failed < i
}

// sleep waits for a change. The caller holds mu.
func (s *script) sleep(ctx context.Context, path string, known bool) error {
	var ended <-chan struct{}
	if !known { // whoever stopped it may do so again
		ended = ctx.Done()
		s.lost++
		s.missing[path]++
		defer func() { s.lost--; s.missing[path]-- }()
		if s.check(); s.cutting {
			return errCut
		}
	}
	moved := s.moved
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-moved:
		return nil
	case <-ended:
		return context.Cause(ctx)
	}
}

func (l lane) String() string {
	if l.key != "" {
		return fmt.Sprintf("%s %q", l.kind, l.key)
	}
	return string(l.kind)
}

// match compares records with the due ones, and sets their recorded times.
func (s *script) match(recs []runlog.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.diverged != nil {
		return s.diverged
	}
	hash := s.hash
	for i := range recs {
		r := &recs[i]
		if s.cursor+i >= s.end {
			if s.cutting {
				return errCut
			}
			return s.differ(r.Path, fmt.Sprintf("it writes %s, and the record has nothing there", r.Kind), r)
		}
		due := &s.recs[s.cursor+i]
		if r.Kind != due.Kind || r.Path != due.Path {
			return s.differ(r.Path, fmt.Sprintf("it writes %s, and the record has %s of %q", r.Kind, due.Kind, due.Path), r)
		}
		same, next, err := equal(hash, due, r)
		if err != nil {
			return err
		}
		if !same {
			why := fmt.Sprintf("its %s is not what is recorded", r.Kind)
			if !bytes.Equal(r.Attachment, due.Attachment) {
				why = fmt.Sprintf("the attachment of its %s is not what is recorded: %d bytes, and %d are recorded", r.Kind, len(r.Attachment), len(due.Attachment))
			}
			return s.differ(r.Path, why, withTimesOf(due, r))
		}
		if r.Time, hash = due.Time, next; timed(r.Kind) || r.Kind == runlog.KindAsked {
			r.Data = due.Data
		}
	}
	s.hash = hash
	return nil
}

// take advances past records that were written.
func (s *script) take(recs []runlog.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cursor += len(recs)
	s.change()
	return nil
}

// diverge notes that the replay and the record differ, unless they already did.
func (s *script) diverge(path, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.differ(path, why, nil)
}

func (s *script) differ(path, why string, got *runlog.Record) error {
	if s.diverged == nil {
		d := &Divergence{Path: path, Why: why, Replayed: got}
		if s.cursor < len(s.recs) {
			r := s.recs[s.cursor]
			d.Recorded, d.Seq = &r, r.Seq
		} else if s.cursor > 0 {
			d.Seq = s.recs[s.cursor-1].Seq + 1
		}
		if got != nil {
			r := *got
			d.Replayed = &r
		}
		s.diverged = d
		s.change()
	}
	return s.diverged
}

// differs handles an error of a write; a divergence is already noted.
func (s *script) differs(err error) error {
	if s.divergence() != nil {
		return nil
	}
	return err
}

func (s *script) stalled(after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cursor == s.end {
		return
	}
	due := &s.recs[s.cursor]
	_ = s.differ(due.Path, fmt.Sprintf("nothing wrote the recorded %s within %s", due.Kind, after), nil)
}

// afresh implements course. It does not call f: the record holds the result.
func (s *script) afresh(func() error) error { return nil }
