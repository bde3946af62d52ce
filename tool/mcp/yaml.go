package mcp

import (
	"errors"

	"github.com/superstep-dev/superstep/internal/frontmatter"
)

// parseYAML reads the YAML that has the meaning of JSON: no aliases, no tags, no merging.
func parseYAML(data []byte) (*node, *ConfigError) {
	v, refused, err := frontmatter.Tree(data, nil)
	if err == nil && len(refused) > 0 {
		err = refused[0]
	}
	if wrong, ok := errors.AsType[*frontmatter.Error](err); ok {
		return nil, &ConfigError{Line: wrong.Line, Col: wrong.Col, Text: oneLine(wrong.Text, 200)}
	}
	return v, nil
}
