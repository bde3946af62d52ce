package transcript_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// log builds records. Each is a second after the one before.
type log struct {
	recs []runlog.Record
	seq  uint64
	now  time.Time
}

func newLog() *log { return &log{now: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)} }

func (l *log) add(kind runlog.Kind, path string, data any) {
	l.seq++
	l.put(l.seq, kind, path, data)
}

func (l *log) live(kind runlog.Kind, path string, data any) { l.put(0, kind, path, data) }

func (l *log) put(seq uint64, kind runlog.Kind, path string, data any) {
	l.now = l.now.Add(time.Second)
	b, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	l.recs = append(l.recs, runlog.Record{Seq: seq, Kind: kind, Path: path, Time: l.now, Data: b})
}

func (l *log) event(path, name string, data any) {
	b, _ := json.Marshal(data)
	l.live(runlog.KindEvent, path, runlog.Event{Name: name, Data: b})
}

func (l *log) settle(path, key, kind, name string, input, output any) {
	in, _ := json.Marshal(input)
	out, _ := json.Marshal(output)
	l.add(runlog.KindSettled, path, runlog.Settled{Key: key, Kind: kind, Name: name, Input: in, Output: out})
}

func (l *log) fold() *transcript.Run {
	r := &transcript.Run{}
	for _, rec := range l.recs {
		r.Apply(rec)
	}
	return r
}

func said(text string) model.Response {
	return model.Response{Message: model.Message{Role: model.Assistant, Parts: []model.Part{{Kind: model.Text, Text: text}}}, Usage: model.Usage{In: 10, Out: 5}}
}

const path = "gather[api]"

// research is a run of two supersteps with an agent, up to the end of its turn.
func research() *log {
	l := newLog()
	l.add(runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "research", Title: "a\ntitle"})
	l.event("plan", "task.started", map[string]any{"node": "plan", "step": 0})
	l.add(runlog.KindTaskDone, "plan", runlog.TaskDone{Node: "plan", Sends: []runlog.TaskSend{{To: "gather", Key: "api"}, {To: "gather", Key: "auth"}, {To: "gather", Key: "api"}}})
	l.add(runlog.KindStepCommitted, "", runlog.StepCommitted{Step: 0})
	l.event(path, "task.started", map[string]any{"node": "gather", "key": "api", "step": 1})
	l.settle(path, "agent", "agent", "researcher", nil, struct{}{})
	l.add(runlog.KindIntended, path, runlog.Intended{Key: "turn-0", Kind: "model", Name: "m"})
	l.event(path, "text", map[string]string{"text": "Looking "})
	l.event(path, "text", map[string]string{"text": "around"})
	return l
}

