package postgres

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is also the main function of the processes that tests start: TEST_DSN says
// which server they use.
func TestMain(m *testing.M) {
	if dsn := os.Getenv("TEST_DSN"); dsn != "" {
		if err := worker(dsn); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	shared.Close()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
