package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
)

const (
	runName      = "run.json"
	tasksName    = "tasks.json"
	progressName = "progress.md"
	marker       = "rundir"
	format       = 1 // raised when the files are written in another way
)

// A stamp is the beginning of run.json: the run, and the record up to which it was written.
type stamp struct {
	Superstep string        `json:"superstep"`
	Version   int           `json:"version"`
	ID        string        `json:"id"`
	Head      uint64        `json:"head"`
	Status    runlog.Status `json:"status"`
	Rules     string        `json:"rules"` // names what was taken out, "" for nothing
}

// rules identifies a redactor by the names of its secrets: their values must not be derivable from
// it.
func rules(r *redact.Redactor) string {
	if r == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(r.Names(), "\x00")))
	return hex.EncodeToString(sum[:4])
}

// written reads the stamp in a directory, which is zero if there is none.
func written(dir string) (s stamp) {
	b, err := os.ReadFile(filepath.Join(dir, runName))
	if err != nil || json.Unmarshal(b, &s) != nil {
		return stamp{}
	}
	return s
}

// Remove removes what Write writes into a directory, and the directory if nothing else is in it. It
// goes by names, follows no symbolic link, and refuses a directory whose run.json is not one that
// Write has written. A missing directory is no error.
func Remove(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("removing the directory of a run: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%s is not removed: it is not a directory", dir)
	}
	empty, err := emptied(dir)
	if err == nil && empty {
		err = os.Remove(dir)
	}
	if err != nil {
		return fmt.Errorf("removing the directory of a run: %w", err)
	}
	return nil
}

// emptied removes the files, run.json last, so that an interrupted removal can be repeated.
func emptied(dir string) (empty bool, err error) {
	root, err := os.OpenRoot(dir) // nothing below leads out of it
	if err != nil {
		return false, err
	}
	defer root.Close()
	if err := ours(root); err != nil {
		return false, fmt.Errorf("%s is left unchanged: %w", dir, err)
	}
	for _, sub := range []string{"agents", "reports", "logs"} {
		if err := sweep(root, sub); err != nil {
			return false, err
		}
	}
	if err := sweep(root, "."); err != nil {
		return false, err
	}
	left, err := fs.ReadDir(root.FS(), ".")
	return len(left) == 0, err
}

// ours returns an error if a directory is not that of a run.
func ours(root *os.Root) error {
	info, err := root.Lstat(runName)
	if err != nil {
		return fmt.Errorf("it has no %s: %w", runName, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("its %s is not a file", runName)
	}
	b, err := root.ReadFile(runName)
	if err != nil {
		return err
	}
	var s stamp
	if json.Unmarshal(b, &s) != nil || s.Superstep != marker || runlog.CheckID(s.ID) != nil {
		return fmt.Errorf("its %s is not that of a run", runName)
	}
	return nil
}

// sweep removes the files of a directory that Write names like that, and the directory if it
// is empty then.
func sweep(root *os.Root, dir string) error {
	info, err := root.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return err
	}
	left := len(entries)
	for _, e := range entries {
		if !e.Type().IsRegular() || !writes(dir, e.Name()) {
			continue
		}
		if err := root.Remove(path.Join(dir, e.Name())); err != nil {
			return err
		}
		left--
	}
	if left > 0 || dir == "." {
		return nil
	}
	return root.Remove(dir)
}

// writes reports whether Write makes files of that name, the ones included that it leaves
// behind when the process dies.
func writes(dir, name string) bool {
	if hidden, ok := strings.CutPrefix(name, "."); ok { // .run.json123, .run-123.jsonl
		name = strings.TrimRight(hidden, "0123456789")
		if dir == "logs" && strings.HasPrefix(hidden, "run-") && strings.HasSuffix(hidden, ".jsonl") {
			return strings.Trim(hidden[len("run-"):len(hidden)-len(".jsonl")], "0123456789") == ""
		}
		if name == hidden {
			return false
		}
	}
	switch dir {
	case "agents", "reports":
		stem, ok := strings.CutSuffix(name, map[string]string{"agents": ".json", "reports": ".md"}[dir])
		base := stem // of the second one of that name
		if i := strings.LastIndexByte(stem, '-'); i > 0 && strings.Trim(stem[i+1:], "0123456789") == "" {
			base = stem[:i]
		}
		return ok && (FileName(stem) == stem || FileName(base) == base)
	case "logs":
		return name == "run.log" || name == "run.jsonl"
	}
	return name == runName || name == tasksName || name == progressName
}
