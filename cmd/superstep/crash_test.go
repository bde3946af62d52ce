package main_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/sqlite"
)

// A crash run is the built binary, researching a folder with a model on a real socket or with none,
// killed and resumed until it ends. What it must have in the end is what a run has that
// was never killed.
type crash struct {
	binary string
	docs   string
	args   []string // of the run
	server *modeltest.Server
	want   string // the output of a run that was not disturbed
	took   time.Duration
	// recorded is how often each turn had been asked for when its reply was found in a
	// log, by idempotency key. It must stay so.
	recorded map[string]int
}

const crashQuestion = "How does the queue keep jobs from being lost?"

// TestCrash kills the binary with SIGKILL at random moments, and at every point at
// which a crash is interesting, resumes it, and compares.
func TestCrash(t *testing.T) {
	binary := faults.Failpoints(t)
	for name, args := range map[string][]string{
		"research": {"run", "research", crashQuestion, "--docs", "DOCS", "--model", "openai/crash", "-o", "jsonl"},
		"offline":  {"run", "research", "Which leases does the queue renew?", "--docs", "DOCS", "--model", "offline", "-o", "jsonl"},
		"recipe":   {"run", "DOCS/crash.yaml", "topic=queues", "--model", "openai/crash", "-o", "jsonl", "--answer", "who=me", "--answer", "end=approve"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each has a server and a folder of its own
			c := newCrash(t, binary, args)
			if c.want = strings.TrimSpace(c.want); name != "recipe" && !regexp.MustCompile("(?m)^\\[1\\] `\\w+\\.(md|txt):\\d").MatchString(c.want) {
				t.Fatalf("the undisturbed run cites nothing: %s", c.want)
			}
			if name == "recipe" && !strings.Contains(c.want, "weigh") {
				t.Fatalf("the undisturbed run lacks steps: %s", c.want)
			}
			kills := map[string]int{"research": 100, "offline": 40, "recipe": 40}[name]
			if testing.Short() {
				kills = 10
			}
			t.Run("random", func(t *testing.T) { c.random(t, kills) })
			t.Run("failpoints", c.failpoints)
		})
	}
}

// crashRecipe has every container, a tool, a question and a gate.
const crashRecipe = `name: crash
inputs: [{name: topic, required: true}]
max_concurrency: 3
steps:
  - {id: gather, subagent: worker, prompt: "gather {{inputs.topic}}"}
  - {id: files, tool: glob, args: {pattern: "*.md"}}
  - id: views
    depends_on: [gather]
    parallel:
      - {id: pro, subagent: worker, prompt: "pro {{steps.gather.output}}"}
      - id: contra
        loop:
          max: 3
          until: loop.round == 2
          steps: [{id: dig, subagent: worker, prompt: "dig {{loop.round}} {{loop.output}}"}]
  - id: each
    depends_on: [views, files]
    foreach:
      in: [p, q, r]
      width: 2
      steps:
        - {id: find, subagent: worker, prompt: "find {{item}} {{steps.files.output}}"}
        - {id: weigh, subagent: worker, prompt: "weigh {{steps.find.output}}", depends_on: [find], when: index != 1}
  - {id: who, ask: "For whom?", depends_on: [each]}
  - {id: end, subagent: worker, prompt: "for {{steps.who.output}}: {{steps.each.output}} {{steps.views.output}}", depends_on: [who, each, views], gate: human}
output: {text: "{{steps.end.output}}"}
`

