package mcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/superstep-dev/superstep/tool/mcp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	local := mcp.Server{Name: "fs", Transport: mcp.Stdio, Command: "npx", Args: []string{"-y", "server", "/tmp"}, Env: mcp.Values{"KEY": "${KEY}"}}
	api := mcp.Server{Name: "api", Transport: mcp.HTTP, URL: "https://x.example/mcp", Headers: mcp.Values{"Authorization": "Bearer ${TOKEN}"}}
	for _, c := range []struct {
		path, data string
		want       []mcp.Server
		warnings   []string
	}{
		{".mcp.json", `{"mcpServers":{
			"fs":{"command":"npx","args":["-y","server","/tmp"],"env":{"KEY":"${KEY}"}},
			"api":{"type":"http","url":"https://x.example/mcp","headers":{"Authorization":"Bearer ${TOKEN}"}}}}`, []mcp.Server{local, api}, nil},
		{".mcp.json", `{"mcpServers":{"a":{"type":"streamable-http","url":"https://x/y","alwaysAllow":["x"]},"b":{"type":"sse","url":"http://127.0.0.1:1/sse"}},"more":1}`,
			[]mcp.Server{{Name: "a", Transport: mcp.HTTP, URL: "https://x/y"}, {Name: "b", Transport: mcp.SSE, URL: "http://127.0.0.1:1/sse"}},
			[]string{`.mcp.json:1:138: "more" is not known here`, `"alwaysAllow" is not known here and is ignored`}},
		{".vscode/mcp.json", "{\n// mine\n\"inputs\":[{\"type\":\"promptString\",\"id\":\"key\"}],\n\"servers\":{\"a\":{\"type\":\"stdio\",\"command\":\"${workspaceFolder}/x\",\"env\":{\"K\":\"${input:key}\"},},},}",
			[]mcp.Server{{Name: "a", Transport: mcp.Stdio, Command: "${workspaceFolder}/x", Env: mcp.Values{"K": "${input:key}"}}}, []string{"${input:key} is not a variable", "nobody is asked for ${input:key}"}},
		{"opencode.json", `{"$schema":"x","theme":1,"mcp":{
			"fs":{"type":"local","command":["npx","-y","server","/tmp"],"environment":{"KEY":"{env:KEY}"},"enabled":true},
			"off":{"type":"remote","url":"https://x.example","enabled":false,"timeout":5000}}}`,
			[]mcp.Server{local, {Name: "off", Transport: mcp.HTTP, URL: "https://x.example", Disabled: true, InitTimeout: 5 * time.Second}}, nil},
		{".claude.json", `{"numStartups":3,"projects":{"x":{"a":1,"a":2}},"mcpServers":{"fs":{"command":"npx","args":["-y","server","/tmp"],"env":{"KEY":"${KEY}"}}}}`, []mcp.Server{local}, nil},
		{"mcp.yaml", "servers:\n  fs:\n    command: npx\n    args: [-y, server, /tmp]\n    env: {KEY: \"${KEY}\"}\n  api:\n    url: https://x.example/mcp\n    headers:\n      Authorization: Bearer ${TOKEN}\n", []mcp.Server{local, api}, nil},
		{"mcp.yaml", "servers:\n  a:\n    command: x\n    timeout: 5m\n    init_timeout: 1m\n    trust_annotations: true\n    args: [1, two]\n",
			[]mcp.Server{{Name: "a", Transport: mcp.Stdio, Command: "x", Args: []string{"1", "two"}, CallTimeout: 5 * time.Minute, InitTimeout: time.Minute}}, []string{`mcp.yaml:6:5: "trust_annotations" counts only`}},
		{".mcp.json", "{\"mcpServers\":\n\t{\"a\":\t{\"command\":\"x\",\"args\":[\"\\ud83d\\ude00\\/\",\"\\\\ud83d\\ude00\",\"\\ud83d.\"]}}}", []mcp.Server{{Name: "a", Transport: mcp.Stdio, Command: "x", Args: []string{"😀/", "\\ud83d\ufffd", "\ufffd."}}}, nil},
		{"mcp.yaml", "", nil, nil},
		{"mcp.json", `{}`, nil, nil},
		{"mcp.json", `{"servers":{"a":{"url":"http://x.example/mcp"},"b":{"comand":"x","command":"y"}}}`,
			[]mcp.Server{{Name: "a", Transport: mcp.HTTP, URL: "http://x.example/mcp"}, {Name: "b", Transport: mcp.Stdio, Command: "y"}}, []string{"in the clear", `did you mean "command"?`}},
	} {
		got, err := mcp.Parse([]byte(c.data), c.path)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		var servers []mcp.Server
		for _, s := range got.Servers {
			servers = append(servers, *s)
		}
		if diff := cmp.Diff(c.want, servers, cmpopts.IgnoreFields(mcp.Server{}, "Source"), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", c.path, diff)
		}
		all := strings.Join(got.Warnings, "\n")
		for _, w := range c.warnings {
			if !strings.Contains(all, w) {
				t.Errorf("%s: no warning %q in %q", c.path, w, all)
			}
		}
		if len(got.Warnings) != len(c.warnings) {
			t.Errorf("%s: warnings %q", c.path, got.Warnings)
		}
	}
}

