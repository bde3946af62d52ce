package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/runlog"
)

// A script plays the segments of a run.
type script struct {
	*testsuite.TestWorkflowEnvironment
	mu       sync.Mutex
	segments []outcome // the last is repeated
	ran      int
	posted   []message
	refuse   error
	failures int // attempts of the first segment that fail
}

func plays(t *testing.T, segments ...outcome) *script {
	t.Helper()
	s := &script{segments: segments}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet)
	s.TestWorkflowEnvironment = suite.NewTestWorkflowEnvironment()
	s.SetTestTimeout(30 * time.Second)
	s.RegisterWorkflowWithOptions((&host{}).supervise, workflow.RegisterOptions{Name: Workflow})
	s.RegisterActivityWithOptions(func(_ context.Context, in input) (*outcome, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if in.Run != "r" {
			return &outcome{Status: runlog.Completed}, nil
		}
		if s.failures > 0 {
			s.failures--
			return nil, errors.New("the worker is dead")
		}
		out := s.segments[min(s.ran, len(s.segments)-1)]
		s.ran++
		return &out, nil
	}, activity.RegisterOptions{Name: activitySegment})
	s.RegisterActivityWithOptions(func(_ context.Context, m message) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.posted = append(s.posted, m)
		return s.refuse
	}, activity.RegisterOptions{Name: activityPost})
	return s
}

func (s *script) execute() { s.ExecuteWorkflow(Workflow, input{Run: "r", Workflow: "w"}) }

// told updates the run after a while, and returns how that ended.
func (s *script) told(after time.Duration, name string, arg any) *error {
	result := errors.New("nothing came of it")
	s.RegisterDelayedCallback(func() {
		s.UpdateWorkflow(name, "", &testsuite.TestUpdateCallback{OnReject: func(err error) { result = err }, OnComplete: func(_ any, err error) { result = err }}, arg)
	}, after)
	return &result
}

func TestRateLimitIsATimer(t *testing.T) {
	s := plays(t, outcome{Status: runlog.Interrupted, Waits: summary.RateLimit}, outcome{Status: runlog.Completed, Output: json.RawMessage(`"x"`)})
	s.segments[0].Until = s.Now().Add(3 * time.Hour)
	var timer time.Duration
	s.SetOnTimerScheduledListener(func(_ string, d time.Duration) { timer = d })
	s.execute()
	var out Output
	if err := s.GetWorkflowResult(&out); err != nil || string(out.Output) != `"x"` || s.ran != 2 {
		t.Fatalf("%+v, %v after %d segments", out, err, s.ran)
	}
	if timer < 2*time.Hour {
		t.Errorf("it waits for %s", timer)
	}
}

// The attempts that other workers have refused do not delay the takeover from a dead one.
func TestTakeoverAfterManyAttempts(t *testing.T) {
	s := plays(t, outcome{Status: runlog.Completed})
	s.failures = 9
	begun := s.Now()
	s.execute()
	if err := s.GetWorkflowError(); err != nil || s.failures > 0 {
		t.Fatalf("%v, %d attempts left", err, s.failures)
	}
	if took := s.Now().Sub(begun); took > 10*time.Second {
		t.Errorf("9 attempts take %s", took)
	}
}

func TestContinuesAsNew(t *testing.T) {
	for _, suggested := range []bool{false, true} {
		s := plays(t, outcome{Status: runlog.Interrupted})
		s.SetContinueAsNewSuggested(suggested)
		s.execute()
		var again *workflow.ContinueAsNewError
		if !errors.As(s.GetWorkflowError(), &again) {
			t.Fatalf("it ends with %v", s.GetWorkflowError())
		}
		if want := map[bool]int{false: mostRuns, true: 1}[suggested]; s.ran != want {
			t.Errorf("%d segments, want %d", s.ran, want)
		}
	}
}

