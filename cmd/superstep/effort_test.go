package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
)

// strains is the efforts that a server was asked for, in their order.
type strains struct {
	mu    sync.Mutex
	asked []string
}

// heard adds the effort of a request.
func (s *strains) heard(r *modeltest.ParsedRequest) {
	var body struct {
		Model  string `json:"model"`
		Effort string `json:"reasoning_effort"`
	}
	_ = json.Unmarshal(r.Body, &body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, body.Model+" "+body.Effort)
}

// taken returns the efforts, each once, and forgets them.
func (s *strains) taken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.asked)
	out := strings.Join(slices.Compact(s.asked), ", ")
	s.asked = nil
	return out
}

// newStrained is a project with an agent that has an effort, and one that has none.
func newStrained(t *testing.T) (*workshop, *strains) {
	t.Helper()
	w, s := newSite(t), &strains{}
	w.server = modeltest.NewServer(t, func(r *modeltest.ParsedRequest) modeltest.Reply {
		s.heard(r)
		if strings.Contains(r.System, "You are LEAD") && len(r.Messages) == 1 {
			return modeltest.Reply{Parts: []model.Part{called("c", "task_batch", `{"tasks":[{"agent":"eager","prompt":"x"},{"agent":"plain","prompt":"x"}]}`)}}
		}
		return modeltest.Text("done")
	}, nil)
	w.env["OPENAI_BASE_URL"] = w.server.URL
	delete(w.env, "SUPERSTEP_MODEL")
	plant(t, w.dir, map[string]string{
		".claude/agents/eager.md": "---\nname: eager\ndescription: Works hard.\neffort: xhigh\n---\nYou are EAGER.\n",
		".claude/agents/named.md": "---\nname: named\ndescription: Names both.\nmodel: openai/gpt-own#low\neffort: max\n---\nYou are NAMED.\n",
		".claude/agents/plain.md": "---\nname: plain\ndescription: Works.\n---\nYou are PLAIN.\n",
		".claude/agents/lead.md":  "---\nname: lead\ndescription: Leads.\n---\nYou are LEAD.\n",
		"recipe.yaml": "name: efforts\nmodel: openai/gpt-recipe#medium\nsteps:\n  - {id: a, subagent: plain, prompt: x}\n  - {id: b, subagent: eager, prompt: x}\n" +
			"  - {id: c, subagent: eager, prompt: x, model: 'openai/gpt-step#low'}\n  - {id: d, subagent: eager, prompt: x, model: openai/gpt-step}\n",
	})
	if code, _, errs := w.run("trust", "--yes"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	return w, s
}

// The effort that a definition, a flag, a variable, a configuration or a recipe names is in the requests.
func TestEffort(t *testing.T) {
	w, s := newStrained(t)
	for _, c := range []struct {
		name, env, want string
		args            []string
	}{
		{"definition", "openai/gpt-test", "gpt-test xhigh", []string{"agent", "x", "--agent", "eager"}},
		{"name in a definition", "", "gpt-own low", []string{"agent", "x", "--agent", "named"}},
		{"none", "openai/gpt-test", "gpt-test ", []string{"agent", "x", "--agent", "plain"}},
		{"flag", "", "gpt-test high", []string{"agent", "x", "--agent", "plain", "--model", "openai/gpt-test#high"}},
		{"flag before definition", "", "gpt-test low", []string{"agent", "x", "--agent", "eager", "--model", "openai/gpt-test#LOW"}},
		{"flag with an alias", "", "gpt-5 max", []string{"agent", "x", "--agent", "plain", "--model", "gpt-5#max"}},
		{"environment", "openai/gpt-test#medium", "gpt-test medium", []string{"agent", "x", "--agent", "plain"}},
		{"sub-agents", "", "gpt-test low, gpt-test xhigh", []string{"agent", "x", "--agent", "lead", "--model", "openai/gpt-test#low"}},
		{"recipe", "", "gpt-recipe medium, gpt-step low, gpt-step xhigh", []string{"recipe.yaml"}},
		{"flag before recipe", "", "gpt-test high", []string{"recipe.yaml", "--model", "openai/gpt-test#high"}},
	} {
		if w.env["SUPERSTEP_MODEL"] = c.env; c.env == "" {
			delete(w.env, "SUPERSTEP_MODEL")
		}
		code, out, errs := w.run(append([]string{"run"}, c.args...)...)
		if got := s.taken(); code != 0 || got != c.want {
			t.Errorf("%s: exit code %d, asked %q, want %q\n%s%s", c.name, code, got, c.want, out, errs)
		}
	}
	if _, out, _ := w.run("runs", "show", "@last", "-v"); !strings.Contains(out, " openai/gpt-test effort=high:") {
		t.Errorf("the effort does not show:\n%s", out)
	}
	delete(w.env, "SUPERSTEP_MODEL")
	if code, out, errs := w.run("models", "use", "openai/gpt-5.4#high"); code != 0 || !strings.Contains(out, "openai/gpt-5.4#high") || strings.Contains(errs, "price") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if code, _, errs := w.run("run", "agent", "x", "--agent", "plain", "--chat"); code != 0 || s.taken() != "gpt-5.4 high" {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	if code, _, errs := w.run("models", "use", "openai/gpt-5.4"); code != 0 {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	if code, _, errs := w.run("run", "agent", "more", "--continue", "@last"); code != 0 && code != cli.ExitPaused {
		t.Errorf("exit code %d\n%s", code, errs)
	} else if got := s.taken(); got != "gpt-5.4 high" {
		t.Errorf("the chat continues with %q", got)
	}
	for _, bad := range [][]string{
		{"run", "agent", "x", "--model", "openai/gpt-5.4#fast"}, {"run", "recipe.yaml", "--model", "gpt-5.4#"}, {"models", "use", "openai/gpt-5.4#fast"},
		{"models", "test", "openai/gpt-5.4#fast"}, {"run", "agent", "x", "--model", "inherit#fast"},
	} {
		if code, _, errs := w.run(bad...); code != cli.ExitUsage || !strings.Contains(errs, "low, medium, high, xhigh or max") {
			t.Errorf("%q: exit code %d\n%s", bad, code, errs)
		}
	}
	for _, none := range []string{"offline#high", "#high"} {
		if code, _, errs := w.run("run", "agent", "x", "--model", none); code != cli.ExitUsage || !strings.Contains(errs, "effort") {
			t.Errorf("%s: exit code %d\n%s", none, code, errs)
		}
	}
	w.env["SUPERSTEP_MODEL"] = "openai/gpt-5.4#fast"
	if code, _, errs := w.run("run", "agent", "x"); code != cli.ExitUsage || !strings.Contains(errs, "low, medium, high, xhigh or max") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	if got := s.taken(); got != "" {
		t.Errorf("a model was asked: %s", got)
	}
	if _, out, _ := w.run("__complete", "models", "use", "openai/gpt-5.4#"); !strings.Contains(out, "openai/gpt-5.4#xhigh\t") || strings.Contains(out, "openai/gpt-5.4\t") {
		t.Errorf("completion: %s", out)
	}
	if _, out, _ := w.run("__complete", "models", "use", "openai/gpt-5.4"); strings.Contains(out, "#") {
		t.Errorf("completion: %s", out)
	}
}

// A run that is killed in a turn is resumed with the effort that it began with, whatever the environment says by then.
func TestEffortKilled(t *testing.T) {
	bin := faults.Command(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"agent with a flag":        {[]string{"agent", "x", "--agent", "plain", "--model", "openai/gpt-test#high"}, "gpt-test high"},
		"agent with a definition":  {[]string{"agent", "x", "--agent", "eager", "--model", "openai/gpt-test"}, "gpt-test xhigh"},
		"agent with a variable":    {[]string{"agent", "x", "--agent", "plain"}, "gpt-test low"},
		"recipe with a flag":       {[]string{"recipe.yaml", "--model", "openai/gpt-test#high"}, "gpt-test high"},
		"recipe with its own ones": {[]string{"recipe.yaml"}, "gpt-recipe medium, gpt-step low, gpt-step xhigh"},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newStrained(t)
			if w.env["SUPERSTEP_MODEL"] = "openai/gpt-test#low"; strings.HasPrefix(name, "recipe") {
				delete(w.env, "SUPERSTEP_MODEL")
			}
			begun := make(chan struct{}, 100)
			hangs := modeltest.NewServer(t, func(r *modeltest.ParsedRequest) modeltest.Reply {
				begun <- struct{}{}
				<-r.Gone
				return modeltest.Text("late")
			}, nil)
			cmd := exec.Command(bin, append([]string{"run"}, c.args...)...)
			for k, v := range w.env {
				if k == "OPENAI_BASE_URL" {
					v = hangs.URL
				}
				cmd.Env = append(cmd.Env, k+"="+v)
			}
			var errs bytes.Buffer
			cmd.Stderr = &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-begun:
			case <-time.After(time.Minute):
				t.Error("no turn began")
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			w.env["SUPERSTEP_MODEL"] = "openai/gpt-other#max"
			if strings.HasPrefix(name, "recipe") {
				delete(w.env, "SUPERSTEP_MODEL")
			}
			code, out, said := w.run("runs", "resume", "@last")
			if got := s.taken(); code != 0 || got != c.want {
				t.Errorf("exit code %d, asked %q, want %q\n%s%s%s", code, got, c.want, out, said, errs.String())
			}
		})
	}
}
