package cli

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/modeltest"
)

// redirected opens the command with the workflows of tests on a terminal, behind a shell that redirects its standard output into a file.
func redirected(t *testing.T, env []string, file, command string) *terminalTest {
	t.Helper()
	return openCommand(t, "", 100, 30, append([]string{"PATH=" + os.Getenv("PATH")}, env...), "sh", "-c", command+" >"+file)
}

// What is asked is on the terminal, and standard output has the result alone.
func TestConvention03Prompts(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"LIVE=1", "ACCESSIBLE=1"} {
		file := filepath.Join(t.TempDir(), "out")
		c := redirected(t, []string{env}, file, "superstep run ask")
		c.until("leave it open: ")
		c.typed("2\n")
		if code := c.exit(); code != 0 {
			t.Errorf("%s: exit code %d\n%s", env, code, c.screen())
		}
		if out, err := os.ReadFile(file); err != nil || string(out) != "answered no\n" {
			t.Errorf("%s: %q %v", env, out, err)
		}
		c = redirected(t, []string{env}, file, "superstep run leave")
		for _, n := range []string{"1", "2"} {
			c.until(n + " of 2 · " + permissionLabel)
			c.typed("4\n")
		}
		if code := c.exit(); code != 0 {
			t.Errorf("%s: exit code %d\n%s", env, code, c.screen())
		}
		if out, err := os.ReadFile(file); err != nil || string(out) != "denied | denied\n" {
			t.Errorf("%s: %q %v", env, out, err)
		}
	}
}

// blackhole is an address where connections are made and nothing is ever answered.
func blackhole(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var open []net.Conn
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open = append(open, c)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range open {
			c.Close()
		}
	})
	return l.Addr().String()
}

// Where the network swallows everything, the command starts, greets and shows the demo. The goals are a tenth of what is asserted.
func TestConvention07Blackhole(t *testing.T) {
	c := newCommanding(t)
	hole := blackhole(t)
	c.env = append(c.env, "HTTP_PROXY=http://"+hole, "HTTPS_PROXY=http://"+hole)
	for _, name := range []string{"OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM"} {
		c.env = append(c.env, name+"_BASE_URL=http://"+hole+"/v1")
	}
	empty, err := exec.LookPath("true") // a program that does nothing
	if err != nil {
		t.Fatal(err)
	}
	best := func(program string, args ...string) time.Duration {
		least := time.Hour
		for range 10 { // the machine may be busy with something else
			cmd := exec.CommandContext(t.Context(), program, args...)
			cmd.Env = c.env
			start := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			least = min(least, time.Since(start))
		}
		return least
	}
	binary := filepath.Join(whole(t), "superstep")
	version, nothing := best(binary, "--version"), best(empty)
	first := time.Hour
	for range 3 {
		start := time.Now()
		term := openCommand(t, c.dir, 100, 30, c.env, binary)
		term.until("message, /command")
		first = min(first, time.Since(start))
		term.until("No model yet.")
		term.typed("\x04") // Ctrl-D
		if code := term.exit(); code != 0 {
			t.Errorf("the start page: exit code %d\n%s", code, term.screen())
		}
	}
	t.Logf("--version %s beside %s of an empty program, first frame %s", version, nothing, first)
	if version-nothing > faults.Bound(500*time.Millisecond) {
		t.Errorf("--version took %s beside %s of an empty program", version, nothing)
	}
	if first > faults.Bound(2*time.Second) {
		t.Errorf("the first frame took %s", first)
	}
	cmd := exec.CommandContext(t.Context(), binary, "demo", "--fast") // it starts its own program, which it kills
	cmd.Dir, cmd.Env = c.dir, c.env
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "DEMO ") || !strings.Contains(string(out), "Checkout failed because") {
		t.Errorf("the demo: %v\n%s", err, out)
	}
}

// far are the addresses beyond this machine that a trace of system calls has.
func far(trace string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`inet_addr\("([^"]*)"\)|inet_pton\(AF_INET6, "([^"]*)"`).FindAllStringSubmatch(trace, -1) {
		a, err := netip.ParseAddr(m[1] + m[2])
		if err != nil || !a.IsLoopback() && !a.IsUnspecified() {
			out = append(out, m[1]+m[2])
		}
	}
	return out
}

