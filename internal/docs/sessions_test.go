package docs_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
)

var update = flag.Bool("update", false, "write what commands print into the sessions of the pages")

const again = "go test ./internal/docs -run Sessions -update"

// part is a block that a session writes or runs, or a heading.
var part = regexp.MustCompile("(?ms)^(?:## (.*?)$|```(?:\\w+) file=(\\S+)\n(.*?)^```$|```console run\n(.*?)^```$|<!-- run: (.*?) -->\n```mermaid\n(.*?)^```$)")

// TestSessions runs the pages: a block "```LANGUAGE file=NAME" is written, a block "```console run" is executed, and what it prints is compared,
// and so is the picture behind "<!-- run: COMMAND -->".
// A line "…" stands for any lines. Each section of the cookbook has a folder of its own. -update writes what is printed.
func TestSessions(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "openssl"} {
		if _, err := exec.LookPath(program); err != nil || runtime.GOOS == "windows" {
			t.Skipf("sessions need a shell and %s: %v", program, err)
		}
	}
	faults.Unraced(t)
	dir := filepath.Dir(faults.Command(t))
	if out, err := exec.Command(filepath.Join(dir, "superstep"), "sandbox", "explain").Output(); err != nil || strings.Contains(string(out), "sandbox    none") {
		t.Skipf("no sandbox, so commands ask: %v", err)
	}
	var wait sync.WaitGroup // of all, since they mostly sleep
	sections := map[string][]string{}
	for _, file := range pages(t) {
		page := strings.TrimPrefix(filepath.ToSlash(file), "../../")
		parts := []string{pageOf(t, page)}
		if page == "docs/cookbook.md" {
			parts = split(parts[0])
		}
		sections[page] = parts
		for i, text := range parts {
			wait.Go(func() { parts[i] = session(t, page, text, dir) })
		}
	}
	wait.Wait()
	for page, parts := range sections {
		if now := strings.Join(parts, ""); *update && now != pageOf(t, page) {
			if err := os.WriteFile(filepath.Join("..", "..", filepath.FromSlash(page)), []byte(now), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// split cuts a page before its headings of the second level.
func split(text string) []string {
	parts, code := []string{""}, false
	for line := range strings.Lines(text) {
		code = code != strings.HasPrefix(line, "```")
		if strings.HasPrefix(line, "## ") && !code {
			parts = append(parts, "")
		}
		parts[len(parts)-1] += line
	}
	return parts
}

// session runs a section, again and slower if a busy machine was too late for its kill, and returns it with what was printed.
func session(t *testing.T, name, text, bin string) string {
	var before string
	var faults []string
	for _, slow := range []int{1, 3, 9} {
		var now string
		if now, faults = play(t, text, bin, slow); len(faults) == 0 {
			return now
		}
		if *update && same(before, now) {
			break // and has the times of the faster one
		}
		before = now
	}
	for _, fault := range faults {
		if !*update {
			t.Errorf("%s: %s", name, fault)
		}
	}
	return before
}

var sleeps = regexp.MustCompile(`\bsleep (\d)\b`)

func play(t *testing.T, text, bin string, slow int) (now string, faults []string) {
	home := t.TempDir()
	dir := filepath.Join(home, "project")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return text, []string{err.Error()}
	}
	slower := func(s string) string {
		return sleeps.ReplaceAllStringFunc(s, func(m string) string { return fmt.Sprintf("sleep $((%s * %d))", m[len("sleep "):], slow) })
	}
	var b strings.Builder
	last := 0
	for _, at := range part.FindAllStringSubmatchIndex(text, -1) {
		group := func(n int) string { return text[max(at[2*n], 0):max(at[2*n+1], 0)] }
		if name := group(2); name != "" {
			file := filepath.Join(dir, name)
			mode := os.FileMode(0o644)
			if strings.HasPrefix(group(3), "#!") {
				mode = 0o755
			}
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				faults = append(faults, err.Error())
			}
			if err := os.WriteFile(file, []byte(slower(group(3))), mode); err != nil {
				faults = append(faults, err.Error())
			}
			continue
		}
		if at[12] >= 0 {
			if got := execute(group(5), home, dir, bin); got != group(6) {
				faults = append(faults, fmt.Sprintf("%s draws\n%s(%s)", group(5), got, again))
				b.WriteString(text[last:at[12]] + got)
				last = at[13]
			}
		}
		if at[8] < 0 {
			continue
		}
		b.WriteString(text[last:at[8]])
		last = at[9]
		for _, step := range steps(group(4)) {
			got := execute(slower(step.command), home, dir, bin)
			if same(step.output, got) {
				got = step.output
			} else {
				faults = append(faults, fmt.Sprintf("$ %s\n--- the page has\n%s--- it prints\n%s(%s)", step.command, step.output, got, again))
			}
			fmt.Fprintf(&b, "$ %s\n%s", step.command, got)
		}
	}
	return b.String() + text[last:], faults
}

type step struct{ command, output string }

// steps are the commands of a block: a line that begins with "$ ", with those that a backslash at the end joins to it.
func steps(block string) (found []step) {
	open := false
	for line := range strings.Lines(block) {
		c, begins := strings.CutPrefix(line, "$ ")
		switch {
		case begins:
			found = append(found, step{command: strings.TrimSuffix(c, "\n")})
		case open:
			found[len(found)-1].command += "\n" + strings.TrimSuffix(line, "\n")
		case len(found) > 0:
			found[len(found)-1].output += line
		}
		open = (begins || open) && strings.HasSuffix(line, "\\\n")
	}
	return found
}

// execute runs a command as a user without keys and terminal does.
func execute(line, home, dir, bin string) string {
	script := line + "\ncode=$?\n[ $code = 0 ] || echo \"(exit code $code)\"\n"
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir, cmd.WaitDelay = dir, 5*time.Second
	cmd.Env = []string{"HOME=" + home, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return err.Error() + "\n"
	}
	shown := strings.ReplaceAll(out.String(), home, "/home/ada")
	shown = regexp.MustCompile(`(?m)^.*: line \d+: +\d+ Killed .*\n`).ReplaceAllString(shown, "") // said by some shells
	if shown != "" && !strings.HasSuffix(shown, "\n") {
		shown += "\n"
	}
	return shown
}

var differs = []struct {
	re *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`\beval-[0-9a-f]{6}-\d+-[0-9a-f]{12}\b`), "ID"},
	{regexp.MustCompile(`\b[0-9a-f]{8}\b`), "ID"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d\b`), "DAY"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ms|s|m)\b`), "SPAN"},
	{regexp.MustCompile(`just now {0,2}|SPAN ago {0,2}`), "LATELY "},
	{regexp.MustCompile(`sandbox=\w+`), "sandbox=SOME"},
	{regexp.MustCompile(`process \d+`), "process PID"},
	{regexp.MustCompile(`[ \t]+\n`), "\n"},
	{regexp.MustCompile(`(\S)   +`), "$1  "}, // columns are as wide as what is in them
}

// normal takes out what differs from run to run.
func normal(text string) string {
	for _, d := range differs {
		text = d.re.ReplaceAllString(text, d.by)
	}
	return text
}

// same compares what the page has with what was printed, whatever the order of lines of things that go on side by side.
func same(want, got string) bool {
	rest := strings.Split(normal(got), "\n")
	elided := false
	for line := range strings.SplitSeq(normal(want), "\n") {
		if strings.TrimSpace(line) == "…" {
			elided = true
			continue
		}
		i := slices.Index(rest, line)
		if i < 0 {
			return false
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return elided || len(rest) == 0
}

func TestSame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"10:00:01 run 1a2b3c4d ok 2.0s\n", "11:12:13 run ffffffff ok 13s\n", true},
		{"a\nb\n", "b\na\n", true}, {"a\n", "a\nb\n", false}, {"a\n…\n", "a\nb\nc\n", true}, {"d\n…\n", "a\nb\n", false}, {"a\n", "", false},
	} {
		if same(c.want, c.got) != c.same {
			t.Errorf("%q and %q: same is not %v", c.want, c.got, c.same)
		}
	}
}
