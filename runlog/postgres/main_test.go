package postgres

import (
	"fmt"
	"os"
	"testing"

	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"go.uber.org/goleak"
)

// TestMain is also the main function of the processes that tests start.
func TestMain(m *testing.M) {
	runlogtest.Work(worker)
	code := m.Run()
	shared.Close()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
