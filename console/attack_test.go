package console

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// posted sends a body of some kind as an operator.
func posted(t *testing.T, ts *httptest.Server, path, kind, body string, header ...string) (got, string) {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, ts.URL+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer operator-token")
	r.Header.Set("Content-Type", kind)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return got{res.StatusCode, res.Header}, string(b)
}

// Every route that takes a body refuses one of another kind, one that is too large, and, as JSON, one that can be read in two ways or has what is not known.
func TestBodies(t *testing.T) {
	s, ts := serve(t, &Options{})
	large, posts := strings.Repeat("x", 2<<20), 0
	for _, x := range s.routes {
		method, path, _ := strings.Cut(x.pattern, " ")
		if method != http.MethodPost {
			continue
		}
		posts++
		path = strings.NewReplacer("{id}", "none", "{name}", "none").Replace(path)
		check := func(what string, want int, kind, body, words string) {
			t.Helper()
			if res, text := posted(t, ts, path, kind, body); res.StatusCode != want || !strings.Contains(text, words) {
				t.Errorf("%s: %s gives %d, want %d: %s", path, what, res.StatusCode, want, text)
			}
		}
		check("another kind", 415, "text/plain", `{"workflow":"talk"}`, "want application/")
		check("no kind", 415, "", `{"workflow":"talk"}`, "want application/")
		if !strings.HasPrefix(path, "/api/") {
			check("a form of 2 MiB", 413, "application/x-www-form-urlencoded", "text="+large, "larger than 1 MiB")
			check("half an escape", 400, "application/x-www-form-urlencoded", "text=%zz", "cannot be read")
			continue
		}
		check("JSON of 2 MiB", 413, "application/json", `{"text":"`+large+`"}`, "larger than 1 MiB")
		check("a key twice", 400, "application/json", `{"path":"a","path":"b"}`, "/path: given twice")
		check("half of it", 400, "application/json", `{"path":"a",`, "breaks off")
		check("a slip", 400, "application/json", `{"path":;}`, "at byte")
		check("two objects", 400, "application/json", `{} {}`, "more data")
		check("another letter", 422, "application/json", `{"Workflow":"talk","Rule":"x","Text":"x","Agent":"x","From":"x","Path":"x"}`, "")
	}
	if posts < 25 {
		t.Errorf("%d routes take a body", posts)
	}
}

// Names that lead elsewhere lead nowhere.
func TestElsewhere(t *testing.T) {
	s, ts := serve(t, &Options{})
	for _, x := range s.routes {
		method, path, _ := strings.Cut(x.pattern, " ")
		if !strings.Contains(path, "{") || strings.Contains(path, "{$}") {
			continue
		}
		for _, evil := range []string{"..%2f..%2f..%2fetc%2fpasswd", "..", "%2e%2e", "a%00b", "..%5c..%5cx", "%2fetc%2fpasswd", "a%0d%0aX-Evil:1", strings.Repeat("a", 5000), "%ff", "*", "a'%3bdrop"} {
			body := ""
			if strings.HasPrefix(path, "/api/") {
				body = "{}"
			}
			var res got
			var text string
			if address := strings.NewReplacer("{id}", evil, "{name}", evil).Replace(path); method == http.MethodPost {
				res, text = posted(t, ts, address, map[bool]string{true: "application/json", false: "application/x-www-form-urlencoded"}[body != ""], body)
			} else {
				res, text = send(t, ts, method, address, "operator-token", nil)
			}
			if res.StatusCode < 300 || res.StatusCode >= 500 || strings.Contains(text, "root:") || res.Header.Get("X-Evil") != "" {
				t.Errorf("%s with %q gives %d: %s", x.pattern, evil, res.StatusCode, text[:min(200, len(text))])
			}
		}
	}
}

// Of a thousand streams most are open, and the others are told to come back later; once they are closed, there is room again.
func TestStreams(t *testing.T) {
	s, ts := serve(t, &Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	status := map[int]int{}
	_, page := send(t, ts, "GET", "/runs", "operator-token", nil)
	stream := streamOf.FindStringSubmatch(page)
	for range 1000 {
		wg.Go(func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/runs/events?since="+url.QueryEscape(stream[2]), nil)
			r.Host = strings.TrimPrefix(ts.URL, "http://")
			r.Header.Set("Authorization", "Bearer operator-token")
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			mu.Lock()
			defer mu.Unlock()
			if status[w.Code]++; w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
				t.Error("it is not told when to come back")
			}
		})
	}
	refused := func() int { mu.Lock(); defer mu.Unlock(); return status[http.StatusServiceUnavailable] }
	for end := time.Now().Add(time.Minute); refused() < 1000-mostStream && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if n := refused(); n != 1000-mostStream {
		t.Errorf("%d of 1000 are refused, want %d", n, 1000-mostStream)
	}
	cancel()
	wg.Wait()
	if n := s.streams.Load(); n != 0 {
		t.Errorf("%d are still counted", n)
	}
}

// Runs that fail over and over are in a list of their own, and so are those that need somebody.
func TestLists(t *testing.T) {
	limited, asks, spent := &summary.Summary{Waits: summary.RateLimit}, &summary.Summary{Open: 1}, &summary.Summary{Waits: summary.Budget}
	for _, c := range []struct {
		status runlog.Status
		sum    *summary.Summary
		want   string
	}{
		{runlog.Running, limited, "all running retrying"}, {runlog.Running, asks, "all needs-you running"}, {runlog.Paused, spent, "all needs-you"}, {runlog.Paused, nil, "all"},
		{runlog.Failed, asks, "all failed"}, {runlog.Partial, nil, "all failed"}, {runlog.Quarantined, nil, "all failed"}, {runlog.Completed, asks, "all"},
	} {
		var in []string
		for _, l := range tabs {
			if belongs(l.Name, &runlog.Info{Status: c.status}, c.sum) {
				in = append(in, l.Name)
			}
		}
		if got := strings.Join(in, " "); got != c.want {
			t.Errorf("%s %+v is in %s, want %s", c.status, c.sum, got, c.want)
		}
		eval := &runlog.Info{ID: "eval-0a1b2c-3-0123456789ab", Status: c.status}
		if belongs("all", eval, c.sum) || !belongs("evaluations", eval, c.sum) || belongs("failed", eval, c.sum) != strings.Contains(c.want, "failed") {
			t.Errorf("%s %+v of an evaluation is in the wrong lists", c.status, c.sum)
		}
	}
}

// It is told which iteration of a loop a task is, a refusal takes its reason along, and a form has the inputs of the last run.
func TestDetails(t *testing.T) {
	if name, visit := named(&transcript.Task{Path: "draft#3"}); name != "draft" || visit != "iteration 3" {
		t.Errorf("%q %q", name, visit)
	}
	q := &runlog.Question{Kind: runlog.QuestionPermission, Options: []string{"once", "deny"}, Schema: json.RawMessage(`{"type":"string"}`)}
	if v, err := valueOf(q, url.Values{"value": {"deny"}, "text:deny": {"use the other file"}}); err != nil || string(v) != `"deny: use the other file"` {
		t.Errorf("%s %v", v, err)
	}
	_, ts := serve(t, &Options{})
	start(t, ts, "a topic of before")
	if _, page := send(t, ts, "GET", "/workflows/talk", "operator-token", nil); !strings.Contains(page, ">a topic of before</textarea>") {
		t.Error(page)
	}
}
