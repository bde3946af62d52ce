package redis

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// markEvery is how often a marker is written while there are writes.
const markEvery = time.Second

// remembered is the content of a marker file.
type remembered struct {
	Store string `json:"store"` // for people
	ID    string `json:"id"`
	LSN   uint64 `json:"lsn"` // how many writes were acknowledged, at least

	Server string `json:"server,omitempty"` // the process that acknowledged them
}

// A marker is the file in which a store remembers what it has seen. Nil means none.
type marker struct {
	path, store string

	mu   sync.Mutex
	last time.Time
}

// read returns the content of the file, which is empty if the file is missing.
func (m *marker) read() (r remembered, err error) {
	b, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return remembered{}, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err == nil && r.ID == "" {
		err = errors.New("it names no store")
	}
	if err != nil {
		return remembered{}, fmt.Errorf("the marker file %s cannot be used: %w; remove it to take the store as it is, or name another one", m.path, err)
	}
	return r, nil
}

// due reports whether it is time to write. If so, the caller must write.
func (m *marker) due(now time.Time) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.last) < markEvery {
		return false
	}
	m.last = now
	return true
}

// write replaces the file. Another process may write it too: for the same store the more recent
// state is kept, unless the file is to be reset.
func (m *marker) write(r remembered, forget bool) (err error) {
	if m == nil || r.ID == "" {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, err := m.read(); err == nil && was.ID == r.ID && was.LSN > r.LSN && !forget {
		r = was
	}
	r.Store = m.store
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing the marker file %s: %w; name a place that can be written", m.path, err)
		}
	}()
	dir := filepath.Dir(m.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".marker-*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), m.path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
