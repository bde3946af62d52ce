// Package carry has the record that follows a snapshot, which only the writer of a run needs: the journal writes it and reads it back, and
// whoever changes a log on its way looks into it.
package carry

import (
	"encoding/json"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// Kind is the kind of the record.
const Kind runlog.Kind = "carried"

// Data follows a snapshot: what scopes have done and asked that belong to no task of
// the supersteps before it, so that it is found without reading those.
type Data struct {
	Scopes []Scope  `json:"scopes"`
	Ledger *Ledger  `json:"ledger,omitempty"`
	Inner  []Record `json:"inner,omitempty"` // of the graphs that tasks run, since the last snapshot of each

	Granted []string `json:"granted,omitempty"` // see Grant of journal.Scope
	Handled []string `json:"handled,omitempty"` // the IDs of the requests that have left a record
}

// Record is a record from before a snapshot.
type Record struct {
	Kind runlog.Kind     `json:"kind"`
	Path string          `json:"path,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Scope is what one scope has done and asked.
type Scope struct {
	Path     string            `json:"path"`
	Settled  []runlog.Settled  `json:"settled,omitempty"`
	Intents  []Intent          `json:"intents,omitempty"`
	Asked    []runlog.Question `json:"asked,omitempty"`
	Answers  []runlog.Answer   `json:"answers,omitempty"`
	Attempts int               `json:"attempts,omitempty"`
	GivenUp  int               `json:"given_up,omitempty"`
}

// Intent is how often an effect was intended, and whether the last time has no outcome.
type Intent struct {
	Key  string         `json:"key"`
	N    int            `json:"n"`
	Open bool           `json:"open,omitempty"`
	Hint string         `json:"hint,omitempty"`
	Cost *runlog.Amount `json:"cost,omitempty"`
}

// Ledger is the budget of a run, as the log has it, and what was used by then.
type Ledger struct {
	Budget runlog.Budget `json:"budget,omitzero"`
	Spent  runlog.Amount `json:"spent,omitzero"`
	Wall   time.Duration `json:"wall,omitempty"`
}
