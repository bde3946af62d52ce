package trust

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// Trusted texts are stored in a folder beside the file, to show later how they changed. Each text
// is a compressed file named by its digest. These files do not affect trust: if one is missing or
// damaged, only the text to show is missing.

func (s *Store) sideDir() string { return s.path + ".d" }

// keep writes a content and returns its digest. If the content is empty or too long, keep writes
// nothing and returns "".
func (s *Store) keep(content string) (string, error) {
	if content == "" || len(content) > longestContent {
		return "", nil
	}
	sum := sha256.Sum256([]byte(content))
	name := hex.EncodeToString(sum[:])
	id := "sha256:" + name
	if s.kept(id) == content {
		return id, nil
	}
	dir := s.sideDir()
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", &FileError{s.path, fmt.Errorf("%w; make its folder writable", bareError(err))}
	}
	if err := privateDir(dir); err != nil {
		return "", &FileError{s.path, fmt.Errorf("the folder %s beside it %w; check it, then chmod 700 it", dir, err)}
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(content))
	if err = errors.Join(err, z.Close()); err == nil {
		err = replaceFile(filepath.Join(dir, name+".gz"), b.Bytes())
	}
	if err != nil {
		return "", &FileError{s.path, fmt.Errorf("%w; make the folder %s writable", bareError(err), dir)}
	}
	return id, nil
}

func privateDir(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return bareError(err)
	}
	if !info.IsDir() {
		return errors.New("is no folder")
	}
	return private(info)
}

// kept returns the content of a digest, or "" if it is missing or damaged.
func (s *Store) kept(id string) string {
	if !digest.MatchString(id) || privateDir(s.sideDir()) != nil {
		return ""
	}
	path := filepath.Join(s.sideDir(), id[len("sha256:"):]+".gz")
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || private(info) != nil {
		return ""
	}
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return ""
	}
	b, err := io.ReadAll(io.LimitReader(z, longestContent+1))
	if err != nil || len(b) > longestContent {
		return ""
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != id[len("sha256:"):] {
		return ""
	}
	return string(b)
}

var sideName = regexp.MustCompile(`^[0-9a-f]{64}\.gz$`)

// sweep removes files without references. The caller holds the lock.
func (s *Store) sweep(m *memory) {
	used := map[string]bool{}
	for _, all := range []map[string][]entry{m.Projects, m.Seen} {
		for _, list := range all {
			for _, e := range list {
				used[e.Kept] = true
			}
		}
	}
	if privateDir(s.sideDir()) != nil {
		return
	}
	found, err := os.ReadDir(s.sideDir())
	if err != nil {
		return
	}
	left := len(found)
	for _, f := range found {
		if n := f.Name(); sideName.MatchString(n) && !used["sha256:"+n[:64]] && os.Remove(filepath.Join(s.sideDir(), n)) == nil {
			left--
		}
	}
	if left == 0 {
		_ = os.Remove(s.sideDir()) // an empty folder does no harm
	}
}
