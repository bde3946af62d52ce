package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/stores"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/recipe/compile"
	"github.com/superstep-dev/superstep/workflow/recipe/library"
)

func TestMain(m *testing.M) {
	testscript.Main(leaks{m}, map[string]func(){"superstep": func() { os.Exit(Main(testOptions())) }})
}

// leaks finds goroutines that the tests leave behind.
type leaks struct{ m *testing.M }

func (l leaks) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		println(err.Error())
		return 1
	}
	return code
}

// testOptions are those of a program with the workflows of flows_test.go.
func testOptions() *Options {
	opt := &Options{
		Name:    "superstep",
		Version: "1.2.3",
		Setup: func(s *Setup) ([]*workflow.Workflow, error) {
			if s.Workflow == "nomodel" && s.Model == "" {
				return nil, NoModel("no model is configured (needed by workflow nomodel)", "set OPENAI_API_KEY", "or try it now: superstep run nomodel --model offline")
			}
			return flows(s)
		},
		Recipe: func(s *Setup, b *library.Bundle) (*workflow.Workflow, error) {
			return compile.New(&compile.Bundle{Main: b.Main, Uses: b.Uses}, recipes(s))
		},
		Restore: func(s *Setup, _ string, pinned json.RawMessage) (*workflow.Workflow, error) {
			return compile.Restore(pinned, recipes(s))
		},
		OpenStore: func(ctx context.Context, opt *runlog.OpenOptions) (runlog.Store, io.Closer, error) {
			if os.Getenv("TEST_NO_STORE") != "" {
				panic("the store was opened")
			}
			return stores.Open(ctx, opt)
		},
	}
	if d, err := time.ParseDuration(os.Getenv("TEST_HEARTBEAT")); err == nil {
		opt.heartbeat = d
	}
	return opt
}

// recipes is what recipes are run with: the tools of the project, and no model.
func recipes(s *Setup) *compile.Options {
	return &compile.Options{Open: func(ctx context.Context, _ *compile.Needs, _ *compile.Setting) (*compile.Crew, error) {
		p, err := project.Open(s.Project)
		if err != nil {
			return nil, err
		}
		session, err := p.Start(ctx, "")
		if err != nil {
			return nil, err
		}
		return &compile.Crew{Tools: session.Tools(), Gate: session.Gate(), Close: session.Close}, nil
	}}
}
