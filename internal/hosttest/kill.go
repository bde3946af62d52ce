package hosttest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/runlog"
)

// points returns where a process dies: the failpoints of the journal, and in the store right before and after an append is durable.
func points() []string {
	return []string{"journal.before-append", "journal.after-append", "effect.before", "effect.after", storeBefore, storeAfter}
}

const storeBefore, storeAfter = "store.before", "store.after"

// A death is where the process dies.
type death struct {
	mu    sync.Mutex
	point string
	at    int // of the times it is reached
	hits  map[string]int
}

// reach is called at each failpoint.
func (w *world) reach(point string) {
	d := &w.death
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hits == nil {
		d.hits = map[string]int{}
	}
	if d.point == point && d.hits[point] == d.at {
		w.store.Die()
	}
	d.hits[point]++
}

// dies lets the first process die where it reaches a point for the nth time.
func (w *world) dies(point string, n int) {
	switch point {
	case storeBefore, storeAfter:
		w.store.DieAt(n, point == storeAfter)
	default:
		w.death.mu.Lock()
		defer w.death.mu.Unlock()
		w.death.point, w.death.at = point, n
	}
}

// A course is a run that comes to the same end wherever a process dies.
type course struct {
	name, workflow string
	in             input
	tokens         int64    // its budget, until it is raised
	told           *Message // at the gate
	output         string   // "" if it is cancelled
}

func courses() []course {
	return []course{
		{name: "a fan-out", workflow: "job", in: input{Items: 6}, output: `"begin item/0 item/1 item/2 item/3 item/4 item/5 end"`},
		{name: "a question", workflow: "job", in: input{Items: 3, Ask: []string{"q"}}, output: `"begin item/0 item/1 item/2 q end"`},
		{name: "questions", workflow: "job", in: input{Ask: []string{"a", "b", "c"}}, output: `"begin a b c end"`},
		{name: "a budget", workflow: "job", in: input{Items: 3}, tokens: 15, output: `"begin item/0 item/1 item/2 end"`},
		{name: "a pause", workflow: "job", in: input{Gate: true}, told: &Message{Pause: true}, output: `"begin gate end"`},
		{name: "steering", workflow: "job", in: input{Talk: true}, told: &Message{Steer: "now"}, output: `"begin now end"`},
		{name: "a cancellation", workflow: "job", in: input{Items: 2, Gate: true}, told: &Message{Cancel: true}},
		{name: "child runs", workflow: "family", in: input{Items: 2}, output: `"begin item/0 end, begin item/0 item/1 end"`},
		{name: "a child run that asks", workflow: "family", in: input{Items: 1, Ask: []string{"q"}}, output: `"begin item/0 q end"`},
		{name: "child runs of child runs", workflow: "grand", in: input{Items: 1}, output: `"begin item/0 end"`},
		{name: "a cancellation of child runs", workflow: "family", in: input{Items: 2, Gate: true}, told: &Message{Cancel: true}},
	}
}

// killed takes all courses and kills the process at most n times, or with 0 at every point.
func killed(t *testing.T, n int, open func(t *testing.T) Host) {
	type one struct {
		course
		point    string
		at, hits int
	}
	var all []one
	for _, c := range courses() {
		whole := begin(t, InProcess())
		whole.take(&c)
		whole.death.mu.Lock() // child runs may not have ended
		reached := maps.Clone(whole.death.hits)
		whole.death.mu.Unlock()
		for _, point := range points() {
			hits := reached[point]
			if strings.HasPrefix(point, "store.") {
				hits = reached["journal.before-append"]
			}
			for at := range hits {
				all = append(all, one{c, point, at, hits})
			}
		}
	}
	if n == 0 || n > len(all) {
		n = len(all)
	}
	for i := range n {
		k := all[(2*i+1)*len(all)/(2*n)]
		t.Run(fmt.Sprintf("%s, %s %d", k.name, k.point, k.at), func(t *testing.T) {
			t.Parallel()
			w := begin(t, open(t))
			w.dies(k.point, k.at)
			w.take(&k.course)
			if w.lives == 1 && k.at < k.hits/2 {
				t.Error("no process died")
			}
		})
	}
}

