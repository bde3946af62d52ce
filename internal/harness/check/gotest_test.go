package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A run of real tests is counted by what they do, and the output of what failed is shown, and only that. A second run takes what has not changed from Go's
// cache of results; a variable that a test reads makes it run again.
func TestSuite(t *testing.T) {
	const head = "package a\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n"
	dir := plant(t, map[string]string{
		"go.mod":           "module example.org/a\n\ngo 1.26\n",
		"good/a_test.go":   head + "func TestGood(t *testing.T) {\n\tt.Run(\"sub\", func(t *testing.T) { t.Log(\"quiet\") })\n\tt.Run(\"skipped\", func(t *testing.T) { t.Skip(os.Args) })\n}\n",
		"asks/a_test.go":   head + "func TestAsks(t *testing.T) { t.Log(os.Getenv(\"SERVER\")) }\n",
		"bad/a_test.go":    head + "func TestBad(t *testing.T) {\n\tt.Run(\"fine\", func(t *testing.T) { t.Log(\"quiet\") })\n\tt.Run(\"sub\", func(t *testing.T) { t.Error(\"loud\") })\n}\n\nfunc TestFine(t *testing.T) { os.Getpid() }\n",
		"panics/a_test.go": head + "func TestPanics(t *testing.T) { panic(os.DevNull) }\n",
		"broken/a_test.go": head + "func TestBroken(t *testing.T) { undefined() }\n",
	})
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	t.Setenv("GOFLAGS", "")
	c := &check{out: newOutput(said), env: os.Environ(), times: &times{seconds: map[string]float64{}}, built: func() ([]string, error) { return nil, nil }}
	run := func(server string, packages ...string) *progress {
		t.Helper()
		p := &progress{lane: "test"}
		for i, pkg := range packages {
			packages[i] = "example.org/a/" + pkg
		}
		err := c.test(context.Background(), p, suite{dir: dir, packages: packages, env: []string{"SERVER=" + server}})
		if (err != nil) != (len(p.failed) > 0) {
			t.Errorf("%v, with %q failed", err, p.failed)
		}
		return p
	}
	p := run("1", "good", "asks", "bad", "panics", "broken")
	want := []string{"example.org/a/bad TestBad", "example.org/a/bad TestBad/sub", "example.org/a/broken (the package)", "example.org/a/panics TestPanics"}
	if d := cmp.Diff(want, slices.Sorted(slices.Values(p.failed))); d != "" {
		t.Error(d)
	}
	if p.passed != 5 || p.skipped != 1 || p.done != 5 || p.cached != 0 {
		t.Errorf("%d passed, %d skipped, %d packages, %d cached", p.passed, p.skipped, p.done, p.cached)
	}
	text, err := os.ReadFile(said.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"loud", "panic: /dev/null", "undefined: undefined", "FAIL\texample.org/a/bad", "ok  \texample.org/a/good"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "quiet") {
		t.Errorf("it shows what a test says that passed:\n%s", text)
	}
	if p := run("1", "good", "asks", "bad"); p.cached != 2 || len(p.slowest) != 3 {
		t.Errorf("with nothing changed %d packages were cached, and %d tests ran", p.cached, len(p.slowest))
	}
	if p := run("2", "good", "asks"); p.cached != 1 {
		t.Errorf("with another server %d packages were cached", p.cached)
	}
}

// A lane that takes longer than its limit fails with that, and what it started ends.
func TestLimit(t *testing.T) {
	c := &check{out: newOutput(os.NewFile(0, os.DevNull)), env: os.Environ()}
	l := lane{name: "slow", limit: 50 * time.Millisecond, run: func(ctx context.Context, c *check, _ *progress) error {
		_, err := c.run(ctx, ".", nil, "sleep", "600")
		return err
	}}
	r := c.one(context.Background(), l, &progress{})
	if r.err == nil || !strings.Contains(r.err.Error(), "longer than its limit of 50ms") {
		t.Errorf("%v", r.err)
	}
}

// Each lane of a set is there, and each argument is understood or refused.
func TestParse(t *testing.T) {
	for args, want := range map[string]string{
		"":                 "format modules build|vet test",
		"vet test":         "vet|test",
		"./cli ./host/...": "test",
		"race ./cli":       "race",
		"quick":            "format vet|most",
	} {
		stages, err := (&check{}).parse(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, stage := range stages {
			var names []string
			for _, l := range stage {
				names = append(names, l.name)
			}
			got = append(got, strings.Join(names, " "))
		}
		if s := strings.Join(got, "|"); s != want {
			t.Errorf("%q: %s, want %s", args, s, want)
		}
	}
	for _, s := range sets() {
		stages, err := (&check{}).parse([]string{s.name})
		if err != nil {
			t.Fatal(err)
		}
		for _, stage := range stages {
			for _, l := range stage {
				if l.run == nil {
					t.Errorf("%s has a lane that is not there: %v", s.name, s.stages)
				}
			}
		}
	}
	if _, err := (&check{}).parse([]string{"nothing"}); err == nil {
		t.Error("there is a lane that is called nothing")
	}
}
