package transcript_test

import (
	"testing"

	"github.com/superstep-dev/superstep/internal/transcript"
)

// Nobody is shown the marks by which the log keeps the graphs of one task apart.
func TestLabel(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"gather[tests]#2":    "gather/tests#2",
		"p/~[try-2]/y":       "p/try-2/y",
		"work/~[survey-1]/1": "work/survey-1/1",
		"work/~[4970c5d5f06e176d641a42a35918dc3e]/gather[a]": "work/gather/a",
		"work[4970c5d5f06e176d641a42a35918dc3e]":             "work/4970c5d5f06e176d641a42a35918dc3e",
	} {
		if got := (&transcript.Task{Path: path}).Label(); got != want {
			t.Errorf("%s is shown as %s, want %s", path, got, want)
		}
	}
}