func TestParseMistakes(t *testing.T) {
	t.Parallel()
	in := func(server string) string { return "{\"mcpServers\":{\n  \"a\":" + server + "}}" }
	for _, c := range []struct{ path, data, want string }{
		{".mcp.json", `{"mcpServers":{"a":{"command":"x"},"a":{"command":"evil"}}}`, `.mcp.json:1:36: "a" is there twice, first at 1:16`},
		{".mcp.json", in(`{"command":"x","command":"evil"}`), `2:22: "command" is there twice, first at 2:8`},
		{".mcp.json", in(`{"command":"x","comm\u0061nd":"evil"}`), `is there twice`},
		{".mcp.json", `{"mcpServers":{"github__x":{"command":"x"}}}`, `.mcp.json:1:16: server name "github__x": a project's has no __ in it`},
		{".mcp.json", `{"mcpServers":{"github_":{"command":"x"}}}`, `.mcp.json:1:16: server name "github_": a project's has no __ in it and no _ at its end`},
		{".mcp.json", in(`{"Command":"x"}`), `needs a command or a url`},
		{".mcp.json", "{", "1:2: the file ends where a value is expected"},
		{".mcp.json", `{"mcpServers":{}} x`, "1:19: more after the end"},
		{".mcp.json", `{"a":tru}`, `1:9: not JSON: invalid character`},
		{".mcp.json", `{"a":1,}`, "1:8: not JSON: invalid character '}' looking for beginning of object key string"},
		{".mcp.json", "// x\n{}", "1:1: comments are not allowed"},
		{".mcp.json", "\xff", "bad byte at offset 0"},
		{".mcp.json", "[]", `1:1: must be an object with the key "mcpServers", not array`},
		{".mcp.json", strings.Repeat("[", 100) + strings.Repeat("]", 100), "over 64 deep"},
		{".mcp.json", strings.Repeat(" ", 2<<20), "over 1 MiB"},
		{".mcp.json", in(`{"command":7}`), `2:18: "command" must be text, not number`},
		{".mcp.json", in(`{"command":"x","args":"y"}`), `"args" must be a list of texts, not string`},
		{".mcp.json", in(`{"command":"x","env":{"A-B":"y"}}`), `"env": "A-B" is not a name`},
		{".mcp.json", in(`{"url":"https://x","headers":{"Host":"y"}}`), `the header "Host" is not yours`},
		{".mcp.json", in(`{"url":"https://x","headers":{"A":"b\r\nC: d"}}`), `more than one line`},
		{".mcp.json", in(`{"url":"file:///etc/passwd"}`), `must begin with https:// or http://`},
		{".mcp.json", in(`{"url":"https://user:pw@x"}`), `use a header`},
		{".mcp.json", in(`{"command":"x","url":"https://x"}`), `both a command and a url`},
		{".mcp.json", in(`{"type":"stdio","url":"https://x"}`), `needs a command`},
		{".mcp.json", in(`{"type":"carrier-pigeon","command":"x"}`), `known are stdio, http and sse`},
		{".mcp.json", in(`{"command":"${HOME}/x"}`), `variables belong into args`},
		{".mcp.json", in(`{"command":"x\u0000y"}`), `NUL`},
		{".mcp.json", in(`"x"`), `must be an object, not string`},
		{".mcp.json", `{"mcpServers":{"a b":{"command":"x"}}}`, `server name "a b": use 1 to 64`},
		{".mcp.json", `{"mcpServers":{"` + strings.Repeat("a", 65) + `":{"command":"x"}}}`, `use 1 to 64`},
		{".mcp.json", in(`{"command":"x","timeout":"soon"}`), `must be a time such as 30s`},
		{"mcp.json", `{"servers":{"a":{"command":"x","timeout":5}}}`, `needs a unit, such as 30s`},
		{"mcp.json", `{"servers":{},"mcpServers":{}}`, `use one of them`},
		{"opencode.json", `{"mcp":{"a":{"command":["x"],"environment":{"A":"{file:~/.ssh/id_rsa}"}}}}`, `not supported`},
		{"opencode.json", `{"mcp":{"a":{"command":[]}}}`, `command is empty`},
		{"mcp.yaml", "servers:\n  a: {command: x}\n  a: {command: y}\n", "3:3:"},
		{"mcp.yaml", "servers:\n  a: &x {command: x}\n  b: *x\n", "aliases are not allowed"},
		{"mcp.yaml", "servers:\n  a: !!binary x\n", "tags are not allowed"},
		{"mcp.yaml", "servers: {}\n---\nservers: {}\n", "mcp.yaml:2:1: a second YAML document starts here"},
		{"mcp.yaml", "servers:\n\ta: b\n", "mcp.yaml:"},
		{"mcp.yaml", strings.Repeat("[", 100_000), "over 64 deep"},
		{".vscode/mcp.json", "{ /* ünï, \"x\": */ \"servers\": {\"a\": // \"\n\"u//r,}l\", },}", `.vscode/mcp.json:2:1: server "a" must be an object, not string`},
		{".vscode/mcp.json", "{ /* no end", `comments are not allowed in this file, or this one has no end`},
		{".vscode/mcp.json", `{"servers": {"a": {"command": 1,},},}`, `.vscode/mcp.json:1:31: "command" must be text`},
		{".claude.json", `{"mcpServers":{},"mcpServers":{}}`, `repeated`},
		{".claude.json", "{\"x\":1,\n\"mcpServers\": {\"a\":{\"command\":1}}}", `.claude.json:2:31: "command" must be text`},
	} {
		got, err := mcp.Parse([]byte(c.data), c.path)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), c.path) {
			t.Errorf("%s %.60q: %v, want %q", c.path, c.data, err, c.want)
		}
		if len(got.Servers) > 0 {
			t.Errorf("%s %.60q: servers %+v", c.path, c.data, got.Servers)
		}
	}
	// One mistake does not take the others along, and all are told.
	got, err := mcp.Parse([]byte(`{"mcpServers":{"good":{"command":"x"},"bad":{"command":1},"worse":{"type":2}}}`), ".mcp.json")
	if err == nil || strings.Count(err.Error(), "\n") < 1 || len(got.Servers) != 1 || got.Servers[0].Name != "good" {
		t.Errorf("%v, %+v", err, got.Servers)
	}
	var at *mcp.ConfigError
	if !errors.As(err, &at) || at.Line != 1 || at.File != ".mcp.json" {
		t.Errorf("%+v", at)
	}
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	project, home := t.TempDir(), t.TempDir()
	canary := filepath.Join(project, "canary")
	entry := func(name string) string {
		return fmt.Sprintf(`{"mcpServers":{%q:{"command":"touch","args":[%q]},"shared":{"command":%q}}}`, name, canary, name)
	}
	write(t, filepath.Join(project, ".mcp.json"), entry("claude"))
	write(t, filepath.Join(project, ".superstep", "mcp.yaml"), "servers:\n  own: {command: x}\n  shared: {command: own}\n")
	write(t, filepath.Join(project, ".vscode", "mcp.json"), `{"servers":{"code":{"command":"x"}}}`)
	write(t, filepath.Join(project, "opencode.json"), `{"mcp":{"open":{"command":["x"]}}}`)
	write(t, filepath.Join(home, ".config", "superstep", "mcp.yaml"), "servers:\n  user: {command: x, trust_annotations: true}\n  shared: {command: user}\n")
	write(t, filepath.Join(home, ".claude.json"), entry("home"))
	o := &mcp.Options{Project: project, Environ: []string{"HOME=" + home}}
	found := mcp.Find(o)
	if len(found.Problems)+len(found.Warnings) > 0 {
		t.Fatalf("%v %v", found.Problems, found.Warnings)
	}
	var names []string
	for _, s := range found.Servers {
		names = append(names, s.Source.Scope+"/"+s.Name)
		if s.Name == "user" && !s.TrustAnnotations {
			t.Error("the user's trust does not count")
		}
		if s.Name != "shared" {
			continue
		}
		if s.Command != "own" || len(s.Overrides) != 3 || s.Overrides[1].Scope != "user" {
			t.Errorf("shared is %+v", s)
		}
		if !strings.Contains(s.Review(), "instead of that of user ("+filepath.Join(home, ".config", "superstep", "mcp.yaml")+":3)") {
			t.Errorf("review\n%s", s.Review())
		}
	}
	if got := strings.Join(names, " "); got != "project/claude project/code user/home project/open project/own project/shared user/user" {
		t.Error(got)
	}
	if _, err := os.Stat(canary); err == nil {
		t.Error("something was started")
	}
	write(t, filepath.Join(project, ".mcp.json"), "{")
	if err := os.Mkdir(filepath.Join(project, ".superstep", "mcp.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if found := mcp.Find(o); len(found.Problems) != 2 || len(found.Servers) != 6 {
		t.Errorf("%v, %d servers", found.Problems, len(found.Servers))
	}
	if found := mcp.Find(nil); len(found.Servers)+len(found.Problems) > 0 {
		t.Errorf("from nowhere: %+v", found)
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	o := &mcp.Options{Project: project, Environ: []string{"KEY=value", "WHERE=lib"}}
	for _, f := range []string{"server.js", "lib/hook.js", "opts.json", "else.js"} {
		write(t, filepath.Join(project, f), "one")
	}
	base := func() *mcp.Server {
		return &mcp.Server{
			Name: "a", Transport: mcp.Stdio, Command: "node", Args: []string{"./server.js", "--config=opts.json", "--key", "${KEY}"},
			Env: mcp.Values{"NODE_OPTIONS": "--require ./lib/hook.js"}, Source: mcp.Source{Scope: "project"},
		}
	}
	digest := func(s *mcp.Server) string {
		d, err := s.Digest(o)
		if err != nil || !strings.HasPrefix(d, "sha256:") || len(d) != 71 {
			t.Fatalf("%q, %v", d, err)
		}
		return d
	}
	first := digest(base())
	o.Environ[0] = "KEY=another value"
	s := base()
	s.Source.Line = 99
	if digest(s) != first {
		t.Error("depends on the value of a variable, or the place")
	}
	for name, change := range map[string]func(s *mcp.Server){
		"command": func(s *mcp.Server) { s.Command = "deno" },
		"arg":     func(s *mcp.Server) { s.Args[3] = "${SECRET}" },
		"dir":     func(s *mcp.Server) { s.Dir = "lib" },
		"env":     func(s *mcp.Server) { s.Env["NODE_OPTIONS"] = "" },
		"new env": func(s *mcp.Server) { s.Env["X"] = "" },
		"url":     func(s *mcp.Server) { s.Transport, s.URL = mcp.HTTP, "https://x" },
		"header":  func(s *mcp.Server) { s.Headers = mcp.Values{"A": "b"} },
		"script":  func(*mcp.Server) { write(t, filepath.Join(project, "server.js"), "two") },
		"config":  func(*mcp.Server) { write(t, filepath.Join(project, "opts.json"), "two") },
		"hook":    func(*mcp.Server) { write(t, filepath.Join(project, "lib", "hook.js"), "two") },
		"gone":    func(*mcp.Server) { _ = os.Remove(filepath.Join(project, "server.js")) },
		"shadow":  func(*mcp.Server) { write(t, filepath.Join(project, "node"), "two") },
		"link": func(*mcp.Server) {
			_ = os.Remove(filepath.Join(project, "server.js"))
			if err := os.Symlink("else.js", filepath.Join(project, "server.js")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		before := digest(base())
		s := base()
		change(s)
		if digest(s) == before {
			t.Errorf("%s does not count", name)
		}
		_ = os.Remove(filepath.Join(project, "node"))
		_ = os.Remove(filepath.Join(project, "server.js"))
		for _, f := range []string{"server.js", "lib/hook.js", "opts.json"} {
			write(t, filepath.Join(project, f), "one")
		}
	}
	outside := filepath.Join(t.TempDir(), "outside.js")
	write(t, outside, "one")
	if err := os.Symlink(outside, filepath.Join(project, "linked")); err != nil {
		t.Fatal(err)
	}
	s = base()
	s.Args = []string{"./linked"}
	linked := digest(s)
	write(t, outside, "two")
	if digest(s) == linked {
		t.Error("what a link leads to outside of the project does not count")
	}
	write(t, filepath.Join(project, "else.js"), "two")
	if digest(base()) == first {
		t.Error("code beside what is named does not count")
	}
	s = base()
	s.Args = []string{"${WHERE}/hook.js"}
	before := digest(s)
	write(t, filepath.Join(project, "lib", "hook.js"), "three")
	s.Env = nil
	s2 := base()
	s2.Args, s2.Env = []string{"${WHERE}/hook.js"}, nil
	write(t, filepath.Join(project, "lib", "hook.js"), "four")
	if before == digest(s2) {
		t.Error("a file behind a variable does not count")
	}
}

func TestNothingShowsSecrets(t *testing.T) {
	t.Parallel()
	s := mcp.Server{
		Name: "a", Transport: mcp.Stdio, Command: "x y", Args: []string{"--key=${KEY:-none}", "a\x1b[2Jb", "\u202eevil"}, Env: mcp.Values{"TOKEN": "canary", "OTHER": "${env:OTHER}"},
		Headers: mcp.Values{"Authorization": "canary ${THIRD}"}, Source: mcp.Source{Scope: "user", Path: "p", Line: 3},
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "env", s.Env, "server", s)
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%+v", &s), fmt.Sprintf("%#v", s), fmt.Sprintf("%q", s.Env), fmt.Sprintf("%x", s.Env), string(b), s.Review(), log.String()} {
		if strings.Contains(text, "canary") || strings.Contains(text, "63616e617279") || strings.ContainsRune(s.Review(), 0x1b) {
			t.Errorf("%s", text)
		}
	}
	want := `"x y" --key=${KEY:-none} "a\x1b[2Jb" "\u202eevil"`
	if s.CommandLine() != want {
		t.Errorf("%s, want %s", s.CommandLine(), want)
	}
	if got := strings.Join(s.Variables(), " "); got != "KEY OTHER THIRD" {
		t.Error(got)
	}
	s.Source.Scope = "project" // whose values are in the project, for all to see
	for _, want := range []string{"env TOKEN=… (a literal value)", "env OTHER=${env:OTHER}", "header Authorization: … (a literal value)", "reads the variables KEY, OTHER, THIRD", "from project (p:3)"} {
		if !strings.Contains(s.Review(), want) {
			t.Errorf("no %q in %s", want, s.Review())
		}
	}
}

func FuzzParse(f *testing.F) {
	paths := []string{".mcp.json", ".vscode/mcp.json", "opencode.json", ".claude.json", "mcp.yaml", "mcp.json"}
	for i, s := range []string{
		`{"mcpServers":{"a":{"command":"x","args":["${A:-b}"],"env":{"K":"v"}}}}`, `{"servers":{"a":{"url":"http://x/${Y}","headers":{"A":"b"}}}} // x`,
		`{"mcp":{"a":{"type":"local","command":["x"],"enabled":false}}}`, `{"x":[{}],"mcpServers":{"a":{"type":"sse","url":"https://x"}}}`, "servers:\n  a:\n    command: x\n    args:\n      - y\n", `{"servers":{"a":{"timeout":"5s","command":"x"}}}`,
	} {
		f.Add(i, []byte(s))
	}
	f.Fuzz(func(t *testing.T, i int, data []byte) {
		c, err := mcp.Parse(data, paths[uint(i)%uint(len(paths))])
		if err != nil && strings.ContainsRune(err.Error(), 0x1b) {
			t.Errorf("%q", err)
		}
		for _, s := range c.Servers {
			if s.Name == "" || (s.Command == "") == (s.URL == "") || s.TrustAnnotations {
				t.Errorf("%+v", s)
			}
			if text := s.CommandLine(); strings.ContainsAny(text, "\x1b\n\u202e") {
				t.Errorf("%q", text)
			}
			if _, err := s.Digest(nil); err != nil {
				t.Error(err)
			}
			_, _ = s.Variables(), s.Review()
		}
	})
}
