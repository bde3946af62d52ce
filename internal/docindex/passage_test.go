package docindex

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPassages holds what readers get to see of a file: each passage with its lines and its heading.
func TestPassages(t *testing.T) {
	lines := strings.Repeat("\t// more of it\n", 14)
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"a.go", "// Copyright 2026 Somebody.\n\n// Package a is.\n//\n// # Limits\n//\n// None.\npackage a\n\nimport \"os\"\n\n// Exit ends it.\n//\n// Nothing is run.\nfunc Exit(code int) {\n\tos.Exit(code)\n\n\tx()\n}\n\ntype T struct {\n\t// A is a.\n\tA int\n}\n",
			[]string{"3-4 package a", "5-6 package a › Limits", "7-10 package a", "12-15 func Exit(code int)", "16-19 func Exit(code int)", "21-24 type T struct"}},
		{"long.go", "package a\n\n// F is.\nfunc F() {\n" + lines + "\treturn\n}\n", []string{"1-1 package a", "3-4 func F()", "5-12 func F()", "13-20 func F()"}},
		{"a.md", "---\ntitle: x\n---\n# Top\n\n## Part `one`\n\nIntroduces:\n\n- a\n- b\n\n```sh\n# no heading\n\nls\n```\n\nSet\n---\n\ntext\n",
			[]string{"1-3 ", "8-17 Top › Part one", "22-22 Top › Set"}},
		{"a.html", "<html><head><title>T</title><script>x()</script></head>\n<h2 id=x>Two &amp;\nthree</h2><p>One\ntwo.</p>\n<pre>\ncode\n\nmore</pre>\n<h2>Last</h2>\n<ul><li>a<li>b</ul>", []string{"3-8 T › Two & three", "10-10 T › Last"}},
		{"a.rst", "Title\n=====\n\nSub\n---\n\ntext\n", []string{"7-7 Title › Sub"}},
		{"a.adoc", "= Title\n\n== Sub\n\ntext\n", []string{"5-5 Title › Sub"}},
		{"a.1", ".TH X 1\n.SH NAME\nx \\- does y\n.SH OPTIONS\n.TP\n-a\n", []string{"1-1 ", "3-3 NAME", "5-6 OPTIONS"}},
		{"a.py", "def f(x):\n    \"\"\"Does f.\"\"\"\n    return x\n", []string{"1-3 def f(x)"}},
		{"empty.md", "\n\n\n", nil},
	} {
		d := parse(kindOf(tc.name), []byte(tc.text), nil)
		var got []string
		for _, s := range d.spans {
			got = append(got, fmt.Sprintf("%d-%d %s", s.first+1, s.last, s.head))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// TestText holds that the lines of HTML are whole, as a reader sees them, and that a packed file is read, up to a limit.
func TestText(t *testing.T) {
	page := "<p>A <b>bold</b>er &lt;word&gt;\n<a\nhref='x'>of</a> two<br>lines</p><!-- not\nthis --><script>nor()\n</script><td>a</td><td>b</td>\r\n"
	want := []string{"A bolder <word>", "", "of two lines", "", "a b"}
	text := func(name string, raw []byte) (out []string) {
		for _, l := range Text(name, raw) {
			out = append(out, strings.TrimSpace(string(l)))
		}
		return out
	}
	if diff := cmp.Diff(want, text("a.html", []byte(page))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, text("a.html.gz", packedText(t, page))); diff != "" {
		t.Error(diff)
	}
	if got := text("a.md", []byte("a <b>\n&amp;\n")); cmp.Diff([]string{"a <b>", "&amp;"}, got) != "" {
		t.Errorf("%q", got)
	}
	if n := len(bytes.Join(Text("bomb.txt.gz", packedText(t, strings.Repeat("bomb ", 8<<20))), nil)); n > maxFile {
		t.Errorf("%d bytes were unpacked", n)
	}
}

func packedText(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestLeft holds that an index says what it left out, by why.
func TestLeft(t *testing.T) {
	dir := folder(t, map[string]string{
		"README.Debian.gz": string(packedText(t, "how to purge zebras\n")), "bomb.txt.gz": string(packedText(t, strings.Repeat("zebra ", 4<<20))), "bad.txt.gz": "zebra",
		"a.png": "x", "b.txt": "a\x00b",
	})
	ix := open(t, dir, t.TempDir())
	if diff := cmp.Diff(map[string]int{"not text": 1, "binary": 1, tooLarge: 1, "unreadable": 1}, ix.Stats().Left); diff != "" || ix.Stats().Files != 1 {
		t.Errorf("%+v: %s", ix.Stats(), diff)
	}
	if got := search(t, ix, "purge"); len(got) != 1 || got[0] != "README.Debian.gz:1-1" {
		t.Errorf("%q", got)
	}
}

// TestCopies holds that a text is shown once, with the places of its copies, though white space, marks and a few words differ.
func TestCopies(t *testing.T) {
	text := "The collector starts a cycle when the heap has doubled since the last one, and it\nruns beside the program until all that is reachable was found, in several workers.\n"
	dir := folder(t, map[string]string{
		"gc.md": "# GC\n\n" + text, "v2/gc.md": "# GC\n\n" + strings.Replace(text, "several workers", "some workers", 1), "gc.html": "<p>" + strings.ReplaceAll(text, "heap", "<i>heap</i>"),
		"other.md": "The heap has doubled, says another text about the collector.\n",
	})
	found, err := open(t, dir, t.TempDir()).Search(context.Background(), "when does the collector start a cycle of the heap?", 5, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Passages) != 2 || len(found.Passages[0].Copies) != 2 || found.Passages[1].Path != "other.md" {
		t.Errorf("%+v", found.Passages)
	}
}

// TestMissing holds that words that are nowhere are told as the question writes them, and that words like those of every
// text are looked for if they are written as code.
func TestMissing(t *testing.T) {
	dir := folder(t, map[string]string{
		"once.go": "package sync\n\n// Do calls the function f for the first time only.\nfunc (o *Once) Do(f func()) {\n", "gc.go": "package debug\n\n// SetGCPercent sets the target percentage.\nfunc SetGCPercent(percent int) int {\n",
		"noise.md": "When you do this once, and do that once more, you do it.\n",
	})
	ix := open(t, dir, t.TempDir())
	for question, want := range map[string][]string{
		"How do I install MongoDB with winget on the functions?": {"install", "MongoDB", "winget"},
		"What does Once.Do do?":                                  nil, "what is the gc percent target": nil, "quokkas": {"quokkas"}, "": nil,
	} {
		found, err := ix.Search(context.Background(), question, 5, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, found.Missing); diff != "" {
			t.Errorf("%s: %s", question, diff)
		}
	}
	for question, want := range map[string]string{"What does Once.Do do?": "once.go:3-4", "gc percent": "gc.go:3-4"} {
		if got := search(t, ix, question); len(got) == 0 || got[0] != want {
			t.Errorf("%s: %q, want %s first", question, got, want)
		}
	}
}
