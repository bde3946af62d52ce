// Package docindex is ranked full-text search over a folder of documents and source
// code, whose hits can be cited: every line it returns is verbatim in the file.
//
// An index is a cache. It lives in a file named after the folder, is brought up to date
// when it is opened, and may be deleted at any time. A published cache file never
// changes: updates go to a copy that is renamed over it, so readers in other processes
// keep what they opened, builders do not wait for each other, and a crash leaves the
// old file. A checksum finds damage, and a damaged file is built again.
package docindex

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"zombiezen.com/go/sqlite"
)

// Options of Open. Nil means the defaults.
type Options struct {
	// CacheDir is where index files are kept, made with mode 0700 if it is missing.
	// Defaults to superstep/docindex in the user's cache folder. If it cannot be written, the
	// index is in a temporary folder until it is closed.
	CacheDir string
	// Progress, if set, is called by Open, on the goroutine of its caller, with how many of all files
	// and how many bytes it has read so far.
	Progress func(read, all int, bytes int64)
	// Excluded, if set, reports whether a file must not be in the index. The name is relative to
	// the folder, with slashes. If an older cache file contains such a file, its text is removed
	// from disk.
	Excluded func(path string) bool
	// Embed, if set, returns a vector for each text, by which Search reorders its first passages.
	// If it fails, their order by words remains.
	Embed func(ctx context.Context, texts []string) ([][]float32, error)
	// Limits of the index. Defaults to DefaultLimits.
	Limits *Limits
}

// Limits bound an index, and how long it takes to build it or to bring it up to date.
type Limits struct {
	Files int
	Bytes int64 // of the files
	Time  time.Duration
}

// DefaultLimits returns the limits of an index without a user's decision.
func DefaultLimits() *Limits { return &Limits{50_000, 1 << 30, 2 * time.Minute} }

// LargeLimits returns the limits of an index that a user has allowed to be large.
func LargeLimits() *Limits { return &Limits{2_000_000, 64 << 30, 2 * time.Hour} }

// Progress returns an Options.Progress that reports how large the index of a folder gets and how
// many of its files are read, at most once per interval. If the index is ready sooner, it reports
// nothing.
func Progress(dir string, every time.Duration, report func(text string, read, all int)) func(read, all int, bytes int64) {
	last := time.Now()
	return func(read, all int, bytes int64) {
		if time.Since(last) >= every {
			last = time.Now()
			report(fmt.Sprintf("%d of %d files, %d MB: indexing %s, the first time only", read, all, bytes/1e6, dir), read, all)
		}
	}
}

// A LimitError reports that the index of a folder would exceed its limits.
type LimitError struct {
	Dir   string
	Files int // found when the limit was met
	Bytes int64
	Limit string // that was exceeded
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the index of %s would exceed the limit of %s: %d files with %d MB were found so far", e.Dir, e.Limit, e.Files, e.Bytes/1e6)
}

// Stats describes the content of an index and the work of opening it.
type Stats struct {
	Files    int            // files indexed
	Passages int            // rows of the index: passages, and groups of them in code
	Read     int            // files read because they were new or changed
	Bytes    int64          // of the files indexed
	Left     map[string]int // files left out, by why: not text, unreadable, binary, too large (over 16 MiB)
}

// An Index finds text in a folder. Its methods may be called from several goroutines.
type Index struct {
	dir       string
	temporary string                                               // see builder
	embed     func(context.Context, []string) ([][]float32, error) // nil for none
	root      *os.Root
	conns     chan *sqlite.Conn // idle ones; taking one is the right to use it
	stats     Stats
	out       []string // files that Options.Excluded named
	close     func() error
	words     func() (lexicon, error)

	mu    sync.Mutex
	known map[string]int // frequencies by term
	docs  map[string]*document
	kept  int // bytes of docs, roughly
}

// Open returns the index of dir, building it or bringing it up to date first. It walks the whole
// folder but reads only what changed, by size and modification time, since the cache file was
// written. Left out are node_modules, files and folders whose name begins with a dot, files ignored
// by .gitignore or .git/info/exclude, briefs of the research workflow, and files excluded by the
// options. Symbolic links are not followed. An index beyond the limits is a *LimitError. Close the
// index after use.
func Open(ctx context.Context, dir string, opts *Options) (*Index, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	dir, cache, err := places(dir, o.CacheDir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("index of %s: %w", dir, err)
	}
	b := builder{dir: dir, cache: cache, root: root, progress: o.Progress, excluded: packedToo(o.Excluded), limits: o.Limits, left: make(map[string]int)}
	if b.limits == nil {
		b.limits = DefaultLimits()
	}
	slow := &LimitError{Dir: dir, Limit: b.limits.Time.String() + " of work"}
	ctx, stop := context.WithTimeoutCause(ctx, b.limits.Time, slow)
	defer stop()
	db, stats, err := b.bringUpToDate(ctx)
	if err != nil {
		root.Close()
		_ = os.RemoveAll(b.temporary) // the error is another one
		if errors.Is(context.Cause(ctx), slow) {
			slow.Files, slow.Bytes = b.found, b.bytes
			err = slow
		}
		if limit, ok := errors.AsType[*LimitError](err); ok {
			return nil, limit
		}
		return nil, fmt.Errorf("index of %s: %w", dir, err)
	}
	stats.Bytes = b.bytes
	ix := &Index{dir: dir, temporary: b.temporary, embed: o.Embed, root: root, stats: stats, out: b.out, known: make(map[string]int), docs: make(map[string]*document)}
	ix.conns = make(chan *sqlite.Conn, len(db))
	for _, c := range db {
		ix.conns <- c
	}
	ix.words = sync.OnceValues(newLexicon)
	ix.close = sync.OnceValue(ix.release)
	return ix, nil
}

