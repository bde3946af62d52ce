package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/superstep-dev/superstep/internal/events/eventstest"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// The scripts are sessions at the command line; those of its conventions are TestConventions. Besides the usual commands they have:
//
//	code N cmd...        run it in this process and expect that exit code
//	code N exec cmd...   the same with a process, as for what is no command of ours
//	within D cmd...      as code 0, and no longer than that beside a program that does nothing
//	isjson               standard output is one JSON value
//	isjsonl [exit]       it is one stream of events, the last run.finished with that exit code
//	noesc                no stream has an ESC byte
//	normal STREAM FILE   write a stream without IDs, times and durations
//	[sandbox]            a condition: the system can confine commands; true in CI, where it has to
//
// Every event that the commands print, wherever to, is checked against its schema: of the command in this package by testOptions, of
// the whole one by code and its like.
//
// What has to do with signals, pipes or standard input starts processes. A race detector makes these slow; so the scripts run without
// one. The tests that call the package run with it.
func TestScripts(t *testing.T) {
	faults.Unraced(t)
	faults.HangsUp(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Condition:           scriptCondition,
		Setup: func(e *testscript.Env) error {
			if err := callInProcess(e, "testdata/script", map[string]hosted{"superstep": testProgram}); err != nil {
				return err
			}
			e.Setenv("SUPERSTEP_DATA_DIR", e.WorkDir+"/data")
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("XDG_CONFIG_HOME", e.WorkDir+"/home/.config")
			e.Setenv("TERM", "xterm-256color")
			return nil
		},
		Cmds: scriptCommands(),
	})
}

func scriptCondition(cond string) (bool, error) {
	if cond != "sandbox" {
		return false, fmt.Errorf("unknown condition %q", cond)
	}
	s, err := sandbox.New(nil) // where tests run for everybody it has to be there
	if err != nil {
		return false, err
	}
	return os.Getenv("CI") != "" || s.Mode() != sandbox.None, s.Close()
}

func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"code": func(ts *testscript.TestScript, _ bool, args []string) {
			want, err := strconv.Atoi(args[0])
			ts.Check(err)
			expect(ts, want, args[1:])
		},
		"within": func(ts *testscript.TestScript, _ bool, args []string) {
			limit, err := time.ParseDuration(args[0])
			ts.Check(err)
			best, nothing := 2*time.Hour, time.Hour
			took := func(cmd ...string) time.Duration {
				start := time.Now()
				expect(ts, 0, append([]string{"exec"}, cmd...))
				return time.Since(start)
			}
			for tries := time.Now(); best-nothing > limit && time.Since(tries) < 30*time.Second; { // the machine may be busy with something else
				nothing = min(nothing, took("nothing"))
				best = min(best, took(args[1:]...))
			}
			if best-nothing > faults.Bound(limit) {
				ts.Fatalf("took %s, which is longer than %s beside the %s of a program that does nothing", best, limit, nothing)
			}
		},
		"isjson": func(ts *testscript.TestScript, _ bool, _ []string) {
			var v any
			if err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &v); err != nil {
				ts.Fatalf("stdout is not JSON: %v\n%s", err, ts.ReadFile("stdout"))
			}
		},
		"isjsonl": isJSONLines,
		"noesc": func(ts *testscript.TestScript, neg bool, _ []string) {
			all := ts.ReadFile("stdout") + ts.ReadFile("stderr")
			if found := strings.ContainsRune(all, '\x1b'); found != neg {
				ts.Fatalf("ESC found: %t\n%q", found, all)
			}
			if strings.ContainsAny(all, "\u009b\u202e\x00\a") {
				ts.Fatalf("a control character came through: %q", all)
			}
		},
		"normal": func(ts *testscript.TestScript, _ bool, args []string) {
			ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(normalise(ts.ReadFile(args[0]))), 0o600))
		},
	}
}

func expect(ts *testscript.TestScript, want int, args []string) {
	got, out := call(ts, args)
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	checkEvents(ts, out)
}

// checker checks all events that a script prints.
var checker = sync.OnceValues(eventstest.New)

func checkEvents(ts *testscript.TestScript, out string) int {
	c, err := checker()
	ts.Check(err)
	n, err := c.All([]byte(out))
	ts.Check(err)
	return n
}

func isJSONLines(ts *testscript.TestScript, _ bool, args []string) {
	lines := strings.Split(strings.TrimSuffix(ts.ReadFile("stdout"), "\n"), "\n")
	if n := checkEvents(ts, ts.ReadFile("stdout")); n != len(lines) {
		ts.Fatalf("%d lines are %d events", len(lines), n)
	}
	var last struct {
		N    int
		Type string
		Data struct {
			Exit   int
			Status string
		}
	}
	ts.Check(json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	if last.Type != "run.finished" || last.N != len(lines) { // of the one stream
		ts.Fatalf("the last event is %q, number %d of %d", last.Type, last.N, len(lines))
	}
	if len(args) > 0 && args[0] != strconv.Itoa(last.Data.Exit) {
		ts.Fatalf("run.finished says exit %d, want %s", last.Data.Exit, args[0])
	}
}

// normalise takes out what differs from one run to the next.
func normalise(s string) string {
	for _, r := range []struct{ from, to string }{
		{`"ts":"[^"]*"`, `"ts":"TS"`},
		{`"(duration|took)_ms":\d+`, `"${1}_ms":0`},
		{`,"first_ms":\d+`, ``},
		{`(?m)^\d\d:\d\d:\d\d`, `00:00:00`},
		{`\b\d+\.\ds\b`, `0.0s`},
		{`\b[0-9a-f]{8}\b`, `ID`},
		{`"sandbox":"[^"]*",`, ``},
		{` sandbox=(namespaces|landlock \(ABI \d+\)|seatbelt \(untested\)|none \(.*\))`, ``},
		{`\b(finished|paused|failed) \d+s`, `$1 0s`},
	} {
		s = regexp.MustCompile(r.from).ReplaceAllString(s, r.to)
	}
	return s
}
