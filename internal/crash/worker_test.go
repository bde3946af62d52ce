//go:build unix

package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/crash"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// asWorker, set in the environment, makes a worker of the test program: it runs the workflow of
// package crash on a store until it is killed. On its standard output it says which runs it
// holds, which records are acknowledged, which it was shown, and how runs ended.
const asWorker = "SUPERSTEP_CRASH_WORKER"

func workerMain() {
	flags := flag.NewFlagSet("worker", flag.ExitOnError)
	var w worker
	flags.StringVar(&w.url, "store", "", "the `URL` of the store")
	flags.StringVar(&w.world.Dir, "world", "", "the `directory` that effects happen to")
	flags.DurationVar(&w.world.Slow, "slow", 0, "the most that an effect takes before and after it happens")
	flags.StringVar(&w.run, "run", "", "the `ID` of the only run; without it all there are, until they have ended and there is a file \"over\" in the world")
	flags.StringVar(&w.job, "job", "{}", "the inputs of a run that is started")
	flags.StringVar(&w.die, "die", "", "the `point:n` at which to end: the nth time that the failpoint is reached")
	flags.DurationVar(&w.lease, "lease", 0, "how long a hold lasts")
	flags.Int64Var(&w.segment, "segment", 0, "how many `bytes` a file of a log has, in a store of files")
	flags.BoolVar(&w.leave, "leave", false, "leave questions open")
	flags.BoolVar(&w.early, "early", false, "answer open questions before the run is resumed")
	flags.BoolVar(&w.quarantined, "quarantined", false, "resume the run even if it is quarantined")
	flags.BoolVar(&w.mail, "mail", false, "run the workflow that needs its mail; with -early it ends at -die only behind the gate")
	flags.BoolVar(&w.send, "send", false, "post a request to the run, and nothing else")
	flags.BoolVar(&w.pool, "pool", false, "take queued runs, see TestCrashPool")
	flags.StringVar(&w.fork, "fork", "", "make a fork of the `ID` half way through, and nothing else")
	_ = flags.Parse(os.Args[1:]) // which exits on an error
	if err := w.work(context.Background()); err != nil {
		w.say("error %v", strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}

type worker struct {
	url, run, job, die string
	lease              time.Duration
	segment            int64
	leave, early       bool
	quarantined, mail  bool
	send, pool         bool
	fork               string
	world              crash.Files

	store  crash.Store
	engine *superstep.Engine

	mu   sync.Mutex
	hits map[string]int // by failpoint
}

// say writes a line at once, so that it is the parent's whatever becomes of this process.
func (w *worker) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = fmt.Fprintf(os.Stdout, format+"\n", args...)
}

// reach counts a failpoint, and ends the process there if it is to.
func (w *worker) reach(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hits[name]++
	if w.mail && w.early {
		return
	}
	if fmt.Sprintf("%s:%d", name, w.hits[name]) != w.die {
		return
	}
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {}
}

func (w *worker) work(ctx context.Context) (err error) {
	w.hits = map[string]int{}
	w.store, err = crash.Open(ctx, w.url, &crash.StoreOptions{Lease: w.lease, Segment: w.segment, Failpoint: w.reach})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.store.Close()) }()
	if w.pool {
		return w.serve(ctx)
	}
	all, err := crash.Workflows(&w.world)
	if err != nil {
		return err
	}
	letters, err := mailWorkflow(w.gate)
	if err != nil {
		return err
	}
	w.engine, err = superstep.New(&crash.Observed{
		Store: w.store,
		Held:  func(info *runlog.Info) { w.say("held %s %d", info.ID, info.Epoch) },
		Acked: func(id string, recs []runlog.Record) {
			for i := range recs {
				w.record("acked", id, &recs[i])
			}
		},
	}, &superstep.Options{Workflows: append(all, letters), NewID: func() string { return w.run }, Failpoint: w.reach})
	if err != nil {
		return err
	}
	defer w.engine.Close()
	switch {
	case w.send:
		return unlisted.Post(ctx, w.store, w.run, &unlisted.Request{ID: "a", Kind: unlisted.KindPause, Time: time.Now()})
	case w.fork != "":
		return w.branch(ctx)
	case w.run == "":
		return w.race(ctx)
	}
	if err := w.one(ctx); err != nil {
		return err
	}
	for name, n := range w.hits {
		w.say("reached %s %d", name, n)
	}
	return nil
}

