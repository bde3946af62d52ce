package research_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/builtin/research"
	"github.com/superstep-dev/superstep/internal/docindex"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run begins the run of a store, or continues with it.
func run(t testing.TB, store runlog.Store, opt *research.Options, in research.Inputs) (research.Output, *workflow.Result, error) {
	t.Helper()
	var out research.Output
	w, err := research.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Check(b); err != nil {
		return out, nil, err
	}
	infos, err := store.Runs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	jo := &journal.Options{}
	if len(infos) == 0 {
		jo.Create = &runlog.NewRun{Workflow: w.Name}
	}
	j, err := journal.Open(t.Context(), store, "r1", jo)
	if err != nil {
		t.Fatal(err)
	}
	res, err := w.Run(t.Context(), &workflow.Exec{Inputs: b, Journal: j, Graph: graph.RunOptions{Journal: j}})
	if cerr := j.Close(t.Context()); cerr != nil {
		t.Error(cerr)
	}
	if err == nil {
		if err := json.Unmarshal(res.Output, &out); err != nil {
			t.Fatal(err)
		}
	}
	return out, res, err
}

// options are those of a model. Indexes are built in the folder of the test.
func options(t testing.TB, m model.Model) *research.Options {
	return &research.Options{Model: func(string) (model.Model, error) { return m, nil }, CacheDir: t.TempDir(), Dir: t.TempDir()}
}

var (
	sourceLine = regexp.MustCompile("^\\[(\\d+)\\] `(.+):(\\d+)` — “(.+)”(?: \\(also in .+\\))?$")
	citation   = regexp.MustCompile(`\[(\d+)\]`)
)

// checkBrief checks every source of a brief against the documents: the quote stands in
// that line of that file. It gives how many there are, and fails if a citation has none.
func checkBrief(t testing.TB, docs, brief string) int {
	t.Helper()
	body, rest, ok := strings.Cut(brief, "\n## Sources\n")
	if !ok {
		t.Fatalf("the brief has no sources:\n%s", brief)
	}
	list, _, _ := strings.Cut(rest, "\n---\n")
	known := map[string]bool{}
	for l := range strings.Lines(list) {
		l = strings.TrimSpace(l)
		if l == "" || l == "None." {
			continue
		}
		m := sourceLine.FindStringSubmatch(l)
		if m == nil {
			t.Errorf("no source: %s", l)
			continue
		}
		n, _ := strconv.Atoi(m[3])
		if got := lineOf(t, filepath.Join(docs, m[2]), n); !strings.Contains(got, m[4]) {
			t.Errorf("%s\nbut that line is %q", l, got)
		}
		known[m[1]] = true
	}
	for _, m := range citation.FindAllStringSubmatch(regexp.MustCompile("(?s)“.*?”").ReplaceAllString(body, ""), -1) {
		if !known[m[1]] {
			t.Errorf("%s is cited and has no source", m[0])
		}
	}
	return len(known)
}

func lineOf(t testing.TB, file string, n int) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 16<<20)
	for ; s.Scan(); n-- {
		if n == 1 {
			return s.Text()
		}
	}
	return ""
}

// The checker itself must see what is wrong.
func TestCheckBrief(t *testing.T) {
	for _, brief := range []string{
		"A [1].\n\n## Sources\n\n[1] README.md:3 — “Heron is a job queue that lives in two files.”\n",
		"A [1].\n\n## Sources\n\n[1] README.md:4 — “Heron is a job queue”\n",
		"A [1].\n\n## Sources\n\n[1] NONE.md:4 — “Heron is a job queue”\n",
		"A [2].\n\n## Sources\n\n[1] README.md:3 — “Heron is a job queue”\n",
		"A [1].\n\n## Sources\n\n[1] README.md — “Heron is a job queue”\n",
	} {
		spy := &spy{TB: t}
		checkBrief(spy, "testdata/heron", brief)
		if !spy.failed {
			t.Errorf("this passed:\n%s", brief)
		}
	}
}

type spy struct {
	testing.TB
	failed bool
}

func (s *spy) Errorf(string, ...any) { s.failed = true }
func (s *spy) Error(...any)          { s.failed = true }

