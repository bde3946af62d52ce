package recorded_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/transcript/recorded"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/stores"
)

var update = flag.Bool("update", false, "record the sessions again")

// most is the size that a recorded session may have.
const most = 60 << 10

// A script is what a session is recorded of.
type script struct {
	workflow string // "agent" or a recipe below
	inputs   string
	files    map[string]string
	rules    string
	budget   *runlog.Budget
	answers  []string // in the order of the questions; the last one again
	window   int
	prompts  []scripted.Prompt
	crash    bool // its first process is killed in the last turn that says it waits
	free     bool // the model tells no price
}

// pace is how long a turn takes.
const pace = 40 * time.Millisecond

func turns(list ...scripted.Turn) []scripted.Turn {
	for i := range list {
		if list[i].Delay == 0 {
			list[i].Delay = pace
		}
	}
	return list
}

func call(name, args string) scripted.Turn { return scripted.Call(name, args) }

const (
	reader  = "---\nname: reader\ndescription: Reads files.\ntools: [read_file, grep, ls]\n---\nYou read files and report what they say."
	editor  = "---\nname: editor\ndescription: Changes files.\ntools: [read_file, edit_file, write_file]\n---\nYou change files."
	asker   = "---\nname: asker\ndescription: Asks.\ntools: [read_file, ask_user]\n---\nYou ask when the task is not clear."
	planned = "---\nname: keeper\ndescription: Keeps a plan.\ntools: [read_file, grep, todo]\n---\nYou keep a plan."

	mux     = "package api\n\n// Routes registers the handlers.\nfunc Routes(m *Mux) {\n\tm.Handle(\"/login\", login)\n\tm.Handle(\"/runs\", runs)\n}\n"
	authors = "package auth\n\n// Check reports whether a token is good.\nfunc Check(token string) bool { return token != \"\" }\n"
)

var project = map[string]string{
	".superstep/agents/reader.md": reader, ".superstep/agents/editor.md": editor, ".superstep/agents/asker.md": asker, ".superstep/agents/keeper.md": planned,
	"mux.go": mux, "auth.go": authors, "README.md": "# Notes\n\nA server with two routes.\n",
}

const survey = `name: survey
description: Looks at the parts of a project.
inputs:
  - name: topic
    default: the server
steps:
  - id: plan
    subagent: reader
    prompt: Plan how to look at {{inputs.topic}}.
  - id: gather
    depends_on: [plan]
    foreach:
      in: [ITEMS]
      as: part
      steps:
        - id: read
          subagent: reader
          RETRY
          prompt: Read the {{part}} module and report.
  - id: brief
    depends_on: [gather]
    subagent: reader
    prompt: "Write the brief of: {{steps.gather.output}}"
output: "{{steps.brief.output}}"
`

func surveyOf(items, retry string) string {
	return strings.NewReplacer("ITEMS", items, "RETRY", retry).Replace(survey)
}

var planTurn = scripted.Prompt{Has: "Plan how to look", Turns: turns(call("ls", `{}`).Using(800, 40), scripted.Say("Module by module, ", "then a brief.").Using(900, 60))}

func briefTurn() scripted.Prompt {
	return scripted.Prompt{Has: "Write the brief of", Turns: turns(scripted.Say("Two routes, ", "one of them without a check.").Using(1500, 120))}
}

// reads is an agent that looks into a file and says something.
func reads(part, file, said string) scripted.Prompt {
	return scripted.Prompt{Has: "Read the " + part + " module", Turns: turns(
		scripted.Say("I shall look at ", file, ".").And(call("read_file", `{"path":"`+file+`"}`)).Using(700, 50),
		call("grep", `{"pattern":"func"}`).Using(900, 30), scripted.Say(strings.SplitAfter(said, " ")...).Using(1100, 90))}
}