// take starts a run, does what it waits for, puts a process in the place of one that has died, and checks how the run ends.
func (w *world) take(c *course) {
	if c.tokens > 0 {
		w.budget = &runlog.Budget{Tokens: c.tokens}
	}
	w.start("r", c.workflow, c.in)
	var told <-chan error // the outcome of telling it, while that is under way
	heard, times := c.told == nil, 0
	for end := time.Now().Add(time.Minute); ; w.pause() {
		i, ok := w.look("r")
		switch {
		case w.store.Dead():
			w.live(1)
			w.start("r", c.workflow, c.in) // it may have begun or not
		case ok && i.Status.Ended() && i.Owner == "":
			w.verify(c, &i, times)
			return
		case time.Now().After(end):
			for _, i := range w.family() {
				w.t.Logf("run %s below %q is %s, held by %q, %s", i.ID, i.Parent, i.Status, i.Owner, i.Summary)
			}
			w.t.Fatalf("run r has not ended, in life %d", w.lives)
		}
		w.react(c)
		select {
		case err := <-told:
			told, heard = nil, heard || err == nil
		default:
		}
		if told == nil && !heard && len(w.enter) > 0 {
			told = w.telling("r", c.told)
			times++
		}
		if (c.told == nil || !c.told.Cancel) && len(w.enter) > 0 && (heard || w.hasMail("r")) {
			select {
			case w.leave <- struct{}{}:
			default:
			}
		}
	}
}

// react does what a user does about the runs.
func (w *world) react(c *course) {
	_, alone := w.host.(*inProcess)
	for _, i := range w.family() {
		s := summary.Of(&i)
		switch {
		case i.Owner != "" || s == nil:
		case i.Status == runlog.Interrupted && alone && i.ID == "r":
			_ = w.try(i.ID, &Message{Resume: true})
		case i.Status != runlog.Paused:
		case len(s.Questions) > 0 && slices.Contains(c.in.Ask, s.Questions[0].Key):
			q := s.Questions[0]
			_ = w.try(i.ID, &Message{Path: q.Path, Answer: answer(q.Key, q.Key)}) // else again
		case s.Waits == summary.Budget:
			_ = w.try(i.ID, &Message{Budget: &runlog.Budget{Tokens: 1000}})
		case s.Waits == summary.Operator:
			_ = w.try(i.ID, &Message{Resume: true})
		}
	}
}

// verify checks the end of a run, and that nothing happened twice in it and its child runs.
func (w *world) verify(c *course, i *runlog.Info, told int) {
	want := runlog.Completed
	if c.output == "" {
		want = runlog.Cancelled
	}
	got := w.output("r")
	if told > 1 { // the user repeats what a process heard that died before it said so
		got = strings.ReplaceAll(got, "now now", "now")
	}
	if i.Status != want || got != c.output {
		w.t.Errorf("it is %s, %s; want %s, %s", i.Status, got, want, c.output)
	}
	for end := time.Now().Add(time.Minute); slices.ContainsFunc(w.family(), func(i runlog.Info) bool { return !i.Status.Ended() }); w.pause() {
		if w.store.Dead() {
			w.live(1)
			w.start("r", c.workflow, c.in)
		}
		if _, alone := w.host.(*inProcess); alone { // without a worker they stay interrupted, and are cancelled when somebody resumes them
			for _, i := range w.family() {
				_ = w.try(i.ID, &Message{Resume: true})
			}
		}
		if time.Now().After(end) {
			w.t.Errorf("a child run outlives its parent: %+v", w.family())
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := map[string]int{}
	for did := range w.did {
		keys[did[:strings.LastIndexByte(did, ' ')]]++
	}
	for effect, n := range keys {
		if n > 1 {
			w.t.Errorf("effect %s happened under %d keys: %v", effect, n, w.did)
		}
	}
}

// hasMail reports whether the mailbox of a run has a request.
func (w *world) hasMail(id string) bool {
	infos, err := w.store.Runs(context.WithoutCancel(w.t.Context()), &runlog.Filter{Status: []runlog.Status{runlog.Importing}})
	return err == nil && slices.ContainsFunc(infos, func(i runlog.Info) bool { return i.Parent == id && i.Head > 0 })
}
