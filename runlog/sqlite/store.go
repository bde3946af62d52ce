// Package sqlite keeps run logs in one SQLite file, which several processes of one
// machine may use at once. Beside it are its write-ahead log, a directory of locks, and a
// reserve: a little room on the disk that is given up to park runs when the disk is full.
//
// A commit is durable when it returns: the file is in WAL mode with
// synchronous=FULL. Appends that arrive while another is being committed share the
// next transaction. A run whose process died can be taken over at once, because
// each process holds an operating-system lock that ends with it; one that hangs can
// lose its runs once their leases have ended, to somebody who has then waited for a
// third of a lease and seen no renewal, so that a jump of the clock costs nobody its
// runs. Neither matters for safety, which rests on the epoch that every append checks
// in its own transaction.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/internal/localfs"
	"github.com/superstep-dev/superstep/internal/owners"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
	zsqlite "zombiezen.com/go/sqlite"
)

// Options are the settings of a store. Nil and zero values mean the written defaults.
type Options struct {
	Now   func() time.Time // the clock for leases and listings; default time.Now
	Lease time.Duration    // how long a hold lasts unless it is renewed; default 15 s
	Owner string           // who holds the runs, for people; default "host:pid"

	// AllowNetwork opens files on network file systems too, whose locks may not keep two
	// machines from writing one run. Default: they are refused.
	AllowNetwork bool

	// Look opens a file that cannot be written too: every write to it fails. Default: it is refused.
	Look bool

	// Protection configures redaction and encryption. By default the secrets of the process's environment are redacted, and nothing is encrypted.
	storekit.Protection

	// Failpoint is called at the points of a write at which a crash is interesting:
	// "sqlite.before-begin", "sqlite.mid-write" (after each part of an append in the open
	// transaction), "sqlite.before-commit" and "sqlite.after-commit" (durable, but
	// nobody knows yet), and "sqlite.mid-gather" (while what many runs appended is moved). It must return or end the process. Default: none.
	Failpoint func(name string)
}

// Store is a [runlog.Store], [runlog.Waiter], [runlog.Sizer] and [runlog.Reclaimer] in an
// SQLite file. Several stores may be open on one file, in one process or in many. It redacts
// what is written to it, and encrypts it if it has a key: see [Options].
type Store struct {
	runlog.Store // over inner's store: redacts and encrypts
	inner
}

// inner provides the methods of a store that runlog.Store does not have. It is embedded one level deeper, so that the
// methods of runlog.Store take precedence.
type inner struct{ *store }

type store struct {
	path  string
	file  os.FileInfo // of the file that was opened
	now   func() time.Time
	lease time.Duration
	owner string
	fail  func(string)

	owners  owners.Owners
	readers pool
	recent  index // what readers know of the table
	scratch sync.Pool
	reserve reserve
	watch   storekit.Watch
	poller  poller // of the watch

	turn    chan *writer  // has the writer while nobody writes
	ops     chan *op      // to whoever writes
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

// minVersion is the first SQLite without the WAL-reset bug of 3.7.0 to 3.51.2,
// which could lose commits (https://sqlite.org/wal.html#walresetbug).
const minVersion = 3_051_003

// Open opens the store in the file path and makes the file, its directory and its
// tables if they are missing. It refuses a file that is something else, that a
// newer superstep wrote, or that everyone may write to. The caller closes the store.
func Open(ctx context.Context, path string, opt *Options) (*Store, error) {
	if opt == nil {
		opt = &Options{}
	}
	s, err := open(ctx, path, opt, (*conn).commit)
	if err != nil {
		return nil, err
	}
	p, err := storekit.Protect(s, &opt.Protection)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening store %s: %w", s.path, err), s.Close())
	}
	return &Store{p, inner{s}}, nil
}

// open has the committing function as a parameter, so that tests can make it fail.
func open(ctx context.Context, path string, opt *Options, commit func(*conn) error) (*store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if zsqlite.VersionNumber < minVersion {
		return nil, fmt.Errorf("this program was built with SQLite %s, which can lose commits; build it with 3.51.3 or newer", zsqlite.Version)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("opening store: %w", err)
	}
	s := newStore(path, opt)
	if !opt.AllowNetwork {
		if err := localfs.Check(path, "Options.AllowNetwork"); err != nil {
			return nil, fmt.Errorf("opening store %s: %w", path, err)
		}
	}
	c, err := s.enter(ctx)
	if full := (*runlog.StorageError)(nil); errors.As(err, &full) && s.reserve.spend() {
		c, err = s.enter(ctx) // even to look at runs SQLite needs some room
	}
	if refused := err; opt.Look && unwritable(refused) {
		if c, err = s.look(); err != nil {
			return nil, refused
		}
	}
	if err != nil {
		return nil, err
	}
	if s.file, err = os.Stat(path); err != nil {
		return nil, errors.Join(fmt.Errorf("opening store %s: %w", path, err), c.close())
	}
	if !opt.Look {
		s.reserve.keep()
	}
	s.turn <- &writer{s: s, c: c, commit: commit, gatherAt: maxRecentRows}
	return s, nil
}

// enter opens the file and makes it a store if it is new.
func (s *store) enter(ctx context.Context) (*conn, error) {
	if err := prepareFile(s.path); err != nil {
		return nil, err
	}
	c, err := openConn(s.path)
	if err != nil {
		return nil, s.explain("opening", err)
	}
	if err := migrate(ctx, c, s.path); err != nil {
		return nil, errors.Join(s.explain("opening", err), c.close())
	}
	return c, nil
}

// look opens a file that cannot be written. If SQLite cannot write the index of its write-ahead log either, it may only read a file without such a log,
// which no process has open.
func (s *store) look() (*conn, error) {
	name := (&url.URL{Scheme: "file", Path: s.path, RawQuery: "mode=ro"}).String()
	if _, err := os.Stat(s.path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		name += "&immutable=1"
	}
	s.readers.open = func() (*conn, error) { return openAs(name, zsqlite.OpenReadOnly|zsqlite.OpenURI) }
	c, err := s.readers.open()
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err == nil {
		var version int
		if version, err = schemaVersion(c, s.path, len(names)); err == nil && version < len(names) {
			err = errors.New("its schema is older")
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func newStore(path string, opt *Options) *store {
	s := &store{
		path: path, now: opt.Now, lease: opt.Lease, owner: opt.Owner, fail: opt.Failpoint,
		owners:  owners.Owners{Dir: path + ".owners"},
		reserve: reserve{path: path + ".reserve", pause: reservePause},
		turn:    make(chan *writer, 1),
		ops:     make(chan *op),
		closing: make(chan struct{}),
	}
	if s.now == nil {
		s.now = time.Now
	}
	storekit.Defaults(&s.lease, &s.owner, &s.fail)
	s.readers.open = func() (*conn, error) { return openReader(path) }
	s.readers.slots = make(chan struct{}, maxReaders)
	s.watch.Every, s.watch.Head, s.watch.Poll = pollEvery, s.head, s.poll
	return s
}

// Close ends the store. Writes that have begun are finished first. Runs that are
// still held read as interrupted from then on, and others may take them over.
func (s *store) Close() error {
	s.once.Do(func() {
		close(s.closing)
		s.watch.Close()
		w := <-s.turn // for good
		s.closed = errors.Join(w.c.close(), s.poller.c.close(), s.readers.close(), s.owners.Leave())
	})
	return s.closed
}

// explain adds to an error of SQLite the name of the store, and the remedy if there is one.
func (s *store) explain(doing string, err error) error { return explain(s.path, doing, err) }
