package superstep_test

import (
	"testing"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/hosttest"
)

// A process and a worker are hosts. Temporal is one in module temporal.
func TestHosts(t *testing.T) {
	kills := 66
	if faults.Full() {
		kills = 0
	}
	t.Run("process", func(t *testing.T) {
		hosttest.Run(t, kills, func(*testing.T) hosttest.Host { return hosttest.InProcess() })
	})
	t.Run("pool", func(t *testing.T) { hosttest.Run(t, kills, func(*testing.T) hosttest.Host { return hosttest.Pool() }) })
}
