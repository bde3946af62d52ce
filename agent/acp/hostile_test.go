//go:build unix

package acp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/acptest"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// hostileScripts are agents that lie.
var hostileScripts = map[string]*acptest.Script{
	// It gives back what others have spent, says nonsense about its usage, and more than a number holds.
	"lies": {Usage: map[string]any{"inputTokens": -5000, "outputTokens": -1, "totalTokens": "many"}, Prompt: func(a *acptest.Agent, _ string) string {
		for _, c := range []float64{-7, 1e300} {
			a.Live(map[string]any{"sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": map[string]any{"amount": c, "currency": "USD"}})
		}
		a.Update(map[string]any{"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": "text", "text": "ok"}, "_meta": map[string]any{"usage": []int{1}}})
		return "end_turn"
	}},
	// It asks for something small, and after that for something else under the same ID.
	"twice": {Prompt: func(a *acptest.Agent, _ string) string {
		for _, command := range []string{"ls", "rm -r ."} {
			a.Say("so " + a.Ask(map[string]any{"toolCallId": "c1", "title": "list the files", "kind": "execute", "rawInput": map[string]any{"command": command}}) + " ")
		}
		a.End("c1", "done")
		return "end_turn"
	}},
	// It calls a command one of our tools.
	"disguised": {Prompt: func(a *acptest.Agent, _ string) string {
		call := map[string]any{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "superstep_look", "kind": "other", "status": "pending"}
		a.Update(call)
		if a.Ask(map[string]any{"toolCallId": "c1", "title": "superstep_look", "kind": "execute", "rawInput": map[string]any{"command": "rm -r ."}}) == "yes" {
			a.End("c1", "removed")
		}
		return "end_turn"
	}},
	// It says and asks things in sessions of others, and after its turn was cancelled.
	"strays": {Prompt: func(a *acptest.Agent, text string) string {
		if strings.Contains(text, "Continue") {
			a.Say("and on.")
			return "end_turn"
		}
		a.Raw(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"stray"}}}}`)
		raw := a.Request("session/request_permission", map[string]any{"sessionId": "other", "toolCall": map[string]any{"toolCallId": "c9"}, "options": []any{}})
		a.Log("other " + string(raw))
		a.Say("On ")
		<-a.Cancelled()
		a.Log("late " + a.Ask(map[string]any{"toolCallId": "c1", "title": "ls", "kind": "execute", "rawInput": map[string]any{"command": "ls"}}))
		a.Say("late")
		return "end_turn"
	}},
	// It sends messages of 100 MB, kinds without end, and arguments that no record holds.
	"huge": {Prompt: func(a *acptest.Agent, _ string) string {
		big := strings.Repeat("x", 100_000_000)
		a.Raw(`{"jsonrpc":"2.0","method":"session/update","params":{"update":"` + big + `"}}`)
		for i := range 30 {
			a.Live(map[string]any{"sessionUpdate": fmt.Sprint("kind-", i, big[:100_000])})
		}
		a.Begin("c1", "cat", "execute", map[string]any{"command": "cat " + big[:12<<20]})
		a.End("c1", big[:12<<20])
		a.Live(map[string]any{"sessionUpdate": "plan", "entries": []any{map[string]any{"content": big[:12<<20], "status": "pending"}}})
		a.Say("fine")
		return "end_turn"
	}},
	// It says things without end, while nobody waits for them or somebody does.
	"flood": {Prompt: func(a *acptest.Agent, text string) string {
		if strings.HasPrefix(text, "ask") {
			go a.Ask(map[string]any{"toolCallId": "c1", "title": "ls", "kind": "execute", "rawInput": map[string]any{"command": "ls"}})
			time.Sleep(300 * time.Millisecond)
		}
		for {
			a.Live(map[string]any{"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": "text", "text": strings.Repeat("word ", 10_000)}})
		}
	}},
	// It asks more than anybody can answer.
	"asks for ever": {Prompt: func(a *acptest.Agent, _ string) string {
		for i := range 2000 {
			go a.Ask(map[string]any{"toolCallId": fmt.Sprint("c", i), "title": "ls", "kind": "execute", "rawInput": map[string]any{"command": "ls"}})
		}
		<-a.Cancelled()
		return "end_turn"
	}},
	"one session": {Session: "same", Prompt: func(a *acptest.Agent, _ string) string { <-a.Cancelled(); return "end_turn" }},
}

// What an agent claims to have used lowers nothing, and does not overflow. Nonsense costs none of its text.
func TestUsageLies(t *testing.T) {
	t.Parallel()
	s := open(t, "lies")
	run, out := s.start(t)
	if string(out.Output) != `"ok"` {
		t.Errorf("got %+v", out)
	}
	if r := s.fold(t, run.ID()); r.Spent.Tokens < 0 || r.Spent.Money <= 0 {
		t.Errorf("spent %+v", r.Spent)
	}
	s.replayed(t, run.ID())
}

// A permission holds for what was shown: other arguments under the same ID are another question.
func TestSameCallOtherArguments(t *testing.T) {
	t.Parallel()
	s := open(t, "twice")
	run, out := s.start(t)
	var asked []string
	for range 3 {
		if out.Status.Ended() || len(out.Open) == 0 {
			break
		}
		asked = append(asked, string(out.Open[0].Call.Args))
		s.allow(t, run, out, []string{"once", "deny"}[len(asked)-1])
		again, err := s.engine.Resume(t.Context(), run.ID(), nil)
		if err != nil {
			t.Fatal(err)
		}
		out = wait(t, again)
	}
	if !slices.Equal(asked, []string{`{"command":"ls","unsandboxed":true}`, `{"command":"rm -r .","unsandboxed":true}`}) || out.Status != runlog.Completed {
		t.Errorf("asked %q, %+v", asked, out)
	}
	if got := s.logged("answer"); !slices.Equal(got, []string{"answer yes", "answer no"}) {
		t.Errorf("answers %q", got)
	}
	s.replayed(t, run.ID())
}

// A command stays a command, whatever it is called.
func TestDisguised(t *testing.T) {
	t.Parallel()
	s, _ := equip(t, "disguised", rules{"bash": tool.Ask}, nil)
	run, out := s.start(t)
	if len(out.Open) != 1 || !strings.Contains(string(out.Open[0].Call.Args), "rm -r .") {
		t.Fatalf("got %+v; parts %q", out, parts(s.fold(t, run.ID())))
	}
}

// What is sent to other sessions, or after a turn was cancelled, is neither shown nor asked.
func TestStrays(t *testing.T) {
	t.Parallel()
	s := open(t, "strays")
	run, err := s.begin(t).Start(t.Context(), "test", json.RawMessage(`{"prompt":"go"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return len(s.logged("other")) == 1 })
	s.engine.Close()
	s.pool.Close()
	again, err := s.begin(t).Resume(t.Context(), run.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out := wait(t, again); string(out.Output) != `"and on."` || !strings.Contains(s.logged("other")[0], "cancelled") {
		t.Errorf("got %+v, %q", out, s.logged("other"))
	}
	if got := strings.Join(parts(s.fold(t, run.ID())), "\n"); strings.Contains(got, "stray") || strings.Contains(got, "bash") {
		t.Errorf("parts %s", got)
	}
	for _, l := range s.logged("late") {
		if strings.Contains(l, "yes") {
			t.Error(l)
		}
	}
	s.replayed(t, run.ID())
}

