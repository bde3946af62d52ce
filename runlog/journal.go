package runlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ErrCancelRequested is the cause of a context that ended because somebody asked for
// the run to be cancelled.
var ErrCancelRequested = errors.New("cancellation was requested")

// A Journal is the hold of this process on one run: the way its tasks write the log,
// find what they did before a crash, and are followed while they do it. Its methods
// may be called from several goroutines.
type Journal struct {
	store Store
	log   Log
	id    string
	opt   JournalOptions
	info  Info

	hub hub

	// read are the records that were read to open the journal, kept for the first
	// reader of them, which is who continues the run.
	read atomic.Pointer[[]Record]

	append    sync.Mutex // one append at a time, so that followers see the log's order
	questions sync.Mutex // one question or answer at a time, so that each is there once

	mu     sync.Mutex
	queue  []*appending // what waits for its append
	scopes map[string]*memory
	spaces map[string]*space // of the graphs that are under way, by the path of the task that runs them, "" for the run's own
	nested bool              // some scope is that of a task of an inner graph
	listen map[chan struct{}]bool
	since  int // bytes of data since the last snapshot
	size   int // bytes of the last snapshot
	ledger ledger

	granted map[string]bool // see Scope.Grant
}

// space is one graph of the run.
type space struct {
	done  []string // its tasks with a result in the superstep that is under way
	recs  []Record // of an inner one: what it needs to go on, from its last snapshot on
	since int      // bytes of data in recs
	size  int      // bytes of its last snapshot
	held  bool     // it is being run
	ended bool     // it was run to its end
}

// in gives the space of a path of a task: that of the graph it belongs to.
func (j *Journal) in(path string) *space {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return j.space("")
	}
	j.nested = true
	return j.space(path[:i])
}

func (j *Journal) space(path string) *space {
	s := j.spaces[path]
	if s == nil {
		s = &space{}
		j.spaces[path] = s
	}
	return s
}

// appending is a call of Append.
type appending struct {
	recs   []Record
	status Status
	ended  bool
	err    error
}

// memory is what later effects and questions of a scope need to know of its log.
type memory struct {
	settled  map[string]Settled // by key, like the others
	intents  map[string]intents
	asked    map[string]Asked
	answers  map[string]Answered
	attempts int                     // that failed since the task was last given up
	given    int                     // how often the task was given up
	held     map[string]Amount       // what is set aside, by effect
	short    map[string]*BudgetError // what has not begun for want of budget, by effect
}

// intents counts how often an effect was intended, and whether the last time has no outcome.
type intents struct {
	n    int
	open bool
	hint string
}

// of gives the memory of a scope. The caller holds mu.
func (j *Journal) of(path string) *memory {
	m := j.scopes[path]
	if m == nil {
		m = &memory{}
		j.scopes[path] = m
		j.nested = j.nested || strings.Contains(path, "/")
	}
	return m
}

// put sets an entry of a map that is there only once it has one: most scopes never need theirs.
func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// JournalOptions are the settings of OpenJournal. Nil means the defaults.
type JournalOptions struct {
	Create *NewRun // make the run; defaults to none: it must exist
	Reopen bool    // with Create: go on with the run if it exists already
	// Quarantined takes the run even if it is quarantined, see AcquireOptions.
	Quarantined bool
	Now         func() time.Time // stamps records; defaults to time.Now
	Renew       time.Duration    // how often Hold renews the lease and looks for a cancellation; defaults to 2 s
	// SnapshotAfter is the least that is written between two snapshots, in bytes of data;
	// defaults to 16 KB.
	SnapshotAfter int
	// Budget changes what the log says the run may use, see Budget.Over. The log is told
	// by who writes KindRunStarted and KindRunResumed. Defaults to no change.
	Budget *Budget
	// Failpoint is called with the name of each point at which a crash is interesting.
	// It is there for crash tests; defaults to nothing.
	Failpoint func(name string)
	// Director makes the execution a replay. Defaults to none.
	Director Director
}

