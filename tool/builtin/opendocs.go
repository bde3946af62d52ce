package builtin

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/superstep-dev/superstep/internal/docindex"
)

// Docs is the full-text index of a folder, for SearchDocs. Its methods may be called
// from several goroutines.
type Docs = docindex.Index

// LargeDocs are the limits of an index that a user has allowed to be large.
func LargeDocs() *docindex.Limits { return docindex.LargeLimits() }

// DocsProgress returns a DocsOptions.Progress that reports how large the index of a folder gets and how many of its files
// are read, not more often than every so often. Of an index that is ready sooner it reports nothing.
func DocsProgress(dir string, every time.Duration, report func(text string, read, all int)) func(read, all int, bytes int64) {
	last := time.Now()
	return func(read, all int, bytes int64) {
		if time.Since(last) >= every {
			last = time.Now()
			report(fmt.Sprintf("%d of %d files, %d MB: indexing %s, the first time only", read, all, bytes/1e6, dir), read, all)
		}
	}
}

// DocsOptions are the settings of OpenDocs. Nil means the defaults.
type DocsOptions = docindex.Options

// OpenDocs opens the index of a folder, which is built on first use, kept in a cache,
// and brought up to date with the folder each time. The caller closes it.
func OpenDocs(ctx context.Context, dir string, opt *DocsOptions) (*Docs, error) {
	return docindex.Open(ctx, dir, opt)
}

// Open opens a file of the root for reading, if it may be read unasked.
func (r *Root) Open(name string) (*os.File, error) {
	f, _, err := r.openFor(nil, name)
	return f, err
}
