package host

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/tool"
)

// secretTree has the word zebra in every file, each with a word that tells which.
func secretTree(t *testing.T) *place {
	p := newPlace(t, nil)
	for _, name := range []string{"open.md", ".env", "sub/deep/.ENV.local", "private/a.md", "private/b/c.md", "asked/d.md", "tls/server.pem", "credentials.json"} {
		p.write(t, name, "zebra "+told(name)+"\n")
	}
	if err := os.Symlink("../private/a.md", filepath.Join(p.dir, "sub", "link.md")); err != nil {
		t.Skip(err)
	}
	return p
}

// told is the word in a file of secretTree.
func told(name string) string {
	return strings.NewReplacer("/", "", ".", "").Replace(strings.ToLower(name)) + "x"
}

func start(t *testing.T, p *place, rules ...string) *Session {
	t.Helper()
	p.opt.Rules = strings.Join(rules, "\n")
	s, err := p.open(t).start(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// gated calls a tool as an agent does: the gate decides, a person allows what it asks about, and the files that the tool
// comes upon are decided on by the gate, too.
func gated(t *testing.T, s *Session, name, args string) (tool.Verdict, string) {
	t.Helper()
	c := &tool.Call{Args: json.RawMessage(args)}
	tl, ok := s.Tools().Get(name)
	if !ok {
		t.Fatalf("no tool %s", name)
	}
	v := s.Tools().Guard().Gate.Check(tl, c)
	if v.Decision == tool.Deny {
		return v, ""
	}
	reader, ok := s.Tools().Guard().Gate.(tool.Reader)
	if !ok {
		t.Fatal("the gate decides on no files")
	}
	c.Permitted = true
	c.Reads = func(name, from string) func(string) tool.Verdict { return reader.Reads(name, from, nil) }
	return v, s.Tools().Call(t.Context(), name, c).Text
}

// TestOneReadingPolicy: a file that read_file may not read unasked is not revealed by any other tool.
func TestOneReadingPolicy(t *testing.T) {
	searches := map[string]string{
		"grep": `{"pattern":"zebra"}`, "search_docs": `{"query":"zebra","limit":20}`, "glob": `{"pattern":"**/*"}`,
	}
	all := []string{"open.md", ".env", "sub/deep/.ENV.local", "private/a.md", "private/b/c.md", "asked/d.md", "tls/server.pem", "credentials.json"}
	for _, tc := range []struct {
		name   string
		rules  []string
		hidden []string
	}{
		{"defaults", nil, []string{".env", "sub/deep/.ENV.local", "tls/server.pem", "credentials.json"}},
		{"rules", []string{"deny read_file(private/**)", "ask read_file(asked/**)", "deny read_file(**/.env)"}, append([]string{"private/a.md", "private/b/c.md", "asked/d.md", "sub/link.md"}, ".env", "sub/deep/.ENV.local", "tls/server.pem", "credentials.json")},
		{"search allowed", []string{"allow grep(**)", "allow search_docs", "allow glob(**)"}, []string{".env", "sub/deep/.ENV.local", "tls/server.pem", "credentials.json"}},
	} {
		p := secretTree(t)
		s := start(t, p, tc.rules...)
		for name, args := range searches {
			plain := s.Tools().Call(t.Context(), name, &tool.Call{Args: json.RawMessage(args)}).Text
			v, text := gated(t, s, name, args)
			if v.Decision != tool.Allow {
				t.Errorf("%s: %s: a search is asked about: %+v", tc.name, name, v)
			}
			for how, text := range map[string]string{"an agent's call": text, "a call without a gate": plain} {
				list, note, _ := strings.Cut(text, "[left out: ")
				if note == "" && name != "search_docs" || strings.Contains(note, "private/") {
					t.Errorf("%s: %s: %s: what was left out: %q", tc.name, name, how, note)
				}
				for _, file := range all {
					word := told(file)
					if name == "glob" {
						word = file
					}
					hidden := false
					for _, h := range tc.hidden {
						hidden = hidden || h == file
					}
					if got := strings.Contains(list, word); got == hidden && !(name == "search_docs" && !hidden) {
						t.Errorf("%s: %s: %s: %s is found: %v\n%s", tc.name, name, how, file, got, text)
					}
				}
				if !strings.Contains(list, "open.md") || strings.Contains(note, "zebra") {
					t.Errorf("%s: %s: %s:\n%s", tc.name, name, how, text)
				}
			}
		}
	}
}

// TestListing: ls leaves out what may not be read, of folders as well.
func TestListing(t *testing.T) {
	p := secretTree(t)
	s := start(t, p, "deny read_file(private/**)", "ask read_file(asked/**)")
	_, text := gated(t, s, "ls", `{}`)
	list, note, _ := strings.Cut(text, "[left out: ")
	for _, name := range []string{".env", "private", "asked", "credentials.json"} {
		if strings.Contains(list, name) {
			t.Errorf("%s is listed:\n%s", name, text)
		}
	}
	if !strings.Contains(list, "open.md") || !strings.Contains(list, "sub/") || !strings.Contains(note, ".env") || !strings.Contains(note, "read_file(asked/**)") || strings.Contains(note, "private") {
		t.Errorf("%s", text)
	}
	if v, _ := gated(t, s, "ls", `{"path":"private"}`); v.Decision != tool.Deny {
		t.Errorf("%+v", v)
	}
	if v, text := gated(t, s, "ls", `{"path":"asked"}`); v.Decision != tool.Ask || !strings.HasPrefix(text, "d.md\t") {
		t.Errorf("what a person allowed: %+v\n%s", v, text)
	}
	if v, text := gated(t, s, "grep", `{"pattern":"zebra","path":"asked"}`); v.Decision != tool.Ask || !strings.Contains(text, told("asked/d.md")) {
		t.Errorf("what a person allowed: %+v\n%s", v, text)
	}
}

// TestReadWithoutGate: a tool that no gate has decided on holds to the rules by itself.
func TestReadWithoutGate(t *testing.T) {
	p := secretTree(t)
	s := start(t, p, "deny read_file(private/**)")
	for _, name := range []string{".env", "private/a.md", "sub/link.md", "sub/../.env", "sub/deep/.ENV.local"} {
		b, _ := json.Marshal(map[string]string{"path": name})
		if res := s.Tools().Call(t.Context(), "read_file", &tool.Call{Args: b}); !res.Error || strings.Contains(res.Text, "zebra") || !strings.Contains(res.Text, "read_file(") {
			t.Errorf("%s: %+v", name, res)
		}
	}
	if v, text := gated(t, s, "read_file", `{"path":".env"}`); v.Decision != tool.Ask || !strings.Contains(text, "zebra") {
		t.Errorf("what a person allowed: %+v %s", v, text)
	}
}

// TestBoundedAgent: the bounds in the definition of an agent hold for every tool that shows text.
func TestBoundedAgent(t *testing.T) {
	p := secretTree(t)
	p.write(t, ".superstep/agents/narrow.md", "---\nname: narrow\ndescription: d\ntools: [\"read_file(private/**)\", grep, search_docs, \"glob(asked/**)\"]\n---\nWork.\n")
	p.opt.TrustProject = true
	a, err := start(t, p).Agent("narrow", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		tool, args string
		want       tool.Decision
	}{
		{"read_file", `{"path":"private/a.md"}`, tool.Allow}, {"read_file", `{"path":"open.md"}`, tool.Deny}, {"grep", `{"pattern":"zebra"}`, tool.Allow},
		{"glob", `{"pattern":"asked/*"}`, tool.Allow}, {"glob", `{"pattern":"*"}`, tool.Deny}, {"search_docs", `{"query":"zebra"}`, tool.Allow},
	} {
		if v := a.Gate.Check(&tool.Tool{Name: tc.tool}, &tool.Call{Args: json.RawMessage(tc.args)}); v.Decision != tc.want {
			t.Errorf("%s %s: %+v, want %s", tc.tool, tc.args, v, tc.want)
		}
	}
	for _, name := range []string{"read_file", "grep", "search_docs"} {
		reads := a.Gate.(tool.Reader).Reads(name, ".", nil)
		for file, want := range map[string]tool.Decision{"private/a.md": tool.Allow, "open.md": tool.Deny, "private/.env": tool.Allow} {
			if v := reads(file); v.Decision != want {
				t.Errorf("%s %s: %+v, want %s", name, file, v, want)
			}
		}
	}
}

// TestHardLinks: a file with another name is asked about and not searched, unless a rule of the user's allows it or a package
// manager has linked it.
func TestHardLinks(t *testing.T) {
	p := newPlace(t, map[string]string{"single.md": "zebra single\n", "~/outside.md": "zebra outside\n", ".env": "zebra env\n"})
	for name, old := range map[string]string{"twin.md": filepath.Join(p.home, "outside.md"), "alias.md": filepath.Join(p.dir, ".env"), "node_modules/pkg/index.md": filepath.Join(p.home, "outside.md")} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(p.dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(old, filepath.Join(p.dir, name)); err != nil {
			t.Skip(err)
		}
	}
	s := start(t, p)
	for name, want := range map[string]tool.Decision{"twin.md": tool.Ask, "alias.md": tool.Ask, "single.md": tool.Allow, "node_modules/pkg/index.md": tool.Allow} {
		b, _ := json.Marshal(map[string]string{"path": name})
		v, text := gated(t, s, "read_file", string(b))
		if v.Decision != want || (want == tool.Ask) != strings.Contains(v.Reason, "hard link") || !strings.Contains(text, "zebra") {
			t.Errorf("%s: %+v %s", name, v, text)
		}
	}
	for name, args := range map[string]string{"grep": `{"pattern":"zebra"}`, "search_docs": `{"query":"zebra"}`} {
		if _, text := gated(t, s, name, args); strings.Contains(text, "zebra outside") || strings.Contains(text, "zebra env") || !strings.Contains(text, "zebra single") || !strings.Contains(text, "twin.md; call") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
	if _, text := gated(t, start(t, p, "allow read_file(**/twin.md)"), "grep", `{"pattern":"zebra"}`); !strings.Contains(text, "zebra outside") || strings.Contains(text, "zebra env") {
		t.Errorf("a rule of the user's:\n%s", text)
	}
}
