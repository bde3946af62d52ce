package file

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
)

// dataSync spares what File.Sync writes besides: times nobody needs after a crash. The
// size is data in this sense.
func dataSync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		runtime.KeepAlive(f)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
		return nil
	}
}

func diskFull(error) bool { return false }

// readSmall reads a file of at most len(b) bytes into b. It spares what package os does for
// files that are kept open, since listings read thousands.
func readSmall(path string, b []byte) ([]byte, error) {
	fd, err := openSmall(path, syscall.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd) //nolint:errcheck // it was only read
	for {
		n, err := syscall.Pread(fd, b, 0)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		}
		return b[:n], nil
	}
}

// writeSmall writes b to the beginning of a file in one piece, and makes the file if need be.
func writeSmall(path string, b []byte) error {
	fd, err := openSmall(path, syscall.O_WRONLY|syscall.O_CREAT)
	if err != nil {
		return err
	}
	for {
		n, err := syscall.Pwrite(fd, b, 0)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err == nil && n < len(b) {
			err = io.ErrShortWrite
		}
		if err = errors.Join(err, syscall.Close(fd)); err != nil {
			return &os.PathError{Op: "write", Path: path, Err: err}
		}
		return nil
	}
}

func openSmall(path string, flag int) (int, error) {
	for {
		fd, err := syscall.Open(path, flag|syscall.O_CLOEXEC, 0o600)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return 0, &os.PathError{Op: "open", Path: path, Err: err}
		}
		return fd, nil
	}
}
