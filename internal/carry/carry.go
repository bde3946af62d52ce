// Package carry defines the record that follows a snapshot. Only the writer of a run needs it: the
// journal writes it and reads it back. Code that rewrites logs reads it too.
package carry

import (
	"encoding/json"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// Kind is the kind of the record.
const Kind runlog.Kind = "carried"

// Data holds the effects and questions of scopes outside the tasks of earlier supersteps. It
// follows a snapshot, so that they are found without reading those supersteps.
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

	Attachment []byte `json:"attachment,omitempty"`
}

// Scope holds the effects and questions of one scope.
type Scope struct {
	Path     string            `json:"path"`
	Settled  []runlog.Settled  `json:"settled,omitempty"`
	Intents  []Intent          `json:"intents,omitempty"`
	Asked    []runlog.Question `json:"asked,omitempty"`
	Answers  []runlog.Answer   `json:"answers,omitempty"`
	Attempts int               `json:"attempts,omitempty"`
	GivenUp  int               `json:"given_up,omitempty"`
}

// Intent holds how often an effect was attempted, and whether the last attempt has no outcome.
type Intent struct {
	Key  string         `json:"key"`
	N    int            `json:"n"`
	Open bool           `json:"open,omitempty"`
	Hint string         `json:"hint,omitempty"`
	Cost *runlog.Amount `json:"cost,omitempty"`
}

// Ledger is the budget of a run according to the log, and what was used by then.
type Ledger struct {
	Budget runlog.Budget `json:"budget,omitzero"`
	Spent  runlog.Amount `json:"spent,omitzero"`
	Wall   time.Duration `json:"wall,omitempty"`
}
