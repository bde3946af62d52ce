// Package redis keeps run logs in Redis 7 or newer, for several machines at once.
//
// The server's configuration decides how durable a commit is; [Store.Notes] describes it. With
// appendonly yes and appendfsync always a commit is on the server's disk when it returns. With
// less, a crash of the server can take back what was acknowledged. A store notices that, as long as
// it or its marker file remembers more than the server does, and answers runlog.ErrStoreReset
// instead of going on.
//
// A run is a hash of frames by number, beside a string with what listings show. (It is no stream:
// what a server does again of a transaction that was torn by a power cut must be something that can be
// written over, and an entry of a stream cannot.) Whatever is written by then goes to the server as one script, which
// checks epoch and position and changes all of it or nothing; while it is under way, the
// next one gathers. All keys of a store have its prefix as their hash tag, so that it
// lives in one slot of a Redis Cluster: each operation works there, but one store does
// not spread over several nodes, and the address has to be that of the node which has the
// slot. A store does not follow redirections or ask Sentinel: name the primary.
//
// Leases are on the server's clock. They decide how soon a run can be taken over from a
// process that died, never who may write.
package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// Options are the settings of a store. Nil and zero values mean the written defaults.
type Options struct {
	Prefix   string        // what all keys begin with, in braces: 1 to 64 of A-Z, a-z, 0-9, ".", "_", ":" and "-"; default "superstep"
	TTL      time.Duration // how long a run is kept once it has ended; default for ever
	Lease    time.Duration // how long a hold lasts unless it is renewed; default 15 s
	Owner    string        // who holds the runs, for people, up to 255 bytes; default "host:pid"
	Patience time.Duration // how long an operation waits for a server that is away; default 60 s

	// AllowVolatile opens a server that keeps nothing over a restart, that may evict
	// runs, or that does not tell. Default: such a server is refused.
	AllowVolatile bool

	// Marker is a file that remembers which store this is and how far it had come, so that a
	// later process also notices when it was emptied or lost something. It is written at Open and
	// Close, and about once a second in between. Default: only this Store remembers.
	Marker string
	// Accept accepts the store as it is, even if it contradicts the marker.
	Accept bool

	// Protection configures redaction and encryption. By default the secrets of the process's
	// environment are redacted, and nothing is encrypted.
	storekit.Protection

	// Failpoint is called at the points of a write at which a crash is interesting:
	// "redis.before-send" and "redis.after-send" (the server has answered, but nobody
	// knows yet). It must return or end the process. Default: none.
	Failpoint func(name string)
}

const (
	defaultPrefix   = "superstep"
	defaultPatience = 60 * time.Second
	maxOwner        = 255

	// schema is the version of the keys of a store.
	schema = 1
	// goneFor is how long the deletion of a held run is remembered, in case its holder returns.
	goneFor = 7 * 24 * time.Hour
)

// Store is a [runlog.Store], [runlog.Waiter] and [runlog.Sizer] in Redis. It redacts what is
// written to it, and encrypts it if it has a key: see [Options].
type Store struct {
	runlog.Store // over inner's store: redacts and encrypts
	inner
}

// inner provides the methods of a store that runlog.Store does not have. It is embedded one level deeper, so that the
// methods of runlog.Store take precedence.
type inner struct{ *store }

type store struct {
	name     string // for people, without passwords
	client   *client
	keys     keys
	scripts  scripts
	ttl      time.Duration
	lease    time.Duration
	owner    string
	patience time.Duration
	fail     func(string)
	notes    []string

	id     string                     // of the store, as found at Open
	known  atomic.Uint64              // how many writes there were, by what was acknowledged
	server atomic.Pointer[string]     // the process that was checked last, nil for none
	lost   atomic.Pointer[resetError] // why the store is not used any more
	marker *marker                    // nil for none

	work  sync.WaitGroup // subscriptions
	watch storekit.Watch
	away  storekit.Backoff // of the watch

	turn    chan struct{} // has an element while nobody writes
	ops     chan *op      // to whoever writes
	closing chan struct{}
	once    sync.Once
	closed  error
}

var (
	_ runlog.Store  = (*Store)(nil)
	_ runlog.Waiter = (*Store)(nil)
	_ runlog.Sizer  = (*Store)(nil)
)

// Open opens the store at an address like redis://user:password@host:6379/0, rediss:// for TLS or
// unix://user:password@/path?db=0, and makes it if there is none. It waits for a server that is
// starting, five seconds at most. It refuses a replica, a server older than Redis 7, one that would lose everything or
// may evict runs (unless AllowVolatile), and a store that a newer superstep made. A store that is
// not what the marker remembers gives an error that wraps runlog.ErrStoreReset. Errors and notes
// never contain passwords. The caller closes the store.
func Open(ctx context.Context, url string, opt *Options) (*Store, error) {
	if opt == nil {
		opt = &Options{}
	}
	s, err := open(ctx, url, opt)
	if err != nil {
		return nil, err
	}
	protection := opt.Protection
	protection.Address = url
	p, err := storekit.Protect(s, &protection)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening store %s: %w", s.name, err), s.Close())
	}
	return &Store{p, inner{s}}, nil
}

func open(ctx context.Context, url string, opt *Options) (*store, error) {
	s, err := newStore(url, opt)
	if err != nil {
		return nil, err
	}
	patience := s.patience
	s.patience = min(patience, 5*time.Second) // for a run under way it is worth while to wait, for an address that is wrong it is not
	server, err := s.examine(ctx, opt)
	if err == nil {
		err = s.enter(ctx, server, opt)
	}
	s.patience = patience
	if err != nil {
		return nil, errors.Join(err, s.client.pool.Close())
	}
	s.turn <- struct{}{}
	return s, nil
}

