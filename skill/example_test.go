package skill_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/superstep-dev/superstep/skill"
)

func Example() {
	project, err := os.MkdirTemp("", "project")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(project)
	dir := filepath.Join(project, ".claude", "skills", "release-notes")
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

	lib, err := skill.Find(&skill.Options{Project: project})
	if err != nil {
		panic(err)
	}
	_, list, _ := strings.Cut(lib.Prompt(), "\n\n- ") // what every conversation is told
	fmt.Print(list)
	c, err := lib.Load("release-notes") // when a task calls for it
	if err != nil {
		panic(err)
	}
	fmt.Println(c.Text)
	text, err := lib.ReadFile("release-notes", "template.md")
	if err != nil {
		panic(err)
	}
	fmt.Print(text)
	_, err = lib.ReadFile("release-notes", "../../../secret")
	fmt.Println(err)
	fmt.Println(skill.Validate(dir).OK())
	// Output:
	// release-notes: Writes release notes. Use before a release.
	// Fill in template.md. Example: see its end.
	// # Changes
	// the skill release-notes has no file "../../../secret"; known: template.md
	// true
}
