//go:build !linux

package file

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
)

func dataSync(f *os.File) error { return f.Sync() }

// diskFull knows the numbers of Windows for a full disk.
func diskFull(err error) bool {
	return runtime.GOOS == "windows" && (errors.Is(err, syscall.Errno(112)) || errors.Is(err, syscall.Errno(39)))
}

// readSmall reads a file of at most len(b) bytes into b.
func readSmall(path string, b []byte) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

// writeSmall writes b to the beginning of a file in one piece, and makes the file if need be.
func writeSmall(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	return errors.Join(err, f.Close())
}