func (w *worker) record(what, id string, r *runlog.Record) {
	w.say("%s %s %d %d %s", what, id, r.Seq, r.Epoch, crash.Digest(r))
}

// one runs the one run, from its start or from where it is.
func (w *worker) one(ctx context.Context) error {
	for {
		run, err := w.take(ctx)
		if errors.As(err, new(*runlog.BusyError)) {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		return w.wait(ctx, run)
	}
}

func (w *worker) take(ctx context.Context) (*superstep.Run, error) {
	infos, err := w.store.Runs(ctx, &runlog.Filter{ID: w.run})
	if err != nil {
		return nil, err
	}
	observe := func(r runlog.Record, err error) {
		if err == nil && r.Seq > 0 {
			w.record("shown", w.run, &r)
		}
	}
	answer := crash.Answers(w.run, &w.world, false)
	if w.leave {
		answer = nil
	}
	if len(infos) > 0 && infos[0].Head == 0 { // it was cut off before it began
		if err := w.store.Delete(ctx, w.run); err != nil {
			return nil, err
		}
		infos = nil
	}
	if w.mail {
		answer = nil
	}
	if len(infos) == 0 && w.mail {
		return w.engine.Start(ctx, mailName, json.RawMessage("{}"), &superstep.StartOptions{Observe: observe, Budget: &runlog.Budget{Calls: 50}})
	}
	if len(infos) == 0 {
		var job crash.Job
		if err := json.Unmarshal([]byte(w.job), &job); err != nil {
			return nil, err
		}
		return w.engine.Start(ctx, job.Workflow(), json.RawMessage(w.job), &superstep.StartOptions{Answer: answer, Observe: observe})
	}
	if w.early && !w.quarantined && !w.mail {
		if err := w.answer(ctx); err != nil {
			return nil, err
		}
	}
	return w.engine.Resume(ctx, w.run, &superstep.ResumeOptions{Answer: answer, Observe: observe, Quarantined: w.quarantined})
}

// answer answers what is open of a run that nobody executes.
func (w *worker) answer(ctx context.Context) error {
	open, err := crash.Questions(ctx, w.store, w.run)
	if err != nil {
		return err
	}
	for _, q := range open {
		a, ok := crash.Answers(w.run, &w.world, false)(ctx, q)
		if !ok {
			continue
		}
		if err := w.engine.Answer(ctx, w.run, q.Path, a); err != nil && !errors.As(err, new(*journal.AnsweredError)) {
			return err
		}
	}
	return nil
}

func (w *worker) wait(ctx context.Context, run *superstep.Run) error {
	out, err := run.Wait(ctx)
	if err != nil {
		return err
	}
	w.ended(run.ID(), out)
	return nil
}

func (w *worker) ended(id string, out superstep.Outcome) {
	w.say("ended %s %s %s", id, out.Status, strconv.Quote(fmt.Sprint(out.Err)))
}

// branch makes a fork of a run.
func (w *worker) branch(ctx context.Context) error {
	infos, err := w.store.Runs(ctx, &runlog.Filter{ID: w.fork})
	if err != nil || len(infos) == 0 {
		return errors.Join(err, fmt.Errorf("there are %d runs %s", len(infos), w.fork))
	}
	_, err = w.engine.Fork(ctx, w.fork, infos[0].Head/2, nil)
	return err
}

// race takes up any run that nobody runs, until all have ended and it is said to be over.
func (w *worker) race(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() {
		defer stop()
		for !w.over(ctx) {
			time.Sleep(50 * time.Millisecond)
		}
	})
	return w.engine.Serve(ctx, &superstep.RecoverOptions{
		Runs:   2,
		Every:  10*time.Millisecond + rand.N(20*time.Millisecond),
		Answer: crash.Answers("", &w.world, true),
		Ended:  w.ended,
		Failed: func(id string, err error) {
			if !errors.Is(err, runlog.ErrFenced) && ctx.Err() == nil { // which is how a race goes
				w.say("error %s: %v", id, err)
			}
		},
	})
}

// over reports whether there is nothing left to do and nothing will come.
func (w *worker) over(ctx context.Context) bool {
	if _, err := os.Stat(filepath.Join(w.world.Dir, "over")); err != nil {
		return false
	}
	infos, err := w.store.Runs(ctx, &runlog.Filter{Status: []runlog.Status{runlog.Running, runlog.Interrupted}})
	return err == nil && len(infos) == 0
}