func TestLiveTextBecomesTheTurn(t *testing.T) {
	t.Parallel()
	l := research()
	task := l.fold().Task(path)
	if task.Last() != "Looking around" || !task.Thinking || task.Node != "gather" || task.Key != "api" || task.Agent != "researcher" {
		t.Errorf("live: %+v", task)
	}
	l.settle(path, "turn-0", "model", "m", nil, said("Looked around."))
	r := l.fold()
	task = r.Task(path)
	if task.Last() != "Looked around." || task.Live() != "" || task.Thinking || len(task.Parts) != 1 {
		t.Errorf("stored: %+v", task)
	}
	if r.Usage != (model.Usage{In: 10, Out: 5}) || len(r.Agents) != 1 || r.Title != "a title" {
		t.Errorf("the run: %+v", r)
	}
	if got := r.Step(1).Planned["gather"]; got != 2 {
		t.Errorf("%d tasks planned", got)
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	l := research()
	l.live(runlog.KindIntended, path, runlog.Intended{Key: "turn-0/call-0", Kind: "tool", Name: "grep", Input: json.RawMessage(`{"max":3,"note":"first","pattern":"func\nmain"}`)})
	tool1 := l.fold().Task(path).Current()
	if tool1 == nil || tool1.Name != "grep" || tool1.Arg != "func main" || tool1.State != transcript.Running {
		t.Fatalf("running: %+v", tool1)
	}
	l.settle(path, "turn-0/call-0", "tool", "grep", nil, tool.Result{Text: "no such file", Error: true})
	r := l.fold()
	task := r.Task(path)
	if task.Current() != nil || task.Tools != 1 || task.Parts[0].Tool.State != transcript.Failed || task.Parts[0].Tool.Result != "no such file" {
		t.Errorf("ended: %+v %+v", task, task.Parts[0].Tool)
	}
	if got := task.Parts[0].Tool.Time.Elapsed(l.now.Add(time.Hour)); got != time.Second {
		t.Errorf("it took %s", got)
	}
}

func TestTaskStates(t *testing.T) {
	t.Parallel()
	l := research()
	check := func(want transcript.State, attempt int) {
		t.Helper()
		if task := l.fold().Task(path); task.State != want || task.Attempt != attempt {
			t.Errorf("%s, attempt %d; want %s, %d", task.State, task.Attempt, want, attempt)
		}
	}
	check(transcript.Running, 1)
	l.add(runlog.KindTaskFailed, path, runlog.TaskFailed{Node: "gather", Key: "api", Step: 1, Attempt: 1, Error: "boom"})
	check(transcript.Running, 2)
	l.add(runlog.KindTaskFailed, path, runlog.TaskFailed{Node: "gather", Key: "api", Step: 1, Attempt: 2, Error: "boom", Final: true})
	check(transcript.Failed, 2)
	l.add(runlog.KindRunFailed, "", runlog.RunFailed{Error: "boom", Code: "task"})
	l.add(runlog.KindRunResumed, "", runlog.RunResumed{})
	check(transcript.Failed, 2)
	l.event(path, "task.started", map[string]any{"node": "gather", "key": "api", "step": 1})
	check(transcript.Running, 2)
	l.add(runlog.KindTaskDone, path, runlog.TaskDone{Node: "gather", Key: "api", Step: 1, Error: "gone"})
	check(transcript.Failed, 2)
}

// A task that waits for its child run needs nobody, unless it asks a question later.
func TestAwaitsRun(t *testing.T) {
	t.Parallel()
	l := newLog()
	l.add(runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "w"})
	l.add(runlog.KindAsked, "far", runlog.Question{Key: "c", Kind: runlog.QuestionRun, Run: "r-1"})
	if task := l.fold().Task("far"); !task.AwaitsRun() || task.State != transcript.Waiting || task.Run != "r-1" {
		t.Errorf("it is %+v", task)
	}
	l.add(runlog.KindAnswered, "far", runlog.Answer{Key: "c", By: runlog.ByRun})
	l.add(runlog.KindAsked, "far", runlog.Question{Key: "q", Text: "Sure?"})
	if task := l.fold().Task("far"); task.AwaitsRun() || task.State != transcript.Waiting {
		t.Errorf("then it is %+v", task)
	}
}

// A pause is no execution time, neither for the run nor for the task that asks.
func TestTimeLeavesOutPauses(t *testing.T) {
	t.Parallel()
	l := newLog()
	l.add(runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "w"}) // 12:00:01
	l.add(runlog.KindAsked, "ask", runlog.Question{Key: "q", Text: "Sure?", Options: []string{"yes"}})
	l.add(runlog.KindRunPaused, "", runlog.RunPaused{Waiting: []string{"ask"}}) // 1 s of execution
	r := l.fold()
	if r.Status != runlog.Paused || len(r.Open()) != 1 || r.Task("ask").State != transcript.Waiting {
		t.Errorf("paused: %+v", r)
	}
	l.now = l.now.Add(10 * time.Hour)
	l.add(runlog.KindRunResumed, "", runlog.RunResumed{})
	l.add(runlog.KindAnswered, "ask", runlog.Answer{Key: "q", Value: json.RawMessage(`"yes"`), By: "person"})
	l.add(runlog.KindTaskDone, "ask", runlog.TaskDone{Node: "ask"})
	l.add(runlog.KindStepCommitted, "", runlog.StepCommitted{})
	l.add(runlog.KindRunFinished, "", runlog.RunFinished{Output: json.RawMessage(`1`), Steps: 1})
	r = l.fold()
	later := l.now.Add(time.Hour)
	if got := r.Time.Elapsed(later); got != 4*time.Second { // without those between the question, or the resumption, and the answer
		t.Errorf("the run worked %s", got)
	}
	if got := r.Task("ask").Time.Elapsed(later); got != 2*time.Second {
		t.Errorf("the task worked %s", got)
	}
	if len(r.Open()) != 0 || r.Questions[0].Answer != "yes" || r.Status != runlog.Completed || r.Ended != l.now {
		t.Errorf("the end: %+v", r)
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	l := research()
	r := l.fold()
	r.End(runlog.Interrupted)
	if r.Status != runlog.Interrupted || r.Task(path).State != transcript.Stopped || r.Time.Elapsed(l.now.Add(time.Hour)) != 8*time.Second {
		t.Errorf("%+v", r)
	}
}

