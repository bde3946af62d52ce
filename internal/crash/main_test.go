//go:build unix

package crash_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/pgserver"
)

// shared is the Postgres of the tests that do not break it.
var shared pgserver.Shared

func TestMain(m *testing.M) {
	if os.Getenv(asWorker) != "" {
		workerMain()
		return
	}
	code := m.Run()
	shared.Close()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