// OpenJournal acquires a run and reads what it needs of its log, from the last
// snapshot on. The errors are those of Store.Acquire and Store.Read.
func OpenJournal(ctx context.Context, store Store, id string, opt *JournalOptions) (*Journal, error) {
	j := &Journal{store: store, id: id, scopes: map[string]*memory{}, spaces: map[string]*space{}, listen: map[chan struct{}]bool{}}
	if opt != nil {
		j.opt = *opt
	}
	if j.opt.Now == nil {
		j.opt.Now = time.Now
	}
	if j.opt.Renew <= 0 {
		j.opt.Renew = 2 * time.Second
	}
	if j.opt.SnapshotAfter <= 0 {
		j.opt.SnapshotAfter = 16 << 10
	}
	var err error
	j.log, j.info, err = store.Acquire(ctx, id, &AcquireOptions{Create: j.opt.Create, Quarantined: j.opt.Quarantined})
	if errors.Is(err, ErrExists) && j.opt.Reopen {
		j.log, j.info, err = store.Acquire(ctx, id, &AcquireOptions{Quarantined: j.opt.Quarantined})
	}
	if errors.Is(err, ErrExists) {
		return nil, fmt.Errorf("%w; set Reopen to go on with it", err)
	}
	if err != nil {
		return nil, err
	}
	j.hub.head = j.info.Head
	if j.opt.Budget != nil {
		j.ledger.over, j.ledger.limit = *j.opt.Budget, *j.opt.Budget
	}
	if err := j.recover(ctx); err != nil {
		return nil, errors.Join(err, j.log.Release(context.WithoutCancel(ctx)))
	}
	return j, nil
}

// ID is the run's.
func (j *Journal) ID() string { return j.id }

// Info is the run as it was when the journal was opened.
func (j *Journal) Info() Info { return j.info }

func (j *Journal) recover(ctx context.Context) error {
	var read []Record
	if j.info.Head == 0 {
		j.read.Store(&read)
		return nil // a new run has nothing to read
	}
	for r, err := range Records(ctx, j.store, j.id, j.info.Snapshot) {
		if err != nil {
			return err
		}
		if err := j.note(&r); err != nil {
			return err
		}
		read = append(read, r)
	}
	j.read.Store(&read)
	return nil
}

// Since reads the stored records from a sequence number on (0 is the first).
func (j *Journal) Since(ctx context.Context, seq uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if seq == j.info.Snapshot {
			if read := j.read.Swap(nil); read != nil {
				for _, r := range *read {
					if !yield(r, nil) {
						return
					}
					seq = r.Seq + 1
				}
			}
		}
		for r, err := range Records(ctx, j.store, j.id, seq) {
			if !yield(r, err) {
				return
			}
		}
	}
}

// Records reads all stored records of a run from a sequence number on.
func Records(ctx context.Context, store Store, id string, from uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		next := max(from, 1)
		for {
			recs, err := store.Read(ctx, id, next, 256)
			for i := range recs {
				if err := CheckSealed(id, &recs[i]); err != nil {
					yield(Record{}, err)
					return
				}
				if !yield(recs[i], nil) {
					return
				}
			}
			if err != nil {
				yield(Record{}, err)
				return
			}
			if len(recs) == 0 {
				return
			}
			next = recs[len(recs)-1].Seq + 1
		}
	}
}

// note keeps what later effects and questions need of a record. What tasks did is
// forgotten when their superstep commits: they never run again.
func (j *Journal) note(r *Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.since += len(r.Data)
	j.ledger.tick(r)
	switch r.Kind {
	case KindRunStarted, KindRunResumed:
		if len(r.Data) > 0 {
			return noted(r, func(d RunResumed) { j.ledger.give(d.Budget) })
		}
	case KindSnapshot:
		j.since, j.size = 0, len(r.Data)
	case KindCarried:
		return noted(r, j.restore)
	case KindInner:
		s := j.space(r.Path)
		s.recs, s.since, s.size = append(s.recs[:0:0], *r), 0, len(r.Data)
	case KindTaskDone:
		s := j.in(r.Path)
		s.done = append(s.done, r.Path)
		s.keep(r, strings.Contains(r.Path, "/"))
	case KindStepCommitted:
		s := j.space(r.Path)
		j.forget(s.done)
		s.done = s.done[:0]
		s.keep(r, r.Path != "")
	case KindTaskFailed:
		return noted(r, func(d TaskFailed) {
			m := j.of(r.Path)
			if m.attempts = d.Attempt; d.Final {
				m.attempts = 0
				m.given++
			}
		})
	case KindIntended:
		return noted(r, func(d Intended) {
			m := j.of(r.Path)
			put(&m.intents, d.Key, intents{m.intents[d.Key].n + 1, true, d.Hint})
			if d.Cost != nil {
				j.ledger.hold(m, d.Key, *d.Cost)
			}
		})
	case KindSettled:
		return noted(r, func(d Settled) {
			m := j.of(r.Path)
			put(&m.settled, d.Key, d)
			put(&m.intents, d.Key, intents{n: m.intents[d.Key].n})
			j.ledger.settle(m, &d)
		})
	case KindEvent:
		j.grant(r)
	case KindAsked:
		return noted(r, func(d Asked) { put(&j.of(r.Path).asked, d.Key, d) })
	case KindAnswered:
		return noted(r, func(d Answered) { put(&j.of(r.Path).answers, d.Key, d) })
	}
	return nil
}