// What is read twice, as a follower that was cut off reads it, changes nothing.
func TestRepeatedRecords(t *testing.T) {
	t.Parallel()
	l := research()
	l.settle(path, "turn-0", "model", "m", nil, said("done"))
	once, twice := l.fold(), &transcript.Run{}
	for _, rec := range l.recs {
		twice.Apply(rec)
		if rec.Seq > 0 {
			twice.Apply(rec)
		}
	}
	if !reflect.DeepEqual(once, twice) {
		t.Error("reading records twice made a difference")
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"plain\ttext\n", "plain\ttext\n"},
		{"ümläut 漢字 👩‍💻", "ümläut 漢字 👩‍💻"},
		{"\x1b[31mred\x1b[0m", "red"},
		{"\x1b]0;title\aafter", "after"},
		{"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"},
		{"a\u009b2Jb\u0085c", "a2Jbc"},
		{"a\rb\r\nc\u2028d", "a\nb\nc\nd"},
		{"\u202egnp.exe\u2066\u2069\u200f", "gnp.exe"},
		{"bell\a nul\x00 del\x7f", "bell nul del"},
		{"bad \xff utf", "bad \ufffd utf"},
		{"x\U000e0041\ufeff\u200by", "xy"},
	} {
		if got := transcript.Clean(c.in); got != c.want {
			t.Errorf("Clean(%q) = %q, want %q", c.in, got, c.want)
		}
	}
	if got := transcript.Line(" a\n\tb \x1b[2J c"); got != "a b c" {
		t.Errorf("Line: %q", got)
	}
}

