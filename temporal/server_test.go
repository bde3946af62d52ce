package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/hosttest"
	"github.com/superstep-dev/superstep/runlog"
)

// spaces is how many namespaces the server has, one for each test that needs one: the ID of a run is that of a workflow.
const spaces = 160

var (
	devServer = sync.OnceValues(startServer)
	taken     atomic.Int32
	servers   []*exec.Cmd
	address   string
)

func TestMain(m *testing.M) {
	code := m.Run()
	for _, s := range servers {
		_ = s.Process.Kill()
		_ = s.Wait()
	}
	os.Exit(code)
}

var quiet = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

// binary returns the path of Temporal's command, "" if it is not there.
func binary() string {
	if path := os.Getenv("SUPERSTEP_TEMPORAL_BIN"); path != "" {
		return path
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	path := filepath.Join(cache, "superstep", "tools", "temporal", "temporal")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

func startServer() (client.Client, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address = l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	_ = l.Close()
	args := []string{"server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", port, "--log-level", "error"}
	for i := range spaces {
		args = append(args, "--namespace", fmt.Sprint("t", i))
	}
	s := exec.Command(binary(), args...)
	s.Env = append(os.Environ(), "HOME="+os.TempDir())
	if err := s.Start(); err != nil {
		return nil, err
	}
	servers = append(servers, s)
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		c, err := client.Dial(client.Options{HostPort: address, Namespace: fmt.Sprint("t", spaces-1), Logger: quiet, Identity: "client"})
		if err == nil {
			_, err = c.DescribeTaskQueue(context.Background(), "any", 1)
		}
		if err == nil || time.Now().After(end) {
			return c, err
		}
	}
}

// space returns a client of a namespace of its own on Temporal's dev server, and its name.
func space(t *testing.T) client.Client {
	t.Helper()
	if binary() == "" {
		t.Skip("there is no dev server of Temporal: see docs/temporal.md, or set SUPERSTEP_TEMPORAL_BIN")
	}
	c, err := devServer()
	if err != nil {
		t.Fatal(err)
	}
	n := taken.Add(1)
	if n > spaces {
		t.Fatal("there are too few namespaces")
	}
	own, err := client.NewClientFromExisting(c, client.Options{Namespace: fmt.Sprint("t", n-1), Logger: quiet, Identity: "client"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	return own
}

// Temporal keeps the rules of hosts.
func TestHosts(t *testing.T) {
	kills := 11
	if faults.Full() {
		kills = 88
	}
	hosttest.Run(t, kills, func(t *testing.T) hosttest.Host {
		c := space(t)
		t.Cleanup(func() { record(t, c, path.Base(t.Name())) })
		return &served{c: c}
	})
}

// recorded are the runs of TestHosts whose histories are replayed by TestReplay.
var recorded = []string{
	"a_run_completes", "questions_are_answered_one_after_the_other", "a_user_pauses_and_resumes_a_run", "a_running_run_is_cancelled",
	"child_runs_answer_their_parent", "a_run_that_failed_is_resumed", "a_budget_pauses_the_run,_and_a_larger_one_continues_it",
}

// record writes the history of run "r" into the folder that SUPERSTEP_TEMPORAL_RECORD names, to be kept when the workflow changes.
func record(t *testing.T, c client.Client, name string) {
	dir := os.Getenv("SUPERSTEP_TEMPORAL_RECORD")
	if dir == "" || !slices.Contains(recorded, name) {
		return
	}
	h := history(t, c, "r")
	b, err := protojson.Marshal(h)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, ",", "")+".json"), b, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

// history returns the history of a workflow.
func history(t testing.TB, c client.Client, id string) *historypb.History {
	t.Helper()
	h := &historypb.History{}
	for it := c.GetWorkflowHistory(context.Background(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		e, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		h.Events = append(h.Events, e)
	}
	return h
}

// The histories that earlier versions have written are replayed.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/histories/*/*.json")
	if err != nil || len(files) < len(recorded) {
		t.Fatalf("there are %d histories, %v", len(files), err)
	}
	for _, file := range files {
		r := worker.NewWorkflowReplayer()
		r.RegisterWorkflowWithOptions((&host{}).supervise, workflow.RegisterOptions{Name: Workflow})
		if err := r.ReplayWorkflowHistoryFromJSONFile(quiet, file); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// served is a host with one worker.
type served struct {
	c    client.Client
	w    worker.Worker
	e    *superstep.Engine
	busy sync.Mutex
}

func (h *served) Serve(e *superstep.Engine) {
	h.Stop()
	h.busy.Lock()
	defer h.busy.Unlock()
	h.w = worker.New(h.c, Queue("", nil), worker.Options{WorkerStopTimeout: 5 * time.Second, DisableEagerActivities: true, Identity: "worker"})
	h.e = e
	Register(h.w, e, nil)
	if err := h.w.Start(); err != nil {
		panic(err)
	}
}

func (h *served) Start(ctx context.Context, id, name string, inputs json.RawMessage, budget *runlog.Budget) error {
	h.busy.Lock()
	infos, err := h.e.Runs(ctx, &runlog.Filter{ID: id})
	h.busy.Unlock()
	if err == nil && len(infos) > 0 && infos[0].Status == runlog.Failed {
		_ = h.c.GetWorkflow(ctx, id, "").Get(ctx, nil) // until it has ended as well, a start means that one
	}
	_, err = Start(ctx, h.c, name, inputs, &StartOptions{ID: id, Budget: budget})
	return err
}

func (h *served) Tell(ctx context.Context, id string, m *hosttest.Message) error {
	o := client.UpdateWorkflowOptions{WorkflowID: id, WaitForStage: client.WorkflowUpdateStageCompleted}
	switch {
	case m.Answer != nil:
		o.UpdateName, o.Args = UpdateAnswer, []any{Answer{m.Path, *m.Answer}}
	case m.Budget != nil:
		o.UpdateName, o.Args = UpdateBudget, []any{m.Budget}
	case m.Steer != "":
		o.UpdateName, o.Args = UpdateSteer, []any{Steer{Text: m.Steer}}
	case m.Pause:
		o.UpdateName, o.Args = UpdatePause, []any{"tester"}
	case m.Resume:
		return h.c.SignalWorkflow(ctx, id, "", SignalPoke, nil)
	case m.Cancel:
		return h.c.CancelWorkflow(ctx, id, "")
	default:
		return errors.New("nothing to tell")
	}
	u, err := h.c.UpdateWorkflow(ctx, o)
	if err != nil {
		return err
	}
	return u.Get(ctx, nil)
}

func (h *served) Stop() {
	h.busy.Lock()
	defer h.busy.Unlock()
	if h.w != nil {
		h.w.Stop()
		h.w = nil
	}
}
