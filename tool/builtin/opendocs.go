package builtin

import (
	"context"
	"os"

	"github.com/superstep-dev/superstep/internal/docindex"
)

// Docs is the full-text index of a folder, for SearchDocs. Its methods may be called
// from several goroutines.
type Docs = docindex.Index

// DocsOptions are the settings of OpenDocs. Nil means the defaults.
type DocsOptions struct {
	// CacheDir is where index files are kept, made with mode 0700 if it is missing.
	// Defaults to superstep/docindex in the user's cache folder.
	CacheDir string
	// Progress, if set, is called by OpenDocs, on the goroutine of its caller, with how many of all files
	// and how many bytes it has read so far.
	Progress func(read, all int, bytes int64)
	// Excluded, if set, reports whether a file must not be in the index. The name is relative to
	// the folder, with slashes.
	Excluded func(path string) bool
	// Embed, if set, returns a vector for each text, by which the first passages of a search are reordered.
	// If it fails, their order by words remains.
	Embed func(ctx context.Context, texts []string) ([][]float32, error)
	Large bool // the folder may have 2,000,000 files and 64 GiB, and not only 50,000 and 1 GiB
}

// OpenDocs opens the index of a folder, which is built on first use, kept in a cache,
// and brought up to date with the folder each time. The caller closes it.
func OpenDocs(ctx context.Context, dir string, opt *DocsOptions) (*Docs, error) {
	var o docindex.Options
	if opt != nil {
		o = docindex.Options{CacheDir: opt.CacheDir, Progress: opt.Progress, Excluded: opt.Excluded, Embed: opt.Embed}
		if opt.Large {
			o.Limits = docindex.LargeLimits()
		}
	}
	return docindex.Open(ctx, dir, &o)
}

// Open opens a file of the root for reading, if it may be read unasked.
func (r *Root) Open(name string) (*os.File, error) {
	f, _, err := r.openFor(nil, name)
	return f, err
}
