package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/runlog"
)

// summaryEvery is how often a batch that changes nothing important has a summary.
const summaryEvery = time.Second

// mostNodes is how many nodes a graph may have of which the summary counts those that are done.
const mostNodes = 512

// summing keeps what the next summary of the run says. The mu of the journal guards it.
//
// A summary must say what its batch changes, and the batch may be refused. So summing is advanced past the batch before it is appended, see preview,
// and undone if it is refused. Without a summary in the batch it is advanced afterwards.
type summing struct {
	now     summary.Summary // without what the fields below say
	step    json.RawMessage // of the last superstep committed; nil if there is none since the journal was opened
	nodes   map[string]int  // of the graph, in order; nil if they are not known
	open    []summary.Question
	known   []summary.Question // those of the summary that the run had, for when they were asked
	people  int                // how many of them need an answer of a person
	runs    int                // how many of them wait for child runs
	tops    map[string]top
	working int // how many of tops neither wait for an answer nor for their next attempt
	paused  *runlog.RunPaused

	written time.Time // the last summary, and what it said
	waits   string

	behind bool      // the log before its last snapshot was not counted: it is older than summaries
	undo   *[]change // of a preview
}

// A top is a task of the run's own graph that has begun and not ended, with all that is in it.
type top struct {
	open  int       // its open questions
	retry time.Time // of its next attempt, zero if that has begun
	waits string    // for what until then, as a summary says
}

func (t top) works() bool { return t.open == 0 && t.retry.IsZero() }

// A change is an entry of a map of tops as it was.
type change struct {
	tops map[string]top
	key  string
	was  top
	had  bool
}

// seed begins with the summary that the run had when the journal was opened.
func (s *summing) seed(info *runlog.Info) {
	if was := summary.Of(info); was != nil {
		s.now, s.known = *was, was.Questions
		s.now.Waits, s.now.Until, s.now.Open, s.now.Questions = "", nil, 0, nil
	}
	s.waits = "?" // the first batch tells
}

// shape learns the nodes of the graph from the run's first snapshot.
func (s *summing) shape(data json.RawMessage) {
	var d struct {
		Shape struct{ Nodes []struct{ Name string } }
	}
	if s.nodes != nil || json.Unmarshal(data, &d) != nil || len(d.Shape.Nodes) == 0 || len(d.Shape.Nodes) > mostNodes {
		return
	}
	s.nodes = make(map[string]int, len(d.Shape.Nodes))
	for i, n := range d.Shape.Nodes {
		s.nodes[n.Name] = i
	}
	if s.now.Of != len(s.nodes) {
		s.now.Of, s.now.Done, s.now.Seen = len(s.nodes), 0, nil
	}
}

// done notes that a node has a result.
func (s *summing) done(node string) {
	i, ok := s.nodes[node]
	if !ok || len(s.now.Seen) > i/8 && s.now.Seen[i/8]&(1<<(i%8)) != 0 {
		return
	}
	seen := make([]byte, max(len(s.now.Seen), i/8+1)) // a new one, for undo
	copy(seen, s.now.Seen)
	seen[i/8] |= 1 << (i % 8)
	s.now.Seen, s.now.Done = seen, s.now.Done+1
}

// topOf returns the task of the run's own graph that a path belongs to, and its node.
func topOf(path string) (task, node string) {
	if i := strings.IndexByte(path, '/'); i >= 0 {
		path = path[:i]
	}
	node = path
	if i := strings.IndexAny(path, "[#:"); i >= 0 {
		node = path[:i]
	}
	return path, node
}

// put replaces the entry of a task, or removes it.
func (s *summing) put(task string, t top, gone bool) {
	was, had := s.tops[task]
	if had && was == t && !gone || !had && gone {
		return
	}
	if s.undo != nil {
		*s.undo = append(*s.undo, change{s.tops, task, was, had})
	}
	if had && was.works() {
		s.working--
	}
	if gone {
		delete(s.tops, task)
		return
	}
	if put(&s.tops, task, t); t.works() {
		s.working++
	}
}

// aside reports whether a record tells of something beside what its task does, so that the task may still wait.
func aside(r *runlog.Record, data any) bool {
	if d, ok := data.(*runlog.Settled); ok {
		return d.Kind == "note"
	}
	return r.Kind == runlog.KindAsked || r.Kind == runlog.KindEvent && bytes.HasPrefix(r.Data, []byte(`{"name":"note"`))
}

