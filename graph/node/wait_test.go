package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

func clock() agent.Clock { return agent.Clock{Now: time.Now, After: time.After} }

// A wait that is broken off ends when it would have ended.
func TestWaitSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		while := 10 * time.Hour
		flow := oneWay(t, node.Wait("wait", clock(), func(state) (time.Duration, error) { return while, nil }, func(s state) (update, error) {
			return add(s, time.Since(begin).String())
		}))
		store := runlogtest.NewMortal()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		if _, err := flow.Run(ctx, state{}, &graph.RunOptions{Journal: open(t, store)}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		while = 100 * time.Hour
		time.Sleep(2 * time.Hour)
		stop := make(chan struct{})
		time.AfterFunc(time.Hour, func() { close(stop) })
		store.Revive()
		if _, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, store), Stop: stop}); !errors.Is(err, graph.ErrStopped) {
			t.Fatal(err)
		}
		if now := time.Since(begin); now != 6*time.Hour {
			t.Errorf("stopped after %v", now)
		}
		store.Revive()
		got, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, store)})
		if err != nil || fmt.Sprint(got.Notes) != "[10h0m0s]" {
			t.Errorf("got %v, %v", got.Notes, err)
		}
	})
}

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ready := func(context.Context, state) (bool, error) { return time.Since(begin) >= 5*time.Minute, nil }
		done := func(s state) (update, error) { return add(s, time.Since(begin).String()) }
		n := node.Until("wait", clock(), 2*time.Minute, ready, done)
		got, err := oneWay(t, n).Run(t.Context(), state{}, nil)
		if err != nil || fmt.Sprint(got.Notes) != "[6m0s]" {
			t.Errorf("got %v, %v", got.Notes, err)
		}
		store, stop := runlogtest.NewMortal(), make(chan struct{})
		begin = time.Now()
		time.AfterFunc(time.Minute, func() { close(stop) })
		if _, err := oneWay(t, n).Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, store), Stop: stop}); !errors.Is(err, graph.ErrStopped) || time.Since(begin) != time.Minute {
			t.Errorf("stopped after %v: %v", time.Since(begin), err)
		}
		store.Revive()
		got, err = oneWay(t, n).Run(t.Context(), state{}, &graph.RunOptions{Journal: open(t, store)})
		if _, failed := settled(t, store); err != nil || fmt.Sprint(got.Notes) != "[5m0s]" || failed > 0 {
			t.Errorf("got %v, %v, %d failures", got.Notes, err, failed)
		}
		never := node.Until("wait", clock(), time.Minute, func(context.Context, state) (bool, error) { return false, nil }, done)
		never.Timeout = time.Hour
		var limit *graph.TimeoutError
		if _, err := oneWay(t, never).Run(t.Context(), state{}, nil); !errors.As(err, &limit) {
			t.Errorf("got %v", err)
		}
		broken := node.Until("wait", clock(), time.Minute, func(context.Context, state) (bool, error) { return false, errors.New("it is broken") }, done)
		if _, err := oneWay(t, broken).Run(t.Context(), state{}, nil); err == nil || !strings.Contains(err.Error(), "it is broken") {
			t.Errorf("got %v", err)
		}
	})
}

// talk is a conversation with a call in it.
func talk() []model.Message {
	c := model.Call{ID: "1", Name: "look", Args: json.RawMessage(`{}`)}
	return []model.Message{
		model.UserText("find it"),
		{Role: model.Assistant, Parts: []model.Part{{Kind: model.ToolCall, Call: &c}}},
		model.ToolResult(c, "it is here", false),
		{Role: model.Assistant, Parts: []model.Part{{Kind: model.Text, Text: "found"}}},
	}
}

const summed = "What came before, summed up:\n\nsum"

func TestClear(t *testing.T) {
	all, sum := talk(), model.UserText(summed)
	cut := scripted.Say("half a su")
	cut.Stop = model.StopLength
	for _, tc := range []struct {
		name  string
		opt   *node.ClearOptions
		want  []model.Message
		fails string
	}{
		{"all", nil, []model.Message{}, ""},
		{"all but one", &node.ClearOptions{Keep: 1}, all[3:], ""},
		{"a result keeps its call", &node.ClearOptions{Keep: 2}, all[1:], ""},
		{"more than there is", &node.ClearOptions{Keep: 9, Summary: always(scripted.Say("sum"))}, all, ""},
		{"a summary", &node.ClearOptions{Summary: always(scripted.Say("sum"))}, []model.Message{sum}, ""},
		{"a summary of the rest", &node.ClearOptions{Keep: 1, Summary: always(scripted.Say("sum"))}, []model.Message{sum, all[3]}, ""},
		{"no summary", &node.ClearOptions{Summary: always(scripted.Say(""))}, nil, "gave no whole summary"},
		{"half a summary", &node.ClearOptions{Summary: always(cut)}, nil, "gave no whole summary (stop: length)"},
	} {
		got, err := oneWay(t, node.Clear("clear", conversation(), tc.opt)).Run(t.Context(), state{Talk: talk()}, nil)
		if tc.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("%s: got %v", tc.name, err)
			}
			continue
		}
		if diff := cmp.Diff(tc.want, got.Talk); diff != "" || err != nil {
			t.Errorf("%s: %s %v", tc.name, diff, err)
		}
	}
	m := always(scripted.Say("sum"))
	if _, err := oneWay(t, node.Clear("clear", conversation(), &node.ClearOptions{Summary: m})).Run(t.Context(), state{Talk: talk()}, nil); err != nil {
		t.Fatal(err)
	}
	want := "user: find it\n\nassistant calls look with {}\n\nresult of look: it is here\n\nassistant: found\n\n"
	if got := m.Requests()[0].Messages[0].Text(); got != want {
		t.Errorf("summed up %q", got)
	}
}

func TestMonitor(t *testing.T) {
	all, sum := talk(), model.UserText(summed)
	for _, tc := range []struct {
		used    int
		summary bool
		want    []model.Message
		action  string
	}{
		{44, true, all, ""},
		{45, true, []model.Message{sum, all[3]}, "summarize"},
		{59, true, []model.Message{sum, all[3]}, "summarize"},
		{60, true, []model.Message{sum}, "recreate"},
		{200, true, []model.Message{sum}, "recreate"},
		{44, false, all, ""},
		{45, false, all, "warn"},
		{60, false, all, "warn"},
	} {
		opt := node.MonitorOptions[state]{Window: 100, Used: func(state) int { return tc.used }, Keep: 1}
		if tc.summary {
			opt.Summary = always(scripted.Say("sum"))
		}
		store := runlog.NewMemory(nil)
		got, err := oneWay(t, node.Monitor("watch", conversation(), opt)).Run(t.Context(), state{Talk: talk()}, &graph.RunOptions{Journal: open(t, store)})
		if diff := cmp.Diff(tc.want, got.Talk); diff != "" || err != nil {
			t.Errorf("%d: %s %v", tc.used, diff, err)
		}
		type level struct {
			Used, Window int
			Action       string
		}
		var event level
		for r, err := range runlog.Records(t.Context(), store, "run", 0) {
			var e runlog.Event
			if err == nil && r.Kind == runlog.KindEvent && json.Unmarshal(r.Data, &e) == nil && e.Name == "context" {
				if err := json.Unmarshal(e.Data, &event); err != nil {
					t.Error(err)
				}
			}
		}
		want := level{}
		if tc.action != "" {
			want = level{tc.used, 100, tc.action}
		}
		if event != want {
			t.Errorf("%d: event %+v, want %+v", tc.used, event, want)
		}
	}
}
