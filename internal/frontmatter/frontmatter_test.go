package frontmatter_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/frontmatter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func file(header, body string) string { return "---\n" + header + "\n---\n" + body }

func parse(t *testing.T, s string) *frontmatter.Document {
	t.Helper()
	d, err := frontmatter.Parse([]byte(s), nil)
	if err != nil {
		t.Fatalf("%.80q: %v", s, err)
	}
	return d
}

// values are the fields of a header as plain values.
func values(d *frontmatter.Document) map[string]any {
	out := map[string]any{}
	for _, f := range d.Fields {
		out[f.Key] = f.Value.Any()
	}
	return out
}

func TestValues(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	for header, want := range map[string]m{
		"":                                   {},
		"# nothing":                          {},
		"a: 1\nb: x y\nc: true\nd: 1.5\ne:":  {"a": 1, "b": "x y", "c": true, "d": 1.5, "e": nil},
		"a: \"x: y\"\nb: 'it''s'":            {"a": "x: y", "b": "it's"},
		"a: [Read, Bash(git:*), \"x\"]":      {"a": []any{"Read", "Bash(git:*)", "x"}},
		"a:\n  - x\n  - y: [1, 2]\n    z: 3": {"a": []any{"x", m{"y": []any{1, 2}, "z": 3}}},
		"a:\n- x\n- y":                       {"a": []any{"x", "y"}},
		"a: |\n  one\n  two\nb: 1":           {"a": "one\ntwo\n", "b": 1},
		"a: >-\n  one\n  two\nb: 1":          {"a": "one two", "b": 1},
		"a: one\n  two\nb: 1":                {"a": "one two", "b": 1},
		"a: {b: {c: d}}\ne: https://x:80/":   {"a": m{"b": m{"c": "d"}}, "e": "https://x:80/"},
		"a: ünï\n世: 界":                       {"a": "ünï", "世": "界"},
		"version: 0x1F\nno: yes":             {"version": "0x1F", "no": "yes"},
		// sloppy, but common
		"description: Use this when: x\nname: y":                           {"description": "Use this when: x", "name": "y"},
		"argument-hint: [a] [b]\nname: z":                                  {"argument-hint": "[a] [b]", "name": "z"},
		"name: a\ndescription: \"x\" and: \"y\"\ntools: [Read]":            {"name": "a", "description": "\"x\" and: \"y\"", "tools": []any{"Read"}},
		"description: 'it's'\nn: 1":                                        {"description": "it's", "n": 1},
		"description: @x or `y`\nn: 1":                                     {"description": "@x or `y`", "n": 1},
		"description: Use. <example>\\nContext: a\\n</example>\nn: 1":      {"description": "Use. <example>\\nContext: a\\n</example>", "n": 1},
		"description: A: b\n  more: text\n\nn: 1":                          {"description": "A: b\nmore: text", "n": 1},
		"description: Use.\n<example>\nuser says \"hi\"\n</example>\nn: 1": {"description": "Use.\n<example>\nuser says \"hi\"\n</example>", "n": 1},
		"tools: *\nn: 1":                   {"tools": "*", "n": 1},
		"description: |\n  a\n b: c\nn: 1": {"description": "a\nb: c", "n": 1},
		"# a comment\ndescription: a: b":   {"description": "a: b"},
	} {
		d, err := frontmatter.Parse([]byte(file(header, "text")), nil)
		if err != nil {
			t.Errorf("%q: %v", header, err)
			continue
		}
		if diff := cmp.Diff(want, values(d)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", header, diff)
		}
		if d.Body != "text" {
			t.Errorf("%q: body %q", header, d.Body)
		}
		if d.Lenient && len(d.Warnings) == 0 {
			t.Errorf("%q: lenient without a warning", header)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 65) + strings.Repeat("]", 65)
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", 'b'+i, 'b'+i, 'a'+i, 'a'+i, 'a'+i, 'a'+i, 'a'+i, 'a'+i, 'a'+i, 'a'+i, 'a'+i)
	}
	for _, c := range []struct {
		name, in string
		code     frontmatter.Code
		at       string // line:col
		text     string
	}{
		{"empty", "", frontmatter.Missing, "1:1", "no front matter"},
		{"none", "# Title\n\n---\na: b\n---\n", frontmatter.Missing, "1:1", "no front matter"},
		{"four hyphens", "----\na: b\n----\n", frontmatter.Missing, "1:1", "no front matter"},
		{"unclosed", "---\nname: a\n\ntext\n", frontmatter.Unclosed, "1:1", "missing closing ---"},
		{"only the first line", "---", frontmatter.Unclosed, "1:1", "missing closing ---"},
		{"not closed by four", "---\na: b\n----\n", frontmatter.Unclosed, "1:1", "missing closing ---"},
		{"large", "---\na: b\n---\n" + strings.Repeat("x", 1<<20), frontmatter.TooLarge, "0:0", "over 1 MiB"},
		{"large header", file("a: "+strings.Repeat("x", 64<<10), ""), frontmatter.TooLarge, "1:1", "over 64 KiB"},
		{"Latin-1", "---\na: \xfc\n---\n", frontmatter.Encoding, "0:0", "UTF-8; there is a bad byte at offset 7"},
		{"UTF-16", "\xff\xfe-\x00-\x00-\x00", frontmatter.Encoding, "0:0", "offset 0"},
		{"alias bomb", file(bomb, ""), frontmatter.Alias, "2:4", "aliases are not allowed"},
		{"alias alone", file("a: 1\nb: *a", ""), frontmatter.Alias, "3:4", "aliases are not allowed"},
		{"merge", file("<<: {a: 1}", ""), frontmatter.Alias, "2:1", "aliases are not allowed"},
		{"alias behind what is not YAML", file("a: b: c\nd: &x 1", ""), frontmatter.Alias, "3:4", "aliases are not allowed"},
		{"tag", file("a: !!python/object x", ""), frontmatter.Tag, "2:4", "tags are not allowed"},
		{"deep flow", file("a: "+deep, ""), frontmatter.TooDeep, "", "over 64 deep"},
		{"deep block", file("a:\n "+strings.Repeat("- ", 70)+"x", ""), frontmatter.TooDeep, "", "over 64 deep"},
		{"deep maps", file("a: "+strings.Repeat("{a: ", 70)+"1"+strings.Repeat("}", 70), ""), frontmatter.TooDeep, "", "over 64 deep"},
		{"a list", file("- a\n- b", ""), frontmatter.Syntax, "2:1", "want lines such as"},
		{"a text", file("just text", ""), frontmatter.Syntax, "2:1", "want lines such as"},
		{"tab", file("a:\n\t- x", ""), frontmatter.Syntax, "3:1", "invalid YAML"},
		{"no end of a list", file("tools: \n  [Read\nname: x", ""), frontmatter.Syntax, "4:5", "invalid YAML: did not find expected ',' or ']'"},
		{"wrong below", file("a: 1\nb:\n  - x: y: z\n", ""), frontmatter.Syntax, "4:9", "invalid YAML: mapping values are not allowed"},
		{"complex key", file("? [a]\n: b", ""), frontmatter.Syntax, "2:3", "want a plain word as key"},
	} {
		start := time.Now()
		_, err := frontmatter.Parse([]byte(c.in), nil)
		var e *frontmatter.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: error %v", c.name, err)
			continue
		}
		at := fmt.Sprintf("%d:%d", e.Line, e.Col)
		if e.Code != c.code || c.at != "" && at != c.at || !strings.Contains(e.Text, c.text) {
			t.Errorf("%s: %s at %s: %s; want %s at %s with %q", c.name, e.Code, at, e.Text, c.code, c.at, c.text)
		}
		if took := time.Since(start); took > faults.Bound(2*time.Second) {
			t.Errorf("%s took %s", c.name, took)
		}
	}
}

