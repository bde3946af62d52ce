package sqlite

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/superstep-dev/superstep/internal/localfs"
	"github.com/superstep-dev/superstep/runlog"
	zsqlite "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID marks the files that are superstep stores: "Sstp".
const applicationID = 0x53737470

// prepareFile makes sure that path is a file that may be a store, and creates an empty one if it is
// missing.
func prepareFile(path string) error {
	dir := filepath.Dir(path)
	unsynced, err := localfs.MakeDir(dir)
	if err != nil {
		return fmt.Errorf("making the directory of store %s: %w; name a place that can be written", path, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case err == nil:
		err = f.Close()
		for _, d := range append(unsynced, dir) {
			err = errors.Join(err, localfs.SyncDir(d))
		}
	case errors.Is(err, fs.ErrExist):
		err = checkHeader(path)
	}
	if err != nil {
		var file *fs.PathError
		if errors.As(err, &file) {
			return fmt.Errorf("opening store %s: %w; check the permissions, or name another place", path, err)
		}
		return err
	}
	return checkPermissions(path, dir)
}

// checkHeader refuses files that are not even SQLite's. An empty file is a new store.
func checkHeader(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("store %s is a directory; name a file in it", path)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("store %s is not a regular file; name another one", path)
	}
	if info.Size() == 0 {
		return checkNew(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	magic := []byte("SQLite format 3\x00")
	got := make([]byte, len(magic))
	if _, err := io.ReadFull(f, got); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if !bytes.Equal(got, magic) {
		return fmt.Errorf("%s is not a superstep store; name another file", path)
	}
	return nil
}

// checkNew refuses an empty file if files beside it show that the store had runs.
func checkNew(path string) error {
	for _, name := range []string{path + ".owners", path + ".reserve"} {
		if _, err := os.Stat(name); err == nil {
			return fmt.Errorf("store %s: %w: the file is empty, but %s is there; put a copy of the file back, or remove %s to begin a new store",
				path, runlog.ErrStoreReset, name, name)
		}
	}
	return nil
}

// there checks that the store's file is still the one that was opened.
func (s *store) there() error {
	now, err := os.Stat(s.path)
	switch {
	case err == nil && os.SameFile(s.file, now):
		return nil
	case err == nil:
		err = errors.New("another file was put in its place")
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return fmt.Errorf("store %s: %w: %w; put the file back, and start the program again", s.path, runlog.ErrStoreReset, err)
}

// checkPermissions refuses a store that every user of the machine may change.
func checkPermissions(path, dir string) error {
	if runtime.GOOS == "windows" {
		return nil // the mode says nothing there
	}
	for _, name := range []string{path, dir} {
		info, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("opening store %s: %w", path, err)
		}
		sticky := info.IsDir() && info.Mode()&fs.ModeSticky != 0
		if info.Mode().Perm()&0o002 != 0 && !sticky {
			return fmt.Errorf("store %s: everyone may write to %s; run `chmod 700 %s && chmod 600 %s`", path, name, dir, path)
		}
	}
	return nil
}

// migrate brings the file to the newest schema. The file may be new, and other
// processes may be doing the same.
func migrate(ctx context.Context, c *conn, path string) error {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	// In a transaction, so that all reads see the same state.
	if err := c.exec("BEGIN", nil); err != nil {
		return err
	}
	version, err := schemaVersion(c, path, len(names))
	if err := errors.Join(err, c.rollback()); err != nil {
		return err
	}
	if version == 0 {
		// So that Reclaim can free disk space in small steps. It must be set before the file has a page; if it was not, Reclaim rewrites the file.
		if err := c.exec("PRAGMA auto_vacuum=INCREMENTAL", nil); err != nil {
			return err
		}
	}
	if err := useWAL(ctx, c); err != nil {
		return err
	}
	if version == len(names) {
		return nil
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	err = migrateLocked(c, path, names)
	if err == nil {
		err = c.commit()
	}
	if err != nil {
		return errors.Join(err, c.rollback())
	}
	return nil
}

// migrateLocked checks the version again, now that no other process can migrate.
func migrateLocked(c *conn, path string, names []string) error {
	version, err := schemaVersion(c, path, len(names))
	if err != nil {
		return err
	}
	for ; version < len(names); version++ {
		script, err := migrations.ReadFile(names[version])
		if err != nil {
			return err
		}
		if err := sqlitex.ExecuteScript(c.sq, string(script), nil); err != nil {
			return dbError{fmt.Errorf("migrating to schema %d: %w", version+1, err)}
		}
	}
	// A pragma takes no parameters; both values are ours.
	for _, pragma := range []string{
		fmt.Sprintf("PRAGMA application_id=%d", applicationID),
		fmt.Sprintf("PRAGMA user_version=%d", len(names)),
	} {
		if err := c.exec(pragma, nil); err != nil {
			return err
		}
	}
	return nil
}

// schemaVersion returns the version of the file's schema, 0 for a new file, and
// refuses files that are not ours or too new.
func schemaVersion(c *conn, path string, known int) (int, error) {
	app, err := c.integer("PRAGMA application_id", nil)
	if err != nil {
		return 0, err
	}
	version, err := c.integer("PRAGMA user_version", nil)
	if err != nil {
		return 0, err
	}
	tables, err := c.integer("SELECT count(*) FROM sqlite_schema", nil)
	if err != nil {
		return 0, err
	}
	switch {
	case app == 0 && version == 0 && tables == 0:
		return 0, nil
	case app != applicationID:
		return 0, fmt.Errorf("%s is not a superstep store but another program's database; name another file", path)
	case version > int64(known):
		return 0, fmt.Errorf("store %s has schema %d and was written by a newer superstep; this one reads up to schema %d, so update superstep to open it",
			path, version, known)
	}
	return int(version), nil
}

// useWAL turns the write-ahead log on, which stays on in the file.
func useWAL(ctx context.Context, c *conn) error {
	var mode string
	err := retryBusy(ctx, func() error {
		return c.query("PRAGMA journal_mode=WAL", nil, func(st *zsqlite.Stmt) bool {
			mode = st.ColumnText(0)
			return false
		})
	})
	if err == nil && !strings.EqualFold(mode, "wal") {
		err = fmt.Errorf("the file system cannot do write-ahead logging (journal mode %q); put the store on a local disk", mode)
	}
	return err
}
