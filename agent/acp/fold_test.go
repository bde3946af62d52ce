//go:build unix

package acp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/acptest"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// A round is what an agent says, and the calls that it makes then.
type round struct {
	said  []model.Part // text and reasoning in turn
	calls []made
}

type made struct {
	id, tool, arg, result string
	failed                bool
}

// rounds is an agent of ours that says and does that.
type rounds []round

func (r rounds) Name() string { return "test/rounds" }

func (r rounds) Generate(_ context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	n := 0
	for _, m := range req.Messages {
		if m.Role == model.Assistant {
			n++
		}
	}
	return func(yield func(model.Part, error) bool) {
		for _, p := range r[n].said {
			if !yield(p, nil) {
				return
			}
		}
		for _, c := range r[n].calls {
			if !yield(model.Part{Kind: model.ToolCall, Call: &model.Call{ID: c.id, Name: c.tool, Args: c.args()}}, nil) {
				return
			}
		}
		stop := model.StopEnd
		if len(r[n].calls) > 0 {
			stop = model.StopCalls
		}
		yield(model.Part{Kind: model.Stop, Stop: stop}, nil)
	}
}

func (c *made) args() json.RawMessage {
	v := map[string]any{"path": c.arg}
	switch c.tool {
	case "bash":
		v = map[string]any{"command": c.arg, "unsandboxed": true}
	case "todo":
		return json.RawMessage(fmt.Sprintf(`{"todos":[{"id":"1","content":%q,"status":"pending"}]}`, c.arg))
	}
	b, _ := json.Marshal(v) // of strings, never fails
	return b
}

