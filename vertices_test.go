package superstep_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/vertex"
	"github.com/superstep-dev/superstep/workflow"
)

type nothing = struct{}

// A scattered program sends, sleeps and completes as a hash of its seed says, and keeps what it got in a slice, which a checkpoint must copy.
type scattered struct {
	seed, n, steps int
	combine        bool
}

func (p scattered) hash(x ...int) int {
	h := uint64(p.seed) + 1
	for _, i := range x {
		h = (h ^ uint64(i)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return int(h >> 1)
}

func (p scattered) targets(v int) []int32 {
	var to []int32
	for i := range p.hash(v) % 4 {
		to = append(to, int32(p.hash(v, i, 7)%p.n))
	}
	return to
}

func (p scattered) compute(step, v int, value *[]int, in []int, send func(int32, int)) vertex.Vote {
	*value = append(*value, step)
	for i, m := range in {
		(*value)[0] = p.hash((*value)[0], m, i) % 1000
	}
	if step >= p.steps {
		return vertex.Halt
	}
	for i, to := range p.targets(v) {
		if p.hash(v, step, i)%3 > 0 {
			send(to, p.hash((*value)[0], step)%100)
		}
	}
	return vertex.Vote(p.hash(v, step, 9) % 8 / 3) // mostly asleep
}

// plain is a Pregel of one thread. It returns the values and how many supersteps there were.
func (p scattered) plain() ([][]int, int) {
	values, inbox, vote := make([][]int, p.n), make([][]int, p.n), make([]vertex.Vote, p.n)
	for v := range vote {
		vote[v] = vertex.Stay
	}
	for step := 0; ; step++ {
		next, worked := make([][]int, p.n), false
		for v := range p.n {
			if vote[v] == vertex.Complete || vote[v] == vertex.Halt && inbox[v] == nil {
				continue
			}
			worked = true
			vote[v] = p.compute(step, v, &values[v], inbox[v], func(to int32, m int) {
				if p.combine && len(next[to]) > 0 {
					next[to][0] += m
					return
				}
				next[to] = append(next[to], m)
			})
		}
		if !worked {
			return values, step
		}
		inbox = next
	}
}

func (p scattered) workflow(t testing.TB, opt *workflow.VerticesOptions) *workflow.Workflow {
	t.Helper()
	w, err := workflow.Vertices("job", "A vertex program.", func(context.Context, job) (*workflow.Computation[[]int, nothing, int, string], error) {
		var none vertex.EdgeList[nothing]
		g, err := none.Build(p.n)
		prog := &vertex.Program[[]int, nothing, int]{Compute: func(c *vertex.Context[[]int, nothing, int], v int32, value *[]int, in []int) vertex.Vote {
			return p.compute(c.Step(), int(v), value, in, c.Send)
		}}
		if p.combine {
			prog.Combine = vertex.CombineSum[int]()
		}
		return &workflow.Computation[[]int, nothing, int, string]{Graph: g, Program: prog, Result: func(r *vertex.Run[[]int, nothing, int]) (string, error) {
			return fmt.Sprint(r.Values(), r.Step()), nil
		}}, err
	}, opt)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Random programs reach the result of a Pregel of one thread, though their process dies at any append, and are replayed.
func TestVerticesCrash(t *testing.T) {
	t.Parallel()
	deaths := 0
	rapid.Check(t, func(rt *rapid.T) {
		p := scattered{rapid.IntRange(0, 1<<30).Draw(rt, "seed"), rapid.IntRange(1, 300).Draw(rt, "n"), rapid.IntRange(1, 12).Draw(rt, "steps"), rapid.Bool().Draw(rt, "combine")}
		opt := &workflow.VerticesOptions{Every: rapid.IntRange(1, 4).Draw(rt, "every"), Parallelism: 2}
		if rapid.IntRange(0, 3).Draw(rt, "timed") == 0 {
			opt.Interval = time.Millisecond
		}
		values, steps := p.plain()
		want := fmt.Sprintf("%q", fmt.Sprint(values, steps))
		store := runlogtest.NewMortal()
		store.DieAt(rapid.IntRange(0, 12).Draw(rt, "append"), rapid.Bool().Draw(rt, "after"))
		e := engine(t, store, p.workflow(t, opt))
		run, err := e.Start(t.Context(), "job", []byte(`{"task":"x"}`), nil)
		if err != nil { // it died as it began
			return
		}
		out, err := run.Wait(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		if store.Dead() {
			deaths++
			store.Revive()
			e = engine(t, store, p.workflow(t, opt))
			out = ends(t, resume(t, e, run.ID(), nil), runlog.Completed)
		}
		if out.Status != runlog.Completed || string(out.Output) != want {
			rt.Fatalf("%s, %v\ngot  %s\nwant %s", out.Status, out.Err, out.Output, want)
		}
		replays(t, e, run.ID())
	})
	if deaths == 0 {
		t.Error("nothing died")
	}
}

// A vertex program has a history, its checkpoints tell how far it was, and it can be forked from any of them.
func TestVerticesHistory(t *testing.T) {
	t.Parallel()
	p := scattered{seed: 3, n: 200, steps: 12}
	w := p.workflow(t, &workflow.VerticesOptions{Every: 3})
	store := runlog.NewMemory(nil)
	e := engine(t, store, w)
	run := start(t, e, nil)
	out := ends(t, run, runlog.Completed)
	var seen []string
	var second uint64
	for c, err := range e.History(t.Context(), run.ID(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if c.Step == 2 {
			second = c.Seq
		}
		var s struct{ Superstep, Vertices, Active int }
		if err := json.Unmarshal(c.State, &s); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, fmt.Sprint(s.Superstep, s.Vertices, s.Active > 0))
	}
	_, steps := p.plain()
	if want := []string{"0 0 false", "3 200 true", "6 200 true", "9 200 true", fmt.Sprint(steps, 200, false)}; !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
	fork, err := e.Fork(t.Context(), run.ID(), second, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again := ends(t, resume(t, e, fork.ID, nil), runlog.Completed); string(again.Output) != string(out.Output) {
		t.Errorf("the fork has %s", again.Output)
	}
	var notes int
	for r, err := range runlog.Records(t.Context(), store, run.ID(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == runlog.KindEvent && strings.Contains(string(r.Data), "vertices are active") {
			notes++
		}
	}
	if notes != 3 {
		t.Errorf("%d notes", notes)
	}
}

// A run is stopped and cancelled while it computes, ends at its limit, and says which vertex failed.
func TestVerticesEnds(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 1000)
	program := func(compute func(c *vertex.Context[int, nothing, int]) vertex.Vote, opt *workflow.VerticesOptions) *superstep.Engine {
		w, err := workflow.Vertices("job", "A vertex program.", func(context.Context, job) (*workflow.Computation[int, nothing, int, int], error) {
			var none vertex.EdgeList[nothing]
			g, err := none.Build(2)
			return &workflow.Computation[int, nothing, int, int]{Graph: g, Result: func(r *vertex.Run[int, nothing, int]) (int, error) { return r.Step(), nil },
				Program: &vertex.Program[int, nothing, int]{Compute: func(c *vertex.Context[int, nothing, int], _ int32, _ *int, _ []int) vertex.Vote { return compute(c) }}}, err
		}, opt)
		if err != nil {
			t.Fatal(err)
		}
		return engine(t, runlog.NewMemory(nil), w)
	}
	forever := func(c *vertex.Context[int, nothing, int]) vertex.Vote {
		select {
		case begun <- struct{}{}:
		default:
		}
		return vertex.Stay
	}
	e := program(forever, nil)
	run := start(t, e, nil)
	for range 100 {
		<-begun
	}
	if err := e.Cancel(t.Context(), run.ID()); err != nil {
		t.Fatal(err)
	}
	ends(t, run, runlog.Cancelled)
	out := ends(t, start(t, program(forever, &workflow.VerticesOptions{MaxSteps: 25}), nil), runlog.Failed)
	if limit := (*vertex.StepLimitError)(nil); !errors.As(out.Err, &limit) || limit.Limit != 25 {
		t.Errorf("got %v", out.Err)
	}
	out = ends(t, start(t, program(func(c *vertex.Context[int, nothing, int]) vertex.Vote {
		if c.Step() == 14 {
			c.Fail(errors.New("no more"))
		}
		return vertex.Stay
	}, nil), nil), runlog.Failed)
	if failed := (*vertex.Error)(nil); !errors.As(out.Err, &failed) || failed.Step != 14 {
		t.Errorf("got %v", out.Err)
	}
}

// asOlder returns the records of a run as they were before there were attachments: checkpoints stood in the data, in base64.
func asOlder(t testing.TB, recs []runlog.Record) (older []runlog.Record, changed int) {
	t.Helper()
	for _, r := range recs {
		if len(r.Attachment) > 0 {
			before, after, found := strings.Cut(string(r.Data), `"data":""`)
			if !found {
				t.Fatalf("record %d has no place for its attachment: %s", r.Seq, r.Data)
			}
			r.Data = json.RawMessage(before + `"data":"` + base64.StdEncoding.EncodeToString(r.Attachment) + `"` + after)
			r.Attachment = nil
			changed++
		}
		older = append(older, r)
	}
	return older, changed
}

// A log from before there were attachments is resumed at every record, and replayed.
func TestVerticesOlder(t *testing.T) {
	t.Parallel()
	p := scattered{seed: 5, n: 80, steps: 11}
	opt := &workflow.VerticesOptions{Every: 2}
	store := runlog.NewMemory(nil)
	e := engine(t, store, p.workflow(t, opt))
	run := start(t, e, nil)
	want := ends(t, run, runlog.Completed)
	recs, err := store.Read(t.Context(), run.ID(), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	older, changed := asOlder(t, recs)
	if changed < 5 {
		t.Fatalf("only %d records have an attachment", changed)
	}
	put := func(store runlog.Store, recs []runlog.Record, status runlog.Status) {
		t.Helper()
		l, _, err := store.Acquire(t.Context(), run.ID(), &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "job"}})
		if err == nil {
			err = l.Append(t.Context(), &runlog.Batch{Records: slices.Clone(recs), Status: status})
		}
		if err = errors.Join(err, l.Release(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	whole := runlog.NewMemory(nil)
	put(whole, older, runlog.Completed)
	replays(t, engine(t, whole, p.workflow(t, opt)), run.ID())
	for n := 2; n < len(older); n++ {
		part := runlog.NewMemory(nil)
		put(part, older[:n], runlog.Running)
		e := engine(t, part, p.workflow(t, opt))
		if out := ends(t, resume(t, e, run.ID(), nil), runlog.Completed); string(out.Output) != string(want.Output) {
			t.Fatalf("after %d records: %s, want %s", n, out.Output, want.Output)
		}
	}
}

// The texts of vertices are stored without secrets, and the run continues with the stored form. Numbers are stored unchanged, even if they spell a secret.
func TestVerticesSecrets(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	type told struct {
		Text  string
		Words [20]byte
	}
	w, err := workflow.Vertices("job", "A vertex program.", func(context.Context, job) (*workflow.Computation[told, nothing, string, string], error) {
		var none vertex.EdgeList[nothing]
		g, err := none.Build(3)
		return &workflow.Computation[told, nothing, string, string]{Graph: g, Program: &vertex.Program[told, nothing, string]{
			Compute: func(c *vertex.Context[told, nothing, string], v int32, at *told, in []string) vertex.Vote {
				at.Text += strings.Join(in, "") + "."
				switch {
				case c.Step() == 0 && v == 0:
					at.Text = secret
				case c.Step() == 2 && v == 1:
					c.Send(2, "it is "+secret)
				case c.Step() == 5:
					return vertex.Halt
				}
				return vertex.Stay
			}}, Result: func(r *vertex.Run[told, nothing, string]) (string, error) {
			return fmt.Sprint(r.Values()[0].Text, r.Values()[2].Text), nil
		}}, err
	}, &workflow.VerticesOptions{Every: 1})
	if err != nil {
		t.Fatal(err)
	}
	numbers, err := workflow.Vertices("numbers", "A vertex program.", func(context.Context, job) (*workflow.Computation[[20]byte, nothing, int, string], error) {
		var none vertex.EdgeList[nothing]
		g, err := none.Build(2)
		return &workflow.Computation[[20]byte, nothing, int, string]{Graph: g, Program: &vertex.Program[[20]byte, nothing, int]{
			Compute: func(c *vertex.Context[[20]byte, nothing, int], v int32, at *[20]byte, _ []int) vertex.Vote {
				if copy(at[:], "AKIA0123456789ABCDEF"); c.Step() < 3 {
					return vertex.Stay
				}
				return vertex.Halt
			}}, Result: func(r *vertex.Run[[20]byte, nothing, int]) (string, error) { return string(r.Values()[1][:]), nil }}, err
	}, &workflow.VerticesOptions{Every: 1})
	if err != nil {
		t.Fatal(err)
	}
	memory := runlog.NewMemory(nil)
	e := engine(t, redact.Store(memory, redact.New(redact.Secret{Name: "KEY", Value: secret})), w, numbers)
	run := start(t, e, nil)
	out := ends(t, run, runlog.Completed)
	const want = `"[redacted:KEY]........it is [redacted:KEY]..."`
	if string(out.Output) != want {
		t.Errorf("got %s, want %s", out.Output, want)
	}
	recs, err := memory.Read(t.Context(), run.ID(), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	replays(t, e, run.ID())
	attached := 0
	for _, r := range recs {
		b := r.Data
		if len(r.Attachment) > 0 {
			if b, err = s2.Decode(nil, r.Attachment); err != nil {
				t.Fatal(err)
			}
			attached++
		}
		if strings.Contains(string(b), secret) {
			t.Errorf("record %d (%s) has the secret", r.Seq, r.Kind)
		}
	}
	if attached < 6 {
		t.Errorf("only %d records have attachments", attached)
	}
	for n := 2; n < len(recs); n++ { // it dies after any record
		part := runlog.NewMemory(nil)
		l, _, err := part.Acquire(t.Context(), run.ID(), &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "job"}})
		if err == nil {
			err = l.Append(t.Context(), &runlog.Batch{Records: slices.Clone(recs[:n]), Status: runlog.Running})
		}
		if err = errors.Join(err, l.Release(t.Context())); err != nil {
			t.Fatal(err)
		}
		e := engine(t, redact.Store(part, redact.New(redact.Secret{Name: "KEY", Value: secret})), w)
		if out := ends(t, resume(t, e, run.ID(), nil), runlog.Completed); string(out.Output) != want {
			t.Errorf("after %d records: %s, want %s", n, out.Output, want)
		}
	}
	spelled, err := e.Start(t.Context(), "numbers", []byte(`{"task":"x"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out := ends(t, spelled, runlog.Completed); string(out.Output) != `"AKIA0123456789ABCDEF"` {
		t.Errorf("got %s", out.Output)
	}
}

// What a resumed run computes with is not what its checkpoints are written of.
func TestVerticesApart(t *testing.T) {
	t.Parallel()
	const n, steps = 3000, 40
	w, err := workflow.Vertices("job", "A vertex program.", func(context.Context, job) (*workflow.Computation[map[string]int, nothing, int, int], error) {
		var none vertex.EdgeList[nothing]
		g, err := none.Build(n)
		values := make([]map[string]int, n)
		for v := range values {
			values[v] = map[string]int{"a": 1}
		}
		return &workflow.Computation[map[string]int, nothing, int, int]{Graph: g, Values: values, Program: &vertex.Program[map[string]int, nothing, int]{
			Compute: func(c *vertex.Context[map[string]int, nothing, int], v int32, at *map[string]int, _ []int) vertex.Vote {
				if c.Step() == 0 {
					if v < n/10 {
						return vertex.Stay
					}
					return vertex.Halt
				}
				if (*at)["a"] += c.Step(); c.Step() < steps {
					c.Send((v+n/10)%n, 1) // another tenth in each superstep
				}
				return vertex.Halt
			}}, Result: func(r *vertex.Run[map[string]int, nothing, int]) (sum int, err error) {
			for i, v := range r.Values() {
				sum += (i + 1) * v["a"]
			}
			return sum, nil
		}}, err
	}, &workflow.VerticesOptions{Every: 1})
	if err != nil {
		t.Fatal(err)
	}
	store := runlog.NewMemory(nil)
	whole := ends(t, start(t, engine(t, store, w), nil), runlog.Completed)
	mortal := runlogtest.NewMortal()
	mortal.DieAt(15, true)
	run := start(t, engine(t, mortal, w), &superstep.StartOptions{SnapshotEvery: 1})
	if _, err := run.Wait(t.Context()); err != nil || !mortal.Dead() {
		t.Fatal(err, mortal.Dead())
	}
	mortal.Revive()
	if out := ends(t, resume(t, engine(t, mortal, w), run.ID(), nil), runlog.Completed); string(out.Output) != string(whole.Output) {
		t.Errorf("got %s, want %s", out.Output, whole.Output)
	}
}

// A type of which a checkpoint would lose something is refused.
func TestVerticesRefused(t *testing.T) {
	t.Parallel()
	type pair struct{ x, y float64 } //nolint:unused // nobody but a checkpoint would use them
	type named struct{ name string } //nolint:unused // the same
	for want, err := range map[string]error{
		"a value: superstep_test.pair has fields that are not exported": refused[pair, int](),
		"a message": refused[int, named](),
		"a value":   refused[func(), int](),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func refused[V, M any]() error {
	_, err := workflow.Vertices("job", "A vertex program.", func(context.Context, job) (*workflow.Computation[V, nothing, M, int], error) { return nil, nil }, nil)
	return err
}

// Values, messages and edges of any kind are in a checkpoint.
func TestVerticesKinds(t *testing.T) {
	t.Parallel()
	text, number := "x", 2.5
	kind(t, []int32{1, 2}, []int32(nil))
	kind(t, &number, &text)
	kind(t, []*float64{&number}, [2]int16{1, 2})
	kind(t, map[string]int{"a": 1}, any("b"))
	kind(t, struct{ A, B int }{1, 2}, struct{ A []byte }{[]byte("c")})
	kind(t, 7, int32(8))
}

func kind[V, M any](t *testing.T, value V, message M) {
	t.Helper()
	w, err := workflow.Vertices("job", "A vertex program.", func(context.Context, job) (*workflow.Computation[V, M, M, string], error) {
		edges := vertex.EdgeList[M]{From: []int32{0, 1}, To: []int32{1, 0}, Values: []M{message, message}}
		g, err := edges.Build(2)
		return &workflow.Computation[V, M, M, string]{Graph: g, Values: []V{value, value}, Program: &vertex.Program[V, M, M]{
			Compute: func(c *vertex.Context[V, M, M], v int32, at *V, in []M) vertex.Vote {
				if c.Step() == 5 {
					return vertex.Halt
				}
				c.Send(1-v, message)
				return vertex.Stay
			}}, Result: func(r *vertex.Run[V, M, M]) (string, error) {
			b, err := json.Marshal(r.Values())
			return string(b), err
		}}, err
	}, &workflow.VerticesOptions{Every: 2})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal([]V{value, value})
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(string(text))
	if err != nil {
		t.Fatal(err)
	}
	store := runlogtest.NewMortal()
	store.DieAt(6, true)
	e := engine(t, store, w)
	run := start(t, e, nil)
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !store.Dead() {
		t.Fatal("it ended before it died")
	}
	store.Revive()
	if out := ends(t, resume(t, engine(t, store, w), run.ID(), nil), runlog.Completed); string(out.Output) != string(want) {
		t.Errorf("%T and %T: got %s, want %s", value, message, out.Output, want)
	}
}
