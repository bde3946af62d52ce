package docindex

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const (
	format  = 10       // of cache files; part of their name
	maxFile = 16 << 20 // bytes; larger files are data, not documents
	racy    = 2 * time.Second

	tooLarge = "too large" // why a file is left out
)

const schema = `
create table files(id integer primary key, path text not null unique, size integer not null, mtime integer not null, fresh integer not null, left text not null);
create table rows(id integer primary key, file integer not null, first integer not null, last integer not null);
create index rows_file on rows(file);
create table meta(dir text not null, removed integer not null);
create virtual table t using fts5(body, head, path, content='', contentless_delete=1, tokenize='ascii');
create virtual table v using fts5vocab(t, 'row');
insert into t(t, rank) values('pgsz', 16000);
insert into t(t, rank) values('hashsize', 8388608);
insert into t(t, rank) values('automerge', 0);
`

type builder struct {
	dir, cache string
	temporary  string // the folder that is removed with the index, "" if that is kept
	root       *os.Root
	progress   func(int, int, int64)
	excluded   func(string) bool
	limits     *Limits
	any        bool // files of every kind and size
	stats      Stats
	left       map[string]int // files and folders not even looked into, by why
	out        []string       // files that are excluded
	found      int            // files
	bytes      int64
}

const mostOut = 10_000 // names of excluded files that are kept

// A file is a file to index, in its found or in its indexed state.
type file struct {
	id    int64
	path  string // relative, with slashes
	size  int64
	mtime int64
	fresh bool // modified so shortly before it was read that a later change may not show
}

// bringUpToDate returns connections to a cache file that agrees with the folder.
func (b *builder) bringUpToDate(ctx context.Context) ([]*sqlite.Conn, Stats, error) {
	sweep(filepath.Dir(b.cache))
	sound := make(chan bool, 1)
	go func() { sound <- intact(b.cache) }()
	found, err := b.walk(ctx)
	intact := <-sound
	if err != nil {
		if intact {
			b.purge()
		}
		return nil, Stats{}, err
	}
	if intact {
		conns, err := b.reuse(ctx, found)
		if err == nil || ctx.Err() != nil {
			return conns, b.stats, err
		}
	}
	b.stats = Stats{}
	conns, err := b.rebuild(ctx, found)
	return conns, b.stats, err
}

// purge removes a cache file that cannot be updated and contains excluded files.
func (b *builder) purge() {
	if b.excluded == nil {
		return
	}
	conns, err := openAll(b.cache)
	if err != nil {
		return
	}
	defer closeAll(conns)
	known, _, err := b.known(conns[0])
	for name := range known {
		if err == nil && b.excluded(name) {
			os.Remove(b.cache)
			return
		}
	}
}

// reuse opens the cache file, or an updated copy of it if files changed.
func (b *builder) reuse(ctx context.Context, found []file) ([]*sqlite.Conn, error) {
	conns, err := openAll(b.cache)
	if err != nil {
		return nil, err
	}
	known, removed, err := b.known(conns[0])
	if err != nil {
		closeAll(conns)
		return nil, err
	}
	changed, gone := diff(found, known)
	// Deleted rows stay in the database file for a while. Excluded text must not.
	if b.excluded != nil && slices.ContainsFunc(gone, func(f file) bool { return b.excluded(f.path) }) {
		closeAll(conns)
		return b.rebuild(ctx, found)
	}
	if len(changed) == 0 && len(gone) == 0 {
		if err := b.count(conns[0]); err != nil {
			closeAll(conns)
			return nil, err
		}
		return conns, nil
	}
	closeAll(conns)
	if (len(changed)+len(gone))*3 > len(found) || removed > 2*len(found) {
		return b.rebuild(ctx, found)
	}
	return b.publish(func(tmp *os.File) error {
		old, err := os.Open(b.cache)
		if err != nil {
			return err
		}
		defer old.Close()
		_, err = io.Copy(tmp, old)
		return err
	}, func(c *sqlite.Conn) error { return b.update(ctx, c, changed, gone) })
}

func (b *builder) rebuild(ctx context.Context, found []file) ([]*sqlite.Conn, error) {
	return b.publish(func(*os.File) error { return nil }, func(c *sqlite.Conn) error {
		if err := sqlitex.ExecuteScript(c, schema, nil); err != nil {
			return err
		}
		if err := sqlitex.Execute(c, `insert into meta values(?, 0)`, &sqlitex.ExecOptions{Args: []any{b.dir}}); err != nil {
			return err
		}
		return b.update(ctx, c, found, nil)
	})
}

