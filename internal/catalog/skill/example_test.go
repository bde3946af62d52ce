package skill_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/catalog/skill"
)

func Example() {
	home, err := os.MkdirTemp("", "home")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(home)
	dir := filepath.Join(home, ".claude", "skills", "release-notes")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err)
	}
	for name, text := range map[string]string{
		"SKILL.md":    "---\nname: release-notes\ndescription: Writes release notes. Use before a release.\n---\nFill in template.md. Example: see its end.\n",
		"template.md": "# Changes\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			panic(err)
		}
	}

	c, err := catalog.Open(&catalog.Options{Home: home}) // one's own need no trust
	if err != nil {
		panic(err)
	}
	skills := c.UsableSkills()
	_, list, _ := strings.Cut(skills.Prompt(), "\n\n- ") // what every conversation is told
	fmt.Print(list)
	s, err := skills.Find("release-notes") // when a task calls for it
	if err != nil {
		panic(err)
	}
	text, err := s.Load()
	if err != nil {
		panic(err)
	}
	fmt.Println(text)
	text, err = s.ReadFile("template.md")
	if err != nil {
		panic(err)
	}
	fmt.Print(text)
	_, err = s.ReadFile("../../../secret")
	fmt.Println(err)
	fmt.Println(skill.Validate(dir).OK())
	// Output:
	// release-notes: Writes release notes. Use before a release.
	// Fill in template.md. Example: see its end.
	// # Changes
	// the skill release-notes has no file "../../../secret"; known: template.md
	// true
}
