package redis

import (
	"context"
	"fmt"
	"net"
	neturl "net/url"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	dialTimeout = 5 * time.Second
	ioTimeout   = 10 * time.Second // after which an answer is taken not to come; the address can say otherwise
)

// dial makes a client that repeats nothing on its own and calls greet for each new connection, and
// the store's name without its password.
func dial(url string, greet func(context.Context, *goredis.Conn) error) (*goredis.Client, string, error) {
	u, err := neturl.Parse(url)
	if err != nil { // which may repeat the password
		return nil, "", fmt.Errorf("the address of the Redis store cannot be read; write redis://user:password@host:6379/0, with other characters than letters and digits as %%XX")
	}
	secret := ""
	if u.User != nil {
		secret, _ = u.User.Password()
	}
	name := masked(u)
	opt, err := goredis.ParseURL(url)
	if err != nil {
		why := err.Error()
		if secret != "" {
			why = strings.ReplaceAll(why, secret, "***")
		}
		return nil, "", fmt.Errorf("store %s: %s; write redis://user:password@host:6379/0, rediss:// for TLS, or unix://user:password@/path?db=0", name, strings.TrimPrefix(why, "redis: "))
	}
	opt.Protocol = 2
	opt.DisableIdentity = true
	opt.MaxRetries = -1
	opt.DialerRetries = 1
	opt.PipelinePoolSize = -1
	opt.ContextTimeoutEnabled = true
	if opt.DialTimeout == 0 {
		opt.DialTimeout = dialTimeout
	}
	if opt.ReadTimeout == 0 {
		opt.ReadTimeout = ioTimeout
	}
	if opt.WriteTimeout == 0 {
		opt.WriteTimeout = opt.ReadTimeout
	}
	opt.OnConnect = greet
	connect := goredis.NewDialer(opt)
	opt.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := connect(ctx, network, addr)
		if err != nil {
			return noConn{&dialError{err}}, nil
		}
		return c, nil
	}
	return goredis.NewClient(opt), name, nil
}

// masked is the address without its user, password and settings.
func masked(u *neturl.URL) string {
	name := &neturl.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.User != nil {
		name.User = neturl.UserPassword(u.User.Username(), "***")
	}
	return strings.ReplaceAll(name.String(), "%2A", "*")
}

// A dialError says that there is no connection, so that nothing was sent.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// A noConn stands for a connection that could not be made. The pool would answer an error of
// its dialer with words on standard error and a goroutine that tries on; so it gets this.
type noConn struct{ err error }

func (c noConn) Read([]byte) (int, error)         { return 0, c.err }
func (c noConn) Write([]byte) (int, error)        { return 0, c.err }
func (c noConn) Close() error                     { return nil }
func (c noConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c noConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c noConn) SetDeadline(time.Time) error      { return nil }
func (c noConn) SetReadDeadline(time.Time) error  { return nil }
func (c noConn) SetWriteDeadline(time.Time) error { return nil }
