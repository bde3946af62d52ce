package rundir_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/archive"
	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/internal/rundir"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = "sk-Ab3dEfGhIjKlMnOpQrStUvWxYz"
	prompt = "How does a run survive a crash?"
)

type job struct {
	Task string `json:"task"`
}

type result struct {
	Text string `json:"text"`
	List string `json:"list"`
	Kind string `json:"kind"`
}

// run executes a workflow with agents in a fan, and gives its store and ID.
func run(t testing.TB, inputs string) (store *runlog.Memory, id string) {
	t.Helper()
	type query struct {
		Query string `json:"query"`
	}
	search, err := tool.New("search", "Search the notes.", func(_ context.Context, in query) (string, error) {
		return "## notes.md:3-3\n3\tA run survives a crash because every step is in its log " + secret + ".\n", nil
	}, &tool.Options{Effect: tool.Idempotent}) // so that there is an intent
	if err != nil {
		t.Fatal(err)
	}
	tools, err := tool.NewSet(search)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent.Agent{Name: "reader", Prompt: "Answer from the notes.", Model: offline.New(), Tools: tools}
	g := graph.New("job", func(s, u []string) []string { return append(s, u...) })
	g.Add("plan", func(context.Context, []string) ([]string, error) { return nil, nil })
	g.AddNode(graph.Node[[]string, []string]{Name: "part", Run: func(ctx context.Context, task *graph.Task, _ []string) ([]string, error) {
		out, err := a.Run(ctx, task.Scope(), &agent.Work{Prompt: prompt})
		if err == nil {
			_, err = a.Run(ctx, task.Scope(), &agent.Work{Key: "second", Prompt: prompt})
		}
		if err != nil {
			return nil, err
		}
		return []string{out.Text}, task.Emit(ctx, "note", map[string]string{"text": "half\x1b[31m way"})
	}})
	g.Edge(graph.Start, "plan")
	g.Fan("plan", func([]string) []graph.Send {
		return []graph.Send{{To: "part", Key: "with:special*chars"}, {To: "part", Key: "WITH/special chars"}}
	}, "part")
	g.Edge("part", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("job", "A job.", flow, func(in job) ([]string, error) { return []string{in.Task}, nil }, func(s []string) (result, error) {
		if s[0] == "fail" {
			return result{}, errors.New("it \x1b[1mcannot be done")
		}
		return result{Text: "# Report\n" + s[1], List: "- a\n- b\n", Kind: "brief"}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	store = runlog.NewMemory(nil)
	e, err := superstep.New(store, &superstep.Options{Workflows: []*workflow.Workflow{w}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r, err := e.Start(t.Context(), "job", json.RawMessage(inputs), &superstep.StartOptions{Title: "a job with " + secret})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store, r.ID()
}

func files(t testing.TB, dir string) (names []string, all map[string]string) {
	t.Helper()
	all = map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		if d.IsDir() {
			return nil
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		name = filepath.ToSlash(name)
		names = append(names, name)
		all[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names, all
}

func TestDirectory(t *testing.T) {
	t.Parallel()
	store, id := run(t, `{"task":"do it"}`)
	dir := filepath.Join(t.TempDir(), "runs", id)
	if err := rundir.Write(t.Context(), store, id, dir, &rundir.Options{Log: true}); err != nil {
		t.Fatal(err)
	}
	names, all := files(t, dir)
	want := []string{
		"agents/part_WITH_2Fspecial_chars.json", "agents/part_WITH_2Fspecial_chars_second.json",
		"agents/part_with_special_chars.json", "agents/part_with_special_chars_second.json",
		"logs/run.jsonl", "logs/run.log", "reports/list.md", "reports/report.md", "run.json",
	}
	slices.Sort(names)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	for name, text := range all {
		if strings.Contains(text, secret) || strings.Contains(text, "\x1b") {
			t.Errorf("%s has what it must not: %s", name, text)
		}
	}
	if !strings.HasPrefix(all["reports/report.md"], "# Report\n") || all["reports/list.md"] != "- a\n- b\n" {
		t.Errorf("the reports are %q and %q", all["reports/report.md"], all["reports/list.md"])
	}
	var got struct {
		ID, Workflow, Title string
		Status              runlog.Status
		Redacted            bool
		Records             int
		Agents              int
		Inputs, Output      json.RawMessage
		Usage               struct{ In, Out int }
		Steps               []struct {
			Done  bool
			Tasks []struct {
				Task, Step, Key, State, Agent string
				Tools                         int
			}
		}
	}
	if err := json.Unmarshal([]byte(all["run.json"]), &got); err != nil {
		t.Fatal(err)
	}
	if got.ID != id || got.Workflow != "job" || got.Title != "a job with [redacted]" || got.Status != runlog.Completed || !got.Redacted || got.Agents != 4 ||
		got.Records == 0 || got.Usage.In == 0 || len(got.Steps) != 2 || len(got.Steps[1].Tasks) != 2 || !got.Steps[1].Done || !strings.Contains(string(got.Inputs), "do it") ||
		!strings.Contains(string(got.Output), "brief") {
		t.Errorf("run.json has %+v", got)
	}
	if task := got.Steps[1].Tasks[1]; task.Step != "part" || task.Key != "with:special*chars" || task.State != "done" || task.Agent != "reader" || task.Tools == 0 {
		t.Errorf("its task is %+v", task)
	}
	var one struct {
		Agent, Task, Use, Model, State, Prompt, Result string
		Turns                                          int
		Usage                                          struct{ In int }
		Calls                                          []struct {
			Tool, Result string
			Input        struct{ Query string }
		}
	}
	if err := json.Unmarshal([]byte(all["agents/part_with_special_chars_second.json"]), &one); err != nil {
		t.Fatal(err)
	}
	if one.Agent != "reader" || one.Use != "second" || one.State != "done" || one.Prompt != prompt || !strings.Contains(one.Result, "survives") || one.Turns < 2 || one.Usage.In == 0 ||
		len(one.Calls) == 0 || one.Calls[0].Tool != "search" || one.Calls[0].Input.Query == "" || !strings.Contains(one.Calls[0].Result, "[redacted]") {
		t.Errorf("the agent is %+v", one)
	}
	log := all["logs/run.log"]
	for _, line := range []string{"the run of job starts: a job with [redacted]", "agent reader is done", "tool search is done", "half way", "superstep 1 is committed", "the run ends after 2 supersteps"} {
		if !strings.Contains(log, line) {
			t.Errorf("the log has no %q:\n%s", line, log)
		}
	}
	there := runlog.NewMemory(nil)
	if info, err := archive.Import(t.Context(), there, strings.NewReader(all["logs/run.jsonl"]), nil); err != nil || info.ID != id {
		t.Errorf("%+v, error %v", info, err)
	}
}

// A second writing replaces what has changed and leaves the rest alone.
func TestRefresh(t *testing.T) {
	t.Parallel()
	store, id := run(t, `{"task":"do it"}`)
	dir := t.TempDir()
	write := func(opt *rundir.Options) {
		t.Helper()
		if err := rundir.Write(t.Context(), store, id, dir, opt); err != nil {
			t.Fatal(err)
		}
	}
	write(nil)
	kept, changed, own := filepath.Join(dir, "agents", "part_with_special_chars.json"), filepath.Join(dir, "run.json"), filepath.Join(dir, "mine.txt")
	old := time.Unix(1e9, 0)
	for _, path := range []string{kept, changed} {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{changed, own} {
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(nil)
	if info, err := os.Stat(kept); err != nil || !info.ModTime().Equal(old) {
		t.Errorf("a file that had not changed was written: %v, error %v", info, err)
	}
	if b, err := os.ReadFile(changed); err != nil || len(b) < 10 {
		t.Errorf("a file that had changed was not: %s, error %v", b, err)
	}
	if b, err := os.ReadFile(own); err != nil || string(b) != "mine" {
		t.Errorf("another's file became %s, error %v", b, err)
	}
	write(&rundir.Options{Plain: true})
	if b, _ := os.ReadFile(kept); !strings.Contains(string(b), secret) {
		t.Errorf("in plain it is %s", b)
	}
	write(&rundir.Options{Redactor: redact.New(redact.Secret{Name: "PROMPT", Value: prompt})})
	if b, _ := os.ReadFile(kept); !strings.Contains(string(b), "[redacted:PROMPT]") || strings.Contains(string(b), secret) {
		t.Errorf("redacted it is %s", b)
	}
}

func TestUnfinished(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	store, id := run(t, `{"task":"fail"}`)
	if err := rundir.Write(t.Context(), store, id, dir, nil); err != nil {
		t.Fatal(err)
	}
	_, all := files(t, dir)
	if !strings.Contains(all["run.json"], `"message": "it cannot be done"`) || !strings.Contains(all["logs/run.log"], "the run fails (task): it cannot be done") {
		t.Errorf("%s\n%s", all["run.json"], all["logs/run.log"])
	}
	if err := rundir.Write(t.Context(), store, "gone", dir, nil); !errors.As(err, new(*runlog.NotFoundError)) {
		t.Error(err)
	}
	blocked := filepath.Join(dir, "run.json") // a file where the directory should be
	if err := rundir.Write(t.Context(), store, id, blocked, nil); err == nil || !strings.Contains(err.Error(), id) {
		t.Error(err)
	}
	l, _, err := store.Acquire(t.Context(), "empty", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, recs := range [][]runlog.Record{nil, {
		{Kind: runlog.KindSettled, Path: "a", Time: time.Unix(1, 0), Data: json.RawMessage(`{"kind":"agent","key":"agent","input":[1]}`)},
		{Kind: runlog.KindSettled, Path: "A", Time: time.Unix(1, 0), Data: json.RawMessage(`{"kind":"agent","key":"agent"}`)},
		{Kind: runlog.KindSettled, Path: "a", Time: time.Unix(1, 0), Data: json.RawMessage(`{"kind":"model","key":"turn-","output":{"message":5}}`)},
		{Kind: runlog.KindSettled, Path: "a", Time: time.Unix(1, 0), Data: json.RawMessage(`{"kind":"tool","key":"turn-x"}`)},
		{Kind: runlog.KindSettled, Path: "a", Time: time.Unix(1, 0), Data: json.RawMessage(`[]`)},
		{Kind: runlog.KindRunFinished, Time: time.Unix(1, 0), Data: json.RawMessage(`{"output":{"../../etc":"a\nb","text":5,"con":"c\nd"}}`)},
	}} {
		if err := l.Append(t.Context(), &runlog.Batch{Records: recs}); err != nil {
			t.Fatal(err)
		}
		if err := rundir.Write(t.Context(), store, "empty", filepath.Join(dir, "empty"), nil); err != nil {
			t.Error(err)
		}
	}
	names, _ := files(t, filepath.Join(dir, "empty"))
	slices.Sort(names)
	if want := []string{"agents/A-2.json", "agents/a.json", "logs/run.log", "reports/_con.md", "reports/etc.md", "run.json"}; !slices.Equal(names, want) {
		t.Errorf("the files are %q", names)
	}
}

func TestFileName(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]string{
		"step/with:special*chars": "step_with_special_chars",
		"gather":                  "gather",
		"part[a b]#2":             "part_a_b_2",
		"":                        "unnamed",
		"///":                     "unnamed",
		"..":                      "unnamed",
		"../../etc/passwd":        "etc_passwd",
		".hidden":                 "hidden",
		"ends.":                   "ends",
		"CON":                     "_CON",
		"lpt1.txt":                "_lpt1.txt",
		"comet":                   "comet",
		"a\x00b\nc":               "a_b_c",
		"日本":                      "unnamed",
		strings.Repeat("x", 300):  strings.Repeat("x", 80),
	} {
		if got := rundir.FileName(label); got != want {
			t.Errorf("%q became %q, want %q", label, got, want)
		}
	}
}

// A folder that is updated while the run works holds what one holds that is written at the end, and reads each record once.
func TestUpdate(t *testing.T) {
	t.Parallel()
	source, id := run(t, `{"task":"do it"}`)
	store := &counting{Store: runlog.NewMemory(nil)}
	l, _, err := store.Acquire(t.Context(), id, &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "job", Title: "a job"}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(2e9, 0)
	opt := &rundir.Options{Now: func() time.Time { return now }}
	dir := filepath.Join(t.TempDir(), id)
	folder := rundir.Open(store, id, dir, opt)
	total := 0
	for rec, err := range runlog.Records(t.Context(), source, id, 1) {
		if err != nil {
			t.Fatal(err)
		}
		total++
		b := &runlog.Batch{Records: []runlog.Record{{Kind: rec.Kind, Path: rec.Path, Time: rec.Time, Data: rec.Data}}}
		switch {
		case total == 5:
			b.Status = runlog.Paused // of which the log has no record
		case rec.Kind == runlog.KindRunFinished:
			b.Status = runlog.Completed
		default:
			b.Status = runlog.Running
		}
		if err := l.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if err := folder.Update(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if most := total + 5; store.records > most {
		t.Errorf("%d records were read of %d, want at most %d", store.records, total, most)
	}
	whole := filepath.Join(t.TempDir(), id)
	if err := rundir.Write(t.Context(), store, id, whole, opt); err != nil {
		t.Fatal(err)
	}
	_, got := files(t, dir)
	_, want := files(t, whole)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
