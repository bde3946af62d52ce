package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	sdk "go.temporal.io/sdk/temporal"
)

// What a user gets wrong is said with what to do about it.
func TestMistakes(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"} {
		t.Setenv(name, home)
	}
	t.Setenv("SUPERSTEP_STORE", "")
	t.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:2")
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--help", 0, "Usage:"},
		{"start --help", 0, "start WORKFLOW [INPUT...]"},
		{"wrok", 2, "unknown command"},
		{"start", 2, "superstep-temporal start --help"},
		{"worker --singel", 2, "unknown flag"},
		{"worker", 1, "--single"},
		{"worker --place GPU", 1, "GPU"},
		{"worker --single --address 127.0.0.1:1", 1, "no Temporal answers at 127.0.0.1:1"},
		{"worker --single", 1, "no Temporal answers at 127.0.0.1:2"},
		{"start reserch", 1, `did you mean "research"?`},
	} {
		var out bytes.Buffer
		if code := run(t.Context(), strings.Fields(c.args), &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: exit code %d, want %d; want %q in\n%s", c.args, code, c.code, c.want, &out)
		}
	}
}

// An activity that is attempted again and again fills no screen.
func TestErrorsAreSaidOnce(t *testing.T) {
	var out bytes.Buffer
	l := logger(&out)
	for range 3 {
		for _, id := range []string{"a", "b"} {
			l.With("Namespace", "n").Error("Activity error.", "WorkflowID", id, "Error", sdk.NewApplicationError("no run in the store", ""))
		}
		l.Error("Activity error.", "WorkflowID", "a", "Error", errors.New("no disk"))
	}
	l.Warn("something else")
	if got := strings.Count(out.String(), " run b: no run in the store\n"); got != 1 || !strings.Contains(out.String(), "something else") {
		t.Errorf("%d times:\n%s", got, &out)
	}
}
