package research_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/internal/builtin/research"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/tool/permit"
)

// talk makes a model of a server that says what handle says.
func talk(t testing.TB, handle modeltest.Handler) (model.Model, *modeltest.Server) {
	t.Helper()
	server := modeltest.NewServer(t, handle, nil)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	m, err := openai.New(&openai.Options{
		Model: "gpt-test", APIKey: "key", BaseURL: server.URL, HTTPClient: &http.Client{Transport: transport}, Retries: 2, Backoff: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, server
}

// finding is one as a model hands it in.
type finding struct {
	Claim string `json:"claim"`
	Quote string `json:"quote"`
	Path  string `json:"path"`
	Line  int    `json:"line"`
}

func call(name string, args any) model.Part {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return model.Part{Kind: model.ToolCall, Call: &model.Call{Name: name, Args: b}}
}

type object = map[string]any

// llm plays a language model with the manners of real ones: what it says depends on what
// it is asked and on nothing else. Meet, unless nil, is called when a researcher begins.
func llm(meet func()) modeltest.Handler {
	return func(r *modeltest.ParsedRequest) modeltest.Reply {
		has := func(name string) bool {
			return slices.ContainsFunc(r.Tools, func(s model.ToolSpec) bool { return s.Name == name })
		}
		turn, prompt := 0, r.Messages[0].Text()
		for _, m := range r.Messages {
			if m.Role == model.Assistant {
				turn++
			}
		}
		var parts []model.Part
		switch {
		case has("plan"):
			parts = [][]model.Part{
				{{Kind: model.Text, Text: "Let me think."}, call("think", object{"reflection": "leases and retries"})},
				{call("plan", object{"queries": []string{"failed job  retry", " ", "lease end", "too many"}})},
			}[turn]
		case has("directions"):
			parts = [][]model.Part{
				{call("search_docs", object{"query": "failed job retry"}), call("search_docs", object{"query": "lease end"}), call("search_docs", object{"query": "one too many"})},
				{call("directions", object{"directions": []object{
					{"topic": "Leases", "priority": "high"}, {"topic": "retries", "rationale": "the heart\nof it"}, {"topic": "leases"}, {"topic": "dead  letters"},
				}})},
			}[turn]
		case has("findings"):
			if turn == 0 && meet != nil && !strings.Contains(prompt, "Found before") {
				meet()
			}
			parts = researcher(prompt, turn)
		case turn == 0:
			parts = []model.Part{call("write_file", object{"content": "# Heron\n\nA lease lasts 30 s [1]. Nobody says so [99].\n"})}
		default:
			parts = []model.Part{call("write_file", object{"content": "# Heron\n\nA lease lasts 30 s [1, 2]. Retries back off [3] [4].\n", "answered": true})}
		}
		return modeltest.Reply{Parts: parts, Fragment: 7}
	}
}

func researcher(prompt string, turn int) []model.Part {
	_, rest, _ := strings.Cut(prompt, "Direction: ")
	topic, _, _ := strings.Cut(rest, "\n")
	if turn == 0 {
		return []model.Part{call("search_docs", object{"query": topic + " heron"}), call("read_file", object{"path": "README.md"}), call("search_docs", object{"query": "greedy"})}
	}
	lease := finding{"A lease lasts 30 s.", "The lease lasts thirty seconds and is renewed every ten, so a", "./guide/leases.md", 7}
	backoff := finding{"It backs off.", "A failed job is retried with exponential backoff", "guide/retries.md", 3}
	found := map[string][]finding{
		"Leases": {lease, {"So says the code.", "LeaseTime is how long a worker may keep a job without renewing its lease.", "internal/lease.go", 1}, lease},
		"retries": {backoff, {"Forever.", "A failed job is retried forever.", "guide/retries.md", 4},
			{"None.", "A job is lost.", "guide/none.md", 1}, {"Secret.", "root:x:0:0", "../../../../../../../etc/passwd", 1}},
		"dead letters": {backoff, {"Kept.", "Nothing is ever deleted from the dead letter topic automatically.", "guide/retries.md", 11}},
	}[topic]
	if strings.Contains(prompt, "Found before") {
		found = []finding{{"The code doubles it.", "It starts at one second and\ndoubles with every attempt, up to an hour.", "internal/backoff.go", 5}}
	}
	return []model.Part{call("findings", object{"findings": found})}
}

// want is what the run with llm comes to.
func checkRun(t *testing.T, out research.Output) {
	t.Helper()
	var places []string
	for _, p := range out.Passages {
		places = append(places, fmt.Sprintf("%s:%d-%d", p.Path, p.Start, p.End))
	}
	if diff := cmp.Diff([]string{"guide/leases.md:3-3", "internal/lease.go:9-9", "guide/retries.md:3-3", "internal/backoff.go:5-6"}, places); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]research.OutputPart{{Topic: "Leases", Sources: 2}, {Topic: "retries", Sources: 2}, {Topic: "dead letters", Sources: 1}}, out.Directions); diff != "" {
		t.Error(diff)
	}
	if !out.Answered || !strings.HasPrefix(out.Text, "# How does Heron retry a failed job?\n\nA lease lasts 30 s [1, 2].") {
		t.Errorf("%v: %s", out.Answered, out.Text)
	}
	if out.Searches != 6 || out.Dropped != 3 || out.Model != "openai/gpt-test" {
		t.Errorf("%d searches, %d dropped, model %s", out.Searches, out.Dropped, out.Model)
	}
	if n := checkBrief(t, "testdata/heron", out.Text); n != 4 || strings.Contains(out.Text, "[99]") {
		t.Errorf("%d sources:\n%s", n, out.Text)
	}
	if b, err := os.ReadFile(out.Report); err != nil || string(b) != marked(out.Text) {
		t.Errorf("the file is not the brief: %v", err)
	}
}

