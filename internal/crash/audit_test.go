//go:build unix

package crash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/internal/crash"
	"github.com/superstep-dev/superstep/runlog"
)

// A witness remembers what was acknowledged of a run, what was found of it and what had
// happened to the world by then, and says what has become of that.
type witness struct {
	id    string
	job   crash.Job
	world *crash.Files
	doubt bool // an effect that may happen once need not have happened, see crash.Answers

	acked map[uint64]string // by sequence number: epoch and digest
	log   []string          // the digests of the records that were found last
	did   map[string]int    // how often settled effects had happened when they were found so
	ran   map[string]int    // how often the tasks that are done had begun when they were found so
}

func newWitness(id string, job crash.Job, world *crash.Files) *witness {
	return &witness{id: id, job: job, world: world, acked: map[uint64]string{}, did: map[string]int{}, ran: map[string]int{}}
}

// hear takes note of what a worker has said.
func (w *witness) hear(l line) error {
	if l.what != "acked" && l.what != "shown" || l.args[0] != w.id {
		return nil
	}
	seq, is := atoi(l.args[1]), l.args[2]+" "+l.args[3]
	if was, known := w.acked[seq]; known && was != is {
		return fmt.Errorf("record %d was acknowledged as %s, and then %s as %s", seq, was, l.what, is)
	}
	w.acked[seq] = is
	return nil
}

// ack takes note of a record that was acknowledged in this process.
func (w *witness) ack(r *runlog.Record) {
	w.acked[r.Seq] = fmt.Sprintf("%d %s", r.Epoch, crash.Digest(r))
}

// look reads the log with its chain, and compares it with what is known of the run.
func (w *witness) look(store runlog.Store) ([]runlog.Record, error) {
	var recs []runlog.Record
	for r, err := range runlog.Records(context.Background(), store, w.id, 0) {
		if err != nil {
			return nil, err
		}
		recs = append(recs, r)
	}
	for seq, is := range w.acked {
		if seq > uint64(len(recs)) {
			return recs, fmt.Errorf("LOST: record %d was acknowledged, and the log ends at %d", seq, len(recs))
		}
		r := &recs[seq-1]
		if got := fmt.Sprintf("%d %s", r.Epoch, crash.Digest(r)); got != is {
			return recs, fmt.Errorf("CHANGED: record %d was acknowledged as %s, and is %s", seq, is, got)
		}
	}
	if len(recs) < len(w.log) {
		return recs, fmt.Errorf("LOST: the log had %d records and has %d", len(w.log), len(recs))
	}
	for i := range w.log {
		if got := crash.Digest(&recs[i]); got != w.log[i] {
			return recs, fmt.Errorf("CHANGED: record %d has become %s %s", i+1, recs[i].Kind, recs[i].Data)
		}
	}
	for i := len(w.log); i < len(recs); i++ {
		w.log = append(w.log, crash.Digest(&recs[i]))
	}
	f, err := read(recs)
	if err != nil {
		return recs, err
	}
	return recs, w.compare(f)
}

// compare holds the world against the log.
func (w *witness) compare(f *facts) error {
	h, err := w.world.History(w.id)
	if err != nil {
		return err
	}
	for what, n := range w.did {
		if h.Did[what] != n {
			return fmt.Errorf("REPEATED: %s was settled after %d times and has now happened %d times", what, n, h.Did[what])
		}
	}
	for path, n := range w.ran {
		if h.Ran[path] != n {
			return fmt.Errorf("REPEATED: %s was done after it had begun %d times, and has now begun %d times", path, n, h.Ran[path])
		}
	}
	for what := range f.settled {
		w.did[what] = h.Did[what]
	}
	for path := range f.done {
		w.ran[path] = h.Ran[path]
	}
	for what, n := range h.Did {
		if h.Once[what] && n > 1 {
			return fmt.Errorf("TWICE: %s may happen once and has happened %d times", what, n)
		}
		if len(h.Keys[what]) != 1 {
			return fmt.Errorf("%s came with %d keys", what, len(h.Keys[what]))
		}
		if !f.intended[what] && !f.settled[what] && !strings.HasSuffix(what, "-seen") && !strings.HasSuffix(what, " read") && !strings.HasSuffix(what, " look") {
			return fmt.Errorf("UNANNOUNCED: %s has happened, and the log has no intent of it", what)
		}
	}
	for path := range h.Ran {
		if err := w.early(path, f); err != nil {
			return err
		}
	}
	return nil
}

