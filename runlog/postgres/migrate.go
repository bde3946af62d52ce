package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the store to the newest schema. Other processes may be doing the same.
func (d *dialer) migrate(ctx context.Context, c *conn) error {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	version, _, err := d.look(ctx, c)
	if err != nil || version == len(names) {
		return err
	}
	sum := sha256.Sum256([]byte("superstep " + d.schema))
	err = c.script(ctx, fmt.Sprintf("BEGIN; SELECT pg_advisory_xact_lock(%d)", int64(binary.BigEndian.Uint64(sum[:]))))
	if err == nil {
		err = d.migrateLocked(ctx, c, names)
	}
	if err != nil {
		_ = c.script(ctx, "ROLLBACK") // or the connection is gone, which is the same
		return err
	}
	return c.script(ctx, "COMMIT")
}

// migrateLocked checks the version again, now that no other process can migrate.
func (d *dialer) migrateLocked(ctx context.Context, c *conn, names []string) error {
	version, _, err := d.look(ctx, c)
	if err != nil || version == len(names) {
		return err
	}
	if version == 0 {
		if err := d.create(ctx, c); err != nil {
			return fmt.Errorf("making schema %s: %w; a user who may has to run `CREATE SCHEMA %s AUTHORIZATION %s`", d.schema, err, quoted(d.schema),
				quoted(d.config.User))
		}
	}
	for ; version < len(names); version++ {
		script, err := migrations.ReadFile(names[version])
		if err != nil {
			return err
		}
		if err := c.script(ctx, string(script)); err != nil {
			return fmt.Errorf("migrating to version %d: %w", version+1, err)
		}
	}
	return c.query(ctx, "UPDATE meta SET value = $1 WHERE name = 'version'", nil, []byte(strconv.Itoa(len(names))))
}

// create creates the schema and the table that describes it. Fences counts commits
// that were made for the sake of those before them.
func (d *dialer) create(ctx context.Context, c *conn) error {
	there := false
	err := c.query(ctx, "SELECT FROM pg_namespace WHERE nspname = $1", func([][]byte) error {
		there = true
		return nil
	}, []byte(d.schema))
	if err == nil && !there {
		err = c.script(ctx, "CREATE SCHEMA "+quoted(d.schema))
	}
	if err == nil {
		err = c.script(ctx, "CREATE TABLE meta (name text PRIMARY KEY, value text NOT NULL); INSERT INTO meta VALUES ('version', '0'), ('fences', '0')")
	}
	if err == nil {
		err = c.query(ctx, "INSERT INTO meta VALUES ('instance', $1)", nil, []byte(strings.ToLower(rand.Text())))
	}
	return err
}

// look reads the version of the store's schema, 0 if there is none, and which store it is.
// It refuses versions that are too new.
func (d *dialer) look(ctx context.Context, c *conn) (version int, instance string, err error) {
	there := false
	err = c.query(ctx, "SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1 AND relname = 'meta'", func([][]byte) error {
		there = true
		return nil
	}, []byte(d.schema))
	if err != nil || !there {
		return 0, "", err
	}
	var pg *pgconn.PgError
	stated := ""
	err = c.query(ctx, "SELECT name, value FROM meta WHERE name IN ('version', 'instance')", func(v [][]byte) error {
		if string(v[0]) == "version" {
			stated = string(v[1])
		} else {
			instance = string(v[1])
		}
		return nil
	})
	if errors.As(err, &pg) && (pg.Code == "42P01" || pg.Code == "42501") { // it is there, and not for this user
		return 0, "", fmt.Errorf("user %s may not use schema %s: %w; its owner has to run `GRANT ALL ON SCHEMA %s TO %s` and `GRANT ALL ON ALL "+
			"TABLES IN SCHEMA %s TO %s`, or name another schema",
			d.config.User, d.schema, err, quoted(d.schema), quoted(d.config.User), quoted(d.schema), quoted(d.config.User))
	}
	if err != nil {
		return 0, "", err
	}
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return 0, "", err
	}
	version, err = strconv.Atoi(stated)
	switch {
	case err != nil || instance == "":
		return 0, "", fmt.Errorf("schema %s is not a superstep store but another program's; name another schema", d.schema)
	case version > len(names):
		return 0, "", fmt.Errorf("the store has schema version %d and was written by a newer superstep; this one knows up to %d, so update superstep to open it",
			version, len(names))
	}
	return version, instance, nil
}
