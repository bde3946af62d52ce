package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/jackc/pgx/v5"
	zsqlite "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/file"
	"github.com/superstep-dev/superstep/runlog/postgres"
	"github.com/superstep-dev/superstep/runlog/redis"
	"github.com/superstep-dev/superstep/runlog/sqlite"
)

// A place is a kind of store, and the same without the engine: how fast its library, its
// server and its disk keep a value at all.
type place struct {
	name  string
	open  func(ctx context.Context, dir string) (runlog.Store, io.Closer, error)
	size  func(ctx context.Context) (mib float64, err error) // of what was opened; nil where that is all there is in dir
	plain func(ctx context.Context, dir string) (*plain, error)
}

// plain writes values n at a time, each time durably.
type plain struct {
	put   func(i, n int, data []byte) error
	close func()
}

// places returns those there are on this machine. Servers are named by BENCH_PG and BENCH_REDIS.
func (s *suite) places() []*place {
	all := []*place{sqlitePlace(), filePlace()}
	if dsn := os.Getenv("BENCH_PG"); dsn != "" {
		all = append(all, postgresPlace(dsn))
	}
	if url := os.Getenv("BENCH_REDIS"); url != "" {
		all = append(all, redisPlace(url))
	}
	if only := os.Getenv("BENCH_STORES"); only != "" {
		all = slices.DeleteFunc(all, func(p *place) bool { return !slices.Contains(strings.Split(only, ","), p.name) })
	}
	return all
}

func sqlitePlace() *place {
	return &place{
		name: "sqlite",
		open: func(ctx context.Context, dir string) (runlog.Store, io.Closer, error) {
			s, err := sqlite.Open(ctx, filepath.Join(dir, "runs.db"), nil)
			return s, s, err
		},
		plain: plainSQLite,
	}
}

// plainSQLite has the settings of the store.
func plainSQLite(_ context.Context, dir string) (*plain, error) {
	c, err := zsqlite.OpenConn(filepath.Join(dir, "bare.db"), zsqlite.OpenReadWrite|zsqlite.OpenCreate)
	if err != nil {
		return nil, err
	}
	for _, q := range []string{
		"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA fullfsync=ON", "PRAGMA checkpoint_fullfsync=ON",
		"PRAGMA cache_size=-16384", "PRAGMA wal_autocheckpoint=4000", "CREATE TABLE t (pos INTEGER PRIMARY KEY, run TEXT, data BLOB NOT NULL)",
	} {
		if err := sqlitex.ExecuteTransient(c, q, nil); err != nil {
			_ = c.Close() // it goes with its file
			return nil, err
		}
	}
	return &plain{
		put: func(i, n int, data []byte) error {
			if err := step(c, "BEGIN IMMEDIATE", nil); err != nil {
				return err
			}
			for k := range n {
				err := step(c, "INSERT INTO t (pos, run, data) VALUES (?1, ?2, ?3)", func(st *zsqlite.Stmt) {
					st.BindInt64(1, int64(i+k))
					st.BindText(2, "run")
					st.BindBytes(3, data)
				})
				if err != nil {
					return err
				}
			}
			return step(c, "COMMIT", nil)
		},
		close: func() { _ = c.Close() },
	}, nil
}

func step(c *zsqlite.Conn, query string, bind func(*zsqlite.Stmt)) error {
	st, err := c.Prepare(query)
	if err != nil {
		return err
	}
	if bind != nil {
		bind(st)
	}
	if _, err := st.Step(); err != nil {
		return err
	}
	return st.Reset()
}

func filePlace() *place {
	return &place{
		name: "file",
		open: func(ctx context.Context, dir string) (runlog.Store, io.Closer, error) {
			s, err := file.Open(ctx, filepath.Join(dir, "runs"), nil)
			return s, s, err
		},
		plain: func(_ context.Context, dir string) (*plain, error) {
			f, err := os.Create(filepath.Join(dir, "bare"))
			if err != nil {
				return nil, err
			}
			return &plain{
				put: func(_, n int, data []byte) error {
					for range n {
						if _, err := f.Write(data); err != nil {
							return err
						}
					}
					return datasync(f)
				},
				close: func() { _ = f.Close() },
			}, nil
		},
	}
}