// Texts in JSON are shown as texts, also in a document that is cut off, and none of them reaches beyond its quotes.
func TestTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{`"a\nb \u003cc\u003e \u0026 \"d\" \\n"`, `"a⏎b <c> & "d" \n"`},
		{`{"k":"1\r\n2","n":[1,"",null]}`, `{"k":"1⏎2","n":[1,"",null]}`},
		{`12.50`, `12.50`},
		{``, ``},
		{`{"k":"cut \u003c`, `{"k":"cut <`},
		{`{"k":"cut \u00`, `{"k":"cut `},
		{`{"k":"cut \`, `{"k":"cut `},
		{`{"k":"`, `{"k":"`},
		{`{"k":"\u001b]0;x","l":"y"}`, `{"k":"]0;x","l":"y"}`},
		{"{\"k\":\"raw\nbreak\"}", `{"k":"raw⏎break"}`},
	} {
		if got := transcript.Texts([]byte(c.in), "⏎"); got != c.want {
			t.Errorf("Texts(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

// A hostile text takes no longer than its length deserves.
func TestCleanIsLinear(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"\x1b", "\x1b]", "\x1b[", "\x1bP", "\xc2\x9b", "\xff", "\u202e", "\x1b[1;"} {
		long := strings.Repeat(part, 1<<20/len(part))
		start := time.Now()
		if got := transcript.Clean(long); dangerous(got) {
			t.Errorf("%q came through", part)
		}
		if took := time.Since(start); took > faults.Bound(2*time.Second) {
			t.Errorf("a megabyte of %q took %s", part, took)
		}
	}
}

func dangerous(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	})
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b[31m\x1b]52;c;x\a")
	f.Add("\x1b\x1b[\x1b]m\xc2\x9b1m\xc2")
	f.Add("\xe2\x80\xae\xf3\xa0\x81\x81\x9b31m")
	f.Fuzz(func(t *testing.T, s string) {
		got := transcript.Clean(s)
		if dangerous(got) {
			t.Errorf("Clean(%q) = %q", s, got)
		}
		if again := transcript.Clean(got); again != got {
			t.Errorf("Clean(%q) = %q, and again %q", s, got, again)
		}
		if line := transcript.Line(s); dangerous(line) || strings.ContainsAny(line, "\n\t") {
			t.Errorf("Line(%q) = %q", s, line)
		}
	})
}

// Whatever a log says, the fold does not break, and none of its text is dangerous.
func FuzzApply(f *testing.F) {
	f.Add(int64(1), "gather[a%20b]#2", "\x1b[31mx", []byte(`{"key":"k","kind":"tool","name":"\u001b[2J","input":{"path":"\u009b"},"step":-5}`))
	f.Add(int64(2), "[", "]#", []byte(`{"step":1048577,"sends":[{"to":"a","key":"b"}]}`))
	f.Add(int64(3), "", "text", []byte(`{"name":"text","data":{"text":"\u001b"}}`))
	kinds := []runlog.Kind{
		runlog.KindRunStarted, runlog.KindRunResumed, runlog.KindRunPaused, runlog.KindRunFailed, runlog.KindRunCancelled, runlog.KindRunFinished,
		runlog.KindTaskDone, runlog.KindTaskFailed, runlog.KindStepCommitted, runlog.KindIntended, runlog.KindSettled, runlog.KindAsked, runlog.KindAnswered, runlog.KindEvent, "unknown",
	}
	f.Fuzz(func(t *testing.T, seed int64, path, other string, data []byte) {
		rnd := rand.New(rand.NewSource(seed)) //nolint:gosec // a schedule, no secret
		r := &transcript.Run{}
		now := time.Unix(0, 0)
		for i := range 40 {
			p := path
			if rnd.Intn(2) == 0 {
				p = other
			}
			now = now.Add(time.Duration(rnd.Intn(2000)-500) * time.Millisecond)
			rec := runlog.Record{Kind: kinds[rnd.Intn(len(kinds))], Path: p, Time: now, Data: data}
			if rnd.Intn(3) > 0 {
				rec.Seq = uint64(i + 1)
			}
			r.Apply(rec)
		}
		texts := []string{r.Workflow, r.Title, r.Error, r.Code}
		for _, task := range r.Tasks {
			texts = append(texts, task.Path, task.Node, task.Key, task.Agent, task.Error, task.Last(), task.Live())
			if c := task.Current(); c != nil {
				texts = append(texts, c.Name, c.Kind, c.Arg, c.Result)
			}
			for _, p := range task.Parts {
				texts = append(texts, p.Text, p.Agent)
				if p.Tool != nil {
					texts = append(texts, p.Tool.Name, p.Tool.Kind, p.Tool.Arg, p.Tool.Result)
				}
			}
		}
		for _, q := range r.Questions {
			texts = append(texts, q.Path, q.Key, q.Question, q.Default, q.Answer, q.By, fmt.Sprint(q.Options))
		}
		for _, s := range texts {
			if dangerous(s) {
				t.Errorf("%q", s)
			}
		}
	})
}

func Example() {
	l := research()
	var run transcript.Run
	for _, rec := range l.recs {
		run.Apply(rec)
	}
	for _, task := range run.Active() {
		fmt.Printf("%s/%s %s: %s\n", task.Node, task.Key, task.Time.Elapsed(l.now), task.Last())
	}
	// Output: gather/api 4s: Looking around
}

// An agent that works for another ends with its job, and the call that had it work with its result;
// calls that were denied are known; what is for the log alone is no tool.
func TestAgentsOfAgents(t *testing.T) {
	l := newLog()
	l.add(runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "agent"})
	l.settle("work", "agent", "agent", "lead", nil, struct{}{})
	l.settle("work", "turn-0/call-0/gate", "gate", "bash", nil, struct{}{})
	denied, err := json.Marshal(map[string]string{"agent": "lead", "tool": "bash", "subject": "rm\n-r x", "reason": "no rule"})
	if err != nil {
		t.Fatal(err)
	}
	l.add(runlog.KindEvent, "work", runlog.Event{Name: "denied", Data: denied})
	for i, name := range []string{"good[1]", "bad[2]"} {
		l.settle("work/task_batch[1.2]/"+name, "agent", "agent", name[:3], nil, struct{}{})
		l.settle("work/task_batch[1.2]", "job/"+name, "job", name[:3], nil, map[string]any{"success": i == 0})
	}
	state := func(path string) transcript.State { return l.fold().Task(path).State }
	if state("work/task_batch[1.2]/good[1]") != transcript.Done || state("work/task_batch[1.2]/bad[2]") != transcript.Failed {
		t.Errorf("jobs: %s, %s", state("work/task_batch[1.2]/good[1]"), state("work/task_batch[1.2]/bad[2]"))
	}
	if state("work/task_batch[1.2]") != transcript.Running {
		t.Errorf("the call before its result: %s", state("work/task_batch[1.2]"))
	}
	l.settle("work", "turn-0/call-1", "tool", "task_batch", nil, tool.Result{Text: "1/2"})
	r := l.fold()
	if r.Task("work/task_batch[1.2]").State != transcript.Done || r.Task("work").State != transcript.Running || r.Task("work").Tools != 1 {
		t.Errorf("after its result: %s, %s, %d tools", r.Task("work/task_batch[1.2]").State, r.Task("work").State, r.Task("work").Tools)
	}
	if len(r.Denied) != 1 || r.Denied[0].Tool != "bash" || r.Denied[0].Path != "work" {
		t.Errorf("%+v", r.Denied)
	}
}