func newStore(url string, opt *Options) (*store, error) {
	s := &store{
		ttl: opt.TTL, lease: opt.Lease, owner: opt.Owner, patience: opt.Patience, fail: opt.Failpoint,
		turn:    make(chan struct{}, 1),
		ops:     make(chan *op),
		closing: make(chan struct{}),
	}
	prefix := opt.Prefix
	if prefix == "" {
		prefix = defaultPrefix
	}
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	client, name, err := dial(url, s.greet)
	if err != nil {
		return nil, err
	}
	s.client, s.name, s.keys = client, name, keysOf(prefix)
	if prefix != defaultPrefix {
		s.name += " (prefix " + prefix + ")"
	}
	if s.scripts, err = loadScripts(); err != nil {
		return nil, errors.Join(err, client.pool.Close())
	}
	storekit.Defaults(&s.lease, &s.owner, &s.fail)
	if s.patience <= 0 {
		s.patience = defaultPatience
	}
	s.owner = s.owner[:min(len(s.owner), maxOwner)]
	if opt.Marker != "" {
		s.marker = &marker{path: opt.Marker, store: s.name}
	}
	s.watch.Every, s.watch.Head, s.watch.Poll = pollEvery, s.head, s.poll
	return s, nil
}

// enter opens or creates the store, and compares it with the marker.
func (s *store) enter(ctx context.Context, server string, opt *Options) error {
	var was remembered
	if s.marker != nil {
		var err error
		if was, err = s.marker.read(); err != nil && !opt.Accept {
			return err
		}
	}
	token := newToken()
	fresh := fmt.Sprintf("%x", token[:])
	var r []any
	err := s.patiently(ctx, "opening", func() (err error) {
		r, err = s.client.run(ctx, s.scripts.open, []string{s.keys.store}, was.ID, was.LSN, fresh, flag(opt.Accept), schema)
		return err
	})
	switch verdict := text(r, 0); {
	case err != nil:
		return err
	case verdict == "newer":
		return fmt.Errorf("store %s has schema %s and was made by a newer superstep; this one reads up to schema %d, so update superstep to open it",
			s.name, text(r, 1), schema)
	case verdict != "ok":
		return s.resetBy(r)
	}
	known := was.LSN
	if opt.Accept || was.Server == server {
		known = 0 // which the script has compared already
	}
	s.id = text(r, 1)
	err = s.patiently(ctx, "opening", func() error {
		_, err := s.client.with(ctx, func(conn redigo.Conn) (any, error) { return nil, s.enterEra(ctx, conn, server, known) })
		return err
	})
	if err != nil {
		return err
	}
	s.learn(text(r, 2))
	return s.marker.write(s.remember(), opt.Accept)
}

// Notes returns what can be lost with this server, and other things its user should know, one
// sentence each. It is empty if acknowledged records can only be lost together with the server's
// disk.
func (s *store) Notes() []string { return append([]string(nil), s.notes...) }

// Close ends the store. Writes that have begun are finished first, unless the server is away.
// Runs that are still held stay so until their leases end.
func (s *store) Close() error {
	s.once.Do(func() {
		close(s.closing)
		s.watch.Close()
		s.work.Wait()
		<-s.turn // for good
		s.closed = errors.Join(s.marker.write(s.remember(), false), s.client.pool.Close())
	})
	return s.closed
}

func (s *store) closedError() error { return fmt.Errorf("store %s: %w", s.name, storekit.ErrClosed) }

// remember returns what the marker keeps.
func (s *store) remember() remembered {
	r := remembered{ID: s.id, LSN: s.known.Load()}
	if server := s.server.Load(); server != nil {
		r.Server = *server
	}
	return r
}

// learn notes the position of the store from an answer.
func (s *store) learn(lsn string) {
	n := parse(lsn)
	for {
		was := s.known.Load()
		if n <= was || s.known.CompareAndSwap(was, n) {
			return
		}
	}
}

// keys are the names of a store's keys.
type keys struct {
	store  string // a hash: id, schema, lsn (how many writes there were), no (how many runs)
	runs   string // a sorted set: IDs by number
	queued string // a sorted set: IDs of queued runs by number; the name of the channel that reports new ones as well
	ending string // a sorted set: IDs of runs that are kept for a while, by when they go, in ms
	base   string
}

func keysOf(prefix string) keys {
	base := "{" + prefix + "}:"
	return keys{store: base + "store", runs: base + "runs", queued: base + "queued", ending: base + "ending", base: base}
}

func (k *keys) run(id string) string  { return k.base + "run:" + id }
func (k *keys) log(id string) string  { return k.base + "log:" + id }
func (k *keys) gone(id string) string { return k.base + "gone:" + id }

// checkPrefix refuses a prefix that would end a hash tag early or would be ambiguous.
func checkPrefix(p string) error {
	odd := func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && !strings.ContainsRune("._:-", c)
	}
	if len(p) > 64 || strings.ContainsFunc(p, odd) {
		return fmt.Errorf("prefix %.80q: use 1 to 64 of A-Z, a-z, 0-9, %q, %q, %q and %q", p, ".", "_", ":", "-")
	}
	return nil
}

type token [16]byte

func newToken() (t token) {
	_, _ = rand.Read(t[:]) // which never fails
	return t
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
