package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/superstep-dev/superstep/runlog"
)

// A dialer opens connections to one store.
type dialer struct {
	name   string // of the store, for people
	schema string
	config *pgconn.Config

	mu       sync.Mutex
	instance string // which store it is, "" before the first connection
}

// dialing marks the contexts of connections that the store asks for. The library would
// also connect to cancel the statement of a connection it gives up. That is not wanted:
// a commit that waits for a standby would then be visible without being on it.
type dialing struct{}

func (d *dialer) prepare(dsn, schema string, patience time.Duration) error {
	if schema == "" || len(schema) > 63 || strings.ContainsRune(schema, 0) {
		return fmt.Errorf("the schema of a Postgres store is named %q; a name has 1 to 63 bytes", schema)
	}
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		// The library's message may contain a part of the password.
		return errors.New("the address of the Postgres store cannot be read; it has the form postgres://user@host:5432/database, with special " +
			"characters of the password percent-encoded, or give the password in PGPASSWORD or ~/.pgpass")
	}
	d.schema, d.config, d.name = schema, config, masked(config, schema)
	if config.ConnectTimeout <= 0 || config.ConnectTimeout > patience/3 {
		config.ConnectTimeout = min(10*time.Second, max(patience/3, 100*time.Millisecond))
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "superstep"
	}
	tcp := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}}
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if ctx.Value(dialing{}) == nil {
			return nil, errors.New("statements are not cancelled")
		}
		return tcp.DialContext(ctx, network, addr)
	}
	config.ValidateConnect = d.validate
	config.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			c.CustomData()["warning"] = n.Message
		}
	}
	return nil
}

// masked returns what people may see of an address.
func masked(config *pgconn.Config, schema string) string {
	hosts := []string{}
	add := func(host string, port uint16) {
		h := net.JoinHostPort(host, fmt.Sprint(port))
		if len(hosts) == 0 || hosts[len(hosts)-1] != h { // each comes with and without TLS
			hosts = append(hosts, h)
		}
	}
	add(config.Host, config.Port)
	for _, f := range config.Fallbacks {
		add(f.Host, f.Port)
	}
	name := fmt.Sprintf("postgres://%s@%s/%s", config.User, strings.Join(hosts, ","), config.Database)
	if schema != "superstep" {
		name += " (schema " + schema + ")"
	}
	return name
}

// quoted returns a name as SQL takes it.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// A roleError reports that a server is reachable but accepts no writes.
type roleError struct{ why string }

func (e *roleError) Error() string { return e.why }

// facts are a server's settings that matter.
type facts struct {
	standby, readOnly, followed       bool
	version, encoding                 string
	fsync, fullPages, commit, replica string
}

const factsSQL = `SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only'),
	current_setting('server_version_num'), current_setting('server_encoding'), current_setting('fsync'),
	current_setting('full_page_writes'), current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
	set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false),
	set_config('search_path', $1, false), set_config('default_transaction_isolation', 'read committed', false),
	set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false),
	EXISTS (SELECT FROM pg_stat_replication)`

// validate prepares a new connection and refuses servers that cannot keep a store; if the
// address names several servers, the next one is tried then.
func (d *dialer) validate(ctx context.Context, pg *pgconn.PgConn) error {
	result := pg.ExecParams(ctx, factsSQL, [][]byte{[]byte(quoted(d.schema))}, []uint32{oidText}, nil, nil).Read()
	if result.Err != nil {
		return result.Err
	}
	v := func(i int) string { return string(result.Rows[0][i]) }
	f := facts{standby: v(0) == "t", readOnly: v(1) == "on", version: v(2), encoding: v(3), fsync: v(4), fullPages: v(5), commit: v(6),
		replica: v(7), followed: v(13) == "t"}
	pg.CustomData()["facts"] = f
	switch {
	case f.standby:
		return &roleError{"the server is a standby, which takes no writes; name the primary, or all servers as host1,host2"}
	case f.readOnly:
		return &roleError{"the database is read-only (default_transaction_read_only is on); name a primary that takes writes"}
	case len(f.version) < 6 || f.version < "120000":
		return fmt.Errorf("the server is Postgres %s, and superstep needs 12 or newer; update the server", pg.ParameterStatus("server_version"))
	case f.encoding != "UTF8" && f.encoding != "SQL_ASCII":
		return fmt.Errorf("the database has the encoding %s; make one with `CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`", f.encoding)
	}
	return nil
}

func (f *facts) notes() (notes []string) {
	if f.fsync != "on" {
		notes = append(notes, "fsync is off on the Postgres server: a crash of its machine can lose or damage everything")
	}
	if f.fullPages != "on" {
		notes = append(notes, "full_page_writes is off on the Postgres server: a crash of its machine can damage what it keeps")
	}
	if f.commit != "on" && f.commit != "remote_apply" {
		notes = append(notes, fmt.Sprintf("synchronous_commit is %s on the Postgres server: superstep turns it on for its own connections", f.commit))
	}
	if f.replica == "" && f.followed {
		notes = append(notes, "no standby of the Postgres server is synchronous: if one is promoted, acknowledged steps can be lost (synchronous_standby_names)")
	}
	return notes
}

