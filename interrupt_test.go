package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
)

// A speaker is a model that says half of its first turn and then waits for its end. In every other turn it says what it was told last.
type speaker struct {
	half chan struct{} // gets a value when half is said, if non-nil
	fail error         // fails the first turn instead
	dead chan struct{} // closed to end the first turn, if non-nil
}

func (*speaker) Name() string { return "test/speaker" }

func (m *speaker) Generate(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		last := req.Messages[len(req.Messages)-1]
		if len(req.Messages) > 1 {
			before := req.Messages[len(req.Messages)-2].Text()
			_ = yield(model.Part{Kind: model.Text, Text: fmt.Sprintf("%q, %q", before, last.Text())}, nil) && yield(model.Part{Kind: model.Stop, Stop: model.StopEnd}, nil)
			return
		}
		if m.fail != nil {
			if m.half != nil {
				m.half <- struct{}{}
			}
			yield(model.Part{}, m.fail)
			return
		}
		if !yield(model.Part{Kind: model.Text, Text: "the half of"}, nil) || !yield(model.Part{Kind: model.ToolCall, Call: &model.Call{ID: "c", Name: "look", Args: []byte("{}")}}, nil) {
			return
		}
		if m.half != nil {
			m.half <- struct{}{}
		}
		select {
		case <-ctx.Done():
			yield(model.Part{}, ctx.Err())
		case <-m.dead:
			yield(model.Part{}, errors.New("the store is dead"))
		}
	}
}

// speaks is a task with an agent that a speaker is the model of.
func speaks(m model.Model, listens bool) func(context.Context, *graph.Task) (string, error) {
	return func(ctx context.Context, t *graph.Task) (string, error) {
		look, err := tool.New("look", "Looks.", func(context.Context, struct{}) (string, error) { return "nothing", nil }, &tool.Options{Effect: tool.Pure})
		if err != nil {
			return "", err
		}
		set, err := tool.NewSet(look)
		if err != nil {
			return "", err
		}
		a := &agent.Agent{Name: "talker", Model: m, Tools: set, Limits: agent.Limits{Turns: 1}, Clock: &agent.Clock{Now: time.Now, After: time.After}}
		out, err := a.Run(ctx, t.Scope(), &agent.Work{Prompt: "go", Stopped: t.Stopped(), Listens: listens})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(out.Text, " ", out.Stop, " ", out.Usage.Out > 0), nil
	}
}

// An interrupt ends the current turn of an agent, wherever the run executes. What was said stays, and counts. The agent continues with what it was told
// meanwhile, asks what it is to do, or ends where the next message comes from somebody else.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	const half = "the half of\n\n*(broken off)*"
	limited := &model.Error{Status: 429, Temporary: true, RetryAfter: time.Hour, Err: errors.New("slow down")}
	for name, c := range map[string]struct {
		listens bool
		queued  string
		answer  string // "" denies
		fail    error
		want    string
	}{
		"of a chat":          {listens: true, want: half + " cut true"},
		"of a chat, queued":  {listens: true, queued: "say more", want: fmt.Sprintf("%q, %q said true", half, "say more")},
		"queued":             {queued: "say more", want: fmt.Sprintf("%q, %q said true", half, "say more")},
		"answered":           {answer: "less", want: fmt.Sprintf("%q, %q said true", half, "less")},
		"denied":             {want: half + " cut true"},
		"in a rate limit":    {fail: limited, listens: true, want: "\n\n*(broken off)* cut false"},
		"of a limit, queued": {fail: limited, queued: "x", want: fmt.Sprintf("%q, %q said false", "\n\n*(broken off)*", "x")},
	} {
		for _, by := range []string{"here", "elsewhere"} {
			t.Run(name+" "+by, func(t *testing.T) {
				t.Parallel()
				m := &speaker{half: make(chan struct{}), fail: c.fail}
				r := &rig{second: speaks(m, c.listens)}
				store := runlog.NewMemory(nil)
				e := engine(t, store, r.workflow(t))
				other := e
				if by == "elsewhere" {
					other = engine(t, store, r.workflow(t))
				}
				run := start(t, e, nil)
				<-m.half
				var told <-chan error
				if c.queued != "" {
					told = steers(t, other, run.ID(), "", c.queued)
					posted(t, store, run.ID(), 1)
				}
				if err := other.Interrupt(t.Context(), run.ID(), ""); err != nil {
					t.Fatal(err)
				}
				out, err := run.Wait(t.Context())
				if !c.listens && c.queued == "" {
					if err != nil || out.Status != runlog.Paused || len(out.Open) != 1 || out.Open[0].Agent != "talker" {
						t.Fatalf("got %+v, %v", out, err)
					}
					a := &runlog.Answer{Key: out.Open[0].Key, Denied: c.answer == "", By: "person"}
					if c.answer != "" {
						a.Value, _ = json.Marshal(c.answer)
					}
					if err := other.Answer(t.Context(), run.ID(), out.Open[0].Path, a); err != nil {
						t.Fatal(err)
					}
					out, err = resume(t, other, run.ID(), nil).Wait(t.Context())
				}
				var got string
				if err != nil || json.Unmarshal(out.Output, &got) != nil || got != "a  b:1"+c.want {
					t.Fatalf("got %q %+v, %v", got, out, err)
				}
				if told != nil {
					if err := <-told; err != nil {
						t.Error(err)
					}
				}
				if n := brokenOff(t, store, run.ID()); n != 1 {
					t.Errorf("%d turns were broken off", n)
				}
				if err := other.Interrupt(t.Context(), run.ID(), ""); err == nil {
					t.Error("a run that has ended was interrupted")
				}
				replays(t, other, run.ID())
			})
		}
	}
}