// note advances past a record. Counted reports that the counts have it already.
func (s *summing) note(v *recovered, r *runlog.Record, data any, counted bool) {
	task, node := topOf(r.Path)
	is := s.tops[task]
	if r.Path != "" && !aside(r, data) {
		is.retry = time.Time{}
		s.put(task, is, false)
	}
	switch d := data.(type) {
	case *runlog.Question:
		s.ask(summary.Short(r.Path, d, r.Time))
	case *runlog.Answer:
		s.close(func(q *summary.Question) bool { return q.Path == r.Path && q.Key == d.Key })
	case *runlog.TaskFailed:
		if d.Next > 0 {
			is = s.tops[task]
			is.retry, is.waits = r.Time.Add(time.Duration(d.Next)*time.Millisecond), summary.Retry
			s.put(task, is, false)
		}
	case *runlog.Settled:
		var until time.Time
		if d.Kind == "timer" && json.Unmarshal(d.Output, &until) == nil && until.After(r.Time.Add(time.Second)) {
			is = s.tops[task]
			is.retry, is.waits = until, summary.Date
			switch {
			case strings.Contains(d.Key, "/wait-"):
				is.waits = summary.RateLimit
			case strings.Contains(d.Key, "/again-"):
				is.waits = summary.Retry
			}
			s.put(task, is, false)
		}
		if !counted {
			s.settle(v, r.Path, d)
		}
	case *runlog.RunPaused:
		s.paused = d
	case *runlog.RunStarted:
		s.now.Imported, s.now.Child, s.now.Queue, s.now.Folder = d.Imported != nil, d.Child != nil, d.Queue, d.Folder
		if d.Imported != nil {
			s.now.Folder = d.Imported.Dir
		}
	case *runlog.RunResumed:
		s.paused, s.now.Failed = nil, ""
		s.tops, s.working = maps.Clone(s.tops), 0
		maps.DeleteFunc(s.tops, func(_ string, t top) bool { return t.open == 0 })
	}
	switch r.Kind {
	case runlog.KindSnapshot:
		s.shape(r.Data)
	case runlog.KindStepCommitted:
		if r.Path == "" {
			s.step = r.Data
		}
	case runlog.KindTaskDone:
		if len(s.open) > 0 {
			s.close(func(q *summary.Question) bool { return q.Path == r.Path || strings.HasPrefix(q.Path, r.Path+"/") })
		}
		if task == r.Path {
			s.put(task, top{}, true)
			if !counted {
				s.done(node)
			}
		}
	case runlog.KindRunFailed, runlog.KindRunFinished:
		var d struct{ Tasks, Skipped []string }
		if json.Unmarshal(r.Data, &d) == nil && len(d.Tasks)+len(d.Skipped) > 0 {
			s.now.Failed = append(d.Tasks, d.Skipped...)[0]
		}
	}
}

// ask notes a question, unless it is open already: what is carried past a snapshot asks again.
func (s *summing) ask(q summary.Question) {
	if slices.ContainsFunc(s.open, func(was summary.Question) bool { return was.Path == q.Path && was.Key == q.Key }) {
		return
	}
	s.open = append(s.open[:len(s.open):len(s.open)], q)
	s.count(&q, 1)
	task, _ := topOf(q.Path)
	is := s.tops[task]
	is.open++
	s.put(task, is, false)
}

// count counts n questions like q.
func (s *summing) count(q *summary.Question, n int) {
	switch {
	case q.Kind == runlog.QuestionRun:
		s.runs += n
	case summary.Asks(q.Kind):
		s.people += n
	}
}

// askAgain notes a question that was carried past a snapshot at that time. It was asked before, and nobody knows when if the summary did not have it.
func (s *summing) askAgain(path string, q *runlog.Question, at time.Time) {
	again := summary.Short(path, q, at)
	for i := range s.known {
		if was := &s.known[i]; was.Path == path && was.Key == q.Key {
			again.Asked = was.Asked
		}
	}
	s.ask(again)
}

// close removes questions.
func (s *summing) close(gone func(*summary.Question) bool) {
	if !slices.ContainsFunc(s.open, func(q summary.Question) bool { return gone(&q) }) {
		return
	}
	left := make([]summary.Question, 0, len(s.open)) // for undo
	for i := range s.open {
		q := &s.open[i]
		if !gone(q) {
			left = append(left, *q)
			continue
		}
		s.count(q, -1)
		task, _ := topOf(q.Path)
		is := s.tops[task]
		is.open--
		s.put(task, is, false)
	}
	s.open = left
}

// settle counts what an effect did cost.
func (s *summing) settle(v *recovered, path string, d *runlog.Settled) {
	if d.Spent == nil {
		return
	}
	s.now.Tokens += d.Spent.Tokens
	s.now.Cost += d.Spent.Money
	if d.Kind != "model" || d.Spent.Money > 0 || d.Spent.Tokens == 0 || s.now.More {
		return
	}
	var agent struct{ Priced bool }
	if i := max(strings.LastIndex("/"+d.Key, "/turn-"), strings.LastIndex("/"+d.Key, "/compact-")); i >= 0 {
		if m := v.scopes[path]; m != nil {
			_ = json.Unmarshal(m.settled[d.Key[:i]+"agent"].Input, &agent) // as far as it says
		}
	}
	s.now.More = !agent.Priced
}

