package script_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/npm"
	"github.com/superstep-dev/superstep/internal/script"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// confined runs a test with each mechanism that this system has, in a project whose tools run in a sandbox and a home folder
// with a secret.
func confined(t *testing.T, test func(t *testing.T, p *project, home string, mode sandbox.Mode)) {
	t.Helper()
	npm.Node(t)
	for _, mode := range []sandbox.Mode{sandbox.Namespaces, sandbox.Landlock} {
		t.Run(string(mode), func(t *testing.T) {
			p := newProject(t, "node")
			home := t.TempDir()
			for name, text := range map[string]string{home + "/x/notes": "zebra", home + "/.ssh/id": "zebra", p.root + "/.env": "TOKEN=zebra", p.root + "/data": "open"} {
				if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, err := sandbox.New(&sandbox.Options{
				Root: p.root, Home: home, Environ: os.Environ(), Mode: mode, Temp: t.TempDir(),
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
			p.opts.Sandbox = s
			p.opts.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CANARY=zebra", "WANTED=yes"}
			test(t, p, home, mode)
		})
	}
}

// get is a program that gets an address by way of the proxy that the environment names.
const get = `
import { request } from "node:http";
export const get = (url) => new Promise((done, fail) => {
	const proxy = new URL(process.env.HTTP_PROXY ?? "http://127.0.0.1:9");
	const auth = "Basic " + btoa(decodeURIComponent(proxy.username) + ":" + decodeURIComponent(proxy.password));
	request({ host: proxy.hostname, port: proxy.port, path: url, headers: { host: new URL(url).host, "proxy-authorization": auth } }, (r) => {
		let text = "";
		r.on("data", (b) => (text += b));
		r.on("end", () => (r.statusCode === 200 ? done(text) : fail(new Error("status " + r.statusCode))));
	}).on("error", fail).end();
});
`

// A module does by its tool "do" what its argument says, in a process, and declares something.
func module(declared string) string {
	return `import { tool } from "@superstep/plugin";
import { readFileSync, writeFileSync } from "node:fs";
import { get } from "./_get.mjs";
export default tool({
	description: "does something",
	` + declared + `
	args: { what: tool.schema.string(), arg: tool.schema.string() },
	async execute({ what, arg }) {
		switch (what) {
			case "read": return readFileSync(arg, "utf8");
			case "write": writeFileSync(arg, "written"); return "done";
			case "env": return JSON.stringify(process.env);
			case "get": return await get(arg);
			default: throw new Error("the argument is wrong");
		}
	},
});
`
}

func do(t *testing.T, p *project, set *tool.Set, what, arg string) tool.Result {
	t.Helper()
	return p.call(t.Context(), set, "do", fmt.Sprintf(`{"what":%q,"arg":%q}`, what, arg))
}

func TestConfinedModule(t *testing.T) {
	t.Parallel()
	confined(t, func(t *testing.T, p *project, home string, mode sandbox.Mode) {
		outside := t.TempDir()
		p.write("_get.mjs", get)
		file := p.write("do.ts", module(""))
		set := p.load()
		for what, arg := range map[string]string{"read": home + "/x/notes", "write": outside + "/f"} {
			r := do(t, p, set, what, arg)
			if want := "it runs in a sandbox, and may do more if " + file + ` says so: network: ["HOST"], read: ["FOLDER"], write: ["FOLDER"]`; !r.Error || !strings.Contains(r.Text, want) {
				t.Errorf("%s: %+v, want %q", what, r, want)
			}
		}
		for _, arg := range []string{home + "/.ssh/id", p.root + "/.env", "/proc/1/environ"} {
			if r := do(t, p, set, "read", arg); !r.Error || strings.Contains(r.Text, "zebra") {
				t.Errorf("read %s: %+v", arg, r)
			}
		}
		if r := do(t, p, set, "read", p.root+"/data"); r.Text != "open" {
			t.Errorf("%+v", r)
		}
		if r := do(t, p, set, "env", ""); r.Error || strings.Contains(r.Text, "zebra") || strings.Contains(r.Text, "WANTED") {
			t.Errorf("%+v", r)
		}
		if r := do(t, p, set, "nothing", ""); !r.Error || strings.Contains(r.Text, "sandbox") {
			t.Errorf("a mistake of the caller: %+v", r)
		}

		p.write("do.ts", module(fmt.Sprintf(`env: ["WANTED"], read: ["~/x"], write: [%q],`, outside)))
		set = p.load()
		if r := do(t, p, set, "read", home+"/x/notes"); r.Text != "zebra" {
			t.Errorf("declared: %+v", r)
		}
		if r := do(t, p, set, "write", outside+"/f"); r.Error {
			t.Errorf("declared: %+v", r)
		}
		if r := do(t, p, set, "env", ""); !strings.Contains(r.Text, `"WANTED":"yes"`) {
			t.Errorf("declared: %+v", r)
		}
		if r := do(t, p, set, "read", home+"/.ssh/id"); !r.Error {
			t.Errorf("not declared: %+v", r)
		}
	})
}

func TestConfinedNetwork(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(web.Close)
	u, err := url.Parse(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	confined(t, func(t *testing.T, p *project, _ string, mode sandbox.Mode) {
		p.write("_get.mjs", get)
		file := p.write("do.ts", module(`network: ["api.example.com"],`))
		r := do(t, p, p.load(), "get", web.URL)
		if want := fmt.Sprintf(`it was refused %s; add network: ["api.example.com", "127.0.0.1"] in %s`, u.Host, file); !r.Error || !strings.Contains(r.Text, want) {
			t.Errorf("%+v, want %q", r, want)
		}
		p.write("do.ts", module(`network: ["127.0.0.1"],`))
		if r := do(t, p, p.load(), "get", web.URL); r.Text != "hello" {
			t.Errorf("declared: %+v", r)
		}

		p.write("_run.mjs", get+"get(process.argv[2]).then(console.log);\n")
		file = p.write("fetch.tool.yaml", "description: d\ncommand: [node, _run.mjs, "+web.URL+"]\nnetwork: api.example.com\n")
		r = p.call(t.Context(), p.load(), "fetch", "{}")
		if want := fmt.Sprintf(`it was refused %s; add network: [api.example.com, 127.0.0.1] in %s`, u.Host, file); !r.Error || !strings.Contains(r.Text, want) {
			t.Errorf("%+v, want %q", r, want)
		}
		p.write("fetch.tool.yaml", "description: d\ncommand: [node, _run.mjs, "+web.URL+"]\nnetwork: [api.example.com, 127.0.0.1]\n")
		if r := p.call(t.Context(), p.load(), "fetch", "{}"); r.Text != "hello\n" {
			t.Errorf("declared: %+v", r)
		}
		if mode == sandbox.Namespaces { // where a proxy listens although no host is allowed
			p.write("fetch.tool.yaml", "description: d\ncommand: [node, _run.mjs, 'http://api.example.com/']\n")
			r := p.call(t.Context(), p.load(), "fetch", "{}")
			if want := "it was refused api.example.com:80; add network: [api.example.com] in " + file; !r.Error || !strings.Contains(r.Text, want) {
				t.Errorf("%+v, want %q", r, want)
			}
		}
	})
}

func TestConfinedCommand(t *testing.T) {
	t.Parallel()
	confined(t, func(t *testing.T, p *project, home string, mode sandbox.Mode) {
		outside := t.TempDir()
		p.write("run.sh", "#!/bin/sh\ncat "+home+"/x/notes && echo new > "+outside+"/f\n")
		file := p.write("t.tool.yaml", "description: d\ncommand: [./run.sh]\n")
		r := p.call(t.Context(), p.load(), "t", "{}")
		if want := "it runs in a sandbox, and may do more if " + file + " says so: network: [HOST], read: [FOLDER], write: [FOLDER]"; !r.Error || !strings.Contains(r.Text, want) {
			t.Errorf("%+v, want %q", r, want)
		}
		p.write("t.tool.yaml", "description: d\ncommand: [./run.sh]\nread: [~/x]\nwrite:\n  - "+outside+"\n")
		if r := p.call(t.Context(), p.load(), "t", "{}"); r.Text != "zebra" {
			t.Errorf("declared: %+v", r)
		}
		if b, err := os.ReadFile(outside + "/f"); err != nil || string(b) != "new\n" {
			t.Errorf("%q %v", b, err)
		}
		p.write("t.tool.yaml", "description: d\ncommand: [./run.sh]\nwrite: [~/gone]\n")
		if r := p.call(t.Context(), p.load(), "t", "{}"); !r.Error || !strings.Contains(r.Text, "what "+file+" declares cannot be granted: write: ~/gone: no such file or directory; make the folder first") {
			t.Errorf("%+v", r)
		}
	})
}

func TestDeclarations(t *testing.T) {
	t.Parallel()
	npm.Node(t)
	p := newProject(t, "node")
	p.write("_get.mjs", get)
	p.write("do.ts", module(`network: [
		'a.example.com', // the one
		"b.example.com",
	], read: ["~/x"], write: ["~/y"], env: ["WANTED"],`))
	found, problems := p.discover()
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if got := fmt.Sprint(found[0].Env, found[0].Needs.Lines()); got != "[WANTED] [network: a.example.com, b.example.com read: ~/x write: ~/y]" {
		t.Error(got)
	}
	if _, err := script.Load(t.Context(), found[0], &p.opts); err != nil {
		t.Error(err)
	}
	for _, computed := range []string{`network: ["evil", "example.com"].slice(0, 1).map((s) => s + ".net"),`, `read: ["~/" + "y".repeat(2)],`, `env: ["A", "B"].map((s) => s + "C"),`, `network: process.env.HOME ? "a" + "ny" : "",`} {
		p.write("do.ts", module(computed))
		if found, problems = p.discover(); len(problems) > 0 {
			t.Fatal(problems)
		}
		if _, err := script.Load(t.Context(), found[0], &p.opts); err == nil || !strings.Contains(err.Error(), "not written down where it can be seen") {
			t.Errorf("%s: %v", computed, err)
		}
	}
	for declared, want := range map[string]string{
		"network: [ok.example.com, 'http://x']": `t.tool.yaml:3:27: network: "http://x" is not a host`,
		"read: [/]":                             "t.tool.yaml:3:8: read: / is too much",
		"read: ../x":                            `t.tool.yaml:3:7: read: "../x" is not a path in the project`,
		"write: [a, '${HOME}/x']":               "variables are not replaced here",
		"write: {a: b}":                         "t.tool.yaml:3:8: write is a list of texts",
	} {
		p.write("run.sh", "#!/bin/sh\n")
		p.write("t.tool.yaml", "description: d\ncommand: [./run.sh]\n"+declared+"\n")
		if _, problems := p.discover(); len(problems) != 1 || !strings.Contains(problems[0].Error(), want) {
			t.Errorf("%s: %v, want %s", declared, problems, want)
		}
	}
}
