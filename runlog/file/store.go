// Package file keeps run logs in a directory of plain files, which several processes of
// one machine may use at once.
//
// Each run has a folder, runs/ID, with these files:
//
//	log        the newest records: a header, then batches of frames that each end in a mark
//	N.zst      older records, from number N on: a former log, whole, compressed with zstd
//	N.log      the same as it was, until it is compressed, or because that is not worth it
//	hold       who holds the run, until when, and how much of the log was acknowledged
//	lock       locked by whoever changes the run, for as long as the change takes
//
// # Durability
//
// A batch, and all that it changes about the run (its status, for instance), is one write to the end of the log and one fdatasync. The batch counts once
// its mark is there whole. After a crash, the remains of an unfinished batch are never read, and the next writer cuts them off. It can be told from
// damage, since a write begins only when the one before it is durable: what cannot be read and has a later write behind it, or was acknowledged, is
// damage, and gives [runlog.CorruptError].
//
// When a log has grown to SegmentSize, the next append gives it the name of a former log and begins a new one.
// It is compressed beside the appends after that. Files other than the log's end are only ever replaced as a whole: data,
// fsync, rename, fsync of the directory. After an error of fsync the file is closed, opened
// again, cut back to what was acknowledged, synced and checked. If that works nothing
// of the batch is there; if not, the outcome is unknown and the hold writes no more.
//
// # One writer
//
// Whoever changes a run, appends included, has its lock for the time of the change, and looks
// first whether the log is as long as it left it. If not, it reads the marks that
// are new: another epoch means that the run was taken over, and it writes nothing. A takeover
// is itself a mark that is written under the lock. So the check and the write are one to
// everybody else, at the price of some microseconds per append. A log that is deleted gets
// a last mark that says so, which fences whoever still has it open.
//
// A process that is stopped while it appends keeps that one run locked, as long as it
// is stopped: until then the run reads as busy, whatever its lease says. Leases and
// the locks of the processes decide how soon a run may be taken over, as in the package
// runlog/sqlite: at once when the process is gone, and after the lease otherwise.
//
// # Reading
//
// Readers take no lock while the holder is alive: hold says how far the log is durable. When
// nobody vouches for the end of a log, since the process that wrote it died, the
// first reader makes it durable before it shows it.
package file

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/internal/localfs"
	"github.com/superstep-dev/superstep/internal/owners"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// Options are the settings of a store. Nil and zero values mean the written defaults.
type Options struct {
	Now   func() time.Time // the clock for leases and listings; default time.Now
	Lease time.Duration    // how long a hold lasts unless it is renewed; default 15 s
	Owner string           // who holds the runs, for people; default "host:pid"

	SegmentSize  int64 // bytes of a log from which on a new one is begun, and it is compressed later; default 1 MiB
	AllowNetwork bool  // use a directory on a network file system, where locks may not work

	// Protection configures redaction and encryption. By default the secrets of the process's
	// environment are redacted, and nothing is encrypted.
	storekit.Protection

	// Failpoint is called at the points of a write at which a crash is interesting:
	// "file.before-write", "file.mid-write" (half of the batch is written; without a Failpoint
	// it is written in one piece), "file.before-sync", "file.after-sync" (durable, but nobody
	// knows yet), "file.before-rename" and "file.after-rename" (of a file that is replaced,
	// a folder that is made, or one that is deleted), "file.after-link" (of a log that will be
	// a former one), and, beside appends, "file.before-replace" and "file.after-replace" (of a
	// former log by its compressed copy). It must return or end the process.
	// Default: none.
	Failpoint func(name string)
}

// Store is a [runlog.Store], [runlog.Waiter], [runlog.Sizer] and [runlog.Reclaimer] in a
// directory. Several stores may be open on one directory, in one process or in many. It
// redacts what is written to it, and encrypts it if it has a key: see [Options].
type Store struct {
	runlog.Store // over inner's store: redacts and encrypts
	inner
}

// inner provides the methods of a store that runlog.Store does not have. It is embedded one level deeper, so that the
// methods of runlog.Store take precedence.
type inner struct{ *store }

type store struct {
	dir     string
	now     func() time.Time
	lease   time.Duration
	owner   string
	segment int64
	fail    func(string)
	halves  bool // write in two pieces, for the failpoint between them
	disk    disk

	owners  owners.Owners
	reserve reserve
	making  sync.Mutex // one creation or deletion of this process at a time
	packing sync.Mutex // one former log is compressed at a time beside appends
	cache   cache
	packer  packer
	watch   storekit.Watch
	holds   holds

	closing chan struct{} // closed when Close begins
	once    sync.Once
	closed  error
}

var (
	_ runlog.Store     = (*Store)(nil)
	_ runlog.Waiter    = (*Store)(nil)
	_ runlog.Sizer     = (*Store)(nil)
	_ runlog.Reclaimer = (*Store)(nil)
)

// storeName is the file that makes a directory a store. Its content is storeMagic and
// the version of the layout.
const (
	storeName  = "store"
	storeMagic = "superstep run store, version "
)

// Open opens the store in the directory dir and makes it if it is missing or empty. It
// refuses a directory that is something else, that a newer superstep wrote, that
// everyone may write to, or that is on a network file system. The caller closes the store.
func Open(ctx context.Context, dir string, opt *Options) (*Store, error) {
	if opt == nil {
		opt = &Options{}
	}
	s, err := open(ctx, dir, opt, realDisk{})
	if err != nil {
		return nil, err
	}
	p, err := storekit.Protect(s, &opt.Protection)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening store %s: %w", s.dir, err), s.Close())
	}
	return &Store{p, inner{s}}, nil
}

