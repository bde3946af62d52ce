package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
)

// The conventions of the command line have a script each, which its number begins. In them superstep is the whole command, and flows
// the one with the workflows of flows_test.go. Every script has a server of a model of its own, see playSteps; who sets OPENAI_API_KEY
// uses it. Besides the commands of other scripts they have:
//
//	in D N cmd...    as code N, and no longer than D, which is ten times the goal
//	asked N          the model was asked N times since that was asked last; + is any number but 0
//
// What needs a terminal, or more of the system, is a test named after the convention, such as TestConvention03Prompts.
func TestConventions(t *testing.T) {
	if raced {
		t.Skip("the command that they start has no race detector")
	}
	bin := whole(t)
	cmds := scriptCommands()
	cmds["asked"] = func(ts *testscript.TestScript, _ bool, args []string) {
		s, seen := ts.Value("server").(*modeltest.Server), ts.Value("seen").(*int)
		n := len(s.Requests()) - *seen
		*seen += n
		if args[0] != strconv.Itoa(n) && (args[0] != "+" || n == 0) {
			ts.Fatalf("the model was asked %d times, want %s", n, args[0])
		}
	}
	cmds["in"] = func(ts *testscript.TestScript, _ bool, args []string) {
		limit, err := time.ParseDuration(args[0])
		ts.Check(err)
		want, err := strconv.Atoi(args[1])
		ts.Check(err)
		start := time.Now()
		expect(ts, want, args[2:])
		if took := time.Since(start); took > limit {
			ts.Fatalf("took %s, longer than %s", took, limit)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script/conventions",
		RequireExplicitExec: true,
		Condition:           scriptCondition,
		Cmds:                cmds,
		Setup: func(e *testscript.Env) error {
			server, err := modeltest.Start(playSteps, nil)
			if err != nil {
				return err
			}
			e.Defer(server.Close)
			e.Values["server"], e.Values["seen"] = server, new(int)
			for name, value := range map[string]string{
				"PATH": bin + string(os.PathListSeparator) + e.Getenv("PATH"), "TERM": "xterm-256color",
				"HOME": e.WorkDir + "/home", "XDG_CONFIG_HOME": e.WorkDir + "/home/.config", "SUPERSTEP_DATA_DIR": e.WorkDir + "/data", "OPENAI_BASE_URL": server.URL,
			} {
				e.Setenv(name, value)
			}
			for _, name := range []string{"OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM"} { // others on this machine are not to be found
				e.Setenv(name+"_BASE_URL", "http://127.0.0.1:1/v1")
			}
			return os.MkdirAll(e.WorkDir+"/home", 0o700)
		},
	})
}

// Every convention that applies to the command line has a script or a test.
func TestConventionsAreAll(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/script/conventions/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range scripts {
		found = append(found, filepath.Base(file)[:2])
	}
	for _, file := range tests {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func TestConvention(\d\d)`).FindAllSubmatch(text, -1) {
			found = append(found, string(m[1]))
		}
	}
	for n := 1; n <= 42; n++ {
		if name := fmt.Sprintf("%02d", n); (n <= 27 || n >= 38 && n != 41) && !slices.Contains(found, name) {
			t.Errorf("convention %s has no test", name)
		}
	}
}

// playSteps is a model that does what it is told: of a message that begins with STEPS and has a JSON array of tool calls, it makes one
// in each turn. Then, and to everybody else, it says what it was told by tools. Each turn costs 100 tokens in and 10 out.
func playSteps(r *modeltest.ParsedRequest) modeltest.Reply {
	var results []string
	var steps [][2]json.RawMessage
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if p.Kind == model.Result {
				results = append(results, p.Text)
			}
		}
		if _, list, ok := strings.Cut(m.Text(), "STEPS "); ok && m.Role == model.User {
			if err := json.NewDecoder(strings.NewReader(list)).Decode(&steps); err != nil {
				return modeltest.Failure(400, "")
			}
		}
	}
	reply := modeltest.Text("it has: " + strings.Join(results, " | "))
	if n := len(results); n < len(steps) {
		name, _ := strconv.Unquote(string(steps[n][0]))
		reply = modeltest.Call(name, string(steps[n][1]))
	}
	reply.Parts = append(reply.Parts, model.Part{Kind: model.UsagePart, Usage: &model.Usage{In: 100, Out: 10}})
	return reply
}
