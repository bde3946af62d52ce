package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
	zsqlite "zombiezen.com/go/sqlite"
)

const (
	maxReaders  = 4
	busyTimeout = 60 * time.Second // how long to wait for other processes' transactions
)

// A conn is one connection. One goroutine uses it at a time.
type conn struct{ sq *zsqlite.Conn }

func openConn(path string) (*conn, error) { return openAs(path, zsqlite.OpenReadWrite) }

func openAs(name string, how zsqlite.OpenFlags) (*conn, error) {
	sq, err := zsqlite.OpenConn(name, how)
	if err != nil {
		return nil, dbError{err}
	}
	c := &conn{sq: sq}
	sq.SetBusyTimeout(busyTimeout)
	err = sq.SetDefensive(true)
	for _, pragma := range []string{
		"PRAGMA synchronous=FULL",
		"PRAGMA fullfsync=ON", // macOS: fsync alone does not reach the disk
		"PRAGMA checkpoint_fullfsync=ON",
		"PRAGMA trusted_schema=OFF",
		"PRAGMA journal_size_limit=67108864",
		"PRAGMA cache_size=-16384",       // KiB: a transaction of a thousand runs fits
		"PRAGMA wal_autocheckpoint=4000", // pages, for the same reason
	} {
		if err == nil {
			err = c.exec(pragma, nil)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func openReader(path string) (*conn, error) {
	c, err := openConn(path)
	if err != nil {
		return nil, err
	}
	if err := c.exec("PRAGMA query_only=ON", nil); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *conn) close() error {
	if c == nil {
		return nil
	}
	return c.sq.Close()
}

// query runs a statement and calls row for each row until it returns false. Both
// functions may be nil. Statements are prepared once per connection, so their text
// must not contain values.
func (c *conn) query(sql string, bind func(*zsqlite.Stmt), row func(*zsqlite.Stmt) bool) error {
	st, err := c.sq.Prepare(sql)
	if err != nil {
		return dbError{err}
	}
	if bind != nil {
		bind(st)
	}
	for {
		more, err := st.Step()
		if err != nil {
			return dbError{err} // the statement has been reset
		}
		if !more || row != nil && !row(st) {
			if err := st.Reset(); err != nil {
				return dbError{err}
			}
			return nil
		}
	}
}

func (c *conn) exec(sql string, bind func(*zsqlite.Stmt)) error { return c.query(sql, bind, nil) }

// integer runs a statement that returns one number, and returns 0 if there is no row.
func (c *conn) integer(sql string, bind func(*zsqlite.Stmt)) (n int64, err error) {
	err = c.query(sql, bind, func(st *zsqlite.Stmt) bool {
		n = st.ColumnInt64(0)
		return false
	})
	return n, err
}

// begin opens a transaction that may write, and waits for other processes' until
// ctx ends. SQLite's own waiting backs off so far that a busy process can keep
// others out for seconds.
func (c *conn) begin(ctx context.Context) error {
	c.sq.SetBusyTimeout(0)
	defer c.sq.SetBusyTimeout(busyTimeout)
	return retryBusy(ctx, func() error { return c.exec("BEGIN IMMEDIATE", nil) })
}

func (c *conn) commit() error { return c.exec("COMMIT", nil) }
func (c *conn) rollback() error {
	if c.sq.AutocommitEnabled() {
		return nil // SQLite did it itself
	}
	return c.exec("ROLLBACK", nil)
}

// snapshot calls f in a transaction that reads, so that all of it sees one moment.
func (c *conn) snapshot(f func() error) error {
	if err := c.exec("BEGIN", nil); err != nil {
		return err
	}
	err := f()
	if rollback := c.rollback(); err == nil {
		err = rollback
	}
	return err
}

// retryBusy retries while another process has the file locked, at random intervals, so that waiting processes do not retry in step.
func retryBusy(ctx context.Context, f func() error) error {
	for waited := time.Duration(0); ; {
		err := f()
		if code(err) != zsqlite.ResultBusy || waited >= busyTimeout {
			return err
		}
		pause := time.Millisecond/4 + rand.N(min(time.Millisecond+waited/4, 8*time.Millisecond))
		waited += pause
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// blob copies a column, since the row's memory ends with the row.
func blob(st *zsqlite.Stmt, col int) []byte {
	b := make([]byte, st.ColumnLen(col))
	st.ColumnBytes(col, b)
	return b
}

// code returns the primary result code of an error of SQLite, ResultOK for nil.
func code(err error) zsqlite.ResultCode {
	if err == nil {
		return zsqlite.ResultOK
	}
	return zsqlite.ErrCode(err).ToPrimary()
}

// A dbError is an error of SQLite, as opposed to one of this package.
type dbError struct{ error }

func (e dbError) Unwrap() error { return e.error }

func isDB(err error) bool { return errors.As(err, new(dbError)) }

// unwritable reports whether an error means that the file, or a file that SQLite keeps beside it, cannot be written.
func unwritable(err error) bool {
	if !isDB(err) {
		return false
	}
	c := code(err)
	return c == zsqlite.ResultReadOnly || c == zsqlite.ResultPerm || c == zsqlite.ResultCantOpen
}

// explain adds to an error of SQLite the name of the file, and the remedy if there is one. It returns other errors unchanged.
func explain(path, doing string, err error) error {
	if !isDB(err) {
		return err
	}
	switch code(err) {
	case zsqlite.ResultCantOpen:
		if doing == "opening" {
			return fmt.Errorf("%s store %s: it cannot be written; check the permissions of the file and of its directory (%w)", doing, path, err)
		}
		return &runlog.StorageError{Store: path, Err: fmt.Errorf("%s: the file cannot be opened, perhaps since too many are open: %w", doing, err)}
	case zsqlite.ResultFull:
		return &runlog.StorageError{Store: path, Err: fmt.Errorf("%s: %w: %w", doing, syscall.ENOSPC, err)}
	case zsqlite.ResultIOErr:
		return &runlog.StorageError{Store: path, Err: fmt.Errorf("%s: %w", doing, err)}
	case zsqlite.ResultBusy, zsqlite.ResultLocked:
		return fmt.Errorf("%s store %s: another program keeps it locked; close whatever has it open, then try again (%w)", doing, path, err)
	case zsqlite.ResultNotADB:
		return fmt.Errorf("%s is not a superstep store; name another file (%w)", path, err)
	case zsqlite.ResultCorrupt:
		return fmt.Errorf("%s store %s: the file is damaged; `sqlite3 %s .recover` may save what is left (%w)", doing, path, path, err)
	case zsqlite.ResultReadOnly, zsqlite.ResultPerm:
		return fmt.Errorf("%s store %s: it cannot be written; check the permissions of the file and of its directory (%w)", doing, path, err)
	}
	return fmt.Errorf("%s store %s: %w", doing, path, err)
}

// A pool keeps a few connections for reading, opened when they are first needed.
type pool struct {
	open  func() (*conn, error)
	slots chan struct{} // one element per connection in use

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

// with lends a connection to f. One on which SQLite failed is not used again.
func (p *pool) with(ctx context.Context, f func(*conn) error) error {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.slots }()
	if err := ctx.Err(); err != nil {
		return err
	}
	c, err := p.take()
	if err != nil {
		return err
	}
	if err := f(c); isDB(err) {
		return errors.Join(err, c.close())
	} else if err != nil {
		return errors.Join(err, p.put(c))
	}
	return p.put(c)
}

func (p *pool) take() (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, storekit.ErrClosed
	}
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return c, nil
	}
	return p.open()
}

func (p *pool) put(c *conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return c.close()
	}
	p.idle = append(p.idle, c)
	return nil
}

// close closes the idle connections; a connection in use is closed when it is returned.
func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, c := range p.idle {
		errs = append(errs, c.close())
	}
	p.idle = nil
	return errors.Join(errs...)
}
