package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/runlog"
)

// recovered is the journal's memory of its log: a fold of the records from the last snapshot on, and of the data carried past it. It forgets the effects
// of tasks when their superstep commits, since they never run again. The zero value belongs to an empty log.
type recovered struct {
	scopes  map[string]*memory
	spaces  map[string]*space // of the graphs that are under way, by the path of the task that runs them, "" for the run's own
	nested  bool              // some scope is that of a task of an inner graph
	since   int               // bytes of data since the last snapshot
	size    int               // bytes of the last snapshot
	ledger  ledger
	granted map[string]bool // see Scope.Grant
	marks   []mark          // those of them that are marks
	handled map[string]bool // the requests that have left a record, by ID
	paused  bool            // by somebody
	short   bool            // paused for want of budget, which nobody has raised since
	sum     summing
	summed  bool // sum has the record that is noted next

	head     uint64           // when the journal was opened
	imported *runlog.Imported // nil if the run was not made of a file
	child    *runlog.Child    // nil if no task waits for the run
	freed    bool             // a child run has ended, and what was set aside for it is free
	failed   uint64           // the last record of a failure of the run
	raised   uint64           // the last record that changed what is left of the budget other than by use
	own      string           // see Scope.Own; "" for keys as they are
}

// space is one graph of the run.
type space struct {
	done  []string        // its tasks with a result in the superstep that is under way
	recs  []runlog.Record // of an inner one: what it needs to go on, from its last snapshot on
	since int             // bytes of data in recs
	size  int             // bytes of its last snapshot
	held  bool            // it is being run
	ended bool            // it was run to its end
	over  bool            // its task has a result: what is still being run leaves nothing
}

// in returns the space of the graph that the task at a path belongs to.
func (v *recovered) in(path string) *space {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return v.space("")
	}
	v.nested = true
	return v.space(path[:i])
}

func (v *recovered) space(path string) *space {
	s := v.spaces[path]
	if s == nil {
		s = &space{}
		put(&v.spaces, path, s)
	}
	return s
}

// memory holds what later effects and questions of a scope need from its log.
type memory struct {
	settled  map[string]runlog.Settled // by key, like the others
	intents  map[string]intents
	asked    map[string]runlog.Question
	answers  map[string]runlog.Answer
	heard    uint64                         // the last answer
	news     uint64                         // the last answer that left a scope, this one or one inside it, without open questions
	attempts int                            // that failed since the task was last given up
	given    int                            // how often the task was given up
	held     map[string]runlog.Amount       // what is set aside, by effect
	short    map[string]*runlog.BudgetError // what has not begun for want of budget, by effect
	last     string                         // the key of the last effect or question, "" if it is not known
	at       uint64                         // its record
}

// intents counts the intents of an effect, and notes whether the last one has no outcome.
type intents struct {
	n     int
	open  bool
	hint  string
	limit runlog.Budget // that the run had then
}

// of returns the memory of a scope. The caller holds mu.
func (v *recovered) of(path string) *memory {
	m := v.scopes[path]
	if m == nil {
		m = &memory{}
		put(&v.scopes, path, m)
		v.nested = v.nested || strings.Contains(path, "/")
	}
	return m
}

// put sets an entry of a map and creates the map if needed: most scopes never need theirs.
func put[K comparable, V any](m *map[K]V, key K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = v
}

// note keeps the data of a record that later effects and questions need.
func (v *recovered) note(r *runlog.Record) error {
	data, err := payload(r)
	if err != nil {
		return err
	}
	v.since += r.Size()
	v.ledger.tick(r)
	if !v.summed {
		v.sum.note(v, r, data, r.Seq <= v.sum.now.Head)
	}
	switch d := data.(type) {
	case *runlog.RunStarted:
		if r.Seq == 1 {
			v.noteOrigin(d)
		}
		v.ledger.give(d.Budget)
	case *runlog.RunResumed:
		v.ledger.give(d.Budget)
		v.paused, v.short = false, false
	case *carry.Data:
		v.restore(d, r.Time)
	case *runlog.TaskFailed:
		m := v.of(r.Path)
		if m.attempts = d.Attempt; d.Final {
			m.attempts = 0
			m.given++
		}
	case *runlog.Intended:
		m := v.of(r.Path)
		m.last, m.at = d.Key, r.Seq
		put(&m.intents, d.Key, intents{m.intents[d.Key].n + 1, true, d.Hint, v.ledger.limit})
		if d.Cost != nil {
			v.ledger.hold(m, d.Key, *d.Cost)
		}
	case *runlog.Settled:
		m := v.of(r.Path)
		if !ofMark(d) { // which the task has not done, see Scope.Mark
			m.last, m.at = d.Key, r.Seq
		}
		for _, m := range mail.SteeringOf(d) {
			v.close(m.Request)
		}
		for _, request := range d.Interrupted {
			v.close(request)
		}
		put(&m.settled, d.Key, *d)
		put(&m.intents, d.Key, intents{n: m.intents[d.Key].n})
		v.ledger.settle(m, d)
		if d.Kind == kindRun {
			v.freed, v.raised = true, r.Seq
		}
	case *runlog.Question:
		m := v.of(r.Path)
		m.last, m.at = d.Key, r.Seq
		put(&m.asked, d.Key, *d)
	case *runlog.Answer:
		m := v.of(r.Path)
		put(&m.answers, d.Key, *d)
		if !asksDuring(r) {
			m.heard = r.Seq
		}
		if m.heard == r.Seq && !m.asks() { // else it is not yet of use, see Scope.Ask
			for path := r.Path; ; path = path[:max(0, strings.LastIndexByte(path, '/'))] {
				if v.of(path).news = r.Seq; path == "" {
					break
				}
			}
		}
		v.ledger.waited(d.Waited)
	case *runlog.RunPaused:
		v.ledger.waited(d.Waited)
		v.close(d.Request)
		v.paused, v.short = d.By != "", d.Short != nil
	}
	switch r.Kind {
	case runlog.KindSnapshot:
		v.since, v.size = 0, r.Size()
	case runlog.KindInner:
		if s := v.space(r.Path); !s.over {
			s.recs, s.since, s.size = append(s.recs[:0:0], *r), 0, r.Size()
		}
	case runlog.KindTaskDone:
		s := v.in(r.Path)
		s.done = append(s.done, r.Path)
		s.keep(r, strings.Contains(r.Path, "/"))
	case runlog.KindStepCommitted:
		s := v.space(r.Path)
		v.forget(s.done)
		s.done = s.done[:0]
		s.keep(r, r.Path != "")
	case runlog.KindRunFailed:
		v.failed = r.Seq
	case runlog.KindEvent:
		v.grant(r)
		v.budgeted(r)
	}
	return nil
}

