//go:build unix

package acp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent/acp"
	"github.com/superstep-dev/superstep/internal/acptest"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
)

// A vendor is an agent of another program. SUPERSTEP_ and its name in capitals hold the path of its program.
type vendor struct {
	name    string
	install string // for npm
	wire    modeltest.Wire
	// setup returns the variables that let it use a model server, with a home of its own.
	setup func(t *testing.T, home, url string) []string
}

var vendors = []vendor{
	{"codex", "@agentclientprotocol/codex-acp@2.6.0", modeltest.Responses{}, func(t *testing.T, home, url string) []string {
		file := filepath.Join(home, ".codex", "config.toml")
		config := fmt.Sprintf("model = \"gpt-5.5\"\nmodel_provider = \"local\"\n[model_providers.local]\nname = \"local\"\nbase_url = %q\nwire_api = \"responses\"\n", url)
		if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(config), 0o600)); err != nil {
			t.Fatal(err)
		}
		return nil
	}},
	{"gemini", "@google/gemini-cli@0.61.0", modeltest.Gemini{}, func(_ *testing.T, _, url string) []string {
		return []string{"GOOGLE_GEMINI_BASE_URL=" + strings.TrimSuffix(url, "/v1beta"), "GEMINI_API_KEY=none"}
	}},
	{"opencode", "opencode-ai@1.18.33", modeltest.OpenAI{}, func(_ *testing.T, _, url string) []string {
		config := fmt.Sprintf(`{"model":"local/words","small_model":"local/words","enabled_providers":["local"],"provider":{"local":{"npm":"@ai-sdk/openai-compatible",`+
			`"name":"local","options":{"baseURL":%q,"apiKey":"none"},"models":{"words":{"name":"words"}}}}}`, url)
		return []string{"OPENCODE_CONFIG_CONTENT=" + config, "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
			"OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "OPENCODE_DISABLE_SHARE=1"}
	}},
	{"qwen", "@qwen-code/qwen-code@0.24.4", modeltest.OpenAI{}, func(_ *testing.T, _, url string) []string {
		return []string{"OPENAI_BASE_URL=" + url, "OPENAI_API_KEY=none", "OPENAI_MODEL=words"}
	}},
}

// known returns the command of an agent as users get it.
func known(name string) acp.Command {
	all := acp.Known()
	return all[slices.IndexFunc(all, func(c acp.Command) bool { return c.Name == name })]
}

// plays are what is done with each of them. What they say and do is recorded in testdata under the vendor's name and theirs.
var plays = map[string]struct{ prompt, answer, tool, change, file, content string }{
	"make":   {"make it", "once", "bash", "echo hi", "made.txt", "hi\n"},
	"edit":   {"edit DIR/a.txt", "once", "edit_file", "+2", "a.txt", "one\n2\n"},
	"reject": {"edit DIR/a.txt", "deny: leave it", "edit_file", "+2", "a.txt", "one\ntwo\n"},
}

