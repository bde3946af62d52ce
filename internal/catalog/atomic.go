package catalog

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
)

// NoAtomic explains why such a workflow cannot run, and names an alternative.
const NoAtomic = "Superstep does not run workflows in TypeScript; write it as a recipe or in Go, as docs/atomic.md shows"

// exported finds the name and the description that a workflow of Atomic exports.
var exported = regexp.MustCompile("(?m)^export const (name|description)(?:\\s*:\\s*string)?\\s*=\\s*[\"'`]([^\"'`]+)[\"'`]")

// Atomic lists the workflows of Atomic. They are programs for another engine and cannot run here.
// It omits a workflow if a usable recipe has the same name.
func (c *Catalog) Atomic() []Item {
	var out []Item
	for _, e := range c.foreign() {
		if own, err := c.recipes().find(e.Name); err != nil || own.Recipe == nil || own.Scope == BuiltIn {
			out = append(out, e)
		}
	}
	return out
}

// readForeign looks for workflows of Atomic. It does not run the workflows.
func (c *Catalog) readForeign() []Item {
	var out []Item
	c.walk(foreignFolder, new([]Problem), func(f *frontmatter.Folder, p place) {
		files, _ := f.Entries(p.dir, &frontmatter.Walk{Entries: maxEntries, Depth: 1, Enter: func(dir string, _ []string) bool { return dir == p.dir }})
		for _, file := range files {
			base := path.Base(file.Path)
			ext := path.Ext(base)
			if !slices.Contains([]string{".ts", ".mts", ".js", ".mjs"}, ext) || strings.HasSuffix(strings.TrimSuffix(base, ext), ".d") || file.Mode.IsDir() {
				continue
			}
			e := Item{Name: strings.TrimSuffix(base, ext), Kind: "atomic", Source: p.scope, Path: c.Shown(f.Path(file.Path)), State: NotRunnable}
			text, _ := f.Read(file.Path, frontmatter.MaxFile) // what cannot be read has the name of its file
			for _, m := range exported.FindAllSubmatch(text, -1) {
				if value := clean.Text(string(m[2])); string(m[1]) == "name" {
					e.Name = value
				} else {
					e.Description = value
				}
			}
			e.Problems = []string{e.Path + ": " + NoAtomic}
			out = append(out, e)
		}
	})
	return out
}
