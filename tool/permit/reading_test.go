package permit_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
)

var _ tool.Reader = (*permit.Policy)(nil)

func readers() []string { return []string{"read_file", "grep", "search_docs", "ls", "glob"} }

// TestReads: what read_file may not do unasked with a file, no other tool may reveal unasked.
func TestReads(t *testing.T) {
	p := policy(t, "deny read_file(private/**)", "ask read_file(**/*.txt)", "allow read_file(open/**)", "deny grep(logs/**)", "allow grep(**)", "allow search_docs", "allow ls", "allow glob(**)")
	for file, want := range map[string]tool.Decision{
		"a.go": "allow", "open/.env": "allow", "private/x/y": "deny", "PRIVATE/x": "deny", "a.txt": "ask", "x/y/A.TXT": "ask", ".env": "ask", "x/.ENV": "ask", "x/.env.local": "ask", "x/.env.example": "allow",
		"id_rsa ": "ask", "x/.env.": "ask", "x/.en\u200bv": "ask", ".git~1": "allow", "../x": "deny", "/etc/passwd": "deny",
	} {
		for _, name := range readers() {
			if v := p.Reads(name, "", nil)(file); v.Decision != want {
				t.Errorf("%s %q: %+v, want %s", name, file, v, want)
			}
		}
	}
	for _, name := range readers() {
		if v := p.Reads(name, "", nil)(".env"); v.Rule != "read_file(**/.env*)" || v.Origin != "built-in" {
			t.Errorf("%s: %+v", name, v)
		}
		if v := p.Reads(name, "", nil)("logs/a"); (v.Decision == tool.Deny) != (name == "grep") {
			t.Errorf("%s: a rule of its own: %+v", name, v)
		}
	}
}

// TestReadsFrom: what was asked about the path in a call is not asked again for the files below it, and nothing else is lifted.
func TestReadsFrom(t *testing.T) {
	p := policy(t, "ask read_file(private/**)", "deny read_file(private/never/**)", "ask read_file(**/*.txt)")
	for _, tc := range []struct {
		from, file string
		answers    []string
		want       tool.Decision
	}{
		{"", "private/a", nil, "ask"}, {".", "private/a", nil, "ask"}, {"private", "private/a", nil, "allow"}, {"./private/", "private/sub/a", nil, "allow"}, {"private/sub", "private/sub/a", nil, "allow"},
		{"private", "private/never/a", nil, "deny"}, {"private", "private/a.txt", nil, "ask"}, {"private", "private/.env", nil, "ask"}, {".env", ".env", nil, "allow"}, {".ssh", ".ssh/config", nil, "allow"}, {".ssh", ".ssh/id_rsa", nil, "ask"},
		{"", "private/a", []string{"read_file(private/**)"}, "allow"}, {"", "private/a", []string{"bash", "nonsense(", "read_file(other/**)"}, "ask"}, {"", "private/never/a", []string{"read_file(private/**)"}, "deny"},
	} {
		for _, name := range []string{"grep", "ls"} {
			if v := p.Reads(name, tc.from, tc.answers)(tc.file); v.Decision != tc.want {
				t.Errorf("%s from %q, %s, answers %q: %+v, want %s", name, tc.from, tc.file, tc.answers, v, tc.want)
			}
		}
	}
	if v := p.Reads("grep", "", []string{"grep(private/**)"})("private/a"); v.Decision != tool.Allow {
		t.Errorf("the answer to a search: %+v", v)
	}
	if v := p.Reads("ls", "", []string{"grep(private/**)"})("private/a"); v.Decision != tool.Ask {
		t.Errorf("the answer to another tool: %+v", v)
	}
}