// A header of the largest size, all of it values, is read in no time.
func TestManyValues(t *testing.T) {
	t.Parallel()
	start := time.Now()
	d := parse(t, file("a: ["+strings.Repeat("1,", 32_000)+"1]", ""))
	if n := len(d.Field("a").Value.Items); n != 32_001 || time.Since(start) > faults.Bound(2*time.Second) {
		t.Errorf("%d values in %s", n, time.Since(start))
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	d := parse(t, "\ufeff---\r\nname: x\r\n\r\ntools:\r\n  - Read\r\n  - b: [1,\r\n      2]\r\n---  \r\n\r\n\r\nText\r\nmore\r\n")
	var got []string
	var walk func(prefix string, fields []frontmatter.Field)
	var value func(prefix string, v *frontmatter.Value)
	value = func(prefix string, v *frontmatter.Value) {
		got = append(got, fmt.Sprintf("%s@%d:%d", prefix, v.Line, v.Col))
		for i, x := range v.Items {
			value(fmt.Sprintf("%s[%d]", prefix, i), x)
		}
		walk(prefix+".", v.Fields)
	}
	walk = func(prefix string, fields []frontmatter.Field) {
		for _, f := range fields {
			got = append(got, fmt.Sprintf("%s%s@%d:%d", prefix, f.Key, f.Line, f.Col))
			value(prefix+f.Key+"=", f.Value)
		}
	}
	walk("", d.Fields)
	want := []string{
		"name@2:1", "name=@2:7", "tools@4:1", "tools=@5:3", "tools=[0]@5:5", "tools=[1]@6:5",
		"tools=[1].b@6:5", "tools=[1].b=@6:8", "tools=[1].b=[0]@6:9", "tools=[1].b=[1]@7:7",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if d.Body != "Text\nmore" || d.BodyLine != 11 {
		t.Errorf("body %q at %d", d.Body, d.BodyLine)
	}
	if w := parse(t, file("a: x\ncolor: #fff", "")).Warnings; len(w) != 1 || w[0].Line != 3 || !strings.Contains(w[0].Text, "quotes") {
		t.Errorf("warnings %v", w)
	}
	lenient := parse(t, file("a: x\n\ndescription:   b: c\nt: [1, 2]", ""))
	f := lenient.Field("description")
	if f == nil || f.Line != 4 || f.Value.Col != 16 || !lenient.Lenient || len(lenient.Warnings) != 1 || lenient.Warnings[0].Line != 4 {
		t.Errorf("%+v %v", f, lenient.Warnings)
	}
	if v := lenient.Field("t").Value; v.Line != 5 || v.Items[1].Col != 8 {
		t.Errorf("%+v", v)
	}
}

func TestRepeated(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"a: 1\nb: 2\na: 3":                 `4:1: "a" is there twice, first at 2:1; keep one`,
		"a: {x: 1, x: 2}":                  `2:11: "x" is there twice, first at 2:5; keep one`,
		"a: b: c\nn: 1\na: 3":              `4:1: "a" is there twice, first at 2:1; keep one`, // lenient
		"\"a\": 1\na: 3":                   `3:1: "a" is there twice, first at 2:1; keep one`,
		"t:\n  - q: 1\n    q: 2\n    r: 3": `4:5: "q" is there twice, first at 3:5; keep one`,
	} {
		d := parse(t, file(header, ""))
		if len(d.Repeated) != 1 || d.Repeated[0].Error() != want || d.Repeated[0].Code != frontmatter.Duplicate {
			t.Errorf("%q: %v, want %s", header, d.Repeated, want)
		}
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	b := []byte(file("name: a\x01b\nx: {\"k\x01\": v}", "bo\x01dy"))
	d, err := frontmatter.Parse(b, func(s string) string { return strings.ReplaceAll(s, "\x01", "") })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"name": "ab", "x": map[string]any{"k": "v"}}, values(d)); diff != "" || d.Body != "body" || len(d.Warnings) != 3 {
		t.Errorf("%s%q %v", diff, d.Body, d.Warnings)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Read, Bash(git add:*, git commit), Task(a, b)": "Read|Bash(git add:*, git commit)|Task(a, b)",
		"[Read, 'Grep', 1]":                             "Read|Grep|1",
		"Read Grep  Bash(python:*)":                     "Read|Grep|Bash(python:*)",
		"Read, Grep Glob":                               "Read|Grep Glob",
		"":                                              "-",
		"''":                                            "",
		"[]":                                            "",
		"{a: b}":                                        "-",
		"[[a]]":                                         "-",
		"Bash(git":                                      "Bash(git",
		",a,,b,":                                        "a|b",
	} {
		d := parse(t, file("t: "+in, ""))
		words, ok := d.Field("t").Value.Words(true)
		var got []string
		for _, w := range words {
			got = append(got, w.Text)
		}
		s := strings.Join(got, "|")
		if !ok {
			s = "-"
		}
		if s != want {
			t.Errorf("%q: %q, want %q", in, s, want)
		}
	}
}