// Calls that a rule or a person turned down are known, with the reason.
func TestRefused(t *testing.T) {
	t.Parallel()
	l := newLog()
	l.add(runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "agent"})
	l.settle("work", "agent", "agent", "lead", nil, struct{}{})
	l.settle("work", "turn-0/call-0/gate", "gate", "bash", nil, map[string]string{"decision": "deny", "subject": "rm x", "reason": "denied by the rule bash(rm *)"})
	l.settle("work", "turn-0/call-1/gate", "gate", "bash", nil, map[string]string{"decision": "ask", "subject": "ls"})
	l.add(runlog.KindAsked, "work", runlog.Question{Key: "p", Agent: "lead", Text: "May I?", Call: &runlog.QuestionCall{Tool: "bash", Subject: "ls"}})
	l.add(runlog.KindAnswered, "work", runlog.Answer{Key: "p", Value: json.RawMessage(`"deny: look at\nthe docs"`), By: "person"})
	want := []transcript.Denial{
		{Path: "work", Agent: "lead", Tool: "bash", Subject: "rm x", Reason: "denied by the rule bash(rm *)"},
		{Path: "work", Agent: "lead", Tool: "bash", Subject: "ls", Reason: "look at\nthe docs", By: "person"},
	}
	if got := l.fold().Refused; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// The name of a tool is not said twice.