// TestReadsWhole: rules on read_file without a pattern bind the tools that show text and not those that list names.
func TestReadsWhole(t *testing.T) {
	for _, d := range []tool.Decision{tool.Ask, tool.Deny} {
		p := policy(t, string(d)+" read_file")
		for _, name := range readers() {
			want := d
			if name == "ls" || name == "glob" {
				want = tool.Allow
			}
			if v := file(p, name, "docs"); v.Decision != want && name != "search_docs" {
				t.Errorf("%s %s: %+v", d, name, v)
			}
			if v := p.Reads(name, "", nil)("docs/a"); v.Decision != want {
				t.Errorf("%s %s: a file: %+v", d, name, v)
			}
		}
		if v := p.Check(call("search_docs", map[string]any{"query": "x"})); v.Decision != d {
			t.Errorf("search_docs: %+v", v)
		}
		if v := p.Reads("search_docs", ".", nil)("a"); (v.Decision == tool.Allow) != (d == tool.Ask) {
			t.Errorf("search_docs after it was asked about: %+v", v)
		}
		if v := p.Secret("a"); v.Decision != tool.Allow {
			t.Errorf("Secret: %+v", v)
		}
	}
}

func TestLargeIndex(t *testing.T) {
	for _, tc := range []struct {
		rules []string
		large string
		want  tool.Decision
	}{
		{nil, "", "allow"}, {nil, "false", "allow"}, {nil, "true", "ask"}, {nil, "null", "ask"}, {[]string{"allow search_docs"}, "true", "allow"}, {[]string{"allow search_docs(large)"}, "true", "allow"}, {[]string{"deny search_docs(large)"}, "true", "deny"},
		{[]string{"allow search_docs(large)"}, "", "ask"}, {[]string{"deny search_docs(large)"}, "", "allow"},
	} {
		args := `{"query":"x"}`
		if tc.large != "" {
			args = fmt.Sprintf(`{"query":"x","large":%s}`, tc.large)
		}
		v := policy(t, tc.rules...).Check(&tool.Tool{Name: "search_docs"}, &tool.Call{Args: []byte(args)})
		if tc.want == tool.Ask && len(tc.rules) > 0 { // a rule on large says nothing of other searches, and hides no default
			tc.want = tool.Allow
		}
		if v.Decision != tc.want || v.Decision == tool.Ask && v.Always != "search_docs(large)" {
			t.Errorf("%q %s: %+v, want %s", tc.rules, tc.large, v, tc.want)
		}
	}
	if _, err := permit.Parse(tool.Allow, "search_docs(**)", ""); err == nil || !strings.Contains(err.Error(), "no pattern but large") {
		t.Error(err)
	}
}