// barrier gives a function that returns when n have called it.
func barrier(t *testing.T, n int) func() {
	var all sync.WaitGroup
	all.Add(n)
	return func() {
		all.Done()
		met := make(chan struct{})
		go func() { all.Wait(); close(met) }()
		select {
		case <-met:
		case <-time.After(time.Minute):
			t.Error("the researchers do not work side by side")
		}
	}
}

func heron(t testing.TB) research.Inputs {
	t.Helper()
	docs, err := filepath.Abs("testdata/heron")
	if err != nil {
		t.Fatal(err)
	}
	return research.Inputs{Question: "How does Heron\nretry a failed job?", Docs: docs, Report: filepath.Join(t.TempDir(), "brief.md")}
}

func TestLanguageModel(t *testing.T) {
	m, server := talk(t, llm(barrier(t, 3)))
	store := runlog.NewMemory(nil)
	out, res, err := run(t, store, options(t, m), heron(t))
	if err != nil {
		t.Fatal(err)
	}
	checkRun(t, out)
	if res.Steps != 7 { // planner, explorer, researchers, coverage, one researcher, coverage, synthesizer
		t.Errorf("%d steps", res.Steps)
	}
	var tasks []string
	for r, err := range runlog.Records(t.Context(), store, "r1", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == runlog.KindTaskDone && (strings.HasPrefix(r.Path, "researcher") || strings.HasPrefix(r.Path, "coverage")) {
			tasks = append(tasks, r.Path)
		}
	}
	slices.Sort(tasks)
	if diff := cmp.Diff([]string{"coverage", "coverage#1", "researcher[1-leases]", "researcher[2-retries]", "researcher[2-retries]#1", "researcher[3-dead-letters]"}, tasks); diff != "" {
		t.Error(diff)
	}
	for _, r := range server.Requests() {
		prompt := r.Messages[0].Text()
		if !strings.Contains(prompt, "Question: How does Heron retry a failed job?\n") && !strings.HasSuffix(prompt, "Question: How does Heron retry a failed job?") {
			t.Errorf("the question is not in %q", prompt)
		}
		if strings.Contains(prompt, "Searched before: retries heron\n") && !strings.Contains(prompt, "Found before: guide/retries.md:3 It backs off.\n") {
			t.Errorf("what was found is not in %q", prompt)
		}
	}
}

// A model that asks for more than the budget is told so, and is not given it, however
// many ways of searching there are.
func TestBudgetIsShared(t *testing.T) {
	web := tavily(t)
	m, server := talk(t, llm(nil))
	opt := options(t, m)
	opt.SearchWeb = web
	if _, _, err := run(t, runlog.NewMemory(nil), opt, heron(t)); err != nil {
		t.Fatal(err)
	}
	refused := map[string]int{}
	for _, r := range server.Requests() {
		last := r.Messages[len(r.Messages)-1]
		for _, p := range last.Parts {
			if text, ok := strings.CutPrefix(p.Text, "search_docs and web_search: no more of "); ok && p.Kind == model.Result {
				refused[text[:1]]++
			}
		}
	}
	if diff := cmp.Diff(map[string]int{"2": 1, "1": 4}, refused); diff != "" { // of the explorer, of the researchers
		t.Error(diff)
	}
}

// A model that does nothing it is asked to fails the run, which says what may be the matter.
func TestUselessModel(t *testing.T) {
	m, _ := talk(t, modeltest.Sequence(modeltest.Text("I would rather not.")))
	out, _, err := run(t, runlog.NewMemory(nil), options(t, m), heron(t))
	if err == nil || !strings.Contains(err.Error(), "it may not be able to call tools") || out.Text != "" {
		t.Errorf("%v: %s", err, out.Text)
	}
}

