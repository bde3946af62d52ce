package console

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/runlog/stores"
)

const (
	failing = `name: fails
description: Reads a file that is not there.
steps:
  - id: plan
    tool: glob
    args: {pattern: "*.md"}
  - id: read
    depends_on: [plan]
    tool: read_file
    args: {path: nothing.txt}
  - id: report
    depends_on: [read]
    tool: glob
    args: {pattern: "*.md"}
output: "{{steps.report.output}}"
`
	broken = `name: broken
description: Has a mistake.
steps:
  - id: plan
    tool: glob
    args: {pattern: "*.md"}
  - id: write
    depends_on: [plam]
    tool: glob
    args: {pattern: "*.md"}
`
)

// A project of recipes: what is wrong is marked at its line, what failed runs again, forks are previewed, and edits are shown before they are taken.
func TestRecipes(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, ".superstep", "workflows")
	write := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(in, 0o755), os.WriteFile(filepath.Join(in, name+".yaml"), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("fails", failing)
	write("broken", broken)
	_, ts := serveIn(t, dir, &Options{Default: func(name string) string { return "the default of " + name }})
	page := pages(t, ts, "")
	post := func(path string, form url.Values, status int, want string) got {
		t.Helper()
		res, body := send(t, ts, "POST", path, "operator-token", form)
		if res.StatusCode != status || !strings.Contains(body, want) {
			t.Fatalf("%s gives %d: %s", path, res.StatusCode, body)
		}
		return res
	}
	page("/workflows/broken", 200, "depends_on: [plam]", `<span id="line-8" class="bad"`, "no step `plam`")
	post("/lint", url.Values{"text": {strings.Replace(broken, "plam", "plan", 1)}}, 200, "no problems")
	page("/workflows/fails", 200, "path: nothing.txt", "<svg")
	page("/settings", 200, "the default of max-agents")
	page("/tools/read_file", 200, "Rules about it", "read_file(**)")

	run := func() string {
		id := strings.TrimPrefix(post("/runs", url.Values{"workflow": {"fails"}}, 303, "").Header.Get("Location"), "/runs/")
		for end := time.Now().Add(time.Minute); !strings.Contains(page("/runs/"+id, 200), "! partial"); {
			if time.Now().After(end) {
				t.Fatal("it does not end")
			}
		}
		return id
	}
	id := run()
	page("/runs?tab=failed", 200, `<div class="sub">read</div>`) // where it failed
	page("/runs/"+id+"?task=report", 200, "It ran on the error text of read")
	page("/runs/"+id+"?task=plan&tab=output", 200, `class="prose"`)
	page("/runs/"+id+"/history?step=2&with=0", 200, "What changed since", `<option value="0" selected>`)
	page("/runs/"+id+"/history?step=0", 200, "State after 0 supersteps")
	page("/runs/"+id+"/history?step=2&with=9", 404)
	page("/runs/"+id+"/fork?from=read", 200, "computed next: read", "no effect of the run happens again", "runs fork "+id+" --from read")
	page("/runs/"+id+"/fork?from=nowhere", 422, "nowhere")

	// Again: from the list, of what failed only.
	post("/runs/bulk", url.Values{"do": {"again"}, "run": {id}, "to": {"//evil.example/"}}, 303, "")
	body := page("/runs", 200, `fork of <a href="/runs/`+id)
	i := strings.Index(body, `<tr id="run-`) + len(`<tr id="run-`)
	again := body[i : i+strings.IndexByte(body[i:], '"')]
	page("/diff?run="+id+"&run="+again, 200, "runs diff "+id+" "+again)
	page("/diff?run=a&run=b&run=c", 422, "Select two")

	// What only one of two runs did has no differences: the page tells which run.
	write("plans", strings.Replace(failing[:strings.Index(failing, "  - id: read")], "fails", "plans", 1))
	short := strings.TrimPrefix(post("/runs", url.Values{"workflow": {"plans"}}, 303, "").Header.Get("Location"), "/runs/")
	for end := time.Now().Add(time.Minute); !strings.Contains(page("/runs/"+short, 200), "✓ completed"); {
		if time.Now().After(end) {
			t.Fatal("it does not end")
		}
	}
	if body := page("/diff?a="+short+"&b="+id, 200, "only in "+id); strings.Contains(body, "only_b") || strings.Contains(body, "only in "+short) {
		t.Error(body)
	}

	// The recipe is edited: it is shown what has changed, and a fork takes the new one.
	page("/runs/"+id+"/definition", 200, "is as it was")
	write("fails", strings.Replace(failing, "nothing.txt", "notes.md", 1))
	if err := os.WriteFile(filepath.Join(dir, "notes.md"), []byte("# Notes\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	page("/runs/"+id, 200, "has changed since this run began")
	page("/runs/"+id+"/definition", 200, "path: notes.md", `class="add"`, "Fork with the edited one")
	fork := post("/runs/"+id+"/fork", url.Values{"from": {"edited"}}, 303, "").Header.Get("Location")
	for end := time.Now().Add(time.Minute); !strings.Contains(page(fork, 200), "✓ completed"); {
		if time.Now().After(end) {
			t.Fatal("the fork does not complete")
		}
	}
}

// Without a model, and for a recipe that is not trusted, the console names what to do about it, as far as that can be done here.
func TestNotReady(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, ".superstep", "workflows")
	const quotes = "name: quotes\ndescription: Quotes.\nsteps:\n  - id: answer\n    subagent: explorer\n    prompt: What is here?\n"
	if err := errors.Join(os.MkdirAll(in, 0o755), os.WriteFile(filepath.Join(in, "quotes.yaml"), []byte(quotes), 0o644)); err != nil {
		t.Fatal(err)
	}
	var served *httptest.Server
	open := func(trust bool) func(form url.Values) string {
		s, ts := serveIn(t, dir, &Options{Start: func(_ context.Context, s *Start) (string, error) { return "of-" + s.Model, nil }})
		home := t.TempDir()
		h, err := host.Open(t.Context(), &host.Config{Name: "superstep", Dir: dir, Env: func(k string) string { return map[string]string{"HOME": home, "PATH": os.Getenv("PATH")}[k] },
			Environ: []string{}, Stores: stores.All(), Settled: true, Settings: host.Settings{DataDir: filepath.Join(dir, "data"), TrustProject: trust, Offline: true}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Close() })
		s.host, served = h, ts
		return func(form url.Values) string {
			res, body := send(t, ts, "POST", "/runs", "operator-token", form, "Superstep-Fragment", "1")
			return body + res.Header.Get("Superstep-Location")
		}
	}
	post := open(false)
	if got := post(url.Values{"workflow": {"quotes"}}); !strings.Contains(got, "not trusted") || !strings.Contains(got, "superstep trust quotes") {
		t.Error(got)
	}
	post = open(true)
	for _, form := range []url.Values{{"workflow": {"quotes"}}, {"workflow": {"quotes"}, "queue": {"true"}}} {
		if got := post(form); !strings.Contains(got, "no model is configured\n") || !strings.Contains(got, "type offline into Model") || strings.Contains(got, "--model") {
			t.Errorf("%v: %s", form, got)
		}
	}
	if _, list := send(t, served, "GET", "/workflows", "operator-token", nil); strings.Count(list, "needs a model: none is configured") == 0 || strings.Count(list, "needs a model:") == strings.Count(list, "s-usable") {
		t.Error(list) // some need one, and quotes does not
	}
	if _, agent := send(t, served, "GET", "/agents/explorer", "operator-token", nil); !strings.Contains(agent, "An agent needs a language model") || strings.Contains(agent, "offline") {
		t.Error(agent)
	}
	if got := post(url.Values{"workflow": {"quotes"}, "model": {"offline"}}); got != "/runs/of-offline" {
		t.Error(got)
	}
}

// The history of a run lists the graphs inside of its tasks, and shows each as its own. A fork begins outside.
func TestHistoryInside(t *testing.T) {
	const rounds = `name: rounds
description: Goes through two rounds for each item.
steps:
  - id: items
    foreach:
      in: ["<b>", "b"]
      as: item
      steps:
        - id: rounds
          loop:
            max: 2
            steps:
              - {id: first, tool: glob, args: {pattern: "*.md"}}
              - {id: second, depends_on: [first], tool: glob, args: {pattern: "*.txt"}}
`
	dir := t.TempDir()
	in := filepath.Join(dir, ".superstep", "workflows")
	if err := errors.Join(os.MkdirAll(in, 0o755), os.WriteFile(filepath.Join(in, "rounds.yaml"), []byte(rounds), 0o644), os.WriteFile(filepath.Join(dir, "notes.md"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	_, ts := serveIn(t, dir, &Options{})
	res, _ := send(t, ts, "POST", "/runs", "operator-token", url.Values{"workflow": {"rounds"}})
	at := res.Header.Get("Location")
	page := pages(t, ts, at)
	for end := time.Now().Add(time.Minute); !strings.Contains(page("", 200), "✓ completed"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not complete")
		}
	}
	id := strings.TrimPrefix(at, "/runs/")
	page("/history", 200, "6 graphs inside of tasks", `<a href="`+at+`/history?inside=items%2f1%2frounds%2f2">items/1/rounds/2</a>`, `name="set"`)
	page("/history?inside=items%2f2", 200, "Inside of items/2", "<td>items/2/rounds</td>", `/history?step=0&amp;inside=items%2f2"`)
	body := page("/history?inside=items/1/rounds/2&step=1", 200, "Inside of items/1/rounds/2", `aria-current="true">items/1/rounds/2</a>`, "State after 1 superstep<", "notes.md",
		`<input type="hidden" name="inside" value="items/1/rounds/2">`, "runs history "+id+"@items/1/rounds/2", "runs show "+id+" --at @items/1/rounds/2/1 --state", "of the run's own graph")
	if strings.Contains(body, `name="set"`) {
		t.Error("the state of a graph inside of a task can be changed")
	}
	_, from, _ := strings.Cut(body, `name="from" value="`)
	from, _, _ = strings.Cut(from, `"`)
	page("/fork?from="+from, 200, "computed next: items", "runs fork "+id+" --from seq:")
	page("/history?inside=items/1&step=9", 404, "has no checkpoint")
	page("/history?inside=%3Cb%3E", 422, "no graph inside of &lt;b&gt;; there is one inside of: items/", "listed at "+at+"/history")
}

// Of many graphs inside of tasks the first are listed, and how many more there are.
func TestManyInside(t *testing.T) {
	items := make([]string, 60)
	for i := range items {
		items[i] = fmt.Sprint(i)
	}
	recipe := "name: many\ndescription: Looks at each.\nsteps:\n  - id: items\n    foreach:\n      in: [" + strings.Join(items, ", ") + "]\n      steps: [{id: look, tool: glob, args: {pattern: \"*\"}}]\n"
	dir := t.TempDir()
	in := filepath.Join(dir, ".superstep", "workflows")
	if err := errors.Join(os.MkdirAll(in, 0o755), os.WriteFile(filepath.Join(in, "many.yaml"), []byte(recipe), 0o644)); err != nil {
		t.Fatal(err)
	}
	_, ts := serveIn(t, dir, &Options{})
	res, _ := send(t, ts, "POST", "/runs", "operator-token", url.Values{"workflow": {"many"}})
	at := res.Header.Get("Location")
	page := pages(t, ts, at)
	for end := time.Now().Add(time.Minute); !strings.Contains(page("", 200), "✓ completed"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not complete")
		}
	}
	body := page("/history", 200, "60 graphs inside of tasks", "<li>and 10 more</li>")
	if n := strings.Count(body, "/history?inside="); n != 50 {
		t.Errorf("%d graphs are listed", n)
	}
}

// What was computed for the last keys is held, and no more of it.
func TestKept(t *testing.T) {
	k, made := kept[int]{most: 2}, 0
	get := func(key string) {
		if _, err := k.of(key, func() (int, error) { made++; return made, nil }); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"a", "b", "a", "c", "a", "b"} {
		get(key)
	}
	if made != 4 || len(k.vals) != 2 || len(k.keys) != 2 { // a, b, c, and b again
		t.Errorf("%d made, %v held", made, k.vals)
	}
	if _, err := k.of("x", func() (int, error) { return 0, errors.New("no") }); err == nil || len(k.vals) != 2 {
		t.Error("what fails is held")
	}
}

// pages returns a function that gets a page below an address, and checks its status and that some texts are in it.
func pages(t *testing.T, ts *httptest.Server, at string) func(path string, status int, want ...string) string {
	return func(path string, status int, want ...string) string {
		t.Helper()
		res, body := send(t, ts, "GET", at+path, "operator-token", nil)
		if res.StatusCode != status {
			t.Fatalf("%s gives %d: %s", path, res.StatusCode, body)
		}
		for _, w := range want {
			if !strings.Contains(body, w) {
				t.Errorf("%s lacks %q: %s", path, w, body)
			}
		}
		return body
	}
}
