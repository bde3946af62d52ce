package builtin

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/superstep-dev/superstep/internal/docindex"
	"github.com/superstep-dev/superstep/tool"
)

const docsMost = 20 // hits at most

// SearchDocs returns the tool "search_docs", which finds places in the folder of an
// index. Its output is, per place, a line "## path:start-end", lines of a number, a tab
// and text, and a blank line. The text of a line is verbatim in that line of the file,
// so it can be cited and checked.
func SearchDocs(index *docindex.Index) *tool.Tool {
	return SearchDocsIn(index.Dir(), func(context.Context) (*Docs, error) { return index, nil })
}

// SearchDocsIn is SearchDocs over a folder whose index is opened when it is searched. Open is
// called for every search, from several goroutines.
func SearchDocsIn(dir string, open func(context.Context) (*Docs, error)) *tool.Tool {
	type args struct {
		Query string `json:"query" jsonschema:"what to look for, in plain words; put a phrase that must occur as it is in double quotes"`
		Limit int    `json:"limit,omitempty" jsonschema:"how many places to return, at most 20; defaults to 8"`
	}
	folder := filepath.Base(dir)
	description := fmt.Sprintf("Search the documents and source code in the folder %q. The output is the places that fit best, each a line \"## path:start-end\" and then its lines with their numbers. Cite a place as path:line.", folder)
	return made(tool.New("search_docs", description,
		func(ctx context.Context, in args) (string, error) {
			if in.Limit < 0 || in.Limit > docsMost {
				return "", fmt.Errorf("limit %d: must be from 1 to %d", in.Limit, docsMost)
			}
			if strings.TrimSpace(in.Query) == "" {
				return "", fmt.Errorf("query: is empty; say in a few words what to look for")
			}
			index, err := open(ctx)
			if err != nil {
				return "", err
			}
			hits, err := index.Search(ctx, in.Query, in.Limit)
			if err != nil {
				return "", err
			}
			if len(hits) == 0 {
				return fmt.Sprintf("no place in %q fits %q; try other words, fewer of them, or no quotes", folder, in.Query), nil
			}
			return formatHits(hits), nil
		}, &tool.Options{Effect: tool.Pure}))
}

func formatHits(hits []docindex.Hit) string {
	var out strings.Builder
	for _, h := range hits {
		fmt.Fprintf(&out, "## %s:%d-%d\n", h.Path, h.Start, h.End)
		for _, l := range h.Lines {
			fmt.Fprintf(&out, "%d\t%s\n", l.N, l.Text)
		}
		out.WriteByte('\n')
	}
	return out.String()
}
