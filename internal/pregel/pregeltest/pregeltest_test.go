package pregeltest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/internal/pregel/pregeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLocal(t *testing.T) { pregeltest.Run(t, pregel.Run) }

func TestLocalParallel(t *testing.T) { pregeltest.RunParallel(t, pregel.Run) }

func TestSequential(t *testing.T) { pregeltest.Run(t, pregeltest.Sequential) }

func TestShuffled(t *testing.T) {
	for seed := range uint64(20) {
		pregeltest.Run(t, pregeltest.Shuffled[pregeltest.State, string, int](seed))
	}
}