func TestLinked(t *testing.T) {
	o := &permit.Options{Root: root, Linked: func(path string) bool { return strings.HasPrefix(path, root+"/twin") }}
	with := func(lines ...string) *permit.Policy {
		o.Rules = map[permit.Layer][]permit.Rule{permit.User: rules(t, lines...)}
		p, err := permit.New(o)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := with()
	for name, want := range map[string]tool.Decision{"read_file": "ask", "grep": "ask", "ls": "allow", "glob": "allow"} {
		v := file(p, name, "twin.go")
		if v.Decision != want || want == tool.Ask && !strings.Contains(v.Reason, "hard link") {
			t.Errorf("%s: %+v", name, v)
		}
		if v.Always != "" && !p.Grants(v.Always, &tool.Tool{Name: name}, &tool.Call{Args: []byte(`{"path":"twin.go"}`)}) {
			t.Errorf("%s: its answer %s does not allow it", name, v.Always)
		}
		if v := p.Reads(name, "", nil)("twin.go"); v.Decision != want {
			t.Errorf("%s: %+v", name, v)
		}
		if v := file(p, name, "single.go"); v.Decision != tool.Allow {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v := p.Reads("search_docs", "", nil)("twin.go"); v.Decision != tool.Ask {
		t.Errorf("%+v", v)
	}
	if v := file(with("allow read_file(**/*.go)"), "read_file", "twin.go"); v.Decision != tool.Allow {
		t.Errorf("a rule of the user's: %+v", v)
	}
	if v := file(with("deny read_file(twin.go)"), "grep", "twin.go"); v.Decision != tool.Deny {
		t.Errorf("%+v", v)
	}
}

// TestIn: the documents that a user names may be read wherever they are, and their secrets may not.
func TestIn(t *testing.T) {
	p := policy(t, "deny read_file(docs/private/**)", "deny read_file(drafts/**)", "deny read_file(/srv/hidden/**)")
	for _, tc := range []struct {
		dir, file string
		want      tool.Decision
	}{
		{"/srv/books", "a.md", "allow"}, {"/srv/books", ".env", "ask"}, {"/srv/books", "drafts/a", "deny"}, {"/srv", "hidden/a", "deny"},
		{root + "/docs", "a.md", "allow"}, {root + "/docs", "private/a", "deny"}, {root + "/docs", "drafts/a", "deny"}, {root + "/docs", "x/.env", "ask"}, {root, "private/a", "allow"}, {root, "docs/private/a", "deny"},
	} {
		q := p.In(tc.dir)
		if v := q.Reads("grep", "", nil)(tc.file); v.Decision != tc.want {
			t.Errorf("%s in %s: %+v, want %s", tc.file, tc.dir, v, tc.want)
		}
		if v := file(q, "read_file", tc.file); v.Decision != tc.want {
			t.Errorf("read_file %s in %s: %+v, want %s", tc.file, tc.dir, v, tc.want)
		}
	}
	if v := p.Reads("grep", "", nil)("docs/a"); v.Decision != tool.Allow {
		t.Errorf("In changed the policy: %+v", v)
	}
}

func BenchmarkReads(b *testing.B) {
	p := policy(b, "deny read_file(private/**)", "ask read_file(**/*.txt)")
	for _, name := range []string{"grep", "ls"} {
		reads := p.Reads(name, ".", nil)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				reads("internal/some/package/with/file_name.go")
			}
		})
	}
	b.Run("Secret", func(b *testing.B) {
		for b.Loop() {
			p.Secret("internal/some/package/with/file_name.go")
		}
	})
}

func TestKeyFiles(t *testing.T) {
	p := policy(t)
	for path, want := range map[string]tool.Decision{
		".env": "ask", "a/.env": "ask", ".env.local": "ask", "a/.ENV.production": "ask", ".env.example": "allow", "a/.env.sample": "allow", ".env.template": "allow", ".envrc": "ask", "prod.env": "ask", ".env.local.example": "allow", ".docker/config.json": "ask", "a/credentials": "ask", "credentials.yml": "ask", "credentials.go": "allow", "x/.aws/credentials": "ask", ".ssh/config": "ask", ".gnupg/x": "ask", ".netrc": "ask", ".npmrc": "ask", ".pypirc": "ask",
		"a.pem": "ask", "b/c.key": "ask", "id_rsa": "ask", "id_rsa.pub": "ask", "x/id_ed25519": "ask", "credentials.json": "ask", ".config/gcloud/x": "ask", ".kube/config": "ask", "keys.go": "allow", "a.go": "allow",
	} {
		for _, name := range []string{"read_file", "grep"} {
			if v := file(p, name, path); v.Decision != want {
				t.Errorf("%s %s: %+v", name, path, v)
			}
		}
	}
	for _, path := range []string{"", ".", "docs"} {
		if v := file(p, "grep", path); v.Decision != tool.Allow {
			t.Errorf("grep %q: %+v", path, v)
		}
	}
	if v := file(policy(t, "allow read_file(**/.env)"), "read_file", "a/.env"); v.Decision != tool.Allow {
		t.Errorf("%+v", v)
	}
	v := file(p, "read_file", "certs/a.pem")
	if v.Decision != tool.Ask || v.Always == "" || !p.Grants(v.Always, &tool.Tool{Name: "read_file"}, &tool.Call{Args: json.RawMessage(`{"path":"certs/a.pem"}`)}) {
		t.Errorf("%+v", v)
	}
}