func scripts() map[string]script {
	edit := `{"path":"mux.go","edits":[{"old_string":"\tm.Handle(\"/runs\", runs)","new_string":"\tm.Handle(\"/runs\", guard(runs))"}]}`
	wide := strings.Repeat("A line about the server, its routes and what they check.\n", 60)
	return map[string]script{
		"agents": {workflow: "survey", inputs: `{}`, files: map[string]string{".superstep/workflows/survey.yaml": surveyOf("api, auth, docs, tests, ci", "timeout: 1m")},
			prompts: []scripted.Prompt{planTurn, reads("api", "mux.go", "The router registers two handlers; one skips auth."), reads("auth", "auth.go", "A token that is not empty is good."),
				{Has: "Read the docs module", Turns: turns(call("task", `{"agent":"reader","prompt":"Look at README.md"}`).Using(600, 40), scripted.Say("They are one page.").Using(900, 20))},
				{Has: "Look at README.md", Turns: turns(call("read_file", `{"path":"README.md"}`).Using(300, 20), scripted.Say("One page.").Using(350, 10))},
				reads("tests", "mux.go", "There are none."), reads("ci", "README.md", "There is no pipeline."), briefTurn()}},
		"subagents": {workflow: "agent", inputs: `{"prompt":"Compare the two modules"}`, prompts: []scripted.Prompt{
			{Has: "Compare the two modules", Turns: turns(
				call("task_batch", `{"tasks":[{"agent":"reader","prompt":"Read the api module"},{"agent":"reader","prompt":"Read the auth module"},{"agent":"reader","prompt":"Read the docs module"}]}`).Using(1200, 150),
				scripted.Say("The api module ", "does not use the auth module.").Using(2000, 100))},
			reads("api", "mux.go", "Two handlers."), reads("auth", "auth.go", "One check."), reads("docs", "README.md", "One page.")}},
		"permission": {workflow: "agent", inputs: `{"prompt":"Guard the route","agent":"editor"}`, rules: "ask edit_file",
			answers: []string{"once"}, prompts: []scripted.Prompt{{Has: "Guard the route", Turns: turns(call("read_file", `{"path":"mux.go"}`).Using(500, 40),
				scripted.Say("The route /runs has no guard.").And(call("edit_file", edit)).Using(800, 90), scripted.Say("It has one now.").Using(900, 20))}}},
		"retry": {workflow: "survey", inputs: `{}`, files: map[string]string{".superstep/workflows/survey.yaml": surveyOf("api, auth, docs", "retry: {attempts: 3, delay: 1s}")},
			prompts: []scripted.Prompt{planTurn, reads("api", "mux.go", "Two handlers."),
				{Has: "Read the auth module", Turns: turns(scripted.Fail(&model.Error{Provider: "openai", Model: "gpt-5.4-mini", Status: http.StatusTooManyRequests, RetryAfter: 1500 * time.Millisecond,
					Temporary: true, Err: errText("too many requests")}), scripted.Say("One check.").Using(700, 20))},
				{Has: "Read the docs module", Turns: turns(scripted.Say("They are ").And(scripted.Fail(&model.Error{Provider: "openai", Model: "gpt-5.4-mini", Code: model.CodeTruncated, Err: errText("the connection was reset")})),
					scripted.Say("They are one page.").Using(700, 20))}, briefTurn()}},
		"compaction": {workflow: "agent", inputs: `{"prompt":"Summarize the long page","agent":"reader"}`, window: 6000, files: map[string]string{"long.md": wide, "longer.md": wide + wide},
			prompts: []scripted.Prompt{{Has: "You read files", Turns: turns(call("read_file", `{"path":"long.md"}`).Using(1500, 40), call("read_file", `{"path":"longer.md"}`).Using(3500, 40),
				call("read_file", `{"path":"README.md"}`).Using(5200, 40), scripted.Say("It says the same on every line.").Using(1200, 30), scripted.Say("It says the same.").Using(1200, 30))},
				{Has: "", Turns: turns(scripted.Say("So far: two long pages were read.").Using(5000, 60), scripted.Say("So far: pages were read.").Using(5000, 60))}}},
		"budget": {workflow: "agent", inputs: `{"prompt":"Read it all","agent":"reader"}`, budget: &runlog.Budget{Money: 17_000, Soft: 0.5},
			prompts: []scripted.Prompt{{Has: "Read it all", Turns: turns(call("read_file", `{"path":"mux.go"}`).Using(3000, 200), call("read_file", `{"path":"auth.go"}`).Using(4000, 200),
				call("read_file", `{"path":"README.md"}`).Using(4500, 200), call("ls", `{}`).Using(5000, 100), scripted.Say("All read.").Using(5000, 100))}}},
		"failure": {workflow: "survey", inputs: `{}`, files: map[string]string{".superstep/workflows/survey.yaml": surveyOf("api, auth, docs, tests, ci, build, site", "on_error: fail")},
			prompts: []scripted.Prompt{planTurn, reads("api", "mux.go", "Two handlers."), reads("auth", "auth.go", "One check."), reads("docs", "README.md", "One page."), reads("tests", "mux.go", "None."),
				{Has: "Read the ci module", Turns: turns(scripted.Fail(&model.Error{Provider: "openai", Model: "gpt-5.4-mini", Status: http.StatusForbidden, Err: errText("the key may not use this model")}))},
				reads("build", "mux.go", "None."), reads("site", "README.md", "One page.")}},
		"background": {workflow: "agent", inputs: `{"prompt":"Survey in the background"}`, files: map[string]string{".superstep/workflows/survey.yaml": surveyOf("api, auth", "timeout: 1m")},
			prompts: []scripted.Prompt{{Has: "Survey in the background", Turns: turns(call("run_workflow", `{"name":"survey","inputs":{},"background":true}`).Using(1000, 60),
				scripted.Say("Meanwhile I look around.").And(call("ls", `{}`)).Using(1200, 40), call("collect_workflow", `{}`).Using(1300, 30), call("collect_workflow", `{"handle":"wf-1"}`).Using(1350, 30),
				scripted.Say("The survey found ", "a route without a check.").Using(1500, 30),
				scripted.Say("The survey found ", "a route without a check.").Using(1700, 30))}, planTurn, reads("api", "mux.go", "Two handlers."), reads("auth", "auth.go", "One check."), briefTurn()}},
		"question": {workflow: "agent", inputs: `{"prompt":"Name the service","agent":"asker"}`, answers: []string{"gate"}, free: true, prompts: []scripted.Prompt{{Has: "Name the service", Turns: turns(
			call("read_file", `{"path":"README.md"}`).Using(400, 20), scripted.Say("Two names fit.").And(call("ask_user", `{"question":"Which name shall the service have?","options":["gate","door"]}`)).Using(600, 60),
			scripted.Say("It is called gate.").Using(700, 20))}}},
		"todo": {workflow: "agent", inputs: `{"prompt":"Check the project","agent":"keeper"}`, prompts: []scripted.Prompt{{Has: "Check the project", Turns: turns(
			call("todo", `{"todos":[{"content":"read the routes","status":"in_progress"},{"content":"read the check"},{"content":"report"}]}`).Using(500, 60),
			call("read_file", `{"path":"mux.go"}`).Using(700, 20), call("todo", `{"todos":[{"content":"read the routes","status":"completed"},{"content":"read the check","status":"in_progress"},{"content":"report"}]}`).Using(900, 60),
			call("read_file", `{"path":"auth.go"}`).Using(1000, 20), call("todo", `{"todos":[{"content":"read the routes","status":"completed"},{"content":"read the check","status":"completed"},{"content":"report","status":"in_progress"}]}`).Using(1100, 60),
			scripted.Say("One route ", "has no check.").Using(1200, 40))}}},
		"crash": {workflow: "agent", inputs: `{"prompt":"Look twice","agent":"reader"}`, crash: true, prompts: []scripted.Prompt{{Has: "Look twice", Turns: turns(
			call("read_file", `{"path":"mux.go"}`).Using(4000, 300), call("read_file", `{"path":"auth.go"}`).Using(5000, 300), scripted.Say("Both were read.").Using(6000, 400))}}},
	}
}