func TestDenial(t *testing.T) {
	for want, d := range map[string]transcript.Denial{
		`lint {"path":"a"}`: {Tool: "lint", Subject: `lint {"path":"a"}`},
		"think":             {Tool: "think", Subject: "think"},
		"bash bash x":       {Tool: "bash", Subject: "bash x"},
		"bash a b":          {Tool: "bash", Subject: "a\nb"},
		"put":               {Tool: "put"},
	} {
		if got := d.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What happens in graphs within tasks belongs to the superstep of the task, and steps say how they fared.
func TestWithinTasks(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	seq := uint64(0)
	var r transcript.Run
	put := func(kind runlog.Kind, path, data string) {
		seq++
		at = at.Add(time.Second)
		r.Apply(runlog.Record{Seq: seq, Kind: kind, Path: path, Time: at, Data: json.RawMessage(data)})
	}
	live := func(path, data string) {
		at = at.Add(time.Second)
		r.Apply(runlog.Record{Kind: runlog.KindEvent, Path: path, Time: at, Data: json.RawMessage(data)})
	}
	put(runlog.KindRunStarted, "", `{"workflow":"w"}`)
	put(runlog.KindTaskDone, "first", `{"node":"first","step":0}`)
	put(runlog.KindStepCommitted, "", `{"step":0}`)
	live("each", `{"name":"task.started","data":{"node":"each","step":1}}`)
	put(runlog.KindTaskDone, "each/1/x", `{"node":"x","step":0,"error":"no","update":{"status":"degraded"}}`)
	put(runlog.KindStepCommitted, "each/1", `{"step":0}`)
	put(runlog.KindEvent, "each/2/x", `{"name":"error_input","data":{"steps":["a"]}}`)
	live("each/2/x", `{"name":"task.queued"}`)
	live("each/2/x", `{"name":"task.works"}`)
	put(runlog.KindTaskDone, "each/2/x", `{"node":"x","step":3}`)
	put(runlog.KindEvent, "each/3/x", `{"name":"not_run","data":{"why":"false"}}`)
	put(runlog.KindTaskDone, "each/3/x", `{"node":"x","step":0}`)
	if len(r.Steps) != 2 || r.Steps[1].Done {
		t.Fatalf("%d supersteps", len(r.Steps))
	}
	for path, want := range map[string]transcript.State{"each/1/x": transcript.Partly, "each/2/x": transcript.Done, "each/3/x": transcript.Skipped} {
		if task := r.Task(path); task == nil || task.State != want || task.Step != 1 {
			t.Errorf("%s: %+v", path, task)
		}
	}
	if task := r.Task("each/2/x"); len(task.Bad) != 1 || task.Time.Elapsed(at) != time.Second {
		t.Errorf("%+v", task)
	}
}

// A job whose agent failed is no job done, and what failed says why.
func TestFailedJobs(t *testing.T) {
	t.Parallel()
	l := newLog()
	l.add(runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "agent"})
	l.settle("work", "agent", "agent", "lead", nil, struct{}{})
	l.settle("work/task[1.1]/bad", "agent", "agent", "bad", nil, struct{}{})
	l.settle("work/task[1.1]", "job/bad", "job", "bad", nil, map[string]any{"success": false, "error": "it ran\ninto a wall"})
	l.settle("work/task[1.1]", "job/nope", "job", "nope", nil, map[string]any{"success": false, "error": "there is no agent nope"})
	l.settle("work/task[1.1]", "job/good", "job", "good", nil, map[string]any{"success": true, "output": "all is well"})
	l.settle("work", "turn-0/call-0", "tool", "task", nil, tool.Result{Text: "failed: it ran into a wall", Error: true})
	r := l.fold()
	var jobs []string
	for _, p := range r.Task("work/task[1.1]").Parts {
		jobs = append(jobs, fmt.Sprintf("%s %s: %s", p.Tool.Name, p.Tool.State, p.Tool.Result))
	}
	if got, want := strings.Join(jobs, "; "), "bad failed: it ran\ninto a wall; nope failed: there is no agent nope; good done: all is well"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if bad := r.Task("work/task[1.1]/bad"); bad.State != transcript.Failed || bad.Error != "it ran\ninto a wall" {
		t.Errorf("the agent: %s, %q", bad.State, bad.Error)
	}
	if call := r.Task("work/task[1.1]"); call.State != transcript.Failed || call.Error != "failed: it ran into a wall" {
		t.Errorf("the call: %s, %q", call.State, call.Error)
	}
}

// A summary of the conversation is what the agent continues with, and nothing that it said.
func TestSummaryIsNotSaid(t *testing.T) {
	t.Parallel()
	l := research()
	l.settle(path, "turn-0", "model", "m", nil, said("What I found."))
	l.add(runlog.KindIntended, path, runlog.Intended{Key: "sub/compact-1", Kind: "model", Name: "m"})
	l.event(path, "text", map[string]string{"text": "SUMMARY"})
	if task := l.fold().Task(path); task.Last() != "What I found." || task.Live() != "" {
		t.Errorf("live: %q", task.Last())
	}
	l.settle(path, "sub/compact-1", "model", "m", nil, said("SUMMARY OF WHAT WAS BEFORE"))
	r := l.fold()
	task := r.Task(path)
	if task.Last() != "What I found." || task.Thinking || r.Usage != (model.Usage{In: 20, Out: 10}) {
		t.Errorf("%q, %+v", task.Last(), r.Usage)
	}
	level, err := json.Marshal(map[string]any{"agent": "researcher", "used": 900, "window": 4000, "action": "compacted"})
	if err != nil {
		t.Fatal(err)
	}
	l.add(runlog.KindEvent, path, runlog.Event{Name: "context", Data: level})
	if parts := l.fold().Task(path).Parts; len(parts) != 2 || parts[1].Kind != transcript.Compacted || !strings.Contains(parts[1].Text, "summed up") {
		t.Errorf("%+v", parts)
	}
}

// Waiting for people is no execution time: not of the run, not of the superstep, nor of what the question is asked in. While
// something else works it is.
func TestTimeLeavesOutWaiting(t *testing.T) {
	t.Parallel()
	l := newLog()
	l.add(runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "w"}) // 12:00:01
	l.event("lead", "task.started", map[string]any{"node": "lead", "step": 0})
	l.event("other", "task.started", map[string]any{"node": "other", "step": 0})
	l.event("lead/task[1.1]/sub", "task.started", map[string]any{"node": "sub", "step": 0}) // :04
	l.add(runlog.KindAsked, "lead/task[1.1]/sub", runlog.Question{Key: "q", Text: "Sure?"})
	l.add(runlog.KindTaskDone, "other", runlog.TaskDone{Node: "other"}) // :06, from here on all wait
	l.now = l.now.Add(time.Hour)
	if r := l.fold(); !r.Waits() || r.Time.Elapsed(l.now) != 5*time.Second || r.Steps[0].Time.Elapsed(l.now) != 5*time.Second {
		t.Errorf("while it waits: %s, the step %s", r.Time.Elapsed(l.now), r.Steps[0].Time.Elapsed(l.now))
	}
	l.add(runlog.KindAnswered, "lead/task[1.1]/sub", runlog.Answer{Key: "q", Value: json.RawMessage(`"yes"`), By: "person"})
	l.add(runlog.KindTaskDone, "lead", runlog.TaskDone{Node: "lead"})
	l.add(runlog.KindStepCommitted, "", runlog.StepCommitted{})
	l.add(runlog.KindRunFinished, "", runlog.RunFinished{Steps: 1})
	r, end := l.fold(), l.now
	for what, got := range map[string][2]time.Duration{
		"the run":   {r.Time.Elapsed(end), 8 * time.Second},
		"the step":  {r.Steps[0].Time.Elapsed(end), 7 * time.Second},
		"the lead":  {r.Task("lead").Time.Elapsed(end), 4 * time.Second}, // to the question of its agent, and from the answer
		"the other": {r.Task("other").Time.Elapsed(end), 3 * time.Second},
	} {
		if got[0] != got[1] {
			t.Errorf("%s took %s, want %s", what, got[0], got[1])
		}
	}
}

