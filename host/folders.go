package host

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/adrg/xdg"

	"github.com/superstep-dev/superstep/project"
)

// DataDir returns the folder where runs are kept.
func (h *Host) DataDir() string { return h.folder(h.cfg.DataDir, "XDG_DATA_HOME", xdg.DataHome) }

// CacheDir returns the folder for what can be made again.
func (h *Host) CacheDir() string {
	return h.folder(h.cfg.Env("SUPERSTEP_CACHE_DIR"), "XDG_CACHE_HOME", xdg.CacheHome)
}

// ConfigDir returns the user's own folder for what they configure, whatever SUPERSTEP_CONFIG says: the folder of that file may
// be one that others write to.
func (h *Host) ConfigDir() string { return h.folder("", "XDG_CONFIG_HOME", xdg.ConfigHome) }

// Home returns the user's home, "" for none.
func (h *Host) Home() string {
	home := h.cfg.Env("HOME")
	if !filepath.IsAbs(home) {
		home, _ = os.UserHomeDir() // "" is no home
	}
	return home
}

// Dir returns the folder of the project, "" for none.
func (h *Host) Dir() string {
	here := h.cfg.Dir
	if here == "" {
		var err error
		if here, err = os.Getwd(); err != nil {
			return ""
		}
	}
	return project.Root(here, h.Home())
}

// RunDir returns the folder of a run for people and other tools. Each store has its own.
func (h *Host) RunDir(id string) string {
	dir := h.DataDir()
	if p, err := h.Place(); err == nil && h.cfg.Store != "" {
		sum := sha256.Sum256([]byte(p.String()))
		dir = filepath.Join(dir, "stores", p.Kind+"-"+hex.EncodeToString(sum[:6]))
	}
	return filepath.Join(dir, "runs", id)
}

// homeless reports whether nothing says where runs are kept.
func (h *Host) homeless() bool {
	_, err := os.UserHomeDir()
	return err != nil && h.cfg.DataDir == "" && !filepath.IsAbs(h.cfg.Env("XDG_DATA_HOME"))
}

func (h *Host) folder(given, variable, home string) string {
	if given == "" {
		if v := h.cfg.Env(variable); filepath.IsAbs(v) { // the XDG specification ignores others
			home = v
		}
		given = filepath.Join(home, "superstep")
	}
	return absolute(given)
}

// absolute returns a path from the root, where that can be found.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
