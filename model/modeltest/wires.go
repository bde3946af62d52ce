package modeltest

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/model"
)

// A Signer is a [Wire] on which parts can have what only the provider understands and wants
// back, such as the signature of its reasoning. In the parts of a [Reply] the Data of their
// Opaque is that signature, a JSON string. In a [ParsedRequest] the Opaque of the parts that
// came back is read the same way; who made it is not compared.
type Signer interface {
	Wire
	// Signs says whether parts of this kind can.
	Signs(kind model.PartKind) bool
}

// A Schemer is a [Wire] whose requests can say which schema the text of the answer must fit.
type Schemer interface {
	Wire
	// Schema returns that schema, or nil when the request asks for none.
	Schema(body []byte) (*jsonschema.Schema, error)
}

// A Lossy wire cannot carry all counts of a usage.
type Lossy interface {
	Wire
	// Keeps returns what a client can know of u.
	Keeps(u model.Usage) model.Usage
}
