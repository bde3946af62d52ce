package script

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/npm"
)

// What people publish is not too dense, but for whole compilers.
func TestDensityOfPackages(t *testing.T) {
	t.Parallel()
	files, refused := 0, []string{}
	err := filepath.WalkDir(npm.Modules(t), func(path string, d fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err != nil || d.IsDir() || ext != ".js" && ext != ".mjs" && ext != ".cjs" || strings.Contains(path, ".min.") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		if why := tooDense(string(b)); why != "" {
			refused = append(refused, path)
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Fatal(files, err)
	}
	t.Logf("%d files, refused: %v", files, refused)
	if len(refused) > files/100 {
		t.Errorf("%d of %d files are refused", len(refused), files)
	}
}

func TestDense(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"!", "(", "[", "a=", "a?1:", "new ", "if(1)", "a.", "a,", "`${", "class extends ", "await ", "/**/!", `";"?`, "a=>", "a:", "{"} {
		if tooDense(strings.Repeat(part, maxDensity+1)) == "" {
			t.Errorf("%q", part)
		}
	}
	if tooDenseData(strings.Repeat("[", maxDensity+1)) == "" {
		t.Error("JSON")
	}
}
