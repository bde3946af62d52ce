package modeltest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/model"
)

// ids checks that every call has an id of its own, whatever the server gives: the same when
// the same turn is asked for again, and another one than all that came before.
func (s suite) ids(t *testing.T) {
	for name, id := range map[string]string{"none": "", "one for all": "same"} {
		t.Run(name, func(t *testing.T) {
			s.idsOf(t, Reply{Parts: []model.Part{call(id, "search", `{"q":1}`), call(id, "search", `{"q":2}`)}})
		})
	}
}

func (s suite) idsOf(t *testing.T, two Reply) {
	m := s.model(t, Script{Handle: Sequence(two)})
	ask := func(req *model.Request) model.Message {
		got, err := model.Collect(m.Generate(t.Context(), req), nil)
		if err != nil {
			t.Fatal(err)
		}
		if calls := got.Message.Calls(); len(calls) != 2 || calls[0].ID == "" || calls[1].ID == "" || calls[0].ID == calls[1].ID {
			t.Fatalf("got the calls %v", calls)
		}
		return got.Message
	}
	req := request()
	first := ask(req)
	equal(t, ask(req), first)
	seen := map[string]bool{}
	for range 3 {
		turn := ask(req)
		req.Messages = append(req.Messages, turn)
		for _, c := range turn.Calls() {
			if seen[c.ID] {
				t.Errorf("the id %q occurs twice in a conversation", c.ID)
			}
			seen[c.ID] = true
			req.Messages = append(req.Messages, model.ToolResult(c, "found", false))
		}
		req.Key += "+"
	}
}

// collected is parts as they are in a message: adjacent deltas are one.
func collected(t *testing.T, parts []model.Part) []model.Part {
	t.Helper()
	r, err := model.Collect(func(yield func(model.Part, error) bool) {
		for _, p := range parts {
			if !yield(p, nil) {
				return
			}
		}
		yield(model.Part{Kind: model.Stop, Stop: model.StopEnd}, nil)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range r.Message.Parts {
		if p.Opaque != nil {
			r.Message.Parts[i].Opaque = &model.Opaque{Data: p.Opaque.Data}
		}
	}
	return r.Message.Parts
}

// signatures checks that what the provider wants back comes back, with the same part, even
// after the conversation was stored.
func (s suite) signatures(t *testing.T) {
	wire, ok := s.wire.(Signer)
	if !ok {
		t.Skip("the protocol has none")
	}
	sign := func(p model.Part, name string) model.Part {
		if wire.Signs(p.Kind) {
			p.Opaque = &model.Opaque{Data: json.RawMessage(`"` + name + `"`)}
		}
		return p
	}
	for name, parts := range map[string][]model.Part{
		"calls":            {reasoning("Hm, "), sign(reasoning("why."), "c2lnLXJl"), sign(call("1", "search", `{"q":1}`), "c2lnLWNh"), call("2", "note", `{}`)},
		"text and calls":   {sign(reasoning("Hm."), "c2lnLXJl"), text("Let me "), sign(text("see."), "c2lnLXRl"), text("Now."), sign(call("1", "search", `{}`), "c2lnLWNh")},
		"two reasonings":   {sign(reasoning("A"), "c2lnLTEx"), sign(reasoning("B"), "c2lnLTIy"), text("C")},
		"at the very end":  {text("So it "), text("is."), sign(text(""), "c2lnLWVu")},
		"long, odd, twice": {sign(reasoning("☃ "+strings.Repeat("é\n", 500)), strings.Repeat("QUJD", 2000)), text("x"), sign(call("1", "note", `{}`), "c2lnLWNh")},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []*ParsedRequest
			next := Sequence(Reply{Parts: parts}, Text("done"))
			m := s.model(t, Script{Handle: func(r *ParsedRequest) Reply { seen = append(seen, r); return next(r) }})
			req := request()
			got, err := model.Collect(m.Generate(t.Context(), req), nil)
			if err != nil {
				t.Fatal(err)
			}
			want := collected(t, parts)
			stored := throughJSON(t, got.Message)
			if len(stored.Parts) != len(want) {
				t.Fatalf("got %d parts, want %d: %+v", len(stored.Parts), len(want), stored.Parts)
			}
			for i, p := range stored.Parts {
				if p.Kind != want[i].Kind || p.Text != want[i].Text || (p.Opaque != nil) != (want[i].Opaque != nil) || p.Opaque != nil && p.Opaque.Provider == "" {
					t.Errorf("part %d is %+v, want %+v", i+1, p, want[i])
				}
			}
			req.Messages = append(req.Messages, stored)
			for _, c := range stored.Calls() {
				req.Messages = append(req.Messages, model.ToolResult(c, "found", false))
			}
			req.Messages = append(req.Messages, model.UserText("Go on."))
			if _, err := model.Collect(m.Generate(t.Context(), req), nil); err != nil {
				t.Fatal(err)
			}
			equal(t, collected(t, seen[len(seen)-1].Messages[1].Parts), want)
		})
	}
}

