package catalog

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/catalog/skill"
	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/script"
	"github.com/superstep-dev/superstep/tool/mcp"
	"github.com/superstep-dev/superstep/tool/permit"
)

const readHere = "Superstep reads it as configuration, instructions or code"

// Places returns the absolute paths of the files and folders that are read in a project and in the
// user's home. A folder ends in a slash.
func (c *Catalog) Places() (project, user []string) {
	paths := func(dir, home, config string) []string {
		var out []string
		for _, p := range places("", dir, home, config) {
			out = append(out, filepath.ToSlash(p.path())+"/")
		}
		return out
	}
	none := func(string) (string, bool) { return "", false }
	own := *c.opt.Servers
	own.Project = ""
	project, user = paths(c.opt.Dir, "", ""), append(paths("", c.opt.Home, c.opt.ConfigHome), mcp.Places(&own)...)
	if c.opt.Dir != "" {
		project = append(project, mcp.Places(&mcp.Options{Project: c.opt.Dir, Env: none})...)
	}
	for _, file := range c.opt.ProjectFiles {
		project = append(project, filepath.ToSlash(file))
	}
	for _, file := range c.opt.UserFiles {
		user = append(user, filepath.ToSlash(file))
	}
	return project, user
}

// Protected returns the paths in this project that no tool may write, in addition to
// permit.AlwaysProtected. It is derived from the table of folders, so that everything the catalog
// reads is protected.
func (c *Catalog) Protected() []permit.Protected { return slices.Clone(c.guarded()) }

func (c *Catalog) protect() []permit.Protected {
	o := &c.opt
	out := []permit.Protected{{Path: filepath.ToSlash(o.StateDir) + "/", Why: "the user's configuration"}, {Path: "**/" + skill.File, Why: readHere}}
	add := func(path string) { out = append(out, permit.Protected{Path: path, Why: readHere}) }
	seen := map[string]bool{}
	project, user := c.Places()
	for _, place := range project {
		add(covering(o.Dir, place))
		c.behindLinks(place, seen, add)
	}
	for _, mark := range RootMarks() {
		add("**/" + mark)
	}
	for _, place := range user {
		switch in, below := strings.CutPrefix(place, filepath.ToSlash(o.ConfigHome)+"/"); {
		case below && o.ConfigHome != "":
			name, _, folder := strings.Cut(in, "/")
			if folder {
				name += "/"
			}
			add(filepath.ToSlash(o.ConfigHome) + "/" + name)
			if rel, err := filepath.Rel(o.Home, o.ConfigHome); o.Home != "" && err == nil && filepath.IsLocal(rel) {
				add("**/" + filepath.ToSlash(rel) + "/" + name) // wherever a copy of a home lies
			}
		default:
			add(covering(o.Home, place))
		}
		c.behindLinks(place, seen, add)
	}
	if p, err := permit.New(&permit.Options{Root: o.Dir, Home: o.Home, Protected: out}); err == nil && o.Dir != "" {
		entries, _ := os.ReadDir(o.Dir) // what cannot be read is not used
		for _, e := range entries {
			if path := filepath.Join(o.Dir, e.Name()); p.Protected(path) != "" {
				c.behindLinks(path, seen, func(path string) {
					out = append(out, permit.Protected{Path: path, Why: "a protected link leads there"})
				})
			}
		}
	}
	for _, f := range c.scripts().list { // modules load others from anywhere in the project
		for _, name := range f.Files {
			if f.Kind == script.Module && f.Scope.Name == Project {
				out = append(out, permit.Protected{Path: name, Why: "the tool " + ScriptName(&f) + " loads it", Ask: true})
			}
		}
	}
	return out
}

// RootMarks returns the names that mark the root of a project: the hidden folders for agents,
// skills, tools and workflows, and two more. They are protected so that no tool can turn a folder
// into a project.
func RootMarks() []string {
	out := []string{".git", ".mcp.json"}
	for _, p := range places("", string(filepath.Separator), "", "") {
		if p.kind != foreignFolder && strings.HasPrefix(p.in, ".") && !slices.Contains(out, p.in) {
			out = append(out, p.in)
		}
	}
	return out
}

// within reports whether a path lies in a folder, symbolic links resolved as far as they exist.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, trust.Resolved(path))
	return dir != "" && err == nil && filepath.IsLocal(rel)
}

// covering returns the protected patterns for a place in a folder. Hidden folders and files are
// protected as a whole and at any depth, since any folder may be opened as a project.
func covering(dir, place string) string {
	rel, below := strings.CutPrefix(place, strings.TrimSuffix(filepath.ToSlash(dir), "/")+"/")
	if !below {
		return place
	}
	first, _, folder := strings.Cut(rel, "/")
	switch {
	case !folder:
		return "**/" + first
	case strings.HasPrefix(first, "."):
		return "**/" + first + "/"
	}
	return rel
}

// behindLinks adds the targets of symbolic links at, above and below a path, because they are read as part
// of it.
func (c *Catalog) behindLinks(place string, seen map[string]bool, add func(path string)) {
	path := filepath.Clean(filepath.FromSlash(place))
	real := trust.Resolved(path)
	if seen[real] || within(real, c.opt.Dir) { // of a link to the whole project only the skills are protected
		return
	}
	seen[real] = true
	if real != path {
		end := ""
		if info, err := os.Stat(real); err == nil && info.IsDir() {
			end = "/"
		}
		add(filepath.ToSlash(real) + end)
	}
	n := 0
	_ = filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error { // what cannot be read is not used
		n++
		switch {
		case n > maxEntries:
			return filepath.SkipAll
		case err != nil:
			return nil
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git"):
			return filepath.SkipDir
		case d.Type()&fs.ModeSymlink != 0:
			c.behindLinks(path, seen, add)
		}
		return nil
	})
}
