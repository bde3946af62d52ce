package runlog

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Imported is the mark of a run that was imported from a file, and of all its forks. The import
// writes it into the first record, and replaces any such mark in the file. A file carries no
// rights: an imported run works in Dir, under the rules of the user who continues it.
type Imported struct {
	Time    time.Time `json:"time"`
	Dir     string    `json:"dir,omitempty"` // the folder to work in, absolute
	Digest  string    `json:"digest"`        // of the whole file: "sha256:" and 64 hexadecimal digits
	Records uint64    `json:"records"`       // how many of the first records come from the file; 0 in a fork
	// Nonce is drawn at random by the import, so that no file can know it; see Own of journal.Scope.
	Nonce string `json:"nonce"`
}

// Started returns how a run began. It returns nil for a run without records, and for one that does
// not begin with KindRunStarted.
func Started(ctx context.Context, store Store, id string) (*RunStarted, error) {
	recs, err := store.Read(ctx, id, 1, 1)
	if err != nil || len(recs) == 0 || recs[0].Kind != KindRunStarted {
		return nil, err
	}
	r, d := &recs[0], &RunStarted{}
	if err := checkSealed(id, r); err != nil || len(r.Data) == 0 {
		return d, err
	}
	if err := json.Unmarshal(r.Data, d); err != nil {
		return nil, fmt.Errorf("run %s: record %d (%s): %w", id, r.Seq, r.Kind, err)
	}
	return d, nil
}

// Origin returns the mark of an imported run, nil for any other. A run without records has none.
func Origin(ctx context.Context, store Store, id string) (*Imported, error) {
	d, err := Started(ctx, store, id)
	if err != nil || d == nil {
		return nil, err
	}
	return d.Imported, nil
}
