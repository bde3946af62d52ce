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
	"strings"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Options of Open. Nil means the defaults.
type Options struct {
	// CacheDir is where index files are kept, made with mode 0700 if it is missing.
	// Defaults to superstep/docindex in the user's cache folder.
	CacheDir string
	// Progress, if set, is told from the goroutine that called Open how many files, and
	// bytes of them, have been read so far.
	Progress func(files int, bytes int64)
}

// Stats says what an index holds and what opening it took.
type Stats struct {
	Files   int           // files indexed
	Chunks  int           // pieces of them that can be found
	Read    int           // files read because they were new or changed
	Skipped int           // files of an indexed kind left out: unreadable, binary or over 16 MiB
	Took    time.Duration // of Open
}

// An Index finds text in a folder. Its methods may be called from several goroutines.
type Index struct {
	dir   string
	root  *os.Root
	conns chan *sqlite.Conn // idle ones; taking one is the right to use it
	stats Stats
	close func() error

	mu      sync.Mutex
	weights map[string]float64 // by term
}

// Open returns the index of dir, building it or bringing it up to date first. It walks
// the whole folder but reads only what changed, by size and modification time, since
// the cache file was written. Symbolic links are not followed; .git and node_modules
// are left out. Close the index after use.
func Open(ctx context.Context, dir string, opts *Options) (*Index, error) {
	began := time.Now()
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
	b := builder{dir: dir, cache: cache, root: root, progress: o.Progress}
	db, stats, err := b.bringUpToDate(ctx)
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("index of %s: %w", dir, err)
	}
	stats.Took = time.Since(began)
	ix := &Index{dir: dir, root: root, stats: stats, weights: make(map[string]float64)}
	ix.conns = make(chan *sqlite.Conn, len(db))
	for _, c := range db {
		ix.conns <- c
	}
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
			return "", "", fmt.Errorf("index of %s: no cache folder: %w; set one", dir, err)
		}
		cacheDir = filepath.Join(user, "superstep", "docindex")
	}
	if err := os.MkdirAll(cacheDir, 0o700); err != nil {
		return "", "", fmt.Errorf("index of %s: %w; set another cache folder", dir, err)
	}
	sum := sha256.Sum256([]byte(abs))
	return abs, filepath.Join(cacheDir, fmt.Sprintf("%s-v%d.db", hex.EncodeToString(sum[:12]), format)), nil
}

// Dir is the folder searched, absolute and without symbolic links.
func (ix *Index) Dir() string { return ix.dir }

// Stats says what the index holds and what opening it took.
func (ix *Index) Stats() Stats { return ix.stats }

// Close releases the index. Searches that run are waited for; later ones fail.
func (ix *Index) Close() error { return ix.close() }

func (ix *Index) release() error {
	var errs []error
	for range cap(ix.conns) {
		errs = append(errs, (<-ix.conns).Close())
	}
	close(ix.conns)
	return errors.Join(append(errs, ix.root.Close())...)
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

// Weight is the inverse document frequency of a word, as BM25 has it: near 0 for one
// that is everywhere, about log(chunks) for one that is nowhere. Of a word that stands
// for several terms (an identifier, a hyphenated word) it is the largest.
func (ix *Index) Weight(word string) float64 {
	w := 0.0
	for _, term := range newTokenizer().terms(word) {
		w = max(w, ix.weight(context.Background(), term))
	}
	return w
}

func (ix *Index) weight(ctx context.Context, term string) float64 {
	ix.mu.Lock()
	w, ok := ix.weights[term]
	ix.mu.Unlock()
	if ok {
		return w
	}
	df := 0
	err := ix.with(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, `select doc from v where term = ?`, &sqlitex.ExecOptions{
			Args:       []any{term},
			ResultFunc: func(s *sqlite.Stmt) error { df = s.ColumnInt(0); return nil },
		})
	})
	w = idf(df, ix.stats.Chunks)
	if err == nil {
		ix.mu.Lock()
		ix.weights[term] = w
		ix.mu.Unlock()
	}
	return w
}

func idf(df, n int) float64 {
	df = min(df, n)
	return math.Log(1 + (float64(n-df)+0.5)/(float64(df)+0.5))
}

func connections() int { return min(4, max(2, runtime.GOMAXPROCS(0))) }

func uri(file string) string {
	return "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(filepath.ToSlash(file)) + "?immutable=1"
}