// A report that cannot be written is not lost: it is written when the run is resumed, and no model is asked for it again.
func TestReportIsWrittenOnResume(t *testing.T) {
	m, server := talk(t, llm(nil))
	store := runlog.NewMemory(nil)
	in := heron(t)
	dir := t.TempDir()
	in.Report = filepath.Join(dir, "out", "brief.md")
	opt := options(t, m)
	block := false
	opt.Model = func(string) (model.Model, error) { // the last thing before the graph begins
		if !block {
			block = true
			return m, nil
		}
		_ = os.WriteFile(filepath.Join(dir, "out"), nil, 0o600)
		return m, nil
	}
	_, _, err := run(t, store, opt, in)
	if err == nil || !strings.Contains(err.Error(), "the report is done but cannot be written") {
		t.Fatal(err)
	}
	asked := len(server.Requests())
	if err := os.Remove(filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	opt.Model = func(string) (model.Model, error) { return m, nil }
	out, _, err := run(t, store, opt, in)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(out.Report); err != nil || string(b) != marked(out.Text) || len(server.Requests()) != asked {
		t.Errorf("%v; %d requests, then %d", err, asked, len(server.Requests()))
	}
}

// A failing model fails the run, after as many attempts as a failure that may pass
// deserves, and the run can be resumed.
func TestModelFails(t *testing.T) {
	for _, tc := range []struct {
		status, fail, attempts int
	}{{401, 1, 1}, {503, 4, 3}} {
		t.Run(fmt.Sprint(tc.status), func(t *testing.T) {
			good := llm(nil)
			var mu sync.Mutex
			left := 1000
			m, _ := talk(t, func(r *modeltest.ParsedRequest) modeltest.Reply {
				mu.Lock()
				defer mu.Unlock()
				if left--; left >= 0 {
					return modeltest.Failure(tc.status, "")
				}
				return good(r)
			})
			store, opt, in := runlog.NewMemory(nil), options(t, m), heron(t)
			_, _, err := run(t, store, opt, in)
			var fail *model.Error
			if !errors.As(err, &fail) || fail.Status != tc.status {
				t.Fatal(err)
			}
			attempts := 0
			for r, err := range runlog.Records(t.Context(), store, "r1", 0) {
				if err != nil {
					t.Fatal(err)
				}
				if r.Kind == runlog.KindTaskFailed {
					attempts++
				}
			}
			if attempts != tc.attempts {
				t.Errorf("%d attempts, want %d", attempts, tc.attempts)
			}
			mu.Lock()
			left = 0
			mu.Unlock()
			out, _, err := run(t, store, opt, in)
			if err != nil {
				t.Fatal(err)
			}
			checkRun(t, out)
		})
	}
}

// tavily is a tool to search the web with, of which there is one page.
func tavily(t testing.TB) *tool.Tool {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"answer":"After an hour.","results":[{"title":"Heron","url":"https://heron.example/retries","content":"A failed job is retried with backoff. The backoff of a failed job\nnever exceeds an hour."},`+
			`{"title":"Other","url":"https://other.example/x","content":"Another page says that a failed job is retried ten times."}]}`)
	}))
	t.Cleanup(srv.Close)
	service, err := builtin.Tavily(builtin.WebOptions{APIKey: "key", BaseURL: srv.URL, HTTPClient: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	w, err := builtin.WebSearch(service)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// The web can be searched instead of documents, or if they do not answer. A search costs money: one is made.
func TestWeb(t *testing.T) {
	docs := t.TempDir()
	if err := os.WriteFile(filepath.Join(docs, "a.md"), []byte("The console prints green colours.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const question = "When is a failed job retried?"
	for _, docs := range []string{"", docs} {
		opt := options(t, offline.New())
		asked := 0
		opt.SearchWeb = tavily(t)
		search := opt.SearchWeb.Run
		opt.SearchWeb.Run = func(ctx context.Context, c *tool.Call) (string, error) {
			asked++
			return search(ctx, c)
		}
		out, _, err := run(t, runlog.NewMemory(nil), opt, research.Inputs{Question: question, Docs: docs})
		if err != nil {
			t.Fatal(err)
		}
		want := []research.Passage{
			{Path: "https://heron.example/retries", Heading: "Heron", Text: "A failed job is retried with backoff. The backoff of a failed job never exceeds an hour."},
			{Path: "https://other.example/x", Heading: "Other", Text: "Another page says that a failed job is retried ten times."},
		}
		if diff := cmp.Diff(want, out.Passages); diff != "" || asked != 1 || !out.Answered || !strings.Contains(out.Text, "https://other.example/x [2]\n```text\nAnother page says that") {
			t.Errorf("%d searches\n%s\n%s", asked, diff, out.Text)
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(out.Text, "# "+question+"\n\n"), "\n")
		want1 := "The documents do not answer this; the web does:"
		if docs == "" {
			want1 = "## Answer"
		}
		if first != want1 || !strings.Contains(out.Text, "*Not verified*, the search service's own answer:\n> After an hour.\n") {
			t.Errorf("%s", out.Text)
		}
	}
}

