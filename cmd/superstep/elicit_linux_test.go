package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/internal/faults"
)

// TestAskingServer is the server of TestServerAsksKilled, on standard input and output, if an argument names the folder of its list of calls. It tests
// nothing.
func TestAskingServer(t *testing.T) {
	if flag.NArg() == 0 {
		return
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "asking", Version: "1"}, nil)
	for name, hints := range map[string]*sdk.ToolAnnotations{"book": nil, "find": {ReadOnlyHint: true}} {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: hints}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			list, err := os.OpenFile(filepath.Join(flag.Arg(0), "list"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return nil, err
			}
			defer list.Close()
			if _, err := fmt.Fprintln(list, "called"); err != nil {
				return nil, err
			}
			res, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Which seat?", RequestedSchema: json.RawMessage(`{"type":"object","required":["seat"],"properties":{"seat":{"type":"integer"}}}`)})
			if err != nil {
				return nil, err
			}
			_, err = fmt.Fprintln(list, res.Action, res.Content["seat"])
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint("BOOKED ", res.Content["seat"])}}}, err
		})
	}
	if err := s.Run(t.Context(), &sdk.StdioTransport{}); err != nil {
		t.Error(err)
	}
	os.Exit(0) // before anything else is written to its output
}

// A process is killed while a server asks the user. Its server ends with it. A call that may be repeated is repeated and asks again, and one that must not
// happen twice is asked about first. The answer counts also if it is given before the run is resumed, and then is not asked for twice.
func TestServerAsksKilled(t *testing.T) {
	bin := faults.Command(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	type step struct {
		args []string // of the command; nil waits until the question is asked again
		code int
		want string
	}
	resume := []string{"runs", "resume", "@last"}
	answer := func(with string) []string { return []string{"runs", "answer", "@last", with} }
	const seat, unknown = `{"decision":"accept","seat":9}`, "it must not happen twice. Did it happen?"
	for name, c := range map[string]struct {
		tool  string
		steps []step
		calls string
	}{
		"repeated":                 {"find", []step{{append(resume, "&"), 0, "BOOKED 9"}, {nil, 0, ""}, {answer(seat), 0, "the answer is recorded"}}, "called\ncalled\naccept 9\n"},
		"repeated with the answer": {"find", []step{{answer(seat), 0, "BOOKED 9"}}, "called\ncalled\naccept 9\n"},
		"once":                     {"book", []step{{resume, 3, "book[1.1] -> withdrawn (interruption)"}, {resume, 3, unknown}, {answer("it happened"), 0, "its output is lost"}}, "called\n"},
		"once with the answer":     {"book", []step{{answer(seat), 3, unknown}, {answer("do it again"), 0, "BOOKED 9"}}, "called\ncalled\naccept 9\n"},
	} {
		for _, store := range []string{"file", "sqlite"} {
			t.Run(name+" "+store, func(t *testing.T) {
				w := newSite(t)
				folder := filepath.Join(w.dir, "calls")
				plant(t, w.dir, map[string]string{"calls/.keep": "", ".mcp.json": fmt.Sprintf(
					`{"mcpServers":{"asking":{"command":%q,"args":["-test.run=^TestAskingServer$",%q],"write":["calls"]}}}`, self, folder)})
				w.env["SUPERSTEP_STORE"] = store + ":" + filepath.Join(t.TempDir(), "store")
				if code, _, errs := w.run("trust", "--yes"); code != 0 {
					t.Fatalf("exit code %d\n%s", code, errs)
				}
				until := func(what string, ok func() bool) {
					t.Helper()
					for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
						if time.Now().After(deadline) {
							_, shown, errs := w.run("runs", "show", "@last")
							t.Fatalf("no %s\n%s%s", what, shown, errs)
						}
					}
				}
				asks := func() bool {
					_, shown, _ := w.run("runs", "show", "@last")
					return strings.Contains(shown, "> Which seat?")
				}
				calls := func() string { list, _ := os.ReadFile(filepath.Join(folder, "list")); return string(list) }
				servers := func() string { out, _ := exec.Command("pgrep", "-f", folder).Output(); return string(out) }
				start := func(args ...string) (cmd *exec.Cmd, said *bytes.Buffer) {
					said = new(bytes.Buffer)
					cmd = exec.Command(bin, args...)
					for k, v := range w.env {
						cmd.Env = append(cmd.Env, k+"="+v)
					}
					cmd.Stdout, cmd.Stderr = said, said
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // if it has not ended
					return cmd, said
				}
				cmd, _ := start("run", "agent", fmt.Sprintf(`STEPS [["mcp__asking__%s",{}]]`, c.tool), "--allow", "mcp__asking__*", "--on-ask", "wait")
				until("question", asks)
				if servers() == "" {
					t.Fatal("no server is found")
				}
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				until("end of the server", func() bool { return servers() == "" })
				var behind func()
				for _, s := range c.steps {
					check := func(code int, said string) {
						t.Helper()
						if code != s.code || !strings.Contains(said, s.want) {
							t.Errorf("%q: exit code %d, want %d and %q\n%s", s.args, code, s.code, s.want, said)
						}
					}
					switch n := len(s.args) - 1; {
					case n < 0:
						until("repeated call", func() bool { return calls() == "called\ncalled\n" })
						until("question", asks)
					case s.args[n] == "&":
						cmd, said := start(s.args[:n]...)
						behind = func() { _ = cmd.Wait(); check(cmd.ProcessState.ExitCode(), said.String()) }
					default:
						code, out, errs := w.run(s.args...)
						check(code, out+errs)
					}
				}
				if behind != nil {
					behind()
				}
				if got := calls(); got != c.calls {
					t.Errorf("the server has had %q, want %q", got, c.calls)
				}
				until("end of the server", func() bool { return servers() == "" })
				if code, out, errs := w.run("runs", "replay", "@last"); code != 0 {
					t.Errorf("replay: exit code %d\n%s%s", code, out, errs)
				}
			})
		}
	}
}
