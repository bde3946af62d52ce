package pregeltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/internal/pregel"
)

const randomSeeds = 150

var randomCases = []testCase{
	{name: "random programs", rule: "whatever the order, the failures and the crashes, a run comes to the same state by the same commits, and computes nothing again that is on record", run: func(f *fixture) {
		for seed := range uint64(randomSeeds) {
			if f.random(seed); len(f.mistakes) > 0 {
				return
			}
		}
	}},
}

var errCrash = errors.New("crash")

// wild is a program at random: cycles, fans, joins, votes, and tasks that fail, wait or are
// stopped before they do what they do.
type wild struct {
	seed uint64
	prog *pregel.Program[State, string, int]
}

func newWild(seed uint64, early bool) *wild {
	r := rand.New(rand.NewPCG(seed, 1))
	n := 2 + r.IntN(2+int(seed/20))
	w := &wild{seed: seed, prog: program()}
	cyclic := r.IntN(2) == 0
	for i := range n {
		v := pregel.Vertex{Name: fmt.Sprint("v", i), Targets: []int{}}
		for to := range n {
			if r.IntN(n) < 2 && (cyclic || to > i) {
				v.Targets = append(v.Targets, to)
			}
		}
		w.prog.Vertices = append(w.prog.Vertices, v)
	}
	for i := range n {
		v := &w.prog.Vertices[i]
		if r.IntN(4) == 0 {
			for from := range w.prog.Vertices {
				if slices.Contains(w.prog.Vertices[from].Targets, i) {
					v.Sources = append(v.Sources, from)
				}
			}
			if len(v.Sources) > 0 {
				v.Need = 1 + r.IntN(len(v.Sources))
			}
		}
		if r.IntN(2) == 0 {
			v.Reads = []int{}
			for x := range n {
				if r.IntN(n) == 0 {
					v.Reads = append(v.Reads, x)
				}
			}
		}
	}
	if early {
		w.prog.AllowEarly()
	}
	return w
}

func (w *wild) entries() []send { return to(0, len(w.prog.Vertices)-1) }

