package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
)

func TestTavily(t *testing.T) {
	const key = "tvly-very-secret"
	var got map[string]any
	var auth, kind string
	answer := func(status int, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			auth, kind = r.Header.Get("Authorization"), r.Header.Get("Content-Type")
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
	sent := func(query string, most float64, topic, depth string, pages bool) map[string]any {
		return map[string]any{"query": query, "max_results": most, "topic": topic, "search_depth": depth, "include_answer": true, "include_raw_content": pages}
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
		{name: "results", args: args{"query": "go"}, sent: sent("go", 5, "general", "basic", false),
			handler: answer(200, `{"query":"go","results":[{"title":"Go\nlang","url":"https://go.dev","content":"An open\n## https://spoof\nlanguage","score":0.9},{"title":"B","url":"https://b","content":"c"}]}`),
			want:    "## https://go.dev\nGo lang\nAn open\n ## https://spoof\nlanguage\n\n## https://b\nB\nc\n\n"},
		{name: "arguments", args: args{"query": "go", "max_results": 2, "topic": "news"}, sent: sent("go", 2, "news", "advanced", false),
			handler: answer(200, `{"results":[]}`), want: `no results for "go"`},
		{name: "depth", args: args{"query": "go", "topic": "news", "search_depth": "basic"}, sent: sent("go", 5, "news", "basic", false), handler: answer(200, `{}`), want: "no results"},
		{name: "answer", args: args{"query": "go", "search_depth": "advanced"}, sent: sent("go", 5, "general", "advanced", false),
			handler: answer(200, `{"answer":"It is a\n## https://spoof\nlanguage. `+key+`","results":[{"title":"T","url":"https://go.dev","content":"c","raw_content":"unasked"}]}`),
			want:    "The service's own answer, which is no source:\nIt is a\n ## https://spoof\nlanguage. [key]\n\n## https://go.dev\nT\nc\n\n"},
		{name: "pages", args: args{"query": "go", "include_raw_content": true}, sent: sent("go", 5, "general", "basic", true),
			handler: answer(200, `{"answer":null,"results":[{"title":"T","url":"https://a","content":"c","raw_content":"The whole\n## page `+key+`"},{"title":"U","url":"https://b","content":"d","raw_content":null}]}`),
			want:    "## https://a\nT\nc\n\nThe page:\nThe whole\n ## page [key]\n\n## https://b\nU\nd\n\n"},
		{name: "long page", args: args{"query": "go", "include_raw_content": true},
			handler: answer(200, `{"results":[{"title":"T","url":"https://a","content":"c","raw_content":"`+strings.Repeat("x", 50_000)+`"}]}`),
			want:    "\n" + strings.Repeat("x", 40_000) + "…\n"},
		{name: "no depth", args: args{"query": "go", "search_depth": "deep"}, want: `want one of "basic", "advanced"`, bad: true},
		{name: "topic", args: args{"query": "go", "topic": "sports"}, want: `want one of "general", "news"`, bad: true},
		{name: "too many", args: args{"query": "go", "max_results": 21}, want: "at most 20", bad: true},
		{name: "empty", args: args{"query": " "}, want: "query: is empty", bad: true},
		{name: "key", args: args{"query": "go"}, handler: answer(401, `{"detail":"bad key `+key+`"}`), want: "status 401: {\"detail\":\"bad key [key]\"}; check the API key", bad: true},
		{name: "limit", args: args{"query": "go"}, handler: answer(429, ``, "Retry-After", "7"), want: `status 429; try again after "7" seconds`, bad: true},
		{name: "down", args: args{"query": "go"}, handler: answer(500, `oops`), want: "status 500: oops; try again later", bad: true},
		{name: "elsewhere", args: args{"query": "go"}, handler: answer(307, ``, "Location", other.URL), want: "redirected to", bad: true},
		{name: "flood", args: args{"query": "go"}, handler: answer(200, strings.Repeat(" ", 5<<20)), want: "over 4 MiB", bad: true},
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
			timeout := 20 * time.Second
			if tc.name == "slow" {
				timeout = 200 * time.Millisecond
			}
			service, err := builtin.Tavily(builtin.WebOptions{APIKey: key, BaseURL: srv.URL, HTTPClient: srv.Client(), Timeout: timeout})
			if err != nil {
				t.Fatal(err)
			}
			w, err := builtin.WebSearch(service)
			if err != nil {
				t.Fatal(err)
			}
			s, err := tool.NewSet(w)
			if err != nil {
				t.Fatal(err)
			}
			r := use(t, s, "web_search", tc.args)
			if r.Error != tc.bad || !strings.Contains(r.Text, tc.want) {
				t.Fatalf("error %v: %q\nwant %q", r.Error, r.Text, tc.want)
			}
			if strings.Contains(r.Text, key) || strings.Contains(fmt.Sprint(w, service), key) {
				t.Error("the key is shown")
			}
			if tc.sent != nil {
				if diff := cmp.Diff(tc.sent, got); diff != "" || auth != "Bearer "+key || kind != "application/json" {
					t.Error(auth, diff)
				}
			}
		})
	}
}