// Waiting for a date or the next attempt is told apart from the rest of the execution time, unless something else runs meanwhile, or no process does.
func TestWaited(t *testing.T) {
	t.Parallel()
	l := newLog()
	waited := func(what string, want time.Duration) {
		t.Helper()
		if got := l.fold().Waited(l.now); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	l.add(runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "w"})
	l.add(runlog.KindTaskFailed, "a", runlog.TaskFailed{Node: "a", Attempt: 1, Error: "busy", Next: 60_000})
	l.now = l.now.Add(20 * time.Second)
	waited("before the next attempt", 20*time.Second)
	l.now = l.now.Add(time.Hour)
	waited("in the next attempt", time.Minute)
	l.add(runlog.KindTaskFailed, "a", runlog.TaskFailed{Node: "a", Attempt: 2, Error: "busy", Next: 60_000})
	l.add(runlog.KindIntended, "b", runlog.Intended{Key: "x", Kind: "tool", Name: "grep"}) // a second later
	l.now = l.now.Add(time.Hour)
	waited("beside a tool", time.Minute+time.Second)
	l.add(runlog.KindTaskDone, "b", runlog.TaskDone{Node: "b"})
	l.add(runlog.KindTaskDone, "a", runlog.TaskDone{Node: "a"})
	l.settle("script", "z/until", "timer", "z", "1m", l.now.Add(time.Minute))
	l.add(runlog.KindIntended, "script", runlog.Intended{Key: "z", Kind: "sleep", Name: "z"})
	l.now = l.now.Add(58 * time.Second)
	waited("in a script that sleeps", time.Minute+time.Second+59*time.Second)
	l.now = l.now.Add(time.Hour)
	l.add(runlog.KindRunResumed, "", runlog.RunResumed{})
	l.now = l.now.Add(time.Hour)
	waited("after a crash", time.Minute+2*time.Second)
}

