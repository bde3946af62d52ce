package research_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/offline"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/research"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden file anew")

// run begins the run of a store, or goes on with it.
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
	jo := &runlog.JournalOptions{}
	if len(infos) == 0 {
		jo.Create = &runlog.NewRun{Workflow: w.Name}
	}
	j, err := runlog.OpenJournal(t.Context(), store, "r1", jo)
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
	sourceLine = regexp.MustCompile(`^\[(\d+)\] (.+):(\d+) — “(.+)”$`)
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

// The offline model answers from the documents, with sources that are true.
func TestOffline(t *testing.T) {
	docs, err := filepath.Abs("testdata/heron")
	if err != nil {
		t.Fatal(err)
	}
	out, res, err := run(t, runlog.NewMemory(nil), options(t, offline.New()), research.Inputs{Question: "When is a failed job retried?", Docs: docs, Report: "out/brief.md"})
	if err != nil {
		t.Fatal(err)
	}
	if n := checkBrief(t, "testdata/heron", out.Text); n < 4 {
		t.Errorf("only %d sources", n)
	}
	if b, err := os.ReadFile(out.Report); err != nil || string(b) != out.Text {
		t.Errorf("the file is not the brief: %v", err)
	}
	if len(out.Directions) < 2 || len(out.Directions) > 4 || out.Searches < 2 || out.Searches > 6 || out.Dropped != 0 || out.Model != "offline" || res.Steps < 5 {
		t.Errorf("%+v in %d steps", out, res.Steps)
	}
	for _, junk := range []string{"Copyright", "TODO", "TestBackoff", "w.MaxAttempts", "color: black"} {
		if strings.Contains(out.Text, junk) {
			t.Errorf("the brief has %q", junk)
		}
	}
	if *update {
		if err := os.WriteFile("testdata/brief.md", []byte(out.Text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/brief.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.Text); diff != "" {
		t.Errorf("testdata/brief.md (-want +got; -update if it is meant):\n%s", diff)
	}
}

// What is asked about must not matter for whether the sources are true.
func TestOfflineOnRealDocuments(t *testing.T) {
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
			n := checkBrief(t, docs, out.Text)
			t.Logf("%d sources, %d dropped, %v: %s", n, out.Dropped, time.Since(began).Round(time.Millisecond), q)
			if n < 1 || out.Dropped > 0 {
				t.Errorf("%s: %d sources, %d dropped:\n%s", q, n, out.Dropped, out.Text)
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
	for _, tc := range []struct {
		name string
		in   research.Inputs
		want string
		as   any
	}{
		{"nothing to search", research.Inputs{Question: "q"}, "give a folder with --docs, or set TAVILY_API_KEY", new(*research.DocsError)},
		{"no such folder", research.Inputs{Question: "q", Docs: filepath.Join(dir, "none")}, "give a folder with --docs", new(*research.DocsError)},
		{"a file", research.Inputs{Question: "q", Docs: file}, "is a file", new(*research.DocsError)},
		{"too small a budget", research.Inputs{Question: "q", Docs: dir, MaxSearches: 1}, "max_searches: want at least 2", new(*workflow.InputsError)},
		{"a negative budget", research.Inputs{Question: "q", Docs: dir, MaxSearches: -6}, "max_searches: want at least 2", new(*workflow.InputsError)},
		{"no question", research.Inputs{Question: " ", Docs: dir}, "question: is empty", new(*workflow.InputsError)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := run(t, runlog.NewMemory(nil), options(t, offline.New()), tc.in)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !errors.As(err, tc.as) {
				t.Errorf("%v, want %q", err, tc.want)
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

// The inputs that a run begins with mean the same wherever it is taken up, and name the model.
func TestPrepare(t *testing.T) {
	opt := options(t, offline.New())
	dir := opt.Dir
	if err := os.Mkdir(filepath.Join(dir, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := research.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	sep := string(filepath.Separator)
	for report, want := range map[string]string{"": dir + sep, "docs": filepath.Join(dir, "docs") + sep, "new" + sep: filepath.Join(dir, "new") + sep, "b.md": filepath.Join(dir, "b.md")} {
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

// A question that the documents have nothing on is answered with that, and not with an error.
func TestNothingFound(t *testing.T) {
	docs, err := filepath.Abs("testdata/heron")
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := run(t, runlog.NewMemory(nil), options(t, offline.New()), research.Inputs{Question: "Which orchids bloom in Antarctica?", Docs: docs})
	if err != nil {
		t.Fatal(err)
	}
	if n := checkBrief(t, docs, out.Text); n != 0 || !strings.Contains(out.Text, "Nothing was found") {
		t.Errorf("%d sources:\n%s", n, out.Text)
	}
}

// A folder without documents is a mistake that should be heard of.
func TestEmptyFolder(t *testing.T) {
	_, _, err := run(t, runlog.NewMemory(nil), options(t, offline.New()), research.Inputs{Question: "Which orchids bloom in Antarctica?", Docs: t.TempDir()})
	var docs *research.DocsError
	if !errors.As(err, &docs) || !strings.Contains(err.Error(), "give another folder with --docs") {
		t.Errorf("got %v", err)
	}
}

// A report that lies among the documents is no source of the next run.
func TestOwnReportIsNoSource(t *testing.T) {
	docs := t.TempDir()
	if err := os.CopyFS(docs, os.DirFS("testdata/heron")); err != nil {
		t.Fatal(err)
	}
	opt := options(t, offline.New())
	opt.Dir = docs
	for i := range 2 {
		out, _, err := run(t, runlog.NewMemory(nil), opt, research.Inputs{Question: "When is a failed job retried?", Docs: docs})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.Text, "brief-") || filepath.Dir(out.Report) != docs {
			t.Errorf("run %d: %s\n%s", i, out.Report, out.Text)
		}
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
	inputs, err := w.Parse([]string{"How", "long", "does", "a", "lease", "last?", "docs=testdata/heron"}, map[string][]string{"report": {filepath.Join(dir, "brief.md")}})
	if err != nil {
		panic(err)
	}
	journal, err := runlog.OpenJournal(context.Background(), runlog.NewMemory(nil), "r1", &runlog.JournalOptions{Create: &runlog.NewRun{Workflow: w.Name}})
	if err != nil {
		panic(err)
	}
	res, err := w.Run(context.Background(), &workflow.Exec{Inputs: inputs, Journal: journal, Graph: graph.RunOptions{Journal: journal}})
	if err != nil {
		panic(err)
	}
	var out research.Output
	if err := json.Unmarshal(res.Output, &out); err != nil {
		panic(err)
	}
	fmt.Println(out.Sources[0].Place, out.Sources[0].Quote)
	// Output: guide/leases.md:3 The lease lasts thirty seconds and is renewed every ten, so a
}