// checkPassages checks that the passages of an output are in the brief, and each line of them in its file.
func checkPassages(t testing.TB, docs string, out research.Output) {
	t.Helper()
	for _, p := range out.Passages {
		b, err := os.ReadFile(filepath.Join(docs, p.Path))
		if err != nil {
			t.Error(err)
			continue
		}
		lines := docindex.Text(p.Path, b)
		for i, l := range strings.Split(p.Text, "\n") {
			if n := p.Start + i; n > p.End || n > len(lines) || !strings.Contains(string(lines[n-1]), l) {
				t.Errorf("%s:%d-%d: line %d is not %q", p.Path, p.Start, p.End, n, l)
			}
			if !strings.Contains(out.Text, l) {
				t.Errorf("the brief lacks %q", l)
			}
		}
		if place := fmt.Sprintf("%s:%d", p.Path, p.Start); !strings.Contains(out.Text, place) {
			t.Errorf("the brief does not cite %s", place)
		}
	}
}

// The checker itself must see what is wrong.
func TestCheckPassages(t *testing.T) {
	good := research.Passage{Path: "README.md", Start: 3, End: 3, Text: "Heron is a job queue that lives in one file."}
	for name, change := range map[string]func(p *research.Passage){
		"":      func(*research.Passage) {},
		"text":  func(p *research.Passage) { p.Text = "Heron is a job queue that lives in two files." },
		"line":  func(p *research.Passage) { p.Start, p.End = 4, 4 },
		"path":  func(p *research.Passage) { p.Path = "NONE.md" },
		"range": func(p *research.Passage) { p.Text += "\nhidden from the others until its lease ends." },
	} {
		p, spy := good, &spy{TB: t}
		change(&p)
		checkPassages(spy, "testdata/heron", research.Output{Text: fmt.Sprintf("> %s\n%s:%d", p.Text, p.Path, p.Start), Passages: []research.Passage{p}})
		if spy.failed != (name != "") {
			t.Errorf("%s: failed is %v", name, spy.failed)
		}
	}
}

// Without a language model the brief is passages of the documents.
func TestOffline(t *testing.T) {
	docs, err := filepath.Abs("testdata/heron")
	if err != nil {
		t.Fatal(err)
	}
	out, res, err := run(t, runlog.NewMemory(nil), options(t, offline.New()), research.Inputs{Question: "When is a failed job retried?", Docs: docs, Report: "out/brief.md"})
	if err != nil {
		t.Fatal(err)
	}
	checkPassages(t, docs, out)
	if b, err := os.ReadFile(out.Report); err != nil || string(b) != marked(out.Text) {
		t.Errorf("the file is not the brief: %v", err)
	}
	if !out.Answered || len(out.Passages) < 3 || len(out.Directions) < 2 || len(out.Directions) > 4 || out.Searches < 2 || out.Searches > 6 || out.Model != "offline" || res.Steps < 5 {
		t.Errorf("%+v in %d steps", out, res.Steps)
	}
	at := 0
	for n, part := range []string{"# When is a failed job retried?\n\n## Answer\n\n", "\n\n*Agreement*: ", "\n\n## More\n\n", "\n\n## Where to look next\n\n", "\n\n## Sources\n\n[1] `" + out.Passages[0].Path + ":"} {
		i := strings.Index(out.Text[at:], part)
		if i < 0 || n == 0 && i > 0 {
			t.Fatalf("%q is not where it should be:\n%s", part, out.Text)
		}
		at += i
	}
	if first := out.Passages[0].Path; first != "guide/retries.md" && first != "internal/backoff.go" {
		t.Errorf("the answer is of %s", first)
	}
	if n := strings.Count(out.Text, "\n"); n > 60 {
		t.Errorf("%d lines", n)
	}
}

// What is asked about must not matter for whether the sources are true.
func TestOfflineOnRealDocuments(t *testing.T) {
	faults.Unraced(t)
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("there is no go command: %v", err)
	}
	runtime := filepath.Join(strings.TrimSpace(string(goroot)), "src", "runtime")
	if _, err := os.Stat(runtime); err != nil {
		t.Skip(err)
	}
	for docs, questions := range map[string][]string{
		runtime: {
			"How does the garbage collector decide when to start a cycle?", "How are goroutines scheduled onto operating system threads?",
			"What happens to a timer that is stopped?", "Why does a defer cost time?", "memory limit",
		},
		markdown(t, "github.com/terraform-providers/terraform-provider-aws@v1.60.0", "github.com/hashicorp/terraform-provider-azurerm@v1.44.0"): {
			"How do I enable versioning of an S3 bucket?", "What does a network security rule need?",
			"How is a DynamoDB table restored to a point in time?", "lifecycle rule",
		},
	} {
		if docs == "" {
			continue
		}
		opt := options(t, offline.New())
		for _, q := range questions {
			began := time.Now()
			out, _, err := run(t, runlog.NewMemory(nil), opt, research.Inputs{Question: q, Docs: docs})
			if err != nil {
				t.Errorf("%s: %v", q, err)
				continue
			}
			checkPassages(t, docs, out)
			t.Logf("%d passages, %v: %s", len(out.Passages), time.Since(began).Round(time.Millisecond), q)
			if len(out.Passages) < 1 {
				t.Errorf("%s: nothing is quoted:\n%s", q, out.Text)
			}
		}
	}
}