func (s *space) keep(r *Record, inner bool) {
	if inner {
		s.recs = append(s.recs, *r)
		s.since += len(r.Data)
	}
}

// forget drops what tasks did, and the graphs they ran: they never run again.
func (j *Journal) forget(tasks []string) {
	for _, path := range tasks {
		j.drop(path)
	}
	if !j.nested {
		return
	}
	done := make(map[string]bool, len(tasks))
	for _, path := range tasks {
		done[path] = true
	}
	j.nested = false
	for path := range j.scopes {
		if within(path, done) {
			j.drop(path)
		} else if strings.Contains(path, "/") {
			j.nested = true
		}
	}
	for path, s := range j.spaces {
		if path == "" {
			continue
		}
		if (done[path] || within(path, done)) && !s.held {
			delete(j.spaces, path)
		} else {
			j.nested = true
		}
	}
}

// within reports whether a path is that of something inside of one of the tasks.
func within(path string, tasks map[string]bool) bool {
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' && tasks[path[:i]] {
			return true
		}
	}
	return false
}

func noted[T any](r *Record, keep func(T)) error {
	var d T
	if err := unmarshal(r, &d); err != nil {
		return err
	}
	keep(d)
	return nil
}

// Carry is what must follow a snapshot that is written with the results of the given
// tasks, nil for nothing.
func (j *Journal) Carry(tasks ...string) *Carried {
	j.mu.Lock()
	defer j.mu.Unlock()
	var c Carried
	done := map[string]bool{}
	for _, path := range j.space("").done {
		done[path] = true
	}
	for _, path := range tasks {
		done[path] = true
	}
	for _, path := range slices.Sorted(maps.Keys(j.spaces)) {
		if path == "" || done[path] || within(path, done) {
			continue
		}
		for _, r := range j.spaces[path].recs {
			c.Inner = append(c.Inner, CarriedRecord{r.Kind, r.Path, r.Data})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(j.scopes)) {
		if done[path] || within(path, done) {
			continue // its superstep commits together with the snapshot
		}
		m := j.scopes[path]
		if len(m.settled)+len(m.intents)+len(m.asked)+m.attempts+m.given == 0 {
			continue
		}
		s := CarriedScope{Path: path, Attempts: m.attempts, GivenUp: m.given, Settled: values(m.settled), Asked: values(m.asked), Answers: values(m.answers)}
		for _, key := range slices.Sorted(maps.Keys(m.intents)) {
			in := m.intents[key]
			s.Intents = append(s.Intents, CarriedIntent{key, in.n, in.open, in.hint, m.held[key].or()})
		}
		c.Scopes = append(c.Scopes, s)
	}
	c.Ledger, c.Granted = j.ledger.carried(), slices.Sorted(maps.Keys(j.granted))
	if c.Scopes == nil && c.Inner == nil && c.Ledger == nil && c.Granted == nil {
		return nil
	}
	return &c
}

func values[T any](m map[string]T) []T {
	var out []T
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[key])
	}
	return out
}

// restore takes over what was carried past a snapshot.
func (j *Journal) restore(c Carried) {
	j.ledger.restore(c.Ledger)
	for _, what := range c.Granted {
		put(&j.granted, what, true)
	}
	for _, r := range c.Inner {
		rec := Record{Kind: r.Kind, Path: r.Path, Data: r.Data}
		switch r.Kind {
		case KindInner:
			s := j.space(r.Path)
			s.recs, s.since, s.size = []Record{rec}, 0, len(r.Data)
			j.nested = true
		case KindTaskDone:
			s := j.in(r.Path)
			s.done = append(s.done, r.Path)
			s.keep(&rec, true)
		case KindStepCommitted:
			s := j.space(r.Path)
			s.done = s.done[:0]
			s.keep(&rec, true)
		}
	}
	for _, s := range c.Scopes {
		m := j.of(s.Path)
		m.attempts, m.given = s.Attempts, s.GivenUp
		for _, d := range s.Settled {
			put(&m.settled, d.Key, d)
		}
		for _, d := range s.Intents {
			put(&m.intents, d.Key, intents{d.N, d.Open, d.Hint})
			if d.Open && d.Cost != nil {
				j.ledger.hold(m, d.Key, *d.Cost)
			}
		}
		for _, d := range s.Asked {
			put(&m.asked, d.Key, d)
		}
		for _, d := range s.Answers {
			put(&m.answers, d.Key, d)
		}
	}
}

