package cli

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/sqlite"
)

// buildDemo returns the command with its models and recipes, which the demo starts too.
func buildDemo(t *testing.T) (binary string) {
	t.Helper()
	return filepath.Join(whole(t), "superstep")
}

// demoing is a folder to show the demo in.
type demoing struct {
	binary, here, home, tmp string
	env                     []string
	dialled                 *atomic.Int32
}

// newDemoing gives the demo a home that cannot be written, no key, and a proxy that counts who wants to leave the machine.
func newDemoing(t *testing.T, binary string) *demoing {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &demoing{binary: binary, here: t.TempDir(), home: t.TempDir(), tmp: t.TempDir(), dialled: &atomic.Int32{}}
	if err := os.Chmod(d.home, 0o500); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d.dialled.Add(1)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	proxy := "http://" + l.Addr().String()
	d.env = []string{"PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "HOME=" + d.home, "TMPDIR=" + d.tmp, "TMP=" + d.tmp,
		"HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy, "SUPERSTEP_MODEL=openai/none", "SUPERSTEP_MAX_AGENTS=1"}
	return d
}

// run runs the command in an empty folder, and returns what it writes.
func (d *demoing) run(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // ten times what it may take
	defer cancel()
	cmd := exec.CommandContext(ctx, d.binary, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = d.here, d.env, time.Second
	b, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%v takes too long:\n%s", args, b)
	}
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(b)
}

// empty fails if the demo has left something.
func (d *demoing) empty(t *testing.T) {
	t.Helper()
	for _, dir := range []string{d.here, d.home, d.tmp} {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v %v", dir, left, err)
		}
	}
	if n := d.dialled.Load(); n > 0 {
		t.Errorf("%d connections", n)
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	binary := buildDemo(t)
	t.Run("shows", func(t *testing.T) { demoShows(t, newDemoing(t, binary)) })
	t.Run("ralph", func(t *testing.T) { demoRalph(t, newDemoing(t, binary)) })
	t.Run("keeps", func(t *testing.T) { demoKeeps(t, newDemoing(t, binary)) })
	t.Run("refuses", func(t *testing.T) { demoRefuses(t, newDemoing(t, binary)) })
}

func demoShows(t *testing.T, d *demoing) {
	code, out := d.run(t, "demo", "--fast")
	head, _, _ := strings.Cut(out, "\n")
	if code != 0 || head != "DEMO · no key, no network, no model is called" {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	for _, want := range []string{
		"$ superstep run incident.yaml --model demo --on-ask wait --answer audience=engineers\n", "✗ SIGKILL", "(3 of 5 agents)", `the answer "engineers"`,
		"$ superstep runs resume @last --answer report=once\n", "Checkout failed because", "agents=5 exit=0",
		"✓ 3 agents finished before the kill, 2 after it. Each of the 11 turns and\n  6 tool calls is in the run log once", "The demo's folder is removed",
	} {
		if strings.Count(out, want) != 1 {
			t.Errorf("%q is there %d times:\n%s", want, strings.Count(out, want), out)
		}
	}
	killed, resumed, _ := strings.Cut(out, "✗ SIGKILL")
	for _, once := range []string{"step lead ok", "step logs ok", "step deploys ok", "ask audience"} {
		if !strings.Contains(killed, once) || strings.Contains(resumed, once) {
			t.Errorf("%q is to be before the kill and not after it:\n%s", once, out)
		}
	}
	if strings.Contains(out, "Inspect") || strings.ContainsRune(out, '\x1b') {
		t.Errorf("%q", out)
	}
	d.empty(t)
	d.works(t, out)
}

// Ralph does its tasks in a repository, among them one whose check fails first and one that conflicts.
func demoRalph(t *testing.T, d *demoing) {
	code, out := d.run(t, "demo", "ralph", "--fast")
	if code != 0 || !strings.Contains(out, "4 of 4 tasks merged into superstep/") || !strings.Contains(out, "2 reviews in a row found nothing") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if code, out := d.run(t, "demo", "nothing"); code != 2 || !strings.Contains(out, "say ralph") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	d.empty(t)
}

// works runs the commands that the demo shows at its end.
func (d *demoing) works(t *testing.T, out string) {
	t.Helper()
	d.env = append(d.env, "HOME="+t.TempDir(), "SUPERSTEP_MODEL=", "SUPERSTEP_MAX_AGENTS=")
	commands := regexp.MustCompile(`(?m)^  superstep (.*?)   `).FindAllStringSubmatch(out, -1)
	if len(commands) < 3 {
		t.Fatalf("%q", commands)
	}
	for _, c := range commands {
		if code, out := d.run(t, strings.Fields(c[1])...); code != 0 {
			t.Errorf("%s: exit code %d\n%s", c[1], code, out)
		}
	}
}

// The log of the run has everything once, and one process has resumed what another left.
func demoKeeps(t *testing.T, d *demoing) {
	code, out := d.run(t, "demo", "--fast", "--keep")
	dirs, err := filepath.Glob(filepath.Join(d.tmp, "*"))
	if code != 0 || err != nil || len(dirs) != 1 || !strings.Contains(out, "The run is in "+dirs[0]) {
		t.Fatalf("exit code %d, %v %v\n%s", code, dirs, err, out)
	}
	report, err := os.ReadFile(filepath.Join(dirs[0], "incident", "postmortem.md"))
	if err != nil || !strings.HasPrefix(string(report), "# Incident 42, for engineers\n") {
		t.Errorf("%q %v", report, err)
	}
	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(dirs[0], "superstep.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	infos, err := store.Runs(ctx, nil)
	if err != nil || len(infos) != 1 || infos[0].Status != runlog.Completed {
		t.Fatalf("%v %v", infos, err)
	}
	kinds, began, settled := map[runlog.Kind]int{}, map[string]int{}, map[string]int{}
	for rec, err := range runlog.Records(ctx, store, infos[0].ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		kinds[rec.Kind]++
		var e struct{ Key, Kind string }
		_ = json.Unmarshal(rec.Data, &e)
		switch rec.Kind {
		case runlog.KindIntended:
			began[e.Kind+" "+rec.Path+" "+e.Key]++
		case runlog.KindSettled:
			settled[e.Kind+" "+rec.Path+" "+e.Key]++
		}
	}
	of := map[string]int{}
	for e, n := range settled {
		kind, _, _ := strings.Cut(e, " ")
		if of[kind]++; n != 1 || kind == "tool" && began[e] > 1 {
			t.Errorf("%s: settled %d times, begun %d times", e, n, began[e])
		}
	}
	if of["agent"] != 5 || of["model"] != 11 || of["tool"] != 6 {
		t.Errorf("%v", of)
	}
	for kind, n := range map[runlog.Kind]int{runlog.KindRunStarted: 1, runlog.KindRunResumed: 1, runlog.KindAsked: 2, runlog.KindAnswered: 2} {
		if kinds[kind] != n {
			t.Errorf("%s: %d times, want %d", kind, kinds[kind], n)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	d.works(t, out)
}

func demoRefuses(t *testing.T, d *demoing) {
	if code, out := d.run(t, "demo", "-o", "json"); code != ExitUsage || !strings.Contains(out, "leave out -o json") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	d.empty(t)
	d.env = append(d.env, "TMPDIR=/dev/null/tmp", "TMP=/dev/null/tmp")
	if code, out := d.run(t, "demo", "--fast"); code != ExitFailed || !strings.Contains(out, "set TMPDIR to one that can be written") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