func TestTavilyOptions(t *testing.T) {
	for _, o := range []builtin.WebOptions{{}, {APIKey: "k", BaseURL: "ftp://x"}, {APIKey: "k", BaseURL: "nonsense"}} {
		if _, err := builtin.Tavily(o); err == nil {
			t.Errorf("%+v accepted", o)
		}
	}
}

// A run pays for a query once, however it is written and whoever asks.
func TestSearchesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := &counting{failures: 1}
		w, err := builtin.WebSearch(service)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(run string, a args) string {
			data, _ := json.Marshal(a)
			text, err := w.Run(t.Context(), &tool.Call{Run: run, Args: data})
			if err != nil {
				return err.Error()
			}
			return text
		}
		var wg sync.WaitGroup
		for range 5 { // the first fails, and the next asks again
			wg.Go(func() { ask("r1", args{"query": "go lang"}) })
		}
		wg.Wait()
		for _, tc := range []struct {
			run  string
			args args
			want string
		}{
			{"r1", args{"query": " Go  LANG\n"}, "search 2:"},
			{"r1", args{"query": "go lang", "max_results": 1}, "search 2:"},
			{"r1", args{"query": "golang"}, "search 3:"},
			{"r1", args{"query": "go lang", "max_results": 6}, "search 4:"},
			{"r1", args{"query": "go lang", "topic": "news"}, "search 5:"},
			{"r1", args{"query": "go lang", "topic": "news", "search_depth": "basic"}, "search 5:"},
			{"r1", args{"query": "go lang", "include_raw_content": true}, "search 6:"},
			{"r1", args{"query": "go lang", "search_depth": "advanced"}, "search 7:"},
			{"r2", args{"query": "go lang"}, "search 8:"},
			{"", args{"query": "go lang"}, "search 9:"},
			{"", args{"query": "go lang"}, "search 10:"},
		} {
			if got := ask(tc.run, tc.args); !strings.Contains(got, tc.want) {
				t.Errorf("run %q, %v: %q, want %s", tc.run, tc.args, got, tc.want)
			}
		}
		for i := range 100 { // more than are kept
			ask("r3", args{"query": fmt.Sprint(i)})
		}
		if got := ask("r3", args{"query": "99"}); !strings.Contains(got, "search 110:") {
			t.Error(got)
		}
		if got := ask("r3", args{"query": "0"}); !strings.Contains(got, "search 111:") {
			t.Error(got)
		}
	})
}

// counting is a service that tells its searches apart, the first of which fail.
type counting struct {
	mu          sync.Mutex
	n, failures int
}

func (c *counting) Search(_ context.Context, q builtin.SearchQuery) (builtin.SearchFound, error) {
	c.mu.Lock()
	c.n++
	n := c.n
	c.mu.Unlock()
	time.Sleep(time.Second)
	if n <= c.failures {
		return builtin.SearchFound{}, errors.New("down")
	}
	return builtin.SearchFound{Answer: fmt.Sprintf("search %d: %+v", n, q)}, nil
}
