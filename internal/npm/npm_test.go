package npm_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/superstep-dev/superstep/internal/npm"
)

func TestModules(t *testing.T) {
	if _, err := os.Stat(filepath.Join(npm.Modules(t), "zod", "package.json")); err != nil {
		t.Error(err)
	}
}
