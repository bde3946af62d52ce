package runlog

import (
	"encoding/hex"
	"fmt"
)

// SealMark is the first byte of the Data of a sealed record, which no JSON begins with. A
// byte for the version of the seal follows, and four that name the key: see runlog/seal.
const SealMark = 0xa5

// A SealedError reports that what a store has of a run is encrypted, and that the store was
// opened without its key.
type SealedError struct {
	ID  string // of the run, "" if it is about a run that would not be encrypted like the others
	Key string // which key it is, "" if that cannot be seen
}

func (e *SealedError) Error() string {
	key := ""
	if e.Key != "" {
		key = " " + e.Key
	}
	if e.ID == "" {
		return fmt.Sprintf("the runs of this store are encrypted with key%s, and it was opened without a key: a new run would not be encrypted; "+
			"open the store with that key", key)
	}
	return fmt.Sprintf("run %s is encrypted with key%s; open the store with that key to read it", e.ID, key)
}

// checkSealed returns a *SealedError for a record that is encrypted, as it is read without a key.
func checkSealed(id string, r *Record) error {
	if len(r.Data) == 0 || r.Data[0] != SealMark {
		return nil
	}
	e := &SealedError{ID: id}
	if len(r.Data) >= 6 {
		e.Key = hex.EncodeToString(r.Data[2:6])
	}
	return e
}
