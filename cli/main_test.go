package cli

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/stores"
	"github.com/superstep-dev/superstep/workflow"
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
