package catalog

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/catalog/skill"
	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
)

const maxSkills = 2000 // in all folders

// readSkills reads nested folders too, until one is a skill. A broken skill is a problem and does
// not keep others from being used. A mere breach of the format is a warning; skill.Validate is
// stricter.
func (c *Catalog) readSkills() *found[*skill.Skill] {
	s := &found[*skill.Skill]{}
	n := 0
	problem := func(x skill.Finding) {
		s.problems = append(s.problems, Problem{Kind: string(skillFolder), File: x.Path, Line: x.Line, Col: x.Col, Text: x.Text})
	}
	c.walk(skillFolder, &s.problems, func(f *frontmatter.Folder, p place) {
		dirs, odd := skill.Dirs(f, p.dir, false)
		for _, x := range odd {
			problem(x)
		}
		for _, dir := range dirs {
			if n++; n > maxSkills {
				problem(skill.Finding{Path: f.Path(dir), Text: fmt.Sprintf("there are over %d skills; this one and the rest are left out", maxSkills)})
				return
			}
			k, wrong := skill.Read(f, dir, skill.Source{Scope: p.scope, Place: p.dir})
			for _, x := range wrong {
				problem(x)
			}
			if k != nil {
				s.all = append(s.all, k)
			}
		}
	})
	s.precede(func(k *skill.Skill) string { return k.Name }, func(first, k *skill.Skill) {
		first.Overrides = append(first.Overrides, k.Source)
		if first.Source.Scope == k.Source.Scope && first.Source.Place == k.Source.Place {
			first.Warnings = append(first.Warnings, skill.Finding{Path: skill.File, Line: first.Source.Line, Col: 1,
				Text: fmt.Sprintf("%s is called %s too and is not used; rename one", clean.Text(k.Source.Path), k.Name)})
		}
	})
	return s
}

// Skills lists all skills, including unusable ones.
func (c *Catalog) Skills() []Item {
	var out []Item
	for _, s := range c.skills().list {
		out = append(out, c.skillItem(s))
	}
	return out
}

func (c *Catalog) skillItem(s *skill.Skill) Item {
	i := Item{
		Name: s.Name, Kind: "skill", Source: s.Source.Scope, Path: c.Shown(s.Source.Path), Digest: s.Digest,
		State: c.skillState(s), Description: s.Description,
	}
	for _, o := range s.Overrides {
		i.Overrides = append(i.Overrides, o.Scope+" "+c.Shown(o.Path))
	}
	for _, w := range s.Warnings {
		i.Warnings = append(i.Warnings, w.String())
	}
	return i
}

func (c *Catalog) skillState(s *skill.Skill) State {
	return c.state(s.Source.Scope, trust.Skill, s.Name, s.Source.Path)
}

// Skill returns the skill of a name with its instructions, trusted or not, and how it is listed.
func (c *Catalog) Skill(name string) (*skill.Skill, string, Item, error) {
	s, err := skill.Set(c.skills().list).Find(name)
	if err != nil {
		return nil, "", Item{}, err
	}
	text, err := s.Load()
	return s, text, c.skillItem(s), err
}

// UsableSkills returns the named skills that an agent may read. Without names, it returns all of
// them. An untrusted skill of the project does not hide another skill of that name.
func (c *Catalog) UsableSkills(names ...string) skill.Set {
	var out skill.Set
	for _, s := range c.skills().all {
		same := func(o *skill.Skill) bool { return o.Name == s.Name }
		if c.skillState(s) == Usable && (len(names) == 0 || slices.Contains(names, s.Name)) && !slices.ContainsFunc(out, same) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *skill.Skill) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// skillFiles returns the files in the folder of a skill.
func (c *Catalog) skillFiles(s *skill.Skill) []trust.File {
	paths := []string{filepath.Join(s.Source.Path, skill.File)}
	for _, h := range s.Files {
		paths = append(paths, filepath.Join(s.Source.Path, filepath.FromSlash(h.Path)))
	}
	return c.files(paths...)
}

// SkillFolders returns the folders of skills of a project.
func SkillFolders(project string) []string {
	var out []string
	for _, p := range places(skillFolder, project, "", "") {
		out = append(out, p.path())
	}
	return out
}