func throughJSON(t *testing.T, m model.Message) (out model.Message) {
	t.Helper()
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// opaque checks that what another provider wants back is not sent, and in nobody's way.
func (s suite) opaque(t *testing.T) {
	var got *ParsedRequest
	m := s.model(t, Script{Handle: func(r *ParsedRequest) Reply { got = r; return Text("ok") }})
	theirs := &model.Opaque{Provider: "somebody-else", Data: json.RawMessage(`{"signature":"b3BhcXVlLWNhbmFyeQ==","tail":1}`)}
	req := request()
	thought, said, asked := reasoning("Hm."), text("Let me see."), call("1", "search", `{"q":1}`)
	thought.Opaque, said.Opaque, asked.Opaque = theirs, theirs, theirs
	req.Messages = append(req.Messages, model.Message{Role: model.Assistant, Parts: []model.Part{thought, said, asked}},
		model.ToolResult(model.Call{ID: "1", Name: "search"}, "found", false))
	before := fmt.Sprintf("%+v", req.Messages)
	if _, err := model.Collect(m.Generate(t.Context(), req), nil); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(got.Body), "b3BhcXVlLWNhbmFyeQ") {
		t.Errorf("the request holds the data of another provider: %.500s", got.Body)
	}
	var parts []model.Part
	for _, p := range got.Messages[1].Parts {
		if p.Kind != model.Reasoning { // which many leave out
			parts = append(parts, p)
		}
	}
	equal(t, parts, []model.Part{text("Let me see."), call("1", "search", `{"q":1}`)})
	if after := fmt.Sprintf("%+v", req.Messages); after != before {
		t.Errorf("the model changed the request to %s", after)
	}
}

// schema checks that the server hears what the answer must fit, beside tools or without.
func (s suite) schema(t *testing.T) {
	wire, ok := s.wire.(Schemer)
	if !ok {
		t.Skip("the protocol cannot say it")
	}
	want := &jsonschema.Schema{
		Type: "object", Required: []string{"answer"}, Properties: map[string]*jsonschema.Schema{"answer": {Type: "string"}},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	var got *ParsedRequest
	m := s.model(t, Script{Handle: func(r *ParsedRequest) Reply { got = r; return Text(`{"answer":"42"}`) }})
	for name, tools := range map[string][]model.ToolSpec{"alone": nil, "with tools": request().Tools} {
		t.Run(name, func(t *testing.T) {
			req := request()
			req.Schema, req.Tools = want, tools
			r, err := model.Collect(m.Generate(t.Context(), req), nil)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, r.Message.Parts, []model.Part{text(`{"answer":"42"}`)})
			seen, err := wire.Schema(got.Body)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, seen, want)
			equal(t, got.Tools, tools)
		})
	}
	t.Run("none", func(t *testing.T) {
		if _, err := model.Collect(m.Generate(t.Context(), request()), nil); err != nil {
			t.Fatal(err)
		}
		if seen, err := wire.Schema(got.Body); err != nil || seen != nil {
			t.Errorf("the server heard of the schema %v (%v)", seen, err)
		}
	})
}