func TestUpdates(t *testing.T) {
	s := plays(t, outcome{Status: runlog.Paused, Waits: summary.Person}, outcome{Status: runlog.Paused, Waits: summary.Operator}, outcome{Status: runlog.Completed})
	refused := []*error{
		s.told(time.Second, UpdateAnswer, Answer{Path: "p"}),
		s.told(time.Second, UpdateBudget, runlog.Budget{}),
		s.told(time.Second, UpdateSteer, Steer{Text: " "}),
	}
	answered := s.told(time.Minute, UpdateAnswer, Answer{"p", runlog.Answer{Key: "k", Value: json.RawMessage("1")}})
	late := s.told(time.Hour, UpdateAnswer, Answer{"p", runlog.Answer{Key: "l", Value: json.RawMessage("1")}}) // does not resume what a user has paused
	var status Status
	s.RegisterDelayedCallback(func() {
		v, err := s.QueryWorkflow(QueryStatus)
		if err == nil {
			err = v.Get(&status)
		}
		if err != nil {
			t.Error(err)
		}
		s.SignalWorkflow(SignalPoke, nil)
	}, 2*time.Hour)
	s.execute()
	if err := s.GetWorkflowError(); err != nil || s.ran != 3 || *answered != nil || *late != nil {
		t.Fatalf("%v after %d segments; the updates gave %v and %v", err, s.ran, *answered, *late)
	}
	for i, err := range refused {
		if *err == nil {
			t.Errorf("update %d is accepted", i)
		}
	}
	if len(s.posted) != 2 || s.posted[0].Answer == nil || s.posted[0].Run != "r" {
		t.Errorf("%d messages: %+v", len(s.posted), s.posted)
	}
	if want := (Status{Run: "r", Status: runlog.Paused, Waits: summary.Operator, Segment: 2}); status != want {
		t.Errorf("status %+v, want %+v", status, want)
	}
}

// A worker may die between the log and the answer to its activity, so a refused answer looks at the log, too.
func TestRefusedAnswerLooks(t *testing.T) {
	s := plays(t, outcome{Status: runlog.Paused, Waits: summary.Person}, outcome{Status: runlog.Completed})
	s.refuse = never(errors.New("there is an answer already"), "refused")
	got := s.told(time.Minute, UpdateAnswer, Answer{"p", runlog.Answer{Key: "k", Denied: true}})
	s.execute()
	if err := s.GetWorkflowError(); err != nil || s.ran != 2 || *got == nil || !strings.Contains((*got).Error(), "already") {
		t.Errorf("%v after %d segments, %v", err, s.ran, *got)
	}
}

func TestFails(t *testing.T) {
	s := plays(t, outcome{Status: runlog.Failed, Error: "node a: no", Code: "task"})
	s.execute()
	var app *temporal.ApplicationError
	if err := s.GetWorkflowError(); !errors.As(err, &app) || app.Type() != "task" || !app.NonRetryable() || app.Message() != "node a: no" {
		t.Errorf("%v", err)
	}
}

func TestCancelPaused(t *testing.T) {
	s := plays(t, outcome{Status: runlog.Paused, Waits: summary.Person}, outcome{Status: runlog.Cancelled})
	s.RegisterDelayedCallback(s.CancelWorkflow, time.Minute)
	s.execute()
	if err := s.GetWorkflowError(); !temporal.IsCanceledError(err) || len(s.posted) != 1 || !s.posted[0].Cancel || s.ran != 2 {
		t.Errorf("%v, %+v, %d segments", err, s.posted, s.ran)
	}
}

// Each child run has a workflow on the queue of its place, and their parent looks once for those that end together.
func TestChildren(t *testing.T) {
	s := plays(t, outcome{Status: runlog.Paused, Waits: summary.Run, Children: []child{{"a", []string{"gpu", "acp"}}, {"b", nil}}}, outcome{Status: runlog.Completed})
	queues := map[string]string{}
	s.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, _ converter.EncodedValues) {
		queues[info.WorkflowExecution.ID] = info.TaskQueueName
	})
	s.execute()
	if err := s.GetWorkflowError(); err != nil || s.ran != 2 || queues["a"] != "superstep-acp+gpu" || queues["b"] != "superstep" {
		t.Errorf("%v, %d segments, %v", err, s.ran, queues)
	}
}

func TestQueues(t *testing.T) {
	got, err := Queues("", []string{"gpu", "acp", "gpu"})
	if want := []string{"superstep", "superstep-acp", "superstep-gpu", "superstep-acp+gpu"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v", got, err)
	}
	for _, labels := range [][]string{{"GPU"}, {"a", "b", "c", "d", "e"}} {
		if _, err := Queues("", labels); err == nil {
			t.Errorf("%v is accepted", labels)
		}
	}
}
