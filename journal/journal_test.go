package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

func openJournal(t *testing.T, store runlog.Store, opt *journal.Options) *journal.Journal {
	t.Helper()
	if opt == nil {
		opt = &journal.Options{Create: &runlog.NewRun{Workflow: "test"}}
	}
	j, err := journal.Open(t.Context(), store, "run", opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close(context.Background()) })
	return j
}

func write(t *testing.T, j *journal.Journal, name string) {
	t.Helper()
	if err := j.Scope("task").Emit(t.Context(), name, name); err != nil {
		t.Fatal(err)
	}
}

func eventName(t *testing.T, r runlog.Record) string {
	t.Helper()
	var e runlog.Event
	if err := json.Unmarshal(r.Data, &e); err != nil {
		t.Fatal(err)
	}
	return e.Name
}

// A follower sees every stored record once and in order, and the live-only ones at their place.
func TestFollowSeesTheLogAndWhatIsLive(t *testing.T) {
	j := openJournal(t, runlog.NewMemory(nil), nil)
	write(t, j, "stored-0")
	attached := make(chan struct{})
	var got []string
	var wg sync.WaitGroup
	wg.Go(func() {
		for r, err := range j.Follow(context.Background(), 0) {
			if err != nil {
				t.Error(err)
				return
			}
			got = append(got, fmt.Sprintf("%s:%d", eventName(t, r), r.Seq))
			if len(got) == 1 {
				close(attached)
			}
		}
	})
	<-attached
	j.Scope("task").Live("live-1", nil)
	write(t, j, "stored-1")
	j.Scope("task").Live("live-2", nil)
	_ = j.Close(t.Context())
	wg.Wait()
	if want := []string{"stored-0:1", "live-1:0", "stored-1:2", "live-2:0"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A follower that lags far behind holds nobody up and loses no stored record.
func TestSlowFollowerLosesNoStoredRecord(t *testing.T) {
	j := openJournal(t, runlog.NewMemory(nil), nil)
	write(t, j, "first")
	attached, goOn := make(chan struct{}), make(chan struct{})
	var seqs []uint64
	var wg sync.WaitGroup
	wg.Go(func() {
		for r, err := range j.Follow(context.Background(), 0) {
			if err != nil {
				t.Error(err)
				return
			}
			if r.Seq == 1 {
				close(attached)
				<-goOn
			}
			if r.Seq != 0 {
				seqs = append(seqs, r.Seq)
			}
		}
	})
	<-attached
	const n = 2000
	for i := range n {
		write(t, j, "stored")
		for range 5 { // more than the ring holds, all in all
			j.Scope("task").Live("live", i)
		}
	}
	close(goOn)
	_ = j.Close(t.Context())
	wg.Wait()
	if len(seqs) != n+1 {
		t.Fatalf("%d records of %d", len(seqs), n+1)
	}
	for i, s := range seqs {
		if s != uint64(i+1) {
			t.Fatalf("record %d is number %d", i+1, s)
		}
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	j := openJournal(t, runlog.NewMemory(nil), nil)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var last error
	for _, err := range j.Follow(ctx, 0) {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("got %v", last)
	}
}

// Another process follows a run through the store, to its end.
func TestFollowThroughTheStore(t *testing.T) {
	store := runlog.NewMemory(nil)
	j := openJournal(t, store, nil)
	write(t, j, "0")
	var got []string
	var wg sync.WaitGroup
	wg.Go(func() {
		for r, err := range runlog.Follow(context.Background(), store, "run", 0) {
			if err != nil {
				t.Error(err)
				return
			}
			if r.Kind == runlog.KindEvent {
				got = append(got, eventName(t, r))
			}
		}
	})
	for i := range 5 {
		write(t, j, fmt.Sprint(i+1))
		time.Sleep(time.Millisecond)
	}
	if err := j.Write(t.Context(), runlog.Completed, runlog.KindRunFinished, "", runlog.RunFinished{}); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if strings.Join(got, "") != "012345" {
		t.Errorf("got %v", got)
	}
}

// An effect whose outcome is recorded is not done again, in this process or the next.
func TestEffectsHappenOnce(t *testing.T) {
	store := runlog.NewMemory(nil)
	for _, repeat := range []journal.Repeat{journal.RepeatFreely, journal.RepeatByKey, journal.RepeatNever} {
		var opt *journal.Options
		if repeat != journal.RepeatFreely {
			opt = &journal.Options{}
		}
		j := openJournal(t, store, opt)
		n, keys := 0, map[string]bool{}
		do := func(j *journal.Journal, hash string, fail bool) (int, error) {
			return journal.Do(t.Context(), j.Scope("task"), &journal.Effect{Key: fmt.Sprint("k", repeat), Kind: "test", Repeat: repeat, Hash: hash}, func(_ context.Context, key string) (int, error) {
				n++
				keys[key] = true
				if fail {
					return 0, errors.New("no luck")
				}
				return n, nil
			})
		}
		if _, err := do(j, "h", true); err == nil || err.Error() != "no luck" {
			t.Fatalf("got %v", err)
		}
		for range 2 { // a failure is tried again, a success is not
			if got, err := do(j, "h", false); got != 2 || err != nil {
				t.Fatalf("got %d, %v", got, err)
			}
		}
		_ = j.Close(t.Context())
		j = openJournal(t, store, &journal.Options{})
		if got, err := do(j, "h", false); got != 2 || err != nil || n != 2 || len(keys) != 1 {
			t.Fatalf("got %d, %v after %d times with keys %v", got, err, n, keys)
		}
		var diverged *journal.DivergedError
		if _, err := do(j, "other", false); !errors.As(err, &diverged) {
			t.Fatalf("got %v", err)
		}
		_ = j.Close(t.Context())
	}
}

func TestNoLogMeansNoMemory(t *testing.T) {
	var s *journal.Scope
	n := 0
	for range 2 {
		if _, err := journal.Do(t.Context(), s, &journal.Effect{Key: "k"}, func(context.Context, string) (int, error) { n++; return n, nil }); err != nil {
			t.Fatal(err)
		}
	}
	s.Live("x", nil)
	if err := s.Emit(t.Context(), "x", nil); err != nil || n != 2 || s.Attempts() != 0 || s.Path() != "" || s.Run() != "" {
		t.Errorf("n %d, %v", n, err)
	}
	if _, err := s.Ask(t.Context(), &runlog.Question{}); !errors.Is(err, journal.ErrNoLog) {
		t.Errorf("got %v", err)
	}
}

func TestHoldEndsOnRequest(t *testing.T) {
	store := runlog.NewMemory(nil)
	j := openJournal(t, store, &journal.Options{Create: &runlog.NewRun{}, Renew: time.Millisecond})
	ctx, stop := j.Hold(t.Context())
	defer stop()
	if err := store.RequestCancel(t.Context(), "run"); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), journal.ErrCancelRequested) {
		t.Errorf("got %v", context.Cause(ctx))
	}
}

func TestHoldEndsWhenFenced(t *testing.T) {
	now := time.Unix(1, 0)
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	store := runlog.NewMemory(&runlog.MemoryOptions{Now: clock})
	j := openJournal(t, store, &journal.Options{Create: &runlog.NewRun{}, Renew: time.Millisecond})
	ctx, stop := j.Hold(t.Context())
	defer stop()
	for taken := false; !taken; { // the holder may renew in between: then time flies again
		mu.Lock()
		now = now.Add(time.Hour)
		mu.Unlock()
		_, _, err := store.Acquire(t.Context(), "run", nil)
		taken = err == nil
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, runlog.ErrFenced) {
		t.Errorf("got %v", err)
	}
	if err := j.Write(t.Context(), "", runlog.KindEvent, "", nil); !errors.Is(err, runlog.ErrFenced) {
		t.Errorf("a stale writer wrote: %v", err)
	}
}

type nullLog struct{ seq uint64 }

func (l *nullLog) Append(_ context.Context, b *runlog.Batch) error {
	for i := range b.Records {
		l.seq++
		b.Records[i].Seq = l.seq
	}
	return nil
}
func (*nullLog) Renew(context.Context) (bool, error) { return false, nil }
func (*nullLog) Release(context.Context) error       { return nil }

type nullStore struct{ runlog.Store }

func (nullStore) Acquire(context.Context, string, *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	return &nullLog{}, runlog.Info{}, nil
}
func (nullStore) Read(context.Context, string, uint64, int) ([]runlog.Record, error) { return nil, nil }

// A journal that nobody follows keeps no records, and none of what tasks of committed supersteps did.
func TestJournalForgetsWhatIsOver(t *testing.T) {
	j := openJournal(t, nullStore{}, &journal.Options{})
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range 100 {
		path := fmt.Sprint("task", i)
		big := strings.Repeat("x", 1<<20)
		output, _ := json.Marshal(big)
		if err := j.Write(t.Context(), "", runlog.KindSettled, path, runlog.Settled{Key: "k", Output: output}); err != nil {
			t.Fatal(err)
		}
		done, err := j.New(runlog.KindTaskDone, path, runlog.TaskDone{Node: path})
		if err != nil {
			t.Fatal(err)
		}
		commit, err := j.New(runlog.KindStepCommitted, "", runlog.StepCommitted{Step: i})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Append(t.Context(), "", done, commit); err != nil {
			t.Fatal(err)
		}
	}
	if now := heap(); now > before+20<<20 {
		t.Errorf("the heap went from %d to %d MB", before>>20, now>>20)
	}
	runtime.KeepAlive(j)
}

// What a scope of no task has done is found past a snapshot; what a task of a committed superstep did is not carried.
func TestSnapshotCarriesWhatIsNotOver(t *testing.T) {
	store := runlog.NewMemory(nil)
	j := openJournal(t, store, nil)
	n := 0
	do := func(j *journal.Journal, path string) {
		t.Helper()
		_, err := journal.Do(t.Context(), j.Scope(path), &journal.Effect{Key: "pay", Repeat: journal.RepeatNever}, func(context.Context, string) (int, error) { n++; return n, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	do(j, "setup")
	do(j, "task")
	if _, err := j.Scope("setup").Ask(t.Context(), &runlog.Question{Key: "q", Text: "?"}); err == nil {
		t.Fatal("nobody has answered")
	}
	carried := j.Carry("task")
	if len(carried.Scopes) != 1 || carried.Scopes[0].Path != "setup" {
		t.Fatalf("carried %+v", carried)
	}
	snapshot, _ := j.New(runlog.KindSnapshot, "", struct{}{})
	after, _ := j.New(carry.Kind, "", carried)
	if err := j.Append(t.Context(), "", snapshot, after); err != nil {
		t.Fatal(err)
	}
	_ = j.Close(t.Context())
	j = openJournal(t, store, &journal.Options{})
	do(j, "setup")
	if open := j.Open(); n != 2 || len(open) != 1 || open[0].Path != "setup" {
		t.Errorf("it happened %d times; open questions %+v", n, open)
	}
}

// Two answers at the same time: one counts.
func TestOneAnswerCounts(t *testing.T) {
	j := openJournal(t, runlog.NewMemory(nil), nil)
	_, _ = j.Scope("task").Ask(t.Context(), &runlog.Question{Key: "q", Text: "?"})
	var wg sync.WaitGroup
	var accepted atomic.Int32
	for i := range 8 {
		wg.Go(func() {
			if err := j.Answer(t.Context(), "task", &runlog.Answer{Key: "q", Value: json.RawMessage(fmt.Sprint(i))}); err == nil {
				accepted.Add(1)
			}
		})
	}
	wg.Wait()
	if accepted.Load() != 1 {
		t.Errorf("%d answers were accepted", accepted.Load())
	}
}

// Appends of one run that wait for each other share a commit, and each gets its own place.
func TestAppendsShareACommit(t *testing.T) {
	store := &slowStore{Memory: runlog.NewMemory(nil)}
	j := openJournal(t, store, nil)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			if err := j.Scope("task").Emit(t.Context(), fmt.Sprint(i), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	records := 0
	for r, err := range j.Since(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if records++; r.Seq != uint64(records) {
			t.Fatalf("record %d is number %d", records, r.Seq)
		}
	}
	if n := store.appends.Load(); records != 64 || n > 32 {
		t.Errorf("%d records in %d appends", records, n)
	}
}

// slowStore takes its time for an append, and counts them.
type slowStore struct {
	*runlog.Memory
	appends atomic.Int32
}

func (s *slowStore) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	l, info, err := s.Memory.Acquire(ctx, id, opt)
	return &slowLog{l, s}, info, err
}

type slowLog struct {
	runlog.Log
	store *slowStore
}

func (l *slowLog) Append(ctx context.Context, b *runlog.Batch) error {
	l.store.appends.Add(1)
	time.Sleep(5 * time.Millisecond)
	return l.Log.Append(ctx, b)
}

func TestReopen(t *testing.T) {
	store := runlog.NewMemory(nil)
	for i := range 2 {
		j := openJournal(t, store, &journal.Options{Create: &runlog.NewRun{}, Reopen: true})
		if j.Info().Epoch != uint64(i+1) {
			t.Errorf("epoch %d at opening %d", j.Info().Epoch, i+1)
		}
		_ = j.Close(t.Context())
	}
	_, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{}})
	if !errors.Is(err, runlog.ErrExists) || !strings.Contains(err.Error(), "set Reopen") {
		t.Errorf("got %v", err)
	}
}

// A record that cannot be stored is its writer's trouble and nobody else's.
func TestABadRecordHarmsNobody(t *testing.T) {
	j := openJournal(t, &slowStore{Memory: runlog.NewMemory(nil)}, nil)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			path := "task"
			if i%4 == 0 {
				path = strings.Repeat("x", runlog.MaxPath+1)
			}
			if err := j.Scope(path).Emit(t.Context(), fmt.Sprint(i), nil); (err != nil) != (i%4 == 0) {
				t.Errorf("append %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

// A caller whose context ends while it waits must not take the others of its group down with it.
func TestACancelledAppendHarmsNobody(t *testing.T) {
	store := &slowStore{Memory: runlog.NewMemory(nil)}
	j := openJournal(t, store, nil)
	var wg sync.WaitGroup
	for i := range 40 {
		ctx, stop := t.Context(), context.CancelFunc(func() {})
		if i%2 == 0 {
			ctx, stop = context.WithTimeout(ctx, time.Duration(1+i%7)*time.Millisecond)
		}
		wg.Go(func() {
			defer stop()
			if err := j.Scope("task").Emit(ctx, fmt.Sprint(i), nil); err != nil && i%2 == 1 {
				t.Errorf("append %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

// A program that runs a graph by itself says when it is over.
func TestFinish(t *testing.T) {
	store := runlog.NewMemory(nil)
	for n := range 2 {
		j, err := journal.Open(t.Context(), store, "r", &journal.Options{Create: &runlog.NewRun{}, Reopen: true})
		if err == nil {
			err = errors.Join(j.Finish(t.Context(), map[string]int{"n": n}), j.Close(t.Context()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	infos, err := store.Runs(t.Context(), nil)
	if err != nil || infos[0].Status != runlog.Completed || infos[0].Head != 1 {
		t.Fatalf("the run is %+v, %v", infos, err)
	}
	recs, err := store.Read(t.Context(), "r", 1, 1)
	if err != nil || string(recs[0].Data) != `{"output":{"n":0},"steps":0}` {
		t.Fatalf("it ends with %s, %v", recs[0].Data, err)
	}
}

// Who is told of an answer finds it behind Head, by which they know whether to look.
func TestToldBehindHead(t *testing.T) {
	j, err := journal.Open(t.Context(), runlog.NewMemory(nil), "r", &journal.Options{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	told, stop := j.Listen()
	defer stop()
	for i := range 2000 {
		path := fmt.Sprint("a", i)
		_, _ = j.Scope(path).Ask(t.Context(), &runlog.Question{Key: "k", Text: "?"})
		before := j.Head()
		seen := make(chan uint64)
		go func() { <-told; seen <- j.Head() }()
		if err := j.Answer(t.Context(), path, &runlog.Answer{Key: "k", Value: []byte("1")}); err != nil {
			t.Fatal(err)
		}
		if head := <-seen; head != before+1 {
			t.Fatalf("answer %d: told at record %d, want %d", i, head, before+1)
		}
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A graph that is still being run when its task has a result leaves nothing in later snapshots.
func TestAGraphThatOutlivesItsTask(t *testing.T) {
	j := openJournal(t, runlog.NewMemory(nil), nil)
	if _, err := j.Begin("task"); err != nil {
		t.Fatal(err)
	}
	add := func(kind runlog.Kind, path string, data any) {
		t.Helper()
		if err := j.Write(t.Context(), "", kind, path, data); err != nil {
			t.Fatal(err)
		}
	}
	add(runlog.KindInner, "task", struct{}{})
	if c := j.Carry(); c == nil || len(c.Inner) != 1 {
		t.Fatalf("while it runs, carried is %+v", c)
	}
	add(runlog.KindTaskDone, "task", runlog.TaskDone{Node: "task"})
	add(runlog.KindStepCommitted, "", runlog.StepCommitted{})
	add(runlog.KindTaskDone, "task/late", runlog.TaskDone{Node: "late"})
	if c := j.Carry(); c != nil {
		t.Errorf("after its task's result, carried is %+v", c)
	}
	j.End("task", false)
	if recs, err := j.Begin("task"); err != nil || len(recs) > 0 {
		t.Errorf("begun again it has %v, %v", recs, err)
	}
}

// A request to cancel a part of a run is seen by its holder and by a later one, and goes with the run's end.
func TestRequestsReachTheirPart(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	hold := func() (j *journal.Journal, end func()) {
		j, err := journal.Open(t.Context(), store, "r", &journal.Options{Create: &runlog.NewRun{Workflow: "w"}, Reopen: true, Renew: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		_, stop := j.Hold(t.Context())
		return j, func() {
			stop()
			if err := j.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	await := func(j *journal.Journal, part string) {
		t.Helper()
		asked := make(chan struct{}, 1)
		defer j.Scope("work").Inner(part).Cancellable(func() {
			select {
			case asked <- struct{}{}:
			default:
			}
		})()
		select {
		case <-asked:
		case <-time.After(time.Minute):
			t.Fatalf("the holder does not see the request for %s", part)
		}
	}
	j, end := hold()
	for _, part := range []string{"a", "b"} {
		if err := unlisted.Post(t.Context(), store, "r", &unlisted.Request{Kind: unlisted.KindCancel, Path: "work/" + part, Time: time.Now()}); err != nil {
			t.Fatal(err)
		}
		await(j, part)
	}
	end()
	j, end = hold()
	await(j, "b")
	if err := j.Finish(t.Context(), nil); err != nil {
		t.Error(err)
	}
	end()
	if _, err := store.Read(t.Context(), unlisted.RequestsID("r"), 1, 1); !errors.As(err, new(*runlog.NotFoundError)) {
		t.Error(err)
	}
}

// A reply that a holder did not get to, or that it carried out before it crashed, is carried out once by a later one.
func TestReplyReachesALaterHolder(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	ask := func() (answer json.RawMessage, err error) {
		j, err := journal.Open(t.Context(), store, "r", &journal.Options{Create: &runlog.NewRun{Workflow: "w"}, Reopen: true, Renew: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		answered, deaf := j.Listen()
		defer deaf()
		_, stop := j.Hold(t.Context())
		defer func() {
			stop()
			if err := j.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		for {
			answer, err = j.Scope("work").Ask(t.Context(), &runlog.Question{Key: "q", Text: "Which?"})
			if !journal.Waits(err) {
				return answer, err
			}
			select {
			case <-answered:
			case <-time.After(200 * time.Millisecond): // there is no reply
				return nil, err
			}
		}
	}
	if _, err := ask(); !journal.Waits(err) {
		t.Fatal(err)
	}
	for _, value := range []string{`"a"`, `"b"`} {
		from, err := journal.Post(t.Context(), store, "r", "work", &runlog.Answer{Key: "q", Value: json.RawMessage(value), Request: strings.Trim(value, `"`)}, time.Now())
		if err != nil || from != 2 {
			t.Fatal(from, err)
		}
	}
	for range 2 {
		if got, err := ask(); err != nil || string(got) != `"a"` {
			t.Fatalf("got %s, %v", got, err)
		}
	}
	if from, err := journal.Post(t.Context(), store, "r", "work", &runlog.Answer{Key: "q", Value: json.RawMessage(`"a"`), Request: "a"}, time.Now()); err != nil || from != 0 {
		t.Errorf("the same once more: %d, %v", from, err)
	}
	if _, err := journal.Post(t.Context(), store, "r", "work", &runlog.Answer{Key: "q", Value: json.RawMessage(`"c"`)}, time.Now()); !errors.As(err, new(*journal.AnsweredError)) {
		t.Errorf("another one: %v", err)
	}
}

// Closing a run that has ended does not race with somebody who looks for its requests.
func TestCloseWhileLooking(t *testing.T) {
	for range 100 {
		store := runlog.NewMemory(nil)
		j := openJournal(t, store, nil)
		if err := j.Finish(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		log, _, err := store.Acquire(t.Context(), unlisted.RequestsID(j.ID()), &runlog.AcquireOptions{Create: &runlog.NewRun{Parent: j.ID(), Status: runlog.Importing}})
		if err != nil {
			t.Fatal(err)
		}
		r := runlog.Record{Kind: unlisted.KindCancel, Path: "work", Time: time.Now(), Data: json.RawMessage(`{"id":"a"}`)}
		if err := errors.Join(log.Append(t.Context(), &runlog.Batch{Records: []runlog.Record{r}}), log.Release(t.Context())); err != nil {
			t.Fatal(err)
		}
		looked := make(chan struct{})
		go func() {
			defer close(looked)
			_ = j.Look(t.Context()) // the requests may be gone
		}()
		runtime.Gosched()
		if err := j.Close(t.Context()); err != nil {
			t.Error(err)
		}
		<-looked
	}
}