// preview advances past a batch that follows the record head and sets its summary, if it is time for one. The function returned undoes that; it is nil
// if nothing was done.
func (j *Journal) preview(b *runlog.Batch) (undo func()) {
	s := &j.sum
	due := b.Status != "" || s.waits == "?"
	for i := range b.Records {
		switch b.Records[i].Kind {
		case runlog.KindAsked, runlog.KindAnswered, runlog.KindSnapshot, runlog.KindTaskFailed, runlog.KindRunPaused, runlog.KindRunFailed, runlog.KindRunFinished:
			due = true
		}
	}
	var at time.Time
	if n := len(b.Records); n > 0 {
		at = b.Records[n-1].Time
		since := at.Sub(s.written)
		due = due || since >= summaryEvery || since < 0
	}
	if !due && len(s.open) == 0 {
		return nil
	}
	was, changes := *s, []change{}
	s.undo = &changes
	for i := range b.Records {
		r := b.Records[i]
		if r.Kind == runlog.KindAsked {
			r.Data = j.Clean(r.Data)
		}
		data, err := payload(&r)
		if err != nil {
			data = nil // Append has looked
		}
		s.note(&j.recovered, &r, data, false)
	}
	s.undo = nil
	now := s.summary(j.info.Head+uint64(len(b.Records)), b.Status, j.info.Status)
	if due || now.Waits != s.waits {
		b.Summary = now.Encode(j.Clean)
		s.written, s.waits = at, now.Waits
	}
	return func() {
		for _, c := range slices.Backward(changes) {
			if c.had {
				c.tops[c.key] = c.was
			} else {
				delete(c.tops, c.key)
			}
		}
		*s = was
	}
}

// summary returns the summary as of a record, of a run of that status, or of that other one if it is "".
func (s *summing) summary(head uint64, status, or runlog.Status) *summary.Summary {
	out := s.now
	out.Head = head
	var d runlog.StepCommitted
	if s.step != nil && json.Unmarshal(s.step, &d) == nil {
		out.Steps = d.Step + 1
	}
	if status == "" {
		status = or
	}
	asks := func() string {
		switch {
		case s.people > 0:
			return summary.Person
		case s.runs > 0:
			return summary.Run
		}
		return summary.Message
	}
	switch {
	case status.Ended() || status == runlog.Failed:
		return &out
	case status == runlog.WaitingStorage:
		out.Waits = summary.Storage
	case status == runlog.Paused && s.paused != nil && s.paused.Short != nil:
		out.Waits = summary.Budget
	case status == runlog.Paused && len(s.open) == 0:
		out.Waits = summary.Operator
	case status == runlog.Paused, len(s.open) > 0 && s.working == 0:
		out.Waits = asks()
	case s.working == 0 && len(s.tops) > 0:
		for _, t := range s.tops {
			if out.Until == nil || t.retry.Before(*out.Until) {
				out.Until, out.Waits = &t.retry, t.waits
			}
		}
	}
	out.Open = s.people
	for i := range s.open {
		if summary.Asks(s.open[i].Kind) {
			out.Questions = append(out.Questions, s.open[i])
		}
	}
	return &out
}

// Until returns when the first task continues if all tasks wait for a rate limit, a date or their next attempt, and zero if one does not.
func (j *Journal) Until() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := &j.sum
	if len(s.tops) == 0 || s.working > 0 || len(s.open) > 0 {
		return time.Time{}
	}
	var until time.Time
	for path := range j.begun {
		if task, _ := topOf(path); s.tops[task].retry.IsZero() {
			return until
		}
	}
	for _, t := range s.tops {
		if until.IsZero() || t.retry.Before(until) {
			until = t.retry
		}
	}
	return until
}

// Requeue leaves the run to a worker that takes it at a time or later.
func (j *Journal) Requeue(ctx context.Context, until time.Time) error {
	j.mu.Lock()
	q := runlog.Queue{}
	if j.sum.now.Queue != nil {
		q = *j.sum.now.Queue
	}
	q.NotBefore = until
	j.sum.now.Queue = &q
	j.mu.Unlock()
	return j.Append(ctx, runlog.Queued)
}

// carried takes the costs before a snapshot from what was carried past it, if they were not counted.
func (s *summing) carried(l *carry.Ledger) {
	if s.behind && l != nil {
		s.now.Tokens, s.now.Cost = l.Spent.Tokens, l.Spent.Money
	}
	s.behind = false
}

// recoverSum reads the first snapshot of a run that is opened at a later one, for the nodes of its graph.
func (j *Journal) recoverSum(ctx context.Context) error {
	if j.sum.behind = j.sum.now.Head == 0; j.sum.now.Of == 0 {
		return nil
	}
	recs, err := j.store.Read(ctx, j.id, 2, 1)
	if err != nil {
		return err
	}
	for i := range recs {
		if recs[i].Kind == runlog.KindSnapshot && bytes.Contains(recs[i].Data, []byte(`"shape":`)) {
			j.sum.shape(recs[i].Data)
		}
	}
	return nil
}
