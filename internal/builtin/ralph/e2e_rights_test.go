//go:build unix

package ralph_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestSetupNetwork has a setup that needs the network. Without a rule for it the run ends before any model is asked; with one the setup runs once per
// worktree, before its worker.
func TestSetupNetwork(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
	s := newSite(t, pair())
	var fetched atomic.Int64
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		_, _ = w.Write([]byte("module\n"))
	}))
	defer registry.Close()
	s.write(".gitignore", "modules\n")
	s.write("check.sh", "cat modules || exit 1\n"+siteCheck(s.tasks))
	s.git("add", ".")
	s.git("commit", "-qm", "needs modules")
	setup := []string{"--setup", "curl -sSf -o modules " + registry.URL}
	_, said, code := s.outputs("", siteRun(setup...)...)
	if code == 0 || !strings.Contains(said, "the setup") || !strings.Contains(said, "--allow 'net(HOST)'") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if len(s.server.Requests()) > 0 || fetched.Load() > 0 {
		t.Errorf("%d requests to a model, %d to the network", len(s.server.Requests()), fetched.Load())
	}
	if out, code := s.superstep("", siteRun(append(setup, "--allow", "net("+strings.TrimPrefix(registry.URL, "http://")+")")...)...); code != 0 {
		t.Fatalf("exit code %d: %s", code, lastOf(out))
	}
	if n := fetched.Load(); n != 3 {
		t.Errorf("it ran %d times in 3 worktrees", n)
	}
}

// TestPublish pushes to a remote and opens a pull request once, after the user has said so. Killed in the middle of it, the run does not repeat it by
// itself.
func TestPublish(t *testing.T) {
	t.Parallel()
	s := newSite(t, pair()[:1])
	remote, bin := s.dir+".git", filepath.Join(s.home, "bin")
	s.git("init", "-q", "--bare", remote)
	s.git("remote", "add", "origin", remote)
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	gh := "#!/bin/sh\n{ pwd; printf '%s|' \"$@\"; echo; } >>'" + s.home + "/gh'\nif rm '" + s.home + "/die' 2>/dev/null; then kill -9 $PPID; sleep 1; fi\necho https://example.org/pull/1\n"
	for name, text := range map[string]string{filepath.Join(bin, "gh"): gh, filepath.Join(s.home, "die"): ""} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil { //nolint:gosec // one is to be run
			t.Fatal(err)
		}
	}
	s.path = bin + ":"
	pushed := func() string { return s.git("ls-remote", remote) }
	out, code := s.superstep("", siteRun("--pr")...)
	if code != 3 || pushed() != "" || len(s.glob(s.home+"/gh")) > 0 {
		t.Fatalf("exit code %d, pushed %q: %s", code, pushed(), lastOf(out))
	}
	run, _ := s.run()
	if _, code = s.superstep("", "runs", "answer", run, "open it"); code != -1 {
		t.Fatalf("it was not killed: exit code %d", code)
	}
	if !strings.Contains(pushed(), "refs/heads/superstep/"+run) {
		t.Errorf("pushed: %s", pushed())
	}
	out, code = s.superstep("", "runs", "resume", run)
	if code != 3 {
		t.Errorf("exit code %d: %s", code, out)
	}
	log, err := os.ReadFile(filepath.Join(s.home, "gh"))
	if err != nil || strings.Count(string(log), "|--head|superstep/"+run+"|") != 1 || !strings.Contains(string(log), "pr|create|") || !strings.Contains(string(log), "|--base|main|") ||
		!strings.HasPrefix(string(log), s.dir+"\n") {
		t.Errorf("gh was called with %s, %v", log, err)
	}
	if out, code = s.superstep("", "runs", "resolve", run, "finish", "--happened", "--result", `"https://example.org/pull/1"`); code != 0 || !strings.Contains(out, "https://example.org/pull/1") {
		t.Errorf("exit code %d: %s", code, out)
	}
	s.merged(run)
}
