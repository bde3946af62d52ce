package recipe

import (
	_ "embed"
	"slices"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft-07) of recipe files, with a description of every field for
// editors. It refuses exactly the documents for which Parse reports a structural problem.
func Schema() []byte { return slices.Clone(schema) }
