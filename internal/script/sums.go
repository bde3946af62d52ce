package script

import (
	"io/fs"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/internal/cover"
)

// Sums caches the digests of files: an unchanged file is not read again. A file is unchanged if its
// number, size, mode and both of its times are the same, and nobody had written it for a while when
// it was read. On systems other than Linux every file is read each time.
type sums struct {
	mu    sync.Mutex
	known map[string]known
}

type known struct {
	stamp stamp
	sum   string
}

// A stamp identifies a state of a file. It includes the time of the last status change, which no
// program can set, unlike the modification time.
type stamp struct {
	inode           uint64
	size            int64
	mode            fs.FileMode
	modified, moved int64
}

// settled is how long a file must be unchanged, since the clocks of file systems are coarse.
const settled = 2 * time.Second

func (s *sums) of(path string, info fs.FileInfo) (string, error) {
	now, ok := stampOf(info)
	s.mu.Lock()
	was, found := s.known[path]
	s.mu.Unlock()
	if ok && found && was.stamp == now {
		return was.sum, nil
	}
	start := time.Now()
	sum, err := cover.Contents(path, info)
	if err != nil {
		return "", err
	}
	if ok && start.Sub(time.Unix(0, max(now.modified, now.moved))) > settled {
		s.mu.Lock()
		if s.known == nil {
			s.known = map[string]known{}
		}
		s.known[path] = known{now, sum}
		s.mu.Unlock()
	}
	return sum, nil
}