// With --offline there are loopback sockets only, whatever the command is told to do.
func TestConvention08Offline(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("there is no strace here, which shows the sockets of a process")
	}
	c := newCommanding(t)
	file := filepath.Join(t.TempDir(), "trace")
	traced := func(args ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		tracing := []string{"-f", "-qq", "-e", "trace=connect,sendto,sendmsg,sendmmsg,bind", "-o", file, filepath.Join(whole(t), "superstep")}
		cmd := exec.CommandContext(ctx, strace, append(tracing, args...)...)
		cmd.Dir, cmd.Env, cmd.WaitDelay = c.dir, c.env, time.Second
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // or what is traced would go on
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "ptrace") {
			t.Skipf("strace may not trace here: %s", out)
		}
		trace, failed := os.ReadFile(file)
		if failed != nil {
			t.Fatalf("%v: %v %v\n%s", args, failed, err, out)
		}
		return string(trace)
	}
	server := modeltest.NewServer(t, playSteps, nil)
	c.env = append(c.env, "OPENAI_API_KEY=sk-0123456789abcdef", "OPENAI_BASE_URL="+server.URL)
	c.write(t, "it.yaml", "name: it\nsteps: [{id: a, subagent: explorer, prompt: x}]\n")
	if trace := traced("run", "it.yaml", "--model", "openai/x", "--offline"); len(far(trace)) > 0 || !strings.Contains(trace, "127.0.0.1") {
		t.Errorf("a model on this machine: %q\n%s", far(trace), trace)
	}
	c.env = append(c.env, "OPENAI_BASE_URL=http://192.0.2.1/v1") // an address that nobody has
	for _, args := range [][]string{
		{"run", "it.yaml", "--model", "openai/x"}, {"models", "list"}, {"models", "test", "openai/x"}, {"demo", "--fast"}, {"--version"},
		{"tools", "call", "web_fetch", `{"url": "http://192.0.2.1/"}`}, {"tools", "call", "web_fetch", `{"url": "https://www.example.org/"}`},
		{"run", "research", "What is a heron?"}, {"runs", "list"},
	} {
		if args[0] != "demo" {
			args = append(args, "--offline")
		}
		if away := far(traced(args...)); len(away) > 0 {
			t.Errorf("%v: %q", args, slices.Compact(away))
		}
	}
	if trace := traced("run", "it.yaml", "--model", "openai/x", "--timeout", "1s"); len(far(trace)) == 0 {
		t.Errorf("without --offline nothing is seen, so that nothing can be found with it:\n%s", trace)
	}
}

// decorated finds what a screen reader cannot read out: box drawing, blocks and Braille.
func decorated(s string) string {
	if i := strings.IndexFunc(s, func(r rune) bool { return r >= 0x2500 && r < 0x25a0 || r >= 0x2800 && r < 0x2900 }); i >= 0 {
		return s[i:min(len(s), i+60)]
	}
	return ""
}

