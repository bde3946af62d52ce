package distil

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
)

// A long run takes no long time.
func TestManySteps(t *testing.T) {
	rec := &Recording{
		started: runlog.RunStarted{Workflow: "agent", Title: "Many", Inputs: json.RawMessage(`{"prompt":"Do much."}`)}, scopes: map[string]*scope{},
	}
	said := "nothing"
	for i := range 300 {
		prompt := fmt.Sprintf("Go on with number %d:\n%s", i, said)
		said = fmt.Sprintf("Output %d. ", i) + strings.Repeat(fmt.Sprintf("word%d and more. ", i), 250)
		rec.units = append(rec.units, &unit{kind: agentUnit, name: "worker", prompt: prompt, said: said, value: quoted(said), path: fmt.Sprint("p", i), asked: uint64(2*i + 1), ended: uint64(2*i + 2)})
	}
	rec.finished.Output = compact(map[string]string{"text": said})
	began := time.Now()
	made, err := Distil(t.Context(), rec, nil)
	if err != nil || made.Steps != 300 {
		t.Fatal(err)
	}
	if d := time.Since(began); d > faults.Bound(30*time.Second) {
		t.Errorf("it took %s", d)
	} else {
		t.Logf("300 steps of 5 KB in %s", d)
	}
}