func unmarshal(r *Record, into any) error {
	if err := json.Unmarshal(r.Data, into); err != nil {
		return fmt.Errorf("record %d (%s): %w", r.Seq, r.Kind, err)
	}
	return nil
}

// New makes a record of this moment. Data is encoded as JSON, unless it is a
// json.RawMessage, which is taken as it is; it may be nil.
func (j *Journal) New(kind Kind, path string, data any) (Record, error) {
	r := Record{Kind: kind, Path: path, Time: j.opt.Now().UTC()}
	switch d := data.(type) {
	case nil:
		return r, nil
	case json.RawMessage:
		r.Data = d
		return r, nil
	}
	var err error
	if r.Data, err = json.Marshal(data); err != nil {
		return r, fmt.Errorf("encoding %s of %s: %w", kind, path, err)
	}
	return r, nil
}

// Append makes records durable, all or none, and shows them to followers. A status
// other than "" becomes the run's in listings. Appends of several goroutines that wait
// for each other share one, but not each other's fate: one whose ctx has ended or whose
// records cannot be stored fails alone.
func (j *Journal) Append(ctx context.Context, status Status, recs ...Record) error {
	if j.opt.Director != nil && len(recs) > 0 {
		if err := j.turn(ctx, &recs[0]); err != nil {
			return fmt.Errorf("run %s: %w", j.id, err)
		}
		j.opt.Director.Stamp(recs)
		ctx = context.WithoutCancel(ctx) // it was written
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("run %s: %w", j.id, err)
	}
	a := &appending{recs: recs, status: status}
	j.mu.Lock()
	j.queue = append(j.queue, a)
	j.mu.Unlock()
	j.append.Lock()
	defer j.append.Unlock()
	if a.ended {
		return a.err // somebody took it along
	}
	j.mu.Lock()
	group := j.queue
	j.queue = nil
	j.mu.Unlock()
	// From here on it is not this caller's append alone, so its ctx does not end it.
	ctx = context.WithoutCancel(ctx)
	err := j.write(ctx, group...)
	for _, a := range group {
		a.ended, a.err = true, err
		if err != nil && len(group) > 1 && !errors.Is(err, ErrUnknown) { // nothing of it is stored
			a.err = j.write(ctx, a)
		}
	}
	return a.err
}

// write makes the records of a group durable in one batch.
func (j *Journal) write(ctx context.Context, group ...*appending) error {
	if err := j.carry(group); err != nil {
		return err
	}
	var b Batch
	for _, a := range group {
		b.Records = append(b.Records, a.recs...)
		if a.status != "" {
			b.Status = a.status
		}
	}
	j.fail("journal.before-append")
	if err := j.log.Append(ctx, &b); err != nil {
		return fmt.Errorf("run %s: %w", j.id, err)
	}
	j.fail("journal.after-append")
	for i := range b.Records {
		if err := j.note(&b.Records[i]); err != nil {
			return err
		}
	}
	j.hub.publish(b.Records...)
	if slices.ContainsFunc(b.Records, func(r Record) bool { return r.Kind == KindAnswered }) {
		j.tell() // now that Head says so too: who is told may look whether anything is new
	}
	return nil
}

