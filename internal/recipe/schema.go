package recipe

import (
	_ "embed"
	"slices"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft-07) of recipe files, with a description of every field for
// editors. It refuses what Parse has a structural problem with, and nothing else.
func Schema() []byte { return slices.Clone(schema) }
