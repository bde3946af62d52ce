package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/tool/sandbox"
)

// What may only be read is not written, wherever it lies: also below folders that are the command's own, such as the
// temporary folder and the home folder.
func TestReadIsNotWrite(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		home := t.TempDir()
		write(t, filepath.Join(home, "go", "canary"), "as it was") // a toolchain
		write(t, filepath.Join(home, "x", "canary"), "as it was")
		outside := t.TempDir()
		write(t, filepath.Join(outside, "canary"), "as it was")
		s, err := sandbox.New(&sandbox.Options{Root: t.TempDir(), Home: home, Mode: mode, Temp: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		view, err := s.With(sandbox.Policy{Read: []string{filepath.Join(home, "x"), outside}})
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{filepath.Join(home, "go"), filepath.Join(home, "x"), outside} {
			out, _, err := run(t, view, "/", "cat "+dir+"/canary; echo broken > "+dir+"/canary; echo new > "+dir+"/new")
			if b, _ := os.ReadFile(filepath.Join(dir, "canary")); string(b) != "as it was" {
				t.Errorf("%s/canary is %q; %s (%v)", dir, b, out, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
				t.Errorf("%s/new was made", dir)
			}
		}
	})
}

func TestNamed(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, root := filepath.Join(dir, "home"), filepath.Join(dir, "home", "project")
	for _, name := range []string{
		"home/server/package.json", "home/server/dist/index.js", "home/app/node_modules/x/package.json", "home/app/node_modules/x/main.js", "home/package.json", "home/loose.js",
		"home/venv/pyvenv.cfg", "home/venv/bin/python", "data/d", "plain/f", "home/project/in.js",
	} {
		write(t, filepath.Join(dir, name), "")
	}
	if err := os.Symlink("../server/dist/index.js", filepath.Join(home, "venv", "link.js")); err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string][]string{
		"home/server/dist/index.js":       {"home/server"},
		"home/app/node_modules/x/main.js": {"home/app/node_modules"},
		"home/venv/bin/python":            {"home/venv"},
		"home/venv/link.js":               {"home/server", "home/venv"},
		"home/loose.js":                   {"home/loose.js"}, // although the home folder has a package.json
		"home":                            nil,
		"":                                nil, // the folder around the home folder
		"data":                            {"data"},
		"plain/f":                         {"plain"},
		"home/project/in.js":              nil, // readable anyway
		"gone":                            nil,
	} {
		var all []string
		for _, w := range want {
			all = append(all, filepath.Join(dir, w))
		}
		at := filepath.Join(dir, word)
		for _, argv := range [][]string{{"node", at}, {at}, {"x", "--data=" + at}, {"x", "file://" + at}} {
			if got := sandbox.Named(argv, root, home); !slices.Equal(got, all) {
				t.Errorf("%q: %q, want %q", argv, got, all)
			}
		}
	}
	// A link in the project is followed by no other way to it either.
	if err := errors.Join(os.Symlink(root, filepath.Join(dir, "alias")), os.Symlink(filepath.Join(home, "server"), filepath.Join(root, "out"))); err != nil {
		t.Fatal(err)
	}
	if got := sandbox.Named([]string{"x", filepath.Join(dir, "alias", "out"), filepath.Join(dir, "alias", "out", "dist", "index.js")}, root, home); len(got) > 0 {
		t.Errorf("%q", got)
	}
	for _, never := range []string{"/", "/tmp", "/run", "/proc", "/proc/self/environ", "/dev", "/dev/null", "/var", "relative/path", "../home/loose.js"} {
		if got := sandbox.Named([]string{"x", never}, root, home); len(got) > 0 {
			t.Errorf("%s: %q", never, got)
		}
	}
}

func TestPolicyOfNeeds(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, root := filepath.Join(dir, "home"), filepath.Join(dir, "home", "project")
	write(t, filepath.Join(home, ".ssh", "id"), "")
	write(t, filepath.Join(home, "x", "f"), "")
	write(t, filepath.Join(root, "in", "f"), "")
	if err := os.Symlink(filepath.Join(home, ".ssh"), filepath.Join(root, "innocent")); err != nil {
		t.Fatal(err)
	}
	p, err := sandbox.Needs{Network: []string{"a.example.com"}, Read: []string{"~/x/f", "in", "/gone"}, Write: []string{"~/x", "made"}}.Policy(root, home)
	if err != nil || !slices.Equal(p.Read, []string{home + "/x/f", root + "/in", "/gone"}) || !slices.Equal(p.Write, []string{home + "/x", root + "/made"}) {
		t.Errorf("%+v, %v", p, err)
	}
	for want, n := range map[string]sandbox.Needs{
		"innocent is a link out of the project":        {Read: []string{"innocent"}},
		"write: innocent is a link out of the project": {Write: []string{"innocent"}},
		"is too much":                    {Read: []string{home}},
		"write: " + dir + " is too much": {Write: []string{dir}},
		"write: ~/gone: no such file or directory; make the folder": {Write: []string{"~/gone"}},
		"write: ~/x/f is a file; name the folder it is in":          {Write: []string{"~/x/f"}},
		`"../out" is not a path in the project`:                     {Read: []string{"../out"}},
		"/run is too much":                                          {Read: []string{"/run"}},
	} {
		if p, err := n.Policy(root, home); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %+v, %v, want %s", n, p, err, want)
		}
	}
}

