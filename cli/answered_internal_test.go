package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/runlog"
)

// Somebody who goes on with a run first is no failure of who has answered it.
func TestAnsweredAndTaken(t *testing.T) {
	var told bytes.Buffer
	a := newApp(&host.Config{Name: "superstep", Env: func(string) string { return "" }}, &Options{Stderr: &told, Args: []string{}})
	a.set.output = "text"
	if err := answerRecorded(a, "r1", fmt.Errorf("resuming: %w", &runlog.BusyError{ID: "r1", Owner: "host:7"})); err != nil {
		t.Error(err)
	}
	if got := told.String(); !strings.HasPrefix(got, "the answer is recorded, and host:7 runs r1; watch it: superstep runs watch r1") {
		t.Error(got)
	}
	for _, err := range []error{nil, context.Canceled, &runlog.BusyError{ID: "another"}} {
		if got := answerRecorded(a, "r1", err); got != err {
			t.Error(got)
		}
	}
}
