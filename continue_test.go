package superstep_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	lead "github.com/superstep-dev/superstep/internal/builtin/agent"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// chats is the workflow "agent" over a model, with the tools look and note.
func chats(t testing.TB, m *scripted.Model) *workflow.Workflow {
	t.Helper()
	return watched(t, m, func(*tool.Call) {})
}

// watched is chats whose calls are seen.
func watched(t testing.TB, m *scripted.Model, see func(*tool.Call)) *workflow.Workflow {
	t.Helper()
	var all []*tool.Tool
	for _, name := range []string{"look", "note"} {
		all = append(all, &tool.Tool{Name: name, Description: "Look something up.", Effect: tool.Pure, Input: &jsonschema.Schema{Type: "object"},
			Run: func(_ context.Context, c *tool.Call) (string, error) {
				var in struct{ At string }
				see(c)
				err := json.Unmarshal(c.Args, &in)
				return "seen " + in.At, err
			}})
	}
	tools, err := tool.NewSet(all...)
	if err != nil {
		t.Fatal(err)
	}
	w, err := lead.New(&lead.Options{
		Prepare: func(in *lead.Inputs) error { in.Model = m.Name(); return nil },
		Open: func(_ context.Context, in *lead.Inputs) (*lead.Crew, error) {
			return &lead.Crew{Agent: &agent.Agent{Name: in.Agent, Prompt: "You lead.", Model: m, Tools: tools}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// told is a conversation as a model is given it, a line for each message.
func told(messages []model.Message) (out []string) {
	for _, m := range messages {
		line := string(m.Role) + ":"
		for _, p := range m.Parts {
			switch p.Kind {
			case model.ToolCall:
				line += " calls " + p.Call.Name
			default:
				line += " " + p.Text
			}
		}
		out = append(out, line)
	}
	return out
}

// counts answers each message once, and every tenth after a call of look. It fails the test if a turn that is in the log is asked for
// again, or if the conversation is not what was said before.
type counts struct {
	t     testing.TB
	store runlog.Store
	run   atomic.Pointer[string]
}

func (c *counts) conversation(upTo int) (out []string, turns int) {
	for i := range upTo + 1 {
		out = append(out, "user: "+message(i))
		if i%10 == 3 {
			turns++
			out = append(out, "assistant: calls look", fmt.Sprintf("tool: seen %d", i))
		}
		if i < upTo {
			turns++
			out = append(out, "assistant: "+reply(i))
		}
	}
	return out, turns
}

func message(i int) string {
	return fmt.Sprintf("message %d, of ordinary length: what about part %d?", i, i)
}
func reply(i int) string { return fmt.Sprintf("Reply %d, which is as long as others are.", i) }

func (c *counts) answer(r *model.Request) scripted.Turn {
	last, i := r.Messages[len(r.Messages)-1], -1
	if last.Role == model.Tool {
		_, _ = fmt.Sscanf(last.Parts[0].Text, "seen %d", &i)
	} else {
		_, _ = fmt.Sscanf(last.Text(), "message %d,", &i)
	}
	want, turns := c.conversation(i)
	if i%10 == 3 && last.Role == model.User {
		want, turns = want[:len(want)-2], turns-1
	}
	if diff := cmp.Diff(want, told(r.Messages)); diff != "" {
		c.t.Errorf("the conversation at message %d: %s", i, diff)
	}
	if id := c.run.Load(); id != nil {
		had := 0
		for rec, err := range runlog.Records(context.Background(), c.store, *id, 0) {
			if err != nil {
				c.t.Error(err)
			}
			if rec.Kind == runlog.KindSettled && bytes.Contains(rec.Data, []byte(`"kind":"model"`)) {
				had++
			}
		}
		if had != turns {
			c.t.Errorf("message %d: %d turns are in the log, want %d", i, had, turns)
		}
	}
	if i%10 == 3 && last.Role == model.User {
		return scripted.Call("look", fmt.Sprintf(`{"at":"%d"}`, i)).Using(10, 5)
	}
	return scripted.Say(reply(i)).Using(10, 5)
}

// heard returns how many of the messages are in the log of a run.
func heard(t testing.TB, store runlog.Store, id string) (n int) {
	t.Helper()
	for r, err := range runlog.Records(t.Context(), store, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == runlog.KindRunStarted || r.Kind == runlog.KindAnswered {
			n++
		}
	}
	return n
}

// outcome waits for a run whose process may die.
func outcome(t testing.TB, r *superstep.Run) superstep.Outcome {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	out, err := r.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// talk has a chat of so many messages, in processes that die at an append: the next has its number from dies, which is negative for
// a process that lives on.
func talk(t testing.TB, store *runlogtest.Mortal, w *workflow.Workflow, c *counts, messages int, dies func() int, after bool) (e *superstep.Engine, id string, deaths int) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	e = engine(t, store, w)
	run, err := e.Start(ctx, lead.Name, json.RawMessage(fmt.Sprintf(`{"prompt":%q,"chat":true}`, message(0))), nil)
	if err != nil {
		t.Fatal(err)
	}
	id = run.ID()
	c.run.Store(&id)
	store.DieAt(dies(), after)
	for sent := 1; ; {
		var out superstep.Outcome
		if err == nil {
			out = outcome(t, run)
		}
		if store.Dead() {
			deaths++
			store.Revive()
			store.DieAt(dies(), after)
			e = engine(t, store, w)
			sent = heard(t, store, id)
			run, err = e.Resume(ctx, id, nil)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if out.Status != runlog.Paused || len(out.Open) != 1 || out.Open[0].Kind != runlog.QuestionMessage {
			t.Fatalf("message %d: %+v", sent, out)
		}
		if want := fmt.Sprintf(`{"text":%q,"agent":"general-purpose","model":"test/scripted"}`, reply(sent-1)); string(out.Output) != want {
			t.Fatalf("message %d: the output is %s, want %s", sent, out.Output, want)
		}
		if sent == messages {
			return e, id, deaths
		}
		run, err = e.Continue(ctx, id, message(sent), nil)
		sent++
	}
}

// A chat survives the death of its process at every append: no message is lost or doubled, and no turn is had again.
func TestChatDiesAtEveryAppend(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		n, deaths := 0, 1
		for ; deaths > 0; n++ {
			store := runlogtest.NewMortal()
			c := &counts{t: t, store: store}
			m := &scripted.Model{Answer: c.answer}
			once := false
			var e *superstep.Engine
			var id string
			e, id, deaths = talk(t, store, chats(t, m), c, 5, func() int {
				if once {
					return -1
				}
				once = true
				return n
			}, after)
			replays(t, e, id)
		}
		if n < 30 {
			t.Errorf("it died at %d appends only", n)
		}
	}
}

// A long chat whose processes die again and again, each time at another append: its log grows by what is said, a replay repeats it, and
// it is forked in its middle.
func TestLongChat(t *testing.T) {
	t.Parallel()
	faults.Unraced(t)
	const messages = 200
	store := runlogtest.NewMortal()
	c := &counts{t: t, store: store}
	m := &scripted.Model{Answer: c.answer}
	w := chats(t, m)
	life := 0
	e, id, deaths := talk(t, store, w, c, messages, func() int { life++; return 3 + life%23 }, true)
	if deaths < 100 {
		t.Errorf("it died %d times only", deaths)
	}
	if n := heard(t, store, id); n != messages {
		t.Errorf("%d messages are in the log, want %d", n, messages)
	}
	if info(t, e, id).Status != runlog.Paused {
		t.Errorf("it is %s", info(t, e, id).Status)
	}
	asked := len(m.Requests())
	replays(t, e, id)
	if n := len(m.Requests()); n != asked {
		t.Errorf("the replay asked the model %d times", n-asked)
	}
}

// The log of a chat grows by what is said: a message costs as much at the end as at the beginning.
func TestChatLogIsLinear(t *testing.T) {
	t.Parallel()
	faults.Unraced(t)
	const messages = 200
	store := runlogtest.NewMortal()
	c := &counts{t: t, store: store}
	e, id, _ := talk(t, store, chats(t, &scripted.Model{Answer: c.answer}), c, messages, func() int { return -1 }, false)
	sizes, size := []int{}, 0 // of the log, by message
	for r, err := range runlog.Records(t.Context(), store, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if size += len(r.Data); r.Kind == runlog.KindRunPaused {
			sizes = append(sizes, size)
		}
	}
	first, last := (sizes[49]-sizes[0])/49, (sizes[messages-1]-sizes[messages-51])/50
	t.Logf("%d bytes a message at the beginning, %d at the end, %d in all", first, last, size)
	if len(sizes) != messages || last > 2*first {
		t.Errorf("%d messages; a message takes %d bytes at the beginning and %d at the end", len(sizes), first, last)
	}
	replays(t, e, id)

	// Fork at message 50, with another message, and continue there.
	var at uint64
	n := 1
	for r, err := range runlog.Records(t.Context(), store, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == runlog.KindAnswered {
			n++
		}
		if n == 50 && r.Kind == runlog.KindStepCommitted { // that of its answer
			at = r.Seq
		}
	}
	fork, err := e.Fork(t.Context(), id, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.run.Store(nil) // the turns of before are not in its log
	out := ends(t, resume(t, e, fork.ID, nil), runlog.Paused)
	if !strings.Contains(string(out.Output), reply(49)) {
		t.Fatalf("%s", out.Output)
	}
	run, err := e.Continue(context.WithoutCancel(t.Context()), fork.ID, message(50), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out := ends(t, run, runlog.Paused); !strings.Contains(string(out.Output), reply(50)) {
		t.Errorf("%s", out.Output)
	}
	replays(t, e, fork.ID)
}

// A run that has ended is continued by a run of its own, whose agent knows what was said and done.
func TestContinueEnded(t *testing.T) {
	t.Parallel()
	m := &scripted.Model{Turns: []scripted.Turn{
		scripted.Call("look", `{"at":"7"}`), scripted.Say("It is 7."), scripted.Say("As I said, 7."), scripted.Say("Still 7."),
	}}
	r := &rig{}
	e := engine(t, runlog.NewMemory(nil), chats(t, m), r.workflow(t))
	ctx := context.WithoutCancel(t.Context())
	first, err := e.Start(ctx, lead.Name, json.RawMessage(`{"prompt":"What is it?"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, first, runlog.Completed)
	second, err := e.Continue(ctx, first.ID(), "Sure?", &superstep.StartOptions{ID: "second"})
	if err != nil {
		t.Fatal(err)
	}
	out := ends(t, second, runlog.Paused)
	if _, err := e.Continue(ctx, first.ID(), "Sure?", &superstep.StartOptions{ID: "second"}); !errors.As(err, new(*superstep.ConflictError)) {
		t.Errorf("an ID that another run has: %v", err)
	}
	if i := info(t, e, second.ID()); second.ID() != "second" || i.Parent != first.ID() || i.Title != "What is it?" {
		t.Errorf("%+v", i)
	}
	if !strings.Contains(string(out.Output), "As I said, 7.") {
		t.Errorf("%s", out.Output)
	}
	third, err := e.Continue(ctx, second.ID(), "Really?", nil)
	if err != nil || third.ID() != second.ID() {
		t.Fatalf("%v", err)
	}
	ends(t, third, runlog.Paused)
	want := []string{"user: What is it?", "assistant: calls look", "tool: seen 7", "assistant: It is 7.", "user: Sure?", "assistant: As I said, 7.", "user: Really?"}
	if diff := cmp.Diff(want, told(m.Requests()[3].Messages)); diff != "" {
		t.Error(diff)
	}
	replays(t, e, second.ID())

	m.Turns = append(m.Turns, scripted.Say("It was 12."))
	done := start(t, e, nil)
	ends(t, done, runlog.Completed)
	about, err := e.Continue(ctx, done.ID(), "What came out?", nil)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, about, runlog.Paused)
	want = []string{
		"user: The workflow job was run with these inputs:\n\n" + `{"task":"a  b"}`, "assistant: Its output:\n\na  b:12", "user: What came out?",
	}
	if diff := cmp.Diff(want, told(m.Requests()[4].Messages)); diff != "" {
		t.Error(diff)
	}

	if _, err := e.Continue(ctx, first.ID(), " \n", nil); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty message: %v", err)
	}
	if _, err := e.Continue(ctx, "nope", "Hello?", nil); !errors.As(err, new(*runlog.NotFoundError)) {
		t.Errorf("an unknown run: %v", err)
	}
}

// A chat whose lead failed is continued with all that was said, and one that is cancelled too.
func TestContinueFailed(t *testing.T) {
	t.Parallel()
	m := &scripted.Model{Turns: []scripted.Turn{
		scripted.Say("Hello."), scripted.Call("look", `{"at":"1"}`), scripted.Fail(errors.New("the provider is gone")), scripted.Say("Back."), scripted.Say("Here."),
	}}
	e := engine(t, runlog.NewMemory(nil), chats(t, m))
	ctx := context.WithoutCancel(t.Context())
	run, err := e.Start(ctx, lead.Name, json.RawMessage(`{"prompt":"Hi.","chat":true}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, run, runlog.Paused)
	if run, err = e.Continue(ctx, run.ID(), "Look.", nil); err != nil {
		t.Fatal(err)
	}
	if out := ends(t, run, runlog.Failed); out.Output != nil {
		t.Errorf("a failed turn gave %s", out.Output)
	}
	child, err := e.Continue(ctx, run.ID(), "Again.", nil)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, child, runlog.Paused)
	want := []string{"user: Hi.", "assistant: Hello.", "user: Look.", "assistant: calls look", "tool: seen 1", "user: Again."}
	if diff := cmp.Diff(want, told(m.Requests()[3].Messages)); diff != "" || child.ID() == run.ID() {
		t.Error(diff)
	}
	if err := e.Cancel(ctx, child.ID()); err != nil {
		t.Fatal(err)
	}
	last, err := e.Continue(ctx, child.ID(), "There?", nil)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, last, runlog.Paused)
	if got := told(m.Requests()[4].Messages); len(got) != 8 || got[6] != "assistant: Back." || got[7] != "user: There?" {
		t.Errorf("%q", got)
	}
}

// A message reaches a run that another process executes, and one whose process died gets it after it has answered the one before.
func TestContinueElsewhere(t *testing.T) {
	t.Parallel()
	store := runlogtest.NewMortal()
	c := &counts{t: t, store: store}
	enter, leave := make(chan struct{}, 1), make(chan struct{})
	w := chats(t, &scripted.Model{Answer: func(r *model.Request) scripted.Turn {
		turn := c.answer(r)
		if strings.HasPrefix(r.Messages[len(r.Messages)-1].Text(), "message 2") {
			enter <- struct{}{}
			turn.Until = leave
		}
		return turn
	}})
	first, second := engine(t, store, w), engine(t, store, w)
	ctx := context.WithoutCancel(t.Context())
	waiting := func(ctx context.Context, _ runlog.Question) (*runlog.Answer, bool) { <-ctx.Done(); return nil, false } // a user who does not type
	run, err := first.Start(ctx, lead.Name, json.RawMessage(fmt.Sprintf(`{"prompt":%q,"chat":true}`, message(0))), &superstep.StartOptions{Answer: waiting})
	if err != nil {
		t.Fatal(err)
	}
	for asked := false; !asked; {
		for r, err := range runlog.Records(ctx, store, run.ID(), 0) {
			asked = asked || err == nil && r.Kind == runlog.KindAsked
		}
	}
	for i, e := range []*superstep.Engine{second, first} {
		seen := 0
		r, err := e.Continue(ctx, run.ID(), message(i+1), &superstep.StartOptions{Observe: func(runlog.Record, error) { seen++ }})
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			<-enter
			close(leave)
		}
		if out := ends(t, r, runlog.Paused); len(out.Open) != 1 || out.Open[0].Kind != runlog.QuestionMessage || seen == 0 {
			t.Errorf("message %d: %+v, %d records", i+1, out, seen)
		}
	}
	store.DieAt(2, true) // after the answer and the next task
	if _, err := first.Continue(ctx, run.ID(), message(3), nil); err != nil {
		t.Fatal(err)
	}
	for !store.Dead() {
		time.Sleep(time.Millisecond)
	}
	store.Revive()
	third := engine(t, store, w)
	r, err := third.Continue(ctx, run.ID(), message(4), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out := ends(t, r, runlog.Paused); !strings.Contains(string(out.Output), reply(4)) || heard(t, store, run.ID()) != 5 {
		t.Errorf("%s, %d messages", out.Output, heard(t, store, run.ID()))
	}
	replays(t, third, run.ID())
}

// A message is not sent while a run waits for something else, and who sent it is told if the run does not get to it.
func TestContinueUnheard(t *testing.T) {
	t.Parallel()
	r := &rig{second: func(ctx context.Context, _ *graph.Task) (string, error) {
		return graph.Ask[string](ctx, graph.Question{Text: "Which?"})
	}}
	e := engine(t, runlog.NewMemory(nil), r.workflow(t))
	ctx := context.WithoutCancel(t.Context())
	run := start(t, e, nil)
	ends(t, run, runlog.Paused)
	if _, err := e.Continue(ctx, run.ID(), "Hello?", nil); err == nil || !strings.Contains(err.Error(), "before second has the answer") {
		t.Errorf("%v", err)
	}
	if err := e.Answer(ctx, run.ID(), "second", &runlog.Answer{Value: json.RawMessage(`"x"`)}); err != nil {
		t.Fatal(err)
	}
	again, err := e.Continue(ctx, run.ID(), "Hello?", nil)
	if err != nil {
		t.Fatal(err)
	}
	if out := ends(t, again, runlog.Completed); out.Err == nil || !strings.Contains(out.Err.Error(), "did not get to the message") {
		t.Errorf("%+v", out)
	}
	if _, err := e.Continue(ctx, run.ID(), "Hello?", nil); err == nil || !strings.Contains(err.Error(), "no workflow here that continues") {
		t.Errorf("%v", err)
	}
}

// A chat stays within the window of its model: what came before is cut down and summed up, and what that changes is all that its log
// gets, over several processes.
func TestChatWithinAWindow(t *testing.T) {
	t.Parallel()
	const window, messages = 4000, 120
	summed := 0
	m := &scripted.Model{Tokens: window, Answer: func(r *model.Request) scripted.Turn {
		size := len(r.System)
		for _, m := range r.Messages {
			for _, p := range m.Parts {
				size += len(p.Text)
			}
		}
		last := r.Messages[len(r.Messages)-1]
		turn := scripted.Say(strings.Repeat("An answer. ", 20))
		switch {
		case strings.HasPrefix(r.System, "Sum up"):
			summed++
			return scripted.Say(fmt.Sprintf("summary %d", summed)).Using(size/4, 10)
		case size/4 > window:
			t.Errorf("a request has %d tokens", size/4)
		case last.Role == model.User && strings.Contains(last.Text(), "0,"):
			turn = scripted.Call("look", fmt.Sprintf(`{"at":%q}`, strings.Repeat("somewhere ", 300)))
		}
		return turn.Using(size/4, 60)
	}}
	store := runlog.NewMemory(nil)
	var calls atomic.Int32
	w := watched(t, m, func(c *tool.Call) {
		if n := calls.Add(1); n > 1 && !slices.Contains(c.Seen, "look") {
			t.Errorf("call %d was told of %q only", n, c.Seen)
		}
	})
	e := engine(t, store, w)
	ctx := context.WithoutCancel(t.Context())
	run, err := e.Start(ctx, lead.Name, json.RawMessage(fmt.Sprintf(`{"prompt":%q,"chat":true}`, message(0))), nil)
	for i := 1; err == nil && i <= messages; i++ {
		ends(t, run, runlog.Paused)
		if i%10 == 0 {
			e = engine(t, store, w)
		}
		run, err = e.Continue(ctx, run.ID(), message(i), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	ends(t, run, runlog.Paused)
	var sizes []int
	size := 0
	for r, err := range runlog.Records(t.Context(), store, run.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if size += len(r.Data); r.Kind == runlog.KindRunPaused {
			sizes = append(sizes, size)
		}
	}
	half := messages / 2
	first, last := sizes[half]/half, (sizes[messages]-sizes[half])/half
	t.Logf("%d summaries; %d bytes a message in the first half, %d in the second", summed, first, last)
	if summed < 3 || last > 2*first {
		t.Errorf("%d summaries; %d bytes a message in the first half, %d in the second", summed, first, last)
	}
	if got := m.Requests(); !strings.Contains(strings.Join(told(got[len(got)-1].Messages), "\n"), "summary ") {
		t.Errorf("the last request has no summary: %q", told(got[len(got)-1].Messages))
	}
	replays(t, e, run.ID())
}

// What an agent was given by strangers taints its later calls: also in later messages, and in a run that continues.
func TestChatKeepsWhatWasSeen(t *testing.T) {
	t.Parallel()
	m := &scripted.Model{Turns: []scripted.Turn{
		scripted.Call("look", `{"at":"1"}`), scripted.Say("One."), scripted.Call("note", `{"at":"2"}`), scripted.Say("Two."),
		scripted.Call("note", `{"at":"3"}`), scripted.Say("Three."), scripted.Call("note", `{"at":"4"}`), scripted.Say("Four."),
	}}
	var mu sync.Mutex
	var seen [][]string
	r := &rig{}
	e := engine(t, runlog.NewMemory(nil), watched(t, m, func(c *tool.Call) { mu.Lock(); seen = append(seen, c.Seen); mu.Unlock() }), r.workflow(t))
	ctx := context.WithoutCancel(t.Context())
	run, err := e.Start(ctx, lead.Name, json.RawMessage(`{"prompt":"Look."}`), nil)
	for _, text := range []string{"Note.", "Note again."} {
		if err != nil {
			t.Fatal(err)
		}
		outcome(t, run)
		run, err = e.Continue(ctx, run.ID(), text, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	ends(t, run, runlog.Paused)
	done := start(t, e, nil)
	ends(t, done, runlog.Completed)
	if run, err = e.Continue(ctx, done.ID(), "Note that.", nil); err != nil {
		t.Fatal(err)
	}
	ends(t, run, runlog.Paused)
	want := [][]string{nil, {"look"}, {"look", "note"}, {"run_workflow"}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

// A message to a chat whose lead works is said to the lead before its next turn, and the run then asks for the next message.
func TestContinueWhileTheLeadWorks(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	enter, leave := make(chan struct{}, 9), make(chan struct{})
	var mu sync.Mutex
	var last, whole string
	w := chats(t, &scripted.Model{Answer: func(r *model.Request) scripted.Turn {
		text := r.Messages[len(r.Messages)-1].Text()
		mu.Lock()
		last, whole = text, ""
		for _, m := range r.Messages {
			whole += m.Text() + "\n"
		}
		mu.Unlock()
		turn := scripted.Say("You said: " + text)
		if text == "Work" {
			enter <- struct{}{}
			turn.Until = leave
		}
		return turn
	}})
	first, second := engine(t, store, w), engine(t, store, w)
	run, err := first.Start(t.Context(), lead.Name, json.RawMessage(`{"prompt":"Work","chat":true}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-enter
	steered := make(chan superstep.Outcome, 1)
	go func() { // Continue returns when the lead has read it
		r, err := second.Continue(t.Context(), run.ID(), "and hurry", nil)
		if err != nil {
			t.Error(err)
			close(steered)
			return
		}
		out, _ := r.Wait(t.Context())
		steered <- out
	}()
	for told := false; !told; {
		all, err := unlisted.Read(t.Context(), store, run.ID(), 0)
		if told = len(all) > 0; err != nil {
			t.Fatal(err)
		}
	}
	close(leave)
	if out := <-steered; out.Status != runlog.Paused || len(out.Open) != 1 {
		t.Errorf("who steered has %+v", out)
	}
	ends(t, run, runlog.Paused)
	mu.Lock()
	if !strings.Contains(last, "and hurry") {
		t.Errorf("the lead read last: %q", last)
	}
	mu.Unlock()
	replays(t, first, run.ID())
	if err := first.Cancel(t.Context(), run.ID()); err != nil {
		t.Fatal(err)
	}
	child, err := second.Continue(t.Context(), run.ID(), "What did I ask for?", nil)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, child, runlog.Paused)
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(whole, "and hurry") {
		t.Errorf("the conversation that goes on: %q", whole)
	}
}
