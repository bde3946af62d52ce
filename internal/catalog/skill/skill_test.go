package skill_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/catalog/skill"
	"github.com/superstep-dev/superstep/internal/catalog/trust"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree writes files; a value of "-> x" is a symbolic link.
func tree(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(to, p)
		} else {
			err = os.WriteFile(p, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func text(name string) string {
	return "---\nname: " + name + "\ndescription: Does " + name + ".\n---\n# " + name + "\n\nExample: do it.\n"
}

// library is the skills of a catalog, all of them trusted.
type library struct {
	skill.Set
	problems []catalog.Problem
}

func (l *library) List() []*skill.Skill        { return l.Set }
func (l *library) Problems() []catalog.Problem { return l.problems }

func (l *library) Load(name string) (string, error) {
	s, err := l.Find(name)
	if err != nil {
		return "", err
	}
	return s.Load()
}

func (l *library) ReadFile(name, rel string) (string, error) {
	s, err := l.Find(name)
	if err != nil {
		return "", err
	}
	return s.ReadFile(rel)
}

func find(t testing.TB, o *catalog.Options) *library {
	t.Helper()
	store, err := trust.Open(filepath.Join(t.TempDir(), "trust.json"))
	if err != nil {
		t.Fatal(err)
	}
	o.Trust = store.TrustAll()
	c, err := catalog.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	l := &library{Set: c.UsableSkills()}
	for _, p := range c.Problems() {
		if p.Kind == "skills" {
			l.problems = append(l.problems, p)
		}
	}
	return l
}

func names(lib *library) []string {
	var out []string
	for _, s := range lib.List() {
		out = append(out, s.Name)
	}
	return out
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for _, ok := range []string{"valid-name", "a", "with-123-numbers", "1", strings.Repeat("a", 64)} {
		if err := skill.CheckName(ok); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
	for _, bad := range []string{"Invalid", "with_underscore", "-leading", "trailing-", "double--hyphen", "", "help", "version", strings.Repeat("a", 65), "a b", "../x", "ü", "a\n", "-"} {
		if skill.CheckName(bad) == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	tree(t, project, map[string]string{
		".claude/skills/pdf-forms/SKILL.md": `---
name: pdf-forms
description: >-
  Fills forms.
  Use for PDF.
license: Apache-2.0
compatibility: Requires python
metadata: {author: someone, version: 1.0, nested: {a: b}}
allowed-tools: Bash(git:*) Bash(jq:*) Read
argument-hint: [file] [out]
user-invocable: false
hooks: {Stop: []}
descripton: x
---

Fill them.
`,
		".claude/skills/pdf-forms/scripts/fill.py": "print()", ".claude/skills/pdf-forms/pack.zip": "PK", ".claude/skills/pdf-forms/deep/SKILL.md": text("deep"),
		".claude/skills/manual/SKILL.md": "---\nname: manual\ndescription: By hand.\ndisable-model-invocation: true\nallowed-tools: [Read, 'Bash(a b)']\n---\nx",
	})
	lib := find(t, &catalog.Options{Dir: project})
	if diff := cmp.Diff([]string{"manual", "pdf-forms"}, names(lib)); diff != "" {
		t.Fatal(diff)
	}
	s, err := lib.Find("pdf-forms")
	if err != nil {
		t.Fatal(err)
	}
	want := &skill.Skill{
		Name: "pdf-forms", Description: "Fills forms. Use for PDF.",
		Source: skill.Source{Scope: catalog.Project, Path: filepath.Join(project, ".claude/skills/pdf-forms"), Place: ".claude/skills", Line: 2},
		Files:  []skill.HelperFile{{Path: "deep/SKILL.md", Size: 67}, {Path: "pack.zip", Size: 2}, {Path: "scripts/fill.py", Size: 7}},
	}
	if diff := cmp.Diff(want, s, cmpopts.IgnoreFields(skill.Skill{}, "Digest", "Warnings"), cmpopts.IgnoreUnexported(skill.HelperFile{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var got []string
	for _, w := range s.Warnings {
		got = append(got, w.String())
	}
	if diff := cmp.Diff([]string{
		"SKILL.md:10:1: the value of argument-hint is not valid YAML and was taken as plain text; put it in quotes",
		`SKILL.md:8:43: the metadata "nested" should be a text`, "SKILL.md:12:1: hooks are not run",
		`SKILL.md:13:1: unknown field "descripton"; did you mean "description"?`, "pack.zip: it is an archive; what is in it was not looked at",
	}, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	m, err := lib.Find("manual")
	if err != nil || !m.Manual || strings.Contains(lib.Prompt(), "manual") {
		t.Errorf("%+v %v", m, err)
	}
}

// TestPlaces puts a skill of one name everywhere, and takes the first away each time.
func TestPlaces(t *testing.T) {
	t.Parallel()
	project, home, config := t.TempDir(), t.TempDir(), t.TempDir()
	var places []string
	for _, p := range []string{".superstep/skills", ".claude/skills", ".agents/skills", ".opencode/skills", ".opencode/skill", ".github/skills", "skills"} {
		places = append(places, filepath.Join(project, p))
	}
	places = append(places, filepath.Join(config, "superstep/skills"), filepath.Join(home, ".claude/skills"), filepath.Join(home, ".agents/skills"),
		filepath.Join(config, "opencode/skills"), filepath.Join(config, "opencode/skill"))
	for _, p := range places {
		tree(t, p, map[string]string{"group/one/SKILL.md": text("one")})
	}
	for i, p := range places {
		s, err := find(t, &catalog.Options{Dir: project, Home: home, ConfigHome: config}).Find("one")
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(p, "group/one"); s.Source.Path != want || len(s.Overrides) != len(places)-i-1 || len(s.Overrides) > 0 && !strings.HasPrefix(s.Overrides[0].Path, places[i+1]) {
			t.Errorf("%s overrides %v, want %s", s.Source.Path, s.Overrides, want)
		}
		if err := os.RemoveAll(filepath.Join(p, "group")); err != nil {
			t.Fatal(err)
		}
	}
	if lib := find(t, &catalog.Options{Dir: project, Home: home}); len(lib.List())+len(lib.Problems()) != 0 || lib.Prompt() != "" {
		t.Errorf("%v %v", lib.List(), lib.Problems())
	}
	if lib := find(t, &catalog.Options{}); len(lib.List()) != 0 {
		t.Error("skills from nowhere")
	}
	if _, err := catalog.Open(&catalog.Options{Home: "relative"}); err == nil {
		t.Error("a relative folder was taken")
	}
}

func TestBroken(t *testing.T) {
	t.Parallel()
	project, outside := t.TempDir(), t.TempDir()
	tree(t, outside, map[string]string{"SKILL.md": text("out"), "secret": "hush"})
	files := map[string]string{"skills/fine/SKILL.md": text("fine")}
	want := map[string]string{}
	for name, c := range map[string][2]string{
		"none":     {"# No front matter", "SKILL.md:1:1: there is no front matter"},
		"unclosed": {"---\nname: unclosed\n", "missing closing ---"},
		"yaml":     {"---\nname: yaml\nx:\n  - a: b: c\n---\nx", "SKILL.md:4:9: invalid YAML"},
		"silent":   {"---\nname: silent\n---\nx", "there is no description"},
		"hollow":   {"---\nname: hollow\ndescription: ''\n---\nx", "the description is empty"},
		"empty":    {"---\nname: empty\ndescription: x\n---\n\n  \n", "there are no instructions"},
		"help":     {"---\ndescription: x\n---\nx", "there is no name"},
		"aliased":  {"---\nname: &a aliased\ndescription: *a\n---\nx", "aliases are not allowed"},
		"twice":    {"---\nname: twice\nname: other\ndescription: x\n---\nx", "is there twice"},
		"version-": {"---\nname: version\ndescription: x\n---\nx", "the name version is reserved"},
		"Bad_Name": {"---\nname: Also Bad\ndescription: x\n---\nx", "may only have a-z"},
		"large":    {strings.Repeat("x", 2<<20), "over 1 MiB"},
		"latin":    {"---\nname: latin\ndescription: \xfc\n---\nx", "UTF-8"},
		"linked":   {"-> " + filepath.Join(outside, "SKILL.md"), "SKILL.md: it cannot be read: a symbolic link leads out"},
	} {
		files["skills/"+name+"/SKILL.md"] = c[0]
		want[name] = c[1]
	}
	files["skills/zz-out"] = "-> " + outside
	files["skills/packed.zip"] = "PK"
	tree(t, project, files)
	lib := find(t, &catalog.Options{Dir: project})
	if diff := cmp.Diff([]string{"fine"}, names(lib)); diff != "" {
		t.Error(diff)
	}
	var all []string
	for _, p := range lib.Problems() {
		all = append(all, p.String())
	}
	for name, text := range want {
		if !slices.ContainsFunc(all, func(p string) bool { return strings.Contains(p, "/skills/"+name) && strings.Contains(p, text) }) {
			t.Errorf("%s: want %s in\n%s", name, text, strings.Join(all, "\n"))
		}
	}
	if !strings.Contains(strings.Join(all, "\n"), "zz-out: cannot be read: a symbolic link leads out") || !strings.Contains(strings.Join(all, "\n"), "packed.zip: it is an archive") || len(all) != len(want)+2 {
		t.Errorf("%d problems\n%s", len(all), strings.Join(all, "\n"))
	}
}

// Skills that other programs would use are used, and their faults are warnings.
func TestForgiven(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	tree(t, project, map[string]string{
		"skills/good-folder/SKILL.md":  "---\nname: Bad Name\ndescription: x\n---\nx",
		"skills/other-folder/SKILL.md": "---\nname: good-name\ndescription: x\n---\nx",
		"skills/no-name/SKILL.md":      "---\ndescription: x\n---\nx",
		"skills/long/SKILL.md":         "---\nname: long\ndescription: " + strings.Repeat("ü", 1025) + "\n---\nx",
		"skills/esc/SKILL.md":          "---\nname: esc\ndescription: \"a\\e[31mb\\u202ec\"\n---\nbo\x01dy",
	})
	lib := find(t, &catalog.Options{Dir: project})
	if diff := cmp.Diff([]string{"esc", "good-folder", "good-name", "long", "no-name"}, names(lib)); diff != "" || len(lib.Problems()) != 0 {
		t.Errorf("%s%v", diff, lib.Problems())
	}
	for name, want := range map[string]string{
		"good-folder": `the name "Bad Name" may only have`, "good-name": `the name is "good-name" and the folder "other-folder"`, "no-name": `add name: "no-name"`,
		"long": "has 1025 characters; 1024 are allowed", "esc": "characters were left out",
	} {
		s, err := lib.Find(name)
		if err != nil || !strings.Contains(fmt.Sprint(s.Warnings), want) {
			t.Errorf("%s: %v, want %s", name, s.Warnings, want)
		}
	}
	if s, _ := lib.Find("esc"); s.Description != "abc" {
		t.Errorf("%q", s.Description)
	}
	if c, err := lib.Load("esc"); err != nil || c != "body" {
		t.Errorf("%+v %v", c, err)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	project, outside := t.TempDir(), t.TempDir()
	tree(t, outside, map[string]string{"secret": "hush"})
	tree(t, project, map[string]string{
		"skills/one/SKILL.md": text("one"), "skills/one/ref/a.md": "A\x1b[1m!", "skills/one/bin": "\xff\xfe", "skills/one/big": strings.Repeat("x", 1<<20+1),
		"skills/one/in.md": "-> ref/a.md", "skills/one/out": "-> " + filepath.Join(outside, "secret"), "skills/one/up": "-> ../two/SKILL.md", "skills/two/SKILL.md": text("two"),
	})
	dir := filepath.Join(project, "skills/one")
	fifo := mkfifo(filepath.Join(dir, "pipe")) == nil
	lib := find(t, &catalog.Options{Dir: project})
	c, err := lib.Load("one")
	if err != nil || c != "# one\n\nExample: do it." {
		t.Errorf("%+v %v", c, err)
	}
	one, _ := lib.Find("one")
	odd := fmt.Sprint(one.Warnings)
	if !strings.Contains(odd, "out: it cannot be read: a symbolic link leads out") || !strings.Contains(odd, "up: it cannot be read") || fifo && !strings.Contains(odd, "pipe: it is not a regular file") {
		t.Error(odd)
	}
	for rel, want := range map[string]string{
		"ref/a.md": "A!", "./ref/../ref/a.md": "A!", "in.md": "A!", "SKILL.md": c,
		"bin": "!is no text", "big": "!over 1024 KiB", "out": "!has no file", "up": "!has no file", "../two/SKILL.md": "!has no file", "/etc/passwd": "!has no file",
		"ref": "!has no file", "": "!has no file", "pipe": "!has no file", "ref/b.md": `!did you mean "ref/a.md"?`, `..\two\SKILL.md`: "!has no file",
	} {
		got, err := lib.ReadFile("one", rel)
		if msg, bad := strings.CutPrefix(want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), msg) {
				t.Errorf("%q: %q %v, want %s", rel, got, err, msg)
			}
		} else if got != want || err != nil {
			t.Errorf("%q: %q %v, want %q", rel, got, err, want)
		}
	}
	var nf *skill.NotFoundError
	if _, err := lib.Load("ome"); !errors.As(err, &nf) || !strings.Contains(err.Error(), `did you mean "one"?`) {
		t.Error(err)
	}
	if _, err := lib.ReadFile("none", "x"); !errors.As(err, &nf) {
		t.Error(err)
	}
}

// Whatever is done to the files of a skill changes its digest, and it is not loaded.
func TestChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(dir string) error{
		"instructions": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(text("one")+"more"), 0o600)
		},
		"helper":     func(dir string) error { return os.WriteFile(filepath.Join(dir, "run.sh"), []byte("rm"), 0o600) },
		"added":      func(dir string) error { return os.WriteFile(filepath.Join(dir, "more.sh"), nil, 0o600) },
		"removed":    func(dir string) error { return os.Remove(filepath.Join(dir, "run.sh")) },
		"renamed":    func(dir string) error { return os.Rename(filepath.Join(dir, "run.sh"), filepath.Join(dir, "ran.sh")) },
		"link added": func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "l")) },
		"link changed": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "away")), os.Symlink("/elsewhere", filepath.Join(dir, "away")))
		},
		"the folder is another": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"-old"), os.Symlink("two", dir))
		},
	} {
		project := t.TempDir()
		tree(t, project, map[string]string{"skills/one/SKILL.md": text("one"), "skills/one/run.sh": "ls", "skills/one/away": "-> /nowhere", "skills/two/SKILL.md": text("two")})
		o := &catalog.Options{Dir: project}
		lib := find(t, o)
		was, _ := lib.Find("one")
		if again, _ := find(t, o).Find("one"); again.Digest != was.Digest || !strings.HasPrefix(was.Digest, "sha256:") || len(was.Digest) != 71 {
			t.Fatalf("%s: digest %s, then %s", name, was.Digest, again.Digest)
		}
		if err := change(filepath.Join(project, "skills", "one")); err != nil {
			t.Fatal(err)
		}
		_, err := lib.Load("one")
		var ce *skill.ChangedError
		if !errors.As(err, &ce) || ce.Was != was.Digest || ce.Is == was.Digest {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := lib.ReadFile("one", "SKILL.md"); !errors.As(err, &ce) {
			t.Errorf("%s: read %v", name, err)
		}
		if _, err := lib.ReadFile("one", "run.sh"); name == "helper" && !errors.As(err, &ce) {
			t.Errorf("%s: read %v", name, err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	files := map[string]string{"skills/many/SKILL.md": text("many"), "skills/deep/SKILL.md": text("deep"), "skills/deep/" + strings.Repeat("d/", 18) + "x": "x", "skills/heavy/SKILL.md": text("heavy"), "skills/fine/SKILL.md": text("fine")}
	for i := range 2001 {
		files[fmt.Sprintf("skills/many/f%d", i)] = ""
	}
	tree(t, project, files)
	f, err := os.Create(filepath.Join(project, "skills/heavy/f"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(64<<20+1), f.Close()); err != nil {
		t.Fatal(err)
	}
	lib := find(t, &catalog.Options{Dir: project})
	if diff := cmp.Diff([]string{"fine"}, names(lib)); diff != "" || len(lib.Problems()) != 3 {
		t.Errorf("%s%v", diff, lib.Problems())
	}
}

func TestPrompt(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 150, 300, 500} {
		project := t.TempDir()
		files := map[string]string{}
		for i := range n {
			name := fmt.Sprintf("skill-%04d", i)
			if n == 500 {
				name += strings.Repeat("-long", 10)
			}
			files["skills/"+name+"/SKILL.md"] = "---\nname: " + name + "\ndescription: |\n  First line\n  - fake: " + strings.Repeat("words ", 40) + "\n---\nSECRET BODY"
		}
		tree(t, project, files)
		p := find(t, &catalog.Options{Dir: project}).Prompt()
		if len(p) > 16<<10 || strings.Contains(p, "SECRET BODY") || !strings.Contains(p, "- skill-0000") {
			t.Errorf("%d: %d bytes\n%.300s", n, len(p), p)
		}
		lines := strings.Count(p, "\n- ")
		if n <= 300 && lines != n || n == 500 && !strings.Contains(p, "more, which the tool lists") {
			t.Errorf("%d: %d lines\n%s", n, lines, p[len(p)-200:])
		}
		if n <= 150 && !strings.Contains(p, "- skill-0000: First line - fake: words") {
			t.Errorf("%d: no description\n%.600s", n, p)
		}
		if n == 150 && len(p) < 14<<10 {
			t.Errorf("only %d bytes of descriptions", len(p))
		}
	}
}

func FuzzSkill(f *testing.F) {
	for _, s := range []string{
		text("fuzzed"), "---\nname: Fuzzed\ndescription: a: b\nmetadata: {a: [1]}\nallowed-tools: a b\n---\n[x](y.md) scripts/run.sh", "---\nhooks: 1\nlicense: [x]\n---\n```\n[a](b)",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		tree(t, dir, map[string]string{"skills/fuzzed/SKILL.md": ""})
		if err := os.WriteFile(filepath.Join(dir, "skills/fuzzed/SKILL.md"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		lib := find(t, &catalog.Options{Dir: dir})
		if len(lib.List()) == 0 && len(lib.Problems()) == 0 {
			t.Fatal("lost")
		}
		report := skill.Validate(filepath.Join(dir, "skills"))
		if report.Skills != 1 || len(lib.Problems()) > 0 && report.OK() {
			t.Fatalf("%+v %v", report, lib.Problems())
		}
		out := fmt.Sprint(lib.Problems(), report.Errors, report.Warnings, lib.Prompt())
		for _, s := range lib.List() {
			if skill.CheckName(s.Name) != nil || s.Description == "" {
				t.Fatalf("%+v", s)
			}
			c, err := lib.Load(s.Name)
			if err != nil || strings.TrimSpace(c) == "" {
				t.Fatalf("%+v %v", c, err)
			}
			out += fmt.Sprint(s.Description, s.Warnings, c)
		}
		if strings.ContainsFunc(out, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x202e }) {
			t.Fatalf("%q", out)
		}
	})
}

// Installers put a skill into .agents/skills and link to it from everywhere else.
func TestLinked(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	tree(t, project, map[string]string{".agents/skills/one/SKILL.md": text("one"), ".agents/skills/one/ref.md": "R", ".claude/skills/one": "-> ../../.agents/skills/one"})
	lib := find(t, &catalog.Options{Dir: project})
	s, err := lib.Find("one")
	if err != nil || s.Source.Place != ".claude/skills" || len(s.Overrides) != 1 || len(lib.Problems()) != 0 || len(s.Warnings) != 0 {
		t.Fatalf("%+v %v %v", s, err, lib.Problems())
	}
	if got, err := lib.ReadFile("one", "ref.md"); got != "R" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}