// Plain output only ever adds lines: no alternate screen, no spinner, no drawing. Who speaks is named, answers have numbers, and a run
// that takes long gives a sign of life.
func TestConvention38Plain(t *testing.T) {
	t.Parallel()
	faults.Unraced(t)
	data := "SUPERSTEP_DATA_DIR=" + t.TempDir()
	check := func(screen string, what ...string) {
		t.Helper()
		if at := decorated(screen); at != "" {
			t.Errorf("%v: decoration: %q", what, at)
		}
		for _, m := range regexp.MustCompile(`\x1b(\[[0-9;?]*[a-zA-Z]|.)`).FindAllString(screen, -1) {
			if !strings.HasSuffix(m, "m") {
				t.Errorf("%v: %q moves the cursor or the screen", what, m)
			}
		}
		if i := strings.Index(strings.ReplaceAll(screen, "\r\n", ""), "\r"); i >= 0 {
			t.Errorf("%v: a line is written over", what)
		}
	}
	for _, with := range []struct{ env, flag string }{{"ACCESSIBLE=1", "--quiet=false"}, {"X=", "--plain"}} {
		for _, args := range [][]string{
			{"run", "gather"}, {"run", "slow", "ms=50", "tasks=3"}, {"run", "fail"}, {"runs", "list"}, {"runs", "show", "-v", "@-3"},
			{"workflows", "graph", "gather"}, {"workflows", "list"}, {"agents", "list"}, {"models", "list"}, {"runs", "history", "@-3"}, {"--help"}, nil,
		} {
			c := open(t, 80, 24, []string{with.env, data}, append([]string{with.flag}, args...)...)
			if args == nil {
				c.until("> ")
				c.typed("/help\n")
				c.untilAfter("/exit", "> ")
				c.typed("\x04")
			}
			c.exit()
			check(c.screen(), append(args, with.env, with.flag)...)
			if len(args) > 2 && args[2] == "-v" && !strings.Contains(ansi.Strip(c.screen()), "Agent gather/api: looking at api") {
				t.Errorf("who speaks is not named:\n%s", c.screen())
			}
			if len(args) == 2 && args[1] == "gather" && args[0] == "run" && !strings.Contains(ansi.Strip(c.screen()), "agent gather/api ok") {
				t.Errorf("who works is not named:\n%s", c.screen())
			}
		}
		c := open(t, 80, 24, []string{with.env}, "run", "ask", with.flag)
		c.until("leave it open: ")
		if text := ansi.Strip(c.screen()); !strings.Contains(text, "1. yes") || !strings.Contains(text, "2. no") || !strings.Contains(text, "Answer 1-2") {
			t.Errorf("the answers have no numbers:\n%s", text)
		}
		c.typed("1\n")
		if code := c.exit(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		check(c.screen(), "run", "ask")
		c = open(t, 80, 24, []string{with.env, "TEST_HEARTBEAT=100ms"}, "run", "slow", "ms=500", with.flag)
		if code := c.exit(); code != 0 || !strings.Contains(c.screen(), "still running 1s: wait/t00") {
			t.Errorf("no sign of life: exit code %d\n%s", code, c.screen())
		}
		check(c.screen(), "run", "slow")
	}
}

// Without its colours a terminal shows the same: each state has a sign or a word.
func TestConvention39NotByColour(t *testing.T) {
	t.Parallel()
	faults.Unraced(t)
	dir := t.TempDir()
	run := func(color string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), "superstep", append(args, "--color", color)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TERM=xterm-256color", "SUPERSTEP_DATA_DIR=" + filepath.Join(dir, "data")}
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for _, w := range []string{"gather", "fail", "ask", "partial", "leave"} {
		coloured, bare := normalise(ansi.Strip(run("always", "run", w))), normalise(run("never", "run", w))
		if coloured != bare && w != "gather" { // its tasks end in any order
			t.Errorf("run %s with colours:\n%s\nand without:\n%s", w, coloured, bare)
		}
	}
	words := []string{"completed", "failed", "paused", "partial"}
	for _, args := range [][]string{
		{"runs", "list"}, {"runs", "show", "@-7"}, {"runs", "show", "@-5"}, {"workflows", "graph", "--run", "@-7"}, {"agents", "list"}, {"permissions", "list"},
	} {
		coloured, bare := run("always", args...), run("never", args...)
		if ansi.Strip(coloured) != bare {
			t.Errorf("%v with colours:\n%s\nand without:\n%s", args, coloured, bare)
		}
		for _, word := range words {
			if args[1] == "list" && args[0] == "runs" && !strings.Contains(bare, word) {
				t.Errorf("%v has no %q:\n%s", args, word, bare)
			}
		}
	}
	c := open(t, 100, 30, nil, "run", "leave") // the live view
	c.until("NEEDS YOU")
	c.until("1 of 2 · " + permissionLabel)
	c.typed("\x04")
	c.until("2 of 2 · " + permissionLabel)
	c.typed("\x04")
	c.exit()
	c = open(t, 100, 30, nil, "run", "slow", "ms=500", "tasks=2")
	c.exit()
	text := ansi.Strip(c.screen())
	for _, want := range []string{"── Step: wait (running) ", "── Step: wait ✓ ", " ✓ wait/t00 "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// The colours are those of the terminal's own palette that are legible on light and on dark: neither black nor white, no
// background, and none that a terminal cannot change.
func TestConvention40Palette(t *testing.T) {
	t.Parallel()
	data := []string{"SUPERSTEP_DATA_DIR=" + t.TempDir()}
	legible := strings.Fields("0 1 2 22 31 32 33 34 35 36 39")
	seen := map[string]bool{}
	for _, args := range [][]string{
		{"run", "gather"}, {"run", "fail"}, {"run", "partial"}, {"run", "slow", "ms=300", "tasks=12"}, {"runs", "list"}, {"runs", "show", "@-2"},
		{"runs", "show", "@-4", "-v"}, {"agents", "list"}, {"--help"},
	} {
		c := open(t, 100, 30, data, args...)
		c.exit()
		for _, m := range regexp.MustCompile(`\x1b\[([0-9;:]*)m`).FindAllStringSubmatch(c.screen(), -1) {
			for code := range strings.SplitSeq(m[1], ";") {
				if seen[code] = true; code != "" && !slices.Contains(legible, code) {
					t.Errorf("%v: the code %q", args, code)
				}
			}
		}
	}
	if !seen["31"] || !seen["32"] || !seen["33"] {
		t.Errorf("the codes are %v", seen)
	}
}