// early reports a task that has begun before what it follows from was committed.
func (w *witness) early(path string, f *facts) error {
	name, rest, _ := strings.Cut(path, "/")
	space, node := "", name
	if rest != "" {
		space, node = name, rest
	}
	node, visit, _ := strings.Cut(node, "#")
	node, _, _ = strings.Cut(node, "[")
	if node == "ahead" {
		if !f.done["fast"] {
			return fmt.Errorf("EARLY: %s has begun, and what it reads is not there", path)
		}
		return nil
	}
	steps := map[string]int{
		"plan": 0, "fast": 1, "work": 1, "gather": 2, "round": 3, "inner": 3 + w.job.Rounds, "approve": 4 + w.job.Rounds, "finish": 5 + w.job.Rounds,
		"part": 0, "met": 1, "turn": 2, "check": 4,
	}
	step, known := steps[node]
	if !known {
		return fmt.Errorf("%s is no task of the workflow", path)
	}
	step += int(atoi(visit))
	if space != "" {
		if err := w.early(space, f); err != nil {
			return err
		}
	}
	if f.steps[space] < step {
		return fmt.Errorf("EARLY: %s has begun, and only %d steps before it are committed", path, f.steps[space])
	}
	return nil
}

// facts are what a log says.
type facts struct {
	settled, intended map[string]bool // by "path effect"
	done              map[string]bool // by path
	steps             map[string]int  // committed, by graph
	finished          *runlog.RunFinished
}

// read reads a log and reports what may not be in it twice.
func read(recs []runlog.Record) (*facts, error) {
	f := &facts{settled: map[string]bool{}, intended: map[string]bool{}, done: map[string]bool{}, steps: map[string]int{}}
	answered := map[string]bool{}
	first := func(in map[string]bool, what string) error {
		if in[what] {
			return fmt.Errorf("DOUBLE: the log has %s twice", what)
		}
		in[what] = true
		return nil
	}
	var epoch uint64
	for i := range recs {
		r := &recs[i]
		if r.Seq != uint64(i+1) || r.Epoch < epoch {
			return f, fmt.Errorf("record %d has number %d and epoch %d after %d", i+1, r.Seq, r.Epoch, epoch)
		}
		epoch = r.Epoch
		if f.finished != nil {
			return f, fmt.Errorf("record %d (%s) is behind the end", r.Seq, r.Kind)
		}
		var d struct {
			Key   string `json:"key"`
			Error string `json:"error"`
			Step  int    `json:"step"`
		}
		if len(r.Data) > 0 {
			if err := json.Unmarshal(r.Data, &d); err != nil {
				return f, err
			}
		}
		var err error
		switch r.Kind {
		case runlog.KindTaskDone:
			err = first(f.done, r.Path)
		case runlog.KindIntended:
			f.intended[r.Path+" "+d.Key] = true
		case runlog.KindSettled:
			if d.Error == "" {
				err = first(f.settled, r.Path+" "+d.Key)
			}
		case runlog.KindAnswered:
			err = first(answered, "the answer to "+r.Path+" "+d.Key)
		case runlog.KindStepCommitted:
			if d.Step != f.steps[r.Path] {
				err = fmt.Errorf("DOUBLE: step %d of %q is committed where step %d is due", d.Step, r.Path, f.steps[r.Path])
			}
			f.steps[r.Path]++
		case runlog.KindRunFinished:
			f.finished = &runlog.RunFinished{}
			err = json.Unmarshal(r.Data, f.finished)
		}
		if err != nil {
			return f, fmt.Errorf("record %d: %w", r.Seq, err)
		}
	}
	return f, nil
}

// end looks at a run that has ended, and compares its output with what it must be.
func (w *witness) end(store runlog.Store, want string) ([]runlog.Record, error) {
	recs, err := w.look(store)
	if err != nil {
		return recs, err
	}
	f, err := read(recs)
	if err != nil {
		return recs, err
	}
	if f.finished == nil {
		infos, _ := store.Runs(context.Background(), &runlog.Filter{ID: w.id})
		return recs, fmt.Errorf("the log does not say that the run has ended: %+v\n%s", infos, outline(recs))
	}
	if got := string(f.finished.Output); got != want {
		return recs, fmt.Errorf("it ended with\n%s\nwant\n%s", got, want)
	}
	h, err := w.world.History(w.id)
	if err != nil {
		return recs, err
	}
	for what, n := range h.Did {
		if h.Once[what] && n != 1 && (n > 1 || !w.doubt) {
			return recs, fmt.Errorf("TWICE: %s has happened %d times", what, n)
		}
	}
	return recs, nil
}
