package trust

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/superstep-dev/superstep/internal/strict"
)

const (
	version     = 2 // 1 has no imported runs
	largestFile = 64 << 20
)

// memory is the content of the file.
type memory struct {
	Version  int                `json:"version"`
	Projects map[string][]entry `json:"projects"`
	Seen     map[string][]entry `json:"seen,omitempty"` // and not trusted
}

type entry struct {
	Item
	When time.Time `json:"when"`
	Kept string    `json:"content,omitempty"` // the digest of the content that is kept, if any
}

// A FileError reports that the trust file cannot be used, so nothing is trusted.
type FileError struct {
	Path string
	Err  error // what is wrong and how to mend it
}

func (e *FileError) Error() string {
	return fmt.Sprintf("trust: %s: %v; nothing is trusted until then", e.Path, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

// load reads the file. A missing file counts as empty.
func (s *Store) load() (*memory, error) {
	m := &memory{Version: version, Projects: map[string][]entry{}, Seen: map[string][]entry{}}
	f, err := os.OpenFile(s.path, os.O_RDONLY|nonblock, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(s.path); err == nil {
			return nil, &FileError{s.path, errors.New("is a link that leads nowhere; remove it")}
		}
		return m, nil
	}
	if err != nil {
		return nil, &FileError{s.path, fmt.Errorf("%w; make it readable", bareError(err))}
	}
	defer f.Close()
	if err := s.safe(f); err != nil {
		return nil, &FileError{s.path, err}
	}
	b, err := io.ReadAll(io.LimitReader(f, largestFile+1))
	if err != nil {
		return nil, &FileError{s.path, bareError(err)}
	}
	if len(b) > largestFile {
		return nil, &FileError{s.path, fmt.Errorf("is over %d MiB; move it away", largestFile>>20)}
	}
	var head struct{ Version int }
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, &FileError{s.path, fmt.Errorf("is damaged (%w); move it away and trust again what you still trust", strict.Words(b, err))}
	}
	if head.Version > version {
		return nil, &FileError{s.path, fmt.Errorf("is of version %d, and this program knows %d; use a newer program, or another file", head.Version, version)}
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	m.Version = 0
	if err := d.Decode(m); err != nil || m.Version < 1 {
		return nil, &FileError{s.path, errors.New("is damaged; move it away and trust again what you still trust")}
	}
	for _, all := range []map[string][]entry{m.Projects, m.Seen} {
		for project, list := range all {
			for _, e := range list {
				if err := e.check(); err != nil || project != Runs && !filepath.IsAbs(project) || e.Kept != "" && !digest.MatchString(e.Kept) {
					return nil, &FileError{s.path, fmt.Errorf("is damaged (project %q: %w); move it away and trust again what you still trust", project, err)}
				}
			}
		}
	}
	m.Version = version
	if m.Projects == nil {
		m.Projects = map[string][]entry{}
	}
	if m.Seen == nil {
		m.Seen = map[string][]entry{}
	}
	return m, nil
}

// safe refuses a file that another user could have written.
func (s *Store) safe(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return bareError(err)
	}
	link, err := os.Lstat(s.path)
	switch {
	case err != nil:
		return bareError(err)
	case link.Mode()&fs.ModeSymlink != 0:
		return errors.New("is a link; put the file itself there")
	case !info.Mode().IsRegular():
		return errors.New("is not a regular file; remove it")
	}
	if err := private(info); err != nil {
		return fmt.Errorf("%w; check what is in it, then chmod 600 it", err)
	}
	dir, err := os.Stat(filepath.Dir(s.path))
	if err != nil {
		return bareError(err)
	}
	if err := private(dir); err != nil {
		return fmt.Errorf("its folder %w; chmod 700 that", err)
	}
	return nil
}

// update changes the file under a lock against other processes.
func (s *Store) update(change func(*memory) error) error {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return &FileError{s.path, fmt.Errorf("%w; make its folder writable", bareError(err))}
	}
	lock := flock.New(s.path+".lock", flock.SetPermissions(0o600))
	if err := lock.Lock(); err != nil {
		return &FileError{s.path, fmt.Errorf("cannot be locked: %w", bareError(err))}
	}
	defer func() { _ = lock.Close() }() // it is dropped with the process at the latest
	m, err := s.load()
	if err != nil {
		return err
	}
	if err := change(m); err != nil {
		return err
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	if len(b) > largestFile {
		return &FileError{s.path, fmt.Errorf("would be over %d MiB; revoke what is not needed", largestFile>>20)}
	}
	if err := replaceFile(s.path, append(b, '\n')); err != nil {
		return &FileError{s.path, fmt.Errorf("%w; make its folder writable", bareError(err))}
	}
	s.sweep(m)
	return nil
}

// bareError returns an error without its path, which the message names already.
func bareError(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