// publish creates a new cache file: prepare fills it, and change modifies the resulting database.
// The file appears under its name complete and durable, or not at all.
func (b *builder) publish(prepare func(*os.File) error, change func(*sqlite.Conn) error) (conns []*sqlite.Conn, err error) {
	const pattern = "build-*.tmp"
	tmp, err := os.CreateTemp(filepath.Dir(b.cache), pattern) // mode 0600
	if unusable := err; err != nil && b.temporary == "" {
		if b.temporary, err = os.MkdirTemp("", "superstep-index-*"); err == nil {
			b.cache = filepath.Join(b.temporary, filepath.Base(b.cache))
			tmp, err = os.CreateTemp(b.temporary, pattern)
		}
		if err != nil {
			err = errors.Join(unusable, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w; set SUPERSTEP_CACHE_DIR to a folder that can be written", err)
	}
	name := tmp.Name()
	defer func() {
		tmp.Close()
		if err != nil {
			if errors.Is(err, syscall.ENOSPC) || sqlite.ErrCode(err).ToPrimary() == sqlite.ResultFull {
				err = fmt.Errorf("%w; free space for the cache folder %s, or set SUPERSTEP_CACHE_DIR to another one", err, filepath.Dir(b.cache))
			}
			closeAll(conns)
			conns = nil
			os.Remove(name)
		}
	}()
	if err := prepare(tmp); err != nil {
		return nil, fmt.Errorf("write index cache %s: %w", name, err)
	}
	if err := write(name, change); err != nil {
		return nil, err
	}
	if err := seal(tmp); err != nil {
		return nil, fmt.Errorf("write index cache %s: %w", name, err)
	}
	// The file is opened before it is renamed, so that this process searches its own index even if
	// another process replaces the file at once.
	if conns, err = openAll(name); err != nil {
		return nil, err
	}
	if err := b.count(conns[0]); err != nil {
		return conns, err
	}
	if err := os.Rename(name, b.cache); err != nil {
		return conns, fmt.Errorf("publish index cache: %w", err)
	}
	return conns, nil
}

func write(name string, change func(*sqlite.Conn) error) (err error) {
	c, err := sqlite.OpenConn(name, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, pragma := range []string{`page_size = 4096`, `journal_mode = off`, `synchronous = off`, `locking_mode = exclusive`, `cache_size = -4000`} {
		if err := sqlitex.ExecuteTransient(c, `pragma `+pragma, nil); err != nil {
			return err
		}
	}
	if err := sqlitex.ExecuteTransient(c, `begin`, nil); err != nil {
		return err
	}
	if err := change(c); err != nil {
		return err
	}
	return sqlitex.ExecuteTransient(c, `commit`, nil)
}

func openAll(name string) ([]*sqlite.Conn, error) {
	var conns []*sqlite.Conn
	for range connections() {
		c, err := sqlite.OpenConn(uri(name), sqlite.OpenReadOnly, sqlite.OpenURI)
		if err == nil {
			// Reading the schema opens the file before it may be renamed.
			err = errors.Join(sqlitex.ExecuteTransient(c, `select dir from meta`, nil), sqlitex.ExecuteTransient(c, `pragma cache_size = -16000`, nil))
			conns = append(conns, c)
		}
		if err != nil {
			closeAll(conns)
			return nil, fmt.Errorf("open index cache %s: %w", name, err)
		}
	}
	return conns, nil
}

func closeAll(conns []*sqlite.Conn) {
	for _, c := range conns {
		c.Close()
	}
}

func (b *builder) count(c *sqlite.Conn) error {
	b.stats.Left = maps.Clone(b.left)
	return sqlitex.ExecuteTransient(c, `select left, count(*), (select count(*) from rows) from files group by left`, &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error {
			b.stats.Passages = s.ColumnInt(2)
			if why := s.ColumnText(0); why != "" {
				b.stats.Left[why] += s.ColumnInt(1)
			} else {
				b.stats.Files = s.ColumnInt(1)
			}
			return nil
		},
	})
}

// known returns the files the cache knows and how many of its rows were removed since it
// was built.
func (b *builder) known(c *sqlite.Conn) (map[string]file, int, error) {
	dir, removed := "", 0
	err := sqlitex.ExecuteTransient(c, `select dir, removed from meta`, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		dir, removed = s.ColumnText(0), s.ColumnInt(1)
		return nil
	}})
	if err == nil && dir != b.dir {
		err = fmt.Errorf("index cache %s is of %s", b.cache, dir)
	}
	if err != nil {
		return nil, 0, err
	}
	files := make(map[string]file)
	err = sqlitex.ExecuteTransient(c, `select id, path, size, mtime, fresh from files`, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		f := file{id: s.ColumnInt64(0), path: s.ColumnText(1), size: s.ColumnInt64(2), mtime: s.ColumnInt64(3), fresh: s.ColumnBool(4)}
		files[f.path] = f
		return nil
	}})
	return files, removed, err
}

