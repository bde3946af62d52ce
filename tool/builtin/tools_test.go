package builtin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
)

func TestTodo(t *testing.T) {
	s, err := tool.NewSet(builtin.TodoList())
	if err != nil {
		t.Fatal(err)
	}
	call := `{"todos":[{"content":"plan","status":"DONE"},{"id":42,"content":"gather\nmore","status":"In Progress","blockedBy":["#1",7,"",null]},{"content":"x","status":"failed"},{"content":"a","status":null},{"content":"b","status":"blocked"},{"content":"c","status":123,"blockedBy":"2"},{"content":"d","id":{"x":1},"blockedBy":[[1]]}]}`
	r := s.Call(t.Context(), "todo", &tool.Call{Args: json.RawMessage(call)})
	want := "[✓] 1 plan\n[•] 42 gather more (after #1, 7)\n[!] 3 x\n[ ] 4 a\n[ ] 5 b\n[ ] 6 c (after 2)\n[ ] 7 d\n1 of 7 completed\n"
	if r.Error || r.Text != want {
		t.Errorf("%v %s", r.Error, cmp.Diff(want, r.Text))
	}
	list, err := builtin.ParseTodos(json.RawMessage(call))
	if err != nil || list[1].ID != "42" || !cmp.Equal(list[1].BlockedBy, []string{"#1", "7"}) || list[5].Status != "pending" {
		t.Errorf("%+v %v", list, err)
	}
	for args, want := range map[string]string{`{"todos":[]}`: "empty", `{}`: "missing", `{"todos":[{"status":"done"}]}`: "missing", `{"todos":[` + strings.Repeat(`{"content":"x"},`, 200) + `{"content":"x"}]}`: "200", `{"todos":null}`: "want"} {
		if r := s.Call(t.Context(), "todo", &tool.Call{Args: json.RawMessage(args)}); !strings.Contains(r.Text, want) {
			t.Errorf("%.40s: %+v", args, r)
		}
	}
}

func TestTools(t *testing.T) {
	dir, _ := tree(t, nil)
	root, err := builtin.OpenRoot(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	search, err := builtin.SearXNG(builtin.WebOptions{BaseURL: "http://localhost:1"})
	if err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]*builtin.Options{
		"think todo": nil, "think todo read_file ls glob grep": {Root: root},
		"think todo read_file ls glob grep write_file edit_file bash web_fetch web_search": {Root: root, Write: true, Bash: &builtin.BashOptions{Shell: "/bin/sh"}, Fetch: &builtin.FetchOptions{}, Search: search},
	} {
		list, err := builtin.Tools(o)
		if err != nil {
			t.Fatal(err)
		}
		s, err := tool.NewSet(list...)
		if err != nil || strings.Join(s.Names(), " ") != want {
			t.Errorf("%v %v, want %s", s.Names(), err, want)
		}
	}
	if _, err := builtin.Tools(&builtin.Options{Write: true}); err == nil {
		t.Error("tools that write nowhere")
	}
}

func TestSearchers(t *testing.T) {
	const key = "very-secret-key"
	var asked *http.Request
	var body string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r
		_, _ = w.Write([]byte(body))
	}))
	defer srv.Close()
	o := builtin.WebOptions{APIKey: key, BaseURL: srv.URL, HTTPClient: srv.Client()}
	brave, err := builtin.Brave(o)
	if err != nil {
		t.Fatal(err)
	}
	o.APIKey = ""
	searxng, err := builtin.SearXNG(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		s               builtin.Searcher
		args            args
		body, url, want string
	}{
		{brave, args{"query": "a b", "max_results": 2}, `{"web":{"results":[{"title":"T","url":"https://x","description":"D ` + key + `"}]}}`, "/res/v1/web/search?count=2&q=a+b&text_decorations=false", "## https://x\nT\nD [key]\n\n"},
		{brave, args{"query": "a", "topic": "news"}, `{"results":[{"title":"N","url":"https://n","description":"D"}]}`, "/res/v1/news/search?count=5&q=a&text_decorations=false", "## https://n\nN\nD\n\n"},
		{searxng, args{"query": "a", "max_results": 1}, `{"results":[{"title":"T","url":"https://x","content":"C"},{"title":"U","url":"https://y","content":"C"}]}`, "/search?categories=general&format=json&q=a", "## https://x\nT\nC\n\n"},
		{searxng, args{"query": "a"}, `<html>`, "/search?categories=general&format=json&q=a", "not the JSON"},
	} {
		body = tc.body
		w, err := builtin.WebSearch(tc.s)
		if err != nil {
			t.Fatal(err)
		}
		s, err := tool.NewSet(w)
		if err != nil {
			t.Fatal(err)
		}
		r := use(t, s, "web_search", tc.args)
		if asked.URL.String() != tc.url || !strings.Contains(r.Text, tc.want) || strings.Contains(r.Text, key) {
			t.Errorf("%s: %+v", asked.URL, r)
		}
		if tc.s == brave && asked.Header.Get("X-Subscription-Token") != key {
			t.Error("no key")
		}
	}
	if _, err := builtin.WebSearch(nil); err == nil {
		t.Error("no service accepted")
	}
	if _, err := builtin.Brave(builtin.WebOptions{}); err == nil {
		t.Error("no key accepted")
	}
	if _, err := builtin.SearXNG(builtin.WebOptions{}); err == nil {
		t.Error("no server accepted")
	}
}
