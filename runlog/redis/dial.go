package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	redigo "github.com/gomodule/redigo/redis"
)

const (
	dialTimeout = 5 * time.Second
	ioTimeout   = 10 * time.Second // after which an answer is taken not to come; the address can say otherwise
	poolSize    = 16
	idleTimeout = 5 * time.Minute
)

// A client sends commands to a server, over several connections. It repeats nothing on its own.
type client struct {
	pool   *redigo.Pool
	failed atomic.Int64 // when a connection was lost, in Unix nanoseconds: those that were idle by then are not used again
}

// dial creates a client that calls greet for each new connection, and returns the store's name
// without its password. It does not connect yet.
func dial(url string, greet func(context.Context, redigo.Conn) error) (*client, string, error) {
	u, err := neturl.Parse(url)
	if err != nil { // which may repeat the password
		return nil, "", fmt.Errorf("the address of the Redis store cannot be read; write redis://user:password@host:6379/0, with other characters " +
			"than letters and digits as %%XX")
	}
	name := masked(u)
	a, err := parseAddress(u)
	if err != nil {
		why := err.Error()
		if secret, _ := u.User.Password(); secret != "" {
			why = strings.ReplaceAll(why, secret, "***")
		}
		return nil, "", fmt.Errorf("store %s: %s; write redis://user:password@host:6379/0, rediss:// for TLS, or unix://user:password@/path?db=0", name, why)
	}
	c := &client{pool: &redigo.Pool{MaxIdle: a.poolSize, MaxActive: a.poolSize, Wait: true, IdleTimeout: idleTimeout}}
	c.pool.DialContext = func(ctx context.Context) (redigo.Conn, error) {
		conn, err := redigo.DialContext(ctx, a.network, a.addr, a.options...)
		if err == nil {
			if err = greet(ctx, conn); err != nil {
				_ = conn.Close()
			}
		}
		if err != nil {
			return nil, &dialError{err}
		}
		return conn, nil
	}
	c.pool.TestOnBorrow = func(_ redigo.Conn, since time.Time) error {
		if since.UnixNano() <= c.failed.Load() {
			return errors.New("another connection was lost since it was used")
		}
		return nil
	}
	return c, name, nil
}

// masked returns the address without its user, password and settings.
func masked(u *neturl.URL) string {
	name := &neturl.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.User != nil {
		name.User = neturl.UserPassword(u.User.Username(), "***")
	}
	return strings.ReplaceAll(name.String(), "%2A", "*")
}

// An address is a parsed server URL.
type address struct {
	network, addr string
	poolSize      int
	options       []redigo.DialOption
}

func parseAddress(u *neturl.URL) (a address, err error) {
	q := query{u.Query(), nil}
	db := 0
	switch u.Scheme {
	case "redis", "rediss":
		host := cmp.Or(u.Hostname(), "localhost")
		a.network, a.addr = "tcp", net.JoinHostPort(host, cmp.Or(u.Port(), "6379"))
		if path := strings.Trim(u.Path, "/"); path != "" {
			if db, err = strconv.Atoi(path); err != nil {
				return a, fmt.Errorf("the database is a number, not %q", path)
			}
		}
		if u.Scheme == "rediss" {
			skip, err := strconv.ParseBool(cmp.Or(q.text("skip_verify"), "false"))
			if err != nil {
				return a, errors.New("skip_verify is true or false")
			}
			a.options = append(a.options, redigo.DialUseTLS(true), redigo.DialTLSHandshakeTimeout(dialTimeout),
				redigo.DialTLSConfig(&tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, InsecureSkipVerify: skip})) //nolint:gosec // its user asks for it
		}
	case "unix":
		if a.network, a.addr = "unix", u.Path; strings.TrimSpace(u.Path) == "" {
			return a, errors.New("the path of the socket is missing")
		}
	default:
		return a, fmt.Errorf("the scheme %q is none of Redis", u.Scheme)
	}
	read := q.duration("read_timeout", ioTimeout)
	password, _ := u.User.Password()
	a.options = append(a.options,
		redigo.DialConnectTimeout(q.duration("dial_timeout", dialTimeout)),
		redigo.DialReadTimeout(read), redigo.DialWriteTimeout(q.duration("write_timeout", read)),
		redigo.DialDatabase(q.number("db", db)), redigo.DialClientName(q.text("client_name")),
		redigo.DialUsername(u.User.Username()), redigo.DialPassword(password))
	a.poolSize = max(q.number("pool_size", poolSize), 2) // one is for whoever writes
	return a, q.end()
}

// A query holds the settings of an address that were not read yet.
type query struct {
	neturl.Values
	err error
}

func (q *query) text(name string) string {
	v := q.Get(name)
	q.Del(name)
	return v
}

func (q *query) number(name string, otherwise int) int {
	text := q.text(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		q.err = cmp.Or(q.err, fmt.Errorf("%s is a number, not %q", name, text))
	}
	return n
}

// duration reads a time: seconds, or a number with its unit. 0 or less means no limit.
func (q *query) duration(name string, otherwise time.Duration) time.Duration {
	text := q.text(name)
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if seconds, atoi := strconv.Atoi(text); atoi == nil {
		d, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil {
		q.err = cmp.Or(q.err, fmt.Errorf("%s is a time like 10s, not %q", name, text))
	}
	return max(d, 0)
}

func (q *query) end() error {
	if q.err == nil && len(q.Values) > 0 {
		var names []string
		for name := range q.Values {
			names = append(names, name)
		}
		slices.Sort(names)
		return fmt.Errorf("there is no setting %s; there are client_name, db, dial_timeout, pool_size, read_timeout, skip_verify and write_timeout",
			strings.Join(names, ", "))
	}
	return q.err
}

// with calls f with a connection.
func (c *client) with(ctx context.Context, f func(redigo.Conn) (any, error)) (any, error) {
	conn, err := c.pool.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	r, err := f(conn)
	if conn.Err() != nil {
		c.failed.Store(time.Now().UnixNano())
	}
	return r, err
}

func (c *client) do(ctx context.Context, command string, args ...any) (any, error) {
	return c.with(ctx, func(conn redigo.Conn) (any, error) { return redigo.DoContext(conn, ctx, command, args...) })
}

// run runs a script, whose answer is a list.
func (c *client) run(ctx context.Context, script *redigo.Script, keys []string, args ...any) ([]any, error) {
	return redigo.Values(c.with(ctx, func(conn redigo.Conn) (any, error) { return run(ctx, conn, script, keys, args...) }))
}

func run(ctx context.Context, conn redigo.Conn, script *redigo.Script, keys []string, args ...any) (any, error) {
	all := make([]any, 0, 1+len(keys)+len(args))
	all = append(all, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	return script.DoContext(ctx, conn, append(all, args...)...)
}

// transaction executes commands atomically and returns their answers. An answer can be an error.
func (c *client) transaction(ctx context.Context, commands ...[]any) ([]any, error) {
	return redigo.Values(c.with(ctx, func(conn redigo.Conn) (any, error) {
		err := conn.Send("MULTI")
		for _, args := range commands {
			err = errors.Join(err, conn.Send(fmt.Sprint(args[0]), args[1:]...))
		}
		if err != nil {
			return nil, err
		}
		return redigo.DoContext(conn, ctx, "EXEC")
	}))
}

// A dialError reports that there is no connection, so that nothing was sent.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }
