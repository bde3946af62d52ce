package agent

import (
	"encoding/json"
	"iter"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

// A Token is a piece of what a model is saying, for the task of that path.
type Token struct {
	Path  string
	Agent string
	Kind  model.PartKind // model.Text or model.Reasoning
	Text  string
}

// Tokens yields the streamed pieces of model output among the records of a run that is followed while it executes. They are live-only: a store has none,
// and the finished turn holds the full text.
func Tokens(records iter.Seq2[runlog.Record, error]) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		for r, err := range records {
			t := Token{Path: r.Path}
			if err == nil {
				if r.Kind != runlog.KindEvent || r.Seq != 0 {
					continue
				}
				var e runlog.Event
				if err = json.Unmarshal(r.Data, &e); err == nil {
					if t.Kind = model.PartKind(e.Name); t.Kind != model.Text && t.Kind != model.Reasoning {
						continue
					}
					var d delta
					err = json.Unmarshal(e.Data, &d)
					t.Agent, t.Text = d.Agent, d.Text
				}
			}
			if !yield(t, err) {
				return
			}
		}
	}
}