// open is Open with a given disk, so that tests can make it fail.
func open(ctx context.Context, dir string, opt *Options, d disk) (*store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("opening store: %w", err)
	}
	if !opt.AllowNetwork {
		if err := localfs.Check(dir, "AllowNetwork"); err != nil {
			return nil, fmt.Errorf("opening store %s: %w", dir, err)
		}
	}
	s := newStore(dir, opt, d)
	if err := s.prepare(); err != nil {
		return nil, s.explain("opening", err)
	}
	_ = s.reserve.fill() // a full disk is no reason not to read
	return s, nil
}

func newStore(dir string, opt *Options, d disk) *store {
	s := &store{
		dir: dir, now: opt.Now, lease: opt.Lease, owner: opt.Owner, segment: opt.SegmentSize, fail: opt.Failpoint,
		disk:    d,
		owners:  owners.Owners{Dir: filepath.Join(dir, "owners")},
		reserve: reserve{path: filepath.Join(dir, "reserve"), disk: d},
		closing: make(chan struct{}),
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.halves = s.fail != nil
	storekit.Defaults(&s.lease, &s.owner, &s.fail)
	if s.segment <= 0 {
		s.segment = 1 << 20
	}
	s.watch.Every, s.watch.Head, s.watch.Poll = pollEvery, s.head, s.poll
	return s
}

// prepare makes sure that the directory is a store of this version.
func (s *store) prepare() error {
	unsynced, err := localfs.MakeDir(s.dir)
	if err != nil {
		return fmt.Errorf("making the directory: %w; name a place that can be written", err)
	}
	for _, d := range unsynced {
		if err := s.disk.syncDir(d); err != nil {
			return err
		}
	}
	info, err := os.Stat(s.dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errors.New("it is not a directory; name another place")
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("everyone may write to it; run `chmod 700 %s`", s.dir)
	}
	known, err := s.checkVersion()
	if err != nil {
		return err
	}
	if !known {
		path := filepath.Join(s.dir, storeName)
		if err := s.put(path, path+".tmp"+rand.Text(), []byte(storeMagic+"1\n")); err != nil {
			return err
		}
	}
	for _, name := range []string{"runs", "owners", "trash"} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	f, err := s.disk.open(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	// The process that created these names may have crashed before the sync.
	return s.disk.syncDir(s.dir)
}

// checkVersion reports whether the directory is a store already, and refuses other content.
func (s *store) checkVersion() (known bool, err error) {
	b, err := os.ReadFile(filepath.Join(s.dir, storeName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, s.checkEmpty()
	}
	if err != nil {
		return false, fmt.Errorf("%w; check the permissions, or name another place", err)
	}
	text, ok := strings.CutPrefix(string(b), storeMagic)
	v, err := strconv.Atoi(strings.TrimSpace(text))
	switch {
	case !ok || err != nil || v < 1:
		return false, fmt.Errorf("its file %q is not that of a superstep store; name another directory", storeName)
	case v > version:
		return false, fmt.Errorf("it has version %d and was written by a newer superstep; this one reads up to version %d, so update superstep to open it",
			v, version)
	}
	return true, nil
}

// checkEmpty refuses a directory that is not empty, except for a store that another process is just
// creating.
func (s *store) checkEmpty() error {
	d, err := os.Open(s.dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil // it may be written and not listed
	}
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == storeName { // since the look before
			return nil
		}
	}
	for _, name := range names {
		if !strings.HasPrefix(name, storeName+".tmp") {
			return fmt.Errorf("it is not a superstep store, and not empty: it has %q in it; name another directory", name)
		}
	}
	return nil
}

// Close closes the store. Runs that are still held are listed as interrupted from then on, and
// other processes may take them over. The holds no longer write.
func (s *store) Close() error {
	s.once.Do(func() {
		s.watch.Close() // first, so that who waits hears of this and not of a poll that was refused
		close(s.closing)
		for _, l := range s.holds.close() {
			l.shut()
		}
		s.closed = s.owners.Leave()
	})
	return s.closed
}

// alive returns an error once the store is closed.
func (s *store) alive(ctx context.Context) error {
	select {
	case <-s.closing:
		return fmt.Errorf("store %s: %w", s.dir, storekit.ErrClosed)
	default:
		return ctx.Err()
	}
}

func (s *store) runDir(id string) string { return filepath.Join(s.dir, "runs", id) }

func (s *store) logPath(id string) string { return filepath.Join(s.runDir(id), logName) }

func (s *store) notFound(id string) error { return &runlog.NotFoundError{ID: id, Store: s.dir} }

// explain adds the store's name, and the remedy if known, to an error of the file system. Errors
// that say so already are left unchanged.
func (s *store) explain(doing string, err error) error {
	switch {
	case err == nil, storekit.Explained(err), errors.As(err, new(*owners.Doubt)), errors.Is(err, runlog.ErrUnknown),
		errors.Is(err, storekit.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case outOfStorage(err):
		return &runlog.StorageError{Store: s.dir, Err: err}
	}
	return fmt.Errorf("%s store %s: %w", doing, s.dir, err)
}
