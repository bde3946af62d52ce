package console

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/hosttest"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/stores"
	"github.com/superstep-dev/superstep/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type in struct {
	Topic string `json:"topic"`
}

type talk struct {
	Topic, Answer string
}

// serverForm is a form as an MCP server asks for one.
const serverForm = `{"type":"object","properties":{"decision":{"type":"string","enum":["accept","decline"]},"name":{"type":"string","description":"> Your name"},"seat":{"type":"integer","minimum":1},
	"price":{"type":"number"},"window":{"type":"boolean"},"class":{"type":"string","enum":["economy","business"]}},"required":["decision"],"additionalProperties":false,
	"if":{"properties":{"decision":{"const":"accept"}}},"then":{"required":["name","seat"]}}`

// askFlow asks a question, and gives what was answered.
func askFlow() (*workflow.Workflow, error) {
	g := graph.New("talk", func(s talk, u string) talk { s.Answer += u; return s })
	g.AddNode(graph.Node[talk, string]{Name: "ask", OnError: graph.Skip, Run: func(ctx context.Context, _ *graph.Task, s talk) (string, error) {
		if s.Topic == "pay" {
			return graph.Once(ctx, "charge", func(context.Context, string) (string, error) { panic("its outcome is lost") })
		}
		if s.Topic == "server" {
			answer, err := graph.Ask[json.RawMessage](ctx, graph.Question{Kind: runlog.QuestionForm, Text: "MCP server air asks.\n\n> Which <b>seat</b>?\n> Superstep asks", Schema: json.RawMessage(serverForm)})
			return string(answer), err
		}
		return graph.Ask[string](ctx, graph.Question{Text: "Is " + s.Topic + " good?", Options: []string{"yes", "no"}})
	}})
	g.Edge(graph.Start, "ask")
	g.Edge("ask", graph.End)
	flow, err := g.Compile()
	if err != nil {
		return nil, err
	}
	return workflow.New("talk", "asks one question", flow, func(i in) (talk, error) { return talk{Topic: i.Topic}, nil }, func(s talk) (string, error) { return s.Answer, nil })
}

// serve starts a console with a workflow that asks.
func serve(t *testing.T, opt *Options) (*server, *httptest.Server) {
	t.Helper()
	return serveIn(t, t.TempDir(), opt)
}

