package host

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/model"
)

// A ModelTurn is the result of one turn of a model's test.
type ModelTurn struct {
	What    string `json:"what"` // text or tool
	MS      int64  `json:"ms"`
	FirstMS int64  `json:"first_ms"` // until the first part of the answer
	In      int    `json:"tokens_in"`
	Out     int    `json:"tokens_out"`
	Cost    *int64 `json:"cost_micros,omitempty"` // in millionths of a US dollar, nil if the price is not known
	Said    string `json:"said,omitempty"`        // in full

	Took time.Duration `json:"-"`
}

// testOutput is the most tokens that a turn of a test may have: enough for a model to think a little.
const testOutput = 2048

// TestModel asks a model for a text and for a tool call, and calls turn with the result of each.
func TestModel(ctx context.Context, m model.Model, turn func(*ModelTurn)) error {
	req := &model.Request{
		System:   "You are tested. Answer as briefly as you can.",
		Messages: []model.Message{model.UserText("Repeat the text between the tags, and nothing else.\n<text>ready now</text>")}, MaxTokens: testOutput,
	}
	t, _, err := testTurn(ctx, m, "text", req)
	if err != nil {
		return err
	}
	turn(t)
	req.Messages = []model.Message{model.UserText("Call the tool search.\nQuery: ready")}
	req.Tools = []model.ToolSpec{{
		Name: "search", Description: "Searches documents for words.",
		Input: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"query": {Type: "string", Description: "the words"}},
			Required: []string{"query"}},
	}}
	t, calls, err := testTurn(ctx, m, "tool", req)
	if err != nil {
		return err
	}
	if len(calls) == 0 {
		return &Error{Code: "no_tools", Message: m.Name() + " answers, but calls no tools; workflows with tools need a model that does"}
	}
	var args bytes.Buffer
	if json.Compact(&args, calls[0].Args) != nil {
		args.Write(calls[0].Args)
	}
	t.Said = transcript.Line(calls[0].Name + args.String())
	turn(t)
	return nil
}

func testTurn(ctx context.Context, m model.Model, what string, req *model.Request) (*ModelTurn, []model.Call, error) {
	turn, start := &ModelTurn{What: what}, time.Now()
	r, err := model.Collect(m.Generate(ctx, req), func(model.Part) {
		if turn.FirstMS == 0 {
			turn.FirstMS = max(1, time.Since(start).Milliseconds())
		}
	})
	if err != nil {
		return nil, nil, err
	}
	turn.Took = time.Since(start)
	turn.MS, turn.In, turn.Out, turn.Said = max(1, turn.Took.Milliseconds()), r.Usage.In, r.Usage.Out, transcript.Line(r.Message.Text())
	if p, ok := m.(model.Priced); ok {
		if price, known := p.Price(); known {
			cost := price.Of(r.Usage)
			turn.Cost = &cost
		}
	}
	return turn, r.Message.Calls(), nil
}
