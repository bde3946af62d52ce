package skill_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/internal/catalog/skill"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	const ok = "---\nname: s\ndescription: Does s.\n---\n"
	for name, c := range map[string]struct {
		files            map[string]string
		errors, warnings []string
	}{
		"good":         {map[string]string{"SKILL.md": ok + "See [a](ref/a.md#x) and `scripts/run.sh`.\n\n## Examples\n\n```\n[x](nowhere.md)\n```\n", "ref/a.md": "", "scripts/run.sh": ""}, nil, nil},
		"front matter": {map[string]string{"SKILL.md": "text"}, []string{"MissingFrontMatter 1:1 there is no front matter"}, nil},
		"unclosed":     {map[string]string{"SKILL.md": "---\nname: s\n"}, []string{"MissingFrontMatter 1:1 missing closing ---"}, nil},
		"yaml":         {map[string]string{"SKILL.md": "---\nname: s\nx:\n - a: b: c\n---\nx"}, []string{"InvalidYaml 4:8 invalid YAML"}, nil},
		"twice":        {map[string]string{"SKILL.md": "---\nname: s\nname: s\ndescription: x\n---\nExample: x"}, []string{`InvalidYaml 3:1 "name" is there twice, first at 2:1`}, nil},
		"everything at once": {
			map[string]string{"SKILL.md": "---\nname: Bad\ncompatibility: " + strings.Repeat("x", 501) + "\nlicense: [a]\n---\n"},
			[]string{
				"InvalidField 3:1 compatibility has 501 characters; 500 are allowed", "InvalidField 4:10 license must be a text", `InvalidName 2:7 the name "Bad" may only have`,
				`NameMismatch 2:7 the name is "Bad" and the folder "s"; make them the same`, "MissingRequiredField 1:1 there is no description", "EmptyInstructions 6:1 there are no instructions",
			}, nil,
		},
		"reserved": {map[string]string{"SKILL.md": "---\nname: version\ndescription: x\n---\nExample: x"}, []string{"InvalidName 2:7 the name version is reserved", "NameMismatch 2:7"}, nil},
		"long": {
			map[string]string{"SKILL.md": "---\nname: s\ndescription: " + strings.Repeat("x", 1025) + "\n---\nExample: x"},
			[]string{"InvalidField 3:1 the description has 1025 characters; 1024 are allowed"}, nil,
		},
		"warnings": {
			map[string]string{"SKILL.md": "---\nname: s\ndescription: " + strings.Repeat("x", 501) + "\ntriggers: [a]\n---\n\nRead [a](a.md), [b](./b.md \"B\"), ![c](c.png), [w](https://x/y.md), [m](mailto:a@b), [h](#here), [o](../o/x.md).\nRun scripts/run.py or `references/r.md`, [a](a.md) again, then `python3 helper.py x`.\nRun bare.py, or ./own.sh; write main.py with Node.js and helper.py.txt.\n" +
				strings.Repeat("line\n", 500), "b.md": "", "old.tar.gz": "", "away": "-> /etc/passwd"},
			nil, []string{
				`UnknownField 4:1 unknown field "triggers"`, "LongDescription 3:1 the description has 501 characters", "NoExamples 7:1 there is no example", "LongInstructions 7:1 the instructions have 503 lines",
				`MissingHelperFiles 7:1 there is no file "a.md"`, `MissingHelperFiles 7:1 there is no file "c.png"`, `MissingHelperFiles 7:1 "../o/x.md" is outside`,
				`MissingHelperFiles 8:1 there is no file "scripts/run.py"`, `MissingHelperFiles 8:1 there is no file "references/r.md"`,
				`MissingHelperFiles 9:1 there is no file "own.sh"`,
				"OddFile 0:0 it cannot be read: a symbolic link leads out", "OddFile 0:0 it is an archive",
			},
		},
		"nothing": {map[string]string{"readme.md": ""}, []string{"MissingFrontMatter 0:0 there is no SKILL.md in this folder or below"}, nil},
	} {
		dir := filepath.Join(t.TempDir(), "s")
		tree(t, dir, c.files)
		r := skill.Validate(dir)
		check := func(what string, got []skill.Finding, want []string) {
			var lines []string
			for _, f := range got {
				lines = append(lines, fmt.Sprintf("%s %d:%d %s", f.Code, f.Line, f.Col, f.Text))
				if !strings.HasPrefix(f.Path, dir) {
					t.Errorf("%s: %s is not in %s", name, f.Path, dir)
				}
			}
			if len(lines) != len(want) {
				t.Errorf("%s: %s\n%s\nwant\n%s", name, what, strings.Join(lines, "\n"), strings.Join(want, "\n"))
				return
			}
			for i := range want {
				if !strings.HasPrefix(lines[i], want[i]) {
					t.Errorf("%s: %s %s, want %s", name, what, lines[i], want[i])
				}
			}
		}
		check("errors", r.Errors, c.errors)
		check("warnings", r.Warnings, c.warnings)
		if r.OK() != (len(c.errors) == 0) {
			t.Errorf("%s: OK is %t", name, r.OK())
		}
	}
}

func TestValidateCollection(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tree(t, dir, map[string]string{"a/SKILL.md": text("a"), "b/c/SKILL.md": text("wrong"), "README.md": "", "d/SKILL.md": "none", "e/f/run.py": "", "e/notes.md": ""})
	r := skill.Validate(dir)
	if want := filepath.Join(dir, "e") + ": there is no SKILL.md in this folder or below; it is no skill"; len(r.Warnings) == 0 || r.Warnings[0].String() != want {
		t.Errorf("the warnings are %v, want the first to be %s", r.Warnings, want)
	}
	var got []string
	for _, e := range r.Errors {
		got = append(got, strings.TrimPrefix(e.String(), dir+"/"))
	}
	want := []string{
		`b/c/SKILL.md:2:7: the name is "wrong" and the folder "c"; make them the same`,
		"d/SKILL.md:1:1: there is no front matter; the file must begin with a line ---, then name and description, then another ---",
	}
	if diff := cmp.Diff(want, got); diff != "" || r.Skills != 3 {
		t.Errorf("%d skills (-want +got):\n%s", r.Skills, diff)
	}
	if r := skill.Validate(filepath.Join(dir, "none")); len(r.Errors) != 1 || r.Errors[0].Text != "there is no such folder" {
		t.Errorf("%v", r.Errors)
	}
	if r := skill.Validate(filepath.Join(dir, "README.md")); len(r.Errors) != 1 {
		t.Errorf("%v", r.Errors)
	}
	// A folder that is named by a relative path, as on a command line.
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(wd, filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if r := skill.Validate(rel); !r.OK() || r.Skills != 1 {
		t.Errorf("%+v", r)
	}
}
