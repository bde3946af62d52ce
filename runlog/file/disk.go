package file

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/superstep-dev/superstep/internal/localfs"
)

// A disk holds the store's file system operations, so that tests can make them fail.
type disk interface {
	open(path string, flag int) (tape, error)
	rename(from, to string) error
	link(from, to string) error // gives a file a second name
	remove(path string) error
	syncDir(dir string) error
}

// A tape is an open file of a disk.
type tape interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
	sync() error // makes all that was written durable, and the size with it
}

// realDisk is the file system of the machine.
type realDisk struct{}

type realFile struct{ *os.File }

func (realDisk) open(path string, flag int) (tape, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return realFile{f}, nil
}

func (realDisk) rename(from, to string) error { return os.Rename(from, to) }

func (realDisk) link(from, to string) error { return os.Link(from, to) }

func (realDisk) remove(path string) error { return os.Remove(path) }

func (realDisk) syncDir(dir string) error { return localfs.SyncDir(dir) }

func (f realFile) sync() error { return dataSync(f.File) }

// write creates a file with the content under a temporary name, and makes it durable.
func write(d disk, path string, content []byte) (err error) {
	f, err := d.open(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	if err == nil {
		err = f.sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(path)
	}
	return err
}

// put writes a file durably and all at once: whoever looks finds the former one or this
// one. Nobody else may use the name tmp meanwhile.
func (s *store) put(path, tmp string, content []byte) error {
	if err := write(s.disk, tmp, content); err != nil {
		return err
	}
	s.fail("file.before-rename")
	if err := s.disk.rename(tmp, path); err != nil {
		os.Remove(tmp)
		return err
	}
	s.fail("file.after-rename")
	return s.disk.syncDir(filepath.Dir(path))
}

// outOfStorage reports whether an error means that the store is full for now.
func outOfStorage(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.EROFS, syscall.EFBIG, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return diskFull(err)
}