type errText string

func (e errText) Error() string { return string(e) }

// Recording is done with -update, and takes the engine, the recipes, the tools and the store as users have them.
func TestRecord(t *testing.T) {
	if !*update {
		t.Skip("with -update")
	}
	for name, s := range scripts() {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			dir := filepath.Join(base, "project")
			for _, files := range []map[string]string{project, s.files} {
				for path, text := range files {
					if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			var recs []runlog.Record
			if s.crash {
				recs = killed(t, name, base)
			}
			recs = append(recs, perform(t, &s, base, s.crash, nil)...)
			b, err := recorded.Encode(recs)
			if err != nil {
				t.Fatal(err)
			}
			b = plain(b, base, recs[0].Time)
			if err := os.WriteFile(filepath.Join("testdata", name+".jsonl"), b, 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// killed records what a process saw until it was killed in the middle of the last turn.
func killed(t *testing.T, name, base string) []runlog.Record {
	out := filepath.Join(base, "seen.jsonl")
	cmd := exec.Command(os.Args[0], "-test.run", "^TestDies$")
	cmd.Env = append(os.Environ(), "RECORD="+name, "RECORD_BASE="+base)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		b, _ := os.ReadFile(out)
		if bytes.Contains(b, []byte(`"key":"turn-1/call-0"`)) && bytes.HasSuffix(b, []byte("\n")) && bytes.Contains(b, []byte(`"key":"turn-2"`)) || time.Now().After(end) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			b, _ = os.ReadFile(out)
			b = b[:bytes.LastIndexByte(b, '\n')+1]
			recs, err := recorded.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			return recs
		}
	}
}

// TestDies is the process that is killed.
func TestDies(t *testing.T) {
	name, base := os.Getenv("RECORD"), os.Getenv("RECORD_BASE")
	if name == "" {
		t.Skip("a part of TestRecord")
	}
	f, err := os.Create(filepath.Join(base, "seen.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	s := scripts()[name]
	last := s.prompts[0].Turns
	last[len(last)-1].Delay = time.Minute
	perform(t, &s, base, false, func(rec runlog.Record) {
		b, err := recorded.Encode([]runlog.Record{rec})
		if err == nil {
			_, _ = f.Write(b)
		}
	})
}

// perform executes a session, or goes on with it, and returns what was seen of it.
func perform(t *testing.T, s *script, base string, again bool, seen func(runlog.Record)) (recs []runlog.Record) {
	m := &scripted.Model{ID: "openai/gpt-5.4-mini", Cost: &model.Price{In: 1, Out: 4}, Tokens: s.window, Prompts: s.prompts}
	if s.free {
		m.Cost = nil
	}
	if again {
		m.Prompts = []scripted.Prompt{{Turns: s.prompts[0].Turns[2:]}}
	}
	h, err := host.Open(t.Context(), &host.Config{
		Name: "superstep", Env: func(name string) string {
			return map[string]string{"HOME": base, "PATH": os.Getenv("PATH"), "OPENAI_API_KEY": "none"}[name]
		}, Environ: []string{}, Dir: filepath.Join(base, "project"),
		Stores: stores.All(), Models: []model.Model{m}, Settled: true, Settings: host.Settings{DataDir: filepath.Join(base, "data"), Model: m.ID, TrustProject: true, Rules: s.rules},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	e, err := h.Engine(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	answer := func(context.Context, runlog.Question) (*runlog.Answer, bool) {
		time.Sleep(3 * pace)
		asked++
		v, _ := json.Marshal(s.answers[min(asked, len(s.answers))-1])
		return &runlog.Answer{Value: v, By: "person"}, true
	}
	after := uint64(0)
	observe := func(rec runlog.Record, err error) {
		if err != nil || rec.Seq != 0 && rec.Seq <= after {
			return
		}
		if recs = append(recs, rec); seen != nil {
			seen(rec)
		}
	}
	var run *superstep.Run
	if again {
		infos, err2 := e.Runs(t.Context(), nil)
		if err2 != nil || len(infos) != 1 {
			t.Fatal(infos, err2)
		}
		after = infos[0].Head
		run, err = e.Resume(t.Context(), infos[0].ID, &superstep.ResumeOptions{Answer: answer, Observe: observe})
	} else {
		run, err = e.Start(t.Context(), s.workflow, json.RawMessage(s.inputs), &superstep.StartOptions{Answer: answer, Observe: observe, Budget: s.budget})
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := run.Wait(t.Context())
	t.Logf("%s: %v %v", out.Status, out.Err, err)
	return recs
}

var stamps = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// plain takes what is of this machine and this day out of a recording.
func plain(b []byte, base string, began time.Time) []byte {
	b = bytes.ReplaceAll(b, []byte(base), []byte("/home/ada"))
	shift := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC).Sub(began)
	return stamps.ReplaceAllFunc(b, func(s []byte) []byte {
		at, err := time.Parse(time.RFC3339Nano, string(s))
		if err != nil {
			return s
		}
		return []byte(at.Add(shift).Truncate(time.Millisecond).Format(time.RFC3339Nano))
	})
}

// The recordings are small, whole, and name no machine.
func TestRecordings(t *testing.T) {
	if n := len(recorded.Names()); n != len(scripts()) {
		t.Errorf("%d sessions, want %d", n, len(scripts()))
	}
	for _, name := range recorded.Names() {
		b, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > most || bytes.Contains(b, []byte(os.TempDir())) {
			t.Errorf("%s: %d bytes, or it names a folder of a machine", name, len(b))
		}
		recs := recorded.Load(name)
		again, err := recorded.Encode(recs)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s: does not read as it was written: %v", name, err)
		}
		var seq uint64
		for _, rec := range recs {
			if rec.Seq != 0 {
				if seq++; rec.Seq != seq {
					t.Fatalf("%s: record %d after %d", name, rec.Seq, seq-1)
				}
			}
		}
	}
}