// A conn is one connection. One goroutine uses it at a time.
type conn struct {
	pg       *pgconn.PgConn
	prepared map[string]*pgconn.StatementDescription
	facts    facts
	timeline string // the history the server writes, "" if it does not say
}

// dial connects. The caller must check which store that is.
func (d *dialer) dial(ctx context.Context) (*conn, error) {
	pg, err := pgconn.ConnectConfig(context.WithValue(ctx, dialing{}, true), d.config)
	if err != nil {
		return nil, &lostError{err}
	}
	c := &conn{pg: pg, prepared: map[string]*pgconn.StatementDescription{}}
	c.facts, _ = pg.CustomData()["facts"].(facts)
	// Not every service allows this, and then less is known about what is lost.
	_ = c.query(ctx, "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)", func(v [][]byte) error {
		c.timeline = string(v[0])
		return nil
	})
	if pg.IsClosed() {
		c.close()
		return nil, &lostError{errors.New("the connection was lost")}
	}
	return c, nil
}

// first opens the first connection, and creates the tables.
func (d *dialer) first(ctx context.Context) (*conn, error) {
	c, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.migrate(ctx, c); err != nil {
		c.close()
		return nil, err
	}
	if err := d.check(ctx, c); err != nil {
		return nil, err
	}
	return c, nil
}

// connect opens another connection.
func (d *dialer) connect(ctx context.Context) (*conn, error) {
	c, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.check(ctx, c); err != nil {
		return nil, err
	}
	return c, nil
}

// check makes sure that a connection leads to the same store as the first one, and closes it if
// not.
func (d *dialer) check(ctx context.Context, c *conn) error {
	version, instance, err := d.look(ctx, c)
	if err == nil && version == 0 {
		err = fmt.Errorf("its tables are gone: %w", runlog.ErrStoreReset)
	}
	if err == nil {
		d.mu.Lock()
		if d.instance == "" {
			d.instance = instance
		}
		if d.instance != instance {
			err = fmt.Errorf("it was emptied and made anew: %w", runlog.ErrStoreReset)
		}
		d.mu.Unlock()
	}
	if err != nil {
		if c.pg.IsClosed() {
			err = &lostError{err}
		}
		c.close()
	}
	return err
}

// close abandons a connection. Its current statement may or may not continue in the server.
func (c *conn) close() {
	if c == nil {
		return
	}
	if !c.pg.IsClosed() {
		ctx, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		_ = c.pg.Close(ctx)
	}
	_ = c.pg.Conn().Close() // which also ends what the library does behind a lost connection
	<-c.pg.CleanupDone()
}

// query runs a statement with values in their binary form and calls row, which may be nil, for each
// row. The arguments of row are valid only during the call. Statements are prepared once per
// connection, so their text must not contain values.
func (c *conn) query(ctx context.Context, sql string, row func(v [][]byte) error, values ...[]byte) error {
	st := c.prepared[sql]
	if st == nil {
		var err error
		if st, err = c.pg.Prepare(ctx, fmt.Sprintf("s%d", len(c.prepared)), sql, nil); err != nil {
			return err
		}
		c.prepared[sql] = st
	}
	binary := []int16{1}
	r := c.pg.ExecStatement(ctx, st, values, binary, binary)
	var failed error
	for r.NextRow() {
		if row != nil && failed == nil {
			failed = row(r.Values())
		}
	}
	if _, err := r.Close(); err != nil {
		return err
	}
	return failed
}

// script runs SQL without values, of one or several statements.
func (c *conn) script(ctx context.Context, sql string) error {
	_, err := c.pg.Exec(ctx, sql).ReadAll()
	return err
}

// warning returns what the server has warned of since the last call. It warns when a commit
// is not on the standbys it should be on.
func (c *conn) warning() string {
	data := c.pg.CustomData()
	w, _ := data["warning"].(string)
	delete(data, "warning")
	return w
}

// fence makes a separate commit. Once it succeeds, earlier commits have reached all required
// standbys too.
func (c *conn) fence(ctx context.Context) error {
	err := c.query(ctx, "UPDATE meta SET value = (value::bigint + 1)::text WHERE name = 'fences'", nil)
	if err == nil {
		if w := c.warning(); w != "" {
			err = &warnedError{w}
		}
	}
	return err
}

// A warnedError reports that a commit may not have reached a required standby.
type warnedError struct{ warning string }

func (e *warnedError) Error() string { return "the server warned: " + e.warning }
