package runlog

import (
	"encoding/hex"
	"fmt"
)

// SealMark is the first byte of the Data of a sealed record, which no JSON begins with. A
// byte for the version of the seal follows, and four that name the key: see runlog/seal.
const SealMark = 0xa5

// A SealedError says that what a store has of a run is sealed, and was to be read without
// its key.
type SealedError struct {
	ID  string // of the run
	Key string // which key it is, "" if that cannot be seen
}

func (e *SealedError) Error() string {
	key := ""
	if e.Key != "" {
		key = " " + e.Key
	}
	return fmt.Sprintf("run %s is sealed with key%s; open the store with that key to read it", e.ID, key)
}

// CheckSealed gives *SealedError for a record that is sealed, as who has no key finds it.
func CheckSealed(id string, r *Record) error {
	if len(r.Data) == 0 || r.Data[0] != SealMark {
		return nil
	}
	e := &SealedError{ID: id}
	if len(r.Data) >= 6 {
		e.Key = hex.EncodeToString(r.Data[2:6])
	}
	return e
}
