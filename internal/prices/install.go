package prices

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2/maybe"
)

// The user's own table is one file of these names in the folder of their configuration.
const (
	fileYAML = "prices.yaml"
	fileJSON = "prices.json"
)

// An OlderError reports that a table is older than the current one.
type OlderError struct {
	Date, Installed string
	Path            string // of the installed one, "" if it is the embedded one
}

func (e *OlderError) Error() string {
	where := "the one that is built in"
	if e.Path != "" {
		where = e.Path
	}
	return fmt.Sprintf("the table is of %s and older than %s, which is of %s", e.Date, where, e.Installed)
}

// Load returns the embedded table, overlaid by the user's table in a folder, and the path of the
// user's, "" if there is none. If the user's table cannot be read, it returns the embedded one and
// the error.
func Load(dir string) (*Table, string, error) {
	base := Embedded()
	path, err := installed(dir)
	if path == "" || err != nil {
		return base, "", err
	}
	b, err := read(path)
	if err != nil {
		return base, path, err
	}
	own, err := Parse(path, b)
	if err != nil {
		return base, path, err
	}
	return own.Over(base), path, nil
}

// installed returns the path of the user's table, "" if there is none.
func installed(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	var found []string
	for _, name := range []string{fileYAML, fileJSON} {
		path := filepath.Join(dir, name)
		switch _, err := os.Stat(path); {
		case err == nil:
			found = append(found, path)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, os.ErrInvalid):
			return "", err
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("there are both %s and %s; remove one", found[0], found[1])
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return b, nil
}

// Install copies a table from a file into the user's configuration folder, and returns it with its
// new path. A table that is older than the current one (the user's or the embedded one) is refused
// with an [*OlderError] unless force is set. A user's table that cannot be read is replaced.
func Install(dir, file string, force bool) (*Table, string, error) {
	if dir == "" {
		return nil, "", errors.New("there is no folder for the user's configuration")
	}
	b, err := read(file)
	if err != nil {
		return nil, "", err
	}
	t, err := Parse(file, b)
	if err != nil {
		return nil, "", err
	}
	holds, old, err := Load(dir)
	var broken *Error
	if err != nil && !errors.As(err, &broken) {
		return nil, "", err
	}
	if !force && t.Date() < holds.Date() {
		if broken != nil {
			old = ""
		}
		return nil, "", &OlderError{Date: t.Date(), Installed: holds.Date(), Path: old}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", err
	}
	path := filepath.Join(dir, fileYAML)
	if filepath.Ext(file) == ".json" {
		path = filepath.Join(dir, fileJSON)
	}
	if err := maybe.WriteFile(path, b, 0o600); err != nil {
		return nil, "", fmt.Errorf("writing the prices: %w", err)
	}
	if old != "" && old != path {
		if err := os.Remove(old); err != nil {
			return nil, "", fmt.Errorf("removing the prices that were replaced: %w", err)
		}
	}
	return t, path, nil
}
