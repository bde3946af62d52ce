package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/evaluate"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog/stores"
)

// evaluated are models that take turns as long as they are allowed to, and the folder of an evaluation of them.
type evaluated struct {
	t                *testing.T
	dir              string
	writing, judging atomic.Int64 // turns
	broken           atomic.Bool  // after four turns of writers
}

func newEvaluated(t *testing.T) *evaluated {
	e := &evaluated{t: t, dir: t.TempDir()}
	e.write("brief.yaml", "name: brief\ninputs: [topic]\nsteps: [{id: a, subagent: judge, prompt: \"About {{inputs.topic}}\", on_error: fail}]\n")
	e.write("brief.eval.yaml", `workflow: brief.yaml
runs: 2
judge: {model: test/wise}
variants: [{name: good, model: test/good}, {name: bad, model: test/bad}]
cases:
  - name: judged
    inputs: {topic: x}
    checks: [judge: It names the barrier.]
  - name: plain
    inputs: {topic: y}
    checks: [output contains "barrier", cost < 0.01]
`)
	return e
}

func (e *evaluated) write(name, text string) {
	e.t.Helper()
	if err := os.WriteFile(filepath.Join(e.dir, name), []byte(text), 0o600); err != nil {
		e.t.Fatal(err)
	}
}

// run runs the command and returns its exit code, its results and what else it said.
func (e *evaluated) run(args ...string) (int, *evaluate.Report, string) {
	e.t.Helper()
	says := func(id, text string) *scripted.Model {
		return &scripted.Model{ID: id, Cost: &model.Price{In: 1, Out: 2}, Answer: func(*model.Request) scripted.Turn {
			if e.writing.Add(1) > 4 && e.broken.Load() {
				return scripted.Fail(errors.New("out of order"))
			}
			return scripted.Say(text).Using(100, 10)
		}}
	}
	wise := &scripted.Model{ID: "test/wise", Answer: func(req *model.Request) scripted.Turn {
		e.judging.Add(1)
		_, result, _ := strings.Cut(req.Messages[0].Text(), "<result>")
		if strings.Contains(result, "at a barrier") {
			return scripted.Say(`{"pass": true, "why": "it does"}`)
		}
		return scripted.Say(`{"pass": false, "why": "it names nothing"}`)
	}}
	env := map[string]string{"HOME": filepath.Join(e.dir, "home"), "XDG_CONFIG_HOME": filepath.Join(e.dir, "home", "config")}
	var out, said bytes.Buffer
	code := Main(&host.Config{
		Name: "superstep", Env: func(name string) string { return env[name] }, Environ: []string{}, Dir: e.dir, Stores: stores.All(),
		Models: []model.Model{says("test/good", "It ends at a barrier."), says("test/bad", "It ends."), wise},
	}, &Options{Args: append([]string{"--data-dir", filepath.Join(e.dir, "data"), "-o", "json", "eval", filepath.Join(e.dir, "brief.eval.yaml")}, args...),
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &said})
	var r evaluate.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		e.t.Fatalf("%v\n%s%s", err, out.String(), said.String())
	}
	return code, &r, said.String()
}

// What has finished is not paid for again: neither by the same command, nor by one with other checks. Failed runs are resumed.
func TestEvalContinues(t *testing.T) {
	t.Parallel()
	e := newEvaluated(t)
	turns := func(what string, writing, judging int64) {
		t.Helper()
		if w, j := e.writing.Swap(0), e.judging.Swap(0); w != writing || j != judging {
			t.Errorf("%s: %d turns, %d of the judge, want %d and %d", what, w, j, writing, judging)
		}
	}
	e.broken.Store(true)
	code, r, _ := e.run("--jobs", "1")
	if turns("four work", 8, 2); code != ExitFailed || r.Variants[0].Cases[0].Runs[1].Why == "" || !r.Variants[0].Cases[0].Runs[0].Passed {
		t.Errorf("%d %+v", code, r)
	}
	e.broken.Store(false)
	code, r, said := e.run()
	turns("the others are resumed", 4, 2)
	if len(r.Variants) != 2 || len(r.Comparisons) != 1 {
		t.Fatal(said)
	}
	good, bad := &r.Variants[0], &r.Variants[1]
	if code != ExitFailed || !good.Cases[0].Passed || !good.Cases[1].Passed || bad.Cases[0].Passed || bad.Cases[1].Passed || r.Comparisons[0].Worse {
		t.Errorf("%d %+v", code, r)
	}
	if v := bad.Cases[0].Runs[0].Checks[0]; v.Why != "it names nothing" || v.Run == "" || good.Cases[1].Runs[0].Cost == nil {
		t.Errorf("%+v", v)
	}
	e.run()
	turns("nothing has changed", 0, 0)
	text, err := os.ReadFile(filepath.Join(e.dir, "brief.eval.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	e.write("brief.eval.yaml", strings.Replace(string(text), "the barrier", "a barrier", 1))
	_, r, _ = e.run("--runs", "3")
	if turns("another criterion, and a run more", 4, 6); !r.Comparisons[0].Worse {
		t.Errorf("%+v", r.Comparisons)
	}
	e.write("brief.yaml", "name: brief\ninputs: [topic]\nsteps: [{id: a, subagent: judge, prompt: \"Of {{inputs.topic}}\"}]\n")
	e.run("--case", "plain")
	turns("another prompt", 4, 0)
	e.run("--case", "plain", "--fresh")
	turns("all anew", 4, 0)
	e.run("--case", "plain")
	turns("what was anew", 0, 0)
}

func TestEvalLimits(t *testing.T) {
	t.Parallel()
	e := newEvaluated(t)
	code, _, said := e.run("--total-cost", "0.0003", "--jobs", "1", "--fresh")
	if code != ExitLimit || !strings.Contains(said, "3 of 8 runs have finished") || !strings.Contains(said, "continue: superstep") || strings.Contains(said, "--fresh") {
		t.Errorf("%d %s", code, said)
	}
	e.write("brief.eval.yaml", "workflow: brief.yaml\njudge: {model: offline}\nvariants: [{name: a, model: test/good}]\ncases: [{name: a, checks: [judge: x]}]\n")
	e.writing.Store(0)
	if code, _, said := e.run(); code != ExitNoModel || !strings.Contains(said, "judge-result needs a language model") || e.writing.Load() > 0 {
		t.Errorf("%d %s", code, said)
	}
}