// chance gives the numbers by which a task decides.
func (w *wild) chance(path string, about ...any) *rand.Rand {
	h := w.seed
	for _, c := range []byte(path + fmt.Sprint(about...)) {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return rand.New(rand.NewPCG(h, w.seed))
}

// does is what a task comes to in the end.
func (w *wild) does(t *task, path string, s State) result {
	r := w.chance(path, t.Inbox, s)
	out := done(fmt.Sprint(path, "/", len(s), "/", len(t.Inbox)))
	if r.IntN(10) == 0 {
		out.Outcome = pregel.Skipped
	}
	if t.Step >= 8 {
		return out
	}
	if targets := w.prog.Vertices[t.Vertex].Targets; len(targets) > 0 {
		for range r.IntN(4) {
			x := say(targets[r.IntN(len(targets))], r.IntN(100))
			if w.prog.Vertices[x.To].Need == 0 && r.IntN(3) == 0 {
				x.Key = string(rune('p' + r.IntN(3)))
			}
			x.Bare = r.IntN(3) == 0
			out.Sends = append(out.Sends, x)
		}
	}
	switch r.IntN(20) {
	case 0:
		out.Vote = pregel.Stay
	case 1:
		out.Vote = pregel.Complete
	}
	return out
}

// before is what a task does instead, the first time.
func (w *wild) before(path string, n int) (result, bool) {
	r := w.chance(path, "before")
	time.Sleep(time.Duration(r.IntN(5)+n) * time.Millisecond)
	if n > 1 {
		return result{}, false
	}
	bad := result{Update: "bad", Sends: w.entries(), Vote: pregel.Stay, Err: errNo}
	switch r.IntN(12) {
	case 0:
		panic("no")
	case 1:
		bad.Outcome = pregel.Failed
	case 2:
		bad.Outcome = pregel.Waiting
	case 3:
		bad.Outcome = pregel.Aborted
	}
	return bad, bad.Outcome != 0
}

// straight is the run without a driver: its final state and its commits.
func (w *wild) straight() (State, string, []string) {
	m := pregel.New(w.prog, nil, w.entries()...)
	j := &journal{byStep: map[int][]string{}}
	for !m.Ended() {
		step := m.Step()
		for _, t := range m.Plan() {
			r := w.does(&t, m.Path(&t), m.Sees(&t))
			_ = m.Apply(t.Index, r) // it takes what it has handed out
			j.note(m, &t, &r)
		}
		m.Commit()
		j.close(m, step)
	}
	return m.State(), fmt.Sprint(m.StallError()), j.commits
}

// random runs a program with crashes and compares what it comes to with the straight run.
func (f *fixture) random(seed uint64) {
	state, end, commits := newWild(seed, false).straight()
	w := newWild(seed, true)
	r := rand.New(rand.NewPCG(seed, 2))
	m := pregel.New(w.prog, nil, w.entries()...)
	j := newJournal(m, r)
	clear(f.computed)
	f.does = nil
	f.any = func(t *task, c *call) result {
		if j.has(c.path) {
			f.Errorf("%s computes again, and is on record", c.path)
		}
		if r, bad := w.before(c.path, c.n); bad {
			return r
		}
		return w.does(t, c.path, c.state)
	}
	defer func() { f.any = nil }()
	var err error
	for try := 0; ; try++ {
		if try > 1000 {
			f.Fatalf("random program %d: no end in sight: %v", seed, err)
		}
		o := &Options{
			Parallelism: 1 + r.IntN(4), Barrier: r.IntN(3) == 0, MaxSteps: m.Step() + 1 + r.IntN(5),
			Ready: func(*task) bool { return true },
		}
		if f.recorded {
			o.Recorder = j
		}
		err = f.run(m, o)
		if err == nil || errors.As(err, new(*pregel.StalledError)) {
			break
		}
		switch {
		case f.recorded && (errors.Is(err, errCrash) || errors.As(err, new(*pregel.TasksError))):
			m = f.replay(w, j)
		case errors.As(err, new(*pregel.TasksError)):
			m = f.reload(w.prog, m, func(o pregel.Outcome) bool { return o == pregel.Done || o == pregel.Skipped })
		case errors.As(err, new(*pregel.StepLimitError)):
		default:
			f.Fatalf("random program %d: error %v", seed, err)
		}
	}
	what := fmt.Sprintf("random program %d: ", seed)
	f.check(what+"end", fmt.Sprint(err), end)
	f.check(what+"state", m.State(), state)
	if f.recorded {
		f.check(what+"commits", strings.Join(j.commits, "\n"), strings.Join(commits, "\n"))
	}
}

// journal is what of a run outlives a crash.
type journal struct {
	chance   *rand.Rand
	snapshot []byte
	since    []entry
	known    sync.Map // by path
	byStep   map[int][]string
	commits  []string
}

type entry struct {
	task   task
	result result
	commit bool
}

func newJournal(m *Machine, r *rand.Rand) *journal {
	j := &journal{chance: r, byStep: map[int][]string{}}
	j.snapshot, _ = json.Marshal(m.Snapshot()) // strings and numbers
	return j
}

func (j *journal) has(path string) bool {
	_, ok := j.known.Load(path)
	return ok
}

func (j *journal) note(m *Machine, t *task, r *result) {
	line := fmt.Sprint(m.Path(t), " ", t.Inbox, " ", r.Outcome, " ", r.Update, " ", r.Sends, " ", r.Vote)
	j.byStep[t.Step] = append(j.byStep[t.Step], line)
}

func (j *journal) close(m *Machine, step int) {
	slices.Sort(j.byStep[step])
	j.commits = append(j.commits, fmt.Sprint(step, ": ", strings.Join(j.byStep[step], "; "), " → ", m.State()))
}

// Record crashes now and then: before what it is given is on record, or after.
func (j *journal) Record(_ context.Context, m *Machine, batch []ended, commit bool) error {
	crash := j.chance.IntN(16)
	if crash == 0 {
		return errCrash
	}
	j.write(m, batch, commit)
	if crash == 1 {
		return errCrash
	}
	return nil
}

func (j *journal) write(m *Machine, batch []ended, commit bool) {
	for i := range batch {
		t, r := &batch[i].Task, &batch[i].Result
		if r.Outcome != pregel.Done && r.Outcome != pregel.Skipped {
			continue
		}
		j.known.Store(m.Path(t), true)
		j.since = append(j.since, entry{task: *t, result: *r})
		j.note(m, t, r)
	}
	if !commit {
		return
	}
	j.since = append(j.since, entry{commit: true})
	j.close(m, m.Step()-1)
	if j.chance.IntN(3) == 0 {
		j.snapshot, _ = json.Marshal(m.Snapshot())
		j.since = nil
	}
}

// replay makes the machine again from what is on record.
func (f *fixture) replay(w *wild, j *journal) *Machine {
	var s pregel.Snapshot[State, string, int]
	if err := json.Unmarshal(j.snapshot, &s); err != nil {
		f.Fatalf("%v", err)
	}
	m, err := pregel.Restore(w.prog, &s)
	if err != nil {
		f.Fatalf("%v", err)
	}
	for i := range j.since {
		e := &j.since[i]
		switch {
		case e.commit && !m.Complete():
			f.Fatalf("the commit of superstep %d is on record, and not all of its tasks are", m.Step())
		case e.commit:
			m.Commit()
		case e.task.Step > m.Step():
			err = m.RecoverEarly(e.task.Vertex, e.task.Key, e.task.Step, e.result)
		default:
			at := slices.IndexFunc(m.Tasks(), func(t task) bool { return t.Vertex == e.task.Vertex && t.Key == e.task.Key })
			if at < 0 {
				f.Fatalf("%s is on record in superstep %d, which does not compute it", m.Path(&e.task), m.Step())
			}
			err = m.Recover(at, e.result)
		}
		if err != nil {
			f.Fatalf("replay: %v", err)
		}
	}
	return m
}