func postgresPlace(dsn string) *place {
	const schema = "superstep_bench"
	conn := func(ctx context.Context, do func(*pgx.Conn) error) error {
		c, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close(ctx) }()
		return do(c)
	}
	return &place{
		name: "pg",
		open: func(ctx context.Context, _ string) (runlog.Store, io.Closer, error) {
			err := conn(ctx, func(c *pgx.Conn) error {
				_, err := c.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
				return err
			})
			if err != nil {
				return nil, nil, err
			}
			s, err := postgres.Open(ctx, dsn, &postgres.Options{Schema: schema})
			return s, s, err
		},
		size: func(ctx context.Context) (mib float64, err error) {
			err = conn(ctx, func(c *pgx.Conn) error {
				return c.QueryRow(ctx,
					"SELECT sum(pg_total_relation_size(c.oid)) / 1048576.0 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE "+
						"n.nspname = $1 AND c.relkind = 'r'", schema).Scan(&mib)
			})
			return mib, err
		},
		plain: func(ctx context.Context, _ string) (*plain, error) {
			c, err := pgx.Connect(ctx, dsn)
			if err != nil {
				return nil, err
			}
			_, err = c.Exec(ctx, "DROP TABLE IF EXISTS superstep_bare; CREATE TABLE superstep_bare (run text, step int, data bytea, PRIMARY KEY "+
				"(run, step)); SET synchronous_commit = on")
			if err != nil {
				_ = c.Close(ctx)
				return nil, err
			}
			return &plain{
				put: func(i, n int, data []byte) error {
					if n == 1 {
						_, err := c.Exec(ctx, "INSERT INTO superstep_bare VALUES ($1, $2, $3)", "r", i, data)
						return err
					}
					_, err := c.CopyFrom(ctx, pgx.Identifier{"superstep_bare"}, []string{"run", "step", "data"},
						pgx.CopyFromSlice(n, func(k int) ([]any, error) { return []any{"r", i + k, data}, nil }))
					return err
				},
				close: func() { _ = c.Close(ctx) },
			}, nil
		},
	}
}

func redisPlace(url string) *place {
	const prefix = "superstep-bench"
	return &place{
		name: "redis",
		open: func(ctx context.Context, _ string) (runlog.Store, io.Closer, error) {
			c, err := redigo.DialURL(url)
			if err != nil {
				return nil, nil, err
			}
			defer func() { _ = c.Close() }()
			if _, err := c.Do("FLUSHDB"); err != nil {
				return nil, nil, err
			}
			s, err := redis.Open(ctx, url, &redis.Options{Prefix: prefix})
			return s, s, err
		},
		size: func(ctx context.Context) (float64, error) {
			c, err := redigo.DialURL(url)
			if err != nil {
				return 0, err
			}
			defer func() { _ = c.Close() }()
			var bytes int64
			info, err := redigo.String(c.Do("INFO", "memory"))
			if _, rest, ok := strings.Cut(info, "used_memory_dataset:"); ok {
				_, err = fmt.Sscan(rest, &bytes)
			}
			return float64(bytes) / (1 << 20), err
		},
		plain: func(ctx context.Context, _ string) (*plain, error) {
			c, err := redigo.DialURL(url)
			if err != nil {
				return nil, err
			}
			return &plain{
				put: func(i, n int, data []byte) error {
					for k := range n - 1 {
						if err := c.Send("SET", fmt.Sprint("bare:", i+k), data); err != nil {
							return err
						}
					}
					_, err := c.Do("SET", fmt.Sprint("bare:", i+n-1), data)
					return err
				},
				close: func() {
					_, _ = c.Do("FLUSHDB")
					_ = c.Close()
				},
			}, nil
		},
	}
}
