package stores_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/runlog/seal"
	"github.com/superstep-dev/superstep/runlog/storekit"
	"github.com/superstep-dev/superstep/runlog/stores"
)

func open(t *testing.T, opt *runlog.OpenOptions) runlog.Store {
	t.Helper()
	s, c, err := stores.Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// What the options of a place say reaches the store.
func TestProtected(t *testing.T) {
	for _, kind := range []string{"file", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			runlogtest.RunProtected(t, func(t *testing.T) *runlogtest.Site {
				dir := t.TempDir()
				return &runlogtest.Site{
					Open: func(t *testing.T, p *storekit.Protection) runlog.Store {
						var keys []string
						for _, k := range p.Keys {
							keys = append(keys, k.Encode())
						}
						return open(t, &runlog.OpenOptions{
							Place: runlog.Place{Kind: kind, Path: filepath.Join(dir, "runs")},
							Raw:   p.Raw, Keys: strings.Join(keys, ",\n"), Environ: p.Environ,
						})
					},
					Stored: func(t *testing.T) []byte { return runlogtest.Files(t, dir) },
				}
			})
		})
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	for raw, want := range map[bool]string{false: "[redacted:MY_TOKEN]", true: "9f86d081884c7d65"} {
		s := open(t, &runlog.OpenOptions{Place: runlog.Place{Kind: "memory"}, Environ: []string{"MY_TOKEN=9f86d081884c7d65"}, Raw: raw})
		if _, info, err := s.Acquire(t.Context(), "r", &runlog.AcquireOptions{Create: &runlog.NewRun{Title: "9f86d081884c7d65"}}); err != nil || info.Title != want {
			t.Errorf("raw %v: listed as %q, error %v", raw, info.Title, err)
		}
	}
}

func TestBadKey(t *testing.T) {
	t.Parallel()
	for _, keys := range []string{"short", seal.NewKey().Encode() + " short"} {
		_, _, err := stores.Open(t.Context(), &runlog.OpenOptions{Place: runlog.Place{Kind: "memory"}, Keys: keys})
		if err == nil || !strings.Contains(err.Error(), "a key is 32 bytes") || strings.Contains(err.Error(), "short") {
			t.Errorf("%d keys: %v", strings.Count(keys, " ")+1, err)
		}
	}
}