// diff returns which of the found files must be read, and which of the known ones must be removed.
func diff(found []file, known map[string]file) (changed, gone []file) {
	seen := make(map[string]bool, len(found))
	for _, f := range found {
		seen[f.path] = true
		k, ok := known[f.path]
		if ok && k.size == f.size && k.mtime == f.mtime && !k.fresh {
			continue
		}
		changed = append(changed, f)
		if ok {
			gone = append(gone, k)
		}
	}
	for _, k := range known {
		if !seen[k.path] {
			gone = append(gone, k)
		}
	}
	slices.SortFunc(gone, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return changed, gone
}

// Has reports whether the index of a folder would contain a file.
func Has(ctx context.Context, dir string, excluded func(path string) bool) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	b := builder{dir: dir, root: root, excluded: packedToo(excluded), limits: &Limits{}, left: map[string]int{}} // the first one is beyond them
	files, _ := b.walk(ctx)
	return len(files) > 0
}

// Files lists the files of a folder, of every kind, as paths relative to it with slashes: at most so many, without those that are excluded, hidden or
// ignored by a .gitignore.
func Files(ctx context.Context, dir string, most int, excluded func(path string) bool) ([]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	b := builder{dir: dir, root: root, excluded: excluded, any: true, limits: &Limits{Files: most - 1, Bytes: math.MaxInt64}, left: map[string]int{}}
	files, err := b.walk(ctx)
	if errors.As(err, new(*LimitError)) {
		err = nil
	}
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = f.path
	}
	return out, err
}

// packedToo checks a file and, if it is compressed, also the name that it unpacks to.
func packedToo(excluded func(string) bool) func(string) bool {
	if excluded == nil {
		return nil
	}
	return func(name string) bool { return excluded(name) || excluded(strings.TrimSuffix(name, ".gz")) }
}

// walk lists the files of an indexed kind, sorted by path.
func (b *builder) walk(ctx context.Context) ([]file, error) {
	files, err := b.list(ctx, nil, ".", ignores{})
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return files, err
}

// list appends the files of a folder.
func (b *builder) list(ctx context.Context, files []file, dir string, ig ignores) ([]file, error) {
	entries, err := os.ReadDir(filepath.Join(b.dir, filepath.FromSlash(dir)))
	if err != nil {
		if dir == "." {
			return files, err
		}
		b.left["unreadable"]++
	}
	if dir == "." || slices.ContainsFunc(entries, func(d fs.DirEntry) bool { return d.Name() == ".gitignore" }) {
		ig.read(b, dir)
	}
	for _, d := range entries {
		if ctx.Err() != nil {
			return files, ctx.Err()
		}
		name := path.Join(dir, d.Name())
		hidden := strings.HasPrefix(d.Name(), ".") || ig.has(name, d.IsDir())
		if d.IsDir() {
			if !hidden && d.Name() != "node_modules" {
				if files, err = b.list(ctx, files, name, ig); err != nil {
					return files, err
				}
			}
			continue
		}
		if !d.Type().IsRegular() {
			continue
		}
		if !b.any && kindOf(d.Name()) == notText {
			if !hidden {
				b.left["not text"]++
			}
			continue
		}
		if b.excluded != nil && b.excluded(name) {
			if len(b.out) < mostOut {
				b.out = append(b.out, name)
			}
			continue
		}
		if hidden {
			continue
		}
		info, err := d.Info()
		if err != nil { // it is gone
			continue
		}
		if info.Size() > maxFile && !b.any {
			b.left[tooLarge]++
			continue
		}
		files = append(files, file{path: name, size: info.Size(), mtime: info.ModTime().UnixNano()})
		b.found++
		b.bytes += info.Size()
		switch {
		case b.found > b.limits.Files:
			return files, &LimitError{b.dir, b.found, b.bytes, fmt.Sprintf("%d files", b.limits.Files)}
		case b.bytes > b.limits.Bytes:
			return files, &LimitError{b.dir, b.found, b.bytes, fmt.Sprintf("%d MB", b.limits.Bytes/1e6)}
		}
	}
	return files, nil
}

// A cache file holds the CRC-32C of its other bytes in the four bytes that SQLite reserves for
// applications as "user version".
const sealAt, sealSize = 60, 4

func seal(f *os.File) error {
	sum, err := checksum(f)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(binary.BigEndian.AppendUint32(nil, sum), sealAt); err != nil {
		return err
	}
	return f.Sync()
}

// intact reports whether the cache file exists and is unchanged since it was published.
func intact(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	want := make([]byte, sealSize)
	if _, err := f.ReadAt(want, sealAt); err != nil {
		return false
	}
	sum, err := checksum(f)
	return err == nil && sum == binary.BigEndian.Uint32(want)
}

func checksum(f *os.File) (uint32, error) {
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, sealAt)); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	_, err = io.CopyBuffer(h, io.NewSectionReader(f, sealAt+sealSize, info.Size()), make([]byte, 256<<10))
	return h.Sum32(), err
}

// sweep removes leftover files of killed builders.
func sweep(dir string) {
	old, _ := filepath.Glob(filepath.Join(dir, "build-*.tmp"))
	for _, name := range old {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > time.Hour {
			os.Remove(name)
		}
	}
}
