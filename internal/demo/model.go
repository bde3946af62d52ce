package demo

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

// Name is the name of the demo model.
const Name = "demo"

// environ is the variable that tells a process that it is part of the demo. It holds the share of
// human time that turns take, and "true" if one turn of the script must not end, so that the
// process can be killed in the middle of it.
const environ = "SUPERSTEP_DEMO"

// longest bounds how long a turn is held if nothing kills the process.
const longest = time.Minute

// A turn is what an agent says, and the calls that it makes.
type turn struct {
	Say   string
	Calls []model.Call
	Hold  bool
}

// turns is the script of the first demo: by the first word of a prompt. That of Ralph is a list, and the first entry counts whose text a prompt has.
type turns map[string][]turn

type ralphTurn struct {
	Has   string
	Turns []turn
}

// scriptedModel streams its script word by word. Unlike scripted.Model it finds its position in the
// script from the request alone, as a new process must.
type scriptedModel struct {
	pace float64
	hold bool
}

// Running reports whether this process is a part of the demo.
func Running(env func(string) string) bool { return env(environ) != "" }

// NewModel returns the scripted model of `demo`. It calls nothing. Env has the pace that `demo` sets.
func NewModel(env func(string) string) model.Model {
	m := &scriptedModel{pace: 1}
	how, hold, _ := strings.Cut(env(environ), " ")
	m.hold = hold == "true"
	if pace, err := strconv.ParseFloat(how, 64); err == nil {
		m.pace = pace
	}
	return m
}

// Name returns the constant Name.
func (m *scriptedModel) Name() string { return Name }

// Generate streams the turn that follows the turns in the request, so that a resumed run gets the same one.
func (m *scriptedModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	turn, hold := m.next(req)
	return func(yield func(model.Part, error) bool) {
		for p, err := range (&scripted.Model{Turns: []scripted.Turn{turn}}).Generate(ctx, req) {
			wait := m.spend(50 * time.Millisecond)
			if p.Kind == model.ToolCall && hold && m.hold {
				wait = longest
			}
			select {
			case <-ctx.Done():
				yield(model.Part{}, context.Cause(ctx))
				return
			case <-time.After(wait):
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

func (m *scriptedModel) spend(d time.Duration) time.Duration {
	return time.Duration(float64(d) * m.pace)
}

// next returns the turn that answers a request, and whether it is the one that may be held.
func (m *scriptedModel) next(req *model.Request) (out scripted.Turn, hold bool) {
	said, asked := 0, ""
	for _, msg := range slices.Backward(req.Messages) {
		switch msg.Role {
		case model.Assistant:
			said++
		case model.User:
			asked = msg.Text()
		}
	}
	who, _, _ := strings.Cut(asked, ":")
	var script turns
	var ralph []ralphTurn
	if err := errors.Join(decode("demo/turns.json", &script), decode("demo/ralph.json", &ralph)); err != nil {
		return scripted.Fail(err), false
	}
	turns := script[who]
	if i := slices.IndexFunc(ralph, func(e ralphTurn) bool { return strings.Contains(asked, e.Has) }); turns == nil && i >= 0 {
		turns = ralph[i].Turns
	}
	if said >= len(turns) {
		return scripted.Fail(errors.New("the model demo has turns for `superstep demo` only; name another with --model")), false
	}
	for word := range strings.SplitAfterSeq(turns[said].Say, " ") {
		out = out.And(scripted.Say(word))
	}
	_, rest, _ := strings.Cut(asked, "postmortem.md for ")
	audience, _, _ := strings.Cut(rest, " ") // as the person answered
	for _, c := range turns[said].Calls {
		out = out.And(scripted.Call(c.Name, strings.ReplaceAll(string(c.Args), "AUDIENCE", audience)))
	}
	out.Delay = m.spend(800 * time.Millisecond)
	return out, turns[said].Hold
}

func decode(file string, into any) error {
	text, err := files.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