func newCrash(t *testing.T, binary string, args []string) *crash {
	c := &crash{binary: binary, docs: t.TempDir(), recorded: map[string]int{}}
	for _, a := range args {
		c.args = append(c.args, strings.ReplaceAll(a, "DOCS", c.docs))
	}
	if err := os.WriteFile(filepath.Join(c.docs, "crash.yaml"), []byte(crashRecipe), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range crashDocs() {
		if err := os.WriteFile(filepath.Join(c.docs, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.server = modeltest.NewServer(t, func(r *modeltest.ParsedRequest) modeltest.Reply {
		if len(c.args) > 1 && strings.HasSuffix(c.args[1], ".yaml") {
			return modeltest.Text("<" + r.Messages[0].Text() + ">")
		}
		return playLanguageModel(r)
	}, nil)
	start := time.Now()
	p := c.start(t, t.TempDir(), "", c.run()...)
	out, err := p.wait()
	if err != nil {
		t.Fatalf("the undisturbed run: %v\n%s", err, p.stderr.String())
	}
	c.took = time.Since(start)
	c.want = comparable(t, out)
	return c
}

func (c *crash) run() []string { return c.args }

// random kills runs until there were so many kills.
func (c *crash) random(t *testing.T, kills int) {
	const seed = 20261121
	r := rand.New(rand.NewPCG(seed, 0))
	done, runs := 0, 0
	for done < kills {
		runs++
		dir := t.TempDir()
		args := c.run()
		for n := 0; ; n++ {
			p := c.start(t, dir, "", args...)
			if n < runlog.MaxTakeovers && done < kills {
				p.killAfter(time.Duration(r.Int64N(int64(c.took * 5 / 4))))
			}
			out, err := p.wait()
			if err == nil {
				c.finished(t, dir, out)
				break
			}
			if !p.killed() {
				t.Fatalf("seed %d, run %d: %v\n%s", seed, runs, err, p.stderr.String())
			}
			done++
			args = c.after(t, dir, p)
		}
	}
	t.Logf("%d kills in %d runs, seed %d", done, runs, seed)
}

// failpoints kills runs at the n-th hit of every point, for several n.
func (c *crash) failpoints(t *testing.T) {
	hits := []int{1, 2, 3, 6, 11, 20}
	if testing.Short() {
		hits = []int{2}
	}
	for _, point := range []string{
		"journal.before-append", "journal.after-append", "effect.before", "effect.after",
		"sqlite.before-begin", "sqlite.mid-write", "sqlite.before-commit", "sqlite.after-commit",
	} {
		reached := 0
		for _, n := range hits {
			dir := t.TempDir()
			p := c.start(t, dir, fmt.Sprintf("%s:%d", point, n), c.run()...)
			out, err := p.wait()
			if err != nil {
				if !p.killed() {
					t.Fatalf("%s hit %d: %v\n%s", point, n, err, p.stderr.String())
				}
				reached++
				p = c.start(t, dir, "", c.after(t, dir, p)...)
				if out, err = p.wait(); err != nil {
					t.Fatalf("%s hit %d, resumed: %v\n%s%s", point, n, err, p.stderr.String(), out)
				}
			}
			c.finished(t, dir, out)
		}
		if reached == 0 {
			t.Errorf("no run reached %s", point)
		}
	}
}

// after looks at what a killed process left, and gives the arguments to go on with.
func (c *crash) after(t *testing.T, dir string, p *process) []string {
	t.Helper()
	log := readLog(t, dir)
	if log.id == "" || len(log.records) == 0 {
		for _, line := range p.lines() {
			t.Errorf("acknowledged, and the run is not in the store: %s", line.raw)
		}
		return c.run() // killed before there was a run
	}
	for _, line := range p.lines() {
		if !log.has(line) {
			t.Errorf("acknowledged, and not in the log: %s", line.raw)
		}
	}
	c.remember(log)
	args := []string{"runs", "resume", log.id, "-o", "jsonl"}
	if i := slices.Index(c.args, "--answer"); i > 0 {
		args = append(args, c.args[i:]...)
	}
	return args
}

// remember notes how often the turns in a log have been asked for.
func (c *crash) remember(log *storedLog) {
	asked := c.server.Asked()
	for key := range log.replied {
		if _, known := c.recorded[key]; !known {
			c.recorded[key] = asked[key]
		}
	}
}

// finished compares a run that has ended with the one that was not disturbed.
func (c *crash) finished(t *testing.T, dir string, out []byte) {
	t.Helper()
	if got := comparable(t, out); got != c.want {
		t.Errorf("the run ended with\n%s\nwant\n%s", got, c.want)
	}
	asked := c.server.Asked()
	for key, n := range c.recorded {
		if asked[key] != n {
			t.Errorf("a turn whose reply was in the log has been asked for again: %d times, then %d", n, asked[key])
		}
	}
	log := readLog(t, dir)
	c.remember(log)
	for key := range log.replied {
		if asked[key] == 0 {
			t.Errorf("the log has a reply with the key %s, which was never asked for", key)
		}
	}
	for what, n := range log.times {
		if n != 1 {
			t.Errorf("%s is in the log %d times", what, n)
		}
	}
}

// comparable is what a run ended with, without what differs from run to run.
func comparable(t *testing.T, jsonl []byte) string {
	t.Helper()
	lines := bytes.Split(bytes.TrimSpace(jsonl), []byte("\n"))
	var last struct {
		Type string
		Run  string
		Data struct {
			Status string
			Output struct {
				Text     string
				Passages json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil || last.Type != "run.finished" {
		t.Fatalf("the last line is %s (%v)", lines[len(lines)-1], err)
	}
	return last.Data.Status + "\n" + last.Data.Output.Text + string(last.Data.Output.Passages)
}

// process is the binary running.
type process struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr bytes.Buffer
	timer  *time.Timer
}

func (c *crash) start(t *testing.T, dir, failpoint string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(c.binary, append(args, "--data-dir", filepath.Join(dir, "data"), "--no-input")...)}
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), "OPENAI_BASE_URL="+c.server.URL, "OPENAI_API_KEY=none", "SUPERSTEP_FAILPOINT="+failpoint,
		"XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "TAVILY_API_KEY=")
	p.cmd.Stderr = &p.stderr
	p.cmd.Stdout = &p.stdout
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) killAfter(d time.Duration) {
	p.timer = time.AfterFunc(d, func() { _ = p.cmd.Process.Kill() })
}

// wait gives what the process wrote, all of it once it has ended.
func (p *process) wait() ([]byte, error) {
	err := p.cmd.Wait()
	if p.timer != nil {
		p.timer.Stop()
	}
	return p.stdout.Bytes(), err
}

// killed reports whether the process ended by SIGKILL.
func (p *process) killed() bool {
	return p.cmd.ProcessState != nil && p.cmd.ProcessState.String() == "signal: killed"
}

// A line is an event that the process wrote, which it does only once it is durable.
type line struct {
	raw  string
	Type string
	Task string
	Data struct{ Key string }
}

func (p *process) lines() []line {
	var out []line
	for _, raw := range strings.Split(p.stdout.String(), "\n") {
		var l line
		if json.Unmarshal([]byte(raw), &l) != nil {
			continue // cut off by the kill
		}
		switch l.Type {
		case "turn.done", "tool.done", "agent.started", "task.done", "run.started":
			l.raw = raw
			out = append(out, l)
		}
	}
	return out
}

// storedLog is a run as it is in the store.
type storedLog struct {
	id      string
	records []runlog.Record
	times   map[string]int  // how often the log has an outcome that it may have once
	replied map[string]bool // idempotency keys of the turns with a reply
}

func (l *storedLog) has(e line) bool {
	switch e.Type {
	case "run.started":
		return true // the log has a record, and that is its first
	case "task.done":
		return l.times["task "+e.Task] > 0
	}
	return l.times["effect "+e.Task+" "+e.Data.Key] > 0
}

func readLog(t *testing.T, dir string) *storedLog {
	t.Helper()
	l := &storedLog{times: map[string]int{}, replied: map[string]bool{}}
	file := filepath.Join(dir, "data", "superstep.db")
	if _, err := os.Stat(file); err != nil {
		return l
	}
	store, err := sqlite.Open(context.Background(), file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	infos, err := store.Runs(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		if info.Status == runlog.Running {
			t.Errorf("run %s reads running, and nobody runs it", info.ID)
		}
		if info.Head > 0 && l.id == "" {
			l.id = info.ID
		}
	}
	if l.id == "" {
		return l
	}
	for r, err := range runlog.Records(context.Background(), store, l.id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		l.records = append(l.records, r)
		switch r.Kind {
		case runlog.KindTaskDone:
			l.times["task "+r.Path]++
		case runlog.KindSettled:
			var d runlog.Settled
			if err := json.Unmarshal(r.Data, &d); err != nil {
				t.Fatal(err)
			}
			if d.Error == "" {
				l.times["effect "+r.Path+" "+d.Key]++
				if d.Kind == "model" {
					l.replied[idempotencyKey(l.id, r.Path, d.Key)] = true
				}
			}
		}
	}
	return l
}

// idempotencyKey is the key a turn is asked for with. It is written out here again,
// since it must never change: providers know it too.
func idempotencyKey(run, path, effect string) string {
	h := sha256.Sum256([]byte(run + "\x00" + path + "\x00" + effect))
	return hex.EncodeToString(h[:16])
}

func crashDocs() map[string]string {
	return map[string]string{
		"queue.md":   "# The queue\n\nA job is written to the journal before the producer is told that it was accepted.\n\nA worker takes a lease on a job; when the lease runs out the job goes to another worker.\n",
		"journal.md": "# The journal\n\nThe journal is flushed to disk with fsync at the end of every batch of jobs.\n\nA torn record at the end of the journal is dropped when the queue starts.\n",
		"leases.txt": "Leases of the queue last thirty seconds and are renewed every ten by the worker that holds the job.\n",
		"other.md":   "# Colours\n\nThe console prints finished jobs in green.\n",
	}
}

var hitHeader = regexp.MustCompile(`(?m)^## (\S+):\d+-\d+.*\n((?:\d+\t.*\n)+)`)

// playLanguageModel answers as a language model might, by what it is asked and nothing else.
func playLanguageModel(req *modeltest.ParsedRequest) modeltest.Reply {
	time.Sleep(5 * time.Millisecond)
	var offered []string
	for _, t := range req.Tools {
		offered = append(offered, t.Name)
	}
	has := func(name string) bool { return strings.Contains(" "+strings.Join(offered, " ")+" ", " "+name+" ") }
	last := req.Messages[len(req.Messages)-1]
	results := ""
	for _, p := range last.Parts {
		if p.Kind == model.Result {
			results += p.Text + "\n"
		}
	}
	call := func(name string, args any) modeltest.Reply {
		b, _ := json.Marshal(args)
		return modeltest.Call(name, string(b))
	}
	type m = map[string]any
	switch {
	case has("plan"):
		return call("plan", m{"queries": []string{"queue jobs lost"}})
	case has("write_file"):
		return call("write_file", m{"content": "# Jobs\n\nThey are journalled first [1], and leased [2].\n"})
	case last.Role == model.User && has("directions"):
		return call("search_docs", m{"query": "queue jobs lost"})
	case has("directions"):
		return call("directions", m{"directions": []m{{"topic": "journal"}, {"topic": "leases"}, {"topic": "workers"}}})
	case last.Role == model.User && has("findings"):
		topic := regexp.MustCompile(`(?m)^Direction: (.*)$`).FindStringSubmatch(last.Text())[1]
		return call("search_docs", m{"query": "queue job " + topic})
	}
	var found []m
	for _, hit := range hitHeader.FindAllStringSubmatch(results, -1) {
		for _, l := range strings.Split(strings.TrimSpace(hit[2]), "\n") {
			n, text, _ := strings.Cut(l, "\t")
			if len(text) > 40 && len(found) < 3 {
				found = append(found, m{"claim": "It says so.", "quote": text, "path": hit[1], "line": json.Number(n)})
			}
		}
	}
	return call("findings", m{"findings": found})
}
