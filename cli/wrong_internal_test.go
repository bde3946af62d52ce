package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/workflow"
)

// What is wrong with the program itself is told to people in a sentence, and to programs as JSON.
func TestWrongProgram(t *testing.T) {
	t.Parallel()
	w, err := hello()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"workflows", "list"}, "error: "},
		{[]string{"doctor"}, "error: "},
		{[]string{"doctor", "-o", "json"}, `{"error":`},
	} {
		var out, errs bytes.Buffer
		cfg := &host.Config{Name: "author", Dir: t.TempDir(), Workflows: []*workflow.Workflow{w, w}, Env: func(string) string { return "" }, Environ: []string{"A=b"}}
		code := Run(context.Background(), cfg, &Options{Args: c.args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
		if code != ExitFailed || !strings.HasPrefix(errs.String(), c.want) || !strings.Contains(errs.String(), "hello") {
			t.Errorf("%v: exit code %d: %s", c.args, code, &errs)
		}
	}
}
