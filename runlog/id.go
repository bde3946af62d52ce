package runlog

import (
	"fmt"
	"unicode"
)

// maxID is the number of bytes a run ID may have.
const maxID = 64

// CheckID returns what is wrong with a run ID, if anything. IDs end up in file names,
// keys and addresses, so they are 1 to maxID of a-z, 0-9 and -.
func CheckID(id string) error {
	if id == "" {
		return fmt.Errorf("a run needs an ID of a-z, 0-9 and -")
	}
	if len(id) > maxID {
		return fmt.Errorf("run ID %.16q… has %d bytes, at most %d are allowed", id, len(id), maxID)
	}
	for i, r := range id {
		if r > unicode.MaxASCII || !idByte(id[i]) {
			return fmt.Errorf("run ID %q has %q at byte %d, only a-z, 0-9 and - are allowed", id, r, i+1)
		}
	}
	return nil
}

func idByte(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' }
