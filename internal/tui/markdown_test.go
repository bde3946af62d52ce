package tui

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/runlog"
)

const briefText = "# Are deferred functions run?\n\n## Answer\n\n`func Exit(code int)` — src/os/proc.go:62-63\n\n" +
	"```go\n// The program terminates immediately; deferred functions are not run, and this line is longer than the terminal is wide.\n\tfunc Exit(code int) {\n```\n\n" +
	"> quoted *words* from\n> two lines\n\n1. first **bold** one that is long enough to be broken over two lines of a terminal\n2. [label](https://example.com/x) src/none.go:1\n\n---\n\n<b>raw</b> & \x1b[31mred\n"

func TestMarkdown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "src", "os", "proc.go")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "my notes.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tty := &Screen{OutTTY: true, Out: Usual} // 80 columns
	for _, text := range []string{"`my notes.md:7-9`", "`src/os/proc.go:7`", "`see src/os/proc.go:7`"} {
		if got := tty.markdown(text, dir); !strings.Contains(got, "#L7\a") || ansi.Strip(got) != strings.Trim(text, "`") {
			t.Errorf("%s has no link: %q", text, got)
		}
	}
	got := tty.markdown(briefText, dir)
	want := `Are deferred functions run?

Answer

func Exit(code int) — src/os/proc.go:62-63

  // The program terminates immediately; deferred functions are not run, and this line is longer than the terminal is wide.
      func Exit(code int) {

│ quoted words from
│ two lines

1. first bold one that is long enough to be broken over two lines of a terminal
2. label (https://example.com/x) src/none.go:1

────────────────────────────────────────

<b>raw</b> & red`
	if plain := ansi.Strip(got); plain != want {
		t.Errorf("the text is\n%s\nwant\n%s", plain, want)
	}
	for _, part := range []string{
		"\x1b[1mAnswer", "\x1b]8;;file://" + filepath.ToSlash(file) + "#L62", "\x1b]8;;https://example.com/x\a", "\x1b[3mwords",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in %q", part, got)
		}
	}
	if strings.Contains(got, "\x1b[31m") || strings.Contains(got, "none.go#") {
		t.Errorf("an escape sequence of the text's own, or a link to a file that is not there: %q", got)
	}
	for name, other := range map[string]*Screen{"a pipe": {Out: Usual}, "plain": {OutTTY: true, Out: Usual, Plain: true}, "no color": {OutTTY: true}} {
		if got := other.markdown(briefText, dir); strings.Contains(got, "\x1b") || !strings.Contains(got, "## Answer") {
			t.Errorf("%s is sent %q", name, got)
		}
	}
}

// A link does not hide where it leads, and only addresses of the web are links of a text.
func TestMarkdownLinks(t *testing.T) {
	t.Parallel()
	tty := &Screen{OutTTY: true, Out: Usual}
	for in, want := range map[string]string{
		"[bank.example](https://evil.example)":  "bank.example (https://evil.example)",
		"<https://a.example/b>":                 "https://a.example/b",
		"[x](file:///etc/passwd)":               "x (file:///etc/passwd)",
		"[x](javascript:alert(1))":              "x (javascript:alert(1))",
		"../../etc/passwd:1 and /etc/passwd:12": "../../etc/passwd:1 and /etc/passwd:12",
		"* a\n  * b\n\ntext":                    "• a\n  • b\n\ntext",
		"a | b\n--|--\n1 | 2":                   "a | b\n--|--\n1 | 2",
	} {
		got := tty.markdown(in, "/")
		if ansi.Strip(got) != want {
			t.Errorf("%q is shown as %q, want %q", in, ansi.Strip(got), want)
		}
		if links := strings.Count(got, "\x1b]8;;file"); links > 0 && !strings.Contains(in, "etc/passwd:12") {
			t.Errorf("%q has a link to a file: %q", in, got)
		}
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	x := newPlainRun(t)
	live := &live{teller: teller{s: x.s}, size: func() (int, int) { return 80, 24 }}
	x.live("explorer", "task.started", `{"node":"explorer","step":1}`)
	for _, at := range []string{`"done":10`, `"done":20`, `"done":60`, `"done":70`} { // a second apart
		x.live("explorer", "progress", `{"text":"indexing 60 files","all":100,`+at+`}`)
	}
	if n := strings.Count(x.out.String(), "wait explorer indexing 60 files"); n != 2 {
		t.Errorf("%d lines of progress in four seconds, want 2:\n%s", n, x.out.String())
	}
	task := x.s.run.Task("explorer")
	if got := live.paint().doing(task); !strings.HasPrefix(got, strings.Repeat("█", 14)+"░") || !strings.HasSuffix(got, "indexing 60 files") {
		t.Errorf("the bar is %q", got)
	}
	x.live("explorer", "progress", `{"text":"indexed","all":100,"done":100}`)
	if task.Progress != nil {
		t.Errorf("progress %+v after the end", task.Progress)
	}
	x.live("explorer", "progress", `{"all":2,"done":1}`)
	x.add(runlog.KindTaskDone, "explorer", `{"node":"explorer","step":1}`)
	if task.Progress != nil {
		t.Errorf("progress %+v of a task that is done", task.Progress)
	}
}

// Whatever a model writes, the terminal gets styles and links of ours alone.
func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{briefText, "[a\x1b]0;x\a](http://h/\x1b[2J)", "```\n\x1b[2J", strings.Repeat("> ", 200), strings.Repeat("* ", 100), "![x](http://a b)", "src/a.go:1\u202e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tty := &Screen{OutTTY: true, Out: Usual}
		rest := ours.ReplaceAllString(tty.markdown(s, "/"), "")
		if i := strings.IndexFunc(rest, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == '\u202e' }); i >= 0 {
			t.Errorf("%q is sent as %q", s, rest)
		}
	})
}

var ours = regexp.MustCompile("\x1b\\[(?:[0-4]|3[1-6])m|\x1b\\[0m|\x1b]8;;[!-~]*\a")
