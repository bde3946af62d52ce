package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/runlog/stores"
)

// Everything that is wrong has a fix, and no check shows a secret.
func TestDoctor(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	home, dir := t.TempDir(), t.TempDir()
	env := map[string]string{"HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, ".config"), "XDG_DATA_HOME": filepath.Join(home, "data")}
	open := func() *host.Host {
		var environ []string
		for k, v := range env {
			environ = append(environ, k+"="+v)
		}
		h, err := host.Open(t.Context(), &host.Config{Name: "superstep", Dir: dir, Env: func(k string) string { return env[k] }, Environ: environ, Stores: stores.All(), Settled: true,
			Settings: host.Settings{Store: env["SUPERSTEP_STORE"], Origin: "SUPERSTEP_STORE"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Close() })
		return h
	}
	check := func(h *host.Host) map[string]host.Check {
		out := map[string]host.Check{}
		for _, c := range h.Doctor(t.Context(), h.Configuration("")) {
			if out[c.Name] = c; (c.State != "ok") != (c.Fix != "") || c.Found == "" {
				t.Errorf("%+v", c)
			}
			if strings.Contains(c.Found+c.Fix, "hunter2") {
				t.Errorf("a secret is shown: %+v", c)
			}
		}
		return out
	}
	well := check(open())
	for name, want := range map[string]string{"configuration": "ok", "data folder": "ok", "store": "ok", "project": "ok", "models": "warning", "coding agents": "ok"} {
		if well[name].State != want {
			t.Errorf("%+v, want %s", well[name], want)
		}
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) > 0 {
		t.Errorf("it left %v in the home folder: %v", entries, err)
	}

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"sqlite:" + filepath.Join(file, "new", "runs.db"), "file:" + filepath.Join(file, "runs")} { // no run could be created there
		env["SUPERSTEP_STORE"] = at
		if c := check(open())["store"]; c.State != "failed" || !strings.Contains(c.Found, "cannot write "+file) || !strings.Contains(c.Fix, "--store") {
			t.Errorf("%s: %+v", at, c)
		}
	}

	env["SUPERSTEP_STORE"], env["OPENAI_API_KEY"] = "postgres://me:hunter2@127.0.0.1:1/runs", "sk-hunter2-hunter2-hunter2"
	for name, text := range map[string]string{
		filepath.Join(home, ".config", "superstep", "config.yaml"): "stor: x\n",
		filepath.Join(dir, ".superstep", "agents", "a.md"):         "---\ndescription: an agent\n---\nDo it.\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ill := check(open())
	for name, want := range map[string]string{"configuration": "failed", "store": "failed", "project": "warning", "models": "ok"} {
		if ill[name].State != want {
			t.Errorf("%+v, want %s", ill[name], want)
		}
	}
}