// A hostile header takes no longer than its length deserves.
func TestHeadersTakeNoTime(t *testing.T) {
	t.Parallel()
	for _, part := range []string{
		"a: b\n", "a: b: c\n", "- ", "[", "{a: ", "? ", "\"", "'", "a: |\n x\n", "# x\n", "a:\n", "\t", "a: [\n", "x: \"\\", "&a ", "!", "%", "\n", ": ", "a: >\n\n",
	} {
		s := file(strings.Repeat(part, frontmatter.MaxHeader/len(part)), "text")
		start := time.Now()
		_, _ = frontmatter.Parse([]byte(s), nil)
		if took := time.Since(start); took > faults.Bound(3*time.Second) {
			t.Errorf("64 KiB of %q took %s", part, took)
		} else if testing.Verbose() {
			t.Logf("%q %s", part, took)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		file("name: a\ntools: [Read]", "x"), file("a: b: c\nd: [x] [y]", ""), "\ufeff---\r\na: 1\r\n---\r\n", file("a: |\n  x\n b", ""), file("a: &a [*a]", ""),
		file("? [a]\n: b\n", ""), file("a: {b: [c, {d: e}]}", "y"), "---\n---\n", file("a: #fff", ""), file("a: 1\na: 2", ""), "---\n--- \n---", file("a: \"\\u202e\"", ""),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		start := time.Now()
		d, err := frontmatter.Parse(b, nil)
		if took := time.Since(start); took > faults.Bound(5*time.Second) {
			t.Fatalf("took %s", took)
		}
		text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(b))
		lines := strings.Count(text, "\n") + 2
		if err != nil {
			var e *frontmatter.Error
			if !errors.As(err, &e) || e.Line > lines || e.Line > 0 && e.Col < 1 {
				t.Fatalf("error %v of %d lines", err, lines)
			}
			return
		}
		if !strings.Contains(text, d.Body) {
			t.Fatalf("body %q is not in the file", d.Body)
		}
		seen := map[string]bool{}
		for _, x := range d.Fields {
			if seen[x.Key] || x.Value == nil || x.Line < 2 || x.Line > lines || x.Value.Line < 1 || x.Value.Line > lines {
				t.Fatalf("field %+v %+v", x, x.Value)
			}
			seen[x.Key] = true
			x.Value.Any()
			x.Value.Words(true)
		}
	})
}