// tools returns the tools that it calls.
func (r rounds) tools(t *rapid.T) *tool.Set {
	run := func(_ context.Context, c *tool.Call) (string, error) {
		for _, round := range r {
			for _, m := range round.calls {
				switch {
				case m.id == c.ID && m.failed:
					return "", errors.New(m.result)
				case m.id == c.ID:
					return m.result, nil
				}
			}
		}
		return "", errors.New("there is no such call")
	}
	var all []*tool.Tool
	for _, name := range []string{"bash", "read_file", "todo"} {
		all = append(all, &tool.Tool{Name: name, Description: name, Input: &jsonschema.Schema{Type: "object"}, Effect: tool.Pure, Run: run})
	}
	set, err := tool.NewSet(all...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func genRounds(t *rapid.T) rounds {
	word := rapid.StringMatching(`[a-z]{1,6}( [a-z]{1,6}){0,3}`)
	out := make(rounds, rapid.IntRange(1, 4).Draw(t, "rounds"))
	for i := range out {
		r := &out[i]
		kind := rapid.SampledFrom([]model.PartKind{model.Text, model.Reasoning}).Draw(t, "first")
		for range rapid.IntRange(0, 3).Draw(t, "parts") {
			r.said = append(r.said, model.Part{Kind: kind, Text: word.Draw(t, "text")})
			kind = map[model.PartKind]model.PartKind{model.Text: model.Reasoning, model.Reasoning: model.Text}[kind]
		}
		if i == len(out)-1 {
			r.said = append(r.said, model.Part{Kind: model.Text, Text: "The end."})
			if n := len(r.said); n > 1 && r.said[n-2].Kind == model.Text {
				r.said = slices.Delete(r.said, n-2, n-1)
			}
			continue
		}
		for j := range rapid.IntRange(1, 3).Draw(t, "calls") {
			c := made{id: fmt.Sprintf("c%d-%d", i, j), tool: rapid.SampledFrom([]string{"bash", "read_file", "todo"}).Draw(t, "tool"), arg: word.Draw(t, "arg")}
			if c.tool == "todo" && slices.ContainsFunc(r.calls, func(m made) bool { return m.tool == "todo" }) {
				c.tool = "bash" // two lists at once have no order
			}
			if c.tool != "todo" { // the end of a plan is not told
				c.result, c.failed = word.Draw(t, "result"), rapid.IntRange(0, 4).Draw(t, "failed") == 0
			}
			r.calls = append(r.calls, c)
		}
	}
	return out
}

type update = map[string]any

// updates returns the same as updates of a session, in one of the orders in which an agent can send them: texts in pieces, the ends of calls in any
// order, also after what is said next, and between all that what means nothing here.
func (r rounds) updates(t *rapid.T) (out []update) {
	noise := func() {
		switch rapid.IntRange(0, 7).Draw(t, "noise") {
		case 0:
			out = append(out, update{"sessionUpdate": "usage_update", "used": 10, "size": 100})
		case 1:
			out = append(out, update{"sessionUpdate": "available_commands_update", "availableCommands": []any{}})
		case 2:
			out = append(out, update{"sessionUpdate": "agent_message_chunk", "content": update{"type": "text", "text": ""}})
		case 3:
			out = append(out, update{"pause": rapid.IntRange(0, 3).Draw(t, "ms")})
		}
	}
	text := func(s string) update { return update{"type": "text", "text": s} }
	var ends [][]update // of the calls that have begun, each in its order
	end := func() {
		i := rapid.IntRange(0, len(ends)-1).Draw(t, "which ends")
		out, ends[i] = append(out, ends[i][0]), ends[i][1:]
		if len(ends[i]) == 0 {
			ends = slices.Delete(ends, i, i+1)
		}
	}
	for _, round := range r {
		for _, p := range round.said {
			kind := map[model.PartKind]string{model.Text: "agent_message_chunk", model.Reasoning: "agent_thought_chunk"}[p.Kind]
			for rest := p.Text; rest != ""; {
				n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
				out = append(out, update{"sessionUpdate": kind, "content": text(rest[:n])})
				rest = rest[n:]
				noise()
				if len(ends) > 0 && rapid.Bool().Draw(t, "ends early") {
					end()
				}
			}
		}
		for len(ends) > 0 {
			end()
			noise()
		}
		for _, c := range round.calls {
			if list := []any{update{"content": c.arg, "status": "pending", "priority": "high", "id": 7}}; c.tool == "todo" && rapid.Bool().Draw(t, "as a call") { // as opencode
				out = append(out, update{"sessionUpdate": "tool_call", "toolCallId": c.id, "title": "todowrite", "kind": "other", "status": "in_progress", "rawInput": update{"todos": list}})
				ends = append(ends, []update{{"sessionUpdate": "tool_call_update", "toolCallId": c.id, "status": "completed"}})
				continue
			}
			if c.tool == "todo" {
				out = append(out, update{"sessionUpdate": "plan", "entries": []any{update{"content": c.arg, "status": "pending", "priority": "high"}}})
				continue
			}
			kind := map[string]string{"bash": "execute", "read_file": "read"}[c.tool]
			input := update{"command": c.arg}
			if c.tool == "read_file" {
				input = update{"filePath": c.arg}
			}
			begin := update{"sessionUpdate": "tool_call", "toolCallId": c.id, "title": c.arg, "kind": kind, "status": "in_progress", "rawInput": input}
			if rapid.Bool().Draw(t, "pending first") {
				out = append(out, update{"sessionUpdate": "tool_call", "toolCallId": c.id, "title": c.tool, "kind": kind, "status": "pending", "rawInput": update{}})
				begin["sessionUpdate"] = "tool_call_update"
			}
			out = append(out, begin)
			status := map[bool]string{true: "failed", false: "completed"}[c.failed]
			done := update{"sessionUpdate": "tool_call_update", "toolCallId": c.id, "status": status}
			later := []update{done}
			switch rapid.IntRange(0, 2).Draw(t, "output") {
			case 0:
				done["content"] = []any{update{"type": "content", "content": text(c.result)}}
			case 1:
				done["rawOutput"] = update{"output": c.result}
			case 2:
				n := rapid.IntRange(0, len(c.result)).Draw(t, "printed")
				printed := func(s string) update {
					return update{"sessionUpdate": "tool_call_update", "toolCallId": c.id, "_meta": update{"terminal_output_delta": update{"data": s}}}
				}
				later = []update{printed(c.result[:n]), printed(c.result[n:]), done}
			}
			if rapid.Bool().Draw(t, "told twice") {
				later = append(later, done)
			}
			ends = append(ends, later)
			noise()
			if rapid.Bool().Draw(t, "ends at once") {
				end()
			}
		}
	}
	return out
}

// spoken sends the updates that its prompt holds.
func spoken(a *acptest.Agent, text string) string {
	_, text, _ = strings.Cut(text, "send ")
	text, _, _ = strings.Cut(text, "\n")
	var all []update
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		a.Say(err.Error())
	}
	for _, u := range all {
		if ms, is := u["pause"].(float64); is {
			time.Sleep(time.Duration(ms) * time.Millisecond)
			continue
		}
		a.Live(u)
	}
	return "end_turn"
}

// shown is what people see of a task but for the notes, and for what differs from run to run.
func shown(r *transcript.Run) (out []string) {
	for _, task := range r.Tasks {
		for _, p := range task.Parts {
			switch {
			case p.Kind == transcript.Note:
			case p.Tool != nil:
				out = append(out, fmt.Sprintf("%s %s %s %s %s: %s", p.Kind, p.Tool.Name, p.Tool.Arg, p.Tool.Input, p.Tool.State, p.Tool.Result))
			default:
				out = append(out, string(p.Kind)+" "+p.Text)
			}
		}
		out = append(out, fmt.Sprint(task.Todos))
	}
	return out
}

// However the updates of an agent are ordered and cut, people see the same as of an agent of ours that says and does the same.
func TestFold(t *testing.T) {
	t.Parallel()
	s := open(t, "spoken")
	theirs := s.begin(t)
	rapid.Check(t, func(rt *rapid.T) {
		want := genRounds(rt)
		sent := want.updates(rt)
		b, err := json.Marshal(sent)
		if err != nil {
			rt.Fatal(err)
		}
		in, err := json.Marshal(inputs{"send " + string(b)})
		if err != nil {
			rt.Fatal(err)
		}
		run, err := theirs.Start(t.Context(), "test", in, nil)
		if err != nil {
			rt.Fatal(err)
		}
		theirOutput := wait(t, run)
		own := &stage{store: runlog.NewMemory(nil)}
		engine := own.engineOf(t, &agent.Agent{Name: "worker", Model: want, Tools: want.tools(rt)})
		defer engine.Close()
		ours, err := engine.Start(t.Context(), "test", json.RawMessage(`{"prompt":"go"}`), nil)
		if err != nil {
			rt.Fatal(err)
		}
		if out := wait(t, ours); !strings.HasSuffix(string(out.Output), `The end."`) || string(out.Output) != string(theirOutput.Output) {
			rt.Fatalf("ours: got %+v, %s; theirs %+v, %s", out, out.Output, theirOutput, theirOutput.Output)
		}
		got, expected := shown(s.fold(t, run.ID())), shown(own.fold(t, ours.ID()))
		if !slices.Equal(got, expected) {
			rt.Fatalf("theirs\n\t%s\nours\n\t%s\nof %s", strings.Join(got, "\n\t"), strings.Join(expected, "\n\t"), b)
		}
	})
	if n := len(s.logged("start")); n != 1 {
		t.Errorf("%d processes", n)
	}
}
