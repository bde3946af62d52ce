package workflow_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/workflow"
)

func TestInputsAreLimited(t *testing.T) {
	text := &jsonschema.Schema{Type: "string"}
	w := &workflow.Workflow{Name: "w", Inputs: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"topic": text, "tone": text}}}
	const want = "input topic is 52.0 MiB; the inputs of a run may have 4 MiB in all: pass a file's path instead"
	large := strings.Repeat("x", 52<<20)
	if _, err := w.Parse([]string{"tone=dry", "topic=" + large}, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("as words: %.300v", err)
	}
	if err := w.Check(json.RawMessage(`{"tone":"dry","topic":"` + large + `"}`)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("as JSON: %.300v", err)
	}
	if err := w.Check(json.RawMessage(`{"topic":"` + large[:workflow.MaxInputs-20] + `"}`)); err != nil {
		t.Errorf("at the limit: %.300v", err)
	}
}