// When one of two questions has its answer the tasks begin again, and that of the other goes on waiting: what is heard live
// comes to the time that the log says.
func TestTimeWhenATaskBeginsAgain(t *testing.T) {
	t.Parallel()
	l := newLog()
	l.add(runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "w"}) // 12:00:01
	for _, path := range []string{"a", "b"} {
		l.event(path, "task.started", map[string]any{"node": path, "step": 0})
		l.add(runlog.KindAsked, path, runlog.Question{Key: "q", Text: "Sure?"})
	} // :05
	l.now = l.now.Add(time.Minute)
	l.add(runlog.KindAnswered, "a", runlog.Answer{Key: "q", Value: json.RawMessage(`"yes"`), By: "person"})
	l.now = l.now.Add(-time.Second) // at the same moment
	l.event("a", "task.started", map[string]any{"node": "a", "step": 0})
	l.now = l.now.Add(-time.Second)
	l.event("b", "task.started", map[string]any{"node": "b", "step": 0})
	l.add(runlog.KindTaskDone, "a", runlog.TaskDone{Node: "a"})
	l.now = l.now.Add(time.Minute)
	if r := l.fold(); !r.Waits() || r.Task("b").State != transcript.Waiting {
		t.Errorf("with an open question: %+v", r.Task("b"))
	}
	l.add(runlog.KindAnswered, "b", runlog.Answer{Key: "q", Value: json.RawMessage(`"yes"`), By: "person"})
	l.add(runlog.KindTaskDone, "b", runlog.TaskDone{Node: "b"})
	l.add(runlog.KindRunFinished, "", runlog.RunFinished{Steps: 1})
	live := l.fold()
	stored := &transcript.Run{}
	for _, rec := range l.recs {
		if rec.Seq > 0 {
			stored.Apply(rec)
		}
	}
	if got, want := live.Time.Elapsed(l.now), stored.Time.Elapsed(l.now); got != want || got > 10*time.Second {
		t.Errorf("live it took %s, in the log %s", got, want)
	}
}

// A log has no starts. What was running meanwhile shows when it ends, and which superstep it is of.
func TestTimeOfWhatIsHeardOfLate(t *testing.T) {
	t.Parallel()
	l := newLog()
	l.add(runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "w"}) // 12:00:01
	l.add(runlog.KindAsked, "ask", runlog.Question{Key: "q", Text: "Sure?"})
	l.add(runlog.KindIntended, "early", runlog.Intended{Key: "x", Kind: "tool", Name: "grep"}) // :03
	l.add(runlog.KindTaskDone, "early", runlog.TaskDone{Node: "early", Step: 1})
	l.now = l.now.Add(6 * time.Second)
	l.add(runlog.KindTaskDone, "slow", runlog.TaskDone{Node: "slow"}) // :11
	l.now = l.now.Add(time.Hour)
	r := l.fold()
	if got := r.Time.Elapsed(l.now); got != 10*time.Second {
		t.Errorf("the run took %s", got)
	}
	if len(r.Steps) != 2 || len(r.Steps[1].Tasks) != 1 || r.Task("early").Step != 1 {
		t.Errorf("%+v", r.Steps)
	}
}

// While a question is open a record costs no more the more tasks there are.
func TestOpenQuestionIsCheap(t *testing.T) {
	allocated := func(tasks int) uint64 {
		l := newLog()
		l.add(runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "w"})
		l.add(runlog.KindAsked, "lead/sub", runlog.Question{Key: "q", Text: "Sure?"})
		for i := range tasks {
			l.add(runlog.KindIntended, fmt.Sprintf("lead/work[%d]", i), runlog.Intended{Key: "x", Kind: "tool", Name: "grep"})
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		l.fold()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := allocated(200), allocated(1600); many > 16*few {
		t.Errorf("200 tasks take %d bytes, 1600 take %d, more than 16 times as much", few, many)
	}
}

// An agent whose call is begun again, after its process was killed, is found at that call.
func TestCallBegunAgain(t *testing.T) {
	l := newLog()
	l.add(runlog.KindRunStarted, "", map[string]any{"workflow": "agent"})
	l.settle("work", "agent", "agent", "lead", map[string]any{"agent": "lead", "prompt": "go"}, nil)
	l.settle("work/task[1.1]", "agent", "agent", "reader", map[string]any{"agent": "reader", "prompt": "read"}, nil)
	l.live(runlog.KindIntended, "work", runlog.Intended{Key: "turn-0/call-0", Kind: "tool", Name: "task"})
	r := l.fold()
	parts := r.Task("work").Parts
	if len(parts) == 0 || parts[len(parts)-1].Tool == nil || parts[len(parts)-1].Tool.Child != r.Task("work/task[1.1]") || r.Task("work/task[1.1]") == nil {
		t.Errorf("the call has not its agent: %+v", parts)
	}
}
