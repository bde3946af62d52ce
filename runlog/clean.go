package runlog

import (
	"encoding/json"
)

// A Cleaner is a Log that takes something out of what it is given before it is stored:
// secrets, for instance. Clean gives what would be stored of JSON, which is the same slice
// if nothing is taken out. What is cleaned once stays as it is.
type Cleaner interface {
	Clean(data json.RawMessage) json.RawMessage
}