// tell wakes those who listen for answers.
func (j *Journal) tell() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for ch := range j.listen {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// ErrUsed says that a graph is run in a place of the log that is taken: the run's own, or
// that of a task, which runs its inner graphs under one key each.
var ErrUsed = errors.New("a graph was run there already")

// errEnded is ErrUsed for a run that is over.
var errEnded = fmt.Errorf("%w to its end; open the journal again to be given that end", ErrUsed)

// Begin lets a graph use the part of the log that belongs to the task of that path, ""
// for the run itself, and gives what it needs of it to go on: of an inner graph the
// records from its last KindInner on; those of the run are had from Since. Until End is
// called no other graph may use it, and none after one has ended there, except that an
// inner graph may be taken up again to give its end once more.
func (j *Journal) Begin(path string) ([]Record, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.space(path)
	if s.held || s.ended && path == "" {
		at := "run " + j.id
		if path != "" {
			at += ": " + path
		}
		if !s.held {
			return nil, fmt.Errorf("%s: %w", at, errEnded)
		}
		return nil, fmt.Errorf("%s: %w", at, ErrUsed)
	}
	s.held = true
	j.nested = j.nested || path != ""
	return slices.Clone(s.recs), nil
}

// End says that a graph does not use its part of the log any more, and whether it was
// run to its end.
func (j *Journal) End(path string, ended bool) {
	j.mu.Lock()
	s := j.space(path)
	s.held, s.ended = false, s.ended || ended
	j.mu.Unlock()
}

// Listen gives a channel that receives something after every answer to a question.
func (j *Journal) Listen() (answered <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	j.mu.Lock()
	j.listen[ch] = true
	j.mu.Unlock()
	return ch, func() {
		j.mu.Lock()
		delete(j.listen, ch)
		j.mu.Unlock()
	}
}

// Asking are the paths of the tasks that have asked something that nobody has answered,
// or lack budget, and of those that they lie within.
func (j *Journal) Asking() map[string]bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := map[string]bool{}
	for path, m := range j.scopes {
		if !j.waits(m) {
			continue
		}
		out[path] = true
		for i := range len(path) {
			if path[i] == '/' {
				out[path[:i]] = true
			}
		}
	}
	return out
}

// waits reports whether a scope has an open question or lacks budget. The caller holds mu.
func (j *Journal) waits(m *memory) bool {
	for key := range m.asked {
		if _, ok := m.answers[key]; !ok {
			return true
		}
	}
	return len(m.short) > 0 && j.lacks(m) != nil
}

// Head is the sequence number of the last record that was stored.
func (j *Journal) Head() uint64 {
	_, head := j.hub.position()
	return head
}

// Cancelled renews the lease and reports whether somebody asked for the run to be
// cancelled.
func (j *Journal) Cancelled(ctx context.Context) bool {
	asked, err := j.log.Renew(ctx)
	return err == nil && asked
}

// Write is New and Append of one record.
func (j *Journal) Write(ctx context.Context, status Status, kind Kind, path string, data any) error {
	r, err := j.New(kind, path, data)
	if err != nil {
		return err
	}
	return j.Append(ctx, status, r)
}

// Live shows a record to the followers there are now and stores nothing.
func (j *Journal) Live(kind Kind, path string, data any) {
	if !j.hub.followed() {
		return
	}
	if r, err := j.New(kind, path, data); err == nil {
		j.hub.publish(r)
	}
}

// Grown reports whether the log of a graph has grown twice as large since its last
// snapshot as that snapshot is: the time to write a new one. Snapshots then grow
// threefold, so all of them together are at most half as large again as the last one, and
// both the log and a recovery stay linear in what the run produced. The path is that of
// the task that runs the graph, "" for the run's own.
func (j *Journal) Grown(path string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if path != "" {
		s := j.space(path)
		return s.since > max(2*s.size, j.opt.SnapshotAfter)
	}
	return j.since > max(2*j.size, j.opt.SnapshotAfter)
}

// Hold keeps the run's lease until the context it returns has ended, which happens
// when the parent ends or stop is called, and with the cause ErrCancelRequested or
// ErrFenced when it must. Stop waits for the goroutine behind it.
func (j *Journal) Hold(ctx context.Context) (held context.Context, stop func()) {
	held, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(j.opt.Renew)
		defer t.Stop()
		for {
			select {
			case <-held.Done():
				return
			case <-t.C:
			}
			asked, err := j.log.Renew(held)
			switch {
			case errors.Is(err, ErrFenced):
				cancel(err)
			case err == nil && asked:
				cancel(ErrCancelRequested)
			}
			// Any other error is left to the next append: a lease is about speed, not safety.
		}
	}()
	return held, func() { cancel(nil); <-done }
}

// Finish says that the run is over, with an output that encodes as JSON, nil for none. It is
// for programs that run a graph in a journal by themselves; an engine does it for its runs.
// A run that is over already stays as it is.
func (j *Journal) Finish(ctx context.Context, output any) error {
	if j.info.Status.Ended() {
		return nil
	}
	b, err := json.Marshal(output)
	if err != nil {
		return fmt.Errorf("encoding the output of run %s: %w", j.id, err)
	}
	if output == nil {
		b = nil
	}
	return j.Write(ctx, Completed, KindRunFinished, "", RunFinished{Output: b})
}

// Close ends what follows the journal and gives the run up.
func (j *Journal) Close(ctx context.Context) error {
	j.hub.close()
	return j.log.Release(ctx)
}

func (j *Journal) fail(point string) {
	if j.opt.Failpoint != nil {
		j.opt.Failpoint(point)
	}
}
