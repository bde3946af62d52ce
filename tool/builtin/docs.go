package builtin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/superstep-dev/superstep/internal/docindex"
	"github.com/superstep-dev/superstep/tool"
)

const docsMost = 20 // hits at most

// SearchDocs returns the tool "search_docs", which finds places in the folder of an
// index. Its output is, per passage, a line "## path:start-end" with the heading or symbol after two spaces, lines of a
// number, a tab and text, "(also in …)" if there are copies, and a blank line. The text of a line is verbatim in that line
// of the file, so it can be cited and checked. If words of the query occur nowhere, the first line names them.
//
// Open returns the index of the folder dir. It is called for every search, from several goroutines; large is whether the call asks for an index beyond
// the usual limits. Reads decides which files a call may search if no gate has decided on it; see RootOptions. If nil, all files.
func SearchDocs(dir string, open func(ctx context.Context, large bool) (*Docs, error), reads func(name, from string) func(file string) tool.Verdict) *tool.Tool {
	type args struct {
		Query string `json:"query" jsonschema:"what to look for, in plain words; put a phrase that must occur as it is in double quotes"`
		Limit int    `json:"limit,omitempty" jsonschema:"how many places to return, at most 20; defaults to 8"`
		Large bool   `json:"large,omitempty" jsonschema:"index the folder even if it is beyond the usual limits, which needs permission; set it only after a search was refused for that"`
	}
	folder := filepath.Base(dir)
	description := fmt.Sprintf("Search the documents and source code in the folder %q. The output is the places that fit best, each a line "+
		"\"## path:start-end\" and then its lines with their numbers. Cite a place as path:line. Left out are hidden files, files that Git "+
		"ignores, and files that need permission to be read.", folder)
	return made(tool.NewRaw("search_docs", description,
		func(ctx context.Context, c *tool.Call, in args) (string, error) {
			if in.Limit < 0 || in.Limit > docsMost {
				return "", fmt.Errorf("limit %d: must be from 1 to %d", in.Limit, docsMost)
			}
			if strings.TrimSpace(in.Query) == "" {
				return "", fmt.Errorf("query: is empty; say in a few words what to look for")
			}
			index, err := open(ctx, in.Large)
			if _, ok := errors.AsType[*docindex.LimitError](err); ok && !in.Large {
				return "",
					fmt.Errorf("%w; call search_docs with \"large\": true to ask for permission, or search a smaller folder with grep. The rule "+
						"that allows it beforehand is search_docs(large)", err)
			}
			if err != nil {
				return "", err
			}
			s := newSight(c, reads, "search_docs", ".")
			for _, name := range index.Excluded() {
				s.sees(name)
			}
			found, err := index.Search(ctx, in.Query, in.Limit, func(name string) bool { return s.sees(name) })
			if err != nil {
				return "", err
			}
			if c.Raw {
				return formatPassages(found), nil
			}
			if len(found.Passages) == 0 {
				return strings.TrimSpace(fmt.Sprintf("no place in %q fits %q; try other words, fewer of them, or no quotes\n%s", folder, in.Query, s.note())), nil
			}
			return formatPassages(found) + s.note(), nil
		}, &tool.Options{Effect: tool.Pure}))
}

func formatPassages(found docindex.Found) string {
	var out strings.Builder
	if len(found.Missing) > 0 {
		fmt.Fprintf(&out, "No document has: %s.\n\n", strings.Join(found.Missing, ", "))
	}
	for _, p := range found.Passages {
		fmt.Fprintf(&out, "## %s:%d-%d", p.Path, p.Start, p.End)
		if p.Heading != "" {
			out.WriteString("  " + p.Heading)
		}
		for _, l := range p.Lines {
			fmt.Fprintf(&out, "\n%d\t%s", l.N, l.Text)
		}
		if len(p.Copies) > 0 {
			fmt.Fprintf(&out, "\n(also in %s)", strings.Join(p.Copies, ", "))
		}
		out.WriteString("\n\n")
	}
	return out.String()
}
