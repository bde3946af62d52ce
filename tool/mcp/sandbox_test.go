package mcp_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/npm"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// probe is a server whose tool tries what its arguments say.
func probe() {
	type args struct{ What, Arg string }
	t, err := tool.New("try", "tries", func(ctx context.Context, in args) (string, error) { return perform(ctx, in.What, in.Arg) }, &tool.Options{Effect: tool.Pure})
	if err != nil {
		panic(err)
	}
	if what := os.Getenv("AT_START"); what != "" {
		if _, err := perform(context.Background(), what, os.Getenv("AT_START_ARG")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
	}
	set, err := tool.NewSet(t)
	if err != nil {
		panic(err)
	}
	if err := mcp.Serve(context.Background(), set, os.Stdin, os.Stdout, nil); err != nil {
		panic(err)
	}
}

func perform(ctx context.Context, what, arg string) (string, error) {
	switch what {
	case "read":
		b, err := os.ReadFile(arg)
		return string(b), err
	case "write":
		return "done", os.WriteFile(arg, []byte("written"), 0o600)
	case "env":
		return strings.Join(os.Environ(), "\n"), nil
	case "get", "get quietly":
		proxy, err := url.Parse(os.Getenv("HTTP_PROXY")) // whatever NO_PROXY has
		if err != nil || proxy.Host == "" {
			return "", fmt.Errorf("the network is unreachable (%w)", err)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, arg, nil)
		if err != nil {
			return "", err
		}
		res, err := (&http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}).Do(req)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusOK && what == "get" {
			return "", errors.New("something went wrong")
		}
		return string(b), err
	}
	return "", errors.New("the argument is wrong")
}

