package cli

import (
	"path/filepath"

	"github.com/adrg/xdg"
)

// dataDir is where runs are kept: --data-dir, SUPERSTEP_DATA_DIR, or the user's own.
func (a *app) dataDir() string {
	return a.dir(a.set.dataDir, "XDG_DATA_HOME", xdg.DataHome)
}

func (a *app) cacheDir() string {
	return a.dir(a.opt.Env("SUPERSTEP_CACHE_DIR"), "XDG_CACHE_HOME", xdg.CacheHome)
}

func (a *app) dir(given, variable, home string) string {
	if given == "" {
		if v := a.opt.Env(variable); filepath.IsAbs(v) { // the XDG specification ignores others
			home = v
		}
		given = filepath.Join(home, "superstep")
	}
	if abs, err := filepath.Abs(given); err == nil {
		return abs
	}
	return given
}
