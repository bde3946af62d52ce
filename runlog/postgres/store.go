// Package postgres keeps run logs in a Postgres database, which any number of processes
// on any number of machines may use at once.
//
// A commit is durable when it returns: synchronous_commit is on for the store's own
// connections, whatever the server's default is. Appends that arrive while others are being
// committed share the next transaction, which is one statement and one round trip. Each
// append checks the run's hold inside that statement, so a writer that lost its run writes
// nothing. Leases are on the server's clock; a run whose process died can be taken over
// when its lease has ended.
//
// A server that is away for a while, because it is restarted or the network is cut, is only a
// delay: operations wait for it, up to Options.Patience. If a connection is lost during a commit,
// the store reads the outcome before it writes again.
//
// The address must be that of a primary, directly or through a pooler that keeps sessions.
// When an asynchronous standby is promoted, steps that were acknowledged can be lost. A
// holder of the run finds that out at its next append or renewal and gets an error that
// wraps [runlog.ErrStoreReset]. Nothing is lost with a synchronous standby; [Store.Notes]
// says what a server's settings do not promise.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// Options are the settings of a store. Nil and zero values mean the written defaults.
type Options struct {
	Schema string        // the schema its tables are in, which is made if it is missing; default "superstep"
	Lease  time.Duration // how long a hold lasts unless it is renewed, by the server's clock; default 15 s
	Owner  string        // who holds the runs, for people; default "host:pid"

	// Patience is how long an operation waits for a server that is away or overloaded.
	// Default 60 s.
	Patience time.Duration

	// Protection configures redaction and encryption. By default the secrets of the process's
	// environment are redacted, and nothing is encrypted.
	storekit.Protection

	// Failpoint is called at the points of an append at which a crash is interesting:
	// "postgres.before-begin", "postgres.mid-write" (after each record has been put into
	// the message to the server), "postgres.before-commit" (before the message is sent: the
	// server takes it as one transaction) and "postgres.after-commit" (durable, but nobody
	// knows yet). It must return or end the process. Default: none.
	Failpoint func(name string)
}

// Store is a [runlog.Store], [runlog.Waiter] and [runlog.Sizer] in a Postgres database. It
// redacts what is written to it, and encrypts it if it has a key: see [Options].
type Store struct {
	runlog.Store // over inner's store: redacts and encrypts
	inner
}

// inner provides the methods of a store that runlog.Store does not have. It is embedded one level deeper, so that the
// methods of runlog.Store take precedence.
type inner struct{ *store }

type store struct {
	name     string // for people, without the password
	dialer   dialer
	lease    time.Duration
	owner    string
	patience time.Duration
	fail     func(string)

	notes []string
	pool  pool
	watch storekit.Watch

	turn    chan *writer  // has the writer while nobody writes
	ops     chan *op      // to whoever writes
	closing chan struct{} // closed when Close begins
	once    sync.Once
	work    sync.WaitGroup // the goroutines that try again
}

var (
	_ runlog.Store  = (*Store)(nil)
	_ runlog.Waiter = (*Store)(nil)
	_ runlog.Sizer  = (*Store)(nil)
)

// Open opens the store in the database dsn, a postgres:// address or "key=value" settings as
// libpq takes them, and makes its schema and tables if they are missing. Several processes may
// do so at once. It refuses a standby, a database that is read-only, and a schema that a newer
// superstep made. It does not wait for a server that does not answer. The caller closes the store.
func Open(ctx context.Context, dsn string, opt *Options) (*Store, error) {
	if opt == nil {
		opt = &Options{}
	}
	s, err := open(ctx, dsn, opt)
	if err != nil {
		return nil, err
	}
	protection := opt.Protection
	protection.Address = dsn
	p, err := storekit.Protect(s, &protection)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening store %s: %w", s.name, err), s.Close())
	}
	return &Store{p, inner{s}}, nil
}

func open(ctx context.Context, dsn string, opt *Options) (*store, error) {
	s, err := newStore(dsn, opt)
	if err != nil {
		return nil, err
	}
	c, err := s.dialer.first(ctx)
	if err != nil {
		return nil, s.explain("opening", err)
	}
	s.notes = c.facts.notes()
	s.pool.put(c)
	s.turn <- &writer{s: s}
	return s, nil
}

func newStore(dsn string, opt *Options) (*store, error) {
	s := &store{
		lease: opt.Lease, owner: opt.Owner, patience: opt.Patience, fail: opt.Failpoint,
		turn:    make(chan *writer, 1),
		ops:     make(chan *op),
		closing: make(chan struct{}),
	}
	storekit.Defaults(&s.lease, &s.owner, &s.fail)
	if s.patience <= 0 {
		s.patience = 60 * time.Second
	}
	s.owner = text(s.owner)
	schema := opt.Schema
	if schema == "" {
		schema = "superstep"
	}
	if err := s.dialer.prepare(dsn, schema, s.patience); err != nil {
		return nil, err
	}
	s.name = s.dialer.name
	s.pool = pool{dialer: &s.dialer, slots: make(chan struct{}, maxReaders)}
	s.watch.Every, s.watch.Head, s.watch.Poll = pollEvery, s.head, s.poll
	return s, nil
}

// Notes returns what the server's settings, as they were when the store was opened, do not
// promise: one sentence each, for people. There are none for a server with a synchronous
// standby and the usual settings.
func (s *store) Notes() []string { return s.notes }

// Close ends the store. Appends that were sent to the server are finished first. Runs that are
// still held are taken over by others once their leases have ended; release them before.
func (s *store) Close() error {
	s.once.Do(func() {
		close(s.closing)
		s.watch.Close()
		w := <-s.turn // for good
		s.work.Wait()
		w.c.close()
		s.pool.close()
	})
	return nil
}

func (s *store) closed(doing string) error {
	return fmt.Errorf("%s store %s: %w", doing, s.name, storekit.ErrClosed)
}
