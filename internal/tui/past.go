package tui

import (
	"encoding/json"
	"iter"
	"sort"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

const (
	pastWindow = 8 << 20  // bytes of parts of ended tasks in a fold of the past
	mostSaved  = 12       // folds that are kept, to begin at
	nearby     = 96       // records before a cut, where one more is kept
	mostStates = 32 << 20 // bytes of states that are kept
)

// A past is the stored records of a run, and its fold after any of them. A fold cannot go back, so folds at spaced places are kept, of which a copy goes
// on from there: a cut in 10,000 records takes a few milliseconds.
type past struct {
	recs  []runlog.Record
	space string          // the task whose graph's commits are marked, "" for the run
	took  []time.Duration // execution time after each record
	marks []mark
	whole transcript.Run
	every int
	saved []*transcript.Run // after so many records each, the first after one time `every`
	near  *transcript.Run   // shortly before the last cut, nil for none
}

// A mark is an event that the time line shows.
type mark struct {
	at   int // how many records there are with it
	sign rune
}

// The signs of marks.
const (
	markCommit   = '●'
	markQuestion = '◆'
	markFailure  = '✗'
)

// add appends the next stored record.
func (p *past) add(rec runlog.Record) {
	if rec.Seq == 0 || len(p.recs) > 0 && rec.Seq <= p.recs[len(p.recs)-1].Seq {
		return
	}
	if p.every == 0 {
		p.every, p.whole.Window = 256, pastWindow
	}
	p.recs = append(p.recs, rec)
	p.whole.Apply(rec)
	took := p.whole.Time.Elapsed(rec.Time)
	if n := len(p.took); n > 0 {
		took = max(took, p.took[n-1]) // what is measured at the end of an execution may be less than what was counted
	}
	p.took = append(p.took, took)
	p.mark(len(p.recs))
	if len(p.recs)%p.every != 0 {
		return
	}
	if p.saved = append(p.saved, p.whole.Clone()); len(p.saved) > mostSaved {
		p.every *= 2
		var half []*transcript.Run
		for i := 1; i < len(p.saved); i += 2 {
			half = append(half, p.saved[i])
		}
		p.saved = half
	}
}

// mark marks the last of the first n records, if it is an event.
func (p *past) mark(n int) {
	if sign := signOf(&p.recs[n-1], p.space); sign != 0 {
		p.marks = append(p.marks, mark{n, sign})
	}
}

// enter marks the commits of the graph inside of a task, or of the run's own for "".
func (p *past) enter(space string) {
	p.space, p.marks = space, nil
	for i := range p.recs {
		p.mark(i + 1)
	}
}

// signOf returns the sign of a record, 0 for none. The commits are those of the graph inside of the task space.
func signOf(rec *runlog.Record, space string) rune {
	switch rec.Kind {
	case runlog.KindStepCommitted:
		if rec.Path == space {
			return markCommit
		}
	case runlog.KindAsked:
		return markQuestion
	case runlog.KindRunFailed:
		return markFailure
	case runlog.KindTaskFailed:
		var d runlog.TaskFailed
		if json.Unmarshal(rec.Data, &d) == nil && d.Final {
			return markFailure
		}
	case runlog.KindTaskDone:
		var d runlog.TaskDone
		if d.Parse(rec.Data) == nil && d.Error != "" {
			return markFailure
		}
	}
	return 0
}

// cut returns the fold of the first n records. It is the caller's.
func (p *past) cut(n int) *transcript.Run {
	n = min(max(n, 0), len(p.recs))
	from, base := 0, (*transcript.Run)(nil)
	if i := min(n/max(p.every, 1), len(p.saved)); i > 0 {
		from, base = i*p.every, p.saved[i-1]
	}
	if p.near != nil {
		if at := p.place(p.near.Seq); at <= n && at > from {
			from, base = at, p.near
		}
	}
	run := &transcript.Run{Window: pastWindow}
	if base != nil {
		run = base.Clone()
	}
	for i := from; i < n; i++ {
		if n-i == nearby && n-from > 2*nearby {
			p.near = run.Clone()
		}
		run.Apply(p.recs[i])
	}
	return run
}

// place returns how many records there are up to a sequence number.
func (p *past) place(seq uint64) int {
	return sort.Search(len(p.recs), func(i int) bool { return p.recs[i].Seq > seq })
}

// seq is the sequence number of the last of n records, 0 for none.
func (p *past) seq(n int) uint64 {
	if n <= 0 || len(p.recs) == 0 {
		return 0
	}
	return p.recs[min(n, len(p.recs))-1].Seq
}

// commit returns the nearest commit after the first n records, or before the last of them; n itself if there is none.
func (p *past) commit(n int, back bool) int {
	out := n
	for _, m := range p.marks {
		switch {
		case m.sign != markCommit:
		case back && m.at < n:
			out = m.at
		case !back && m.at > n:
			return m.at
		}
	}
	return out
}

// A moment is a checkpoint of the run's graph. Its state is nil if it is not kept.
type moment struct {
	seq   uint64
	step  int
	state json.RawMessage
	next  []string
	done  []graph.Result
}

// momentsOf returns the checkpoints of a run by its records. It keeps the first states up to a total size, and the two last at or before the record focus.
func momentsOf(flow graph.Reading, recs []runlog.Record, focus uint64) ([]moment, error) {
	var out []moment
	var extra []int
	size := 0
	drop := func(i int) { out[i].state, out[i].done = nil, nil }
	for m, err := range flow.Checkpoints(sequence(recs)) {
		if err != nil {
			return out, err
		}
		out = append(out, moment{m.Seq, m.Step, m.State, m.Next, m.Tasks})
		i := len(out) - 1
		switch {
		case size+len(m.State) <= mostStates:
			size += len(m.State)
		case m.Seq > focus:
			drop(i)
		default:
			if extra = append(extra, i); len(extra) > 2 {
				drop(extra[0])
				extra = extra[1:]
			}
		}
	}
	return out, nil
}

func sequence(recs []runlog.Record) iter.Seq2[runlog.Record, error] {
	return func(yield func(runlog.Record, error) bool) {
		for _, r := range recs {
			if !yield(r, nil) {
				return
			}
		}
	}
}
