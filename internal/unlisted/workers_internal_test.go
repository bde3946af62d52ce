package unlisted

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
)

// A description fits into a summary, however much a worker has skipped.
func TestWorkerFits(t *testing.T) {
	w := Worker{Skips: map[string]string{}}
	for i := range 8 {
		w.Place = append(w.Place, fmt.Sprint(i, strings.Repeat("x", 31)))
		w.Skips[fmt.Sprint(i, strings.Repeat("w", 200))] = strings.Repeat("why ", 200)
	}
	text := w.encode()
	var got Worker
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(text) > runlog.MaxSummary-64 || len(got.Place) != 8 || len(got.Skips) == 0 {
		t.Errorf("%d bytes, %d labels, %d reasons, %v", len(text), len(got.Place), len(got.Skips), err)
	}
}
