package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/stores"
)

// home is a user with nothing but a folder to work in, on a machine without a model.
type home struct {
	root string
	env  map[string]string
}

func newHome(t *testing.T) *home {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &home{root, map[string]string{"PATH": os.Getenv("PATH"), "HOME": filepath.Join(root, "home")}}
	for name, dir := range map[string]string{"XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data", "XDG_CACHE_HOME": "cache"} {
		h.env[name] = filepath.Join(root, dir)
	}
	for _, name := range []string{"OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM"} {
		h.env[name+"_BASE_URL"] = "http://127.0.0.1:1/v1"
	}
	h.write(t, "project/README.md", "# Heron\n\nHeron is a job queue.\n")
	return h
}

func (h *home) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(h.root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (h *home) config() *host.Config {
	cfg := &host.Config{Name: "superstep", Stores: stores.All(), Dir: filepath.Join(h.root, "project"), Env: func(name string) string { return h.env[name] }}
	for name, value := range h.env {
		cfg.Environ = append(cfg.Environ, name+"="+value)
	}
	return cfg
}

// run runs the command and returns what it did, besides its output.
func (h *home) run(t *testing.T, want int, args ...string) (*app, string) {
	t.Helper()
	t.Chdir(filepath.Join(h.root, "project"))
	var out, errs bytes.Buffer
	a := newApp(h.config(), &Options{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
	if code := a.run(t.Context()); code != want {
		t.Fatalf("%v: exit code %d\n%s%s", args, code, &out, &errs)
	}
	return a, out.String()
}

// A run reads each folder once, compiles its recipe and no other, and opens one store.
func TestRunOpensOnce(t *testing.T) {
	h := newHome(t)
	h.run(t, ExitOK, "init")
	a, _ := h.run(t, ExitOK, "run", "hello", "--model", "offline")
	n := a.opened.Counts()
	if n.Opened != 1 || n.Compiled != 1 || n.Stores != 1 || len(n.Walks) == 0 {
		t.Errorf("%+v", n)
	}
	for dir, times := range n.Walks {
		if times != 1 {
			t.Errorf("%s was read %d times", dir, times)
		}
	}
	if a, _ = h.run(t, ExitOK, "version"); a.opened.Counts().Opened+a.opened.Counts().Stores != 0 {
		t.Errorf("the version opens something: %+v", a.opened.Counts())
	}
}

// A setting reaches the host also if it is the only one that is given. The command asks the host for workflows before it knows the flags.
func TestOneSetting(t *testing.T) {
	h := newHome(t)
	h.write(t, "config/superstep/workflows/listing.yaml", "name: listing\nsteps:\n  - {id: list, tool: ls, args: {path: \".\"}}\noutput: done\n")
	a, _ := h.run(t, ExitOK, "run", "listing", "--agent-processes", "7", "--input", "jsonl", "-o", "jsonl")
	if n := a.opened.Settings().AgentProcesses; n != 7 {
		t.Errorf("%d processes of agents, want 7", n)
	}
}

// The host is opened anew whichever setting changes, and each setting comes from a flag, a variable or the command itself.
func TestEverySetting(t *testing.T) {
	h := newHome(t)
	h.write(t, "config/superstep/config.yaml", "model: openai/x\n")
	a := newApp(h.config(), &Options{Args: []string{"version"}, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard})
	as := reflect.ValueOf(&a.as).Elem()
	for i := range as.NumField() {
		name, before := as.Type().Field(i).Name, a.host()
		switch f := as.Field(i); f.Kind() { // what the host is taken to have been opened with
		case reflect.String:
			f.SetString(f.String() + "x")
		case reflect.Bool:
			f.SetBool(!f.Bool())
		case reflect.Struct:
			f.Set(reflect.ValueOf(host.Worker{Dirs: "/x"}))
		default:
			f.SetInt(f.Int() + 1)
		}
		after := a.host()
		if after == before {
			t.Errorf("%s changes and the host does not", name)
		}
		if a.host() != after {
			t.Errorf("%s: the host changes and no setting does", name)
		}
	}
	a.set.dataDir, a.set.store, a.set.keyFile, a.set.model, a.set.volatile, a.set.offline, a.set.otel = "d", "memory", "k", "openai/x", true, true, true
	a.set.leave = leave{deny: arguments.List{"bash"}, trustProject: true, headless: true, onAsk: "wait"}
	a.set.turn, a.set.width, a.set.processes, a.replays, a.lives, a.set.guest, a.set.yes = time.Second, 1, 1, true, true, true, true
	a.worker = host.Worker{Dirs: "/x"}
	chosen := reflect.ValueOf(a.chosen())
	for i := range chosen.NumField() {
		if chosen.Field(i).IsZero() {
			t.Errorf("nothing sets %s", chosen.Type().Field(i).Name)
		}
	}
}

const checking = `name: checking
steps:
  - {id: list, tool: ls, args: {path: "."}}
  - {id: sure, ask: "Go on?", depends_on: [list]}
  - {id: last, tool: ls, args: {path: "."}, depends_on: [sure]}
output: "{{steps.sure.output}}"
`

// varying and waited are what two runs of the same differ in.
var varying = regexp.MustCompile(`"(sandbox|created|at|nonce|hold)":"[^"]*"|\b[0-9a-f]{8}\b`)

var waited = regexp.MustCompile(`,"(waited|took_ms|queued_ms|next_ms|first_ms)":\d+`)

// log returns the records of a run, without what differs from one run to the next.
func log(ctx context.Context, t *testing.T, e *superstep.Engine, id string) string {
	t.Helper()
	var b strings.Builder
	for rec, err := range e.Follow(ctx, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(string(rec.Kind) + " " + rec.Path + " " + varying.ReplaceAllString(waited.ReplaceAllString(string(rec.Data), ""), "*") + "\n")
	}
	return b.String()
}

// What the command does a program can do through the host, and the same comes of it.
func TestHostAndCommandWriteTheSameLog(t *testing.T) {
	h := newHome(t)
	h.write(t, "config/superstep/workflows/checking.yaml", checking)
	ctx := t.Context()
	t.Chdir(filepath.Join(h.root, "project"))
	of := func(data string) *host.Host {
		cfg := h.config()
		cfg.DataDir, cfg.OnAsk = filepath.Join(h.root, data), "wait"
		opened, err := host.Open(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := opened.Close(); err != nil {
				t.Error(err)
			}
		})
		return opened
	}
	ended := func(run *superstep.Run, err error, want runlog.Status) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Wait(ctx); err != nil || out.Status != want {
			t.Fatalf("%+v, %v; want %s", out, err, want)
		}
	}

	// through the host
	own := of("own")
	w, err := own.Ready("checking")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := own.Plan(w, nil)
	if err != nil {
		t.Fatal(err)
	}
	run, err := own.Start(ctx, "checking", json.RawMessage("{}"), nil)
	ended(run, err, runlog.Paused)
	e, err := own.Engine(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var again *superstep.Run
	_, err = host.Answer(ctx, e, run.ID(), "sure", &runlog.Answer{Key: "answer", Value: json.RawMessage(`"yes"`), By: "flag"}, func(ctx context.Context) (err error) {
		again, err = e.Resume(ctx, run.ID(), nil)
		return err
	})
	ended(again, err, runlog.Completed)
	at, err := e.At(ctx, run.ID(), "last")
	if err != nil {
		t.Fatal(err)
	}
	fork, err := e.Fork(ctx, run.ID(), at.Seq, &superstep.ForkOptions{Again: []string{"last"}})
	if err != nil {
		t.Fatal(err)
	}
	again, err = e.Resume(ctx, fork.ID, nil)
	ended(again, err, runlog.Completed)

	other, err := own.Start(ctx, "checking", json.RawMessage("{}"), nil) // answered while nobody runs it
	ended(other, err, runlog.Paused)
	if err := e.Answer(ctx, other.ID(), "sure", &runlog.Answer{Key: "answer", Value: json.RawMessage(`"no"`), By: "person"}); err != nil {
		t.Fatal(err)
	}
	again, err = e.Resume(ctx, other.ID(), nil)
	ended(again, err, runlog.Completed)

	// through the command
	data := []string{"--data-dir", filepath.Join(h.root, "command")}
	do := func(want int, args ...string) string {
		t.Helper()
		_, out := h.run(t, want, append(args, data...)...)
		return out
	}
	var told host.Plan
	if err := json.Unmarshal([]byte(do(ExitOK, "run", "checking", "--plan", "-o", "json")), &told); err != nil {
		t.Fatal(err)
	}
	mine, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := json.Marshal(&told)
	if err != nil || !bytes.Equal(mine, theirs) {
		t.Errorf("the plans are\n%s\n%s\n%v", mine, theirs, err)
	}
	do(ExitPaused, "run", "checking", "--on-ask", "wait")
	do(ExitOK, "runs", "answer", "@last", "sure=yes", "--on-ask", "wait")
	do(ExitOK, "runs", "fork", "@last", "--from", "last", "--on-ask", "wait")

	command, err := of("command").Engine(ctx, &host.EngineOptions{Look: true})
	if err != nil {
		t.Fatal(err)
	}
	infos, err := command.Runs(ctx, nil)
	if err != nil || len(infos) != 2 {
		t.Fatalf("%v, %v", infos, err)
	}
	for i, id := range []string{fork.ID, run.ID()} { // the newest first
		a, b := log(ctx, t, e, id), log(ctx, t, command, infos[i].ID)
		if a != b {
			t.Errorf("the logs are\n%s\nand\n%s", a, b)
		}
		if strings.Count(a, "\n") < 6 {
			t.Errorf("the log is short:\n%s", a)
		}
	}
	if n := own.Counts(); n.Opened != 1 || slices.Max(slices.Collect(maps.Values(n.Walks))) != 1 {
		t.Errorf("%+v", n)
	}
}