// module is the folder of a public module in the module cache, "" with the reason logged
// if it is not there and cannot be had.
func module(t testing.TB, version string) string {
	t.Helper()
	if testing.Short() {
		t.Log("not looking for " + version + " in short mode")
		return ""
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", version)
	cmd.Dir = t.TempDir() // outside of this module
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	b, err := cmd.Output()
	var info struct{ Dir, Error string }
	if jerr := json.Unmarshal(b, &info); jerr != nil || info.Dir == "" {
		t.Logf("%s is not available: %v %s", version, errors.Join(err, jerr), info.Error)
		return ""
	}
	return info.Dir
}

// markdown puts the Markdown of modules into one folder, and gives "" if they cannot be
// had. Together the two have more than a thousand files.
func markdown(t *testing.T, versions ...string) string {
	t.Helper()
	to, n := t.TempDir(), 0
	for i, version := range versions {
		dir := module(t, version)
		if dir == "" {
			return ""
		}
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".md") && !strings.HasSuffix(path, ".markdown") {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(dir, path)
			file := filepath.Join(to, fmt.Sprint(i), rel)
			n++
			return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, b, 0o644))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 1000 {
		t.Errorf("%d Markdown files in %v, want a thousand", n, versions)
	}
	return to
}

func TestInputs(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file.md")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	hidden := filepath.Join(t.TempDir(), ".git")
	if err := errors.Join(os.Mkdir(hidden, 0o700), os.WriteFile(filepath.Join(hidden, "a.md"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		in   research.Inputs
		want string
		as   any
	}{
		{"nothing to search", research.Inputs{Question: "q"}, "give a folder with --docs, or set TAVILY_API_KEY", new(*research.DocsError)},
		{"no such folder", research.Inputs{Question: "q", Docs: filepath.Join(dir, "none")}, "give a folder with --docs", new(*research.DocsError)},
		{"a file", research.Inputs{Question: "q", Docs: file}, "is a file", new(*research.DocsError)},
		{"an empty folder", research.Inputs{Question: "q", Docs: t.TempDir()}, "give another folder with --docs", new(*research.DocsError)},
		{"a folder of hidden files", research.Inputs{Question: "q", Docs: filepath.Dir(hidden)}, "give another folder with --docs", new(*research.DocsError)},
		{"too small a budget", research.Inputs{Question: "q", Docs: dir, MaxSearches: 1}, "max_searches: want at least 2", new(*workflow.InputsError)},
		{"a negative budget", research.Inputs{Question: "q", Docs: dir, MaxSearches: -6}, "max_searches: want at least 2", new(*workflow.InputsError)},
		{"no question", research.Inputs{Question: " ", Docs: dir}, "question: is empty", new(*workflow.InputsError)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := run(t, runlog.NewMemory(nil), options(t, offline.New()), tc.in)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !errors.As(err, tc.as) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			w, err := research.New(options(t, offline.New()))
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Settle(b); err == nil || !errors.As(err, tc.as) { // before there is a run
				t.Errorf("prepared with %v, want %q", err, tc.want)
			}
		})
	}
	errModel := errors.New("no such model")
	opt := options(t, nil)
	opt.Model = func(string) (model.Model, error) { return nil, errModel }
	if _, _, err := run(t, runlog.NewMemory(nil), opt, research.Inputs{Question: "q", Docs: dir}); !errors.Is(err, errModel) {
		t.Error(err)
	}
	if _, err := research.New(nil); err == nil {
		t.Error("no options were accepted")
	}
}

// The inputs that a run begins with mean the same wherever it is resumed, and name the model.
func TestPrepare(t *testing.T) {
	opt := options(t, offline.New())
	dir := opt.Dir
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "docs"), 0o755), os.WriteFile(filepath.Join(dir, "docs", "a.md"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w, err := research.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	sep := string(filepath.Separator)
	for report, want := range map[string]string{"": "", "docs": filepath.Join(dir, "docs") + sep, "new" + sep: filepath.Join(dir, "new") + sep, "b.md": filepath.Join(dir, "b.md")} {
		b, err := json.Marshal(research.Inputs{Question: "q", Docs: "docs", Report: report})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // what it gives stays as it is
			if b, err = w.Settle(b); err != nil {
				t.Fatal(err)
			}
		}
		var got research.Inputs
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(research.Inputs{Question: "q", Docs: filepath.Join(dir, "docs"), Model: "offline", MaxSearches: 6, Report: want}, got); diff != "" {
			t.Error(diff)
		}
	}
}