// brokenOff returns how many turns have the outcome that a user broke them off, and checks that no request has had an effect twice.
func brokenOff(t *testing.T, store runlog.Store, id string) (turns int) {
	t.Helper()
	seen := map[string]bool{}
	for r, err := range runlog.Records(t.Context(), store, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		d := mail.Settled(&r)
		if d == nil || len(d.Interrupted) == 0 {
			continue
		}
		turns++
		for _, request := range d.Interrupted {
			if seen[request] {
				t.Errorf("request %s broke off two turns", request)
			}
			seen[request] = true
		}
		if !strings.Contains(string(d.Output), "(broken off)") || d.Error != "" {
			t.Errorf("the outcome is %s %s", d.Output, d.Error)
		}
	}
	return turns
}

// Between two turns, the next one is broken off before the model is asked. An agent that is not there cannot be interrupted.
func TestInterruptBetweenTurns(t *testing.T) {
	t.Parallel()
	busy, free := make(chan struct{}), make(chan struct{})
	asked := 0
	m := &answering{func(*model.Request) { asked++ }}
	r := &rig{second: func(ctx context.Context, tk *graph.Task) (string, error) {
		look, err := tool.New("look", "Looks.", func(context.Context, struct{}) (string, error) { close(busy); <-free; return "nothing", nil }, &tool.Options{Effect: tool.Pure})
		if err != nil {
			return "", err
		}
		set, err := tool.NewSet(look)
		if err != nil {
			return "", err
		}
		out, err := (&agent.Agent{Name: "talker", Model: m, Tools: set}).Run(ctx, tk.Scope(), &agent.Work{Prompt: "go", Stopped: tk.Stopped(), Listens: true})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(out.Turns, " ", out.Stop), nil
	}}
	store := runlog.NewMemory(nil)
	e := engine(t, store, r.workflow(t))
	run := start(t, e, nil)
	<-busy
	if err := e.Interrupt(t.Context(), run.ID(), "secon"); err == nil || !strings.Contains(err.Error(), `did you mean "second"?`) {
		t.Error(err)
	}
	done := make(chan error, 1)
	go func() { done <- e.Interrupt(t.Context(), run.ID(), "second") }()
	posted(t, store, run.ID(), 1)
	close(free)
	out, err := run.Wait(t.Context())
	if err != nil || string(out.Output) != `"a  b:12 cut"` || asked != 1 {
		t.Errorf("asked %d times: %s %+v, %v", asked, out.Output, out, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	replays(t, e, run.ID())
}

// answering is a model that calls look.
type answering struct{ asked func(*model.Request) }

func (*answering) Name() string { return "test/answering" }

func (m *answering) Generate(_ context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	m.asked(req)
	return func(yield func(model.Part, error) bool) {
		_ = yield(model.Part{Kind: model.ToolCall, Call: &model.Call{ID: "c", Name: "look", Args: []byte("{}")}}, nil) && yield(model.Part{Kind: model.Stop, Stop: model.StopCalls}, nil)
	}
}

// Wherever a run is cut off, one request breaks off one turn, also when it is resumed, and the agent reads once what comes after it.
func TestInterruptAtEveryAppend(t *testing.T) {
	t.Parallel()
	crashes, posts := 0, 0
	for n, ended := 0, false; !ended; n++ {
		for _, after := range []bool{false, true} {
			m := &speaker{dead: make(chan struct{})}
			r := &rig{second: speaks(m, false)}
			mortal := runlogtest.NewMortal()
			posting := &postOnce{Store: mortal}
			mortal.DieAt(n, after)
			requests := []*unlisted.Request{
				{ID: "i", Kind: unlisted.KindInterrupt, Path: "second", Time: time.Now()},
				{ID: "s", Kind: unlisted.KindSteer, Path: "second", Time: time.Now(), Data: []byte(`"say now"`)},
			}
			post := func(id string) (failed error) {
				for _, q := range requests {
					err := unlisted.Post(t.Context(), mortal, id, q)
					if failed = errors.Join(failed, err); err == nil {
						posts++
					}
				}
				return failed
			}
			posting.post = func(id string) {
				if post(id) != nil {
					close(m.dead)
				}
			}
			e := engine(t, posting, r.workflow(t))
			run, err := e.Start(t.Context(), "job", []byte(`{"task":"a  b"}`), nil)
			if err != nil {
				continue
			}
			out, err := run.Wait(t.Context())
			e.Close()
			if err == nil && out.Status == runlog.Completed {
				ended = true
			} else {
				crashes++
				mortal.Revive()
				if err := post(run.ID()); err != nil && !errors.As(err, new(*runlog.EndedError)) { // again, which is no new request
					t.Fatal(err)
				}
				r = &rig{second: speaks(&speaker{}, false)}
				e = engine(t, mortal, r.workflow(t))
				if out, err = resume(t, e, run.ID(), nil).Wait(t.Context()); err != nil || out.Status != runlog.Completed {
					t.Fatalf("%d, %v: %+v, %v", n, after, out, err)
				}
			}
			if brokenOff(t, mortal, run.ID()) != 1 {
				t.Fatalf("%d, %v: %d turns were broken off", n, after, brokenOff(t, mortal, run.ID()))
			}
			e = engine(t, mortal, r.workflow(t))
			replays(t, e, run.ID())
		}
	}
	if crashes < 10 || posts < 10 {
		t.Errorf("only %d crashes and %d requests", crashes, posts)
	}
}