func TestFetches(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"npx -y x": "npm", "/usr/bin/npx x": "npm", "pnpm dlx x": "npm", "bunx x": "npm", "bun run x": "", "npm exec x": "npm", "npm start": "",
		"uvx x": "PyPI", "pipx run x": "PyPI", "pipx list": "", "go run x@latest": "Go modules", "go -C d build": "", "node x": "", "": "",
	} {
		if got := sandbox.Fetches(strings.Fields(line)); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// Nothing of Superstep's own folders is granted, whoever declares it.
func TestPrivate(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		home := t.TempDir()
		own := filepath.Join(home, ".config", "superstep")
		write(t, filepath.Join(own, "state", "trust.json"), "{}")
		write(t, filepath.Join(home, ".config", "other", "f"), "")
		s, err := sandbox.New(&sandbox.Options{Root: t.TempDir(), Home: home, Mode: mode, Temp: t.TempDir(), Private: []string{own}})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"~/.config", "~/.config/superstep", "~/.config/superstep/state", own + "/state/trust.json"} {
			if _, _, err := s.Declaring("x", true, sandbox.Needs{Read: []string{name}}, nil, nil); err == nil || !strings.Contains(err.Error(), "which is Superstep's own") {
				t.Errorf("%s: %v", name, err)
			}
		}
		view, _, err := s.Declaring("x", true, sandbox.Needs{Write: []string{"~/.config/other"}}, []string{"cat", own + "/state/trust.json", filepath.Join(home, ".config")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if out, _, err := run(t, view, "/", "cat "+own+"/state/trust.json"); err == nil {
			t.Errorf("it was read: %s", out)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A command that fetches what it runs is led to the registry of its user, and may reach that.
func TestDeclaring(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		for _, c := range []struct {
			npmrc   string
			environ []string
			line    string
			hosts   []string
			vars    string
		}{
			{"", nil, "npx x", []string{"registry.npmjs.org"}, "npm_config_registry=https://registry.npmjs.org/"},
			{"@a:registry=https://no.example.com/\nregistry = https://me:secret@npm.example.com/r/ \n", nil, "npx x", []string{"npm.example.com"}, "npm_config_registry=https://npm.example.com/r/"},
			{"registry=https://npm.example.com/", []string{"npm_config_registry=http://10.0.0.1:4873"}, "pnpm dlx x", []string{"10.0.0.1"}, "npm_config_registry=http://10.0.0.1:4873"},
			{"", nil, "uvx x", []string{"pypi.org", "files.pythonhosted.org"}, "UV_TOOL_DIR="},
			{"", nil, "go run x@v1.0.0", []string{"proxy.golang.org", "sum.golang.org"}, "GOPROXY=https://proxy.golang.org,direct"},
			{"", []string{"GOPROXY=off"}, "go run ./x", []string{"sum.golang.org"}, "GOPROXY=file://"},
			{"", nil, "node x", nil, ""},
		} {
			home := t.TempDir()
			write(t, filepath.Join(home, ".npmrc"), c.npmrc)
			s, err := sandbox.New(&sandbox.Options{Root: t.TempDir(), Home: home, Environ: c.environ, Mode: mode, Temp: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			view, env, err := s.Declaring("x", true, sandbox.Needs{}, strings.Fields(c.line), []string{"A=b"})
			if err != nil || !slices.Equal(view.Network(), c.hosts) || !strings.Contains(strings.Join(env, "\n"), c.vars) || env[0] != "A=b" || strings.Contains(strings.Join(env, "\n"), "secret") {
				t.Errorf("%s: %q %q %v", c.line, view.Network(), env, err)
			}
			if view, _, err := s.Declaring("x", true, sandbox.Needs{Off: true}, strings.Fields(c.line), nil); view != nil || err != nil {
				t.Errorf("%v %v", view, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