// budgeted notes a change of the budget, or of what is set aside for a child run.
func (v *recovered) budgeted(r *runlog.Record) {
	if b := mail.BudgetOf(r); b != nil {
		v.ledger.change(b.Budget)
		v.raised, v.short = r.Seq, false
		v.close(b.Request)
	} else if l := mail.LoanOf(r); l != nil {
		if m := v.scopes[l.Path]; m != nil && m.intents[l.Key].open { // the child may have ended meanwhile
			v.ledger.hold(m, l.Key, l.Amount)
		}
		v.close(l.Request)
	}
}

// asks reports whether the scope has an open question, other than those that a running effect asks.
func (m *memory) asks() bool {
	for key := range m.asked {
		if _, answered := m.answers[key]; !answered && !strings.HasPrefix(key, during) {
			return true
		}
	}
	return false
}

// close notes that a request was recorded; "" means none.
func (v *recovered) close(request string) {
	if request != "" {
		put(&v.handled, request, true)
	}
}

// payload decodes a record of a kind that a journal reads itself. For other kinds it returns nil.
func payload(r *runlog.Record) (data any, err error) {
	switch r.Kind {
	case runlog.KindRunStarted:
		data = &runlog.RunStarted{}
	case runlog.KindRunResumed:
		data = &runlog.RunResumed{}
	case carry.Kind:
		data = &carry.Data{}
	case runlog.KindTaskFailed:
		data = &runlog.TaskFailed{}
	case runlog.KindIntended:
		data = &runlog.Intended{}
	case runlog.KindSettled:
		data = &runlog.Settled{}
	case runlog.KindAsked:
		data = &runlog.Question{}
	case runlog.KindAnswered:
		data = &runlog.Answer{}
	case runlog.KindRunPaused:
		data = &runlog.RunPaused{}
	default:
		return nil, nil
	}
	if len(r.Data) == 0 && (r.Kind == runlog.KindRunStarted || r.Kind == runlog.KindRunResumed) {
		return data, nil
	}
	return data, unmarshal(r, data)
}

func (s *space) keep(r *runlog.Record, inner bool) {
	if inner && !s.over {
		s.recs = append(s.recs, *r)
		s.since += r.Size()
	}
}

// forget drops the effects of tasks and the graphs they ran, since these tasks never run again.
func (v *recovered) forget(tasks []string) {
	for _, path := range tasks {
		v.drop(path)
	}
	if !v.nested {
		return
	}
	done := make(map[string]bool, len(tasks))
	for _, path := range tasks {
		done[path] = true
	}
	v.nested = false
	for path := range v.scopes {
		if within(path, done) {
			v.drop(path)
		} else if strings.Contains(path, "/") {
			v.nested = true
		}
	}
	for path, s := range v.spaces {
		if path == "" {
			continue
		}
		if over := done[path] || within(path, done); over && !s.held {
			delete(v.spaces, path)
		} else {
			v.nested = true
			if over { // it goes when it ends
				s.over, s.recs, s.since = true, nil, 0
			}
		}
	}
}

// within reports whether a path lies inside one of the tasks.
func within(path string, tasks map[string]bool) bool {
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' && tasks[path[:i]] {
			return true
		}
	}
	return false
}

