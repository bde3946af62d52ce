// Package cut reads the records of effects that were interrupted.
package cut

import (
	"bytes"
	"encoding/json"

	"github.com/superstep-dev/superstep/runlog"
)

// Event is the name of the event that keeps the output so far of an effect that was interrupted, such as the text of a model turn. It is for people: the
// effect has no outcome, so it is performed again. Its data is a runlog.Settled with Partial. No task may emit an event of that name.
const Event = "effect.cut"

// BrokeOff begins the error of a model turn that its provider broke off after the first token, and that is asked for again. What it said is discarded.
const BrokeOff = "answer broke off: "

// Of decodes a record of an interrupted effect. It returns nil for any other record.
func Of(r *runlog.Record) *runlog.Settled {
	if r.Kind != runlog.KindEvent || r.Seq == 0 || r.Path == "" || !bytes.HasPrefix(r.Data, []byte(`{"name":"`+Event+`"`)) {
		return nil
	}
	var e struct{ Data runlog.Settled }
	if json.Unmarshal(r.Data, &e) != nil {
		return nil
	}
	return &e.Data
}
