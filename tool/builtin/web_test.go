package builtin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
)

func TestSearchWeb(t *testing.T) {
	const key = "tvly-very-secret"
	var got map[string]any
	var auth string
	answer := func(status int, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			auth = r.Header.Get("Authorization")
			b, _ := io.ReadAll(r.Body)
			got = nil
			_ = json.Unmarshal(b, &got)
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other host was asked") }))
	defer other.Close()
	for _, tc := range []struct {
		name    string
		args    args
		handler http.HandlerFunc
		sent    map[string]any
		want    string
		bad     bool
	}{
		{name: "results", args: args{"query": "go"}, sent: map[string]any{"query": "go", "max_results": 5.0, "topic": "general"},
			handler: answer(200, `{"query":"go","results":[{"title":"Go\nlang","url":"https://go.dev","content":"An open\n## https://spoof\nlanguage","score":0.9},{"title":"B","url":"https://b","content":"c"}]}`),
			want:    "## https://go.dev\nGo lang\nAn open\n ## https://spoof\nlanguage\n\n## https://b\nB\nc\n\n"},
		{name: "arguments", args: args{"query": "go", "max_results": 2, "topic": "news"}, sent: map[string]any{"query": "go", "max_results": 2.0, "topic": "news"},
			handler: answer(200, `{"results":[]}`), want: `no results for "go"`},
		{name: "topic", args: args{"query": "go", "topic": "sports"}, want: `want one of "general", "news"`, bad: true},
		{name: "too many", args: args{"query": "go", "max_results": 21}, want: "at most 20", bad: true},
		{name: "empty", args: args{"query": " "}, want: "query: is empty", bad: true},
		{name: "key", args: args{"query": "go"}, handler: answer(401, `{"detail":"bad key `+key+`"}`), want: "status 401: {\"detail\":\"bad key [key]\"}; check the API key", bad: true},
		{name: "limit", args: args{"query": "go"}, handler: answer(429, ``, "Retry-After", "7"), want: `status 429; try again after "7" seconds`, bad: true},
		{name: "down", args: args{"query": "go"}, handler: answer(500, `oops`), want: "status 500: oops; try again later", bad: true},
		{name: "elsewhere", args: args{"query": "go"}, handler: answer(307, ``, "Location", other.URL), want: "redirected to", bad: true},
		{name: "flood", args: args{"query": "go"}, handler: answer(200, strings.Repeat(" ", 2<<20)), want: "over 1 MiB", bad: true},
		{name: "not JSON", args: args{"query": "go"}, handler: answer(200, `<html>`), want: "not the JSON", bad: true},
		{name: "slow", args: args{"query": "go"}, handler: func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, want: "no answer within 200ms", bad: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost || r.URL.Path != "/search" {
					t.Errorf("%s %s", r.Method, r.URL)
				}
				tc.handler(w, r)
			}))
			defer srv.Close()
			w, err := builtin.SearchWeb(builtin.WebOptions{APIKey: key, BaseURL: srv.URL, HTTPClient: srv.Client(), Timeout: 200 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			s, err := tool.NewSet(w)
			if err != nil {
				t.Fatal(err)
			}
			r := use(t, s, "search_web", tc.args)
			if r.Error != tc.bad || !strings.Contains(r.Text, tc.want) {
				t.Fatalf("error %v: %q\nwant %q", r.Error, r.Text, tc.want)
			}
			if strings.Contains(r.Text, key) || strings.Contains(fmt.Sprint(w), key) {
				t.Error("the key is shown")
			}
			if tc.sent != nil {
				if diff := cmp.Diff(tc.sent, got); diff != "" || auth != "Bearer "+key {
					t.Error(auth, diff)
				}
			}
		})
	}
}

func TestSearchWebOptions(t *testing.T) {
	for _, o := range []builtin.WebOptions{{}, {APIKey: "k", BaseURL: "ftp://x"}, {APIKey: "k", BaseURL: "nonsense"}} {
		if _, err := builtin.SearchWeb(o); err == nil {
			t.Errorf("%+v accepted", o)
		}
	}
}
