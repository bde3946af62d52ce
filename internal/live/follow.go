package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

const (
	dialTime = 250 * time.Millisecond
	redial   = 500 * time.Millisecond // between two attempts to reach the executing process
	silence  = 2 * time.Second        // after which the store is asked whether it has more
	maxLine  = runlog.MaxFrame + 64<<10
)

// storedOnly is the name of a live-only event that Follow itself yields; no run writes it.
const storedOnly = "stored.only"

// StoredOnly reports whether a record of Follow announces that only stored records follow for now, because the process that executes the run cannot be
// reached.
func StoredOnly(r *runlog.Record) bool {
	var e runlog.Event
	return r.Seq == 0 && r.Kind == runlog.KindEvent && r.Path == "" && json.Unmarshal(r.Data, &e) == nil && e.Name == storedOnly
}

// Look asks the process that executes a run to look for requests at once, if it can be reached.
func Look(ctx context.Context, paths []string, run string) {
	if conn := connect(ctx, paths); conn != nil {
		greet(conn, hello{Look: true, Run: run})
		_ = conn.Close()
	}
}

// connect returns a connection to the first socket that answers, or nil if none does.
func connect(ctx context.Context, paths []string) *net.UnixConn {
	d := net.Dialer{Timeout: dialTime}
	for _, path := range paths {
		if len(path) > maxPath {
			continue
		}
		c, err := d.DialContext(ctx, "unix", path)
		if err != nil {
			continue
		}
		if conn, ok := c.(*net.UnixConn); ok && mine(conn) {
			return conn
		}
		_ = c.Close()
	}
	return nil
}

func greet(conn *net.UnixConn, h hello) {
	h.V = version
	_ = conn.SetWriteDeadline(time.Now().Add(dialTime))
	_ = json.NewEncoder(conn).Encode(h) // if it fails, nothing can be read either
}

// Follow is like runlog.Follow, and also yields live-only records while the process that executes the run answers at one of the paths. If that process
// stops answering, Follow reads on from the store and keeps looking for a process that executes the run. If none answers for a moment while the run
// executes, Follow yields one record that reports it: see StoredOnly.
func Follow(ctx context.Context, store runlog.Store, paths []string, run string, from uint64) iter.Seq2[runlog.Record, error] {
	return func(yield func(runlog.Record, error) bool) {
		f := &follower{store: store, paths: paths, run: run, yield: yield}
		f.next.Store(max(from, 1))
		conn, more := connect(ctx, paths), true
		for more {
			if conn != nil && !f.listen(ctx, conn) {
				return
			}
			conn, more = f.read(ctx)
		}
	}
}

type follower struct {
	store runlog.Store
	paths []string
	run   string
	yield func(runlog.Record, error) bool
	told  bool // that only stored records come

	next  atomic.Uint64 // the sequence number of the next stored record
	heard atomic.Uint64 // how many records came from a process
}

// put yields a record and reports whether to continue.
func (f *follower) put(r runlog.Record) bool {
	if r.Seq != 0 {
		f.next.Store(r.Seq + 1)
	}
	return f.yield(r, nil)
}

// listen yields the records that the executing process sends, until it sends no more or sends an invalid one. It closes the connection, and reports
// whether to continue with the store.
func (f *follower) listen(ctx context.Context, conn *net.UnixConn) (more bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	closed, guarded := make(chan struct{}), make(chan struct{})
	context.AfterFunc(ctx, func() { _ = conn.Close(); close(closed) })
	go func() {
		defer close(guarded)
		f.guard(ctx, func() { cancel(errElsewhere) })
	}()
	defer func() { cancel(nil); <-closed; <-guarded }()
	greet(conn, hello{Run: f.run, From: f.next.Load()})
	in := bufio.NewScanner(conn)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		var r record
		if json.Unmarshal(in.Bytes(), &r) != nil || r.Kind == "" || r.Seq > f.next.Load() { // as when it was killed in the middle of a line
			break
		}
		f.heard.Add(1)
		if r.Seq != 0 && r.Seq < f.next.Load() {
			continue
		}
		if !f.put(runlog.Record(r)) {
			return false
		}
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errElsewhere) {
		f.yield(runlog.Record{}, cause)
		return false
	}
	return true
}

var errElsewhere = errors.New("the run is known better elsewhere")

// guard calls leave once the process has been silent for a while although the store has newer records: the process may be suspended, and another may
// execute the run by now. It returns when ctx ends.
func (f *follower) guard(ctx context.Context, leave func()) {
	t := time.NewTicker(silence)
	defer t.Stop()
	for before := f.heard.Load(); ; before = f.heard.Load() {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		if f.heard.Load() != before {
			continue
		}
		infos, err := f.store.Runs(ctx, &runlog.Filter{ID: f.run})
		if err == nil && (len(infos) == 0 || infos[0].Status != runlog.Running || infos[0].Head >= f.next.Load()) {
			leave()
			return
		}
	}
}

var errSearched = errors.New("the search for the executing process is over")

// read yields stored records until a process that executes the run answers, and returns the connection to it. It also returns when no process executes
// the run any more.
func (f *follower) read(ctx context.Context) (conn *net.UnixConn, more bool) {
	for {
		reading, stop := context.WithCancelCause(ctx)
		found := make(chan *net.UnixConn, 1)
		told := f.told
		go func() { found <- f.search(reading, told, stop) }()
		var broke error
		left := false
		for r, err := range runlog.Follow(reading, f.store, f.run, f.next.Load()) {
			if broke = err; err != nil {
				break
			}
			if left = !f.put(r); left {
				break
			}
		}
		searched := errors.Is(context.Cause(reading), errSearched) && ctx.Err() == nil
		stop(nil)
		conn = <-found
		switch {
		case left, broke == nil, !searched:
			if conn != nil {
				_ = conn.Close()
			}
			if cause := context.Cause(ctx); broke != nil && cause != nil {
				broke = cause
			}
			if broke != nil {
				f.yield(runlog.Record{}, broke)
			}
			return nil, false
		case conn != nil:
			return conn, true
		case !f.tell(ctx):
			return nil, false
		}
	}
}

// search returns a connection to the first process that answers. It returns nil if ctx ends, or if none answers at first and the reader does not know
// that yet (told). Before it returns, it calls stop with errSearched.
func (f *follower) search(ctx context.Context, told bool, stop context.CancelCauseFunc) *net.UnixConn {
	t := time.NewTicker(redial)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
		if conn := connect(ctx, f.paths); conn != nil || !told {
			stop(errSearched)
			return conn
		}
	}
}

// tell yields the StoredOnly record if the run is executing.
func (f *follower) tell(ctx context.Context) bool {
	f.told = true
	infos, err := f.store.Runs(ctx, &runlog.Filter{ID: f.run})
	if err != nil || len(infos) == 0 || infos[0].Status != runlog.Running {
		return true // reading on says why
	}
	data, err := json.Marshal(runlog.Event{Name: storedOnly})
	return err != nil || f.yield(runlog.Record{Kind: runlog.KindEvent, Time: infos[0].Updated, Data: data}, nil)
}