// confined runs a test with each mechanism that this system has. The project and the home folder hold a secret.
func confined(t *testing.T, test func(t *testing.T, o *mcp.Options, warned *warnings, home string)) {
	t.Helper()
	for _, mode := range []sandbox.Mode{sandbox.Namespaces, sandbox.Landlock} {
		t.Run(string(mode), func(t *testing.T) {
			o, warned := options(t)
			project, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			o.Project = project
			home, ok := strings.CutPrefix(o.Environ[1], "HOME=")
			if !ok {
				t.Fatal(o.Environ)
			}
			for name, text := range map[string]string{home + "/x/notes": "zebra", home + "/.ssh/id": "zebra", project + "/.env": "TOKEN=zebra", project + "/data": "open"} {
				if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, err := sandbox.New(&sandbox.Options{
				Root: project, Home: home, Environ: os.Environ(), Mode: mode, Temp: t.TempDir(), Cache: filepath.Join(t.TempDir(), "cache"),
				Hide: func(path string) bool { return filepath.Base(path) == ".env" },
			})
			if err != nil && os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			if err != nil {
				t.Skipf("SKIPPED: this system cannot confine commands so: %v", err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			o.Sandbox = s
			o.Environ = append(o.Environ, "CANARY=zebra")
			test(t, o, warned, home)
		})
	}
}

func probing(t *testing.T, needs sandbox.Needs) *mcp.Server {
	t.Helper()
	s := server(t, "probe")
	s.Name, s.Source.Path, s.Needs = "github", "/p/.mcp.json", needs
	return s
}

func try(t *testing.T, set *tool.Set, what, arg string) tool.Result {
	t.Helper()
	return call(t, set, "mcp__github__try", fmt.Sprintf(`{"What":%q,"Arg":%q}`, what, arg))
}

func TestConfinedFiles(t *testing.T) {
	t.Parallel()
	confined(t, func(t *testing.T, o *mcp.Options, _ *warnings, home string) {
		outside := t.TempDir()
		tools := set(t, connect(t, probing(t, sandbox.Needs{}), o))
		for what, arg := range map[string]string{"read": home + "/x/notes", "write": outside + "/f"} {
			want := `server github runs in a sandbox, and may do more if /p/.mcp.json says so: "network": ["HOST"], "read": ["FOLDER"], "write": ["FOLDER"]`
			if r := try(t, tools, what, arg); !r.Error || !strings.Contains(r.Text, want) {
				t.Errorf("%s: %+v", what, r)
			}
		}
		for _, arg := range []string{home + "/.ssh/id", o.Project + "/.env"} {
			if r := try(t, tools, "read", arg); !r.Error || strings.Contains(r.Text, "zebra") {
				t.Errorf("read %s: %+v", arg, r)
			}
		}
		if r := try(t, tools, "read", o.Project+"/data"); r.Text != "open" {
			t.Errorf("%+v", r)
		}
		if r := try(t, tools, "env", ""); r.Error || strings.Contains(r.Text, "zebra") {
			t.Errorf("%+v", r)
		}
		if r := try(t, tools, "nothing", ""); !r.Error || strings.Contains(r.Text, "sandbox") {
			t.Errorf("a mistake of the caller: %+v", r)
		}
		tools = set(t, connect(t, probing(t, sandbox.Needs{Read: []string{"~/x"}, Write: []string{outside}}), o))
		if r := try(t, tools, "read", home+"/x/notes"); r.Text != "zebra" {
			t.Errorf("declared: %+v", r)
		}
		if r := try(t, tools, "write", outside+"/f"); r.Error {
			t.Errorf("declared: %+v", r)
		}
		tools = set(t, connect(t, probing(t, sandbox.Needs{Off: true}), o))
		if r := try(t, tools, "read", home+"/.ssh/id"); r.Text != "zebra" {
			t.Errorf("off: %+v", r)
		}
	})
}

func TestConfinedStart(t *testing.T) {
	t.Parallel()
	confined(t, func(t *testing.T, o *mcp.Options, _ *warnings, home string) {
		s := probing(t, sandbox.Needs{})
		s.Env["AT_START"], s.Env["AT_START_ARG"] = "read", home+"/x/notes"
		_, err := mcp.Connect(t.Context(), s, o)
		if err == nil || !strings.Contains(err.Error(), `ended (exit status 3); server github runs in a sandbox, and may do more if /p/.mcp.json says so`) {
			t.Error(err)
		}
		s.Needs.Read = []string{"~/x"}
		connect(t, s, o)
		s.Needs.Write = []string{"~/gone"}
		if _, err := mcp.Connect(t.Context(), s, o); err == nil || !strings.Contains(err.Error(), "write: ~/gone: no such file or directory; make the folder first; correct it in /p/.mcp.json") {
			t.Error(err)
		}
	})
}

func TestConfinedNetwork(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(web.Close)
	host := strings.TrimPrefix(web.URL, "http://")
	confined(t, func(t *testing.T, o *mcp.Options, warned *warnings, _ string) {
		tools := set(t, connect(t, probing(t, sandbox.Needs{Network: []string{"a.example.com"}}), o))
		want := fmt.Sprintf(`server github was refused %s; add "network": ["a.example.com", "127.0.0.1"] in /p/.mcp.json`, host)
		if r := try(t, tools, "get", web.URL); !r.Error || !strings.Contains(r.Text, "something went wrong") || !strings.Contains(r.Text, want) {
			t.Errorf("%+v, want %q", r, want)
		}
		if r := try(t, tools, "nothing", ""); !r.Error || strings.Contains(r.Text, "refused") || strings.Contains(r.Text, "sandbox") {
			t.Errorf("what it was refused before: %+v", r)
		}
		// Also where the server makes the best of it.
		if r := try(t, tools, "get quietly", "http://b.example.com/"); r.Error || !strings.Contains(warned.all(), "b.example.com:80; add") {
			t.Errorf("%+v, %s", r, warned.all())
		}
		tools = set(t, connect(t, probing(t, sandbox.Needs{Network: []string{"127.0.0.1"}}), o))
		if r := try(t, tools, "get", web.URL); r.Text != "hello" {
			t.Errorf("declared: %+v", r)
		}
		s := probing(t, sandbox.Needs{Network: []string{"a.example.com"}})
		s.Source.Path = "/p/.superstep/mcp.yaml"
		s.Env["AT_START"], s.Env["AT_START_ARG"] = "get", web.URL
		want = fmt.Sprintf(`server github was refused %s; add network: [a.example.com, 127.0.0.1] in /p/.superstep/mcp.yaml`, host)
		if _, err := mcp.Connect(t.Context(), s, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

// What others have published runs in the sandbox as it is, without a declaration.
func TestConfinedPublished(t *testing.T) {
	t.Parallel()
	confined(t, func(t *testing.T, o *mcp.Options, _ *warnings, _ string) {
		o.InitTimeout = time.Minute
		everything(t, set(t, connect(t, published(t, "everything", "stdio"), o)), o.Project)

		data := t.TempDir() // outside of the project, named by an argument
		if err := os.WriteFile(filepath.Join(data, "a"), []byte("open"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := published(t, "filesystem", data)
		s.Dir, s.Source.Path = o.Project, "/p/mcp.yaml"
		o.Project = "" // of which the server would be told as all that it may use
		tools := set(t, connect(t, s, o))
		if r := call(t, tools, "mcp__filesystem__read_text_file", fmt.Sprintf(`{"path":%q}`, data+"/a")); r.Text != "open" {
			t.Errorf("%+v", r)
		}
		write := fmt.Sprintf(`{"path":%q,"content":"new"}`, data+"/b")
		if r := call(t, tools, "mcp__filesystem__write_file", write); !r.Error || !strings.Contains(r.Text, "runs in a sandbox") {
			t.Errorf("%+v", r)
		}
		s.Needs.Write = []string{data}
		if r := call(t, set(t, connect(t, s, o)), "mcp__filesystem__write_file", write); r.Error {
			t.Errorf("declared: %+v", r)
		}
	})
}

func TestConfigNeeds(t *testing.T) {
	t.Parallel()
	const keys = `"network": ["api.example.com", "*.example.org"], "read": "~/x", "write": ["/data"]`
	for path, text := range map[string]string{
		"/p/.mcp.json":            `{"mcpServers": {"a": {"command": "x", ` + keys + `}}}`,
		"/h/.claude.json":         `{"mcpServers": {"a": {"command": "x", ` + keys + `}}}`,
		"/p/.vscode/mcp.json":     `{"servers": {"a": {"type": "stdio", "command": "x", ` + keys + `}}}`,
		"/p/opencode.json":        `{"mcp": {"a": {"type": "local", "command": ["x"], ` + keys + `}}}`,
		"/p/.superstep/mcp.json":  `{"servers": {"a": {"command": "x", ` + keys + `}}}`,
		"/p/.superstep/mcp.yaml":  "servers:\n  a:\n    command: x\n    network: [api.example.com, '*.example.org']\n    read: ~/x\n    write: [/data]\n",
		"/p/.superstep/more.yaml": "servers:\n  a:\n    command: x\n    sandbox: on\n    network: [api.example.com, '*.example.org']\n    read: [~/x]\n    write: /data\n",
	} {
		c, err := mcp.Parse([]byte(text), path)
		if err != nil || len(c.Warnings) > 0 {
			t.Errorf("%s: %v %q", path, err, c.Warnings)
			continue
		}
		if review := c.Servers[0].Review(); !strings.Contains(review, "\n  network: api.example.com, *.example.org\n  read: ~/x\n  write: /data\n") {
			t.Errorf("%s: %s", path, review)
		}
	}
	for text, want := range map[string]string{
		"network: [x y]":      `:4:15: server "a": network: "x y" is not a host`,
		"network: {a: b}":     `"network" must be a list of texts`,
		"read: [ok, ../out]":  `:4:16: server "a": read: "../out" is not a path in the project`,
		"write: '~'":          "~ is too much",
		"sandbox: off":        `:4:5: server "a": the sandbox can be turned off only in your own configuration of Superstep`,
		"sandbox: perhaps":    "sandbox is on or off",
		"network: any":        "",
		"read: ['${HOME}/x']": "variables are not replaced here",
	} {
		c, err := mcp.Parse([]byte("servers:\n  a:\n    command: x\n    "+text+"\n"), "/p/.superstep/mcp.yaml")
		if want == "" && text == "network: any" {
			if err != nil || !strings.Contains(c.Servers[0].Review(), "\n  network: any\n") {
				t.Errorf("%s: %v", text, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := mcp.Parse([]byte(`{"servers": {"a": {"url": "https://x.example", "network": "any"}}}`), "/p/.superstep/mcp.json"); err == nil || !strings.Contains(err.Error(), "runs in no sandbox") {
		t.Error(err)
	}

	home := t.TempDir()
	o := &mcp.Options{Environ: []string{"HOME=" + home}}
	for path, ok := range map[string]bool{".config/superstep/mcp.yaml": true, ".claude.json": false} {
		text := "servers:\n  a:\n    command: x\n    sandbox: off\n"
		if !ok {
			text = `{"mcpServers": {"b": {"command": "x", "sandbox": "off"}}}`
		}
		if err := os.MkdirAll(filepath.Join(home, filepath.Dir(path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found := mcp.Find(o)
	if len(found.Servers) != 1 || !found.Servers[0].Needs.Off || !strings.Contains(found.Servers[0].Review(), "sandbox: off") || len(found.Problems) != 1 || !strings.Contains(found.Problems[0].Error(), "only in your own configuration of Superstep") {
		t.Errorf("%+v", found)
	}
}

func TestDigestCoversNeeds(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, needs := range map[string]sandbox.Needs{
		"none": {}, "network": {Network: []string{"a.example.com"}}, "other": {Network: []string{"b.example.com"}}, "read": {Read: []string{"a"}}, "write": {Write: []string{"a"}}, "off": {Off: true},
	} {
		s := server(t, "good")
		s.Env, s.Needs = nil, needs
		digest, err := s.Digest(nil)
		if err != nil || seen[digest] != "" {
			t.Errorf("%s: as %s, %v", name, seen[digest], err)
		}
		seen[digest] = name
	}
}

// npx runs a package from the sandbox's own cache without the network, once it is there.
func TestConfinedNpx(t *testing.T) {
	t.Parallel()
	npm.Node(t)
	npm.Modules(t) // so that npm itself is known to work here
	confined(t, func(t *testing.T, o *mcp.Options, _ *warnings, _ string) {
		registry, fetched := newRegistry(t)
		for i := range 2 {
			s := &mcp.Server{Name: "fetched", Source: mcp.Source{Scope: "user", Path: "/p/mcp.yaml"}, Transport: mcp.Stdio, Command: "npx", Args: []string{"--yes", "tiny-server@1.0.0"}}
			s.Env = mcp.Values{"npm_config_registry": registry.URL + "/"}
			if i == 1 {
				registry.Close()
				s.Args = append([]string{"--offline"}, s.Args...)
			}
			o.InitTimeout = 2 * time.Minute
			tools := set(t, connect(t, s, o))
			if r := call(t, tools, "mcp__fetched__hello", "{}"); r.Text != "hello from npx" {
				t.Errorf("%d: %+v", i, r)
			}
		}
		if fetched() == 0 {
			t.Error("nothing was fetched")
		}
	})
}

// newRegistry is a registry of npm with one package, which is a server, and how often it was fetched.
func newRegistry(t *testing.T) (*httptest.Server, func() int64) {
	t.Helper()
	const index = `#!/usr/bin/env node
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
	const { id, method, params } = JSON.parse(line);
	const results = {
		initialize: { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "tiny", version: "1.0.0" } },
		"tools/list": { tools: [{ name: "hello", description: "says hello", inputSchema: { type: "object" } }] },
		"tools/call": { content: [{ type: "text", text: "hello from npx" }] },
	};
	if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result: results[method] ?? {} }));
});
`
	var tgz bytes.Buffer
	zip := gzip.NewWriter(&tgz)
	pack := tar.NewWriter(zip)
	for _, f := range [][2]string{{"package/package.json", `{"name":"tiny-server","version":"1.0.0","bin":{"tiny-server":"index.js"}}`}, {"package/index.js", index}} {
		if err := pack.WriteHeader(&tar.Header{Name: f[0], Mode: 0o755, Size: int64(len(f[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(pack, f[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(pack.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(tgz.Bytes())
	var fetched atomic.Int64
	var registry *httptest.Server
	registry = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/tiny-server":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"name":"tiny-server","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"tiny-server","version":"1.0.0","bin":{"tiny-server":"index.js"},"dist":{"tarball":"%s/tiny.tgz","integrity":"sha512-%s"}}}}`,
				registry.URL, base64.StdEncoding.EncodeToString(sum[:]))
		case "/tiny.tgz":
			fetched.Add(1)
			_, _ = w.Write(tgz.Bytes())
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(registry.Close)
	return registry, fetched.Load
}
