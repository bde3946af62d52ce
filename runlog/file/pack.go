package file

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// The former logs of a run are files with one of these suffixes: compressed, or as they were.
const packSuffix, plainSuffix = ".zst", ".log"

// packMost bounds what a packed log may claim to be: a segment and a batch of the
// largest records.
const packMost = 1 << 32

// packName returns the file of the compressed former log that begins with a record.
func packName(base uint64) string { return fmt.Sprintf("%020d%s", base, packSuffix) }

// plainName returns the file of the former log that begins with a record and is as it was.
func plainName(base uint64) string { return fmt.Sprintf("%020d%s", base, plainSuffix) }

// baseOf returns the first record of a former log, given the name of its file.
func baseOf(name string) (base uint64, ok bool) {
	text, is := strings.CutSuffix(name, packSuffix)
	if !is {
		text, is = strings.CutSuffix(name, plainSuffix)
	}
	base, err := strconv.ParseUint(text, 10, 64)
	return base, is && err == nil && base > 0 && (name == packName(base) || name == plainName(base))
}

// formers returns the first records of the former logs that are there, in order. Beside a writer it may leave one out, or have one that is about to go.
func formers(dir string) ([]uint64, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var bases []uint64
	for _, name := range names {
		if base, ok := baseOf(name); ok {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	return slices.Compact(bases), nil
}

// A packer compresses and reads what is compressed. It is made when it is first needed.
type packer struct {
	once sync.Once
	enc  *zstd.Encoder
	dec  *zstd.Decoder
	err  error
}

func (p *packer) make() error {
	p.once.Do(func() {
		p.enc, p.err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true))
		if p.err == nil {
			p.dec, p.err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(packMost))
		}
	})
	return p.err
}

// sampleSize is how many bytes in the middle of a log show whether it is worth compressing.
const sampleSize = 64 << 10

// worth reports whether a log of that size is worth compressing.
func (p *packer) worth(f io.ReaderAt, size int64) (bool, error) {
	if err := p.make(); err != nil {
		return false, err
	}
	sample := make([]byte, min(sampleSize, size))
	if _, err := f.ReadAt(sample, (size-int64(len(sample)))/2); err != nil {
		return false, err
	}
	return len(p.enc.EncodeAll(sample, nil)) < len(sample)/16*15, nil
}

// pack compresses a log, and makes sure that it can be read again.
func (p *packer) pack(data []byte) ([]byte, error) {
	if err := p.make(); err != nil {
		return nil, err
	}
	b := p.enc.EncodeAll(data, make([]byte, 0, len(data)/2))
	again, err := p.unpack(b)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, data) {
		return nil, errors.New("the compressed log reads back as another one")
	}
	return b, nil
}

func (p *packer) unpack(b []byte) ([]byte, error) {
	if err := p.make(); err != nil {
		return nil, err
	}
	return p.dec.DecodeAll(b, nil)
}

// squeeze compresses a former log that is as it was, if that is worth it. The result stands beside it under a temporary name, "" if there is none.
func (s *store) squeeze(dir string, base uint64) (tmp string, err error) {
	f, err := os.Open(filepath.Join(dir, plainName(base)))
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if worth, err := s.packer.worth(f, info.Size()); err != nil || !worth {
		return "", err
	}
	r := reel{s: s, dir: dir, f: realFile{f}}
	h, data, err := r.load()
	if err != nil {
		return "", err
	}
	if sc := h.scan(data); sc.end != int64(len(data)) {
		return "", errors.New("the log is damaged") // and is kept as it is
	}
	small, err := s.packer.pack(data)
	if err != nil {
		return "", err
	}
	tmp = filepath.Join(dir, packName(base)+"."+rand.Text()+".tmp")
	return tmp, write(s.disk, tmp, small)
}

// replace puts what squeeze returned in the place of the former log. The caller has the run's lock.
func (s *store) replace(dir string, base uint64, tmp string) error {
	s.fail("file.before-replace")
	err := s.disk.rename(tmp, filepath.Join(dir, packName(base)))
	if err == nil {
		s.fail("file.after-replace")
		err = s.disk.syncDir(dir)
	}
	if err != nil {
		os.Remove(tmp)
		return err
	}
	return s.disk.remove(filepath.Join(dir, plainName(base)))
}

// loadFormer reads the former log that begins with a record. It is compressed before the plain file goes.
func (s *store) loadFormer(dir string, base uint64) (h *header, data []byte, path string, err error) {
	path = filepath.Join(dir, plainName(base))
	h, data, err = s.loadPack(path)
	if errors.Is(err, fs.ErrNotExist) {
		path = filepath.Join(dir, packName(base))
		h, data, err = s.loadPack(path)
	}
	return h, data, path, err
}

// loadPack reads a former log. Its header is checked and its entries are not.
func (s *store) loadPack(path string) (*header, []byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if h, data, ok := s.cache.pack(path, info); ok {
		return h, data, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	data := b
	if strings.HasSuffix(path, packSuffix) {
		if data, err = s.packer.unpack(b); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errFormat, err)
		}
	}
	h, err := decodeHeader(data)
	if err != nil {
		return nil, nil, err
	}
	s.cache.keepPack(path, info, h, data)
	return h, data, nil
}