// A web search that fails does not fail the run: the brief says why the web could not be searched.
func TestWebFails(t *testing.T) {
	docs, err := filepath.Abs("testdata/heron")
	if err != nil {
		t.Fatal(err)
	}
	const question = "Which orchids bloom in Antarctica?"
	for _, docs := range []string{"", docs} {
		opt := options(t, offline.New())
		opt.SearchWeb = tavily(t)
		opt.SearchWeb.Run = func(context.Context, *tool.Call) (string, error) { return "", errors.New("over\nquota") }
		out, _, err := run(t, runlog.NewMemory(nil), opt, research.Inputs{Question: question, Docs: docs})
		want := "# " + question + "\n\nThe web could not be searched: over�quota.\n\n\n---\n"
		if docs != "" {
			want = "The documents do not answer this.\n\nSearched: 8 files in " + docs + ". The web could not be searched: over�quota. No document has: "
		}
		if err != nil || out.Answered || !strings.Contains(out.Text, want) {
			t.Errorf("%v\n%s", err, out.Text)
		}
	}
}

// The web is searched only if the rules allow it unasked.
func TestWebIsAsked(t *testing.T) {
	for _, decision := range []tool.Decision{tool.Ask, tool.Deny} {
		opt := options(t, offline.New())
		opt.SearchWeb = tavily(t)
		opt.SearchWeb.Run = func(context.Context, *tool.Call) (string, error) {
			t.Errorf("%s: it is searched", decision)
			return "", nil
		}
		opt.Policy = func() (*permit.Policy, error) {
			return permit.New(&permit.Options{Rules: map[permit.Layer][]permit.Rule{permit.User: {{Decision: decision, Tool: "web_search"}}}})
		}
		docs, err := filepath.Abs("testdata/heron")
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := run(t, runlog.NewMemory(nil), opt, research.Inputs{Question: "Which orchids bloom in Antarctica?", Docs: docs})
		if err != nil || out.Answered || strings.Contains(out.Text, "the web") {
			t.Errorf("%s: %v\n%s", decision, err, out.Text)
		}
		var none *research.DocsError
		if _, _, err := run(t, runlog.NewMemory(nil), opt, research.Inputs{Question: "Which orchids?"}); !errors.As(err, &none) || !strings.Contains(err.Error(), "--allow web_search") {
			t.Errorf("%s: %v", decision, err)
		}
	}
}

// A run that dies again and again comes to the brief of one that did not, and pays for
// no turn twice but those that were under way when it died.
func TestCrashes(t *testing.T) {
	in := heron(t)
	m, server := talk(t, llm(nil))
	want, _, err := run(t, runlog.NewMemory(nil), options(t, m), in)
	if err != nil {
		t.Fatal(err)
	}
	turns := len(server.Requests())
	cache := t.TempDir()
	intervals := []int{3, 5, 8, 13}
	if testing.Short() {
		intervals = []int{4}
	}
	for _, every := range intervals {
		t.Run(fmt.Sprintf("every %d appends", every), func(t *testing.T) {
			m, server := talk(t, llm(nil))
			opt := options(t, m)
			opt.CacheDir = cache
			if err := os.Remove(in.Report); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			store := runlogtest.NewMortal()
			for crashes := 0; ; crashes++ {
				store.Revive()
				store.DieAt(every, crashes%2 == 0)
				if crashes > 200 {
					t.Fatal("it does not get on")
				}
				got, _, err := run(t, store, opt, in)
				if errors.Is(err, runlogtest.ErrCrash) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				checkRun(t, got)
				if crashes < 30/every-2 {
					t.Errorf("only %d crashes", crashes)
				}
				asked := server.Asked()
				if asked[""] != 0 || len(asked) != turns {
					t.Errorf("%d turns, want %d", len(asked), turns)
				}
				if n := len(server.Requests()) - turns; n > 3*(crashes+1) {
					t.Errorf("%d turns were paid for twice in %d crashes", n, crashes)
				}
				return
			}
		})
	}
}
