package arguments

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep/workflow"
)

func brief() *workflow.Workflow {
	return &workflow.Workflow{Name: "brief", Inputs: &jsonschema.Schema{
		Type: "object", Required: []string{"topic"}, PropertyOrder: []string{"topic", "max_pages"},
		Properties: map[string]*jsonschema.Schema{"topic": {Type: "string", Description: "What it is about"}, "max_pages": {Type: "integer"}},
	}}
}

// What is given by word, by flag and by standard input becomes one object.
func TestInputs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		g    Given
		args []string
		want string // or the end of an error
	}{
		"words":        {Given{Words: []string{"Pregel"}}, nil, `{"topic":"Pregel"}`},
		"a pair":       {Given{Pairs: []string{"topic=a=b"}}, nil, `{"topic":"a=b"}`},
		"a flag":       {Given{Words: []string{"topic=x"}}, []string{"--max-pages", "3"}, `{"max_pages":3,"topic":"x"}`},
		"a pipe":       {Given{Words: []string{"-"}, Stdin: strings.NewReader(" from a pipe\n")}, nil, `{"topic":"from a pipe"}`},
		"a file":       {Given{File: "-", Stdin: strings.NewReader(`{"topic":"x"}`)}, nil, `{"topic":"x"}`},
		"no pipe":      {Given{File: "-"}, nil, "standard input is not read with --no-input; name a file"},
		"twice":        {Given{Pairs: []string{"topic=x", "max_pages=1"}}, []string{"--max-pages", "3"}, "--max-pages and -i max_pages are both given"},
		"a wrong file": {Given{File: "-", Stdin: strings.NewReader("{\n\"topic\" 1}")}, nil, "--inputs: standard input:2:9: want a JSON object: invalid character '1' after object key"},
	} {
		c.g.Flags = pflag.NewFlagSet("", pflag.ContinueOnError)
		AddFlags(c.g.Flags, func(string) bool { return false }, brief())
		if err := c.g.Flags.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		got, err := c.g.Inputs(brief())
		if err == nil && string(got) != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		if wrong := new(workflow.InputsError); err != nil && (!errors.As(err, &wrong) || !strings.Contains(strings.Join(wrong.Problems, "\n"), c.want)) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestDescriptions(t *testing.T) {
	t.Parallel()
	if got := Sample(brief()); got != ` "the topic"` {
		t.Errorf("%q", got)
	}
	want := "Inputs:\n  topic         string   What it is about (required)\n  max_pages     integer"
	if got := strings.Join(Lines(brief().List()), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Retype([]string{"run", "a b", "--model=x"}, "--model", "offline"); got != "run 'a b' --model offline" {
		t.Errorf("%q", got)
	}
	if d, err := Days("2w"); err != nil || d != 14*24*time.Hour {
		t.Errorf("%s %v", d, err)
	}
	if _, err := Days("soon"); err == nil {
		t.Error("soon is a duration")
	}
}