// play runs one of them and checks what must come of it.
func (s *stage) play(t *testing.T, name string) {
	t.Helper()
	p := plays[name]
	in, err := json.Marshal(inputs{strings.ReplaceAll(p.prompt, "DIR", s.dir)})
	if err != nil {
		t.Fatal(err)
	}
	run, err := s.begin(t).Start(t.Context(), "test", in, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := wait(t, run)
	if len(out.Open) != 1 || out.Open[0].Call.Tool != p.tool || !strings.Contains(out.Open[0].Call.Diff+out.Open[0].Call.Subject, p.change) {
		t.Fatalf("%s: got %+v", name, out)
	}
	s.allow(t, run, out, p.answer)
	again, err := s.engine.Resume(t.Context(), run.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	out = wait(t, again)
	r := s.fold(t, run.ID())
	// Some agents end their turn where they are denied something, and some go on.
	if said := string(out.Output); !strings.HasPrefix(said, `"Ready, after`) && said != `"I left it."` || said == `"I left it."` && p.answer == "once" {
		t.Errorf("%s: got %+v, %s; parts %q", name, out, out.Output, parts(r))
	}
	if !slices.ContainsFunc(parts(r), func(l string) bool { return strings.HasPrefix(l, "reasoning ") && strings.Contains(l, "I look first.") }) {
		t.Errorf("%s: parts %q", name, parts(r))
	}
	if r.Spent.Tokens < 120 { // opencode tells the last call of its model only
		t.Errorf("%s: spent %+v", name, r.Spent)
	}
	s.replayed(t, run.ID())
}

// What the agents of vendors sent is understood, without them.
func TestRecordings(t *testing.T) {
	t.Parallel()
	for _, v := range vendors {
		for name := range plays {
			t.Run(v.name+" "+name, func(t *testing.T) {
				file, err := filepath.Abs(filepath.Join("testdata", v.name+"-"+name+".txt"))
				if err != nil {
					t.Fatal(err)
				}
				s, c := open(t, ""), known(v.name)
				c.Argv, c.Env, s.cmd = []string{os.Args[0]}, acptest.ReplayEnv(file), &c
				s.play(t, name)
			})
		}
	}
}

// What opencode sent with our tools is, too: it calls them here as it did then.
func TestRecordedTools(t *testing.T) {
	t.Parallel()
	file, err := filepath.Abs(filepath.Join("testdata", "opencode-ours.txt"))
	if err != nil {
		t.Fatal(err)
	}
	s, made := equip(t, "", rules{"look": tool.Allow, "make": tool.Ask}, nil)
	c := known("opencode")
	c.Argv, c.Env, s.cmd = []string{os.Args[0]}, acptest.ReplayEnv(file), &c
	s.useBoth(t, made)
}

// TestVendors drives real agents against a model server on this machine, those whose programs are named, such as with
//
//	npm install --ignore-scripts --prefix /tmp/oc opencode-ai@1.18.33
//	SUPERSTEP_OPENCODE=/tmp/oc/node_modules/opencode-linux-x64/bin/opencode go test ./agent/acp -run TestVendors -v
//
// The others are SUPERSTEP_CODEX (its codex-acp), SUPERSTEP_GEMINI and SUPERSTEP_QWEN. With SUPERSTEP_ACP_RECORD=1 it writes the recordings of
// TestRecordings anew.
func TestVendors(t *testing.T) {
	t.Parallel()
	for _, v := range vendors {
		t.Run(v.name, func(t *testing.T) {
			v.drive(t, v.program(t))
		})
	}
}

// program returns the path of the agent. It skips the test where there is none.
func (v *vendor) program(t *testing.T) string {
	variable := "SUPERSTEP_" + strings.ToUpper(v.name)
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("%s names no program; npm has it as %s", variable, v.install)
	}
	return path
}

// stage is the agent with a folder and a home.
func (v *vendor) stage(t *testing.T, path, url string) *stage {
	return v.at(t, open(t, ""), path, url)
}

// at puts the agent on a stage.
func (v *vendor) at(t *testing.T, s *stage, path, url string) *stage {
	c, home := known(v.name), t.TempDir()
	if err := os.WriteFile(filepath.Join(s.dir, "a.txt"), []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.opt.Environ = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, v.setup(t, home, url)...)
	// Its process ID is noted, for the tests that kill it.
	c.Argv = append([]string{"/bin/sh", "-c", "echo start $$ >> " + s.state + `/log; exec "$0" "$@"`, path}, c.Argv[1:]...)
	s.cmd = &c
	return s
}

// record lets the agent's traffic be written to a file.
func (s *stage) record(file string) {
	_ = os.MkdirAll("testdata", 0o700)
	_ = os.Remove(file)                                          // there may be none
	s.cmd.Argv = append([]string{os.Args[0]}, s.cmd.Argv[3:]...) // without the shell
	s.cmd.Env = append(acptest.RecordEnv(file), s.cmd.Env...)
}

// useBoth has the agent use two tools of ours: one is called freely, and one is asked about. Each call has one row.
func (s *stage) useBoth(t *testing.T, made *atomic.Int32) {
	t.Helper()
	run, err := s.begin(t).Start(t.Context(), "test", json.RawMessage(`{"prompt":"use both"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	out := wait(t, run)
	if len(out.Open) != 1 || out.Open[0].Call.Tool != "make" {
		t.Fatalf("got %+v; parts %q", out, parts(s.fold(t, run.ID())))
	}
	s.allow(t, run, out, "once")
	again, err := s.engine.Resume(t.Context(), run.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	out = wait(t, again)
	rows := slices.DeleteFunc(parts(s.fold(t, run.ID())), func(l string) bool { return !strings.HasPrefix(l, "tool ") })
	if slices.Sort(rows); string(out.Output) != `"Ready, after 2 results."` || made.Load() != 1 || !slices.Equal(rows, []string{"tool look x: blue", "tool make x: number 1"}) {
		t.Errorf("got %+v, %s; made %d; rows %q", out, out.Output, made.Load(), rows)
	}
	s.replayed(t, run.ID())
}

// driveOurs is drive with our tools.
func (v *vendor) driveOurs(t *testing.T, path, url string) {
	ours := func(t *testing.T, gate tool.Gate, during func()) (*stage, *atomic.Int32) {
		s, made := equip(t, "", gate, during)
		return v.at(t, s, path, url), made
	}
	t.Run("ours", func(t *testing.T) {
		s, made := ours(t, rules{"look": tool.Allow, "make": tool.Ask}, nil)
		if os.Getenv("SUPERSTEP_ACP_RECORD") != "" {
			file, err := filepath.Abs(filepath.Join("testdata", v.name+"-ours.txt"))
			if err != nil {
				t.Fatal(err)
			}
			s.record(file)
		}
		s.useBoth(t, made)
	})
	// Its model is offered nothing else but its list of tasks, whatever the project's own settings say.
	t.Run("ours only", func(t *testing.T) {
		s, _ := ours(t, freely, nil)
		hostile := `{"permission":{"bash":"allow","superstep_*":"deny"},"agent":{"build":{"permission":{"bash":"allow","edit":"allow"}}}}`
		if err := os.WriteFile(filepath.Join(s.dir, "opencode.json"), []byte(hostile), 0o600); err != nil {
			t.Fatal(err)
		}
		run, err := s.begin(t).Start(t.Context(), "test", json.RawMessage(`{"prompt":"which tools"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if out := wait(t, run); string(out.Output) != `"superstep_look superstep_make superstep_meet todowrite"` {
			t.Errorf("got %+v, %s", out, out.Output)
		}
	})
	t.Run("ours, killed in a call", func(t *testing.T) {
		var s *stage
		var made *atomic.Int32
		s, made = ours(t, freely, func() { s.killed() })
		run, err := s.begin(t).Start(t.Context(), "test", json.RawMessage(`{"prompt":"use both"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if out := wait(t, run); string(out.Output) != `"It goes on."` || made.Load() != 1 || len(s.logged("start")) != 2 {
			t.Errorf("got %+v, %s; made %d, %q", out, out.Output, made.Load(), parts(s.fold(t, run.ID())))
		}
		s.replayed(t, run.ID())
	})
}

func (v *vendor) drive(t *testing.T, path string) {
	server := acptest.NewWords(t, v.wire)
	if v.name == "opencode" { // Codex and Qwen Code offer their models a search for tools instead, and Gemini CLI takes none in a folder that it does not trust
		v.driveOurs(t, path, server.URL)
	}
	for name := range plays {
		t.Run(name, func(t *testing.T) {
			s := v.stage(t, path, server.URL)
			if os.Getenv("SUPERSTEP_ACP_RECORD") != "" {
				file, err := filepath.Abs(filepath.Join("testdata", v.name+"-"+name+".txt"))
				if err != nil {
					t.Fatal(err)
				}
				s.record(file)
			}
			s.play(t, name)
			if b, err := os.ReadFile(filepath.Join(s.dir, plays[name].file)); err != nil || string(b) != plays[name].content {
				t.Errorf("the file has %q, %v", b, err)
			}
		})
	}
	t.Run("sub-agents", func(t *testing.T) { // trap 1
		s := v.stage(t, path, server.URL)
		run, err := s.begin(t).Start(t.Context(), "test", json.RawMessage(`{"prompt":"delegate"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		out, got := wait(t, run), parts(s.fold(t, run.ID()))
		if string(out.Output) != `"There is no tool for sub-agents."` && !slices.ContainsFunc(got, func(l string) bool { return strings.Contains(l, "denied by policy") }) {
			t.Errorf("got %+v; parts %q", out, got)
		}
	})
	t.Run("output", func(t *testing.T) {
		s := v.stage(t, path, server.URL)
		run, err := s.begin(t).Start(t.Context(), "test", json.RawMessage(`{"prompt":"run: sleep 0.1; expr 40 + 2"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = s.finish(t, run)
		printed := "42"
		if v.name == "gemini" { // it does not tell
			printed = ""
		}
		if got := parts(s.fold(t, run.ID())); !slices.ContainsFunc(got, func(l string) bool {
			return strings.HasPrefix(l, "tool bash sleep 0.1; expr 40 + 2:") && strings.Contains(l, printed)
		}) {
			t.Errorf("parts %q", got)
		}
		s.replayed(t, run.ID())
	})
	t.Run("stop and resume", func(t *testing.T) {
		s := v.stage(t, path, server.URL)
		run := s.endless(t)
		s.engine.Close()
		s.pool.Close()
		s.resumes(t, run)
	})
	t.Run("allowed when it had ended", func(t *testing.T) {
		s := v.stage(t, path, server.URL)
		run, err := s.begin(t).Start(t.Context(), "test", json.RawMessage(`{"prompt":"make it"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		out := wait(t, run)
		s.engine.Close()
		s.pool.Close()
		s.begin(t)
		s.allow(t, run, out, "once")
		again, err := s.engine.Resume(t.Context(), run.ID(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if out = wait(t, again); string(out.Output) != `"It goes on."` { // without another question
			t.Errorf("got %+v; parts %q", out, parts(s.fold(t, run.ID())))
		}
		if b, err := os.ReadFile(filepath.Join(s.dir, "made.txt")); err != nil || string(b) != "hi\n" {
			t.Errorf("the file has %q, %v", b, err)
		}
		s.replayed(t, run.ID())
	})
	t.Run("kill the agent", func(t *testing.T) {
		s := v.stage(t, path, server.URL)
		run := s.endless(t)
		s.killed()
		if out := wait(t, run); string(out.Output) != `"It goes on."` {
			t.Errorf("got %+v", out)
		}
		s.replayed(t, run.ID())
	})
	t.Run("kill both and resume", func(t *testing.T) {
		s := v.stage(t, path, server.URL)
		store := runlogtest.NewMortal()
		s.store = store
		run := s.endless(t)
		store.Die()
		s.killed()
		s.engine.Close()
		s.pool.Close()
		store.Revive()
		again, err := s.begin(t).Resume(t.Context(), run.ID(), nil)
		if err != nil {
			t.Fatal(err)
		}
		out, asked := s.finish(t, again)
		if string(out.Output) != `"It goes on."` {
			t.Errorf("got %+v", out)
		}
		t.Log("asked", asked)
		s.replayed(t, run.ID())
	})
}

// endless starts a run that is in the middle of a text.
func (s *stage) endless(t *testing.T) *superstep.Run {
	t.Helper()
	run, err := s.begin(t).Start(t.Context(), "test", json.RawMessage(`{"prompt":"endless"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for rec, err := range run.Follow(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(rec.Data), "word ") {
			return run
		}
	}
	t.Fatal("it said nothing")
	return nil
}

func (s *stage) resumes(t *testing.T, run *superstep.Run) {
	t.Helper()
	again, err := s.begin(t).Resume(t.Context(), run.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out := wait(t, again); string(out.Output) != `"It goes on."` {
		t.Errorf("got %+v", out)
	}
	s.replayed(t, run.ID())
}
