package runlog_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
)

// The schema of a question may be a stranger's, in an imported run. One that a check would never end with is refused.
func TestFitsEnds(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"$ref":"#"}`: "refers to itself",
		`{"not":{"$ref":"#/$defs/a%2Fnot"},"$defs":{"a%2Fnot":{},"a":{"not":{"$ref":"#/$defs/a%2Fnot"}}}}`: "refers to itself",
		`{"type":"integer"}`: "",
	} {
		q := &runlog.Question{Schema: json.RawMessage(schema)}
		if err := q.Fits(json.RawMessage("1")); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", schema, err, want)
		}
	}
}