// A run without a language model that dies at any append comes to the same brief, byte for byte.
func TestOfflineCrashes(t *testing.T) {
	in, cache := heron(t), t.TempDir()
	opt := options(t, offline.New())
	opt.CacheDir = cache
	want, _, err := run(t, runlog.NewMemory(nil), opt, in)
	if err != nil {
		t.Fatal(err)
	}
	died := 0
	for n := 1; ; n++ {
		store := runlogtest.NewMortal()
		store.DieAt(n, n%2 == 0)
		_, _, err := run(t, store, opt, in)
		if err == nil && !store.Dead() {
			break
		}
		died++
		store.Revive()
		got, _, err := run(t, store, opt, in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("dead at append %d: %s", n, diff)
		}
		if b, err := os.ReadFile(got.Report); err != nil || string(b) != marked(want.Text) {
			t.Errorf("the file is not the brief: %v", err)
		}
	}
	if died < 12 {
		t.Errorf("it died only %d times", died)
	}
}

// What a search found is recorded: once it is, the run needs no documents and no index.
func TestSearchesAreRecorded(t *testing.T) {
	in := heron(t)
	docs := t.TempDir()
	if err := os.CopyFS(docs, os.DirFS(in.Docs)); err != nil {
		t.Fatal(err)
	}
	in.Docs = docs
	opt := options(t, offline.New())
	want, _, err := run(t, runlog.NewMemory(nil), opt, in)
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	store := runlogtest.NewMortal()
	for n := 1; len(asked) < want.Searches; n++ { // until the last search is in the log
		store = runlogtest.NewMortal()
		store.DieAt(n, true)
		if _, _, err := run(t, store, opt, in); !errors.Is(err, runlogtest.ErrCrash) {
			t.Fatal(n, err)
		}
		store.Revive()
		clear(asked)
		for r, err := range runlog.Records(t.Context(), store, "r1", 0) {
			if err != nil {
				t.Fatal(err)
			}
			var d runlog.Settled
			if r.Kind != runlog.KindSettled || json.Unmarshal(r.Data, &d) != nil || d.Kind != "tool" {
				continue
			}
			var found struct{ Text string }
			if json.Unmarshal(d.Output, &found) != nil || d.Name != "search_docs" || !strings.Contains(found.Text, ".md:") {
				t.Errorf("%s", r.Data)
			}
			if query := strings.ToLower(string(d.Input)); asked[query] {
				t.Errorf("searched twice: %s", query)
			} else {
				asked[query] = true
			}
		}
	}
	if err := errors.Join(os.RemoveAll(docs), os.Mkdir(docs, 0o700), os.WriteFile(filepath.Join(docs, "a.md"), []byte("Zebras.\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, _, err := run(t, store, opt, in); err != nil || got.Text != want.Text {
		t.Errorf("%v\n%s", err, cmp.Diff(want, got))
	}
}

// A question that the documents have nothing on is answered with that, and not with an error.
func TestNotAnswered(t *testing.T) {
	docs, err := filepath.Abs("testdata/heron")
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := run(t, runlog.NewMemory(nil), options(t, offline.New()), research.Inputs{Question: "Which orchids bloom in Antarctica?", Docs: docs})
	if err != nil {
		t.Fatal(err)
	}
	checkPassages(t, docs, out)
	body, ok := strings.CutPrefix(out.Text, "# Which orchids bloom in Antarctica?\n\nThe documents do not answer this.\n\nSearched: 8 files in "+docs+". No document has: ")
	if !ok || !strings.Contains(body, "Antarctica") || out.Answered || len(out.Passages) > 1 || strings.Contains(body, "## Answer") {
		t.Errorf("%+v", out)
	}
	if out.Searches != 1 {
		t.Errorf("%d searches", out.Searches)
	}
}

// marked is a brief as it is in its file.
func marked(brief string) string { return brief + "\n" + docindex.BriefMark + "\n" }

// A report that lies among the documents is no source of the next run, and there is none unless it is asked for.
func TestOwnReportIsNoSource(t *testing.T) {
	docs := t.TempDir()
	if err := os.CopyFS(docs, os.DirFS("testdata/heron")); err != nil {
		t.Fatal(err)
	}
	opt := options(t, offline.New())
	opt.Dir = docs
	for i, report := range []string{"./", "./", "guide/mine.md", "guide/mine.md", ""} {
		out, _, err := run(t, runlog.NewMemory(nil), opt, research.Inputs{Question: "When is a failed job retried?", Docs: docs, Report: report})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range out.Passages {
			if strings.Contains(p.Path, "brief-") || strings.Contains(p.Path, "mine") {
				t.Errorf("run %d: quotes %s", i, p.Path)
			}
		}
		if (out.Report != "") != (report != "") || report == "./" && filepath.Dir(out.Report) != docs {
			t.Errorf("run %d: report %q", i, out.Report)
		}
	}
	var there []string
	err := fs.WalkDir(os.DirFS(docs), ".", func(name string, d fs.DirEntry, err error) error {
		if strings.Contains(name, "brief") || strings.Contains(name, "mine") {
			there = append(there, name)
		}
		return err
	})
	if diff := cmp.Diff([]string{"brief-r1.md", "guide/mine.md"}, there); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func Example() {
	dir, err := os.MkdirTemp("", "research")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	w, err := research.New(&research.Options{
		Model:    func(string) (model.Model, error) { return offline.New(), nil },
		CacheDir: dir,
	})
	if err != nil {
		panic(err)
	}
	inputs, err := w.Parse([]string{"How", "long", "does", "a", "lease", "last?", "docs=testdata/heron"}, map[string][]string{"report": {filepath.Join(dir, "brief.md")}}, nil)
	if err != nil {
		panic(err)
	}
	j, err := journal.Open(context.Background(), runlog.NewMemory(nil), "r1", &journal.Options{Create: &runlog.NewRun{Workflow: w.Name}})
	if err != nil {
		panic(err)
	}
	res, err := w.Run(context.Background(), &workflow.Exec{Inputs: inputs, Journal: j, Graph: graph.RunOptions{Journal: j}})
	if err != nil {
		panic(err)
	}
	var out research.Output
	if err := json.Unmarshal(res.Output, &out); err != nil {
		panic(err)
	}
	title, _, _ := strings.Cut(out.Text, "\n")
	fmt.Println(title, out.Answered)
	// Output: # How long does a lease last? true
}

// TestSecretsAreNoDocuments: the folder that the user names is read, and neither its secrets nor what the rules deny.
func TestSecretsAreNoDocuments(t *testing.T) {
	in := heron(t)
	docs := t.TempDir()
	if err := os.CopyFS(docs, os.DirFS(in.Docs)); err != nil {
		t.Fatal(err)
	}
	in.Docs = docs
	for name, text := range map[string]string{".env": "TOKEN=quokka, how a failed job is retried\n", "private/plan.md": "# Plan\n\nA failed job is retried by a wombat.\n", "tls/server.pem": "a failed job is retried by a numbat\n"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(docs, name)), 0o700), os.WriteFile(filepath.Join(docs, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	looked := 0
	m, server := talk(t, func(r *modeltest.ParsedRequest) modeltest.Reply {
		turn, prompt := 0, r.Messages[0].Text()
		for _, m := range r.Messages {
			if m.Role == model.Assistant {
				turn++
			}
		}
		searches := slices.ContainsFunc(r.Tools, func(s model.ToolSpec) bool { return s.Name == "search_docs" })
		if !searches || turn > 0 && strings.Contains(prompt, "Direction: ") {
			if slices.ContainsFunc(r.Tools, func(s model.ToolSpec) bool { return s.Name == "findings" }) {
				return modeltest.Reply{Parts: []model.Part{call("findings", object{"findings": []finding{
					{"It is a secret.", "TOKEN=quokka, how a failed job is retried", ".env", 1}, {"It backs off.", "A failed job is retried with exponential backoff", "guide/retries.md", 3},
				}})}}
			}
			return llm(nil)(r)
		}
		if turn > 0 {
			return modeltest.Reply{Parts: []model.Part{call("directions", object{"directions": []object{{"topic": "retries", "priority": "high"}}})}}
		}
		looked++
		return modeltest.Reply{Parts: []model.Part{
			call("search_docs", object{"query": "quokka wombat numbat", "limit": 20}), call("search_docs", object{"query": "how a failed job is retried", "limit": 20}),
			call("grep", object{"pattern": "a failed job is retried", "ignore_case": true}), call("read_file", object{"path": ".env"}), call("read_file", object{"path": "private/plan.md"}),
		}}
	})
	opt := options(t, m)
	opt.Policy = func() (*permit.Policy, error) {
		rule, err := permit.Parse(tool.Deny, "read_file(private/**)", "")
		if err != nil {
			return nil, err
		}
		return permit.New(&permit.Options{Root: t.TempDir(), Rules: map[permit.Layer][]permit.Rule{permit.User: {rule}}})
	}
	out, _, err := run(t, runlog.NewMemory(nil), opt, in)
	if err != nil || looked == 0 {
		t.Fatal(looked, err)
	}
	for _, p := range out.Passages {
		if strings.HasPrefix(p.Path, ".env") {
			t.Errorf("a secret is a source: %+v", p)
		}
	}
	results := ""
	for _, req := range server.Requests() {
		for _, m := range req.Messages {
			for _, p := range m.Parts {
				if p.Kind == model.Result {
					results += p.Text + "\n"
				}
			}
		}
	}
	for _, word := range []string{"TOKEN", "by a wombat", "by a numbat"} {
		if strings.Contains(results, word) {
			t.Errorf("the model was given %q", word)
		}
	}
	if !strings.Contains(results, "exponential backoff") || !strings.Contains(results, "left out: ") {
		t.Errorf("the model was given:\n%s", results)
	}
}

// An imported run reads and writes in the folder of whoever imported it alone, with their model.
func TestImported(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	docs := filepath.Join(dir, "docs")
	for _, d := range []string{docs, outside} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "a.md"), []byte("A failed job is retried after thirty seconds.\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(outside, link); err != nil {
		t.Skip(err)
	}
	for _, tc := range []struct {
		name, docs, report string
		ok                 bool
	}{
		{"inside", docs, filepath.Join(dir, "brief.md"), true},
		{"in a folder that is not there yet", docs, filepath.Join(dir, "a", "b", "brief.md"), true},
		{"documents outside", outside, filepath.Join(dir, "none.md"), false},
		{"documents through a link", link, filepath.Join(dir, "none.md"), false},
		{"a report outside", docs, filepath.Join(outside, "brief.md"), false},
		{"a report through a link", docs, filepath.Join(link, "brief.md"), false},
		{"a report through a link and back", docs, link + "/../brief.md", false},
		{"a report above", docs, dir + "/../brief.md", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store := runlog.NewMemory(nil)
			l, _, err := store.Acquire(t.Context(), "r1", &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: research.Name}})
			if err == nil {
				data, merr := json.Marshal(runlog.RunStarted{Workflow: research.Name, Imported: &runlog.Imported{Dir: dir, Digest: "d", Nonce: "n"}})
				err = errors.Join(merr, l.Append(t.Context(), &runlog.Batch{Records: []runlog.Record{{Kind: runlog.KindRunStarted, Time: time.Unix(0, 0), Data: data}}}), l.Release(t.Context()))
			}
			if err != nil {
				t.Fatal(err)
			}
			opt := options(t, offline.New())
			var names []string
			opt.Model = func(name string) (model.Model, error) {
				names = append(names, name)
				return offline.New(), nil
			}
			_, _, err = run(t, store, opt, research.Inputs{Question: "When is a failed job retried?", Docs: tc.docs, Report: tc.report, Model: "dear/one"})
			if wrong := (*research.DocsError)(nil); tc.ok != (err == nil) || !tc.ok && !errors.As(err, &wrong) {
				t.Errorf("error %v", err)
			}
			if _, err := os.Stat(tc.report); tc.ok != (err == nil) {
				t.Errorf("the report is there: %v", err)
			}
			if tc.ok && names[len(names)-1] != "" {
				t.Errorf("it has asked for the models %q", names)
			}
		})
	}
}
