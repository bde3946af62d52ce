package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
	"github.com/superstep-dev/superstep/runlog"
)

// lockStore takes the lock under which runs get and lose their names.
func (s *store) lockStore(ctx context.Context) (unlock func(), err error) {
	s.making.Lock()
	l := flock.New(filepath.Join(s.dir, "lock"), flock.SetFlag(os.O_RDWR))
	ok, err := l.TryLock()
	if err == nil && !ok {
		ok, err = l.TryLockContext(ctx, lockEvery)
	}
	if err != nil || !ok {
		s.making.Unlock()
		return nil, errors.Join(err, l.Close())
	}
	return func() {
		_ = l.Close()
		s.making.Unlock()
	}, nil
}

// number returns the next creation number, which orders listings.
func (s *store) number(ctx context.Context) (no uint64, err error) {
	unlock, err := s.lockStore(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	path := filepath.Join(s.dir, "counter")
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	text, whole := strings.CutSuffix(string(b), "\n")
	last, err := strconv.ParseUint(text, 10, 64)
	if !whole || len(text) != 20 || err != nil {
		if last, err = s.lastNumber(ctx); err != nil {
			return 0, err
		}
	}
	f, err := s.disk.open(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return 0, err
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%020d\n", last+1), 0)
	if err == nil {
		err = f.sync()
	}
	return last + 1, errors.Join(err, f.Close())
}

// lastNumber returns the largest number a run has.
func (s *store) lastNumber(ctx context.Context) (no uint64, err error) {
	ids, err := s.ids(&runlog.Filter{})
	if err != nil {
		return 0, err
	}
	rows, err := s.glances(ctx, ids)
	for _, r := range rows {
		no = max(no, r.g.h.no)
	}
	return no, err
}

// Sizes implements [runlog.Sizer]: the sizes of a run's files.
func (s *store) Sizes(ctx context.Context, f *runlog.Filter) (map[string]int64, error) {
	infos, err := s.Runs(ctx, f)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	for i := range infos {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if infos[i].Head == 0 {
			continue
		}
		n, err := folderSize(s.runDir(infos[i].ID))
		if err != nil {
			return nil, s.explain("reading", err)
		}
		if n > 0 {
			sizes[infos[i].ID] = n
		}
	}
	return sizes, nil
}

// folderSize adds up the files of a folder, of which some may go meanwhile.
func folderSize(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				size += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	return size, err
}

// packLeast is the size from which the log of a finished run is compressed.
const packLeast = 16 << 10

// Reclaim implements [runlog.Reclaimer]. It removes what deletions and crashed processes left
// behind, and compresses the logs of finished runs.
func (s *store) Reclaim(ctx context.Context) (freed int64, err error) {
	if err := s.alive(ctx); err != nil {
		return 0, err
	}
	freed, err = s.sweep(ctx)
	if err != nil {
		return freed, s.explain("tidying up", err)
	}
	ids, err := s.ids(&runlog.Filter{})
	if err != nil {
		return freed, s.explain("tidying up", err)
	}
	for _, id := range ids {
		n, err := s.tidy(ctx, id)
		if errors.As(err, new(*runlog.NotFoundError)) || errors.As(err, new(*runlog.BusyError)) || errors.As(err, new(*runlog.CorruptError)) {
			continue
		}
		if err != nil {
			return freed, s.explain("tidying up", err)
		}
		freed += n
	}
	return freed, nil
}

// sweep empties the trash, except for the folders of runs that are being created.
func (s *store) sweep(ctx context.Context) (freed int64, err error) {
	trash := filepath.Join(s.dir, "trash")
	entries, err := os.ReadDir(trash)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return freed, err
		}
		rest, isNew := strings.CutPrefix(e.Name(), newPrefix)
		owner, _, _ := strings.Cut(rest, "-")
		if isNew && s.owners.Alive(owner) {
			continue
		}
		path := filepath.Join(trash, e.Name())
		n, err := folderSize(path)
		if err == nil {
			err = os.RemoveAll(path)
		}
		if err != nil {
			return freed, err
		}
		freed += n
	}
	return freed, nil
}

// tidy compresses a run's folder, if possible.
func (s *store) tidy(ctx context.Context, id string) (freed int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	dir := s.runDir(id)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, nil //nolint:nilerr // it is gone
	}
	g, err := s.look(ctx, id)
	if err != nil || g.damage != nil {
		return 0, err
	}
	over := g.st.Status.Ended() && g.st.holder == ""
	debris := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return isDebris(e.Name(), g.h.base, g.st.holder) })
	plain := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), plainSuffix) })
	if !debris && !(over && (plain || g.durable >= packLeast)) {
		return 0, nil
	}
	before, err := folderSize(dir)
	if err != nil {
		return 0, err
	}
	e, err := s.edit(ctx, id)
	if e != nil {
		defer e.close()
	}
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		if isDebris(entry.Name(), e.h.base, e.st.holder) {
			os.Remove(filepath.Join(dir, entry.Name()))
		}
	}
	if e.st.Status.Ended() && e.st.holder == "" {
		if err := e.pack(); err != nil {
			return 0, err
		}
	}
	after, err := folderSize(dir)
	return max(before-after, 0), err
}

// pack compresses the logs of a run as far as that is worth it.
func (e *edit) pack() error {
	if e.size >= packLeast {
		worth, err := e.s.packer.worth(e.f, e.size)
		if err == nil && worth {
			err = e.rotate(&e.st)
		}
		if err != nil {
			return err
		}
		if worth {
			e.vouch(&e.st, e.until)
		}
	}
	bases, err := formers(e.dir)
	if err != nil {
		return err
	}
	for _, base := range bases {
		tmp, err := e.s.squeeze(e.dir, base)
		if err == nil && tmp != "" {
			err = e.s.replace(e.dir, base, tmp)
		}
		if err != nil && outOfStorage(err) {
			return err
		} // else it is compressed already, or damaged and stays as it is
	}
	return nil
}

// isDebris tells whether a file was left unfinished by a process that died while it put a log away, given the first record of the present log and who
// holds the run, if anybody: a holder may be making a compressed copy.
func isDebris(name string, base uint64, holder string) bool {
	if strings.HasSuffix(name, ".tmp") {
		return holder == "" || !strings.Contains(name, packSuffix)
	}
	n, ok := baseOf(name)
	return ok && n >= base
}