// places returns the absolute folder without symbolic links and its cache file.
func places(dir, cacheDir string) (abs, cache string, err error) {
	if abs, err = filepath.Abs(dir); err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", "", fmt.Errorf("index of %s: %w", dir, err)
	}
	if info, err := os.Stat(abs); err != nil {
		return "", "", fmt.Errorf("index of %s: %w", dir, err)
	} else if !info.IsDir() {
		return "", "", fmt.Errorf("index of %s: not a directory; name the folder that holds it", dir)
	}
	if cacheDir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", "", fmt.Errorf("index of %s: no cache folder: %w; set SUPERSTEP_CACHE_DIR", dir, err)
		}
		cacheDir = filepath.Join(user, "superstep", "docindex")
	}
	_ = os.MkdirAll(cacheDir, 0o700) // else the index is put elsewhere, see publish
	sum := sha256.Sum256([]byte(abs))
	return abs, filepath.Join(cacheDir, fmt.Sprintf("%s-v%d.db", hex.EncodeToString(sum[:12]), format)), nil
}

// Dir returns the folder searched, absolute and without symbolic links.
func (ix *Index) Dir() string { return ix.dir }

// Stats returns the content of the index and the work of opening it.
func (ix *Index) Stats() Stats { return ix.stats }

// Excluded returns the files, at most 10,000, that Options.Excluded left out, by path.
func (ix *Index) Excluded() []string { return slices.Clone(ix.out) }

// Close waits for running searches and releases the index. Later searches fail.
func (ix *Index) Close() error { return ix.close() }

func (ix *Index) release() error {
	var errs []error
	for range cap(ix.conns) {
		errs = append(errs, (<-ix.conns).Close())
	}
	close(ix.conns)
	return errors.Join(append(errs, ix.root.Close(), os.RemoveAll(ix.temporary))...)
}

var errClosed = errors.New("index is closed")

// with calls f with a connection that stops when ctx ends.
func (ix *Index) with(ctx context.Context, f func(*sqlite.Conn) error) error {
	select {
	case c, ok := <-ix.conns:
		if !ok {
			return errClosed
		}
		c.SetInterrupt(ctx.Done())
		defer func() {
			c.SetInterrupt(nil)
			ix.conns <- c
		}()
		err := f(c)
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mostParsed bounds the files that an Index keeps parsed, in bytes.
const mostParsed = 48 << 20

// document returns a file as it was indexed, or nil if it has changed since. Files are kept for the next search.
func (ix *Index) document(f file) *document {
	info, err := ix.root.Lstat(f.path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != f.size || info.ModTime().UnixNano() != f.mtime {
		return nil
	}
	ix.mu.Lock()
	d := ix.docs[f.path]
	ix.mu.Unlock()
	if d != nil {
		return d
	}
	raw, info, err := slurp(ix.root, f.path, nil)
	if err != nil || info.Size() != f.size || info.ModTime().UnixNano() != f.mtime {
		return nil
	}
	if raw, err = unpacked(f.path, raw); err != nil {
		return nil
	}
	d = parse(kindOf(f.path), raw, nil)
	size := len(raw) + len(d.lines)*int(unsafe.Sizeof(line{})) + len(d.spans)*int(unsafe.Sizeof(span{}))
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.kept += size; ix.kept > mostParsed {
		clear(ix.docs)
		ix.kept = size
	}
	ix.docs[f.path] = d
	return d
}

// idf returns the inverse document frequency of BM25: near 0 for a term in all rows, about log(n)
// for a term in none.
func idf(df, n int) float64 {
	df = min(df, n)
	return math.Log(1 + (float64(n-df)+0.5)/(float64(df)+0.5))
}

func connections() int { return min(4, max(2, runtime.GOMAXPROCS(0))) }

func uri(file string) string {
	return "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(filepath.ToSlash(file)) + "?immutable=1"
}
