package archive_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
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
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/archive"
	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/runlog/seal"
	"github.com/superstep-dev/superstep/runlog/sqlite"
	"github.com/superstep-dev/superstep/workflow"
)

// TestMain is also the main function of the processes that TestKilledImport starts.
func TestMain(m *testing.M) {
	if kind := os.Getenv("TEST_IMPORT"); kind != "" {
		err := importAndHang(kind, os.Getenv("TEST_IMPORT_STORE"), os.Getenv("TEST_IMPORT_FILE"), os.Getenv("TEST_IMPORT_AT"))
		fmt.Println("it ended:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

type job struct {
	Task string `json:"task"`
}

// flow fans out, does effects, has a graph in a graph, fails once, and asks.
func flow(t testing.TB) *workflow.Workflow {
	t.Helper()
	merge := func(s, u []string) []string { return append(s, u...) }
	effect := func(ctx context.Context, task *graph.Task, _ []string) ([]string, error) {
		v, err := graph.Do(ctx, "look", func(context.Context, string) (string, error) {
			return fmt.Sprintf("%s saw <b>&\u2028 hunter2hunter2", task.Scope().Path()), nil
		})
		return []string{v}, errors.Join(err, task.Emit(ctx, "note", map[string]string{"text": "nearly"}))
	}
	inner := graph.New("inner", merge)
	inner.AddNode(graph.Node[[]string, []string]{Name: "x", Run: effect})
	inner.AddNode(graph.Node[[]string, []string]{Name: "y", Run: effect})
	inner.Edge(graph.Start, "x")
	inner.Edge("x", "y")
	inner.Edge("y", graph.End)
	sub, err := inner.Compile()
	if err != nil {
		t.Fatal(err)
	}
	g := graph.New("job", merge)
	g.Add("plan", func(context.Context, []string) ([]string, error) { return []string{"plan"}, nil })
	g.AddNode(graph.Node[[]string, []string]{Name: "part", Run: effect, Retry: &graph.Retry{Attempts: 2, Backoff: time.Millisecond}})
	g.AddNode(graph.Sub[[]string, []string]("sub", sub, func(s []string) ([]string, error) { return s, nil }, func(s []string) ([]string, error) { return s[len(s)-1:], nil }))
	g.AddNode(graph.Node[[]string, []string]{Name: "ask", Run: func(ctx context.Context, task *graph.Task, _ []string) ([]string, error) {
		a, err := task.Scope().Ask(ctx, &runlog.Question{Key: "q", Text: "Go on?"})
		return []string{string(a)}, err
	}})
	g.Add("end", func(context.Context, []string) ([]string, error) { return []string{strings.Repeat("end", 10_000)}, nil })
	g.Edge(graph.Start, "plan")
	g.Fan("plan", func([]string) []graph.Send { return []graph.Send{{To: "part", Key: "a"}, {To: "part", Key: "b"}} }, "part")
	g.Edge("part", "sub")
	g.Edge("sub", "ask")
	g.Edge("ask", "end")
	g.Edge("end", graph.End)
	f, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("job", "A job.", f, func(in job) ([]string, error) { return []string{in.Task}, nil }, func(s []string) (string, error) { return strings.Join(s, " "), nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func engine(t testing.TB, store runlog.Store) *superstep.Engine {
	t.Helper()
	trusted := func(*runlog.Imported) (bool, error) { return true, nil }
	e, err := superstep.New(store, &superstep.Options{Workflows: []*workflow.Workflow{flow(t)}, Trusted: trusted})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func wait(t testing.TB, r *superstep.Run, want runlog.Status) {
	t.Helper()
	out, err := r.Wait(t.Context())
	if err != nil || out.Status != want {
		t.Fatalf("it ended as %+v, error %v", out, err)
	}
}

// paused makes a run that waits for an answer.
func paused(t testing.TB, e *superstep.Engine) (id string) {
	t.Helper()
	r, err := e.Start(t.Context(), "job", json.RawMessage(`{"task":"do it"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, r, runlog.Paused)
	return r.ID()
}

func finish(t testing.TB, e *superstep.Engine, id string) {
	t.Helper()
	for _, q := range []string{"ask"} {
		if err := e.Answer(t.Context(), id, q, &runlog.Answer{Value: json.RawMessage(`"yes"`), By: "person"}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := e.Resume(t.Context(), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, r, runlog.Completed)
}

func export(t testing.TB, store runlog.Store, id string, r *redact.Redactor) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := archive.Export(t.Context(), store, id, &b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(t testing.TB, store runlog.Store, id string) []runlog.Record {
	t.Helper()
	recs, err := store.Read(t.Context(), id, 1, math.MaxInt32)
	if err != nil {
		t.Fatal(err)
	}
	return recs
}

func info(t testing.TB, store runlog.Store, id string) runlog.Info {
	t.Helper()
	infos, err := store.Runs(t.Context(), &runlog.Filter{ID: id})
	if err != nil || len(infos) != 1 {
		t.Fatalf("%v, error %v", infos, err)
	}
	return infos[0]
}

// epochs are the numbers of records of each epoch.
func epochs(recs []runlog.Record) (counts []int) {
	for i := range recs {
		if i == 0 || recs[i].Epoch != recs[i-1].Epoch {
			counts = append(counts, 0)
		}
		counts[len(counts)-1]++
	}
	return counts
}

// same checks that two runs say the same.
func same(t testing.TB, a runlog.Store, ida string, b runlog.Store, idb string) {
	t.Helper()
	one, two := read(t, a, ida), read(t, b, idb)
	if diff := cmp.Diff(epochs(one), epochs(two)); diff != "" {
		t.Error(diff)
	}
	if !slices.EqualFunc(one, two, func(a, b runlog.Record) bool {
		if a.Seq == 1 { // which the import marks
			a.Data, b.Data = unmarked(t, a.Data), unmarked(t, b.Data)
		}
		return a.Seq == b.Seq && a.Time.Equal(b.Time) && a.Kind == b.Kind && a.Path == b.Path && bytes.Equal(a.Data, b.Data) && bytes.Equal(a.Attachment, b.Attachment)
	}) {
		t.Errorf("%v\nbecame\n%v", one, two)
	}
	x, y := info(t, a, ida), info(t, b, idb)
	want := x.Status
	switch want {
	case runlog.Running, runlog.Interrupted, runlog.Quarantined, runlog.WaitingStorage: // nobody executes an import by itself
		want = runlog.Paused
	}
	if x.Workflow != y.Workflow || x.Title != y.Title || y.Status != want || y.Parent != "" || x.Head != y.Head || x.Snapshot != y.Snapshot || y.Owner != "" || y.Takeovers != 0 {
		t.Errorf("%+v became %+v", x, y)
	}
}

// unmarked is a first record without the mark.
func unmarked(t testing.TB, data []byte) []byte {
	t.Helper()
	var d runlog.RunStarted
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	d.Imported = nil
	b, err := json.Marshal(&d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func stores(t testing.TB) map[string]runlog.Store {
	t.Helper()
	disk, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { disk.Close() })
	sealed, err := seal.New(runlog.NewMemory(nil), seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]runlog.Store{"memory": runlog.NewMemory(nil), "sqlite": disk, "sealed": sealed}
}

// A run goes on where it was, in whatever store it is carried to, and its history and its
// replay are those of the original.
func TestRunsGoOnElsewhere(t *testing.T) {
	t.Parallel()
	home := runlog.NewMemory(nil)
	e := engine(t, home)
	id := paused(t, e)
	half := export(t, home, id, nil)
	finish(t, e, id)
	whole := export(t, home, id, nil)
	for name, store := range stores(t) {
		there := engine(t, store)
		got, err := archive.Import(t.Context(), store, bytes.NewReader(whole), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got != info(t, store, id) || got.ID != id || got.Status != runlog.Completed {
			t.Errorf("%s: %+v", name, got)
		}
		same(t, home, id, store, id)
		checkReadings(t, e, id, there, id)

		_, err = archive.Import(t.Context(), store, bytes.NewReader(whole), nil)
		if !errors.Is(err, runlog.ErrExists) || !strings.Contains(err.Error(), "another ID") {
			t.Errorf("%s: a second one of that ID: %v", name, err)
		}
		if got, err = archive.Import(t.Context(), store, bytes.NewReader(half), &archive.ImportOptions{ID: "half"}); err != nil || got.Status != runlog.Paused {
			t.Fatalf("%s: %+v, error %v", name, got, err)
		}
		finish(t, there, "half")
		checkReadings(t, there, "half", there, "half")
		if a, b := len(read(t, home, id)), len(read(t, store, "half")); a != b {
			t.Errorf("%s: it went on to %d records, the original to %d", name, b, a)
		}
	}
}

func checkReadings(t testing.TB, a *superstep.Engine, ida string, b *superstep.Engine, idb string) {
	t.Helper()
	history := func(e *superstep.Engine, id string) (out []string) {
		for m, err := range e.History(t.Context(), id, "") {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprintf("%d %d %s", m.Seq, m.Step, m.State))
		}
		return out
	}
	if diff := cmp.Diff(history(a, ida), history(b, idb)); diff != "" {
		t.Error(diff)
	}
	report, err := b.Replay(t.Context(), idb, nil)
	if err != nil || report.Diverged != nil || report.Epochs < 2 {
		t.Errorf("the replay is %+v, error %v", report, err)
	}
}

// A run is as it was, or paused if it was under way, and a fork knows its parent.
func TestStatuses(t *testing.T) {
	t.Parallel()
	for _, s := range []runlog.Status{runlog.Running, runlog.Paused, runlog.WaitingStorage, runlog.Completed, runlog.Partial, runlog.Failed, runlog.Cancelled} {
		counts := []int{0, 1, 40}
		if s == runlog.Completed {
			counts = append(counts, 700) // several batches
		}
		for _, n := range counts {
			home, there := runlog.NewMemory(nil), runlog.NewMemory(nil)
			l, _, err := home.Acquire(t.Context(), "r", &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w <&>", Title: "t \u2028 'q'", Parent: "p"}})
			if err != nil {
				t.Fatal(err)
			}
			recs := kinds(n)
			if err := l.Append(t.Context(), &runlog.Batch{Records: recs, Status: s}); err != nil {
				t.Fatal(err)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := archive.Import(t.Context(), there, bytes.NewReader(export(t, home, "r", nil)), nil); err != nil {
				t.Fatal(err)
			}
			same(t, home, "r", there, "r")
		}
	}
}

// A run that was cut off goes on where it was cut off, but not by itself.
func TestInterruptedRun(t *testing.T) {
	t.Parallel()
	for n := 2; ; n++ {
		home := runlogtest.NewMortal()
		home.DieAt(n, true)
		e := engine(t, home)
		r, err := e.Start(t.Context(), "job", json.RawMessage(`{"task":"do it"}`), &superstep.StartOptions{Answer: yes})
		if err == nil {
			_, _ = r.Wait(t.Context())
		}
		home.Revive()
		infos, err := home.Runs(t.Context(), nil)
		if err != nil || len(infos) != 1 {
			t.Fatalf("died at %d: %+v, error %v", n, infos, err)
		}
		if infos[0].Status != runlog.Interrupted {
			if n < 10 || infos[0].Status != runlog.Completed {
				t.Errorf("died at %d: %+v", n, infos[0])
			}
			return
		}
		there := runlog.NewMemory(nil)
		got, err := archive.Import(t.Context(), there, bytes.NewReader(export(t, home, infos[0].ID, nil)), nil)
		if err != nil || got.Status != runlog.Paused {
			t.Fatalf("died at %d: %+v, error %v", n, got, err)
		}
		same(t, home, got.ID, there, got.ID)
		other := engine(t, there)
		if taken, err := other.Recover(t.Context(), nil); err != nil || len(taken) > 0 {
			t.Fatalf("died at %d: %d runs were resumed, error %v", n, len(taken), err)
		}
		if r, err = other.Resume(t.Context(), got.ID, &superstep.ResumeOptions{Answer: yes}); err != nil {
			t.Fatalf("died at %d: %v", n, err)
		}
		wait(t, r, runlog.Completed)
		checkReadings(t, other, got.ID, other, got.ID)
	}
}

func yes(context.Context, runlog.Question) (*runlog.Answer, bool) {
	return &runlog.Answer{Value: json.RawMessage(`"yes"`), By: "person"}, true
}

func TestIDs(t *testing.T) {
	t.Parallel()
	m := runlog.NewMemory(nil)
	flag := string(summed([]byte(strings.Replace(string(file(t)), `"id":"r"`, `"id":"-r"`, 1))))
	for what, err := range map[string]error{
		"in the options": imported(t, m, string(file(t)), "--all"),
		"in the file":    imported(t, m, flag, ""),
		"a mailbox":      imported(t, m, string(file(t)), unlisted.RequestsID("r")), // whoever executes r would obey it
	} {
		if err == nil || !strings.Contains(err.Error(), "another ID") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if infos, _ := m.Runs(t.Context(), nil); len(infos) > 0 {
		t.Errorf("there are %+v", infos)
	}
	if err := imported(t, m, flag, "r-2"); err != nil {
		t.Error(err)
	}
}

func imported(t testing.TB, s runlog.Store, file, id string) error {
	t.Helper()
	_, err := archive.Import(t.Context(), s, strings.NewReader(file), &archive.ImportOptions{ID: id})
	return err
}

// kinds are records of all kinds and all sorts of data.
func kinds(n int) []runlog.Record {
	all := []runlog.Kind{
		runlog.KindRunStarted, runlog.KindRunResumed, runlog.KindRunPaused, runlog.KindRunFailed, runlog.KindRunCancelled, runlog.KindRunFinished,
		runlog.KindTaskDone, runlog.KindTaskFailed, runlog.KindStepCommitted, runlog.KindSnapshot, runlog.KindIntended, runlog.KindSettled,
		runlog.KindAsked, runlog.KindAnswered, runlog.KindEvent, carry.Kind, runlog.KindInner, "of.the.future",
	}
	data := []string{
		"", "{}", `{"a": 1 , "a":2}`, "{\n\t\"pretty\": true\r\n}", ` {"space":1} `, `{"html":"<>&\u003c` + "\u2028" + `","n":1e400,"big":12345678901234567890}`,
		`{"half":"\ud800","nul":"\u0000"}`, "{\"bad\":\"\xff\"}", "not json", "\xfe\x01binary\x00", "null", `"text"`, strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
	}
	recs := make([]runlog.Record, n)
	for i := range recs {
		recs[i] = runlog.Record{Kind: all[i%len(all)], Time: time.Unix(int64(i)*1e6, int64(i)).UTC(), Path: strings.Repeat("päth[<\"\\\n>]/", i%3)}
		if d := data[i%len(data)]; d != "" {
			recs[i].Data = json.RawMessage(d)
		}
		if i%4 == 3 {
			recs[i].Attachment = []byte("\x00\xff\n")
		}
		if i == 0 {
			recs[i].Data = json.RawMessage(`{"workflow":"w","inputs":{"a": [1,"<&>"]}}`)
		} else if recs[i].Kind == runlog.KindRunStarted {
			recs[i].Kind = "of.the.future.too" // a run starts once
		}
	}
	return recs
}

func TestRedacted(t *testing.T) {
	t.Parallel()
	home, there := runlog.NewMemory(nil), runlog.NewMemory(nil)
	e := engine(t, home)
	id := paused(t, e)
	file := export(t, home, id, redact.New(redact.Secret{Name: "PW", Value: "hunter2hunter2"}))
	if bytes.Contains(file, []byte("hunter2")) || !bytes.Contains(file, []byte("[redacted:PW]")) {
		t.Error("the secret is still there")
	}
	if !bytes.HasPrefix(file, []byte(`{"superstep":"run","version":1,"redacted":true,`)) {
		t.Errorf("it begins with %.80s", file)
	}
	if _, err := archive.Import(t.Context(), there, bytes.NewReader(file), nil); err != nil {
		t.Fatal(err)
	}
	if a, b := read(t, home, id), read(t, there, id); len(a) != len(b) {
		t.Errorf("%d records became %d", len(a), len(b))
	}
	finish(t, engine(t, there), id)
}

func TestExportOfNothing(t *testing.T) {
	t.Parallel()
	m := runlog.NewMemory(nil)
	if err := archive.Export(t.Context(), m, "gone", io.Discard, nil); !errors.As(err, new(*runlog.NotFoundError)) {
		t.Error(err)
	}
	l, _, err := m.Acquire(t.Context(), "r", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	if err == nil {
		err = l.Append(t.Context(), &runlog.Batch{Records: kinds(3)})
	}
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(export(t, m, "r", nil)) {
		if err := archive.Export(t.Context(), m, "r", &full{n}, nil); !errors.Is(err, errFull) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

var errFull = errors.New("it is full")

// full takes so many bytes and no more.
type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	if len(b) > f.left {
		return 0, errFull
	}
	f.left -= len(b)
	return len(b), nil
}

// file is a small file.
func file(t testing.TB) []byte {
	t.Helper()
	m := runlog.NewMemory(nil)
	for i := range 2 {
		opt := &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w", Title: "t"}}
		if i > 0 {
			opt = nil
		}
		l, _, err := m.Acquire(t.Context(), "r", opt)
		if err == nil {
			err = l.Append(t.Context(), &runlog.Batch{Records: kinds(3)[i : i+2]})
		}
		if err == nil {
			err = l.Release(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return export(t, m, "r", nil)
}

// Wherever a file is cut or changed, it is refused, and nothing of it stays.
func TestDamage(t *testing.T) {
	t.Parallel()
	good := file(t)
	refused := func(what string, b []byte) {
		t.Helper()
		m := runlog.NewMemory(nil)
		_, err := archive.Import(t.Context(), m, bytes.NewReader(b), nil)
		if !errors.As(err, new(*archive.FormatError)) {
			t.Errorf("%s: %v", what, err)
		}
		if infos, _ := m.Runs(t.Context(), nil); len(infos) > 0 {
			t.Errorf("%s: it left %+v", what, infos)
		}
	}
	for n := range good {
		refused(fmt.Sprintf("cut at %d", n), good[:n])
		bad := slices.Clone(good)
		bad[n] ^= 1
		refused(fmt.Sprintf("byte %d changed", n), bad)
	}
	refused("something behind it", append(slices.Clone(good), "{}\n"...))
	refused("an empty line behind it", append(slices.Clone(good), '\n'))
}

func TestFormatErrors(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(string(file(t)), "\n")
	for _, c := range []struct {
		line     int // from 1
		old, new string
		want     string
	}{
		{1, `"superstep":"run"`, `"superstep":"walk"`, "line 1: it is not the beginning of an exported run"},
		{1, `"superstep"`, `"Superstep"`, `line 1: there is no field "Superstep"`},
		{1, `"version":1`, `"version":2`, "line 1: version 2 was written by a newer superstep"},
		{1, `"version":1`, `"version":0`, "line 1: there is no version 0"},
		{1, `"id":"r"`, `"id":"../r"`, `line 1: run: run ID "../r"`},
		{1, `"id":"r"`, `"id":"r","parent":"a/b"`, `line 1: run: run ID "a/b"`},
		{1, `"id":"r"`, `"id":"r","id":"s"`, `line 1: run: field "id" is there twice`},
		{1, `"status":"interrupted"`, `"status":"fine"`, `line 1: run: there is no status "fine"`},
		{1, `"workflow":"w"`, `"workflow":null`, `line 1: run: field "workflow" is null`},
		{1, `"workflow":"w",`, ``, `line 1: run: field "workflow" is missing`},
		{2, `"seq":1`, `"seq":2`, "line 2: it is record 2 where record 1 is due"},
		{2, `"seq":1`, `"seq":-1`, `line 2: field "seq"`},
		{2, `"epoch":1`, `"epoch":0`, "line 2: epoch 0 comes after epoch 0"},
		{4, `"epoch":2`, `"epoch":18446744073709551616`, `line 4: field "epoch"`},
		{2, `"kind":"run.started"`, `"kind":""`, "line 2: record 1 has no kind"},
		{3, `"data":{}`, `"data":{},"raw":"e30="`, "line 3: it has both data and raw"},
		{3, `"data":{}`, `"data":{},"more":1`, `line 3: there is no field "more"`},
		{3, `"data":{}`, `"data":{}},{`, "line 3: there is something behind the object"},
		{3, `"data":{}`, `"data":{`, `line 3:`},
		{3, `"path":"`, `"path":"` + strings.Repeat("p", 5000), "line 3: record 2 (run.resumed) has a path of"},
		{3, `{"seq"`, `["seq"`, "line 3: it is not a JSON object"},
		{2, `"time":"1970`, `"time":"0970`, "line 2: record 1 (run.started) has the time 0970"},
		{6, `"records":4`, `"records":5`, "line 6: the file has 4 records and should have 5"},
		{6, `"end":true`, `"end":false`, "line 6: it says that it is not the end"},
		{6, `sha256:`, `sha256:0`, "line 6: the file was changed"},
		{6, lines[5], "", "line 6: the file ends before it is whole"},
	} {
		bad := slices.Clone(lines)
		if !strings.Contains(bad[c.line-1], c.old) {
			t.Fatalf("line %d is %s, without %s", c.line, bad[c.line-1], c.old)
		}
		bad[c.line-1] = strings.Replace(bad[c.line-1], c.old, c.new, 1)
		m := runlog.NewMemory(nil)
		_, err := archive.Import(t.Context(), m, strings.NewReader(strings.Join(bad, "")), nil)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s → %s: %v, want %s", c.old, c.new, err, c.want)
		}
		if infos, _ := m.Runs(t.Context(), nil); len(infos) > 0 {
			t.Errorf("%s → %s left %+v", c.old, c.new, infos)
		}
	}
}

// A line that is too long is refused while it is read, before much memory is taken for it.
func TestEndlessLine(t *testing.T) {
	head := bytes.SplitAfter(file(t), []byte("\n"))[0]
	for _, c := range []struct {
		head []byte
		line int
		most uint64 // bytes
	}{{nil, 1, 8 << 20}, {head, 2, 120 << 20}} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := archive.Import(t.Context(), runlog.NewMemory(nil), &endless{head: c.head}, nil)
		runtime.ReadMemStats(&after)
		if e := (*archive.FormatError)(nil); !errors.As(err, &e) || e.Line != c.line {
			t.Error(err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > c.most {
			t.Errorf("line %d: it took %d MB to refuse it", c.line, took>>20)
		}
	}
}

// endless is a file whose last line does not end.
type endless struct {
	head []byte
	at   int
}

func (e *endless) Seek(int64, int) (int64, error) { e.at = 0; return 0, nil }

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, e.head[min(e.at, len(e.head)):])
	for i := n; i < len(b); i++ {
		b[i] = ' '
	}
	e.at += len(b)
	return len(b), nil
}

// A store that fails in the middle has nothing of the run afterwards.
func TestFailingStore(t *testing.T) {
	t.Parallel()
	good := file(t)
	for n := range 3 {
		m := runlog.NewMemory(nil)
		left := n
		_, err := archive.Import(t.Context(), failing{m, &left}, bytes.NewReader(good), nil)
		if wantErr := n < 2; wantErr != errors.Is(err, errFull) {
			t.Fatalf("after %d appends: %v", n, err)
		}
		if infos, _ := m.Runs(t.Context(), nil); (len(infos) == 0) != (err != nil) {
			t.Errorf("after %d appends it left %+v, error %v", n, infos, err)
		}
	}
	for pass := 1; pass <= 2; pass++ {
		ctx, stop := context.WithCancel(t.Context())
		m := runlog.NewMemory(nil)
		_, err := archive.Import(ctx, m, &watching{r: bytes.NewReader(good), look: func(p, at int) {
			if p == pass && at > len(good)/2 {
				stop()
			}
		}}, nil)
		stop()
		if infos, _ := m.Runs(t.Context(), importingToo); !errors.Is(err, context.Canceled) || len(infos) > 0 {
			t.Errorf("cancelled in pass %d: %v; it left %+v", pass, err, infos)
		}
	}
}

// importingToo picks what is being imported and what was.
var importingToo = &runlog.Filter{Status: []runlog.Status{runlog.Importing, runlog.Paused, runlog.Running, runlog.Interrupted, runlog.Completed, runlog.Failed}}

// failing is a store that takes so many appends.
type failing struct {
	runlog.Store
	left *int
}

type failingLog struct {
	runlog.Log
	left *int
}

func (f failing) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	l, info, err := f.Store.Acquire(ctx, id, opt)
	return failingLog{l, f.left}, info, err
}

func (l failingLog) Append(ctx context.Context, b *runlog.Batch) error {
	if *l.left == 0 {
		return errFull
	}
	*l.left--
	return l.Log.Append(ctx, b)
}

// growing is a store whose run has grown since it was listed.
type growing struct{ runlog.Store }

func (g growing) Runs(ctx context.Context, f *runlog.Filter) ([]runlog.Info, error) {
	infos, err := g.Store.Runs(ctx, f)
	for i := range infos {
		infos[i].Head -= 2
	}
	return infos, err
}

func TestExportOfARunningRun(t *testing.T) {
	t.Parallel()
	m := runlog.NewMemory(nil)
	l, _, err := m.Acquire(t.Context(), "r", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	if err == nil {
		err = l.Append(t.Context(), &runlog.Batch{Records: kinds(5)})
	}
	if err != nil {
		t.Fatal(err)
	}
	there := runlog.NewMemory(nil)
	info, err := archive.Import(t.Context(), there, bytes.NewReader(export(t, growing{m}, "r", nil)), nil)
	if err != nil || info.Head != 3 || info.Status != runlog.Paused {
		t.Errorf("%+v, error %v", info, err)
	}
}

// While it is imported, a run is nothing that anybody would resume.
func TestUnderWay(t *testing.T) {
	t.Parallel()
	home, there := runlog.NewMemory(nil), runlog.NewMemory(nil)
	for i := range 3 {
		opt := &runlog.AcquireOptions{Create: &runlog.NewRun{}}
		if i > 0 {
			opt = nil
		}
		l, _, err := home.Acquire(t.Context(), "r", opt)
		if err == nil {
			err = l.Append(t.Context(), &runlog.Batch{Records: kinds(600)[min(i, 1):], Status: runlog.Running})
		}
		if err == nil {
			err = l.Release(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	heads := map[uint64]bool{}
	watch := &watching{r: bytes.NewReader(export(t, home, "r", nil)), look: func(int, int) {
		for _, f := range []*runlog.Filter{nil, {ID: "r"}, {Prefix: "r"}, {Limit: 1}} {
			if infos, err := there.Runs(t.Context(), f); err != nil || len(infos) > 0 {
				t.Errorf("%+v is listed, error %v", infos, err)
			}
		}
		infos, err := there.Runs(t.Context(), importingToo)
		if err != nil || len(infos) == 0 {
			return
		}
		heads[infos[0].Head] = true
		if s := infos[0].Status; s != runlog.Importing {
			t.Errorf("at record %d it is %s", infos[0].Head, s)
		}
	}}
	info, err := archive.Import(t.Context(), there, watch, nil)
	if err != nil || info.Status != runlog.Paused || len(heads) < 5 {
		t.Errorf("%+v after %d looks, error %v", info, len(heads), err)
	}
	same(t, home, "r", there, "r")
}

// watching calls a function before each of many small reads.
type watching struct {
	r    *bytes.Reader
	pass int // from 0; the file is read in 1 and 2
	look func(pass, at int)
}

func (w *watching) Seek(offset int64, whence int) (int64, error) {
	w.pass++
	return w.r.Seek(offset, whence)
}

func (w *watching) Read(b []byte) (int, error) {
	w.look(w.pass, int(w.r.Size())-w.r.Len())
	return w.r.Read(b[:min(len(b), 1000)])
}

// Whatever is imported: it is refused and leaves nothing, or it is a run that is exported
// and imported again as the same one.
func FuzzImport(f *testing.F) {
	good := file(f)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte(`{"superstep":"run","version":1,"run":{"id":"r","workflow":"","status":"failed"}}` + "\n" +
		`{"end":true,"records":0,"digest":"sha256:ae6e5c3a5ca3c5df8a6b5eb98a5b2b4dfa40f4a6d93c2d1b4b1ad5ed3a1b0b6f"}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, sum := range []bool{false, true} {
			if sum { // the digest would refuse all that is interesting
				b = summed(b)
			}
			m := runlog.NewMemory(nil)
			info, err := archive.Import(t.Context(), m, bytes.NewReader(b), nil)
			infos, _ := m.Runs(t.Context(), nil)
			if err != nil {
				if len(infos) > 0 {
					t.Fatalf("it left %+v after %v", infos, err)
				}
				continue
			}
			there := runlog.NewMemory(nil)
			if _, err := archive.Import(t.Context(), there, bytes.NewReader(export(t, m, info.ID, nil)), nil); err != nil {
				t.Fatal(err)
			}
			same(t, m, info.ID, there, info.ID)
		}
	})
}

// summed gives a file the last line it should have.
func summed(b []byte) []byte {
	lines := bytes.SplitAfter(b, []byte("\n"))
	var out bytes.Buffer
	n := 0
	for _, l := range lines {
		if len(l) == 0 || bytes.HasPrefix(l, []byte(`{"end"`)) {
			continue
		}
		out.Write(l)
		n++
	}
	if n > 0 && out.Bytes()[out.Len()-1] != '\n' {
		out.WriteByte('\n')
	}
	fmt.Fprintf(&out, `{"end":true,"records":%d,"digest":"%s"}`+"\n", n-1, archive.Sum(out.Bytes()))
	return out.Bytes()
}

// Nothing continues an imported run that is not trusted, and what is made of it is imported too.
func TestUntrusted(t *testing.T) {
	t.Parallel()
	home, there := runlog.NewMemory(nil), runlog.NewMemory(nil)
	e := engine(t, home)
	id := paused(t, e)
	began := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	exported := export(t, home, id, nil)
	if _, err := archive.Import(t.Context(), there, bytes.NewReader(exported), &archive.ImportOptions{Dir: "/mine", Now: func() time.Time { return began }}); err != nil {
		t.Fatal(err)
	}
	im, err := runlog.Origin(t.Context(), there, id)
	if err != nil || im == nil || im.Dir != "/mine" || !im.Time.Equal(began) || im.Records != info(t, there, id).Head || im.Nonce == "" || !bytes.Contains(exported, []byte(im.Digest)) {
		t.Fatalf("the mark is %+v, error %v", im, err)
	}
	if own, err := runlog.Origin(t.Context(), home, id); err != nil || own != nil {
		t.Errorf("the run that was exported is marked: %+v, error %v", own, err)
	}
	var asked []*runlog.Imported
	trusted := false
	other, err := superstep.New(there, &superstep.Options{Workflows: []*workflow.Workflow{flow(t)}, Trusted: func(im *runlog.Imported) (bool, error) {
		asked = append(asked, im)
		return trusted, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	nobody, err := superstep.New(there, &superstep.Options{Workflows: []*workflow.Workflow{flow(t)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nobody.Close)
	refused := func(what string, err error) {
		t.Helper()
		if e := (*superstep.UntrustedError)(nil); !errors.As(err, &e) || e.ID == "" || superstep.FailureCode(err) != "untrusted" {
			t.Errorf("%s: %v", what, err)
		}
	}
	tries := func(e *superstep.Engine, id string) {
		t.Helper()
		_, err := e.Resume(t.Context(), id, &superstep.ResumeOptions{Answer: yes})
		refused("resume", err)
		refused("answer", e.Answer(t.Context(), id, "ask", &runlog.Answer{Value: json.RawMessage(`"yes"`)}))
		_, err = e.Fork(t.Context(), id, 5, nil)
		refused("fork", err)
	}
	before := info(t, there, id)
	tries(other, id)
	tries(nobody, id)
	if now := info(t, there, id); now.Head != before.Head || now.Status != before.Status {
		t.Errorf("%+v became %+v", before, now)
	}
	if report, err := nobody.Replay(t.Context(), id, nil); err != nil || report.Diverged != nil {
		t.Errorf("the replay is %+v, error %v", report, err)
	}

	trusted = true
	f, err := other.Fork(t.Context(), id, before.Head, nil)
	if err != nil {
		t.Fatal(err)
	}
	fork, err := runlog.Origin(t.Context(), there, f.ID)
	if err != nil || fork == nil || fork.Records != 0 || fork.Digest != im.Digest || fork.Dir != im.Dir {
		t.Errorf("the mark of the fork is %+v, error %v", fork, err)
	}
	trusted = false
	tries(other, f.ID)
	j, err := journal.Open(t.Context(), there, f.ID, &journal.Options{})
	if err == nil {
		err = errors.Join(j.Append(t.Context(), runlog.Running), j.Close(t.Context())) // as if it had been killed
	}
	if err != nil {
		t.Fatal(err)
	}
	skipped := 0
	opt := &superstep.RecoverOptions{Answer: yes, Skipped: func(id string, why error) {
		skipped++
		refused("worker", why)
	}}
	for range 3 {
		if taken, err := other.Recover(t.Context(), opt); err != nil || len(taken) > 0 {
			t.Errorf("%d were resumed, error %v", len(taken), err)
		}
	}
	if now := info(t, there, f.ID); skipped != 1 || now.Takeovers != 0 || now.Epoch != 2 {
		t.Errorf("it was skipped %d times, and is %+v", skipped, now)
	}
	trusted = true
	taken, err := other.Recover(t.Context(), opt)
	if err != nil || len(taken) != 1 {
		t.Fatalf("%d were resumed, error %v", len(taken), err)
	}
	wait(t, taken[0], runlog.Completed)
	if report, err := nobody.Replay(t.Context(), f.ID, nil); err != nil || report.Diverged != nil {
		t.Errorf("the replay is %+v, error %v", report, err)
	}
	if len(asked) == 0 || slices.ContainsFunc(asked, func(a *runlog.Imported) bool { return a.Digest != im.Digest }) {
		t.Errorf("it was asked about %+v", asked)
	}
	// What is exported of it and imported again has a mark of its own, whatever the file says.
	again, err := archive.Import(t.Context(), there, bytes.NewReader(export(t, there, f.ID, nil)), &archive.ImportOptions{ID: "again", Dir: "/other"})
	if err != nil {
		t.Fatal(err)
	}
	mark, err := runlog.Origin(t.Context(), there, "again")
	if err != nil || mark == nil || mark.Digest == im.Digest || mark.Nonce == im.Nonce || mark.Dir != "/other" || mark.Records != again.Head {
		t.Errorf("the mark is %+v, error %v", mark, err)
	}
}

// A mark that a file has of its own is dropped, however it is written.
func TestForgedMarks(t *testing.T) {
	t.Parallel()
	for _, forged := range []string{
		`"imported":null`, `"IMPORTED":null`, `"Imported":{"nonce":"known","records":1000000,"dir":"/theirs"}`,
		`"imported":{"nonce":"known"},"imported":{"digest":"sha256:0","nonce":"known"}`, `"\u0069mported":{"nonce":"known"}`, "\"\u0131mported\":{\"nonce\":\"known\"}", `"ımported":null`,
	} {
		for _, swap := range []bool{false, true} {
			data := `{"workflow":"w",` + forged + `}`
			if swap {
				data = `{` + forged + `,"workflow":"w"}`
			}
			m := runlog.NewMemory(nil)
			b := summed([]byte(strings.Replace(string(file(t)), `{"workflow":"w","inputs":{"a": [1,"<&>"]}}`, data, 1)))
			if _, err := archive.Import(t.Context(), m, bytes.NewReader(b), nil); err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			first := read(t, m, "r")[0].Data
			im, err := runlog.Origin(t.Context(), m, "r")
			if err != nil || im == nil || im.Records != 4 || im.Dir != "" || bytes.Contains(first, []byte("known")) || strings.Count(strings.ToLower(string(first)), "mported") != 1 {
				t.Errorf("%s became %s: %+v, error %v", data, first, im, err)
			}
		}
	}
}
