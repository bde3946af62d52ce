package host

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"

	"github.com/adrg/xdg"

	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/procgroup"
)

// DataDir returns the folder where runs are kept.
func (h *Host) DataDir() string { return h.folder(h.cfg.DataDir, "XDG_DATA_HOME", xdg.DataHome) }

// CacheDir returns the folder for files that can be recreated.
func (h *Host) CacheDir() string {
	return h.folder(h.cfg.Env("SUPERSTEP_CACHE_DIR"), "XDG_CACHE_HOME", xdg.CacheHome)
}

// ConfigDir returns the user's own configuration folder, regardless of SUPERSTEP_CONFIG: other users may have write access to the folder of that file.
func (h *Host) ConfigDir() string { return h.folder("", "XDG_CONFIG_HOME", xdg.ConfigHome) }

// Home returns the user's home, or "" if it is unknown.
func (h *Host) Home() string {
	for _, variable := range []string{"HOME", "USERPROFILE"} {
		if home := h.cfg.Env(variable); filepath.IsAbs(home) {
			return home
		}
	}
	return ""
}

// Temp returns the folder for temporary files.
func (h *Host) Temp() string { return cmp.Or(h.cfg.Env("TMPDIR"), os.TempDir()) }

// Abs returns the absolute path of one that the user gave: a relative one is relative to the folder to work in.
func (h *Host) Abs(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(h.cfg.Dir, path)
	}
	return filepath.Clean(path)
}

// Program returns the path of a program, by its own path or by the PATH of the environment.
func (h *Host) Program(name string) (string, error) {
	if filepath.Base(name) != name {
		name = h.Abs(name)
	}
	return procgroup.Look(h.cfg.Environ, name)
}

// Dir returns the folder of the project, or "" without a project.
func (h *Host) Dir() string {
	if h.cfg.Dir == "" {
		return ""
	}
	return rootOf(h.cfg.Dir, h.Home())
}

// RunDir returns the folder of a run, which users and other tools read. Each store has its own.
func (h *Host) RunDir(id string) string {
	dir := h.DataDir()
	if p, err := h.Place(); err == nil && h.cfg.Store != "" {
		sum := sha256.Sum256([]byte(p.String()))
		dir = filepath.Join(dir, "stores", p.Kind+"-"+hex.EncodeToString(sum[:6]))
	}
	return filepath.Join(dir, "runs", id)
}

// sockets returns the paths at which other processes of this user can follow an executing run: in the user's runtime folder, or else in the data folder.
// Both are tried, for two processes may differ in their environments.
func (h *Host) sockets(id string) (paths []string) {
	p, err := h.Place()
	if err != nil || p.Kind == "memory" || runtime.GOOS == "windows" {
		return []string{}
	}
	if real, err := filepath.EvalSymlinks(p.Path); err == nil {
		p.Path = real
	}
	sum := sha256.Sum256([]byte(p.String()))
	name := hex.EncodeToString(sum[:4]) + "-" + id + ".sock"
	if dir := h.runtimeDir(); dir != "" {
		paths = append(paths, filepath.Join(dir, name))
	}
	return append(paths, filepath.Join(h.DataDir(), "live", name))
}

// runtimeDir returns the folder for sockets of this user, "" for none.
func (h *Host) runtimeDir() string {
	if dir := h.cfg.Env("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "superstep")
	}
	return ""
}

// homeless reports whether no folder for runs is known.
func (h *Host) homeless() bool {
	return h.Home() == "" && h.cfg.DataDir == "" && !filepath.IsAbs(h.cfg.Env("XDG_DATA_HOME"))
}

func (h *Host) folder(given, variable, usual string) string {
	if given == "" {
		if v := h.cfg.Env(variable); filepath.IsAbs(v) { // the XDG specification ignores others
			usual = v
		} else if below, err := filepath.Rel(xdg.Home, usual); err == nil && filepath.IsLocal(below) && h.Home() != "" {
			usual = filepath.Join(h.Home(), below)
		}
		given = filepath.Join(usual, "superstep")
	}
	return h.Abs(given)
}

// rootOf returns the root of the project that a folder belongs to. The root is the nearest folder,
// from the given one upwards, with files of agents, tools or version control. If no folder has any,
// rootOf returns the given folder. The user's home, the root of the file system and world-writable
// folders such as /tmp are never the project of a folder below them.
func rootOf(dir, home string) string {
	marks := catalog.RootMarks()
	for at := dir; at != home; {
		for _, m := range marks {
			if _, err := os.Lstat(filepath.Join(at, m)); err == nil && (at == dir || !common(at)) {
				return at
			}
		}
		up := filepath.Dir(at)
		if up == at {
			break
		}
		at = up
	}
	return dir
}

// common reports whether a folder cannot be the root of a project for the folders below it.
func common(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.Mode()&os.ModeSticky != 0 || filepath.Dir(dir) == dir
}

// results returns the folder for the results of a run that are too large for a conversation. If the
// store is encrypted, results returns "", and such results are truncated: files in the folder would
// not be encrypted.
func (h *Host) results(run string) string {
	if h.Sealed() {
		return ""
	}
	return filepath.Join(h.RunDir(run), "results")
}

// private returns the files and folders that are hidden from all commands of a run: the store, and the user's configuration.
func (h *Host) private() []string {
	out := []string{h.DataDir(), h.ConfigDir()}
	if dir := h.runtimeDir(); dir != "" {
		out = append(out, dir)
	}
	if p, err := h.Place(); err == nil && p.Path != "" {
		for _, end := range []string{"", "-wal", "-shm", "-journal", ".owners"} { // a database has files beside it
			out = append(out, p.Path+end)
		}
	}
	return out
}