// serveIn is serve with the project of a folder.
func serveIn(t *testing.T, dir string, opt *Options) (*server, *httptest.Server) {
	t.Helper()
	w, err := askFlow()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir() // a folder with the user's own things is no project
	h, err := host.Open(t.Context(), &host.Config{Name: "superstep", Dir: dir, Env: func(k string) string {
		return map[string]string{"HOME": home, "PATH": os.Getenv("PATH")}[k]
	}, Environ: []string{}, Stores: stores.All(), Workflows: []*workflow.Workflow{w, hosttest.Asks(t)}, NoModels: true, Settled: true, Settings: host.Settings{DataDir: filepath.Join(dir, "data"), TrustProject: true}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ts := httptest.NewUnstartedServer(nil)
	opt.Hosts, opt.Operator, opt.Viewer = []string{ts.Listener.Addr().String()}, "operator-token", "viewer-token"
	handler, err := Handler(ctx, h, opt)
	if err != nil {
		t.Fatal(err)
	}
	ts.Config.Handler = handler
	ts.Start()
	t.Cleanup(func() {
		cancel()
		ts.CloseClientConnections()
		ts.Close()
		handler.(*server).engine.Close()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return handler.(*server), ts
}

// got is what is left of a response whose body was read.
type got struct {
	StatusCode int
	Header     http.Header
}

func (g got) Cookies() []*http.Cookie { return (&http.Response{Header: g.Header}).Cookies() }

// send makes a request as a user with a token.
func send(t *testing.T, ts *httptest.Server, method, path, token string, form url.Values, header ...string) (got, string) {
	t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(t.Context(), method, ts.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil && t.Context().Err() == nil {
		t.Fatal(err)
	}
	return got{res.StatusCode, res.Header}, string(b)
}

// Every route refuses who has no token, who comes by another name, and what another page sends. Viewers may not act.
func TestRoutes(t *testing.T) {
	s, ts := serve(t, &Options{})
	acting := 0
	for _, x := range s.routes {
		method, path, _ := strings.Cut(x.pattern, " ")
		path = strings.NewReplacer("{$}", "", "{id}", "none", "{name}", "none").Replace(path)
		check := func(what string, want int, res got) {
			if res.StatusCode != want {
				t.Errorf("%s %s: %s gives %d, want %d", method, path, what, res.StatusCode, want)
			}
			if res.Header.Get("Content-Security-Policy") == "" || res.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s %s: %s lacks headers", method, path, what)
			}
		}
		if x.access != public {
			res, _ := send(t, ts, method, path, "", nil)
			check("no token", 401, res)
			res, _ = send(t, ts, method, path, "wrong", nil)
			check("a wrong token", 401, res)
		}
		res, _ := send(t, ts, method, path, "operator-token", nil, "Host", "evil.example")
		check("another host", 403, res)
		res, _ = send(t, ts, method, path, "operator-token", nil, "Origin", "http://evil.example")
		check("another origin", 403, res)
		for _, site := range []string{"cross-site", "same-site"} {
			res, _ = send(t, ts, method, path, "operator-token", nil, "Sec-Fetch-Site", site, "Sec-Fetch-Mode", "cors")
			check(site, 403, res)
		}
		if x.access == operating {
			acting++
			res, _ = send(t, ts, method, path, "viewer-token", url.Values{})
			check("a viewer", 403, res)
			if method == http.MethodGet {
				t.Errorf("%s changes something by GET", x.pattern)
			}
		}
		if x.access == nobody {
			t.Errorf("%s has no access", x.pattern)
		}
	}
	if acting < 20 {
		t.Errorf("%d routes act", acting)
	}
	if res, _ := send(t, ts, "GET", "/nothing", "", nil); res.StatusCode != 401 {
		t.Errorf("what is not there gives %d to strangers", res.StatusCode)
	}
	if res, _ := send(t, ts, "GET", "/nothing", "viewer-token", nil); res.StatusCode != 404 {
		t.Errorf("what is not there gives %d", res.StatusCode)
	}
}

// A console that only shows has no route that acts.
func TestReadOnly(t *testing.T) {
	s, ts := serve(t, &Options{ReadOnly: true})
	for _, x := range s.routes {
		if x.access == operating {
			t.Errorf("%s acts", x.pattern)
		}
	}
	if res, _ := send(t, ts, "POST", "/runs", "operator-token", url.Values{"workflow": {"talk"}}); res.StatusCode != 404 {
		t.Errorf("a start gives %d", res.StatusCode)
	}
}

// The token of an address becomes a cookie that scripts and other sites do not get, and leaves the address.
func TestEnter(t *testing.T) {
	_, ts := serve(t, &Options{})
	res, body := send(t, ts, "GET", "/runs?tab=failed&t=operator-token", "", nil)
	cookies := res.Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Path != "/" || strings.Contains(cookies[0].Value, "operator") {
		t.Fatalf("%+v", cookies)
	}
	if !strings.Contains(body, `url=/runs?tab=failed"`) || strings.Contains(body, "operator-token") {
		t.Errorf("%s", body)
	}
	if res, _ := send(t, ts, "GET", "/runs", "", nil, "Cookie", cookies[0].Name+"="+cookies[0].Value); res.StatusCode != 200 {
		t.Errorf("the cookie gives %d", res.StatusCode)
	}
	if res, _ := send(t, ts, "GET", "//evil.example/?t=operator-token", "", nil); res.StatusCode == 200 && res.Header.Get("Location") != "" {
		t.Errorf("%v", res.Header)
	}
	if res, _ := send(t, ts, "GET", "/runs?t=no", "", nil); res.StatusCode != 401 || len(res.Cookies()) > 0 {
		t.Errorf("a wrong token gives %d", res.StatusCode)
	}
}

// start starts a run of talk, and returns its page once it asks.
func start(t *testing.T, ts *httptest.Server, topic string, header ...string) (id, page string) {
	t.Helper()
	res, body := send(t, ts, "POST", "/runs", "operator-token", url.Values{"workflow": {"talk"}, "in.topic": {topic}}, header...)
	if res.StatusCode != 303 {
		t.Fatal(res.StatusCode, body)
	}
	id = strings.TrimPrefix(res.Header.Get("Location"), "/runs/")
	for deadline := time.Now().Add(time.Minute); !strings.Contains(page, `name="digest"`); {
		if _, page = send(t, ts, "GET", "/runs/"+id, "operator-token", nil); time.Now().After(deadline) {
			t.Fatal("no question", page)
		}
	}
	return id, page
}

var hidden = regexp.MustCompile(`name="(path|key|digest)" value="([^"]*)"`)

func questionOf(page string) url.Values {
	form := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(page, -1) {
		form.Set(m[1], m[2])
	}
	return form
}

// What an MCP server asks has its words apart from ours, and is accepted with all that is needed, or declined with nothing.
func TestServerAsks(t *testing.T) {
	_, ts := serve(t, &Options{})
	accepted := url.Values{"field.decision": {"accept"}, "field.name": {"Ada"}, "field.seat": {"9"}, "field.price": {"2.5"}, "field.window": {"yes"}, "field.class": {"business"}}
	for want, c := range map[string]struct{ fields, wrong url.Values }{
		`{"decision":"accept","name":"Ada","seat":9,"price":2.5,"window":true,"class":"business"}`: {accepted, url.Values{"field.decision": {"accept"}, "field.name": {"Ada"}}},
		`{"decision":"decline"}`: {url.Values{"field.decision": {"decline"}, "field.seat": {"none"}}, url.Values{}},
	} {
		id, page := start(t, ts, "server")
		for _, want := range []string{`<div class="text">MCP server air asks.</div><blockquote class="text">Which &lt;b&gt;seat&lt;/b&gt;?`, "\nSuperstep asks</blockquote>", "<span>seat *</span>", "a text: &gt; Your name", "<option>business</option>"} {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %s:\n%s", want, page)
			}
		}
		for _, x := range []struct {
			fields url.Values
			code   int
		}{{c.wrong, 422}, {c.fields, 303}} {
			form := questionOf(page)
			maps.Copy(form, x.fields)
			if res, body := send(t, ts, "POST", "/runs/"+id+"/answer", "operator-token", form); res.StatusCode != x.code || x.code == 422 && !strings.Contains(body, " is required") {
				t.Errorf("%v gives %d: %s", x.fields, res.StatusCode, body)
			}
		}
		for deadline := time.Now().Add(time.Minute); !strings.Contains(html.UnescapeString(page), want); {
			if _, page = send(t, ts, "GET", "/runs/"+id, "operator-token", nil); time.Now().After(deadline) {
				t.Fatalf("no %s\n%s", want, page)
			}
		}
	}
}

var streamOf = regexp.MustCompile(`data-stream="([^"]*)" data-since="([^"]*)"`)

// A run is started from a form, its question answered, and the page follows all of that.
func TestAnswer(t *testing.T) {
	_, ts := serve(t, &Options{})
	id, page := start(t, ts, "Go")
	stream := streamOf.FindStringSubmatch(page)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "GET", ts.URL+strings.ReplaceAll(stream[1], "&amp;", "&")+"&since="+stream[2], nil)
	r.Header.Set("Authorization", "Bearer operator-token")
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	form := questionOf(page)
	if form.Get("path") != "ask" || form.Get("digest") == "" {
		t.Fatal(form)
	}
	stale := url.Values{"path": form["path"], "key": form["key"], "digest": {"other"}, "value": {"yes"}}
	if res, body := send(t, ts, "POST", "/runs/"+id+"/answer", "operator-token", stale); res.StatusCode != 409 || !strings.Contains(body, "Another question") {
		t.Errorf("a stale page gives %d: %s", res.StatusCode, body)
	}
	form.Set("value", "perhaps")
	if res, body := send(t, ts, "POST", "/runs/"+id+"/answer", "operator-token", form); res.StatusCode != 422 || !strings.Contains(body, "want one of yes, no") {
		t.Errorf("what does not fit gives %d: %s", res.StatusCode, body)
	}
	form.Set("value", "yes")
	form.Set("once", "k1")
	for range 2 { // the second one is the same click
		if res, body := send(t, ts, "POST", "/runs/"+id+"/answer", "operator-token", form); res.StatusCode != 303 {
			t.Fatal(res.StatusCode, body)
		}
	}
	form.Set("once", "k2")
	if res, body := send(t, ts, "POST", "/runs/"+id+"/answer", "operator-token", form); res.StatusCode != 409 || !strings.Contains(body, "This question was answered already") {
		t.Errorf("a second answer gives %d: %s", res.StatusCode, body)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	var mu sync.Mutex
	seen := map[string]string{}
	go func() {
		for lines.Scan() { // until the stream is closed
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var f frame
			if err := json.Unmarshal([]byte(data), &f); err != nil {
				t.Error(err)
			}
			mu.Lock()
			maps.Copy(seen, f.HTML)
			mu.Unlock()
		}
	}()
	differs := func() string { // what is live is what a reload shows, once the run has ended
		_, page = send(t, ts, "GET", "/runs/"+id, "operator-token", nil)
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(seen["run-head"], "✓ completed") {
			return "the head is " + seen["run-head"]
		}
		for k, v := range seen {
			if !strings.HasPrefix(k, "ask-") && k != "run-why" && !strings.Contains(page, v) {
				return k + " is another thing after a reload: " + v
			}
		}
		return ""
	}
	for deadline := time.Now().Add(time.Minute); ; {
		why := differs()
		if why == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(why)
		}
	}
	if !strings.Contains(page, "✓ completed") {
		t.Error(page)
	}
}

// An answer in the browser resumes a run by the rule that all faces have.
func TestAnswerRule(t *testing.T) {
	t.Parallel()
	s, ts := serve(t, &Options{})
	store, err := s.host.Store(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	hosttest.Answers(t, store, "", func(run string, q *runlog.Question, value string) error {
		body, _ := json.Marshal(map[string]string{"path": q.Path, "key": q.Key, "answer": value})
		to, kind := "/answer", "application/json"
		if q.Kind == runlog.QuestionMessage { // which is sent as a message
			to, body = "/steer", []byte(`{"text":"blue"}`)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, ts.URL+"/api/v1/runs/"+run+to, bytes.NewReader(body))
		req.Header.Set("Content-Type", kind)
		req.Header.Set("Authorization", "Bearer operator-token")
		resp, err := ts.Client().Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if b, _ := io.ReadAll(resp.Body); resp.StatusCode >= 400 {
			if resp.StatusCode >= 500 {
				t.Errorf("%d: %s", resp.StatusCode, b)
			}
			return fmt.Errorf("%d: %s", resp.StatusCode, b)
		}
		return nil
	})
}

// A message that nobody would read is refused as a conflict, and starts nothing.
func TestMessageToNobody(t *testing.T) {
	t.Parallel()
	s, ts := serve(t, &Options{})
	id, page := start(t, ts, "rain")
	for _, ended := range []bool{false, true} {
		if ended {
			form := questionOf(page)
			form.Set("value", "yes")
			send(t, ts, "POST", "/runs/"+id+"/answer", "operator-token", form)
			r, err := s.engine.Resume(t.Context(), id, nil) // which waits for its end
			if err == nil {
				_, err = r.Wait(t.Context())
			}
			if err != nil && !errors.As(err, new(*runlog.BusyError)) {
				t.Fatal(err)
			}
		}
		if got, text := send(t, ts, "POST", "/runs/"+id+"/steer", "operator-token", url.Values{"text": {"hello"}}); got.StatusCode != http.StatusConflict {
			t.Errorf("ended %t: %d %s", ended, got.StatusCode, text)
		}
	}
	if infos, err := s.engine.Runs(t.Context(), nil); err != nil || len(infos) != 1 {
		t.Errorf("%d runs: %v", len(infos), err)
	}
}

// The same start, sent twice, is one run.
func TestStartOnce(t *testing.T) {
	_, ts := serve(t, &Options{})
	a, _ := start(t, ts, "Go", "Idempotency-Key", "a")
	b, _ := start(t, ts, "Go", "Idempotency-Key", "a")
	c, _ := start(t, ts, "Go", "Idempotency-Key", "c")
	if a != b || a == c {
		t.Errorf("%s %s %s", a, b, c)
	}
}

// A key is for one request: what was refused before it changed anything may be corrected, and what was carried out is neither done again nor confused
// with another request.
func TestIdempotencyKeys(t *testing.T) {
	var starts atomic.Int32
	const refused = "no model is configured"
	_, ts := serve(t, &Options{Start: func(_ context.Context, s *Start) (string, error) {
		if s.Model == "" {
			return "", &host.Error{Code: "no_model", Message: refused}
		}
		starts.Add(1)
		time.Sleep(50 * time.Millisecond)
		return s.ID, nil
	}})
	post := func(path, body, key string) (int, string) {
		res, text := posted(t, ts, path, "application/json", body, "Idempotency-Key", key)
		return res.StatusCode, text
	}
	const without, with, other = `{"workflow":"talk","inputs":{"topic":"Go"}}`, `{"workflow":"talk","inputs":{"topic":"Go"},"model":"offline"}`, `{"workflow":"talk","inputs":{"topic":"C"},"model":"offline"}`
	if status, body := post("/api/v1/runs", without, "k"); status != 422 || !strings.Contains(body, refused) {
		t.Fatal(status, body)
	}
	answers := make([]string, 4)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { _, answers[i] = post("/api/v1/runs", with, "k") })
	}
	all.Wait()
	if slices.Sort(answers); starts.Load() != 1 || len(slices.Compact(answers)) != 1 || !strings.Contains(answers[0], `"run"`) {
		t.Errorf("%d starts: %v", starts.Load(), answers)
	}
	for path, body := range map[string]string{"/api/v1/runs": other, "/api/v1/workflows/none/reject": "{}"} {
		if status, body := post(path, body, "k"); status != 422 || !strings.Contains(body, "used for another request") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if _, again := post("/api/v1/runs", with, "k"); again != answers[0] || starts.Load() != 1 {
		t.Errorf("%d starts: %s", starts.Load(), again)
	}
}

// An action that failed after it had changed something is not carried out again.
func TestPartlyOnce(t *testing.T) {
	s, ts := serve(t, &Options{})
	id, _ := start(t, ts, "Go")
	s.opt.Start = func(context.Context, *Start) (string, error) { return "", errors.New("it did not start") }
	runs := func() int {
		infos, err := s.engine.Runs(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return len(infos)
	}
	for range 2 {
		if res, body := posted(t, ts, "/api/v1/runs/"+id+"/fork", "application/json", `{"from":"ask"}`, "Idempotency-Key", "k"); res.StatusCode != 500 || runs() != 2 {
			t.Errorf("%d runs, %d %s", runs(), res.StatusCode, body)
		}
	}
}

// A run belongs to the trace of the program that starts it.
func TestStartInATrace(t *testing.T) {
	_, ts := serve(t, &Options{})
	const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	id, _ := start(t, ts, "Go", "Traceparent", caller)
	_, body := posted(t, ts, "/api/v1/runs", "application/json", `{"workflow":"talk","inputs":{"topic":"Go"}}`, "Traceparent", caller)
	var started struct{ Run string }
	if err := json.Unmarshal([]byte(body), &started); err != nil {
		t.Fatal(err, body)
	}
	for _, run := range []string{id, started.Run} {
		if _, records := send(t, ts, "GET", "/runs/"+run+"/records", "operator-token", nil); !strings.Contains(records, caller) {
			t.Errorf("the log has no trace: %.300s", records)
		}
	}
}

// Whatever is in a title, a question or a text is text, and nothing is asked of other computers.
func TestPayloads(t *testing.T) {
	_, ts := serve(t, &Options{})
	for _, evil := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `javascript:alert(1)`, `</textarea><svg onload=alert(1)>`, `{{.}}`, "\x1b]0;x\x07\u202e", `' onmouseover='alert(1)`,
	} {
		id, page := start(t, ts, evil)
		_, runs := send(t, ts, "GET", "/runs", "operator-token", nil)
		_, records := send(t, ts, "GET", "/runs/"+id+"/records", "operator-token", nil)
		_, history := send(t, ts, "GET", "/runs/"+id+"/history", "operator-token", nil)
		_, form := send(t, ts, "GET", "/workflows/talk", "operator-token", nil)
		for name, page := range map[string]string{"run": page, "runs": runs, "records": records, "history": history, "workflow": form} {
			for _, bad := range []string{"<script>alert", "<img src=x", "<svg onload", "\x1b", "\u202e", `' onmouseover`} {
				if strings.Contains(page, bad) {
					t.Errorf("%s: %q is on the page of %s", name, bad, evil)
				}
			}
		}
	}
	for in, bad := range map[string]string{
		"<script>alert(1)</script>": "<script", "[x](javascript:alert(1))": "javascript:", "![x](http://evil.example/y.png)": "<img", "<img src=http://evil.example>": "<img",
		"[x](data:text/html,<script>)": "data:", "<a onclick=x>": "<a onclick",
	} {
		if got := string(markdown(in)); strings.Contains(got, bad) {
			t.Errorf("%s becomes %s", in, got)
		}
	}
}

// The history shows texts as they are, with their line breaks, and not as JSON.
func TestHistoryOfTexts(t *testing.T) {
	_, ts := serve(t, &Options{})
	id, _ := start(t, ts, "a <b> & c\nd")
	_, page := send(t, ts, "GET", "/runs/"+id+"/history", "operator-token", nil)
	if !strings.Contains(page, "a &lt;b&gt; &amp; c\nd") || strings.Contains(page, "u003c") {
		t.Error(page)
	}
	if changes := changesOf([]superstep.Change{{Path: "/a", Before: json.RawMessage(`"x\u003e"`), After: json.RawMessage(`{"b":"y\nz"}`)}}); changes[0] != (change{"/a", `"x>"`, "{\n  \"b\": \"y\nz\"\n}"}) {
		t.Errorf("%q", changes)
	}
}

// What must not happen twice and may have happened is not done again by a button, but by a fork from its step.
func TestRerunOnce(t *testing.T) {
	_, ts := serve(t, &Options{})
	res, body := posted(t, ts, "/api/v1/runs", "application/json", `{"workflow":"talk","inputs":{"topic":"pay"}}`)
	var started struct{ Run string }
	if err := json.Unmarshal([]byte(body), &started); err != nil {
		t.Fatal(res.StatusCode, body)
	}
	page := ""
	for end := time.Now().Add(time.Minute); !strings.Contains(page, "! partial"); _, page = send(t, ts, "GET", "/runs/"+started.Run, "operator-token", nil) {
		if time.Now().After(end) {
			t.Fatal(page)
		}
	}
	if !strings.Contains(page, "superstep runs resume "+started.Run) || strings.Contains(page, "--from failed") {
		t.Error("the page names no command that works:", page)
	}
	if res, body := send(t, ts, "POST", "/runs/"+started.Run+"/rerun", "operator-token", url.Values{}, "Superstep-Fragment", "1"); res.StatusCode != 409 || !strings.Contains(body, "must never happen twice") || !strings.Contains(body, "fork the run from ask.") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res, body := send(t, ts, "POST", "/runs/"+started.Run+"/fork", "operator-token", url.Values{"from": {"ask"}, "rest": {"yes"}}); res.StatusCode != 303 {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

// Each entry of the interface for programs is described, and the other way round; errors are problem documents.
func TestAPI(t *testing.T) {
	s, ts := serve(t, &Options{})
	_, body := send(t, ts, "GET", "/api/v1/openapi.json", "viewer-token", nil)
	var doc struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil || strings.Contains(body, "null") {
		t.Fatal(err, body)
	}
	var described, there []string
	for path, methods := range doc.Paths {
		for m := range methods {
			described = append(described, strings.ToUpper(m)+" "+path)
		}
	}
	for _, x := range s.routes {
		if strings.Contains(x.pattern, " /api/") && !strings.HasSuffix(x.pattern, "openapi.json") {
			there = append(there, x.pattern)
		}
	}
	slices.Sort(described)
	slices.Sort(there)
	if !slices.Equal(described, there) {
		t.Errorf("described %v, there %v", described, there)
	}
	post := func(path, body string, header ...string) (got, string) {
		t.Helper()
		return posted(t, ts, path, "application/json", body, header...)
	}
	res, body := post("/api/v1/runs", `{"workflow":"talk","inputs":{"topic":"Go"}}`, "Idempotency-Key", "1")
	var started struct{ Run string }
	if err := json.Unmarshal([]byte(body), &started); err != nil || res.StatusCode != 200 {
		t.Fatal(res.StatusCode, body)
	}
	if _, again := post("/api/v1/runs", `{"workflow":"talk","inputs":{"topic":"Go"}}`, "Idempotency-Key", "1"); again != body {
		t.Errorf("the same key gives %s", again)
	}
	at := "/api/v1/runs/" + started.Run
	var view struct {
		Questions []struct{ Path, Key string }
		Seq       uint64
	}
	known := ""
	for deadline := time.Now().Add(time.Minute); ; { // the run rests soon, and what is known is not sent again
		if res, body = send(t, ts, "GET", at, "viewer-token", nil, "If-None-Match", known); res.StatusCode == 304 && len(view.Questions) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(res.StatusCode, body)
		}
		if known = res.Header.Get("ETag"); res.StatusCode == 200 {
			if err := json.Unmarshal([]byte(body), &view); err != nil {
				t.Fatal(err)
			}
		}
	}
	if res, body := post(at+"/answer", `{"path":"ask","key":"answer","answer":"yes"}`, "If-Match", `"1"`); res.StatusCode != 412 {
		t.Errorf("an old ETag gives %d %s", res.StatusCode, body)
	}
	if res, body := post(at+"/answer", `{"path":"ask","key":"`+view.Questions[0].Key+`","answer":"yes"}`); res.StatusCode != 200 {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res, body := post(at+"/answer", `{"path":"ask","key":"no","answer":"yes"}`); res.StatusCode != 404 || res.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v %s", res.StatusCode, res.Header, body)
	}
	if res, body := post("/api/v1/runs", `{"workflow":"talk","inputs":{"topic":5}}`); res.StatusCode != 422 || !strings.Contains(body, "topic") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	for _, line := range strings.Split(strings.TrimSpace(func() string { _, b := send(t, ts, "GET", at+"/records", "viewer-token", nil); return b }()), "\n") {
		if !json.Valid([]byte(line)) {
			t.Errorf("%s", line)
		}
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(body, `"done":true`); time.Sleep(10 * time.Millisecond) {
		if _, body = send(t, ts, "GET", at, "viewer-token", nil); time.Now().After(deadline) {
			t.Fatalf("it has not ended: %s", body)
		}
	}
	for path, want := range map[string]string{
		at + "/history": `"checkpoints":[{`, at + "/export": `{"superstep":"run"`, at + "/fork?from=ask": `"next":["ask"]`, "/api/v1/settings": `"rules":[{`,
		"/api/v1/diff?a=" + started.Run + "&b=" + started.Run: `"same":1`, "/runs/" + started.Run + "/graph.svg": "<svg",
	} {
		if res, body := send(t, ts, "GET", path, "viewer-token", nil); res.StatusCode != 200 || !strings.Contains(body, want) {
			t.Errorf("%s gives %d: %s", path, res.StatusCode, body)
		}
	}
	if res, body := send(t, ts, "GET", at+"/history?inside=ask", "viewer-token", nil); res.StatusCode != 422 || !strings.Contains(body, "there is no graph inside of ask") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res, body := post("/api/v1/lint", `{"text":"name: x\nsteps: []\n"}`); res.StatusCode != 200 || !strings.Contains(body, `"line":2`) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res, body := post("/api/v1/workflows/none/approve", `{}`); res.StatusCode != 409 {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}