// What is too large is left out or cut, and the rest is heard.
func TestHuge(t *testing.T) {
	t.Parallel()
	faults.Unraced(t)
	s := open(t, "huge")
	run, out := s.start(t)
	if string(out.Output) != `"fine"` {
		t.Fatalf("got %+v", out)
	}
	size := 0
	for rec, err := range runlog.Records(t.Context(), s.store, run.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		size += len(rec.Data)
	}
	got := strings.Join(parts(s.fold(t, run.ID())), "\n")
	if size > 4<<20 || !strings.Contains(got, "which was left out") || strings.Count(got, "unknown kind") != 20 || !strings.Contains(got, "tool scripted_execute") {
		t.Errorf("the log has %d bytes: %.2000s", size, got)
	}
	s.replayed(t, run.ID())
}

// An agent that says things without end is ended, also while nobody hears it, and takes no memory for them.
func TestFlood(t *testing.T) {
	t.Parallel()
	for _, prompt := range []string{"go", "ask"} {
		s := open(t, "flood")
		run, err := s.begin(t).Start(t.Context(), "test", json.RawMessage(`{"prompt":"`+prompt+`"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		out := wait(t, run)
		if prompt == "ask" {
			until(t, func() bool {
				pid, err := strconv.Atoi(strings.TrimPrefix(s.logged("start ")[0], "start "))
				return err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
			})
			s.allow(t, run, out, "deny")
			again, err := s.engine.Resume(t.Context(), run.ID(), nil)
			if err != nil {
				t.Fatal(err)
			}
			out = wait(t, again)
		}
		if out.Status != runlog.Failed || !strings.Contains(out.Err.Error(), "scripted") || !strings.Contains(out.Err.Error(), "MiB") {
			t.Errorf("%s: got %+v", prompt, out)
		}
		var m runtime.MemStats
		if runtime.ReadMemStats(&m); m.HeapAlloc > 1<<30 {
			t.Errorf("%d MiB", m.HeapAlloc>>20)
		}
	}
}

// More permission requests than anybody can answer are refused.
func TestAsksForEver(t *testing.T) {
	t.Parallel()
	s := open(t, "asks for ever")
	s.opt.Turn = 5 * time.Second
	_, out := s.start(t)
	if n := len(out.Open); n == 0 || n > 100 {
		t.Errorf("%d questions, %+v", n, out.Status)
	}
	until(t, func() bool { return len(s.logged("answer")) > 1800 })
}

// A session that is open is not given out again.
func TestOneSession(t *testing.T) {
	t.Parallel()
	s := open(t, "one session")
	e := s.begin(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if _, err := e.Start(ctx, "test", json.RawMessage(`{"prompt":"go"}`), nil); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return len(s.logged("prompt")) == 1 })
	run, err := e.Start(t.Context(), "test", json.RawMessage(`{"prompt":"go"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out := wait(t, run); out.Status != runlog.Failed || !strings.Contains(out.Err.Error(), "session") {
		t.Errorf("got %+v", out)
	}
}
