package acpserve

import (
	"bytes"
	"strings"
	"testing"
)

// A unified diff becomes one change for each hunk.
func TestDiffs(t *testing.T) {
	t.Parallel()
	got := diffs("/p/a.go", "--- a.go\n+++ a.go\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\\ No newline at end of file\n@@ -9 +9,2 @@\n nine\n+--- ten\n")
	if len(got) != 2 {
		t.Fatalf("%d changes", len(got))
	}
	for i, want := range [][2]string{{"one\ntwo\n", "one\n2\n"}, {"nine\n", "nine\n--- ten\n"}} {
		if d := got[i].Diff; *d.OldText != want[0] || d.NewText != want[1] || d.Path != "/p/a.go" {
			t.Errorf("%q → %q", *d.OldText, d.NewText)
		}
	}
}

// A line that is too long is cut, and those around it are whole.
func TestShorten(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	_ = shorten(strings.NewReader("one\n"+strings.Repeat("x", mostLine+100_000)+"\ntwo\nthree"), func(line []byte) error { _, err := out.Write(line); return err })
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 4 || lines[0] != "one" || len(lines[1]) > mostLine || lines[2] != "two" || lines[3] != "three" {
		t.Errorf("%d lines, the second of %d bytes", len(lines), len(lines[1]))
	}
}

func TestTextOf(t *testing.T) {
	t.Parallel()
	blocks := []block{{Type: "text", Text: "Read "}, {Type: "resource_link", URI: "file:///p/my%20file"}, {Type: "text", Text: " and https"}}
	if got, err := textOf(blocks); err != nil || got != "Read /p/my file and https" {
		t.Errorf("%q: %v", got, err)
	}
	for _, bad := range [][]block{nil, {{Type: "image"}}, {{Type: "text", Text: " \n"}}} {
		if got, err := textOf(bad); err == nil {
			t.Errorf("%q", got)
		}
	}
}
