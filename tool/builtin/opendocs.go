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