// carry returns the data that must follow a snapshot written with the results of the given tasks, or nil if there is none.
func (v *recovered) carry(tasks []string) *carry.Data {
	var c carry.Data
	done := map[string]bool{}
	for _, path := range v.space("").done {
		done[path] = true
	}
	for _, path := range tasks {
		done[path] = true
	}
	for _, path := range slices.Sorted(maps.Keys(v.spaces)) {
		if path == "" || done[path] || within(path, done) {
			continue
		}
		for _, r := range v.spaces[path].recs {
			c.Inner = append(c.Inner, carry.Record{Kind: r.Kind, Path: r.Path, Data: r.Data, Attachment: r.Attachment})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(v.scopes)) {
		if done[path] || within(path, done) {
			continue // its superstep commits together with the snapshot
		}
		m := v.scopes[path]
		if len(m.settled)+len(m.intents)+len(m.asked)+m.attempts+m.given == 0 {
			continue
		}
		s := carry.Scope{Path: path, Attempts: m.attempts, GivenUp: m.given, Settled: values(m.settled), Asked: values(m.asked), Answers: values(m.answers)}
		for _, key := range slices.Sorted(maps.Keys(m.intents)) {
			in := m.intents[key]
			s.Intents = append(s.Intents, carry.Intent{Key: key, N: in.n, Open: in.open, Hint: in.hint, Cost: some(m.held[key])})
		}
		c.Scopes = append(c.Scopes, s)
	}
	c.Ledger, c.Granted = v.ledger.carried(), slices.Sorted(maps.Keys(v.granted))
	if c.Handled = slices.Sorted(maps.Keys(v.handled)); c.Scopes == nil && c.Inner == nil && c.Ledger == nil && c.Granted == nil && c.Handled == nil {
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

// restore restores the data that was carried past a snapshot at that time.
func (v *recovered) restore(c *carry.Data, at time.Time) {
	v.ledger.restore(c.Ledger)
	v.sum.carried(c.Ledger)
	for _, id := range c.Handled {
		v.close(id)
	}
	for _, what := range c.Granted {
		v.allow(what)
	}
	for _, r := range c.Inner {
		rec := runlog.Record{Kind: r.Kind, Path: r.Path, Data: r.Data, Attachment: r.Attachment}
		switch r.Kind {
		case runlog.KindInner:
			s := v.space(r.Path)
			s.recs, s.since, s.size = []runlog.Record{rec}, 0, rec.Size()
			v.nested = true
		case runlog.KindTaskDone:
			s := v.in(r.Path)
			s.done = append(s.done, r.Path)
			s.keep(&rec, true)
		case runlog.KindStepCommitted:
			s := v.space(r.Path)
			s.done = s.done[:0]
			s.keep(&rec, true)
		}
	}
	for _, s := range c.Scopes {
		m := v.of(s.Path)
		m.attempts, m.given = s.Attempts, s.GivenUp
		for _, d := range s.Settled {
			put(&m.settled, d.Key, d)
		}
		for _, d := range s.Intents {
			put(&m.intents, d.Key, intents{d.N, d.Open, d.Hint, v.ledger.limit})
			if d.Open && d.Cost != nil {
				v.ledger.hold(m, d.Key, *d.Cost)
			}
		}
		for _, d := range s.Answers {
			put(&m.answers, d.Key, d)
		}
		for _, d := range s.Asked {
			put(&m.asked, d.Key, d)
			if _, answered := m.answers[d.Key]; !answered {
				v.sum.askAgain(s.Path, &d, at)
			}
		}
	}
}

func unmarshal(r *runlog.Record, into any) error {
	if err := json.Unmarshal(r.Data, into); err != nil {
		return fmt.Errorf("record %d (%s): %w", r.Seq, r.Kind, err)
	}
	return nil
}

// drop forgets the effects of a task and releases its reserved budget.
func (v *recovered) drop(path string) {
	if m := v.scopes[path]; m != nil {
		for key := range m.held {
			v.ledger.release(m, key)
		}
		delete(v.scopes, path)
	}
}

// noteOrigin keeps the mark of the first record, nil for none.
func (v *recovered) noteOrigin(d *runlog.RunStarted) {
	im := d.Imported
	v.imported, v.sum.now.Imported = im, im != nil
	v.child, v.sum.now.Child = d.Child, d.Child != nil
	if im != nil && v.head >= im.Records { // else the records of the file are replayed
		v.own = im.Nonce
	}
}

// grant notes an event if it is a grant.
func (v *recovered) grant(r *runlog.Record) {
	if what, is := grantOf(r); is {
		v.allow(what)
	}
}

// grantOf returns the word of a grant, and reports whether an event is one.
func grantOf(r *runlog.Record) (what string, is bool) {
	if !bytes.HasPrefix(r.Data, []byte(`{"name":"`+eventGranted+`"`)) {
		return "", false // as newEvent writes it; nobody else's event is one
	}
	var e runlog.Event
	var g granted
	is = json.Unmarshal(r.Data, &e) == nil && e.Name == eventGranted && json.Unmarshal(e.Data, &g) == nil
	return g.What, is
}

// allow notes the word of a grant, which may be a mark.
func (v *recovered) allow(what string) {
	if own, lines, is := cutMark(what); is && !v.granted[what] {
		all := strings.Split(lines, "\n")
		v.marks = append(v.marks, mark{own, all[0], all[1:]})
	}
	put(&v.granted, what, true)
}
