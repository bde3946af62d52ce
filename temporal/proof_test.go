package temporal

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/sqlite"
	flows "github.com/superstep-dev/superstep/workflow"
)

type load struct {
	Chain int `json:"chain,omitempty"` // steps one after the other
	Wide  int `json:"wide,omitempty"`  // tasks side by side
	Ms    int `json:"ms"`              // that each takes
}

type amount struct {
	load
	Done int `json:"done"`
}

// loads returns a workflow that is a chain or a fan-out. Did is called by each task.
func loads(t testing.TB, did func(what string)) *flows.Workflow {
	t.Helper()
	work := func(_ context.Context, t *graph.Task, s amount) (int, error) {
		time.Sleep(time.Duration(s.Ms) * time.Millisecond)
		did(fmt.Sprint(t.Scope().Path(), " ", s.Done))
		return 1, nil
	}
	g := graph.New("load", func(s amount, n int) amount { s.Done += n; return s })
	g.Add("begin", func(context.Context, amount) (int, error) { return 0, nil })
	g.AddNode(graph.Node[amount, int]{Name: "step", Run: work})
	g.AddNode(graph.Node[amount, int]{Name: "side", Run: work})
	g.Edge(graph.Start, "begin")
	g.Fan("begin", func(s amount) (out []graph.Send) {
		for i := range s.Wide {
			out = append(out, graph.Send{To: "side", Key: strconv.Itoa(i)})
		}
		if s.Wide == 0 {
			out = append(out, graph.Send{To: "step"})
		}
		return out
	}, "side", "step")
	g.Edge("side", graph.End)
	g.Branch("step", func(s amount) string {
		if s.Done < s.Chain {
			return "step"
		}
		return graph.End
	}, "step", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := flows.New("load", "A load.", flow, func(in load) (amount, error) { return amount{load: in}, nil }, func(s amount) (int, error) { return s.Done, nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// bare is what a user of Temporal writes for the fan-out: one activity a task.
func bare(ctx workflow.Context, n, ms int) (int, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	var all []workflow.Future
	for range n {
		all = append(all, workflow.ExecuteActivity(ctx, "bare", ms))
	}
	for _, f := range all {
		if err := f.Get(ctx, nil); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// measure starts a run, waits for its end, and returns how long it took and the size of its history.
func measure(t *testing.T, c client.Client, id string, in load) (took time.Duration, events, bytes int) {
	t.Helper()
	raw, _ := json.Marshal(in)
	begun := time.Now()
	if _, err := Start(t.Context(), c, "load", raw, &StartOptions{ID: id}); err != nil {
		t.Fatal(err)
	}
	var out Output
	if err := c.GetWorkflow(t.Context(), id, "").Get(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	took = time.Since(begun)
	if want := max(in.Chain, in.Wide); string(out.Output) != strconv.Itoa(want) {
		t.Fatalf("%+v gives %s", in, out.Output)
	}
	return took, len(history(t, c, id).Events), proto.Size(history(t, c, id))
}

// A segment is short in Temporal's history, and the engine executes as fast as without Temporal.
func TestWeight(t *testing.T) {
	fully(t)
	c := space(t)
	store := runlog.NewMemory(nil)
	w := loads(t, func(string) {})
	e, err := superstep.New(store, &superstep.Options{Workflows: []*flows.Workflow{w}, MaxSteps: 10_000, Parallelism: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	k := worker.New(c, Queue("", nil), worker.Options{Identity: "worker"})
	Register(k, e, nil)
	k.RegisterWorkflow(bare)
	k.RegisterActivityWithOptions(func(_ context.Context, ms int) error { time.Sleep(time.Duration(ms) * time.Millisecond); return nil },
		activity.RegisterOptions{Name: "bare"})
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	defer k.Stop()
	measure(t, c, "warm", load{Chain: 2})

	wide, events, bytes := measure(t, c, "wide", load{Wide: 1000, Ms: 5})
	t.Logf("fan-out of 1,000: %d events, %d B, %s", events, bytes, wide)
	if events > 20 || bytes > 2048 {
		t.Errorf("a segment takes %d events and %d bytes", events, bytes)
	}
	begun := time.Now()
	r, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "bare", TaskQueue: Queue("", nil)}, bare, 1000, 5)
	if err == nil {
		err = r.Get(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	plain := time.Since(begun)
	h := history(t, c, "bare")
	t.Logf("1,000 bare activities: %d events, %d B, %s", len(h.Events), proto.Size(h), plain)
	if plain < 10*wide {
		t.Errorf("a fan-out takes %s, and bare activities take %s", wide, plain)
	}
	// What Temporal adds does not vary, and what a busy machine adds does: the best of some pairs counts.
	best := 100.0
	for i := 0; i < 5 && best > 2; i++ { // what it may add is a tenth; ten times that fails
		chain, events, bytes := measure(t, c, fmt.Sprint("chain-", i), load{Chain: 200, Ms: 20})
		if events > 20 || bytes > 2048 {
			t.Errorf("a segment takes %d events and %d bytes", events, bytes)
		}
		begun = time.Now()
		local, err := e.Start(t.Context(), "load", json.RawMessage(`{"chain":200,"ms":20}`), nil)
		if err == nil {
			_, err = local.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		alone := time.Since(begun)
		best = min(best, chain.Seconds()/alone.Seconds())
		t.Logf("chain of 200 x 20 ms: %d events, %d B, %s; without Temporal %s, %.3f times", events, bytes, chain, alone, chain.Seconds()/alone.Seconds())
	}
	if best > 2 {
		t.Errorf("a chain takes %.3f times as long as without Temporal", best)
	}
}

// When the process of a worker is killed, another continues its run. No task is done twice whose result is in the log; the one that was under way is.
func TestKilledWorker(t *testing.T) {
	dir := os.Getenv("TEMPORAL_TEST_WORKER")
	if dir != "" {
		workerProcess(t, dir)
		return
	}
	fully(t)
	c := space(t)
	dir = t.TempDir()
	args := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledWorker$", "-test.timeout=10m")
		cmd.Env = append(os.Environ(), "TEMPORAL_TEST_WORKER="+dir, "TEMPORAL_TEST_ADDRESS="+address, fmt.Sprint("TEMPORAL_TEST_SPACE=t", taken.Load()-1))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	const n = 200
	first := args()
	if _, err := Start(t.Context(), c, "load", json.RawMessage(fmt.Sprintf(`{"chain":%d,"ms":10}`, n)), &StartOptions{ID: "r"}); err != nil {
		t.Fatal(err)
	}
	for len(lines(t, dir)) < n/4 {
		time.Sleep(10 * time.Millisecond)
	}
	second := args()
	_ = first.Process.Kill()
	_ = first.Wait()
	killed, before := time.Now(), len(lines(t, dir))
	finished := finished(t, dir, "r")
	for len(lines(t, dir)) == before {
		time.Sleep(10 * time.Millisecond)
	}
	silence := time.Since(killed)
	var out Output
	if err := c.GetWorkflow(t.Context(), "r", "").Get(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	_ = second.Process.Kill()
	_ = second.Wait()
	all, seen, twice := lines(t, dir), map[string]bool{}, 0
	for _, l := range all {
		if seen[l] {
			twice++
		}
		seen[l] = true
	}
	h := history(t, c, "r")
	t.Logf("%d tasks before kill -9, %d of them in the log, %s of silence, %d tasks in all, %d of them twice, %d events, %d B", before, finished, silence.Round(10*time.Millisecond), len(seen), twice, len(h.Events), proto.Size(h))
	if string(out.Output) != strconv.Itoa(n) || len(seen) != n || twice != before-finished || twice > 1 {
		t.Errorf("it gives %s, with %d tasks, %d of them twice", out.Output, len(seen), twice)
	}
}

// fully skips a test that takes long for nothing but time, unless everything is to be tested.
func fully(t *testing.T) {
	t.Helper()
	if !faults.Full() {
		t.Skip("SUPERSTEP_FAULTS=full measures")
	}
}

func lines(t *testing.T, dir string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "done"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// finished returns how many tasks of the chain have a result in the log.
func finished(t *testing.T, dir, id string) (n int) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "runs.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for r, err := range runlog.Records(t.Context(), store, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == runlog.KindTaskDone && strings.HasPrefix(r.Path, "step") {
			n++
		}
	}
	return n
}

func workerProcess(t *testing.T, dir string) {
	f, err := os.OpenFile(filepath.Join(dir, "done"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	w := loads(t, func(what string) { _, _ = f.WriteString(what + "\n") })
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "runs.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := superstep.New(store, &superstep.Options{Workflows: []*flows.Workflow{w}, MaxSteps: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(client.Options{HostPort: os.Getenv("TEMPORAL_TEST_ADDRESS"), Namespace: os.Getenv("TEMPORAL_TEST_SPACE"), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	k := worker.New(c, Queue("", nil), worker.Options{})
	Register(k, e, nil)
	if err := k.Run(nil); err != nil {
		t.Fatal(err)
	}
}
